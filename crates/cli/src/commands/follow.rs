//! `blockmill follow`.

use crate::arguments::follow::FollowArguments;
use crate::commands::connect::{open_engine, options_from_files, page_of, say_halt, say_leftovers};
use crate::failure::Failure;
use crate::feed::exec::Runner;
use crate::listener::Listener;
use crate::output;
use crate::progress::EngineMeter;
use crate::service;
use crate::verifier::Verifier;
use blockmill_chain::report::events::Flushed;
use blockmill_chain::{BlockChange, Event, Observer};
use blockmill_coins::Tip;
use blockmill_engine::{ConnectError, ConnectReport, Engine, Options};
use serde_json::{Value, json};
use std::io::Write;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Writes a line for each block and each flush, once the engine has caught up.
struct Lines {
    meter: EngineMeter,
    is_json: bool,
    has_caught_up: bool,
    /// Told of the tip at which the engine has caught up first.
    begin: Option<Sender<Tip>>,
    /// Set where a line cannot be written.
    stop: Arc<AtomicBool>,
    /// Why it could not.
    failure: Option<std::io::Error>,
}

impl Lines {
    fn write(&mut self, text: &str, fields: &Value) {
        let mut out = output::stdout();
        let written = if self.is_json {
            output::json_line(&mut out, fields)
        } else {
            writeln!(out, "{text}").and_then(|()| out.flush())
        };
        if let Err(error) = written {
            self.failure.get_or_insert(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn block(&mut self, event: &str, change: &BlockChange<'_>) {
        if !self.has_caught_up {
            return;
        }
        let block = change.block;
        let (hash, inputs) = (block.hash().to_string(), change.undo.coins().len());
        let text = format!(
            "{event}: height {}, {hash}, {} transactions, {inputs} inputs",
            change.height,
            block.transaction_count()
        );
        let fields = json!({
            "event": event,
            "height": change.height,
            "block_hash": hash,
            "block_time": block.header().time,
            "transactions": block.transaction_count(),
            "inputs": inputs,
            "block_size": block.bytes().len(),
        });
        self.write(&text, &fields);
    }
}

impl Lines {
    fn caught_up(&mut self, tip: &Tip) {
        self.meter.meter.clear();
        service::ready();
        self.has_caught_up = true;
        if let Some(begin) = self.begin.take() {
            // Without a command nobody listens.
            let _ = begin.send(*tip);
        }
        let text = format!("tip: height {}, {}", tip.height, tip.hash);
        let fields = json!({"event": "tip", "height": tip.height, "block_hash": tip.hash.to_string()});
        self.write(&text, &fields);
    }

    fn flushed(&mut self, flushed: &Flushed) {
        if !self.has_caught_up {
            return;
        }
        let (tip, seconds) = (flushed.tip, flushed.time.as_secs_f64());
        let text = format!(
            "flushed: height {}, {} changes in {seconds:.3} s",
            tip.height, flushed.changes
        );
        let fields = json!({
            "event": "flushed",
            "height": tip.height,
            "block_hash": tip.hash.to_string(),
            "changes": flushed.changes,
            "seconds": seconds,
        });
        self.write(&text, &fields);
    }
}

impl Observer for Lines {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Indexing(_) => service::alive("reading headers"),
            Event::Progress(_) | Event::LookFailed(_) => service::alive(&event.to_string()),
            _ => {}
        }
        // For each new block a few headers are read.
        if !(self.has_caught_up && matches!(event, Event::Indexing(_))) {
            self.meter.event(event);
        }
        match event {
            Event::Connected(change) => self.block("connected", change),
            Event::Disconnected(change) => self.block("disconnected", change),
            Event::CaughtUp(tip) => self.caught_up(tip),
            Event::Flushed(flushed) => self.flushed(flushed),
            _ => {}
        }
    }
}

pub(crate) fn run(arguments: &FollowArguments) -> Result<u8, Failure> {
    let from_files = &arguments.from_files;
    let options = options_from_files(from_files)?;
    service::begin();
    let command = page_of("follow", &options, from_files);
    from_files
        .page
        .during(&command, |live| follow(arguments, &options, live))
}

fn follow(arguments: &FollowArguments, options: &Options, live: Option<Arc<dyn Listener>>) -> Result<u8, Failure> {
    let from_files = &arguments.from_files;
    let stop = Arc::clone(&options.stop);
    let Some(mut engine) = open_engine(from_files, options, live.as_deref())? else {
        return Ok(0);
    };
    let network = engine.directory().chain_id().network;
    let (begin, begun) = channel();
    let mut lines = Lines {
        meter: EngineMeter::with_live(live),
        is_json: arguments.json,
        has_caught_up: false,
        begin: Some(begin),
        stop: Arc::clone(&stop),
        failure: None,
    };
    std::thread::scope(|scope| {
        let runner = arguments.exec.as_ref().map(|command| {
            let runner = Runner {
                command,
                data: &from_files.data.data,
                network,
                stop: &stop,
            };
            let stop = &stop;
            scope.spawn(move || {
                let Ok(tip) = begun.recv() else {
                    return Ok(());
                };
                let outcome = runner.run(tip);
                // What it cannot do, the process does not go on without.
                stop.store(true, Ordering::Relaxed);
                outcome
            })
        });
        let followed = follow_until_stopped(&mut engine, &from_files.blocks, &mut lines);
        service::stopping();
        stop.store(true, Ordering::Relaxed);
        lines.begin = None;
        let ran = runner.map(|runner| runner.join().unwrap_or_else(|panic| resume_unwind(panic)));
        followed?.iter().for_each(say_halt);
        ran.transpose()?;
        Ok::<_, Failure>(())
    })?;
    if let Some(error) = lines.failure {
        return Err(error.into());
    }
    engine.close_unused()?;
    Ok(0)
}

/// Returns the report of the first run. What that has left over is said when it has ended.
fn follow_until_stopped(
    engine: &mut Engine<Verifier>,
    sources: &[PathBuf],
    lines: &mut Lines,
) -> Result<Option<ConnectReport>, ConnectError> {
    let mut follower = engine.follow(sources);
    let first = follower.next(lines)?;
    first.iter().for_each(say_leftovers);
    while follower.next(lines)?.is_some() {}
    Ok(first)
}

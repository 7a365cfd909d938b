//! `blockmill connect`.

pub(crate) mod report;

use crate::arguments::{ConnectArguments, EngineArguments, FromFilesArguments};
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::listener::{Command, Listener};
use crate::log;
use crate::output;
use crate::progress::EngineMeter;
use crate::service;
use crate::signals;
use crate::trace::Trace;
use crate::verifier::{Verifier, verifier};
use crate::whole;
use blockmill_blockfiles::BlockFiles;
use blockmill_chain::{Event, Observer};
use blockmill_datadir::OpenError;
use blockmill_engine::report::{Halt, Spans};
use blockmill_engine::{ConnectReport, Engine, Options};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The engine's options that several commands share.
pub(crate) fn options(arguments: &EngineArguments) -> Result<Options, Failure> {
    let defaults = Options::default();
    Ok(Options {
        threads: arguments.par.unwrap_or(defaults.threads),
        cache_bytes_max: (arguments.dbcache as usize) << 20,
        flush_interval: Duration::from_secs_f64(arguments.flush_seconds),
        stop: signals::stop_flag()?,
        ..defaults
    })
}

/// Fails if a source is missing, so that a mistyped path makes no data directory.
pub(crate) fn check_sources(sources: &[PathBuf]) -> Result<(), Failure> {
    let mut files = BlockFiles::new();
    for source in sources {
        files.add(source)?;
    }
    Ok(())
}

/// How the engine connects blocks from files. Fails if a source is missing.
pub(crate) fn options_from_files(arguments: &FromFilesArguments) -> Result<Options, Failure> {
    check_sources(&arguments.blocks)?;
    Ok(Options {
        assume_valid: arguments.assume_valid.0,
        signatures: arguments.signatures,
        ..options(&arguments.engine)?
    })
}

/// What a page says of a command before it begins.
pub(crate) fn page_of<'a>(name: &'static str, options: &'a Options, from_files: &'a FromFilesArguments) -> Command<'a> {
    let data = &from_files.data;
    let status = from_files.page.is_served().then(|| data.status()).flatten();
    Command {
        name,
        threads: options.threads,
        cache_bytes_max: Some(options.cache_bytes_max as u64),
        data: Some((data.data.as_path(), status)),
        stop: &options.stop,
    }
}

/// Opens the engine, and says where it goes on. With `--wait` it waits until no other process has
/// the directory. None where a signal came meanwhile, which is said.
pub(crate) fn open_engine(
    arguments: &FromFilesArguments,
    options: &Options,
    live: Option<&dyn Listener>,
) -> Result<Option<Engine<Verifier>>, Failure> {
    let mut is_said = false;
    let engine = loop {
        let builder = arguments.data.engine()?.options(options.clone());
        match builder.open(verifier(options.signatures)) {
            Err(OpenError::Locked { path, writer }) if arguments.wait => {
                if options.stop.load(Ordering::Relaxed) {
                    // The thread of signals may not have come to it yet.
                    signals::answer();
                    let text = format!("{}: in use by {writer}: stopped, and nothing was done", path.display());
                    log::info("stopped", &text, json!({"data": output::path_text(&path)}));
                    return Ok(None);
                }
                if !std::mem::replace(&mut is_said, true) {
                    let text = format!("{}: in use by {writer}: waiting for it to end", path.display());
                    if let Some(live) = live {
                        live.waits_for_lock();
                    }
                    doing::set(Doing::Something("waiting for the other process"));
                    log::info("waiting", &text, json!({"data": output::path_text(&path)}));
                }
                service::alive("waiting for the other process");
                std::thread::sleep(LOCK_LOOK);
            }
            opened => break opened?,
        }
    };
    doing::set_flushed(engine.height());
    if let Some(live) = live {
        let directory = engine.directory();
        let network = directory.chain_id().network.name();
        live.opened(network, engine.height(), engine.live_totals());
    }
    if engine.height() > 0 {
        let text = format!("going on from height {}", engine.height());
        log::info("resumed", &text, json!({"height": engine.height()}));
    }
    Ok(Some(engine))
}

/// Between two looks at the lock of a data directory.
const LOCK_LOOK: Duration = Duration::from_millis(200);

/// Reports the blocks that were not connected. Rejected blocks were reported during the run.
pub(crate) fn say_leftovers(report: &ConnectReport) {
    if report.left_out > 0 {
        let text = format!(
            "{} blocks are left out: they build on blocks whose headers were rejected",
            report.left_out
        );
        log::warning("left_out", &text, json!({"blocks": report.left_out}));
    }
    whole::say(&report.wholeness());
}

/// Reports the height at which a signal stopped the run, if one did.
pub(crate) fn say_halt(report: &ConnectReport) {
    if report.halt == Halt::Stopped {
        // The thread of signals may not have come to it yet.
        signals::answer();
        let text = format!("stopped at height {}", report.height);
        log::info("stopped", &text, json!({"height": report.height}));
    }
}

/// Shows what happens, and takes spans out for the trace.
struct Watcher {
    meter: EngineMeter,
    trace: Option<Trace>,
    spans: Spans,
}

impl Watcher {
    fn trace(&mut self) {
        if let Some(trace) = &mut self.trace {
            self.spans.drain(|thread, span| trace.add(thread, span));
        }
    }
}

impl Observer for Watcher {
    fn event(&mut self, event: &Event<'_>) {
        self.meter.event(event);
        if let Event::Progress(_) = event {
            self.trace();
        }
    }
}

fn print(report: &ConnectReport, arguments: &ConnectArguments) -> io::Result<()> {
    let cpu_seconds = output::cpu_seconds();
    if arguments.json {
        output::json_line(&mut output::stdout(), &report::json_of(report, cpu_seconds))
    } else if arguments.verbose {
        report::print_table(report, cpu_seconds)
    } else {
        let mut out = output::stdout();
        writeln!(out, "{}", report::line(report))?;
        out.flush()
    }
}

pub(crate) fn run(arguments: &ConnectArguments) -> Result<u8, Failure> {
    // First, so that a name which is taken makes no data directory.
    let trace = arguments.trace.as_deref().map(Trace::create).transpose()?;
    let from_files = &arguments.from_files;
    let options = Options {
        stop_at_height: arguments.stop_at_height,
        trace: arguments.trace.is_some(),
        ..options_from_files(from_files)?
    };
    let command = page_of("connect", &options, from_files);
    from_files
        .page
        .during(&command, |live| connect(arguments, &options, trace, live))
}

fn connect(
    arguments: &ConnectArguments,
    options: &Options,
    trace: Option<Trace>,
    live: Option<Arc<dyn Listener>>,
) -> Result<u8, Failure> {
    let from_files = &arguments.from_files;
    let Some(mut engine) = open_engine(from_files, options, live.as_deref())? else {
        return Ok(0);
    };
    if let Some(height_max) = arguments.stop_at_height
        && height_max < engine.height()
    {
        let text = format!("--stop-at-height {height_max} is below the tip, so no block is connected");
        log::warning(
            "above_stop",
            &text,
            json!({"height_max": height_max, "height": engine.height()}),
        );
    }
    let mut watcher = Watcher {
        meter: EngineMeter::with_live(live),
        trace,
        spans: engine.spans(),
    };
    let report = engine.connect(&from_files.blocks, &mut watcher);
    // The trace of a run that fails is of use, too.
    watcher.trace();
    let traced = watcher.trace.take().map_or(Ok(()), Trace::finish);
    let report = report?;
    drop(watcher);
    say_leftovers(&report);
    say_halt(&report);
    let printed = print(&report, arguments);
    // The report is out before a failure ends the command, and no reader is needed to tidy up.
    let closed = match report.leftovers {
        0 => engine.close_unused().map(drop),
        _ => Ok(()),
    };
    printed?;
    traced?;
    closed?;
    Ok(whole::exit_status(report.outcome()))
}

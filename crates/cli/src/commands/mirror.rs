//! `blockmill mirror`.

use crate::arguments::mirror::{MirrorArguments, MirrorTable};
use crate::commands::threads;
use crate::failure::Failure;
use crate::log;
use crate::mirror::database::Database;
use crate::mirror::schema::Schema;
use crate::mirror::session::Mirror;
use crate::mirror::target::{Target, is_retried};
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_coins::Tip;
use serde_json::json;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Before the next attempt: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

/// Without `--follow`, attempts end so long after the last one that has changed the tables.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Between two looks at the stop flag.
const STEP: Duration = Duration::from_millis(20);

/// Time that the server has to end what it does, after a signal. What it does not end by then has
/// no effect: its transaction is not complete.
const GRACE: Duration = Duration::from_millis(800);

pub(crate) fn run(arguments: &MirrorArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mirror = Arc::new(Mirror {
        data: arguments.data.clone(),
        database: Database::new(Target::new(&arguments.to)?, Arc::clone(&stop)),
        schema: Schema::new(&arguments.schema),
        tables: tables(&arguments.tables),
        from: arguments.from,
        follows: arguments.follow,
        threads: threads(arguments.par),
        has_connected: AtomicBool::new(false),
        tip: Mutex::new(None),
    });
    let tip = until_stopped(&mirror, &stop)?;
    say(arguments, &tip)?;
    Ok(0)
}

/// The tables, each once, in one order.
fn tables(asked: &[MirrorTable]) -> Option<Vec<MirrorTable>> {
    let tables = MirrorTable::ALL.into_iter().filter(|table| asked.contains(table));
    (!asked.is_empty()).then(|| tables.collect())
}

/// Runs a mirror on a thread of its own, so that a signal ends the command although a server does
/// not answer.
fn until_stopped(mirror: &Arc<Mirror>, stop: &AtomicBool) -> Result<Tip, Failure> {
    let (sender, outcome) = channel();
    let of_thread = Arc::clone(mirror);
    Builder::new().name("mirror".to_owned()).spawn(move || {
        // Nobody waits for it after a signal.
        let _ = sender.send(persist(&of_thread));
    })?;
    let mut end = None;
    loop {
        match outcome.recv_timeout(STEP) {
            Ok(Err(_)) if stop.load(Ordering::Relaxed) => return mirror.stopped(),
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Corrupt("the mirror has ended without a result".to_owned()));
            }
        }
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let end = *end.get_or_insert_with(|| Instant::now() + GRACE);
        if Instant::now() >= end {
            return mirror.stopped();
        }
        let mirror = Arc::clone(mirror);
        Builder::new()
            .name("cancel".to_owned())
            .spawn(move || mirror.database.cancel())?;
    }
}

/// Runs a mirror, and again with back-off where the table in `sql_error` has that.
fn persist(mirror: &Mirror) -> Result<Tip, Failure> {
    let mut meter = EngineMeter::new();
    let (mut pause, mut failing) = (PAUSE.0, None);
    loop {
        let failure = match mirror.run(&mut meter) {
            Ok(tip) => return Ok(tip),
            Err(failure) => failure,
        };
        if mirror.database.take_move() {
            (pause, failing) = (PAUSE.0, None);
        }
        let since = failing.get_or_insert_with(Instant::now);
        let is_wanted = mirror.follows
            || mirror.has_connected.load(Ordering::Relaxed)
                && since.elapsed() < RETRY_MAX
                && !matches!(failure, Failure::Behind(_));
        if !is_retried(&failure) || !is_wanted {
            return Err(failure);
        }
        let seconds = pause.as_secs_f64();
        let text = format!("{failure}; it is tried again in {seconds} s");
        log::warning(
            "mirror_waits",
            &text,
            json!({"detail": failure.to_string(), "seconds": seconds}),
        );
        mirror.database.wait(pause)?;
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn say(arguments: &MirrorArguments, tip: &Tip) -> Result<(), Failure> {
    let mut out = output::stdout();
    let schema = &arguments.schema;
    let fields = json!({"schema": schema, "height": tip.height, "block_hash": tip.hash.to_string()});
    match arguments.json {
        true => output::json_line(&mut out, &fields)?,
        false => writeln!(out, "{schema}: height {}, {}", tip.height, tip.hash)?,
    }
    Ok(out.flush()?)
}

//! Runs a mirror until it is done, or is to stop.

use crate::database::Database;
use crate::error::MirrorError;
use crate::options::Options;
use crate::schema::Schema;
use crate::session::Mirror;
use crate::target::Target;
use crate::witness::Witness;
use blockmill_chain::Level;
use blockmill_coins::Tip;
use serde_json::json;
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

/// Brings the tables to the tip of a data directory, and follows it if requested. Returns the block
/// that the tables are at.
///
/// # Errors
/// [`MirrorError`]. The tables are always consistent at some block; the same call resumes there.
pub fn run(options: Options, witness: &Arc<dyn Witness>) -> Result<Tip, MirrorError> {
    let target = Target::new(&options.to, &**witness)?;
    until_stopped(&Arc::new(Mirror {
        database: Database::new(target, Arc::clone(&options.stop), Arc::clone(witness)),
        schema: Schema::new(&options.schema),
        options,
        has_connected: AtomicBool::new(false),
        tip: Mutex::new(None),
    }))
}

/// Runs a mirror on a thread of its own, so that a signal ends the command although a server does
/// not answer.
fn until_stopped(mirror: &Arc<Mirror>) -> Result<Tip, MirrorError> {
    let stop = &mirror.options.stop;
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
                return Err(MirrorError::Corrupt("the mirror has ended without a result".to_owned()));
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
fn persist(mirror: &Mirror) -> Result<Tip, MirrorError> {
    let (mut pause, mut failing) = (PAUSE.0, None);
    loop {
        let failure = match mirror.run() {
            Ok(tip) => return Ok(tip),
            Err(failure) => failure,
        };
        if mirror.database.take_move() {
            (pause, failing) = (PAUSE.0, None);
        }
        let since = failing.get_or_insert_with(Instant::now);
        let is_wanted = mirror.options.follows
            || mirror.has_connected.load(Ordering::Relaxed)
                && since.elapsed() < RETRY_MAX
                && !matches!(failure, MirrorError::Behind(_));
        if !failure.is_retried() || !is_wanted {
            return Err(failure);
        }
        let seconds = pause.as_secs_f64();
        let text = format!("{failure}; it is tried again in {seconds} s");
        let fields = json!({"detail": failure.to_string(), "seconds": seconds});
        mirror
            .database
            .witness()
            .line(Level::Warning, "mirror_waits", &text, fields);
        mirror.database.wait(pause)?;
        pause = (pause * 2).min(PAUSE.1);
    }
}

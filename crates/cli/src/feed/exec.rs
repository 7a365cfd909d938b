//! A command that is run for each block: `follow --exec`.
//!
//! It gets the event of the feed on standard input. The next one comes when it has ended with
//! status 0; until then it is run again, after pauses that grow, while blocks are connected as
//! ever. The block that was handled last is noted in the data directory, so that a later `follow`
//! goes on there.
//!
//! The command has a process group of its own, so that a signal comes to all that it has started,
//! and comes once.

use crate::failure::Failure;
use crate::feed::follow;
use crate::log;
use crate::orphans;
use crate::signals;
use blockmill_block::Network;
use blockmill_blockfiles::disk::{Disk, SystemDisk};
use blockmill_blockfiles::{FileError, read_regular};
use blockmill_coins::Tip;
use blockmill_datadir::doctor::{Findings, Health};
use blockmill_datadir::feed::watching::OwnWatch;
use blockmill_datadir::{Cursor, Feed, FeedBlock, FeedError, NoCursor};
use blockmill_tables::event::Event;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The file of the block that was handled last.
const CURSOR_FILE: &str = "exec.cursor";

/// Before a command is run again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Between two looks whether the command has ended, or is to end.
const STEP: Duration = Duration::from_millis(5);

/// Time that a command has to end when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// What a user does with a note that nothing goes on from.
const WAY_OUT: &str = "write the hash of the block that the command has handled last into the file; only where that \
                       is not known, remove it: the command then begins after the tip, without the blocks between";

/// Runs a command for each block.
pub(crate) struct Runner<'a> {
    pub(crate) command: &'a str,
    pub(crate) data: &'a Path,
    pub(crate) network: Network,
    pub(crate) stop: &'a AtomicBool,
}

impl Runner<'_> {
    /// Runs the command for each block after the one that was handled last, until the flag is set.
    /// A directory for which it has never run begins at `tip`.
    pub(crate) fn run(&self, tip: Tip) -> Result<(), Failure> {
        self.go_on(tip).map_err(|failure| of_note(self.data, failure))
    }

    fn go_on(&self, tip: Tip) -> Result<(), Failure> {
        let cursor = match noted(self.data)? {
            Some(cursor) => cursor,
            None => {
                self.note(&tip)?;
                Cursor::Block(tip.hash)
            }
        };
        let mut feed = Feed::open(self.data, cursor)?;
        let mut watch = OwnWatch::new(self.data, self.stop);
        follow(&mut feed, &mut watch, &mut |feed| self.catch_up(feed), &mut || true)
    }

    /// Runs the command for all blocks that there are.
    fn catch_up(&self, feed: &mut Feed) -> Result<(), Failure> {
        let convert = |block: FeedBlock| {
            let handled = block.cursor_after();
            Ok((Arc::new(Event::of_block(&block, self.network).line()?), handled))
        };
        feed.run(1, &convert, &mut |(line, handled): (Arc<Vec<u8>>, Tip)| {
            self.until_done(&line, &handled)?;
            self.note(&handled)
        })?;
        Ok(())
    }

    /// Runs the command with an event until it ends with status 0.
    fn until_done(&self, event: &Arc<Vec<u8>>, handled: &Tip) -> Result<(), Failure> {
        let mut pause = PAUSE.0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.stopped());
            }
            let detail = match self.once(event, handled)? {
                Ok(status) if status.success() => return Ok(()),
                // It has got the signal, too.
                Ok(_) if self.stop.load(Ordering::Relaxed) => return Err(self.stopped()),
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let seconds = pause.as_secs_f64();
            let text = format!("--exec: {detail}; it is run again in {seconds} s");
            let fields = json!({"detail": detail, "height": handled.height, "seconds": seconds});
            log::warning("exec_failed", &text, fields);
            let end = Instant::now() + pause;
            while Instant::now() < end {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(self.stopped());
                }
                std::thread::sleep(STEP);
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn stopped(&self) -> Failure {
        Failure::Stopped(self.data.to_owned())
    }

    /// Runs the command once. The outer error ends everything.
    fn once(&self, event: &Arc<Vec<u8>>, handled: &Tip) -> Result<Result<ExitStatus, std::io::Error>, Failure> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(self.command)
            .stdin(Stdio::piped())
            .process_group(0);
        let mut child = match orphans::spawn(&mut command) {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(mut stdin) = child.stdin.take() {
            let event = Arc::clone(event);
            // A command need not read all of it, and may take its time. Nobody waits for the
            // thread: what the command has left running may hold the pipe for ever.
            let write = move || stdin.write_all(&event);
            if let Err(error) = Builder::new().name("exec".to_owned()).spawn(write) {
                kill(&mut child);
                return Ok(Err(error));
            }
        }
        self.wait(&mut child, handled)
    }

    fn wait(&self, child: &mut Child, handled: &Tip) -> Result<Result<ExitStatus, std::io::Error>, Failure> {
        let mut end = None;
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(Ok(status)),
                Err(error) => return Ok(Err(error)),
            }
            if self.stop.load(Ordering::Relaxed) && Instant::now() >= *end.get_or_insert_with(|| ask(child, handled)) {
                let seconds = GRACE.as_secs();
                let text = format!("--exec: the command has not ended in {seconds} s: it is killed");
                log::warning(
                    "exec_killed",
                    &text,
                    json!({"height": handled.height, "seconds": seconds}),
                );
                kill(child);
                return Err(self.stopped());
            }
            std::thread::sleep(STEP);
        }
    }

    /// Notes the block that was handled last, durably.
    fn note(&self, handled: &Tip) -> Result<(), Failure> {
        let path = path(self.data);
        // The next event must not be delivered while a power loss may still bring the old content
        // back: events would then be delivered again from further back than the last.
        let written = SystemDisk.replace(&path, format!("{}\n", handled.hash).as_bytes());
        written.map_err(Failure::file(&path))
    }
}

/// Has a command end, and all that it has started. Returns when it is to have done so.
fn ask(child: &Child, handled: &Tip) -> Instant {
    // Without a signal something else ends the process.
    let (signal, name) = match signals::status() {
        129 => (Signal::HUP, "SIGHUP"),
        130 => (Signal::INT, "SIGINT"),
        _ => (Signal::TERM, "SIGTERM"),
    };
    // It may have ended.
    let _ = kill_process_group(Pid::from_child(child), signal);
    let seconds = GRACE.as_secs();
    let text = format!("--exec: waiting for the command, which has got {name}; after {seconds} s it is killed");
    let fields = json!({"height": handled.height, "signal": name, "seconds": seconds});
    log::warning("exec_stopping", &text, fields);
    Instant::now() + GRACE
}

/// Ends a command, and all that it has started.
fn kill(child: &mut Child) {
    // It may have ended.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

fn path(data: &Path) -> PathBuf {
    data.join(CURSOR_FILE)
}

/// The block that was handled last.
fn noted(data: &Path) -> Result<Option<Cursor>, Failure> {
    let bytes = match read_regular(&path(data)) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error @ FileError::NotRegular { .. }) => return Err(Failure::Corrupt(format!("{error}; {WAY_OUT}"))),
        Err(error) => return Err(error.into()),
    };
    let text = String::from_utf8(bytes).unwrap_or_default();
    let cursor = text.trim_end().parse();
    cursor.map(Some).map_err(|why: NoCursor| unusable(data, why))
}

fn unusable(data: &Path, why: impl Display) -> Failure {
    Failure::Corrupt(format!("{}: {why}; {WAY_OUT}", path(data).display()))
}

/// An error of a feed from the block that was handled last.
fn of_note(data: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Feed(
            error @ (FeedError::UnknownCursor { .. } | FeedError::KeptNoLonger { .. } | FeedError::AboveTip { .. }),
        ) => unusable(data, error),
        failure => failure,
    }
}

/// Adds whether a feed goes on from the block that was handled last, for the doctor.
pub(crate) fn examine(data: &Path, findings: &mut Findings) {
    let opened = noted(data).and_then(|cursor| {
        let feed = cursor.map(|cursor| Feed::open(data, cursor)).transpose();
        feed.map_err(|error| of_note(data, error.into()))
    });
    let (health, detail) = match opened {
        Ok(None) => return,
        Ok(Some(feed)) => {
            let Tip { hash, height } = feed.cursor();
            let detail = format!("the command of follow --exec has handled block {hash} at height {height}");
            (Health::Sound, detail)
        }
        Err(Failure::Corrupt(detail)) => (Health::Damaged, detail),
        Err(Failure::BlockFiles(error)) => (Health::Unreadable, error.to_string()),
        // Another part says why.
        Err(_) => (
            Health::NotExamined,
            "whether the chain has its block is not known".to_owned(),
        ),
    };
    findings.add(CURSOR_FILE, health, detail);
}

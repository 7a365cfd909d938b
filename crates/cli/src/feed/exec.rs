//! A command that is run for each block: `follow --exec`.
//!
//! It gets the event of the feed on standard input. The next one comes when it has ended with
//! status 0; until then it is run again, after pauses that grow, while blocks are connected as
//! ever. The block that was handled last is noted in the data directory, so that a later `follow`
//! goes on there.

use crate::failure::Failure;
use crate::feed::follow;
use crate::feed::watching::OwnWatch;
use crate::log;
use blockmill_block::Network;
use blockmill_blockfiles::read_regular;
use blockmill_coins::Tip;
use blockmill_datadir::{Cursor, Feed, FeedBlock, NoCursor};
use blockmill_tables::event::Event;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The file of the block that was handled last.
const CURSOR_FILE: &str = "exec.cursor";

/// Before a command is run again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Between two looks whether the command has ended, or is to end.
const STEP: Duration = Duration::from_millis(5);

/// Time that a command has to end when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

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
        let cursor = match self.noted()? {
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
            Ok((Event::of_block(&block, self.network).line()?, handled))
        };
        feed.run(1, &convert, &mut |(line, handled): (Vec<u8>, Tip)| {
            self.until_done(&line, &handled)?;
            self.note(&handled)
        })?;
        Ok(())
    }

    /// Runs the command with an event until it ends with status 0.
    fn until_done(&self, event: &[u8], handled: &Tip) -> Result<(), Failure> {
        let mut pause = PAUSE.0;
        loop {
            let detail = match self.once(event)? {
                Ok(status) if status.success() => return Ok(()),
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
    fn once(&self, event: &[u8]) -> Result<Result<ExitStatus, std::io::Error>, Failure> {
        let spawned = Command::new("sh")
            .arg("-c")
            .arg(self.command)
            .stdin(Stdio::piped())
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // A command need not read all of it, and may take its time.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(event)));
            self.wait(&mut child)
        })
    }

    fn wait(&self, child: &mut Child) -> Result<Result<ExitStatus, std::io::Error>, Failure> {
        let mut asked = None;
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(Ok(status)),
                Err(error) => return Ok(Err(error)),
            }
            if self.stop.load(Ordering::Relaxed) && asked.get_or_insert_with(Instant::now).elapsed() > GRACE {
                let _ = child.kill();
                let _ = child.wait();
                return Err(self.stopped());
            }
            std::thread::sleep(STEP);
        }
    }

    fn path(&self) -> PathBuf {
        self.data.join(CURSOR_FILE)
    }

    /// The block that was handled last.
    fn noted(&self) -> Result<Option<Cursor>, Failure> {
        let path = self.path();
        let Some(bytes) = read_regular(&path)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).unwrap_or_default();
        let cursor = text.trim_end().parse();
        let cursor = cursor.map_err(|why: NoCursor| Failure::Corrupt(format!("{}: {why}", path.display())))?;
        Ok(Some(cursor))
    }

    /// Notes the block that was handled last, durably.
    fn note(&self, handled: &Tip) -> Result<(), Failure> {
        let (path, new) = (self.path(), self.data.join(format!("{CURSOR_FILE}.new")));
        let written = File::create(&new).and_then(|mut file| {
            writeln!(file, "{}", handled.hash)?;
            file.sync_data()?;
            fs::rename(&new, &path)
        });
        written.map_err(Failure::file(&path))
    }
}

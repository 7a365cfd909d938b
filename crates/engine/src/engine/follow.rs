//! An engine beside a node connects the blocks that the node has, and then each new one.

use crate::engine::Engine;
use crate::pipeline::error::ConnectError;
use crate::report::connect_report::{ConnectReport, Halt};
use blockmill_block::BlockHash;
use blockmill_blockfiles::{FileError, Watch, Woken};
use blockmill_chain::import::Which;
use blockmill_chain::report::events::{Event, Observer};
use blockmill_rules::ScriptVerifier;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After a block that could not be read, the least and the most time until all files are searched
/// once more.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// When all files are searched once more.
#[derive(Debug, Default)]
struct Retry {
    pause: Duration,
    /// None if there is nothing to search for.
    at: Option<Instant>,
}

impl Retry {
    /// Notes whether the last run has found a block that it could not read.
    fn note(&mut self, is_wanted: bool) {
        self.pause = if is_wanted {
            (self.pause * 2).clamp(RETRY.0, RETRY.1)
        } else {
            Duration::ZERO
        };
        self.at = is_wanted.then(|| Instant::now() + self.pause);
    }

    fn is_due(&self) -> bool {
        self.at.is_some_and(|at| at <= Instant::now())
    }
}

/// What was said of files. Each look finds it again.
#[derive(Debug, Default)]
struct Said {
    damages: HashSet<(PathBuf, u64)>,
    names: HashSet<PathBuf>,
    /// Blocks that are rejected or unreadable.
    blocks: HashSet<(BlockHash, bool)>,
    /// The most blocks that were only counted as rejected, and as unreadable.
    more: [u64; 2],
    /// Why files cannot be searched now.
    error: Option<String>,
}

impl Said {
    /// Whether an event is to be said: what a node is writing is no damage, and the rest is said
    /// once. `is_quiet` says that nothing was told of for a while.
    fn is_new(&mut self, event: &Event<'_>, is_quiet: bool) -> bool {
        match event {
            Event::Damaged(damage) => {
                is_quiet && !damage.is_harmless() && self.damages.insert((damage.path.clone(), damage.offset))
            }
            Event::MoreDamaged { path, .. } => is_quiet && self.names.insert((*path).to_owned()),
            Event::Skipped(skipped) => self.names.insert(skipped.path.clone()),
            Event::Rejected(rejected) => self.blocks.insert((rejected.hash, true)),
            Event::Unreadable(unreadable) => self.blocks.insert((unreadable.hash, false)),
            Event::MoreRejected { blocks } => raise(&mut self.more[0], *blocks),
            Event::MoreUnreadable { blocks } => raise(&mut self.more[1], *blocks),
            _ => true,
        }
    }
}

/// Raises a maximum. Returns whether that has changed it.
fn raise(most: &mut u64, count: u64) -> bool {
    count > std::mem::replace(most, count.max(*most))
}

/// The observer of a follower.
struct Listener<'a> {
    observer: &'a mut dyn Observer,
    said: &'a mut Said,
    is_quiet: bool,
    /// Whether everything is said, and noted as said.
    is_first: bool,
}

impl Observer for Listener<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if self.said.is_new(event, self.is_quiet) || self.is_first {
            self.observer.event(event);
        }
    }
}

/// An engine beside a node, which [`Engine::follow`] makes.
pub struct Follower<'e, V: ScriptVerifier + 'static> {
    engine: &'e mut Engine<V>,
    sources: &'e [PathBuf],
    watch: Watch,
    said: Said,
    retry: Retry,
    has_begun: bool,
    has_ended: bool,
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Follows the block files of a running node. Each new block is connected and durable within a
    /// second, often at once. Files may be rewritten, removed or replaced in the meantime. Read
    /// errors are reported and retried.
    pub fn follow<'e>(&'e mut self, sources: &'e [PathBuf]) -> Follower<'e, V> {
        Follower {
            engine: self,
            sources,
            // Before the first look, so that no change is missed.
            watch: Watch::new(sources),
            said: Said::default(),
            retry: Retry::default(),
            has_begun: false,
            has_ended: false,
        }
    }

    /// Whether a file is one of the data directory.
    fn is_own(&self, error: &FileError) -> bool {
        let directory = self.directory().path();
        // Lists of files have paths without links.
        let real = std::fs::canonicalize(directory);
        error.path().starts_with(directory) || real.is_ok_and(|real| error.path().starts_with(real))
    }
}

impl<V: ScriptVerifier + 'static> Follower<'_, V> {
    /// The first call connects all blocks, as [`Engine::connect`] does. Later calls wait until the
    /// files may have changed, and connect new blocks. The observer receives each block, and
    /// [`Event::CaughtUp`] once a new tip is durable. Returns none once the stop flag of the
    /// options is set, or the engine has halted.
    ///
    /// # Errors
    /// Any [`ConnectError`] of the first call; later those of the data directory. What was flushed
    /// before is kept.
    pub fn next(&mut self, observer: &mut dyn Observer) -> Result<Option<ConnectReport>, ConnectError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let mut listener = Listener {
                observer: &mut *observer,
                said: &mut self.said,
                is_quiet: true,
                is_first: true,
            };
            let report = self.engine.connect(self.sources, &mut listener)?;
            self.note(&report, true);
            if !self.has_ended {
                observer.event(&Event::CaughtUp(self.engine.tip()));
            }
            return Ok(Some(report));
        }
        while !self.has_ended {
            if let Some(report) = self.look(observer)? {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Waits until the files may have changed, and updates the chain. Returns none if they cannot
    /// be read at the moment, or if the stop flag is set.
    fn look(&mut self, observer: &mut dyn Observer) -> Result<Option<ConnectReport>, ConnectError> {
        let woken = self.watch.wait(self.engine.pipeline.stop());
        if woken == Woken::Stopped {
            self.has_ended = true;
            return Ok(None);
        }
        let tip = self.engine.tip();
        let is_retry = self.retry.is_due();
        let mut listener = Listener {
            observer: &mut *observer,
            said: &mut self.said,
            is_quiet: woken == Woken::Look,
            is_first: false,
        };
        let which = if is_retry { Which::All } else { Which::Changed };
        let report = match self.engine.connect_some(self.sources, which, &mut listener) {
            Ok(report) => Some(report),
            Err(ConnectError::File(error)) if !self.engine.is_own(&error) => {
                observer.event(&Event::LookFailed(&error));
                if self.said.error.replace(error.to_string()) != Some(error.to_string()) {
                    observer.event(&Event::FilesUnreadable(&error));
                }
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(report) = &report {
            self.said.error = None;
            self.note(report, is_retry);
        }
        if self.engine.tip() != tip && !self.has_ended {
            self.watch.note_change(woken);
            observer.event(&Event::CaughtUp(self.engine.tip()));
        }
        Ok(report)
    }

    /// Notes what a look has found; `is_all` says that all files were searched.
    fn note(&mut self, report: &ConnectReport, is_all: bool) {
        self.has_ended = report.halt != Halt::Finished;
        if is_all || !report.unreadable.is_empty() {
            self.retry.note(!report.unreadable.is_empty());
        }
    }
}

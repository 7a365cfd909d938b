//! An engine beside a node connects the blocks that the node has, and then each new one.

use crate::engine::Engine;
use crate::pipeline::error::ConnectError;
use crate::report::connect_report::{ConnectReport, Halt};
use crate::report::figures::FiguresObserver;
use blockmill_blockfiles::{FileError, Watch, Woken};
use blockmill_chain::import::Which;
use blockmill_chain::report::events::Event;
use blockmill_chain::report::observer::{BlockChange, Indexing, Observer, Progress};
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
            _ => true,
        }
    }
}

/// The observer of a follower.
struct Listener<'a> {
    observer: &'a mut dyn Observer,
    said: &'a mut Said,
    is_quiet: bool,
}

impl Observer for Listener<'_> {
    fn connected(&mut self, change: &BlockChange<'_>) {
        self.observer.connected(change);
    }

    fn disconnected(&mut self, change: &BlockChange<'_>) {
        self.observer.disconnected(change);
    }

    fn indexing(&mut self, indexing: &Indexing) {
        self.observer.indexing(indexing);
    }

    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(progress);
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.said.is_new(event, self.is_quiet) {
            self.observer.event(event);
        }
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// As [`connect`](Self::connect), and goes on until the stop flag of the options is set: what a
    /// node writes to its block files is connected, and made durable, within a second, often at
    /// once. Files may be rewritten, removed or made anew meanwhile. What cannot be read is
    /// reported, and tried again.
    ///
    /// The observer hears of each block, and [`caught_up`](Observer::caught_up) when the engine
    /// waits. The report is that of the first run, up to there.
    ///
    /// # Errors
    /// Any [`ConnectError`] of the first run; later those of the data directory. What was flushed
    /// before is kept.
    pub fn follow(
        &mut self,
        sources: &[PathBuf],
        observer: &mut dyn Observer,
        figures: &mut dyn FiguresObserver,
    ) -> Result<ConnectReport, ConnectError> {
        // Before the first look, so that no change is missed.
        let mut watch = Watch::new(sources);
        let first = self.connect_some(sources, Which::All, observer, figures)?;
        figures.ended(&first);
        if first.halt != Halt::Finished {
            return Ok(first);
        }
        observer.caught_up(&self.tip());
        let mut said = Said::default();
        let mut retry = Retry::default();
        retry.note(!first.unreadable.is_empty());
        loop {
            let woken = watch.wait(self.pipeline.stop());
            if woken == Woken::Stopped {
                return Ok(first);
            }
            let tip = self.tip();
            let is_retry = retry.is_due();
            let mut listener = Listener {
                observer: &mut *observer,
                said: &mut said,
                is_quiet: woken == Woken::Look,
            };
            let which = if is_retry { Which::All } else { Which::Changed };
            let looked = self.connect_some(sources, which, &mut listener, figures);
            match looked {
                Ok(report) => {
                    said.error = None;
                    figures.ended(&report);
                    if is_retry || !report.unreadable.is_empty() {
                        retry.note(!report.unreadable.is_empty());
                    }
                    if report.halt != Halt::Finished {
                        return Ok(first);
                    }
                }
                Err(ConnectError::File(error)) if !self.is_own(&error) => {
                    figures.failed(&error);
                    if said.error.replace(error.to_string()) != Some(error.to_string()) {
                        observer.event(&Event::FilesUnreadable(&error));
                    }
                }
                Err(error) => return Err(error),
            }
            if self.tip() != tip {
                watch.note_change(woken);
                observer.caught_up(&self.tip());
            }
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

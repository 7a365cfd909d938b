//! What the command does at this moment, and how much of it remains: the answer to Ctrl-C, which
//! another thread writes at once.

use crate::log::Line;
use crate::output::duration_text;
use blockmill_chain::{Indexing, Level, Progress};
use indicatif::ProgressBar;
use serde_json::json;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A piece of work, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doing {
    /// Nothing that can be counted, in words.
    Something(&'static str),
    /// Block files are searched for headers.
    Indexing(Indexing),
    /// Blocks are connected or verified.
    Blocks(Progress),
    /// Coins are read or written.
    Coins { coins: u64, share: f64 },
    /// So many of all are done.
    Counted { what: &'static str, done: u64, of: u64 },
}

impl Doing {
    fn text(&self) -> String {
        match self {
            Self::Something(text) => (*text).to_owned(),
            Self::Indexing(indexing) => format!(
                "reading headers, file {} of {}, {} headers so far",
                indexing.file, indexing.files, indexing.headers
            ),
            Self::Blocks(progress) => format!("at height {} of {}", progress.height, progress.best_height),
            Self::Coins { coins, .. } => format!("{coins} coins done"),
            Self::Counted { what, done, of } => format!("{done} of {of} {what}"),
        }
    }

    /// The share that is done, from 0 to 1; none where nobody knows.
    pub(crate) fn share(&self) -> Option<f64> {
        match *self {
            Self::Something(_) => None,
            Self::Indexing(indexing) => {
                let file = indexing.offset as f64 / indexing.bytes.max(1) as f64;
                Some((indexing.file.saturating_sub(1) as f64 + file) / indexing.files.max(1) as f64)
            }
            Self::Blocks(progress) => Some(progress.share),
            Self::Coins { share, .. } => Some(share),
            Self::Counted { done, of, .. } => Some(done as f64 / of.max(1) as f64),
        }
    }

    fn is_same_work(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Counted { what, .. }, Self::Counted { what: other, .. }) => what == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// What is known of the work.
struct Work {
    doing: Doing,
    /// When this kind of work began, and the share that was done then.
    begun: Option<(Instant, f64)>,
    /// The height up to which all is on disk, where the work is kept in a data directory.
    flushed: Option<u32>,
    /// The bar on the terminal.
    bar: Option<ProgressBar>,
}

static WORK: Mutex<Work> = Mutex::new(Work {
    doing: Doing::Something("just begun"),
    begun: None,
    flushed: None,
    bar: None,
});

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The seconds that the blocks which remain take, if they are as fast as those so far.
pub(crate) fn remaining_seconds(progress: &Progress) -> f64 {
    let elapsed = progress.elapsed.as_secs_f64().max(1e-9);
    progress.bytes_remaining as f64 * elapsed / progress.bytes.max(1) as f64
}

/// Notes what is done.
pub(crate) fn set(doing: Doing) {
    let mut work = work();
    // Other work has another speed.
    if work.begun.is_none() || !work.doing.is_same_work(&doing) {
        work.begun = Some((Instant::now(), doing.share().unwrap_or(0.0)));
    }
    work.doing = doing;
}

/// Notes up to which height all is on disk.
pub(crate) fn set_flushed(height: u32) {
    work().flushed = Some(height);
}

/// Notes the bar on the terminal, above which lines are written.
pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    work().bar = bar;
}

impl Work {
    /// The share that remains, and how many seconds that takes, as far as anybody knows.
    fn remaining(&self) -> (Option<f64>, Option<f64>) {
        let Some(share) = self.doing.share() else {
            return (None, None);
        };
        let remaining = (1.0 - share).max(0.0);
        let seconds = self.begun.and_then(|(begun, first)| {
            let done = share - first;
            // Without any progress nobody can tell.
            (done > 0.0).then(|| begun.elapsed().as_secs_f64() * remaining / done)
        });
        (Some(remaining), seconds)
    }

    fn text(&self) -> String {
        let doing = self.doing.text();
        match self.remaining() {
            (Some(share), Some(seconds)) => {
                let time = duration_text(seconds);
                format!("{doing}; {:.1}% remain, about {time}", share * 100.0)
            }
            (Some(share), None) => format!("{doing}; {:.1}% remain", share * 100.0),
            (None, _) => format!("{doing}; how much remains is not known"),
        }
    }
}

/// What is done at this moment.
#[cfg(feature = "http")]
pub(crate) struct Now {
    /// In words.
    pub(crate) text: String,
    /// The share that is done, from 0 to 1.
    pub(crate) share: Option<f64>,
    pub(crate) remaining_seconds: Option<f64>,
}

#[cfg(feature = "http")]
pub(crate) fn now() -> Now {
    let work = work();
    Now {
        text: work.doing.text(),
        share: work.doing.share(),
        remaining_seconds: work.remaining().1,
    }
}

/// Answers a signal: `event` says what comes of it.
fn answer(event: &str, signal: &str, text: impl FnOnce(&Work) -> String) {
    // The lock is free again before anything is written.
    let (line, fields, bar) = {
        let work = work();
        let (share, seconds) = work.remaining();
        let fields = json!({
            "signal": signal,
            "doing": work.doing.text(),
            "remaining_share": share,
            "remaining_seconds": seconds,
            "flushed_height": work.flushed,
        });
        (text(&work), fields, work.bar.clone())
    };
    // A user who asks for quiet has asked for this answer, too.
    Line::new(Level::Warning, event, &line, fields).write_above(bar.as_ref());
}

/// Says that the command is about to stop, and what a second signal does.
pub(crate) fn say_stopping(signal: &str) {
    answer("stopping", signal, |work| {
        let second = match work.flushed {
            Some(height) => format!("ends it at once, and loses the work since height {height}, the last flush"),
            None => "ends it at once".to_owned(),
        };
        format!("{signal}: stopping; {}; a second signal {second}", work.text())
    });
}

/// Says that the command has been stopped.
pub(crate) fn say_stopped(signal: &str) {
    answer("stopped", signal, |work| format!("{signal}: stopped; {}", work.text()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn work_of(doing: Doing, begun: Option<(Instant, f64)>) -> Work {
        Work {
            doing,
            begun,
            flushed: None,
            bar: None,
        }
    }

    #[test]
    fn what_remains_is_said() {
        let begun = Instant::now() - Duration::from_secs(100);
        let coins = Doing::Coins { coins: 7, share: 0.75 };
        let half = Doing::Counted {
            what: "blocks",
            done: 5,
            of: 10,
        };
        for (work, text) in [
            (
                work_of(coins, Some((begun, 0.5))),
                "7 coins done; 25.0% remain, about 1 min 40 s",
            ),
            (work_of(coins, Some((begun, 0.75))), "7 coins done; 25.0% remain"),
            (work_of(half, None), "5 of 10 blocks; 50.0% remain"),
            (
                work_of(Doing::Something("here"), None),
                "here; how much remains is not known",
            ),
        ] {
            assert_eq!(work.text(), text);
        }
    }

    #[test]
    fn files_without_bytes_are_no_trouble() {
        let indexing = Indexing {
            file: 0,
            files: 0,
            offset: 0,
            bytes: 0,
            headers: 0,
        };
        let work = work_of(Doing::Indexing(indexing), None);
        assert!(work.text().ends_with("100.0% remain"), "{}", work.text());
    }
}

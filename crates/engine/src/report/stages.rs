//! The stages of a block's way, and the time that they take.

use std::time::{Duration, Instant};

/// Time of a stage in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageTime {
    /// Time that threads worked in it, added up.
    pub busy_seconds: f64,
    /// Time that the main thread waited for it.
    pub wait_seconds: f64,
}

/// A stage of a block's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading blocks from their files.
    Read,
    /// Parsing, hashing, and rules that need no coins.
    Decode,
    /// Reading coins from the store.
    Fetch,
    /// Spending and creating coins, and the rules about them.
    Resolve,
    /// Script checks.
    Check,
    /// Undo data and the move of the tip.
    Commit,
    /// Writing the cache's changes to the store.
    Flush,
}

impl Stage {
    /// All stages with their names in reports, in the order of a block's way.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Read, "read"),
        (Self::Decode, "decode"),
        (Self::Fetch, "fetch"),
        (Self::Resolve, "resolve"),
        (Self::Check, "check"),
        (Self::Commit, "commit"),
        (Self::Flush, "flush"),
    ];

    /// The stage's name in reports.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Times of all stages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stages([StageTime; Stage::ALL.len()]);

impl Stages {
    /// Time of a stage.
    pub fn get(&self, stage: Stage) -> StageTime {
        // `ALL` has the stages in the order of the variants.
        self.0[stage as usize]
    }

    pub(crate) fn add(&mut self, stage: Stage, busy: Duration, wait: Duration) {
        let time = &mut self.0[stage as usize];
        time.busy_seconds += busy.as_secs_f64();
        time.wait_seconds += wait.as_secs_f64();
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|stage| StageTime {
            busy_seconds: self.0[stage].busy_seconds - before.0[stage].busy_seconds,
            wait_seconds: self.0[stage].wait_seconds - before.0[stage].wait_seconds,
        }))
    }

    /// The stages with their names, in the order of a block's way.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, StageTime)> {
        Stage::ALL.into_iter().map(|(stage, name)| (name, self.get(stage)))
    }
}

/// What a thread did for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of the thread, from 1, in the order in which threads first had something to do.
    pub thread: u32,
    /// The stage.
    pub stage: Stage,
    /// Height of the block that it was done for; 0 where it is not for a certain one.
    pub height: u32,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

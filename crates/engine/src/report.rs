//! What happened: figures per stage, rejected blocks, damaged files; events worth a line in a log
//! ([`events`]), and what each thread did when (`trace`).

pub mod events;

pub(crate) mod trace;

use crate::pipeline::signatures::SignatureRanges;
use crate::report::events::Event;
use blockmill_block::BlockHash;
use blockmill_blockfiles::Damage;
use blockmill_coins::CacheCounters;
use blockmill_fetch::Statistics;
use blockmill_rules::{Reject, SignatureCounts};
use std::fmt;
use std::path::PathBuf;
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
    /// Parsing, hashing, and rules that need no other block.
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
    /// All stages, in the order of a block's way.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Decode,
        Self::Fetch,
        Self::Resolve,
        Self::Check,
        Self::Commit,
        Self::Flush,
    ];

    /// The stage's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Fetch => "fetch",
            Self::Resolve => "resolve",
            Self::Check => "check",
            Self::Commit => "commit",
            Self::Flush => "flush",
        }
    }
}

/// Times of all stages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stages([StageTime; Stage::ALL.len()]);

impl Stages {
    /// Time of a stage.
    pub fn get(&self, stage: Stage) -> StageTime {
        self.0[stage as usize]
    }

    pub(crate) fn add(&mut self, stage: Stage, busy: Duration, wait: Duration) {
        let time = &mut self.0[stage as usize];
        time.busy_seconds += busy.as_secs_f64();
        time.wait_seconds += wait.as_secs_f64();
    }

    fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|stage| StageTime {
            busy_seconds: self.0[stage].busy_seconds - before.0[stage].busy_seconds,
            wait_seconds: self.0[stage].wait_seconds - before.0[stage].wait_seconds,
        }))
    }

    /// The stages with their names, in the order of a block's way.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, StageTime)> {
        Stage::ALL.into_iter().map(|stage| (stage.name(), self.get(stage)))
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

/// A block that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Why.
    pub reject: Reject,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its place in the file in bytes.
    pub offset: u64,
    /// Whether the chain that it is in, with all that builds on it, was the best one: blocks are
    /// connected only then, headers are judged on every branch.
    pub of_best_chain: bool,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offset {}: block {} (height {}) is rejected: {}",
            self.path.display(),
            self.offset,
            self.hash,
            self.height,
            self.reject
        )
    }
}

/// A block whose content cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its place in the file in bytes.
    pub offset: u64,
    /// What is wrong.
    pub detail: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offset {}: block {} (height {}): {}",
            self.path.display(),
            self.offset,
            self.hash,
            self.height,
            self.detail
        )
    }
}

/// A block whose parent is nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its hash.
    pub hash: BlockHash,
    /// Hash of the parent.
    pub parent: BlockHash,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its place in the file in bytes.
    pub offset: u64,
}

/// Why the engine went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Halt {
    /// The best chain is connected.
    #[default]
    Finished,
    /// It was asked to stop.
    Stopped,
    /// The height at which it was to stop is reached.
    HeightReached,
}

/// What was read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FetchTotals {
    /// What the fetcher has done.
    pub reads: Statistics,
    /// Coins that the cache took of it.
    pub taken: u64,
}

/// How many there were in a queue, each time that it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    looks: u64,
    sum: u64,
    max: u64,
}

impl Depth {
    pub(crate) fn add(&mut self, depth: usize) {
        self.looks += 1;
        self.sum += depth as u64;
        self.max = self.max.max(depth as u64);
    }

    /// What was added since then. The maximum is that of all.
    fn since(&self, before: &Self) -> Self {
        Self {
            looks: self.looks - before.looks,
            sum: self.sum - before.sum,
            max: self.max,
        }
    }

    /// How many there were on average; 0 if nobody has looked.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.looks.max(1) as f64
    }

    /// The most that there were.
    pub fn max(&self) -> u64 {
        self.max
    }
}

/// Blocks on their way, looked at whenever one has been resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueTotals {
    /// Blocks that were asked for and are not resolved.
    pub ahead: Depth,
    /// Those of them that are loaded.
    pub loaded: Depth,
    /// Blocks that are resolved and not committed.
    pub in_flight: Depth,
    /// Memory in bytes of all of them at the most, about.
    pub memory_max: usize,
}

/// What the engine did, in all calls since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Blocks connected.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks disconnected.
    pub disconnected: u64,
    /// Blocks connected without running their scripts.
    pub scripts_skipped: u64,
    /// Coins read ahead.
    pub fetch: FetchTotals,
    /// Blocks on their way.
    pub queues: QueueTotals,
    /// Flushes.
    pub flushes: u64,
    /// Coins that flushes have written or removed.
    pub flush_changes: u64,
    /// How often connecting had to wait for one, as the cache was full.
    pub flush_waits: u64,
    /// How often a block waited a little for a flush to catch up, so that the cache need not be
    /// full before its end.
    pub flush_pauses: u64,
    /// Longest time that a flush has taken of the connecting thread, waiting included; the last
    /// one, which is waited for, is left out.
    pub flush_pause_max: Duration,
    /// Times of the stages.
    pub stages: Stages,
    /// How signatures were verified, counted by the verifier.
    pub signatures: SignatureCounts,
}

impl Totals {
    /// What was done since then.
    ///
    /// Maxima can't be told apart like that. [`take_maxima`](Self::take_maxima) was called then.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            blocks: self.blocks - before.blocks,
            transactions: self.transactions - before.transactions,
            inputs: self.inputs - before.inputs,
            bytes: self.bytes - before.bytes,
            disconnected: self.disconnected - before.disconnected,
            scripts_skipped: self.scripts_skipped - before.scripts_skipped,
            fetch: FetchTotals {
                reads: self.fetch.reads.since(&before.fetch.reads),
                taken: self.fetch.taken - before.fetch.taken,
            },
            queues: QueueTotals {
                ahead: self.queues.ahead.since(&before.queues.ahead),
                loaded: self.queues.loaded.since(&before.queues.loaded),
                in_flight: self.queues.in_flight.since(&before.queues.in_flight),
                memory_max: self.queues.memory_max,
            },
            flushes: self.flushes - before.flushes,
            flush_changes: self.flush_changes - before.flush_changes,
            flush_waits: self.flush_waits - before.flush_waits,
            flush_pauses: self.flush_pauses - before.flush_pauses,
            flush_pause_max: self.flush_pause_max,
            stages: self.stages.since(&before.stages),
            signatures: self.signatures.since(&before.signatures),
        }
    }

    /// Begins all maxima anew; those so far are left in what is returned.
    pub(crate) fn take_maxima(&mut self) -> Self {
        let before = *self;
        for depth in self.queues.depths() {
            depth.max = 0;
        }
        self.queues.memory_max = 0;
        self.flush_pause_max = Duration::ZERO;
        before
    }

    /// Makes all maxima those of both.
    pub(crate) fn raise_maxima(&mut self, before: &Self) {
        let mut others = before.queues;
        for (depth, other) in self.queues.depths().into_iter().zip(others.depths()) {
            depth.max = depth.max.max(other.max);
        }
        self.queues.memory_max = self.queues.memory_max.max(before.queues.memory_max);
        self.flush_pause_max = self.flush_pause_max.max(before.flush_pause_max);
    }
}

impl QueueTotals {
    fn depths(&mut self) -> [&mut Depth; 3] {
        [&mut self.ahead, &mut self.loaded, &mut self.in_flight]
    }
}

/// What a run of [`connect`](crate::Engine::connect) came to. All figures are those of this run.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectReport {
    /// Name of the network.
    pub network: &'static str,
    /// Hash of the tip.
    pub tip: BlockHash,
    /// Its height.
    pub height: u32,
    /// Height from which the run went on.
    pub start_height: u32,
    /// What was done.
    pub totals: Totals,
    /// How long it took in seconds.
    pub seconds: f64,
    /// How signatures were verified, by height.
    pub signatures: SignatureRanges,
    /// Look-ups in the coins cache.
    pub cache: CacheCounters,
    /// Entries in the coins cache at the most.
    pub cache_coins_max: u64,
    /// Its memory in bytes at the most.
    pub cache_bytes_max: u64,
    /// Blocks that break a rule.
    pub rejected: Vec<Rejected>,
    /// Blocks whose content cannot be used.
    pub unreadable: Vec<Unreadable>,
    /// Damaged places in the block files.
    pub damages: Vec<Damage>,
    /// Number of blocks that build on headers that were rejected.
    pub left_out: u64,
    /// Number of blocks whose parent is nowhere.
    pub leftovers: u64,
    /// The first of them in the order of files and places.
    pub first_leftover: Option<Leftover>,
    /// Why the run ended.
    pub halt: Halt,
}

impl ConnectReport {
    /// Exit status of a command that ends with this report: 1 if a block of the best chain was
    /// rejected, 3 if input is corrupt or incomplete, else 0.
    pub fn exit_status(&self) -> u8 {
        let damaged = self.damages.iter().any(|damage| !damage.is_unfinished_write());
        if self.rejected.iter().any(|block| block.of_best_chain) {
            1
        } else if !self.unreadable.is_empty() || damaged || self.leftovers > 0 {
            3
        } else {
            0
        }
    }
}

/// How far the search of block files for headers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    /// Number of the file, from 1.
    pub file: usize,
    /// How many there are.
    pub files: usize,
    /// The place in the file in bytes.
    pub offset: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Headers found so far, in all files.
    pub headers: usize,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Height of the tip.
    pub height: u32,
    /// Height of the best chain known.
    pub best_height: u32,
    /// Blocks connected in this run.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Inputs in them, coinbases not counted.
    pub inputs: u64,
    /// Bytes of blocks connected in this run.
    pub bytes: u64,
    /// Bytes of blocks that remain.
    pub bytes_remaining: u64,
    /// Entries in the coins cache.
    pub cache_coins: u64,
    /// Memory of the coins cache in bytes.
    pub cache_bytes: u64,
    /// Time since the run began.
    pub elapsed: Duration,
}

/// Something that is told what happens, on the main thread.
pub trait Observer {
    /// Block files are being searched for headers; called often.
    fn indexing(&mut self, indexing: &Indexing) {
        let _ = indexing;
    }

    /// A block was connected.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }

    /// What was done so far, and how often the coins cache had what was asked for; with every
    /// [`progress`](Self::progress).
    fn totals(&mut self, totals: &Totals, cache: &CacheCounters) {
        let _ = (totals, cache);
    }

    /// So many coins of a snapshot are done, and this share of all.
    fn coins(&mut self, coins: u64, share: f64) {
        let _ = (coins, share);
    }

    /// A thread of this name has done something; only with [`Options::trace`](crate::Options).
    fn span(&mut self, thread: &str, span: &Span) {
        let _ = (thread, span);
    }

    /// Something worth a line in a log.
    fn event(&mut self, event: &Event<'_>) {
        let _ = event;
    }
}

/// Hears nothing.
impl Observer for () {}

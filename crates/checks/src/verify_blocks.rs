//! The blocks of a chain, each against the coins that it spends, in any order, on several threads.
//!
//! A thread takes blocks in a row, a *run*, and does everything for them alone: it reads them,
//! validates them, and runs their scripts. Nothing is shared but the list of what is left. Runs are
//! shorter towards the end, so that all threads end together. Where signature checks are deferred,
//! a block waits for its verdict while its thread goes on with the next ones.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod blocks_left;

use blockmill_block::{Block, BlockHash, BlockUndo};
use blockmill_chain::block_read_error::BlockReadError;
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::chain_blocks::UndoSearch;
use blockmill_chain::report::events::{BlockChange, Event, Observer, Progress};
use blockmill_chain::report::signatures::{SignatureRanges, SignatureWay, Signatures};
use blockmill_chain::spending_block::SpendingBlock;
use blockmill_rules::header::HeaderFacts;
use blockmill_rules::{Reject, ScriptVerifier};
pub use blockmill_validate::OwnCoins;
use blockmill_validate::block::WithoutScripts;
use blockmill_validate::check_pool::{CheckPool, PendingChecks};
use blockmill_validate::{
    BlockPosition, GivenCoins, Verified, VerifyBlockError, script_verdict, validate_without_scripts,
};
use blocks_left::BlocksLeft;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory in bytes of the blocks of a thread that wait for their verdicts, at most.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Why a block is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It breaks a rule.
    Reject(Reject),
    /// It cannot be read, or is not there.
    Unreadable(String),
    /// There is no undo file beside the block file, or none that can be read: what there is
    /// instead.
    NoUndoFile(String),
    /// Its undo data cannot be read, or is not in the undo file.
    NoUndo(String),
}

/// A block that is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Where it lies: the file, and the offset in bytes.
    pub found_at: (PathBuf, u64),
    /// Why.
    pub problem: Problem,
}

/// Sums over blocks that are verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockTotals {
    /// Blocks.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Their fees in satoshi. The sum is wide: those of many blocks are beyond 64 bits where undo
    /// data lies.
    pub fees: i128,
    /// Their weight.
    pub weight: u64,
}

impl BlockTotals {
    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.transactions += other.transactions;
        self.inputs += other.inputs;
        self.fees += other.fees;
        self.weight += other.weight;
    }
}

/// What became of some blocks in a row.
#[derive(Debug, Clone)]
pub struct Run<T> {
    /// Their heights.
    pub heights: RangeInclusive<u32>,
    /// Sums over those that are verified.
    pub totals: BlockTotals,
    /// The others.
    pub unverified: Vec<Unverified>,
    /// How signatures were verified, by height.
    pub signatures: SignatureRanges,
    /// What the caller made of the blocks.
    pub value: T,
}

/// What the threads took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// From the first block to the last verdict.
    pub wall: Duration,
    /// CPU time of each thread meanwhile.
    pub cpu: Vec<Duration>,
}

/// What to do with each block whose rules and scripts hold, on the thread that verified it: what
/// `T` keeps is given out with the run. A block that it rejects is not verified.
pub type EachBlock<'a, T> = &'a (dyn Fn(&BlockChange<'_>, &mut T) -> Result<(), Reject> + Sync);

/// The blocks of a chain, to be verified.
pub struct BlockVerification<'a, V> {
    /// The chain.
    pub blocks: &'a ChainBlocks,
    /// Runs the scripts.
    pub verifier: &'a Arc<V>,
    /// Threads, the caller's included.
    pub threads: usize,
    /// How signatures are verified.
    pub signatures: Signatures,
    /// Whether each block is compared with the coins that it makes and spends itself.
    pub own_coins: OwnCoins,
    /// Set by the caller to end early.
    pub stop: &'a AtomicBool,
}

impl<V: ScriptVerifier + 'static> BlockVerification<'_, V> {
    /// What is wrong with the copy of the network's first block, if it is in a file. It is in the
    /// code, so the copy has to be that, and no rule is asked.
    pub fn first_block_problem(&self) -> Option<Unverified> {
        self.blocks.found_at(0)?;
        let error = self.blocks.block(0).err()?;
        Some(unverified(self.blocks, 0, unreadable(error)))
    }

    /// Verifies the blocks of these ranges of heights, each against its undo data: all rules and
    /// all scripts. Not checked is whether the undo data is true; `each` may see to that. The first
    /// block of the chain spends nothing, and MUST NOT be among them. `take` gets all runs, in any
    /// order, on this thread.
    ///
    /// # Errors
    /// [`VerifyBlockError::Verifier`] if threads cannot be made.
    pub fn run<T: Default + Send>(
        &self,
        heights: &[RangeInclusive<u32>],
        each: EachBlock<'_, T>,
        observer: &mut dyn Observer,
        take: &mut dyn FnMut(Run<T>),
    ) -> Result<ThreadTimes, VerifyBlockError> {
        let start = Instant::now();
        let threads = self.threads.max(1);
        let (sender, runs) = channel();
        let shared = Shared {
            verification: self,
            each,
            left: Mutex::new(BlocksLeft::new(self.blocks, heights, threads)),
            done: Done::default(),
        };
        let workers = (0..threads).map(|_| Worker::new(&shared, sender.clone()));
        let mut workers: Vec<_> = workers.collect::<Result<_, _>>()?;
        // `runs` ends when the last worker has dropped its sender.
        drop(sender);
        let cpu = std::thread::scope(|scope| {
            let own = workers.pop();
            let mut others = Vec::new();
            for worker in workers {
                let thread = std::thread::Builder::new().name("verify".to_owned());
                match thread.spawn_scoped(scope, move || worker.work(&mut || {})) {
                    Ok(other) => others.push(other),
                    Err(error) => {
                        // The threads that have begun find nothing more to do, and the scope ends.
                        shared.lock_left().ranges.clear();
                        return Err(VerifyBlockError::Verifier(format!("worker threads: {error}")));
                    }
                }
            }
            let mut say = || {
                for run in runs.try_iter() {
                    take(run);
                }
                observer.event(&Event::Progress(&shared.progress(start)));
            };
            let mut cpu: Vec<_> = own.into_iter().map(|own| own.work(&mut say)).collect();
            for run in &runs {
                take(run);
            }
            for other in others {
                cpu.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            observer.event(&Event::Progress(&shared.progress(start)));
            Ok(cpu)
        })?;
        Ok(ThreadTimes {
            wall: start.elapsed(),
            cpu,
        })
    }
}

/// How much was done, by all threads.
#[derive(Default)]
struct Done {
    height: AtomicU32,
    blocks: AtomicU64,
    transactions: AtomicU64,
    inputs: AtomicU64,
    bytes: AtomicU64,
}

/// What all threads share.
struct Shared<'a, V, T> {
    verification: &'a BlockVerification<'a, V>,
    each: EachBlock<'a, T>,
    left: Mutex<BlocksLeft<'a>>,
    done: Done,
}

impl<'a, V, T> Shared<'a, V, T> {
    fn lock_left(&self) -> std::sync::MutexGuard<'_, BlocksLeft<'a>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next run. The system reads a later one ahead, which a thread will take in a round or so.
    fn next_run(&self) -> Option<RangeInclusive<u32>> {
        let mut left = self.lock_left();
        let run = left.take()?;
        let ahead = left.ahead();
        drop(left);
        if let Some(ahead) = ahead {
            self.verification.blocks.read_ahead(ahead);
        }
        Some(run)
    }

    /// Counts a block that has its verdict.
    fn count(&self, height: u32, verified: Option<&Verified>) {
        let done = &self.done;
        // Relaxed: these figures are for progress alone.
        done.height.fetch_max(height, Ordering::Relaxed);
        done.blocks.fetch_add(1, Ordering::Relaxed);
        let bytes = u64::from(self.verification.blocks.length(height));
        done.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(verified) = verified {
            done.transactions.fetch_add(verified.transactions, Ordering::Relaxed);
            done.inputs.fetch_add(verified.inputs, Ordering::Relaxed);
        }
    }

    fn progress(&self, start: Instant) -> Progress {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let height = self.done.height.load(Ordering::Relaxed);
        let bytes = get(&self.done.bytes);
        let bytes_remaining = self.lock_left().bytes;
        Progress {
            height,
            tip_time: self.verification.blocks.header(height).map_or(0, |header| header.time),
            best_height: self.verification.blocks.height(),
            blocks: get(&self.done.blocks),
            transactions: get(&self.done.transactions),
            inputs: get(&self.done.inputs),
            bytes,
            bytes_remaining,
            share: bytes as f64 / (bytes + bytes_remaining).max(1) as f64,
            cache_coins: 0,
            cache_bytes: 0,
            elapsed: start.elapsed(),
        }
    }
}

/// A block that waits for the verdicts of scripts whose signature checks were deferred.
struct Waiting<V: ScriptVerifier + 'static> {
    height: u32,
    verified: Verified,
    way: SignatureWay,
    pending: PendingChecks<V>,
    block: Arc<Block>,
    undo: Arc<BlockUndo>,
    memory: usize,
    /// For other undo data, if the scripts fail with this.
    search: UndoSearch,
}

/// A run some of whose blocks have no verdict yet.
struct OpenRun<V: ScriptVerifier + 'static, T> {
    run: Run<T>,
    waiting: VecDeque<Waiting<V>>,
}

/// One thread.
struct Worker<'a, V: ScriptVerifier + 'static, T> {
    shared: &'a Shared<'a, V, T>,
    pool: CheckPool<V>,
    sender: Sender<Run<T>>,
    /// The last one is being added to.
    runs: VecDeque<OpenRun<V, T>>,
    /// Memory of the blocks that wait.
    waiting_bytes: usize,
}

impl<'a, V: ScriptVerifier + 'static, T: Default + Send> Worker<'a, V, T> {
    fn new(shared: &'a Shared<'a, V, T>, sender: Sender<Run<T>>) -> Result<Self, VerifyBlockError> {
        // Each thread runs the scripts of its blocks by itself.
        let pool = CheckPool::new(Arc::clone(shared.verification.verifier), 1)
            .map_err(|error| VerifyBlockError::Verifier(error.to_string()))?;
        Ok(Self {
            shared,
            pool,
            sender,
            runs: VecDeque::new(),
            waiting_bytes: 0,
        })
    }

    /// Verifies runs until none is left, or the caller wants to stop. Calls `say` after each block.
    /// Returns the CPU time that it took.
    fn work(mut self, say: &mut dyn FnMut()) -> Duration {
        let start = thread_cpu_time();
        let is_stopped = || self.shared.verification.stop.load(Ordering::Relaxed);
        'runs: while !is_stopped() {
            let Some(heights) = self.shared.next_run() else { break };
            let (mut next, last) = heights.into_inner();
            self.runs.push_back(OpenRun {
                run: Run {
                    heights: next..=last,
                    totals: BlockTotals::default(),
                    unverified: Vec::new(),
                    signatures: SignatureRanges::default(),
                    value: T::default(),
                },
                waiting: VecDeque::new(),
            });
            while next <= last {
                if is_stopped() {
                    self.cut(next);
                    break 'runs;
                }
                self.verify(next);
                next += 1;
                while self.waiting_bytes > WAITING_BYTES_MAX {
                    self.finish_first();
                }
                self.collect(next > last);
                say();
            }
        }
        while self.runs.iter().any(|open| !open.waiting.is_empty()) {
            self.finish_first();
        }
        self.collect(true);
        say();
        thread_cpu_time().saturating_sub(start)
    }

    /// Takes what has not begun out of the last run.
    fn cut(&mut self, next: u32) {
        let start = self.runs.back().map_or(next, |open| *open.run.heights.start());
        if start == next {
            self.runs.pop_back();
        } else if let Some(open) = self.runs.back_mut() {
            open.run.heights = start..=next - 1;
        }
    }

    /// Verifies a block of the last run, but for scripts whose signature checks are deferred.
    fn verify(&mut self, height: u32) {
        let begun = self.begin(height, &mut UndoSearch::default());
        let Some(open) = self.runs.back_mut() else { return };
        match begun {
            Ok(waiting) => {
                self.waiting_bytes += waiting.memory;
                open.waiting.push_back(waiting);
            }
            Err(problem) => {
                self.shared.count(height, None);
                open.run
                    .unverified
                    .push(unverified(self.shared.verification.blocks, height, problem));
            }
        }
    }

    /// Validates a block, and begins to run its scripts. Undo data with which it breaks a rule may
    /// be a sibling's: then the block is tried with other undo data, if there is any.
    fn begin(&self, height: u32, search: &mut UndoSearch) -> Result<Waiting<V>, Problem> {
        let mut first = None;
        loop {
            match self.begin_with(height, search) {
                Ok(Ok(waiting)) => return Ok(waiting),
                Ok(Err(reject)) => {
                    first.get_or_insert(Problem::Reject(reject));
                }
                Err(problem) => return Err(first.unwrap_or(problem)),
            }
        }
    }

    /// As [`begin`](Self::begin), with the next undo data. The inner error is the rule that the
    /// block breaks with it.
    fn begin_with(&self, height: u32, search: &mut UndoSearch) -> Result<Result<Waiting<V>, Reject>, Problem> {
        let blocks = self.shared.verification.blocks;
        let SpendingBlock { block, undo, .. } = blocks.read_next(height, search).map_err(unreadable)?;
        let way = blocks.signature_way(height, self.shared.verification.signatures, self.pool.can_defer());
        let way = way.map_err(unreadable)?;
        // Coins are below the block, and heights above the tip are in no chain.
        let at_height = |height| Some(blocks.median_time_past(height).unwrap_or(u32::MAX));
        let position = BlockPosition {
            facts: HeaderFacts {
                median_time_past: Some(blocks.median_time_past(height - 1).map_err(unreadable)?),
                ..HeaderFacts::default()
            },
            median_time_past: Some(&at_height),
            ..BlockPosition::at_height(blocks.params(), height)
        };
        let memory = block.memory() + undo.memory();
        let (block, undo) = (Arc::new(block), Arc::new(undo));
        let coins: GivenCoins<'_> = GivenCoins::InOrder(&undo);
        let verifier = self.shared.verification.verifier.as_ref();
        let validated =
            validate_without_scripts(&block, coins, self.shared.verification.own_coins, &position, verifier);
        let WithoutScripts { verified, flags, .. } = match validated {
            Ok(validated) => validated,
            Err(VerifyBlockError::Reject(reject)) => return Ok(Err(reject)),
            Err(error) => return Err(Problem::Unreadable(error.to_string())),
        };
        let mut pending = self.pool.begin(&block, &undo, flags, height, way.lanes);
        // Without workers all checks have been run by now, but for what is deferred.
        pending.end_round();
        Ok(Ok(Waiting {
            height,
            verified,
            way,
            pending,
            block,
            undo,
            memory,
            search: *search,
        }))
    }

    /// Has everything verified that the first block waits for.
    fn finish_first(&mut self) {
        let is_waiting = |open: &OpenRun<V, T>| !open.waiting.is_empty();
        let Some(number) = self.runs.iter().position(is_waiting) else {
            return;
        };
        let Some(mut waiting) = self.runs[number].waiting.pop_front() else {
            return;
        };
        self.waiting_bytes -= waiting.memory;
        let (height, mut search, mut first) = (waiting.height, waiting.search, None);
        let problem = loop {
            match self.finish(waiting, number) {
                Ok(()) => return,
                Err(problem) => {
                    first.get_or_insert(problem);
                }
            }
            match self.begin(height, &mut search) {
                Ok(other) => waiting = other,
                Err(problem) => break first.unwrap_or(problem),
            }
        };
        self.shared.count(height, None);
        let unverified = unverified(self.shared.verification.blocks, height, problem);
        self.runs[number].run.unverified.push(unverified);
    }

    /// Waits for the scripts of a block, and adds it to its run.
    fn finish(&mut self, waiting: Waiting<V>, number: usize) -> Result<(), Problem> {
        let Waiting {
            height,
            verified,
            way,
            pending,
            block,
            undo,
            ..
        } = waiting;
        let failure = pending.finish().failure;
        let run = &mut self.runs[number].run;
        let change = BlockChange {
            height,
            block: &block,
            undo: &undo,
        };
        let verdict: Result<(), VerifyBlockError> =
            script_verdict(&block, failure).and_then(|()| Ok((self.shared.each)(&change, &mut run.value)?));
        if let Err(error) = verdict {
            return Err(match error {
                VerifyBlockError::Reject(reject) => Problem::Reject(reject),
                error => Problem::Unreadable(error.to_string()),
            });
        }
        self.shared.count(height, Some(&verified));
        run.signatures.add(height, way);
        run.totals.add(&BlockTotals {
            blocks: 1,
            transactions: verified.transactions,
            inputs: verified.inputs,
            fees: verified.fees.into(),
            weight: verified.weight,
        });
        Ok(())
    }

    /// Takes the verdicts that are there, and gives out the runs that are over. `all_begun` says
    /// whether the last run gets no more blocks.
    fn collect(&mut self, all_begun: bool) {
        loop {
            let all_begun = all_begun || self.runs.len() > 1;
            let Some(open) = self.runs.front_mut() else { return };
            match open.waiting.front_mut() {
                Some(first) => {
                    if !first.pending.is_done() {
                        return;
                    }
                    self.finish_first();
                }
                None if all_begun => {
                    if let Some(mut open) = self.runs.pop_front() {
                        open.run.unverified.sort_by_key(|unverified| unverified.height);
                        // Nobody takes runs when the caller's thread has panicked.
                        let _ = self.sender.send(open.run);
                    }
                }
                None => return,
            }
        }
    }
}

pub(super) fn unreadable(error: BlockReadError) -> Problem {
    match error {
        BlockReadError::Rejected { reject, .. } => Problem::Reject(*reject),
        BlockReadError::Unreadable { detail, .. } => Problem::Unreadable(detail),
        BlockReadError::NoUndoFile { why, .. } => Problem::NoUndoFile(why),
        error @ (BlockReadError::NoUndo { .. } | BlockReadError::NoUndoRecord { .. } | BlockReadError::Undo { .. }) => {
            Problem::NoUndo(error.to_string())
        }
        error => Problem::Unreadable(error.to_string()),
    }
}

pub(super) fn unverified(blocks: &ChainBlocks, height: u32, problem: Problem) -> Unverified {
    Unverified {
        hash: blocks.hash(height).unwrap_or_default(),
        height,
        found_at: blocks.found_at(height).unwrap_or_default(),
        problem,
    }
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

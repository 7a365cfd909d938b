//! Script checks on several threads.
//!
//! A round of the check queue is the checks of one block, in the order of its inputs. A check is a
//! transaction, which one thread makes ready, runs and frees: what the verifier makes for it stays
//! in that thread's caches and its allocator's arena. Only the inputs of large transactions are
//! checks of their own; the first thread that comes to such a transaction makes it ready for all.
//! The lowest input that fails is the round's answer, whatever the timing. What the checks read
//! belongs to the round, which lives until its last check is gone.
//!
//! A block may defer: then a check only records signature checks, and these are verified together
//! with those of other blocks (`gather`). The round of such a block is over before its scripts have
//! their verdicts. The block's verdict is the lower one of two failures: that of the round, and the
//! lowest among the scripts that were deferred. This is the lowest failing input of all: a round
//! runs every check below its lowest failure, so every script below it has passed, or was deferred
//! and is decided too.
//!
//! - `block`: what the checks of a block read, and its scripts that were deferred;
//! - `gather`: where these lie, and how they are verified;
//! - `record`: who hears when checks ran.

mod block;
mod failure;
mod gather;
mod record;

pub use failure::CheckFailure;
pub use record::CheckRecord;

use block::{BlockChecks, lock};
use blockmill_block::{Block, BlockUndo};
use blockmill_checkqueue::{Check, CheckQueue, ClosedRound, Fault, TooManyRounds};
use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, contain};
use blockmill_rules::{ScriptFlags, ScriptVerifier, SignatureCounts, VerifyError};
use gather::Gather;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Of so many checks one is timed: looking at the clock takes as long as a cheap script.
const TIMED_ONE_OF: usize = 8;

/// How often everything is verified for a block at most. Two times are enough, since the second one
/// decides what the first had to run again. The rest is a margin.
const VERIFIED_TIMES_MAX: usize = 4;

/// Most inputs of a transaction that one thread runs. With more there is enough to share.
const INPUTS_TOGETHER: usize = 8;

/// How often a thread looks whether another one has made a transaction ready, before it sleeps:
/// some tens of microseconds.
const LOOKS_MAX: u32 = 1_000;

/// Inputs of one transaction that are checked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    transaction: usize,
    /// Index of the first input in the transaction.
    first: usize,
    count: usize,
    /// Where the transaction is made ready for several units, by number among those for which that
    /// is so.
    shared: Option<usize>,
}

/// The units of a block, in the order of their inputs.
fn units(block: &Block) -> impl Iterator<Item = Unit> + '_ {
    let mut large = 0;
    // The coinbase spends nothing, so it has no script to run.
    (1..block.transaction_count()).flat_map(move |transaction| {
        let inputs = block.input_range(transaction).len();
        let shared = (inputs > INPUTS_TOGETHER).then_some(large);
        large += usize::from(shared.is_some());
        let count = if shared.is_some() { 1 } else { inputs };
        // A step of 0 panics, even where there are no inputs.
        (0..inputs).step_by(count.max(1)).map(move |first| Unit {
            transaction,
            first,
            count,
            shared,
        })
    })
}

/// What the checks of a round share.
struct RoundChecks<V: ScriptVerifier + 'static> {
    checks: Arc<BlockChecks<V>>,
    /// One per transaction whose inputs are units of their own.
    prepared: Vec<SharedTransaction<V>>,
    /// Where signature checks are deferred to, if they are.
    gather: Option<Arc<Gather<V>>>,
    /// Transactions whose number has this rest are timed, where there are several threads.
    timed: Option<usize>,
}

/// A transaction whose inputs are units of their own: made ready by the first thread that needs it.
struct SharedTransaction<V: ScriptVerifier> {
    prepared: OnceLock<Result<V::Prepared, VerifyError>>,
    begun: AtomicBool,
}

impl<V: ScriptVerifier> Default for SharedTransaction<V> {
    fn default() -> Self {
        Self {
            prepared: OnceLock::new(),
            begun: AtomicBool::new(false),
        }
    }
}

impl<V: ScriptVerifier> SharedTransaction<V> {
    /// Threads come here together when a transaction begins, and making it ready mostly takes less
    /// time than sleeping and waking. So those that come second look for a while before they sleep.
    fn get_or_prepare(
        &self,
        prepare: impl FnOnce() -> Result<V::Prepared, VerifyError>,
    ) -> &Result<V::Prepared, VerifyError> {
        if let Some(prepared) = self.prepared.get() {
            return prepared;
        }
        // Relaxed: this only says who came first, and `OnceLock` orders what is prepared.
        if self.begun.swap(true, Ordering::Relaxed) {
            for _ in 0..LOOKS_MAX {
                std::hint::spin_loop();
                if let Some(prepared) = self.prepared.get() {
                    return prepared;
                }
            }
        }
        self.prepared.get_or_init(prepare)
    }
}

impl<V: ScriptVerifier + 'static> RoundChecks<V> {
    /// Runs the scripts of a unit. Time for deferred checks is added to `deferred`.
    fn check(&self, unit: &Unit, deferred: &mut Duration) -> Result<(), CheckFailure> {
        let prepare = || self.checks.prepare(unit.transaction);
        match unit.shared {
            None => self.verify(unit, &prepare(), deferred),
            Some(number) => self.verify(unit, self.prepared[number].get_or_prepare(prepare), deferred),
        }
    }

    fn verify(
        &self,
        unit: &Unit,
        prepared: &Result<V::Prepared, VerifyError>,
        deferred: &mut Duration,
    ) -> Result<(), CheckFailure> {
        let checks = &self.checks;
        let failure = |number: usize, error: VerifyError| CheckFailure {
            input: checks.input(unit.transaction, number),
            error,
        };
        let prepared = prepared.as_ref().map_err(|error| failure(unit.first, error.clone()))?;
        let mut recorder = self.gather.as_ref().map(|gather| gather.recorder());
        for number in unit.first..unit.first + unit.count {
            let outcome = match &mut recorder {
                None => checks.verifier.verify(prepared, number, checks.flags),
                Some(recorder) => recorder.run(checks, prepared, unit.transaction, number),
            };
            outcome.map_err(|error| failure(number, error))?;
            if let Some(recorder) = &mut recorder {
                *deferred += recorder.verify_if_full();
            }
        }
        Ok(())
    }
}

/// The script check of a unit.
struct UnitCheck<V> {
    unit: Unit,
    verifier: std::marker::PhantomData<fn(V)>,
}

impl<V: ScriptVerifier + 'static> Check for UnitCheck<V> {
    type Shared = RoundChecks<V>;
    type Error = CheckFailure;

    fn run(&mut self, round: &RoundChecks<V>) -> Result<(), CheckFailure> {
        let checks = &round.checks;
        let traced = checks.record.now();
        let sampled = round.timed == Some((self.unit.transaction + self.unit.first) % TIMED_ONE_OF);
        let start = traced.or_else(|| sampled.then(Instant::now));
        let mut deferred = Duration::ZERO;
        let outcome = round.check(&self.unit, &mut deferred);
        let mut busy = deferred;
        if let Some(start) = start {
            checks.record.add_since(checks.height, traced);
            let checking = start.elapsed().saturating_sub(deferred);
            busy += if traced.is_some() {
                checking
            } else {
                // The check that was timed stands for those that were not.
                checking * TIMED_ONE_OF as u32
            };
        }
        if !busy.is_zero() {
            checks.add_busy(busy);
        }
        outcome
    }
}

/// The failure of a unit whose check panicked.
fn panicked<V>(checks: &BlockChecks<V>, unit: &Unit, panic: &Panic) -> CheckFailure {
    CheckFailure {
        input: checks.input(unit.transaction, unit.first),
        error: VerifyError::Verifier(panic.to_string()),
    }
}

/// Runs checks on this thread, until one fails.
fn run_here<V: ScriptVerifier + 'static>(
    unit_checks: impl Iterator<Item = UnitCheck<V>>,
    shared: &RoundChecks<V>,
) -> Option<CheckFailure> {
    for mut check in unit_checks {
        let unit = check.unit;
        match contain(|| check.run(shared)) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => return Some(failure),
            Err(panic) => return Some(panicked(&shared.checks, &unit, &panic)),
        }
    }
    None
}

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundResult {
    /// The failure of the lowest input, if any failed.
    pub failure: Option<CheckFailure>,
    /// Time that threads spent on checks, added up; of several threads estimated from a part of the
    /// checks.
    pub busy: Duration,
    /// Time that the master waited for the workers' last checks.
    pub wait: Duration,
}

/// The checks of a block, under way. Dropping it abandons those that have not begun, and nobody
/// asks for the verdicts of those that were deferred.
pub struct PendingChecks<V: ScriptVerifier + 'static> {
    /// None when it is over.
    round: Option<ClosedRound<UnitCheck<V>>>,
    /// Failure of the round.
    failure: Option<CheckFailure>,
    checks: Arc<BlockChecks<V>>,
    gather: Option<Arc<Gather<V>>>,
    /// Time that the master spent in adding checks, which is all of it when there are no workers.
    adding: Option<Duration>,
    /// Time for the deferred checks that [`finish`](Self::finish) had verified.
    deferred: Duration,
    wait: Duration,
}

impl<V: ScriptVerifier + 'static> PendingChecks<V> {
    /// Whether [`finish`](Self::finish) would neither run a check nor wait.
    pub fn is_done(&mut self) -> bool {
        self.end_round_if_done();
        self.is_decided()
    }

    /// Whether the round is over and every script has its verdict. A script that has none yet holds
    /// what it reads.
    fn is_decided(&mut self) -> bool {
        self.round.is_none() && Arc::get_mut(&mut self.checks).is_some()
    }

    /// Whether every check has been run. Deferred scripts may have no verdict yet.
    pub fn is_round_over(&self) -> bool {
        self.round.is_none()
    }

    /// Gives up the slot in the check queue if all checks have been run. Returns whether they
    /// have.
    pub fn end_round_if_done(&mut self) -> bool {
        if self.round.as_ref().is_some_and(ClosedRound::is_done) {
            self.end_round();
        }
        self.round.is_none()
    }

    /// Runs checks, at most so many; returns how many there were.
    pub fn help(&self, checks_max: u32) -> u32 {
        self.round.as_ref().map_or(0, |round| round.help_some(checks_max))
    }

    /// Runs what nobody has begun and waits for the rest, but not for deferred scripts.
    /// Returns false if the round was over.
    pub fn end_round(&mut self) -> bool {
        let Some(round) = self.round.take() else {
            return false;
        };
        round.help();
        let waiting = Instant::now();
        self.failure = round.wait().err().map(|failure| match failure.fault {
            Fault::Failed(failure) => failure,
            Fault::Panicked(panic) => match units(&self.checks.block).nth(failure.index) {
                Some(unit) => panicked(&self.checks, &unit, &panic),
                None => CheckFailure {
                    input: 0,
                    error: VerifyError::Verifier(panic.to_string()),
                },
            },
        });
        self.wait += waiting.elapsed();
        true
    }

    /// Runs what nobody has begun, waits for the rest, has deferred checks verified, and says what
    /// came of it.
    pub fn finish(mut self) -> RoundResult {
        self.end_round();
        for _ in 0..VERIFIED_TIMES_MAX {
            if self.is_decided() {
                break;
            }
            if let Some(gather) = &self.gather {
                let spent = gather.verify_all();
                self.deferred += spent.busy;
                self.wait += spent.wait;
            }
        }
        // A script without a verdict must not pass.
        let undecided = (!self.is_decided()).then(|| CheckFailure {
            input: 0,
            error: VerifyError::Verifier("deferred signature checks were not verified".to_owned()),
        });
        let failure = CheckFailure::lower(self.failure.take(), lock(&self.checks.failure).take());
        let checking = Duration::from_nanos(self.checks.busy_ns.load(Ordering::Relaxed));
        RoundResult {
            failure: CheckFailure::lower(undecided, failure),
            busy: self.adding.unwrap_or(checking) + self.deferred,
            wait: self.wait,
        }
    }
}

impl<V: ScriptVerifier + 'static> Drop for PendingChecks<V> {
    fn drop(&mut self) {
        // Relaxed: a script that still runs does so in vain, and does no harm.
        self.checks.abandoned.store(true, Ordering::Relaxed);
    }
}

/// The threads that run script checks: the caller, and workers beside it.
pub struct CheckPool<V: ScriptVerifier + 'static> {
    verifier: Arc<V>,
    queue: CheckQueue<UnitCheck<V>>,
    /// None if the verifier defers nothing.
    gather: Option<Arc<Gather<V>>>,
    record: CheckRecord,
    /// Rounds so far.
    rounds: AtomicUsize,
    /// Dropped after the queues that it serves.
    _own_pool: Option<ThreadPool>,
}

impl<V: ScriptVerifier + 'static> CheckPool<V> {
    /// A pool of `threads` threads, the caller included; with one there are no others.
    ///
    /// # Errors
    /// What the operating system says when it makes no more threads.
    pub fn new(verifier: Arc<V>, threads: usize) -> std::io::Result<Self> {
        let thread_pool = ThreadPool::new(&ThreadPoolOptions {
            name: "check".to_owned(),
            ..ThreadPoolOptions::workers(threads.saturating_sub(1))
        })?;
        let mut pool = Self::in_pool(verifier, &thread_pool, 0);
        pool._own_pool = Some(thread_pool);
        Ok(pool)
    }

    /// A pool of the caller and the workers of a pool, which serve it before work sources of a
    /// higher number.
    pub fn in_pool(verifier: Arc<V>, thread_pool: &ThreadPool, priority: u32) -> Self {
        Self::with_record(verifier, thread_pool, priority, CheckRecord::default())
    }

    /// The same pool, whose checks are recorded.
    pub fn with_record(verifier: Arc<V>, thread_pool: &ThreadPool, priority: u32, record: CheckRecord) -> Self {
        Self {
            gather: Gather::new(&verifier, thread_pool, priority, record.clone()),
            queue: CheckQueue::new(thread_pool, priority),
            verifier,
            record,
            rounds: AtomicUsize::new(0),
            _own_pool: None,
        }
    }

    /// Workers beside the caller.
    pub fn workers(&self) -> usize {
        self.queue.workers()
    }

    /// Whether the verifier defers signature checks of blocks that may defer.
    pub fn can_defer(&self) -> bool {
        self.gather.is_some()
    }

    /// How signature checks were verified so far.
    pub fn signature_counts(&self) -> SignatureCounts {
        self.verifier.signature_counts()
    }

    /// Memory in bytes of the deferred signature checks.
    pub fn deferred_memory(&self) -> usize {
        self.gather.as_ref().map_or(0, |gather| gather.memory())
    }

    /// Verifies a part of what is deferred, if there is enough to be worth it. Returns how long
    /// that took.
    pub fn verify_some(&self) -> Option<Duration> {
        self.gather.as_ref()?.verify_some()
    }

    /// Verifies what is left of blocks that were abandoned, so that nothing holds their memory.
    pub fn verify_abandoned(&self) {
        if let Some(gather) = &self.gather {
            gather.verify_all();
            // What was run again for blocks that were not.
            gather.verify_all();
        }
    }

    /// Runs the scripts of a block. `undo` has a coin for every input but the coinbase's. `defer`
    /// says whether signature checks are deferred.
    pub fn run(&self, block: &Arc<Block>, undo: &Arc<BlockUndo>, flags: ScriptFlags, defer: bool) -> RoundResult {
        self.begin(block, undo, flags, 0, defer).finish()
    }

    /// Begins to run the scripts of a block. Runs all of them at once if there are no workers, or
    /// while [`ROUNDS_MAX`](blockmill_checkqueue::ROUNDS_MAX) rounds are under way. `height` is for
    /// the record.
    pub fn begin(
        &self,
        block: &Arc<Block>,
        undo: &Arc<BlockUndo>,
        flags: ScriptFlags,
        height: u32,
        defer: bool,
    ) -> PendingChecks<V> {
        let start = Instant::now();
        let sizes = (1..block.transaction_count()).map(|transaction| block.input_range(transaction).len());
        let large = sizes.clone().filter(|&inputs| inputs > INPUTS_TOGETHER).count();
        let count = sizes
            // As many as `units` makes.
            .map(|inputs| if inputs > INPUTS_TOGETHER { inputs } else { 1 })
            .sum();
        let alone = self.queue.workers() == 0;
        let number = self.rounds.fetch_add(1, Ordering::Relaxed);
        let checks = Arc::new(BlockChecks {
            verifier: Arc::clone(&self.verifier),
            block: Arc::clone(block),
            undo: Arc::clone(undo),
            flags,
            height,
            record: self.record.clone(),
            failure: Mutex::new(None),
            abandoned: AtomicBool::new(false),
            busy_ns: AtomicU64::new(0),
        });
        let gather = self.gather.as_ref().filter(|_| defer).cloned();
        let shared = RoundChecks {
            checks: Arc::clone(&checks),
            prepared: (0..large).map(|_| SharedTransaction::default()).collect(),
            gather: gather.clone(),
            // Another rest in each round, so that every part of a block is timed in turn.
            timed: (!alone).then_some(number % TIMED_ONE_OF),
        };
        let unit_checks = units(block).map(|unit| UnitCheck {
            unit,
            verifier: std::marker::PhantomData,
        });
        let (round, failure) = match self.queue.begin(count, shared) {
            Ok(mut round) => {
                round.add(unit_checks);
                (Some(round.close()), None)
            }
            // All slots of the queue are taken: the checks run here, at once.
            Err(TooManyRounds(shared)) => (None, run_here(unit_checks, &shared)),
        };
        PendingChecks {
            round,
            failure,
            checks,
            gather,
            adding: alone.then(|| start.elapsed()),
            deferred: Duration::ZERO,
            wait: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;

//! Script checks on several threads.
//!
//! A round of the check queue is the checks of one block, in the order of its inputs. A check is a transaction, which one thread makes ready,
//! runs and frees: what the verifier makes for it stays in that thread's caches and its allocator's arena. Only the inputs of large
//! transactions are checks of their own; the first thread that comes to such a transaction makes it ready for all. The lowest input that
//! fails is the round's answer, whatever the timing. What the checks read belongs to the round, which lives until its last check is gone.

use crate::report::Stage;
use crate::timeline::Timeline;
use blockmill_block::{Block, BlockUndo};
use blockmill_checkqueue::{Check, CheckQueue, ClosedRound, Fault, TooManyRounds};
use blockmill_crew::Crew;
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Of so many checks one is timed: looking at the clock takes as long as a cheap script.
const TIMED_ONE_OF: usize = 8;

/// A check that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// The input's number, counted through the block.
    pub input: usize,
    /// Why.
    pub error: VerifyError,
}

/// Most inputs of a transaction that one thread runs. With more there is enough to share.
const INPUTS_TOGETHER: usize = 8;

/// Inputs of one transaction that are checked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    transaction: usize,
    /// Places of the inputs in the transaction.
    first: usize,
    count: usize,
    /// Where the transaction is made ready for several units, by number among those for which that is so.
    shared: Option<usize>,
}

/// The units of a block, in the order of their inputs.
fn units(block: &Block) -> impl Iterator<Item = Unit> + '_ {
    let mut large = 0;
    (1..block.transaction_count()).flat_map(move |transaction| {
        let inputs = block.input_range(transaction).len();
        let shared = (inputs > INPUTS_TOGETHER).then_some(large);
        large += usize::from(shared.is_some());
        let count = if shared.is_some() { 1 } else { inputs };
        (0..inputs).step_by(count.max(1)).map(move |first| Unit {
            transaction,
            first,
            count,
            shared,
        })
    })
}

/// What the script checks of a block read.
struct BlockChecks<V: ScriptVerifier> {
    verifier: Arc<V>,
    block: Arc<Block>,
    undo: Arc<BlockUndo>,
    height: u32,
    timeline: Timeline,
    flags: ScriptFlags,
    /// One per transaction whose inputs are units of their own; made by the first thread that needs it.
    prepared: Vec<OnceLock<Result<V::Prepared, VerifyError>>>,
    /// Transactions whose number has this rest are timed, where there are several threads.
    timed: Option<usize>,
    busy_ns: Arc<AtomicU64>,
}

impl<V: ScriptVerifier> BlockChecks<V> {
    fn prepare(&self, transaction: usize) -> Result<V::Prepared, VerifyError> {
        let spent: Vec<_> = self
            .undo
            .transaction(transaction - 1)
            .iter()
            .map(|coin| SpentOutput {
                value: coin.value,
                script_pubkey: &coin.script_pubkey,
            })
            .collect();
        self.verifier.prepare(self.block.transaction(transaction).raw(), &spent)
    }

    fn check(&self, unit: &Unit) -> Result<(), CheckFailure> {
        match unit.shared {
            None => self.verify(unit, &self.prepare(unit.transaction)),
            Some(number) => self.verify(
                unit,
                self.prepared[number].get_or_init(|| self.prepare(unit.transaction)),
            ),
        }
    }

    fn verify(&self, unit: &Unit, prepared: &Result<V::Prepared, VerifyError>) -> Result<(), CheckFailure> {
        for place in unit.first..unit.first + unit.count {
            let outcome = match prepared {
                Ok(prepared) => self.verifier.verify(prepared, place, self.flags),
                Err(error) => Err(error.clone()),
            };
            outcome.map_err(|error| CheckFailure {
                input: self.block.input_range(unit.transaction).start + place,
                error,
            })?;
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
    type Shared = BlockChecks<V>;
    type Error = CheckFailure;

    fn run(&mut self, checks: &BlockChecks<V>) -> Result<(), CheckFailure> {
        if let Some(start) = checks.timeline.now() {
            let outcome = checks.check(&self.unit);
            checks.timeline.did(Stage::Check, checks.height, Some(start));
            checks
                .busy_ns
                .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            return outcome;
        }
        if checks.timed != Some((self.unit.transaction + self.unit.first) % TIMED_ONE_OF) {
            return checks.check(&self.unit);
        }
        let start = Instant::now();
        let outcome = checks.check(&self.unit);
        let busy_ns = start.elapsed().as_nanos() as u64 * TIMED_ONE_OF as u64;
        checks.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        outcome
    }
}

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundResult {
    /// The failure of the lowest input, if any failed.
    pub failure: Option<CheckFailure>,
    /// Time that threads spent on checks, added up; of several threads estimated from a part of the checks.
    pub busy: Duration,
    /// Time that the master waited for the workers' last checks.
    pub wait: Duration,
}

/// The checks of a block, under way. Dropping it abandons those that have not begun.
pub struct PendingChecks<V: ScriptVerifier + 'static> {
    round: ClosedRound<UnitCheck<V>>,
    block: Arc<Block>,
    /// Time that the master spent in adding them, which is all of it when there are no workers.
    adding: Option<Duration>,
    busy_ns: Arc<AtomicU64>,
}

impl<V: ScriptVerifier + 'static> PendingChecks<V> {
    /// Whether [`finish`](Self::finish) would neither run a check nor wait.
    pub fn is_done(&self) -> bool {
        self.round.is_done()
    }

    /// Runs checks, at most so many; returns how many there were.
    pub fn help(&self, checks_max: u32) -> u32 {
        self.round.help_some(checks_max)
    }

    /// Runs what nobody has begun, waits for the rest, and says what came of it.
    pub fn finish(self) -> RoundResult {
        self.round.help();
        let waiting = Instant::now();
        let failure = self.round.wait().err().map(|failure| match failure.fault {
            Fault::Failed(failure) => failure,
            Fault::Panicked(panic) => {
                let unit = units(&self.block).nth(failure.index);
                CheckFailure {
                    input: unit.map_or(0, |unit| self.block.input_range(unit.transaction).start + unit.first),
                    error: VerifyError::Verifier(panic.to_string()),
                }
            }
        });
        RoundResult {
            failure,
            busy: self
                .adding
                .unwrap_or(Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))),
            wait: waiting.elapsed(),
        }
    }
}

/// The threads that run script checks: the caller, and workers beside it.
pub struct CheckPool<V: ScriptVerifier + 'static> {
    verifier: Arc<V>,
    queue: CheckQueue<UnitCheck<V>>,
    timeline: Timeline,
    /// Rounds so far.
    rounds: AtomicUsize,
}

impl<V: ScriptVerifier + 'static> CheckPool<V> {
    /// A pool of `threads` threads, the caller included; with one there are no others.
    ///
    /// # Errors
    /// What the operating system says when it makes no more threads.
    pub fn new(verifier: Arc<V>, threads: usize) -> std::io::Result<Self> {
        Ok(Self::with_queue(
            verifier,
            CheckQueue::alone(threads.saturating_sub(1))?,
        ))
    }

    /// A pool of the caller and the workers of a crew, which serve it before stations of a higher number.
    pub fn in_crew(verifier: Arc<V>, crew: &Crew, priority: u32) -> Self {
        Self::with_queue(verifier, CheckQueue::new(crew, priority))
    }

    /// The same pool, that notes its checks in a timeline.
    pub(crate) fn noting(self, timeline: Timeline) -> Self {
        Self { timeline, ..self }
    }

    /// Workers beside the caller.
    pub fn workers(&self) -> usize {
        self.queue.workers()
    }

    fn with_queue(verifier: Arc<V>, queue: CheckQueue<UnitCheck<V>>) -> Self {
        Self {
            verifier,
            queue,
            timeline: Timeline::default(),
            rounds: AtomicUsize::new(0),
        }
    }

    /// Runs the scripts of a block. `undo` has a coin for every input but the coinbase's.
    pub fn run(&self, block: &Arc<Block>, undo: &Arc<BlockUndo>, flags: ScriptFlags) -> RoundResult {
        self.begin(block, undo, flags, 0).finish()
    }

    /// Begins to run the scripts of a block; without workers all are run before this returns. `height` is for the timeline. No more than [`ROUNDS_MAX`](blockmill_checkqueue::ROUNDS_MAX) blocks can be
    /// under way: of a master that has as many it would wait forever.
    pub fn begin(
        &self,
        block: &Arc<Block>,
        undo: &Arc<BlockUndo>,
        flags: ScriptFlags,
        height: u32,
    ) -> PendingChecks<V> {
        let start = Instant::now();
        let sizes = (1..block.transaction_count()).map(|transaction| block.input_range(transaction).len());
        let large = sizes.clone().filter(|&inputs| inputs > INPUTS_TOGETHER).count();
        let count = sizes
            .map(|inputs| if inputs > INPUTS_TOGETHER { inputs } else { 1 })
            .sum();
        let alone = self.queue.workers() == 0;
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let busy_ns = Arc::new(AtomicU64::new(0));
        let mut checks = BlockChecks {
            verifier: Arc::clone(&self.verifier),
            block: Arc::clone(block),
            undo: Arc::clone(undo),
            height,
            timeline: self.timeline.clone(),
            flags,
            prepared: (0..large).map(|_| OnceLock::new()).collect(),
            timed: (!alone).then_some(round % TIMED_ONE_OF),
            busy_ns: Arc::clone(&busy_ns),
        };
        let mut round = loop {
            match self.queue.begin(count, checks) {
                Ok(round) => break round,
                // Others have rounds too; one of them ends.
                Err(TooManyRounds(back)) => checks = back,
            }
            std::thread::yield_now();
        };
        round.add(units(block).map(|unit| UnitCheck {
            unit,
            verifier: std::marker::PhantomData,
        }));
        PendingChecks {
            round: round.close(),
            block: Arc::clone(block),
            adding: alone.then(|| start.elapsed()),
            busy_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Coin;
    use std::collections::HashMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers by the value of the spent coin, and counts.
    #[derive(Default)]
    struct Counting {
        prepared: AtomicUsize,
        verified: Mutex<HashMap<i64, usize>>,
    }

    const INVALID: i64 = 1_000_000;
    const BROKEN: i64 = 2_000_000;
    const PANICS: i64 = 3_000_000;

    impl ScriptVerifier for Counting {
        type Prepared = Vec<i64>;
        type Deferred<T: Send> = ();

        fn prepare(&self, _transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Vec<i64>, VerifyError> {
            self.prepared.fetch_add(1, Ordering::Relaxed);
            Ok(spent.iter().map(|output| output.value).collect())
        }

        fn verify(&self, prepared: &Vec<i64>, input: usize, _flags: ScriptFlags) -> Result<(), VerifyError> {
            let value = prepared[input];
            *lock(&self.verified).entry(value).or_default() += 1;
            match value {
                INVALID.. if value % 1_000_000 != value && value < BROKEN => Err(VerifyError::Invalid),
                BROKEN.. if value < PANICS => Err(VerifyError::Verifier("broken".to_owned())),
                PANICS.. => panic!("a check that panics"),
                _ => Ok(()),
            }
        }
    }

    /// A block whose transactions have these numbers of inputs, behind a coinbase.
    fn block(inputs: &[usize]) -> Arc<Block> {
        let mut bytes = vec![0; 80];
        blockmill_block::reader::write_compact_size(inputs.len() as u64 + 1, &mut bytes);
        for &count in std::iter::once(&1).chain(inputs) {
            bytes.extend([1, 0, 0, 0]);
            blockmill_block::reader::write_compact_size(count as u64, &mut bytes);
            for _ in 0..count {
                bytes.extend([0; 41]);
            }
            bytes.extend([0; 5]);
        }
        Arc::new(Block::decode(bytes).unwrap())
    }

    /// Coins numbered through the block, with some values replaced.
    fn undo(inputs: &[usize], special: &[(i64, i64)]) -> Arc<BlockUndo> {
        let mut undo = BlockUndo::default();
        let mut number = 0;
        for &count in inputs {
            for _ in 0..count {
                number += 1;
                let kind = special
                    .iter()
                    .find(|special| special.0 == number)
                    .map_or(0, |special| special.1);
                undo.push_coin(Coin {
                    value: kind + number,
                    height: 1,
                    is_coinbase: false,
                    script_pubkey: Box::new([]),
                });
            }
            undo.end_transaction();
        }
        Arc::new(undo)
    }

    fn run(pool: &CheckPool<Counting>, inputs: &[usize], special: &[(i64, i64)]) -> Option<CheckFailure> {
        pool.run(&block(inputs), &undo(inputs, special), ScriptFlags::NONE)
            .failure
    }

    #[test]
    fn every_check_runs_once_and_every_transaction_is_prepared_once() {
        for threads in [1, 2, 8] {
            let verifier = Arc::new(Counting::default());
            let pool = CheckPool::new(Arc::clone(&verifier), threads).unwrap();
            for inputs in [&[][..], &[1], &[3, 500, 1, 700], &[1; 300]] {
                verifier.prepared.store(0, Ordering::Relaxed);
                lock(&verifier.verified).clear();
                assert_eq!(run(&pool, inputs, &[]), None);
                assert_eq!(verifier.prepared.load(Ordering::Relaxed), inputs.len());
                let verified = lock(&verifier.verified);
                assert_eq!(verified.len(), inputs.iter().sum::<usize>());
                assert!(verified.values().all(|&count| count == 1));
            }
        }
    }

    #[test]
    fn the_lowest_failure_is_the_answer_however_many_threads() {
        for threads in [1, 2, 8] {
            let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
            for round in 0..200 {
                let first = 1 + round * 5;
                let special = [(first + 1, INVALID), (first, INVALID), (1200, INVALID)];
                let failure = run(&pool, &[10, 990, 300], &special).unwrap();
                assert_eq!(failure.input, first as usize);
                assert_eq!(failure.error, VerifyError::Invalid);
                // Nothing of it is left in the next round.
                assert_eq!(run(&pool, &[100, 100], &[]), None);
            }
        }
    }

    #[test]
    fn a_panic_and_a_broken_verifier_are_errors_not_verdicts() {
        for threads in [1, 4] {
            let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
            for kind in [BROKEN, PANICS] {
                let failure = run(&pool, &[50, 50], &[(60, kind), (70, INVALID)]).unwrap();
                assert_eq!(failure.input, 60);
                assert!(matches!(failure.error, VerifyError::Verifier(_)));
            }
            assert_eq!(run(&pool, &[50, 50], &[]), None);
        }
    }

    #[test]
    fn many_short_rounds() {
        let pool = CheckPool::new(Arc::new(Counting::default()), 4).unwrap();
        for round in 0..1000 {
            assert_eq!(run(&pool, &[1 + round % 30], &[]), None);
        }
    }
}

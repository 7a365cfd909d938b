//! Script checks on several threads.
//!
//! A *round* is the checks of one block: one per input, numbered through the block. Threads claim them in order, a few at a
//! time; the first thread that comes to a transaction makes it ready for all. The lowest number that fails is the round's
//! answer: every lower one has been claimed before and is run to its end, so the answer does not depend on timing. What the
//! checks read belongs to the round, which lives until its last check has let go of it.
//!
//! This is the simple queue: one round at a time, behind a mutex and condition variables. The lock-free one replaces it.

use blockmill_block::{Block, BlockUndo};
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Checks that are claimed at a time.
const CLAIM: usize = 8;

/// A check that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// The input's number, counted through the block.
    pub input: usize,
    /// Why.
    pub error: VerifyError,
}

struct Round<V: ScriptVerifier> {
    verifier: Arc<V>,
    block: Arc<Block>,
    undo: Arc<BlockUndo>,
    flags: ScriptFlags,
    /// One per transaction, the coinbase left out; made by the first thread that needs it.
    prepared: Vec<OnceLock<Result<V::Prepared, VerifyError>>>,
    first: usize,
    end: usize,
    /// Next number to claim. Relaxed: a claim orders nothing but itself.
    next: AtomicUsize,
    /// Lowest number that failed so far. Relaxed: read early only to skip work, and for the answer after `finished`.
    lowest_failure: AtomicUsize,
    failures: Mutex<Vec<CheckFailure>>,
    /// Checks that are done with. The Release increments pair with the Acquire load in `is_finished`.
    finished: AtomicUsize,
    busy_nanoseconds: AtomicU64,
}

impl<V: ScriptVerifier> Round<V> {
    fn check(&self, input: usize) -> Result<(), VerifyError> {
        let (transaction, place) = self.block.locate_input(input);
        let prepared = self.prepared[transaction - 1].get_or_init(|| {
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
        });
        match prepared {
            Ok(prepared) => self.verifier.verify(prepared, place, self.flags),
            Err(error) => Err(error.clone()),
        }
    }

    /// Runs checks until none is left to claim. Returns whether this thread did the last one.
    fn work(&self) -> bool {
        let start = Instant::now();
        let mut last = false;
        loop {
            let claimed = self.next.fetch_add(CLAIM, Ordering::Relaxed);
            if claimed >= self.end {
                break;
            }
            let claimed_end = (claimed + CLAIM).min(self.end);
            for input in claimed..claimed_end {
                if input > self.lowest_failure.load(Ordering::Relaxed) {
                    break;
                }
                let outcome = catch_unwind(AssertUnwindSafe(|| self.check(input)))
                    .unwrap_or_else(|_| Err(VerifyError::Verifier("a script check panicked".to_owned())));
                if let Err(error) = outcome {
                    self.lowest_failure.fetch_min(input, Ordering::Relaxed);
                    lock(&self.failures).push(CheckFailure { input, error });
                }
            }
            let count = claimed_end - claimed;
            last = self.finished.fetch_add(count, Ordering::AcqRel) + count == self.end - self.first;
        }
        let busy = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanoseconds.fetch_add(busy, Ordering::Relaxed);
        last
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire) == self.end - self.first
    }

    fn failure(&self) -> Option<CheckFailure> {
        let failures = lock(&self.failures);
        failures.iter().min_by_key(|failure| failure.input).cloned()
    }
}

struct State<V: ScriptVerifier> {
    round: Option<Arc<Round<V>>>,
    /// Counts rounds, so that a worker joins each at most once.
    number: u64,
    stop: bool,
}

struct Shared<V: ScriptVerifier> {
    state: Mutex<State<V>>,
    begin: Condvar,
    done: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No thread panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundResult {
    /// The failure of the lowest input, if any failed.
    pub failure: Option<CheckFailure>,
    /// Time that threads spent on checks, added up.
    pub busy: Duration,
    /// Time that the master waited for the workers' last checks.
    pub wait: Duration,
}

/// The threads that run script checks: the caller, and workers beside it.
pub struct CheckPool<V: ScriptVerifier> {
    verifier: Arc<V>,
    shared: Arc<Shared<V>>,
    workers: Vec<JoinHandle<()>>,
}

impl<V: ScriptVerifier + 'static> CheckPool<V> {
    /// A pool of `threads` threads, the caller included; with one there are no others.
    ///
    /// # Errors
    /// What the operating system says when it makes no more threads.
    pub fn new(verifier: Arc<V>, threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                round: None,
                number: 0,
                stop: false,
            }),
            begin: Condvar::new(),
            done: Condvar::new(),
        });
        let mut pool = Self {
            verifier,
            shared,
            workers: Vec::new(),
        };
        for number in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new()
                .name(format!("check-{number}"))
                .spawn(move || serve(&shared))?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Runs the scripts of a block. `undo` has a coin for every input but the coinbase's.
    pub fn run(&self, block: &Arc<Block>, undo: &Arc<BlockUndo>, flags: ScriptFlags) -> RoundResult {
        // The coinbase runs no script.
        let first = block.input_range(0).end;
        let round = Arc::new(Round {
            verifier: Arc::clone(&self.verifier),
            block: Arc::clone(block),
            undo: Arc::clone(undo),
            flags,
            prepared: (1..block.transaction_count()).map(|_| OnceLock::new()).collect(),
            first,
            end: block.input_count(),
            next: AtomicUsize::new(first),
            lowest_failure: AtomicUsize::new(usize::MAX),
            failures: Mutex::new(Vec::new()),
            finished: AtomicUsize::new(0),
            busy_nanoseconds: AtomicU64::new(0),
        });
        let shared_out = !self.workers.is_empty() && round.end - first > CLAIM;
        if shared_out {
            let mut state = lock(&self.shared.state);
            state.round = Some(Arc::clone(&round));
            state.number += 1;
            drop(state);
            self.shared.begin.notify_all();
        }
        round.work();
        let waiting = Instant::now();
        if shared_out {
            let mut state = lock(&self.shared.state);
            while !round.is_finished() {
                state = wait(&self.shared.done, state);
            }
            state.round = None;
        }
        RoundResult {
            failure: round.failure(),
            busy: Duration::from_nanos(round.busy_nanoseconds.load(Ordering::Relaxed)),
            wait: waiting.elapsed(),
        }
    }
}

/// What a worker does until the pool stops.
fn serve<V: ScriptVerifier>(shared: &Shared<V>) {
    let mut joined = 0;
    loop {
        let mut state = lock(&shared.state);
        let round = loop {
            if state.stop {
                return;
            }
            match &state.round {
                Some(round) if state.number != joined => break Arc::clone(round),
                _ => state = wait(&shared.begin, state),
            }
        };
        joined = state.number;
        drop(state);
        if round.work() {
            // Under the lock, so that the master cannot look and then sleep in between.
            let _state = lock(&shared.state);
            shared.done.notify_all();
        }
    }
}

impl<V: ScriptVerifier> Drop for CheckPool<V> {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.begin.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of checks; there is nothing to say about any other.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Coin;
    use std::collections::HashMap;

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

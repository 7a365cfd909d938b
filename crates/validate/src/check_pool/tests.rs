mod deferring;
#[path = "../../../engine/tests/it/common/recorded.rs"]
mod recorded;

use super::*;
use blockmill_block::CoinRef;
use blockmill_rules::{Outcome, SpentOutput};
use recorded::Recorded;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signature checks that [`Counting`] verifies together.
const TOGETHER: usize = 32;

/// Answers by the value of the spent coin, and counts.
#[derive(Default)]
struct Counting {
    prepared: AtomicUsize,
    verified: Mutex<HashMap<i64, usize>>,
    /// Verdicts of deferred scripts, by value.
    decided: Mutex<HashMap<i64, usize>>,
    /// Scripts in each batch that was verified.
    batches: Mutex<Vec<usize>>,
    /// How often a transaction was made ready again.
    again: AtomicUsize,
}

const INVALID: i64 = 1_000_000;
const BROKEN: i64 = 2_000_000;
const PANICS: i64 = 3_000_000;
/// From here on scripts are deferred, if they may be.
const PUT_OFF: i64 = 4_000_000;
const PUT_OFF_INVALID: i64 = 5_000_000;
const AGAIN: i64 = 6_000_000;
const AGAIN_INVALID: i64 = 7_000_000;
/// Has its verdict when it is run again.
const AGAIN_REFUSED: i64 = 8_000_000;
const SETTLING_PANICS: i64 = 9_000_000;
/// Is dropped without a verdict.
const LOST: i64 = 10_000_000;
/// Is never decided, and stays among the deferred ones.
const FORGOTTEN: i64 = 11_000_000;

/// What a coin's value says about its script.
fn kind(value: i64) -> i64 {
    value / 1_000_000 * 1_000_000
}

fn ordinary(value: i64) -> Result<(), VerifyError> {
    match kind(value) {
        INVALID | PUT_OFF_INVALID | AGAIN_INVALID | AGAIN_REFUSED => Err(VerifyError::Invalid),
        BROKEN => Err(VerifyError::Verifier("broken".to_owned())),
        PANICS => panic!("a check that panics"),
        _ => Ok(()),
    }
}

/// A script, the value of its coin, and whether it was run again.
type Valued<T> = (T, i64, bool);

impl ScriptVerifier for Counting {
    type Prepared = Vec<i64>;
    type Deferred<T: Send> = Recorded<Valued<T>>;

    fn prepare(&self, _transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Vec<i64>, VerifyError> {
        self.prepared.fetch_add(1, Ordering::Relaxed);
        Ok(spent.iter().map(|output| output.value).collect())
    }

    fn verify(&self, prepared: &Vec<i64>, input: usize, _flags: ScriptFlags) -> Result<(), VerifyError> {
        let value = prepared[input];
        *lock(&self.verified).entry(value).or_default() += 1;
        ordinary(value)
    }

    fn verify_deferring<T: Send>(
        &self,
        prepared: &Vec<i64>,
        input: usize,
        flags: ScriptFlags,
        script: T,
        deferred: &mut Recorded<Valued<T>>,
    ) -> Result<Outcome, VerifyError> {
        let value = prepared[input];
        if value < PUT_OFF {
            return self.verify(prepared, input, flags).map(|()| Outcome::Passed);
        }
        *lock(&self.verified).entry(value).or_default() += 1;
        deferred.0.push((script, value, false));
        Ok(Outcome::Deferred)
    }

    fn verify_deferred<T: Send>(
        &self,
        deferred: &mut Recorded<Valued<T>>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<Vec<i64>>, VerifyError>,
        settled: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        lock(&self.batches).push(deferred.0.len());
        for (script, value, again) in std::mem::take(&mut deferred.0) {
            let mut answer = |script, verdict| {
                *lock(&self.decided).entry(value).or_default() += 1;
                settled(script, verdict);
            };
            match kind(value) {
                AGAIN | AGAIN_INVALID | AGAIN_REFUSED if !again => match prepare(&script) {
                    Err(error) => answer(script, Err(error)),
                    Ok(_) if kind(value) == AGAIN_REFUSED => answer(script, Err(VerifyError::Invalid)),
                    Ok(_) => {
                        self.again.fetch_add(1, Ordering::Relaxed);
                        deferred.0.push((script, value, true));
                    }
                },
                SETTLING_PANICS => panic!("settling panics"),
                LOST => drop(script),
                FORGOTTEN => deferred.0.push((script, value, false)),
                _ => answer(script, ordinary(value)),
            }
        }
    }

    fn signatures_together(&self) -> usize {
        TOGETHER
    }
}

/// A block whose transactions have these numbers of inputs, after a coinbase.
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
            undo.push_coin(CoinRef {
                value: kind + number,
                height: 1,
                is_coinbase: false,
                script_pubkey: &[],
            });
        }
        undo.end_transaction();
    }
    Arc::new(undo)
}

fn run(pool: &CheckPool<Counting>, inputs: &[usize], special: &[(i64, i64)], defer: bool) -> Option<CheckFailure> {
    pool.run(&block(inputs), &undo(inputs, special), ScriptFlags::NONE, defer)
        .failure
}

/// Makes these inputs of a kind.
fn all(kind: i64, inputs: std::ops::RangeInclusive<i64>) -> Vec<(i64, i64)> {
    inputs.map(|input| (input, kind)).collect()
}

/// Numbers of threads, without and with deferred signature checks.
fn ways(threads: &[usize]) -> impl Iterator<Item = (usize, bool)> + '_ {
    threads
        .iter()
        .flat_map(|&threads| [false, true].map(|defer| (threads, defer)))
}

/// A block whose checks find no slot among the rounds is checked by the caller.
#[test]
fn more_blocks_than_rounds() {
    for (threads, defer) in ways(&[1, 2]) {
        let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
        let count = blockmill_checkqueue::ROUNDS_MAX + 8;
        let pending: Vec<_> = (0..count)
            .map(|number| {
                // A panic fails what was deferred by the same thread.
                let error = if defer { BROKEN } else { PANICS };
                let special = match number % 4 {
                    1 => vec![(3, INVALID)],
                    2 => vec![(2, error), (3, INVALID)],
                    _ => all(PUT_OFF, 1..=3),
                };
                pool.begin(&block(&[1, 2]), &undo(&[1, 2], &special), ScriptFlags::NONE, 0, defer)
            })
            .collect();
        for (number, pending) in pending.into_iter().enumerate() {
            let failure = pending.finish().failure;
            // Numbers of inputs begin with the coinbase's.
            let expected = match number % 4 {
                1 => Some(3),
                2 => Some(2),
                _ => None,
            };
            let input = failure.as_ref().map(|failure| failure.input);
            assert_eq!(
                input, expected,
                "{number}, {threads} threads, deferring {defer}: {failure:?}"
            );
        }
    }
}

#[test]
fn every_check_runs_once_and_every_transaction_is_prepared_once() {
    for (threads, defer) in ways(&[1, 2, 8]) {
        let verifier = Arc::new(Counting::default());
        let pool = CheckPool::new(Arc::clone(&verifier), threads).unwrap();
        for inputs in [&[][..], &[1], &[3, 500, 1, 700], &[1; 300]] {
            verifier.prepared.store(0, Ordering::Relaxed);
            lock(&verifier.verified).clear();
            assert_eq!(run(&pool, inputs, &[], defer), None);
            assert_eq!(verifier.prepared.load(Ordering::Relaxed), inputs.len());
            let verified = lock(&verifier.verified);
            assert_eq!(verified.len(), inputs.iter().sum::<usize>());
            assert!(verified.values().all(|&count| count == 1));
        }
    }
}

#[test]
fn the_lowest_failure_is_the_answer_however_many_threads() {
    for (threads, defer) in ways(&[1, 2, 8]) {
        let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
        for round in 0..200 {
            let first = 1 + round * 5;
            let special = [(first + 1, INVALID), (first, INVALID), (1200, INVALID)];
            let failure = run(&pool, &[10, 990, 300], &special, defer).unwrap();
            assert_eq!(failure.input, first as usize);
            assert_eq!(failure.error, VerifyError::Invalid);
            // Nothing of it is left in the next round.
            assert_eq!(run(&pool, &[100, 100], &[], defer), None);
        }
    }
}

#[test]
fn a_panic_and_a_broken_verifier_are_errors_not_verdicts() {
    for (threads, defer) in ways(&[1, 4]) {
        let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
        for kind in [BROKEN, PANICS] {
            let failure = run(&pool, &[50, 50], &[(60, kind), (70, INVALID)], defer).unwrap();
            assert_eq!(failure.input, 60);
            assert!(matches!(failure.error, VerifyError::Verifier(_)));
        }
        assert_eq!(run(&pool, &[50, 50], &[], defer), None);
    }
}

#[test]
fn many_short_rounds() {
    for (threads, defer) in ways(&[4]) {
        let pool = CheckPool::new(Arc::new(Counting::default()), threads).unwrap();
        for round in 0..1000 {
            assert_eq!(run(&pool, &[1 + round % 30], &[], defer), None);
        }
    }
}

//! What the script checks of a block read, and what came of those that were deferred.

use super::failure::CheckFailure;
use super::record::CheckRecord;
use crate::coins::spent_outputs;
use blockmill_block::{Block, BlockUndo};
use blockmill_rules::{ScriptFlags, ScriptVerifier, VerifyError};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A panic leaves the data whole, since each write is one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the script checks of a block read. Its round, its deferred scripts and its master hold it.
/// Once only the master does, every script has its verdict.
pub(super) struct BlockChecks<V> {
    pub(super) verifier: Arc<V>,
    pub(super) block: Arc<Block>,
    pub(super) undo: Arc<BlockUndo>,
    pub(super) flags: ScriptFlags,
    pub(super) height: u32,
    pub(super) record: CheckRecord,
    /// Failure of the lowest input among the deferred scripts.
    pub(super) failure: Mutex<Option<CheckFailure>>,
    /// Whether nobody asks for the verdict any more.
    pub(super) abandoned: AtomicBool,
    pub(super) busy_ns: AtomicU64,
}

impl<V: ScriptVerifier> BlockChecks<V> {
    pub(super) fn prepare(&self, transaction: usize) -> Result<V::Prepared, VerifyError> {
        let spent = spent_outputs(self.undo.transaction(transaction - 1));
        self.verifier.prepare(self.block.transaction(transaction).raw(), &spent)
    }
}

impl<V> BlockChecks<V> {
    /// Number of an input through the block, from its number in its transaction.
    pub(super) fn input(&self, transaction: usize, number: usize) -> usize {
        self.block.input_range(transaction).start + number
    }

    pub(super) fn add_busy(&self, busy: Duration) {
        self.busy_ns.fetch_add(busy.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether the verdict of an input cannot change the block's.
    fn is_beside_the_point(&self, input: usize) -> bool {
        let lowest = || lock(&self.failure).as_ref().map(|failure| failure.input);
        self.abandoned.load(Ordering::Relaxed) || lowest().is_some_and(|lowest| lowest < input)
    }

    fn fail(&self, failure: CheckFailure) {
        let mut lowest = lock(&self.failure);
        *lowest = CheckFailure::lower(lowest.take(), Some(failure));
    }
}

thread_local! {
    /// Whether this thread offers a script to the verifier, which drops the script if it has the
    /// verdict at once.
    static OFFERING: Cell<bool> = const { Cell::new(false) };
}

/// This thread offers a script.
pub(super) struct Offering(());

impl Offering {
    pub(super) fn begin() -> Self {
        OFFERING.set(true);
        Self(())
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        OFFERING.set(false);
    }
}

/// A script whose signature checks may be deferred. If it is dropped without a verdict its block
/// fails with an error, so that a script that is lost neither passes nor is waited for.
pub(super) struct Script<V: ScriptVerifier> {
    checks: Arc<BlockChecks<V>>,
    transaction: u32,
    /// Index of the input in the transaction.
    number: u32,
    answered: bool,
}

/// The transaction that was last made ready again, with its number and its block.
pub(super) type Again<V> = (Arc<BlockChecks<V>>, u32, Arc<<V as ScriptVerifier>::Prepared>);

impl<V: ScriptVerifier> Script<V> {
    pub(super) fn new(checks: &Arc<BlockChecks<V>>, transaction: usize, number: usize) -> Self {
        Self {
            checks: Arc::clone(checks),
            transaction: transaction as u32,
            number: number as u32,
            answered: false,
        }
    }

    fn input(&self) -> usize {
        self.checks.input(self.transaction as usize, self.number as usize)
    }

    /// Makes the script's transaction ready again. The inputs of a transaction lie together, so
    /// `last` serves most of them.
    pub(super) fn prepare_again(&self, last: &mut Option<Again<V>>) -> Result<Arc<V::Prepared>, VerifyError> {
        if self.checks.is_beside_the_point(self.input()) {
            return Err(VerifyError::Verifier("its verdict is not needed".to_owned()));
        }
        if let Some((checks, transaction, prepared)) = last
            && Arc::ptr_eq(checks, &self.checks)
            && *transaction == self.transaction
        {
            return Ok(Arc::clone(prepared));
        }
        // The former one is freed first: a transaction may be large.
        *last = None;
        let prepared = Arc::new(self.checks.prepare(self.transaction as usize)?);
        *last = Some((Arc::clone(&self.checks), self.transaction, Arc::clone(&prepared)));
        Ok(prepared)
    }

    /// Takes the verdict.
    pub(super) fn answer(mut self, verdict: Result<(), VerifyError>) {
        self.answered = true;
        if let Err(error) = verdict {
            let input = self.input();
            self.checks.fail(CheckFailure { input, error });
        }
    }
}

impl<V: ScriptVerifier> Drop for Script<V> {
    fn drop(&mut self) {
        if !self.answered && !OFFERING.get() {
            let input = self.input();
            let error = VerifyError::Verifier("deferred signature checks are lost".to_owned());
            self.checks.fail(CheckFailure { input, error });
        }
    }
}

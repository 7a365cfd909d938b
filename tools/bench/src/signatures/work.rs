//! Script checks, and the two ways of running them on one thread: ordinary, or deferred and
//! verified together.

use blockmill_harness::{Failure, Run, Stopwatch, same};
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::sync::Arc;

/// Most calls of `verify_deferred`: one for the scripts, one for those that ran again, and one to
/// detect a fault.
const RUNS_MAX: usize = 3;

/// A transaction, and which of its inputs to check.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) bytes: Vec<u8>,
    /// Amount and locking script of the output that each input spends.
    pub(super) spent: Vec<(i64, Box<[u8]>)>,
    pub(super) inputs: Vec<usize>,
    pub(super) flags: ScriptFlags,
}

/// Script checks, by transaction.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) transactions: Vec<Transaction>,
    /// Passes of a run over the transactions, each as over a block of its own.
    pub(super) passes: usize,
}

/// The name of a script while its signature checks are deferred.
#[derive(Debug, Clone, Copy)]
struct ScriptId {
    transaction: usize,
    /// Index of its verdict.
    verdict: usize,
}

/// A way of running script checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each one at once.
    Ordinary,
    /// Signature checks deferred, gathered over all transactions, and resolved together.
    Deferring,
}

impl Transaction {
    fn prepare<V: ScriptVerifier>(&self, verifier: &V) -> Result<V::Prepared, VerifyError> {
        let spent: Vec<SpentOutput<'_>> = self
            .spent
            .iter()
            .map(|(value, script)| SpentOutput {
                value: *value,
                script_pubkey: script,
            })
            .collect();
        verifier.prepare(&self.bytes, &spent)
    }
}

impl Work {
    /// Inputs to check in a pass.
    pub(super) fn inputs(&self) -> usize {
        self.transactions
            .iter()
            .map(|transaction| transaction.inputs.len())
            .sum()
    }

    /// Empty work of one pass.
    pub(super) fn once() -> Self {
        Self {
            transactions: Vec::new(),
            passes: 1,
        }
    }

    /// Runs all checks. All must pass; `name` names the run in errors.
    pub(super) fn time<V: ScriptVerifier>(&self, verifier: &V, way: Way, name: &str) -> Result<Run, Failure> {
        let clock = Stopwatch::start();
        for _ in 0..self.passes {
            let verdicts = match way {
                Way::Ordinary => self.ordinary(verifier),
                Way::Deferring => self.deferring(verifier),
            };
            let verdicts = verdicts.map_err(|error| format!("{name}: {error}"))?;
            let passed = verdicts.iter().filter(|&&verdict| verdict == Some(true)).count();
            same(name, "number of inputs that pass", passed, verdicts.len())?;
        }
        Ok(clock.run((self.inputs() * self.passes) as u64))
    }

    /// The verdict of each input, by ordinary runs.
    fn ordinary<V: ScriptVerifier>(&self, verifier: &V) -> Result<Vec<Option<bool>>, VerifyError> {
        let mut verdicts = Vec::with_capacity(self.inputs());
        for transaction in &self.transactions {
            let prepared = transaction.prepare(verifier)?;
            for &input in &transaction.inputs {
                verdicts.push(verdict(verifier.verify(&prepared, input, transaction.flags))?);
            }
        }
        Ok(verdicts)
    }

    /// The verdict of each input, by deferred runs, as in an engine. Checks are resolved whenever
    /// enough are gathered, and at the end. None for a script that never was.
    fn deferring<V: ScriptVerifier>(&self, verifier: &V) -> Result<Vec<Option<bool>>, VerifyError> {
        let together = verifier.signatures_together();
        let mut verdicts = vec![None; self.inputs()];
        let mut deferred = V::Deferred::<ScriptId>::default();
        let mut next = 0;
        for (index, transaction) in self.transactions.iter().enumerate() {
            let prepared = transaction.prepare(verifier)?;
            for &input in &transaction.inputs {
                let script = ScriptId {
                    transaction: index,
                    verdict: next,
                };
                match verifier.verify_deferring(&prepared, input, transaction.flags, script, &mut deferred) {
                    Ok(Outcome::Passed) => verdicts[next] = Some(true),
                    Ok(Outcome::Deferred) => {}
                    Err(error) => verdicts[next] = verdict(Err(error))?,
                }
                next += 1;
                if together > 0 && deferred.signatures() >= together {
                    self.resolve(verifier, &mut deferred, &mut verdicts)?;
                }
            }
        }
        // Scripts that ran again defer once more, so one call is not enough.
        for _ in 0..RUNS_MAX {
            if deferred.scripts() > 0 {
                self.resolve(verifier, &mut deferred, &mut verdicts)?;
            }
        }
        Ok(verdicts)
    }

    /// Prepares a transaction again. Its inputs are neighbours, so `last` serves most of them.
    fn prepare_again<V: ScriptVerifier>(
        &self,
        verifier: &V,
        transaction: usize,
        last: &mut Option<(usize, Arc<V::Prepared>)>,
    ) -> Result<Arc<V::Prepared>, VerifyError> {
        match last {
            Some((same, prepared)) if *same == transaction => Ok(Arc::clone(prepared)),
            _ => {
                let prepared = Arc::new(self.transactions[transaction].prepare(verifier)?);
                *last = Some((transaction, Arc::clone(&prepared)));
                Ok(prepared)
            }
        }
    }

    fn resolve<V: ScriptVerifier>(
        &self,
        verifier: &V,
        deferred: &mut V::Deferred<ScriptId>,
        verdicts: &mut [Option<bool>],
    ) -> Result<(), VerifyError> {
        let (mut failed, mut last) = (None, None);
        verifier.verify_deferred(
            deferred,
            &mut |script| self.prepare_again(verifier, script.transaction, &mut last),
            &mut |script, result| match verdict(result) {
                Ok(verdict) => verdicts[script.verdict] = verdict,
                Err(error) => failed = Some(error),
            },
        );
        failed.map_or(Ok(()), Err)
    }
}

/// The verdict of a script. A failure of the verifier is an error.
fn verdict(result: Result<(), VerifyError>) -> Result<Option<bool>, VerifyError> {
    match result {
        Ok(()) => Ok(Some(true)),
        Err(VerifyError::Invalid) => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

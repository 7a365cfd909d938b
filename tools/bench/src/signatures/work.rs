//! Script checks to run, and the two ways of running them on one thread: at once, or put off and
//! settled together.

use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::sync::Arc;

/// Settling ends after so many calls: one for the scripts, one for those that ran again, and one to
/// see a fault.
const SETTLES_MAX: usize = 3;

/// A transaction, and which of its inputs to check.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) bytes: Vec<u8>,
    /// Amount and locking script of what each input spends.
    pub(super) spent: Vec<(i64, Box<[u8]>)>,
    pub(super) inputs: Vec<usize>,
    pub(super) flags: ScriptFlags,
}

/// Script checks, by transaction.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) transactions: Vec<Transaction>,
    /// How often a run goes over them, each time as over a block of its own.
    pub(super) passes: usize,
}

/// How a script is named while its signature checks are put off.
#[derive(Debug, Clone, Copy)]
struct Place {
    transaction: usize,
    /// Its verdict's place.
    verdict: usize,
}

/// How script checks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each one at once.
    Ordinary,
    /// Signature checks put off, gathered over all transactions, and settled together.
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

    /// No checks yet, to be run once.
    pub(super) fn once() -> Self {
        Self {
            transactions: Vec::new(),
            passes: 1,
        }
    }

    /// Runs all checks. They must all pass; `run` names the run where one does not.
    pub(super) fn time<V: ScriptVerifier>(&self, verifier: &V, way: Way, run: &str) -> Result<Elapsed, BenchError> {
        let clock = Stopwatch::start();
        for _ in 0..self.passes {
            let verdicts = match way {
                Way::Ordinary => self.ordinary(verifier),
                Way::Deferring => self.deferring(verifier),
            };
            let verdicts = verdicts.map_err(|error| BenchError::Verifier {
                run: run.to_owned(),
                error,
            })?;
            let passed = verdicts.iter().filter(|&&verdict| verdict == Some(true)).count();
            if passed != verdicts.len() {
                return Err(BenchError::Mismatch {
                    run: format!("{run}, {way:?}"),
                    what: "number of inputs that pass",
                    found: passed.to_string(),
                    wanted: verdicts.len().to_string(),
                });
            }
        }
        Ok(clock.elapsed())
    }

    /// The verdict of each input, each run at once.
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

    /// The verdict of each input, as an engine comes to it: put off, and settled whenever enough
    /// signature checks are gathered, and at the end. None for a script that was never settled.
    fn deferring<V: ScriptVerifier>(&self, verifier: &V) -> Result<Vec<Option<bool>>, VerifyError> {
        let together = verifier.signatures_together();
        let mut verdicts = vec![None; self.inputs()];
        let mut deferred = V::Deferred::<Place>::default();
        let mut next = 0;
        for (index, transaction) in self.transactions.iter().enumerate() {
            let prepared = transaction.prepare(verifier)?;
            for &input in &transaction.inputs {
                let place = Place {
                    transaction: index,
                    verdict: next,
                };
                match verifier.verify_deferring(&prepared, input, transaction.flags, place, &mut deferred) {
                    Ok(Outcome::Passed) => verdicts[next] = Some(true),
                    Ok(Outcome::Deferred) => {}
                    Err(error) => verdicts[next] = verdict(Err(error))?,
                }
                next += 1;
                if together > 0 && deferred.signatures() >= together {
                    self.settle(verifier, &mut deferred, &mut verdicts)?;
                }
            }
        }
        for _ in 0..SETTLES_MAX {
            if deferred.scripts() > 0 {
                self.settle(verifier, &mut deferred, &mut verdicts)?;
            }
        }
        Ok(verdicts)
    }

    /// Makes a transaction ready again. Its inputs lie together, so `last` serves most of them.
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

    fn settle<V: ScriptVerifier>(
        &self,
        verifier: &V,
        deferred: &mut V::Deferred<Place>,
        verdicts: &mut [Option<bool>],
    ) -> Result<(), VerifyError> {
        let (mut failed, mut last) = (None, None);
        verifier.settle(
            deferred,
            &mut |place| self.prepare_again(verifier, place.transaction, &mut last),
            &mut |place, result| match verdict(result) {
                Ok(verdict) => verdicts[place.verdict] = verdict,
                Err(error) => failed = Some(error),
            },
        );
        failed.map_or(Ok(()), Err)
    }
}

/// A script that fails is a verdict; a verifier that fails is none.
fn verdict(result: Result<(), VerifyError>) -> Result<Option<bool>, VerifyError> {
    match result {
        Ok(()) => Ok(Some(true)),
        Err(VerifyError::Invalid) => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

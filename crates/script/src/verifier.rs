//! The verifier.

use crate::balance::Cost;
use crate::deferred::{Deferred, Script};
use crate::deferring::{Counts, Deferring, Verdicts, add, failed};
use crate::ffi::{self, End, Limits, Report};
use crate::lanes::Lanes;
use crate::recorder::{Known, NULLFAIL, Recorder};
use blockmill_rules::{Outcome, ScriptFlags, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError};
use secp256k1_lanes::{Backend, Check, Verdict};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one recording run may do. The ordinary run takes what goes beyond.
const LIMITS: Limits = Limits {
    hashed: 2_000_000,
    legacy: 100_000,
};

/// How many transactions were prepared, by any verifier: what one defers another may verify.
static PREPARED: AtomicU64 = AtomicU64::new(0);

/// What verifies signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signatures {
    /// libsecp256k1, one by one. Nothing is deferred.
    OneByOne,
    /// Many at once, on the first backend of [`Backend::ALL`] that the machine has.
    Lanes,
}

/// A transaction in Core's form, with the outputs that it spends and what the signature hashes of
/// all its inputs have in common.
pub struct CoreTransaction {
    inner: ffi::Transaction,
    /// No other has it.
    number: u64,
    /// Bytes of its serialization.
    bytes: usize,
}

impl fmt::Debug for CoreTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CoreTransaction")
            .field("inputs", &self.inner.inputs())
            .finish_non_exhaustive()
    }
}

/// Bitcoin Core's script interpreter.
///
/// Its counts have the commitments of taproot script paths among the signature checks.
pub struct CoreVerifier {
    /// None: nothing is deferred.
    deferring: Option<Deferring>,
    counts: Counts,
}

impl fmt::Debug for CoreVerifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CoreVerifier")
            .field("deferring", &self.deferring.is_some())
            .field("counts", &self.counts.get())
            .finish_non_exhaustive()
    }
}

impl CoreVerifier {
    /// A verifier with this way to verify signatures.
    pub fn new(signatures: Signatures) -> Self {
        match signatures {
            Signatures::OneByOne => Self::one_by_one(),
            Signatures::Lanes => Self::lanes(),
        }
    }

    fn one_by_one() -> Self {
        Self {
            deferring: None,
            counts: Counts::default(),
        }
    }

    fn lanes() -> Self {
        let make = |backend| Box::new(secp256k1_lanes::Verifier::with_backend(backend)) as Box<dyn Lanes>;
        Self {
            deferring: Some(Deferring::new(Backend::detect(), make)),
            counts: Counts::default(),
        }
    }

    /// What verifies signatures.
    pub fn signatures(&self) -> Signatures {
        match self.deferring {
            Some(_) => Signatures::Lanes,
            None => Signatures::OneByOne,
        }
    }

    /// Whether signature checks hold, in the order of the checks: in lanes where that is faster,
    /// and by libsecp256k1 where the lanes cannot tell.
    ///
    /// # Errors
    /// [`VerifyError::Verifier`] once lanes and libsecp256k1 have contradicted each other.
    pub fn verify_signatures(&self, checks: &[Check]) -> Result<Vec<bool>, VerifyError> {
        let Some(deferring) = self.deferring.as_ref().filter(|_| !checks.is_empty()) else {
            add(&self.counts.libsecp256k1, checks.len());
            return Ok(checks.iter().map(ffi::is_valid).collect());
        };
        let verdicts = deferring.verdicts(checks, &self.counts)?.verdicts;
        Ok(verdicts.into_iter().map(|verdict| verdict == Verdict::Valid).collect())
    }

    /// The ordinary run, whose word is final.
    fn ordinary(
        &self,
        prepared: &CoreTransaction,
        input: usize,
        flags: ScriptFlags,
    ) -> (Result<(), VerifyError>, Report) {
        let (end, report) = prepared.inner.run(input, flags.0);
        self.counts.libsecp256k1.fetch_add(report.asked, Relaxed);
        let verdict = match end {
            End::Passed => Ok(()),
            End::Failed => Err(VerifyError::Invalid),
            End::Stopped | End::Error => Err(failed("the interpreter ended with an exception")),
        };
        (verdict, report)
    }

    /// The ordinary run after recording runs that were in vain.
    fn after_all(
        &self,
        deferring: &Deferring,
        prepared: &CoreTransaction,
        input: usize,
        flags: ScriptFlags,
        cost: &mut Cost,
    ) -> Result<(), VerifyError> {
        let (verdict, report) = self.ordinary(prepared, input, flags);
        cost.went_astray();
        cost.ended_ordinarily(&report);
        if verdict.is_ok() {
            deferring.guesses.learn(report.signers);
        }
        verdict
    }

    /// Decides on a script of whose checks one is false: with a second run, and after that the
    /// ordinary one.
    ///
    /// None: the second run deferred other checks, and the script is in `deferred`.
    fn decide<T: Send>(
        &self,
        deferring: &Deferring,
        mut script: Script<T>,
        known: Known<'_>,
        prepared: &CoreTransaction,
        deferred: &mut Deferred<T>,
    ) -> Option<(Script<T>, Result<(), VerifyError>)> {
        let (input, flags) = (script.input, script.flags);
        if script.again {
            let verdict = self.after_all(deferring, prepared, input, flags, &mut script.cost);
            return Some((script, verdict));
        }
        add(&self.counts.again, 1);
        let mut recorder = Recorder::second(known, &mut deferred.checks, deferring.reserve);
        let (end, report) = prepared.inner.record(input, flags.0 | NULLFAIL, &LIMITS, &mut recorder);
        script.cost.run(&report);
        script.checks = recorder.recorded();
        script.signers = report.signers;
        script.again = true;
        if end == End::Passed && script.checks == 0 {
            deferring.guesses.learn(script.signers);
            return Some((script, Ok(())));
        }
        if end == End::Passed && deferred.scripts.try_reserve(1).is_ok() {
            let costs = deferring.costs;
            deferring.balance.defer(&mut script.cost, &report, script.checks, costs);
            deferred.scripts.push(script);
            return None;
        }
        recorder.discard();
        let verdict = self.after_all(deferring, prepared, input, flags, &mut script.cost);
        Some((script, verdict))
    }
}

/// Says what is wrong with the arguments of a run, if anything is.
fn check_arguments(prepared: &CoreTransaction, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
    if input >= prepared.inner.inputs() {
        return Err(failed(format!("there is no input {input}")));
    }
    if !flags.can_run() {
        return Err(failed(format!("unfit script flags {:#x}", flags.0)));
    }
    Ok(())
}

impl ScriptVerifier for CoreVerifier {
    type Prepared = CoreTransaction;
    type Deferred<T: Send> = Deferred<T>;

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<CoreTransaction, VerifyError> {
        let inner = ffi::Transaction::new(transaction, spent)
            .ok_or_else(|| failed(format!("no transaction with {} inputs", spent.len())))?;
        Ok(CoreTransaction {
            inner,
            number: PREPARED.fetch_add(1, Relaxed),
            bytes: transaction.len(),
        })
    }

    fn verify(&self, prepared: &CoreTransaction, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        check_arguments(prepared, input, flags)?;
        self.ordinary(prepared, input, flags).0
    }

    fn verify_deferring<T: Send>(
        &self,
        prepared: &CoreTransaction,
        input: usize,
        flags: ScriptFlags,
        script: T,
        deferred: &mut Deferred<T>,
    ) -> Result<Outcome, VerifyError> {
        check_arguments(prepared, input, flags)?;
        let Some(deferring) = &self.deferring else {
            return self.ordinary(prepared, input, flags).0.map(|()| Outcome::Passed);
        };
        deferring.contradicted()?;
        if !deferring.balance.allows() {
            let (verdict, report) = self.ordinary(prepared, input, flags);
            deferring.balance.ordinary(&report);
            return verdict.map(|()| Outcome::Passed);
        }
        let mut recorder = Recorder::first(&deferring.guesses, &mut deferred.checks, deferring.reserve);
        let (end, report) = prepared.inner.record(input, flags.0 | NULLFAIL, &LIMITS, &mut recorder);
        let checks = recorder.recorded();
        if end == End::Passed && checks == 0 {
            return Ok(Outcome::Passed);
        }
        let mut cost = Cost::default();
        cost.run(&report);
        if end == End::Passed && deferred.scripts.try_reserve(1).is_ok() {
            deferring.balance.defer(&mut cost, &report, checks, deferring.costs);
            deferred.scripts.push(Script {
                name: script,
                transaction: prepared.number,
                input,
                flags,
                checks,
                signers: report.signers,
                again: false,
                cost,
            });
            return Ok(Outcome::Deferred);
        }
        recorder.discard();
        let verdict = self.after_all(deferring, prepared, input, flags, &mut cost);
        deferring.balance.add(cost.change());
        verdict.map(|()| Outcome::Passed)
    }

    fn verify_deferred<T: Send>(
        &self,
        deferred: &mut Deferred<T>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<CoreTransaction>, VerifyError>,
        decided: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        let Deferred { scripts, checks } = std::mem::take(deferred);
        let Some(deferring) = &self.deferring else {
            // Another verifier deferred them.
            for script in scripts {
                let prepared = prepare(&script.name);
                let verdict = prepared.and_then(|prepared| self.verify(&prepared, script.input, script.flags));
                decided(script.name, verdict);
            }
            return;
        };
        let Verdicts { verdicts, check_ns } = match deferring.verdicts(&checks, &self.counts) {
            Ok(verdicts) => verdicts,
            Err(error) => {
                for script in scripts {
                    decided(script.name, Err(error.clone()));
                }
                return;
            }
        };
        // Scripts of one transaction mostly lie together: it is made ready once for all of them.
        let mut again: Option<(u64, Arc<CoreTransaction>)> = None;
        let mut from = 0;
        let mut change = 0;
        for mut script in scripts {
            let range = from..from + script.checks;
            from = range.end;
            let known = Known {
                checks: &checks[range.clone()],
                verdicts: &verdicts[range],
            };
            script.cost.spent += check_ns * known.checks.len() as i64;
            let (script, verdict) = if known.verdicts.iter().all(|&verdict| verdict == Verdict::Valid) {
                deferring.guesses.learn(script.signers);
                (script, Ok(()))
            } else {
                script.cost.went_astray();
                let prepared = match again.take_if(|(number, _)| *number == script.transaction) {
                    Some((_, prepared)) => Ok(prepared),
                    None => prepare(&script.name).and_then(|prepared| {
                        script.cost.prepared(prepared.bytes);
                        check_arguments(&prepared, script.input, script.flags).map(|()| prepared)
                    }),
                };
                match prepared {
                    Err(error) => (script, Err(error)),
                    Ok(prepared) => {
                        let number = script.transaction;
                        let ended = self.decide(deferring, script, known, &prepared, deferred);
                        again = Some((number, prepared));
                        match ended {
                            Some(ended) => ended,
                            None => continue,
                        }
                    }
                }
            };
            change += script.cost.change();
            decided(script.name, verdict);
        }
        deferring.balance.add(change);
    }

    fn signatures_together(&self) -> usize {
        match &self.deferring {
            // One less, so that a script with two checks does not begin a second batch for one.
            Some(_) => secp256k1_lanes::BATCH - 1,
            None => 0,
        }
    }

    fn signature_counts(&self) -> SignatureCounts {
        self.counts.get()
    }
}

/// What the tests put instead of parts.
#[cfg(test)]
impl CoreVerifier {
    pub(crate) fn with_lanes(make: impl Fn() -> Box<dyn Lanes> + Send + Sync + 'static) -> Self {
        Self {
            deferring: Some(Deferring::new(Backend::Avx512, move |_| make())),
            counts: Counts::default(),
        }
    }

    pub(crate) fn with_reserve(mut self, reserve: fn(&mut Vec<Check>) -> bool) -> Self {
        self.deferring.as_mut().unwrap().reserve = reserve;
        self
    }

    pub(crate) fn with_rechecked_one_in(mut self, checks: std::num::NonZeroU64) -> Self {
        self.deferring.as_mut().unwrap().rechecked_one_in = checks;
        self
    }

    pub(crate) fn balance(&self) -> i64 {
        self.deferring.as_ref().unwrap().balance.nanoseconds()
    }
}

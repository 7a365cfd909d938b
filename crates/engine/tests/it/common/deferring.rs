//! A verifier that runs scripts at once, and keeps their verdicts back until they are settled.

use super::recorded::Recorded;
use blockmill_rules::{Outcome, ScriptFlags, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Scripts that are settled together.
pub(crate) const TOGETHER: usize = 32;

/// One script of three is run again when it is settled first.
const AGAIN: usize = 3;

/// The batches that were settled, by their sizes.
pub(crate) type Batches = Arc<Mutex<Vec<usize>>>;

/// Keeps back what another verifier says.
pub(crate) struct Deferring<V> {
    verifier: V,
    pub(crate) batches: Batches,
    lanes: AtomicU64,
    again: AtomicU64,
}

impl<V> Deferring<V> {
    pub(crate) fn new(verifier: V) -> Self {
        Self {
            verifier,
            batches: Batches::default(),
            lanes: AtomicU64::new(0),
            again: AtomicU64::new(0),
        }
    }
}

pub(crate) struct Kept<T> {
    script: T,
    input: usize,
    flags: ScriptFlags,
    verdict: Result<(), VerifyError>,
    again: bool,
}

impl<V: ScriptVerifier> ScriptVerifier for Deferring<V> {
    type Prepared = V::Prepared;
    type Deferred<T: Send> = Recorded<Kept<T>>;

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError> {
        self.verifier.prepare(transaction, spent)
    }

    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        self.verifier.verify(prepared, input, flags)
    }

    fn verify_deferring<T: Send>(
        &self,
        prepared: &Self::Prepared,
        input: usize,
        flags: ScriptFlags,
        script: T,
        deferred: &mut Recorded<Kept<T>>,
    ) -> Result<Outcome, VerifyError> {
        deferred.0.push(Kept {
            script,
            input,
            flags,
            verdict: self.verifier.verify(prepared, input, flags),
            again: false,
        });
        Ok(Outcome::Deferred)
    }

    fn verify_deferred<T: Send>(
        &self,
        deferred: &mut Recorded<Kept<T>>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<Self::Prepared>, VerifyError>,
        settled: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        let kept = std::mem::take(&mut deferred.0);
        if !kept.is_empty() {
            let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
            batches.push(kept.len());
        }
        for (number, script) in kept.into_iter().enumerate() {
            if script.again || number % AGAIN != 0 {
                self.lanes.fetch_add(1, Ordering::Relaxed);
                settled(script.script, script.verdict);
                continue;
            }
            self.again.fetch_add(1, Ordering::Relaxed);
            match prepare(&script.script) {
                Ok(prepared) => deferred.0.push(Kept {
                    verdict: self.verifier.verify(&prepared, script.input, script.flags),
                    again: true,
                    ..script
                }),
                Err(error) => settled(script.script, Err(error)),
            }
        }
    }

    fn signatures_together(&self) -> usize {
        TOGETHER
    }

    fn signature_counts(&self) -> SignatureCounts {
        SignatureCounts {
            lanes: self.lanes.load(Ordering::Relaxed),
            again: self.again.load(Ordering::Relaxed),
            ..SignatureCounts::default()
        }
    }
}

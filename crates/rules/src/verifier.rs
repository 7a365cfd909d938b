//! The trait of script verifiers.
//!
//! A verifier may put signature checks off: it runs a script as if every signature were valid, and keeps what it
//! was asked. The caller gathers the signature checks of many scripts and settles them together. A script whose
//! checks are put off has no verdict until it is settled.

use crate::flags::ScriptFlags;
use std::sync::Arc;
use thiserror::Error;

/// What of a spent coin its spending needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentOutput<'a> {
    /// Amount in satoshi.
    pub value: i64,
    /// Locking script.
    pub script_pubkey: &'a [u8],
}

/// Why a script check does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The script fails.
    #[error("the script fails")]
    Invalid,
    /// The verifier itself failed; this says nothing about the script.
    #[error("script verifier: {0}")]
    Verifier(String),
}

/// What is known of an input's scripts after a run that may put signature checks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The scripts pass.
    Passed,
    /// The scripts pass if all signature checks that were put off are valid. `settle` gives the verdict.
    Deferred,
}

/// How many signature checks were verified, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignatureCounts {
    /// Verified in lanes.
    pub lanes: u64,
    /// Verified by libsecp256k1 in an ordinary run.
    pub kernel: u64,
    /// Scripts that were run a second time with known answers.
    pub again: u64,
    /// The lanes could not tell, and libsecp256k1 was asked.
    pub cannot_tell: u64,
    /// Valid in lanes, and checked once more by libsecp256k1.
    pub rechecked: u64,
}

impl SignatureCounts {
    /// What was counted since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            lanes: self.lanes - before.lanes,
            kernel: self.kernel - before.kernel,
            again: self.again - before.again,
            cannot_tell: self.cannot_tell - before.cannot_tell,
            rechecked: self.rechecked - before.rechecked,
        }
    }
}

/// Signature checks that were put off, with the scripts they belong to. `T` is the caller's name for a script.
pub trait DeferredChecks<T>: Default + Send {
    /// Signature checks in it.
    fn signatures(&self) -> usize;

    /// Scripts in it.
    fn scripts(&self) -> usize;

    /// Memory in bytes.
    fn memory(&self) -> usize;

    /// Takes everything out of `other`.
    fn append(&mut self, other: &mut Self);

    /// Takes scripts out, from the end, until they have at least so many signature checks or none is left.
    #[must_use]
    fn take(&mut self, signatures: usize) -> Self;
}

impl<T> DeferredChecks<T> for () {
    fn signatures(&self) -> usize {
        0
    }

    fn scripts(&self) -> usize {
        0
    }

    fn memory(&self) -> usize {
        0
    }

    fn append(&mut self, _other: &mut Self) {}

    fn take(&mut self, _signatures: usize) -> Self {}
}

/// Something that runs scripts.
pub trait ScriptVerifier: Send + Sync {
    /// A transaction made ready, once, for the checks of all its inputs: by one thread, for use by many.
    type Prepared: Send + Sync;

    /// Signature checks that were put off; `()` for a verifier that puts none off.
    type Deferred<T: Send>: DeferredChecks<T>;

    /// Makes a transaction ready. `transaction` is its serialization with witnesses, `spent` has one output per input.
    ///
    /// # Errors
    /// [`VerifyError::Verifier`].
    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError>;

    /// Runs the scripts of input number `input`.
    ///
    /// # Errors
    /// [`VerifyError::Invalid`] if they fail.
    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError>;

    /// As [`verify`](Self::verify), but signature checks may be put off into `deferred`, under the name `script`. A refusal
    /// is final. A verifier that puts none off verifies at once.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify).
    fn verify_deferring<T: Send>(
        &self,
        prepared: &Self::Prepared,
        input: usize,
        flags: ScriptFlags,
        script: T,
        deferred: &mut Self::Deferred<T>,
    ) -> Result<Outcome, VerifyError> {
        let _ = (script, deferred);
        self.verify(prepared, input, flags).map(|()| Outcome::Passed)
    }

    /// Verifies the signature checks that were put off. `settled` gets the verdict of each script, but of those that had to
    /// be run again and put other checks off: they stay in `deferred`. A second call settles them all. `prepare` makes the
    /// transaction of a script ready again, or hands out one that it has made for the script before.
    #[expect(clippy::type_complexity, reason = "a name for it would hide that it is a closure")]
    fn settle<T: Send>(
        &self,
        deferred: &mut Self::Deferred<T>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<Self::Prepared>, VerifyError>,
        settled: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        let _ = (deferred, prepare, settled);
    }

    /// How many signature checks should be settled together; 0 for a verifier that puts none off.
    fn signatures_together(&self) -> usize {
        0
    }

    /// How signature checks were verified so far.
    fn signature_counts(&self) -> SignatureCounts {
        SignatureCounts::default()
    }
}

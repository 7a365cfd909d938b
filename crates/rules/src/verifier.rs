//! The trait of script verifiers.
//!
//! A verifier may defer signature checks: it runs a script as if every signature were valid, and
//! records the checks. The caller gathers the checks of many scripts and verifies them together. A
//! script with deferred checks has no verdict until they are verified.

use crate::flags::ScriptFlags;
use std::sync::Arc;
use thiserror::Error;

/// A spent coin, as far as a script check needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentOutput<'a> {
    /// Amount in satoshi.
    pub value: i64,
    /// Locking script.
    pub script_pubkey: &'a [u8],
}

/// Why a script check did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The script fails.
    #[error("the script fails")]
    Invalid,
    /// The verifier itself failed. The script may be valid or not.
    #[error("script verifier: {0}")]
    Verifier(String),
}

/// The outcome of a run that may defer signature checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The scripts pass.
    Passed,
    /// The scripts pass if all deferred signature checks are valid.
    /// [`ScriptVerifier::verify_deferred`] gives the verdict.
    Deferred,
}

/// Numbers of verified signature checks, by the way of verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignatureCounts {
    /// Verified in lanes.
    pub lanes: u64,
    /// Verified by libsecp256k1 in an ordinary run of a script.
    pub libsecp256k1: u64,
    /// Scripts that were run a second time with known answers.
    pub again: u64,
    /// Left open by the lanes, and verified by libsecp256k1.
    pub cannot_tell: u64,
    /// Valid in lanes, and verified again by libsecp256k1.
    pub rechecked: u64,
}

/// Deferred signature checks and their scripts. `T` is the caller's name for a script.
pub trait DeferredChecks<T>: Default + Send {
    /// Number of signature checks.
    fn signatures(&self) -> usize;

    /// Number of scripts.
    fn scripts(&self) -> usize;

    /// Memory in bytes.
    fn memory(&self) -> usize;

    /// Moves all checks and scripts of `other` to `self`.
    fn append(&mut self, other: &mut Self);

    /// Takes scripts from the end until they have at least this many signature checks or none is
    /// left.
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

/// A verifier of scripts.
pub trait ScriptVerifier: Send + Sync {
    /// A transaction prepared once, by one thread, for the checks of all its inputs on many
    /// threads.
    type Prepared: Send + Sync;

    /// Deferred signature checks. `()` for a verifier that defers none.
    type Deferred<T: Send>: DeferredChecks<T>;

    /// Prepares a transaction. `transaction` is its serialization with witnesses. `spent` has one
    /// output per input.
    ///
    /// # Errors
    /// [`VerifyError::Verifier`].
    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError>;

    /// Runs the scripts of input number `input`.
    ///
    /// # Errors
    /// [`VerifyError::Invalid`] if the scripts fail, [`VerifyError::Verifier`] if the verifier
    /// does.
    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError>;

    /// As [`verify`](Self::verify), but may defer signature checks to `deferred`, under the name
    /// `script`. A refusal is final. A verifier that defers none verifies at once.
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

    /// Verifies the deferred signature checks. `decided` gets the verdict of each script. Some
    /// scripts run again and defer other checks: they stay in `deferred`, and a second call
    /// verifies them all. `prepare` prepares the transaction of a script again, or returns the one
    /// from the script before.
    #[expect(clippy::type_complexity, reason = "a name for it would hide that it is a closure")]
    fn verify_deferred<T: Send>(
        &self,
        deferred: &mut Self::Deferred<T>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<Self::Prepared>, VerifyError>,
        decided: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        let _ = (deferred, prepare, decided);
    }

    /// Number of signature checks to verify together. 0 for a verifier that defers none.
    fn signatures_together(&self) -> usize {
        0
    }

    /// Numbers of signature checks verified so far.
    fn signature_counts(&self) -> SignatureCounts {
        SignatureCounts::default()
    }
}

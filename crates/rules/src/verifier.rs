//! The trait behind which scripts are run.

use crate::flags::ScriptFlags;
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

/// Something that runs scripts.
pub trait ScriptVerifier: Send + Sync {
    /// A transaction made ready, once, for the checks of all its inputs: by one thread, for use by many.
    type Prepared: Send + Sync;

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
}

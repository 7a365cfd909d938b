//! A script verifier to which all scripts are valid.

use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};

/// To it all scripts are valid.
pub struct AcceptAll;

impl ScriptVerifier for AcceptAll {
    type Prepared = ();
    type Deferred<T: Send> = ();

    fn prepare(&self, _: &[u8], _: &[SpentOutput<'_>]) -> Result<(), VerifyError> {
        Ok(())
    }

    fn verify(&self, (): &(), _: usize, _: ScriptFlags) -> Result<(), VerifyError> {
        Ok(())
    }
}

//! Script verification by Bitcoin Core's interpreter, with signature checks deferred and verified
//! many at a time.
//!
//! Every script goes to Core's interpreter. A small shim in C++ gives it a checker that records
//! what signatures are to be verified and answers "valid"; the records of many scripts are verified
//! together, in lanes. Where all are valid, the run was the ordinary one. Where one is not, the
//! script is run again: at last by the ordinary run with libsecp256k1, which alone may refuse.
//!
//! ```
//! use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SpentOutput};
//! use blockmill_script::{CoreVerifier, Deferred, Signatures};
//!
//! # use blockmill_chaingen::{bitcoin, builder};
//! # let transaction = builder::spend_any(bitcoin::OutPoint::null(), 5);
//! # let bytes = bitcoin::consensus::serialize(&transaction);
//! # let spent = [SpentOutput { value: 5, script_pubkey: &[0x51] }];
//! let verifier = CoreVerifier::new(Signatures::Lanes);
//! let prepared = verifier.prepare(&bytes, &spent)?;
//! let mut deferred = Deferred::default();
//! let flags = ScriptFlags::P2SH;
//! let outcome = verifier.verify_deferring(&prepared, 0, flags, "input 0", &mut deferred)?;
//! while deferred.scripts() > 0 {
//!     verifier.verify_deferred(
//!         &mut deferred,
//!         &mut |_| Ok(verifier.prepare(&bytes, &spent)?.into()),
//!         &mut |name, verdict| assert_eq!((name, verdict), ("input 0", Ok(()))),
//!     );
//! }
//! # assert_eq!(outcome, Outcome::Passed);
//! # Ok::<(), blockmill_rules::VerifyError>(())
//! ```

/// The version of Bitcoin Core whose interpreter this is.
pub const CORE_VERSION: &str = env!("BLOCKMILL_CORE_VERSION");

mod verifier;

mod deferred;
mod guesses;
mod recorder;

mod balance;
mod deferring;
mod lanes;

mod ffi;

#[cfg(test)]
mod tests;

pub use crate::deferred::Deferred;
pub use crate::verifier::{CoreTransaction, CoreVerifier, Signatures};
pub use secp256k1_lanes::{Check, Kind};

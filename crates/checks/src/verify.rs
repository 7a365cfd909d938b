//! One block against its undo data.

use blockmill_block::{Block, BlockUndo};
use blockmill_chain::report::signatures::Signatures;
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_validate::{BlockPosition, GivenCoins, Validator, ValidatorOptions};
pub use blockmill_validate::{Verified, VerifyBlockError};
use std::sync::Arc;

/// What of a block is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Height of the block.
    pub height: u32,
    /// Threads for the scripts, the caller included.
    pub threads: usize,
    /// Whether the proof of work is checked; tests that change a block leave it out.
    pub proof_of_work: bool,
    /// How signatures are verified. `Auto` is by libsecp256k1: nothing is known of the work above
    /// the block.
    pub signatures: Signatures,
}

/// Verifies a block against its undo data, by every rule that needs no other block, by all scripts,
/// and that coins made in the block itself are as it makes them: a [`Validator`] that knows the
/// height alone.
///
/// The difficulty is not checked, and neither are locks that depend on the times of earlier blocks.
///
/// # Errors
/// [`VerifyBlockError`]; the first rule that is broken.
pub fn verify_block<V: ScriptVerifier + 'static>(
    block: &Arc<Block>,
    undo: &Arc<BlockUndo>,
    params: &Params,
    verifier: &Arc<V>,
    options: VerifyOptions,
) -> Result<Verified, VerifyBlockError> {
    let workers = ValidatorOptions {
        threads: options.threads,
        lanes: options.signatures == Signatures::Lanes,
    };
    let mut validator = Validator::new(Arc::clone(verifier), workers)
        .map_err(|error| VerifyBlockError::Verifier(format!("worker threads: {error}")))?;
    let position = BlockPosition {
        proof_of_work: options.proof_of_work,
        ..BlockPosition::at_height(params, options.height)
    };
    validator.validate_block(block, GivenCoins::InOrder(undo), &position)
}

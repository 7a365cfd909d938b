//! The size of the benchmark, its tables, and our verifier.

use blockmill_harness::{Failure, Run};
use blockmill_rules::ScriptVerifier;
use blockmill_script::{CoreVerifier, Signatures};

/// The tables.
pub(super) const LANES: &str = "lanes alone, by size of batches, beside libsecp256k1";
pub(super) const BLOCKS: &str = "whole script checks by block, beside Core's kernel library";
pub(super) const KINDS_TABLE: &str = "whole script checks by script kind, beside Core's kernel library";
pub(super) const HOSTILE: &str = "hostile inputs, deferred and settled, beside ordinary runs";
pub(super) const HASHES: &str = "hashes in lanes, beside sha2";

/// Name of the row of all blocks together.
pub(super) const ALL: &str = "all";

/// The size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Checks of each kind for the lanes.
    pub(super) checks: usize,
    /// Runs of each side over the lanes' checks, the real blocks, the hostile inputs.
    pub(super) lanes_runs: usize,
    pub(super) blocks_runs: usize,
    pub(super) hostile_runs: usize,
    /// Largest number of inputs of a block; larger blocks are left out.
    pub(super) block_inputs_max: usize,
    /// Passes over the hostile transactions, in tenths of a full run; at least one pass.
    pub(super) hostile_tenths: usize,
}

/// Our verifier. It defers on any machine.
pub(super) fn ours() -> CoreVerifier {
    CoreVerifier::new(Signatures::Lanes)
}

/// A run with the signature checks that it made, by their way.
pub(super) fn counted(verifier: &CoreVerifier, run: impl FnOnce() -> Result<Run, Failure>) -> Result<Run, Failure> {
    let before = verifier.signature_counts();
    let run = run()?;
    let after = verifier.signature_counts();
    Ok(run
        .with("in_lanes", (after.lanes - before.lanes) as f64)
        .with("ordinary", (after.libsecp256k1 - before.libsecp256k1) as f64)
        .with("again", (after.again - before.again) as f64)
        .with("cannot_tell", (after.cannot_tell - before.cannot_tell) as f64))
}

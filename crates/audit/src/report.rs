//! What an audit came to.

use crate::finding::Finding;
use blockmill_block::{BlockHash, Network};
use blockmill_engine::inspect::verify_blocks::ThreadTimes;
use std::time::Duration;

/// What an audit came to, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The set is the UTXO set of a chain all of whose blocks are valid.
    Proved,
    /// It is not, or the undo data is not that of the chain.
    Refuted,
    /// Something is missing or cannot be read, and nothing is refuted.
    Incomplete,
}

impl Verdict {
    pub(crate) fn of(findings: &[Finding]) -> Self {
        if findings.iter().any(|finding| finding.kind.refutes()) {
            Self::Refuted
        } else if findings.is_empty() {
            Self::Proved
        } else {
            Self::Incomplete
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Refuted => "refuted",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What an audit came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// In a word.
    pub verdict: Verdict,
    /// The network.
    pub network: Network,
    /// Height of the set's block; none where it is not known.
    pub height: Option<u32>,
    /// The set's block.
    pub hash: BlockHash,
    /// Blocks that are verified.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Coins of the set.
    pub coins: u64,
    /// What speaks against a proof.
    pub findings: Vec<Finding>,
    /// What the threads took for the blocks.
    pub times: ThreadTimes,
    /// Time of all threads for the fingerprints, of blocks and of the set.
    pub sum_time: Duration,
}

//! The result of a run of [`connect`](crate::Engine::connect).

use crate::report::totals::Totals;
use blockmill_block::BlockHash;
use blockmill_blockfiles::{Damage, Skipped};
use blockmill_chain::report::findings::{Leftover, Rejected, Unreadable};
use blockmill_chain::report::signatures::SignatureRanges;
use blockmill_chain::report::wholeness::{Found, RunOutcome, Wholeness};

/// Why the engine went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Halt {
    /// The best chain is connected.
    #[default]
    Finished,
    /// It was asked to stop.
    Stopped,
    /// The height at which it was to stop is reached.
    HeightReached,
}

/// What a run of [`connect`](crate::Engine::connect) came to. All figures are those of this run.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectReport {
    /// Name of the network.
    pub network: &'static str,
    /// Hash of the tip.
    pub tip: BlockHash,
    /// Its height.
    pub height: u32,
    /// Height from which the run went on.
    pub start_height: u32,
    /// What was done.
    pub totals: Totals,
    /// How long it took in seconds.
    pub seconds: f64,
    /// How signatures were verified, by height.
    pub signatures: SignatureRanges,
    /// Entries in the coins cache at the most.
    pub cache_coins_max: u64,
    /// Its memory in bytes at the most.
    pub cache_bytes_max: u64,
    /// Memory in bytes that the store takes at the end beside the cache: an index, say.
    pub store_memory: u64,
    /// Blocks that break a rule.
    pub rejected: Vec<Rejected>,
    /// Blocks whose content cannot be used.
    pub unreadable: Vec<Unreadable>,
    /// Damage of the block files.
    pub damages: Vec<Damage>,
    /// Block files whose names are links that lead nowhere.
    pub missing_files: Vec<Skipped>,
    /// Number of blocks that build on headers that were rejected.
    pub left_out: u64,
    /// Number of blocks whose parent is nowhere.
    pub leftovers: u64,
    /// The first of them in the order of files and offsets.
    pub first_leftover: Option<Leftover>,
    /// Why the run ended.
    pub halt: Halt,
}

impl ConnectReport {
    /// Whether everything is connected. A record cut off at the end of a file is no damage: a node
    /// may be writing it.
    pub fn outcome(&self) -> RunOutcome {
        self.wholeness().outcome()
    }

    /// Whether the chain of the block files is whole, and why not.
    pub fn wholeness(&self) -> Wholeness {
        Wholeness::of(&Found {
            rejected: &self.rejected,
            unreadable: &self.unreadable,
            damages: &self.damages,
            missing_files: &self.missing_files,
            leftovers: self.leftovers,
            first_leftover: self.first_leftover.as_ref(),
            undecided: None,
        })
    }
}

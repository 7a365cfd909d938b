//! The result of a run of [`connect`](crate::Engine::connect).

use crate::report::findings::{Leftover, Rejected, Unreadable};
use crate::report::signatures::SignatureRanges;
use crate::report::totals::Totals;
use blockmill_block::BlockHash;
use blockmill_blockfiles::Damage;
use blockmill_coins::CacheCounters;

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
    /// Look-ups in the coins cache.
    pub cache: CacheCounters,
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
    /// Damaged places in the block files.
    pub damages: Vec<Damage>,
    /// Number of blocks that build on headers that were rejected.
    pub left_out: u64,
    /// Number of blocks whose parent is nowhere.
    pub leftovers: u64,
    /// The first of them in the order of files and places.
    pub first_leftover: Option<Leftover>,
    /// Why the run ended.
    pub halt: Halt,
}

/// Whether a run has connected all that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// Everything is connected that may be.
    Complete,
    /// Input is damaged, or blocks are missing.
    Incomplete,
    /// A block of the best chain breaks a rule.
    Rejected,
}

impl ConnectReport {
    /// Whether everything is connected. A record cut off at the end of a file is no damage: a node
    /// may be writing it.
    pub fn outcome(&self) -> RunOutcome {
        let damaged = self.damages.iter().any(|damage| !damage.is_unfinished_write());
        if self.rejected.iter().any(|block| block.of_best_chain) {
            RunOutcome::Rejected
        } else if !self.unreadable.is_empty() || damaged || self.leftovers > 0 {
            RunOutcome::Incomplete
        } else {
            RunOutcome::Complete
        }
    }
}

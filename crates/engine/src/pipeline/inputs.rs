//! What the fetcher reads for a block ahead.

use crate::pipeline::outline::Outline;
use crate::pipeline::upcoming::UpcomingTxids;
use blockmill_coins::{CacheView, HashedOutPoint};
use blockmill_fetch::Wanted;
use std::ops::Range;
use std::sync::Arc;

/// The coins that a block spends, less those that no store can have yet, and those that the cache
/// has.
pub struct BlockInputs {
    /// What the block does to the coins.
    pub outline: Arc<Outline>,
    /// The height up to which blocks were resolved when `view` was taken.
    pub resolved: u32,
    /// The transactions of the blocks ahead.
    pub upcoming: Arc<UpcomingTxids>,
    /// Which coins the cache has.
    pub view: CacheView,
}

impl Wanted for BlockInputs {
    fn items(&self) -> usize {
        self.outline.all_spends().len()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<HashedOutPoint>) {
        let spent = self.outline.all_spends()[items].iter().map(|spend| spend.at);
        wanted.extend(spent.filter(|at| !self.upcoming.is_above(&at.outpoint().txid, self.resolved)));
        self.view.retain_unknown(wanted);
    }
}

/// The coins that a block creates: none of them may be there already (BIP 30).
pub struct BlockOutputs(pub Arc<Outline>);

impl Wanted for BlockOutputs {
    fn items(&self) -> usize {
        self.0.all_creates().len()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<HashedOutPoint>) {
        wanted.extend(self.0.all_creates()[items].iter().map(|create| create.at));
    }
}

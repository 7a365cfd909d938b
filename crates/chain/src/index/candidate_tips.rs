//! The tips of all branches of a tree, ordered by work.

use super::block_id::BlockId;
use blockmill_rules::Work;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What branches are compared by: work, then which block was linked first. Of blocks that are not
/// linked the one whose header came first is first.
pub(super) type Rank = (Work, Reverse<u64>, Reverse<BlockId>);

/// Blocks of some kind (linked ones, valid headers) that have no child of that kind. Only among
/// these is the block with the most work, since a child has more than its parent.
#[derive(Debug, Default)]
pub(super) struct CandidateTips {
    tips: BTreeSet<Rank>,
    /// For each block its children of the kind.
    children: Vec<u32>,
}

impl CandidateTips {
    fn children_of(&mut self, id: BlockId) -> &mut u32 {
        let index = id.index();
        if index >= self.children.len() {
            self.children.resize(index + 1, 0);
        }
        &mut self.children[index]
    }

    /// Inserts a block of the kind. None of its children is of that kind yet.
    pub(super) fn insert(&mut self, rank: Rank, parent: Option<Rank>) {
        // The block may have been of the kind before, and have had children.
        *self.children_of(rank.2.0) = 0;
        self.tips.insert(rank);
        if let Some(parent) = parent {
            self.tips.remove(&parent);
            *self.children_of(parent.2.0) += 1;
        }
    }

    /// Gives a block another rank, if it is a tip.
    pub(super) fn change(&mut self, from: &Rank, to: Rank) {
        if self.tips.remove(from) {
            self.tips.insert(to);
        }
    }

    /// Removes a block that is no longer of the kind, as no block above it is. The caller calls
    /// [`reinstate_parent`](Self::reinstate_parent) for the lowest one.
    pub(super) fn remove(&mut self, rank: &Rank) {
        self.tips.remove(rank);
    }

    /// Counts one child less for `parent`, which is still of the kind. Without children it is a tip
    /// again.
    pub(super) fn reinstate_parent(&mut self, parent: Rank) {
        let children = self.children_of(parent.2.0);
        *children -= 1;
        if *children == 0 {
            self.tips.insert(parent);
        }
    }

    /// The blocks with the most work, the one first that was linked first.
    pub(super) fn all_best(&self) -> impl Iterator<Item = BlockId> {
        let most = self.tips.last().map(|rank| rank.0);
        let best = self.tips.iter().rev().take_while(move |rank| Some(rank.0) == most);
        best.map(|rank| rank.2.0)
    }

    /// Whether several blocks have the most work.
    pub(super) fn is_tied(&self) -> bool {
        self.all_best().nth(1).is_some()
    }

    /// The block with the most work; of several the one that was linked first.
    pub(super) fn best(&self) -> Option<BlockId> {
        self.all_best().next()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.tips.len()
    }
}

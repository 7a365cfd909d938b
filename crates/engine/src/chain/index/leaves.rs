//! The ends of the branches of a tree, the best one at hand.

use super::BlockId;
use blockmill_rules::Work;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What branches are compared by: work, then who came first.
pub(super) type Rank = (Work, Reverse<u64>, BlockId);

/// Blocks of some kind (linked ones, valid headers) that have no child of that kind. Only among
/// these is the block with the most work, since a child has more than its parent.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    leaves: BTreeSet<Rank>,
    /// For each block its children of the kind.
    children: Vec<u32>,
}

impl Leaves {
    fn children_of(&mut self, id: BlockId) -> &mut u32 {
        let place = id.place();
        if place >= self.children.len() {
            self.children.resize(place + 1, 0);
        }
        &mut self.children[place]
    }

    /// A block of the kind came, whose children are not of it yet.
    pub(super) fn grow(&mut self, rank: Rank, parent: Option<Rank>) {
        *self.children_of(rank.2) = 0;
        self.leaves.insert(rank);
        if let Some(parent) = parent {
            self.leaves.remove(&parent);
            *self.children_of(parent.2) += 1;
        }
    }

    /// A block is no longer of the kind, with all that grows from it; `cut` is to be called for the
    /// lowest one.
    pub(super) fn wither(&mut self, rank: &Rank) {
        self.leaves.remove(rank);
    }

    /// The branch that withered grew from `parent`, which is still of the kind.
    pub(super) fn cut(&mut self, parent: Rank) {
        let children = self.children_of(parent.2);
        *children -= 1;
        if *children == 0 {
            self.leaves.insert(parent);
        }
    }

    /// The block with the most work; of several the one that came first.
    pub(super) fn best(&self) -> Option<BlockId> {
        self.leaves.last().map(|rank| rank.2)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }
}

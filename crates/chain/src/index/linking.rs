//! Linking: which blocks can be connected, and in which order they became so.
//!
//! A block is linked by the copy that completes it and its ancestors, and then gets the next number
//! (Core's `nSequenceId`). Among blocks of equal work the lowest number is first. The blocks that
//! one copy links follow each other by height; children of one parent, as their content came. The
//! blocks that were connected in an earlier run have the number 0: a restart keeps its tip.
//!
//! Core checks a copy when it comes, and gives no number for one that is not the content of its
//! header. Here copies are checked when they are read. A block whose first copies prove wrong
//! counts as having come with the one that is sound: [`HeaderIndex::found_at`] notes that, and
//! [`HeaderIndex::resolve_order`] numbers all blocks anew where that may decide between chains.

use super::candidate_tips::{CandidateTips, Rank};
use super::{BlockId, HeaderIndex};
use blockmill_blockfiles::Position;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// The number of a block that was not linked yet.
pub(super) const NOT_LINKED: u64 = u64::MAX;

/// The number of a block that was connected in an earlier run.
const CONNECTED_BEFORE: u64 = 0;

/// A further copy of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct FurtherCopy {
    pub(super) position: Position,
    /// When it came.
    arrival: u64,
}

impl HeaderIndex {
    /// Notes that a copy of a block has come, and where it lies. The first copy links the block,
    /// and all that waited for it, if its parent is linked.
    pub fn receive(&mut self, id: BlockId, position: Position) {
        let arrival = self.next_arrivals(1);
        self.receive_as(id, position, arrival);
    }

    /// Numbers for `count` copies that come now. Returns the first one.
    pub(crate) fn next_arrivals(&mut self, count: usize) -> u64 {
        let first = self.arrivals;
        self.arrivals += count as u64;
        first
    }

    /// As [`receive`](Self::receive), with the number of the copy. A copy that is found again keeps
    /// its own. [`order_copies`](Self::order_copies) comes after the last one of a search.
    pub(crate) fn receive_as(&mut self, id: BlockId, position: Position, arrival: u64) {
        let arrival = self.came_before.remove(&(id, position)).unwrap_or(arrival);
        let Some(first) = self.entry(id).position() else {
            let entry = self.entry_mut(id);
            entry.set_position(Some(position));
            // A block that was read keeps its number, wherever it is found again.
            if !entry.is_sound {
                entry.arrival = arrival;
            }
            // Everything has come by now, so no arrival is too late.
            self.link_from(id, u64::MAX);
            return;
        };
        // A search finds each copy once. All are kept: a good one may come after any number of bad
        // ones.
        if position != first {
            let copies = self.copies.entry(id).or_default();
            copies.push(FurtherCopy { position, arrival });
        }
    }

    /// Puts the copies of each block into the order in which they came: files that are searched
    /// again may be given in another order.
    pub(crate) fn order_copies(&mut self) {
        self.came_before = HashMap::new();
        for (id, copies) in &mut self.copies {
            copies.sort_by_key(|copy| copy.arrival);
            let entry = &mut self.entries[id.index()];
            let (Some(first), Some(earliest)) = (entry.position(), copies.first_mut()) else {
                continue;
            };
            if !entry.is_sound && earliest.arrival < entry.arrival {
                std::mem::swap(&mut earliest.arrival, &mut entry.arrival);
                entry.set_position(Some(std::mem::replace(&mut earliest.position, first)));
                copies.sort_by_key(|copy| copy.arrival);
                self.order_is_stale = true;
            }
        }
    }

    /// Whether there are several copies of a block.
    pub(crate) fn has_copies(&self, id: BlockId) -> bool {
        self.copies.contains_key(&id)
    }

    /// Notes that the content of a block lies at `position`, and not where its earlier copies do.
    /// These are forgotten. Returns whether there were any.
    pub(crate) fn found_at(&mut self, id: BlockId, position: Position) -> bool {
        let was_sound = std::mem::replace(&mut self.entry_mut(id).is_sound, true);
        let copies = self.copies.get_mut(&id);
        let Some((number, copies)) =
            copies.and_then(|copies| Some((copies.iter().position(|copy| copy.position == position)?, copies)))
        else {
            return false;
        };
        let Some(copy) = copies.drain(..=number).next_back() else {
            return false;
        };
        if copies.is_empty() {
            self.copies.remove(&id);
        }
        let entry = self.entry_mut(id);
        entry.set_position(Some(copy.position));
        // A block that was read before keeps its number, wherever it is found again.
        if !was_sound {
            entry.arrival = copy.arrival;
            self.order_is_stale = true;
        }
        true
    }

    /// Numbers all blocks anew if copies have proved wrong since they were numbered, and if chains
    /// of equal work are to be told apart.
    pub(crate) fn resolve_order(&mut self) {
        if self.order_is_stale && (self.candidates.is_tied() || self.headers.is_tied()) {
            self.number_anew();
            self.order_is_stale = false;
        }
    }

    /// Whether several chains of headers have the most work.
    pub(crate) fn is_tied(&self) -> bool {
        self.headers.is_tied()
    }

    /// Links all blocks once more, as their content came.
    fn number_anew(&mut self) {
        let all = self.ids();
        (self.candidates, self.headers) = (CandidateTips::default(), CandidateTips::default());
        self.sequence = 0;
        let mut received = Vec::new();
        for id in all.clone() {
            if self.entry(id).linked && self.entry(id).sequence == CONNECTED_BEFORE {
                self.candidates.insert(self.rank(id), self.linked_parent(id));
                continue;
            }
            let entry = self.entry_mut(id);
            (entry.linked, entry.sequence) = (false, NOT_LINKED);
            if entry.has_content() {
                received.push((entry.arrival, id));
            }
        }
        // By arrival: no two copies have the same number.
        received.sort_unstable();
        for (arrival, id) in received {
            self.link_from(id, arrival);
        }
        for id in all.filter(|&id| !self.entry(id).failed).collect::<Vec<_>>() {
            // The parent of a block that has not failed has not failed.
            let parent = self.entry(id).parent.map(|parent| self.rank(parent));
            self.headers.insert(self.rank(id), parent);
        }
    }

    /// Marks the chain up to `tip` as connected in an earlier run. Its blocks come before all
    /// others.
    pub fn set_connected(&mut self, tip: BlockId) {
        let mut chain = Vec::new();
        let mut next = Some(tip);
        while let Some(id) = next {
            if self.entry(id).linked {
                break;
            }
            chain.push(id);
            next = self.entry(id).parent;
        }
        for id in chain.into_iter().rev() {
            self.link(id, CONNECTED_BEFORE);
        }
    }

    /// The number that the next block to be linked will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence + 1
    }

    pub(super) fn rank(&self, id: BlockId) -> Rank {
        let entry = self.entry(id);
        (entry.work, Reverse(entry.sequence), Reverse(id))
    }

    fn linked_parent(&self, id: BlockId) -> Option<Rank> {
        let parent = self.entry(id).parent.filter(|&parent| self.entry(parent).linked);
        parent.map(|parent| self.rank(parent))
    }

    fn link(&mut self, id: BlockId, sequence: u64) {
        let before = self.rank(id);
        let entry = self.entry_mut(id);
        (entry.linked, entry.sequence) = (true, sequence);
        self.headers.change(&before, self.rank(id));
        self.candidates.insert(self.rank(id), self.linked_parent(id));
    }

    /// Links a block and its descendants as far as their content had come when copy number `now`
    /// came: those next to it first, and of those the one whose content came first.
    fn link_from(&mut self, id: BlockId, now: u64) {
        let mut waiting = VecDeque::from([id]);
        while let Some(id) = waiting.pop_front() {
            let entry = self.entry(id);
            let parent_linked = entry.parent.is_none_or(|parent| self.entry(parent).linked);
            let has_come = entry.has_content() && entry.arrival <= now;
            if entry.linked || entry.failed || !has_come || !parent_linked {
                continue;
            }
            let number = entry.sequence;
            if number == NOT_LINKED {
                self.sequence += 1;
                self.link(id, self.sequence);
            } else {
                // Only a block of an earlier run has kept its number.
                self.link(id, number);
            }
            let mut children: Vec<_> = self.children(id).collect();
            children.sort_unstable_by_key(|&child| self.entry(child).arrival);
            waiting.extend(children);
        }
    }

    /// The known blocks above a block.
    pub(crate) fn children(&self, id: BlockId) -> impl Iterator<Item = BlockId> {
        std::iter::successors(self.entry(id).first_child, |&child| self.entry(child).next_sibling)
    }

    /// Takes a block and its descendants out of the candidates; with `failed` they are known to be
    /// invalid.
    fn unlink(&mut self, id: BlockId, failed: bool) {
        let (was_linked, was_failed) = (self.entry(id).linked, self.entry(id).failed);
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let before = self.rank(id);
            self.candidates.remove(&before);
            let entry = self.entry_mut(id);
            entry.linked = false;
            entry.failed |= failed;
            // A block of an earlier run keeps its rank for when it is linked again.
            if entry.sequence != CONNECTED_BEFORE {
                entry.sequence = NOT_LINKED;
            }
            if failed {
                self.headers.remove(&before);
            } else {
                self.headers.change(&before, self.rank(id));
            }
            waiting.extend(self.children(id));
        }
        let Some(parent) = self.entry(id).parent else {
            return;
        };
        if was_linked {
            self.candidates.reinstate_parent(self.rank(parent));
        }
        // A block that had failed was counted out by then.
        if failed && !was_failed {
            self.headers.reinstate_parent(self.rank(parent));
        }
    }

    /// Notes that a block is invalid, and with it all its descendants.
    pub fn mark_failed(&mut self, id: BlockId) {
        self.unlink(id, true);
    }

    /// Forgets where a block lies, since what lies there is not its content.
    pub fn forget_content(&mut self, id: BlockId) {
        let entry = self.entry_mut(id);
        entry.set_position(None);
        entry.is_sound = false;
        self.copies.remove(&id);
        self.unlink(id, false);
    }
}

impl HeaderIndex {
    /// Forgets which blocks lie in some files, before these are searched again. Returns those that
    /// lie nowhere then: [`forget_content`](Self::forget_content) is for the ones that the search
    /// does not find.
    pub(crate) fn forget_files(&mut self, is_forgotten: impl Fn(u32) -> bool) -> Vec<BlockId> {
        let came_before = &mut self.came_before;
        self.copies.retain(|&id, copies| {
            copies.retain(|copy| {
                let is_kept = !is_forgotten(copy.position.file);
                if !is_kept {
                    came_before.insert((id, copy.position), copy.arrival);
                }
                is_kept
            });
            !copies.is_empty()
        });
        let mut nowhere = Vec::new();
        for id in self.ids() {
            let first = self.entry(id).position();
            if let Some(first) = first.filter(|first| is_forgotten(first.file)) {
                let next = self.take_copy(id);
                let entry = &mut self.entries[id.index()];
                entry.set_position(next.map(|copy| copy.position));
                if !entry.is_sound {
                    self.came_before.insert((id, first), entry.arrival);
                    entry.arrival = next.map_or(entry.arrival, |copy| copy.arrival);
                }
                nowhere.extend(next.is_none().then_some(id));
            }
        }
        nowhere
    }

    /// The first further copy of a block, which is no further one from now on.
    fn take_copy(&mut self, id: BlockId) -> Option<FurtherCopy> {
        let copies = self.copies.get_mut(&id)?;
        // A list is removed with its last copy, so this one is not empty.
        let first = copies.remove(0);
        if copies.is_empty() {
            self.copies.remove(&id);
        }
        Some(first)
    }

    /// Forgets which blocks have failed: they are checked again, as by a new process, for which the
    /// chain up to `tip` is the one that was connected before.
    pub(crate) fn forget_failures(&mut self, tip: BlockId) {
        let mut any = false;
        // A parent comes before its children.
        for id in self.ids() {
            if !self.entry(id).failed {
                continue;
            }
            any = true;
            self.entry_mut(id).failed = false;
            let parent = self.entry(id).parent.map(|parent| self.rank(parent));
            self.headers.insert(self.rank(id), parent);
            self.link_from(id, self.arrivals);
        }
        if any {
            self.note_connected(tip);
            self.order_is_stale = true;
        }
    }

    /// Forgets when copies came: the search that is under way gives all of them their order, as in
    /// a new process, for which the chain up to `tip` is the one that was connected before.
    pub(crate) fn forget_order(&mut self, tip: BlockId) {
        self.note_connected(tip);
        self.came_before = HashMap::new();
        for entry in &mut self.entries {
            entry.is_sound = false;
        }
        self.order_is_stale = true;
    }

    /// Puts a chain of linked blocks before all others.
    fn note_connected(&mut self, tip: BlockId) {
        let mut next = Some(tip);
        while let Some(id) = next.filter(|&id| self.entry(id).sequence != CONNECTED_BEFORE) {
            let before = self.rank(id);
            self.entry_mut(id).sequence = CONNECTED_BEFORE;
            self.candidates.change(&before, self.rank(id));
            self.headers.change(&before, self.rank(id));
            next = self.entry(id).parent;
        }
    }
}

#[cfg(test)]
mod tests;

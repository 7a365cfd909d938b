//! The header index: every valid header that is known, its place in the tree, and where its block
//! lies.
//!
//! A block is *linked* when its content and that of all its ancestors is known and none of them has
//! failed: then it may be connected. The best chain ends in the linked block of most work; of
//! several with as much work, the one seen first. Only linked blocks without linked children are
//! candidates, see `candidate_tips`.

mod block_id;
mod candidate_tips;
mod entry;

pub use block_id::BlockId;
pub use entry::Entry;

use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::Position;
use blockmill_coins::UndoPosition;
use blockmill_rules::header::{self, Ancestor, Ancestry, HeaderContext, MEDIAN_TIME_SPAN};
use blockmill_rules::target::block_work;
use blockmill_rules::{Params, Reject};
use candidate_tips::{CandidateTips, Rank};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Why a header is not taken into the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderRefusal {
    /// Its parent is not known.
    MissingParent,
    /// It breaks a rule, or descends from a block that does.
    Invalid(Reject),
}

/// The tree of headers.
pub struct HeaderIndex {
    params: Params,
    entries: Vec<Entry>,
    /// Found by the hashes in the entries, under a key from the system: who mines may choose among
    /// hashes.
    by_hash: HashTable<BlockId>,
    hasher: RandomState,
    /// Further positions of blocks that were found several times, in the order of files and
    /// offsets: all of them, since a good copy may come after any number of bad ones.
    copies: HashMap<BlockId, Vec<Position>>,
    /// Ends of the branches that can be connected.
    candidates: CandidateTips,
    /// Ends of the branches of valid headers.
    headers: CandidateTips,
    sequence: u64,
    arrivals: u64,
}

impl HeaderIndex {
    /// An index of the network's first block.
    pub fn new(params: Params) -> Self {
        let header = params.genesis;
        let genesis = BlockId::GENESIS;
        let mut entry = Entry::new(&header, header.hash(), block_work(header.bits), genesis);
        entry.median_time_past = header.time;
        entry.sequence = 0;
        entry.linked = true;
        let mut index = Self {
            params,
            entries: Vec::new(),
            by_hash: HashTable::new(),
            hasher: RandomState::new(),
            copies: HashMap::new(),
            candidates: CandidateTips::default(),
            headers: CandidateTips::default(),
            sequence: 0,
            arrivals: 0,
        };
        index.push(entry);
        index.candidates.insert(index.rank(genesis), None);
        index.headers.insert(index.header_rank(genesis), None);
        index
    }

    /// The network's parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The first block.
    pub fn genesis(&self) -> BlockId {
        BlockId::GENESIS
    }

    /// Number of headers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Makes room for so many more headers, and no more than that.
    pub fn reserve(&mut self, headers: usize) {
        self.entries.reserve_exact(headers);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_hash
            .reserve(headers, |id| hasher.hash_one(entries[id.index()].hash));
    }

    /// Never: the first block is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The block with this hash.
    pub fn find(&self, hash: &BlockHash) -> Option<BlockId> {
        let is_it = |id: &BlockId| self.entry(*id).hash == *hash;
        self.by_hash.find(self.hasher.hash_one(hash), is_it).copied()
    }

    /// What is known of a block.
    pub fn entry(&self, id: BlockId) -> &Entry {
        &self.entries[id.index()]
    }

    /// The header of a block.
    pub fn header(&self, id: BlockId) -> Header {
        let entry = self.entry(id);
        let parent = entry.parent.map(|parent| self.entry(parent).hash);
        entry.header(parent.unwrap_or(self.params.genesis.prev_block_hash))
    }

    /// Where a block lies; several places where it was found several times.
    pub fn positions(&self, id: BlockId) -> impl Iterator<Item = Position> {
        let copies = self.copies.get(&id).into_iter().flatten();
        self.entry(id).position().into_iter().chain(copies.copied())
    }

    fn entry_mut(&mut self, id: BlockId) -> &mut Entry {
        &mut self.entries[id.index()]
    }

    /// The valid header with the most work; of several the first seen.
    pub fn best_header(&self) -> BlockId {
        self.headers.best().unwrap_or(self.genesis())
    }

    /// The block in which the best chain that can be connected ends.
    pub fn best_candidate(&self) -> BlockId {
        self.candidates.best().unwrap_or(self.genesis())
    }

    /// The ancestor of a block at `height`, itself included; none above it.
    pub fn ancestor(&self, id: BlockId, height: u32) -> Option<BlockId> {
        let mut id = id;
        let mut entry = self.entry(id);
        if height > entry.height {
            return None;
        }
        while entry.height > height {
            id = match entry.parent {
                Some(parent) if self.entry(entry.skip).height < height => parent,
                _ => entry.skip,
            };
            entry = self.entry(id);
        }
        Some(id)
    }

    /// The last common ancestor of two blocks.
    pub fn fork(&self, left: BlockId, right: BlockId) -> BlockId {
        let height = self.entry(left).height.min(self.entry(right).height);
        let mut pair = (self.ancestor(left, height), self.ancestor(right, height));
        while let (Some(left), Some(right)) = pair {
            if left == right {
                return left;
            }
            pair = (self.entry(left).parent, self.entry(right).parent);
        }
        self.genesis()
    }

    /// Takes a header in, if its parent is known and it breaks no rule. `now` is the clock, in
    /// seconds since 1970. A header that is known already is returned as it is, unless it has
    /// failed.
    ///
    /// # Errors
    /// [`HeaderRefusal`], with Core's word.
    pub fn accept_header(&mut self, header: &Header, hash: BlockHash, now: i64) -> Result<BlockId, HeaderRefusal> {
        if let Some(id) = self.find(&hash) {
            return if self.entry(id).failed {
                Err(HeaderRefusal::Invalid(Reject::consensus("duplicate-invalid")))
            } else {
                Ok(id)
            };
        }
        header::check_proof_of_work(&hash, header.bits, &self.params).map_err(HeaderRefusal::Invalid)?;
        let parent = self.find(&header.prev_block_hash).ok_or(HeaderRefusal::MissingParent)?;
        if self.entry(parent).failed {
            return Err(HeaderRefusal::Invalid(Reject::header("bad-prevblk")));
        }
        let context = HeaderContext {
            params: &self.params,
            header,
            hash,
            ancestry: &ChainUpTo {
                index: self,
                id: parent,
            },
            now,
        };
        header::check_header(&context).map_err(HeaderRefusal::Invalid)?;
        Ok(self.insert(header, hash, parent))
    }

    /// Takes in a header that was judged in an earlier run. Its parent must be known.
    pub(crate) fn insert_trusted(&mut self, header: &Header, hash: BlockHash) -> Option<BlockId> {
        if let Some(id) = self.find(&hash) {
            return Some(id);
        }
        let parent = self.find(&header.prev_block_hash)?;
        Some(self.insert(header, hash, parent))
    }

    fn insert(&mut self, header: &Header, hash: BlockHash, parent: BlockId) -> BlockId {
        let height = self.entry(parent).height + 1;
        let work = self.entry(parent).work + block_work(header.bits);
        // Skips go to the height with the lowest set bit cleared.
        let skip = self.ancestor(parent, height & (height - 1)).unwrap_or(parent);
        let mut entry = Entry::new(header, hash, work, skip);
        entry.parent = Some(parent);
        entry.height = height;
        let id = self.push(entry);
        self.entry_mut(id).next_sibling = self.entry_mut(parent).first_child.replace(id);
        self.entry_mut(id).median_time_past = self.compute_median_time(id);
        let parent_rank = (!self.entry(parent).failed).then(|| self.header_rank(parent));
        self.headers.insert(self.header_rank(id), parent_rank);
        id
    }

    fn push(&mut self, entry: Entry) -> BlockId {
        let id = BlockId::from_index(self.entries.len());
        let hash = self.hasher.hash_one(entry.hash);
        self.entries.push(entry);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_hash
            .insert_unique(hash, id, |id| hasher.hash_one(entries[id.index()].hash));
        id
    }

    fn compute_median_time(&self, id: BlockId) -> u32 {
        let mut times = [0; MEDIAN_TIME_SPAN];
        let mut count = 0;
        let mut next = Some(id);
        while let (Some(id), true) = (next, count < MEDIAN_TIME_SPAN) {
            times[count] = self.entry(id).time;
            next = self.entry(id).parent;
            count += 1;
        }
        header::median_time(&mut times[..count])
    }

    /// Notes where a block lies. The first place makes it, and all that waited for it, candidates.
    /// Among blocks of equal work those come first whose places were noted first.
    pub fn add_position(&mut self, id: BlockId, position: Position) {
        if self.entry(id).sequence == u64::MAX {
            self.entry_mut(id).sequence = self.next_sequence();
        }
        self.receive(id, position);
    }

    /// As [`add_position`](Self::add_position), but as Core counts blocks that come one by one:
    /// among blocks of equal work those come first that could be connected first.
    pub fn receive(&mut self, id: BlockId, position: Position) {
        let Some(first) = self.entry(id).position() else {
            self.entry_mut(id).arrival = self.arrivals;
            self.arrivals += 1;
            self.entry_mut(id).set_position(Some(position));
            self.link_from(id);
            return;
        };
        if position != first {
            let order = |copy: &Position| (copy.file, copy.offset, copy.length);
            let copies = self.copies.entry(id).or_default();
            if let Err(index) = copies.binary_search_by_key(&order(&position), order) {
                copies.insert(index, position);
            }
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Marks the chain up to `tip` as connected in an earlier run. Its blocks come before all
    /// others.
    pub(crate) fn set_connected(&mut self, tip: BlockId) {
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
            self.entry_mut(id).sequence = 0;
            self.link(id);
        }
    }

    /// Notes where a block's undo data lies.
    pub(crate) fn set_undo(&mut self, id: BlockId, undo: UndoPosition) {
        self.entry_mut(id).set_undo(undo);
    }

    fn rank(&self, id: BlockId) -> Rank {
        let entry = self.entry(id);
        (entry.work, Reverse(entry.sequence), id)
    }

    /// Headers came in the order of their numbers.
    fn header_rank(&self, id: BlockId) -> Rank {
        (self.entry(id).work, Reverse(id.index() as u64), id)
    }

    fn link(&mut self, id: BlockId) {
        if self.entry(id).sequence == u64::MAX {
            self.entry_mut(id).sequence = self.next_sequence();
        }
        self.entry_mut(id).linked = true;
        let parent = self.entry(id).parent.map(|parent| self.rank(parent));
        self.candidates.insert(self.rank(id), parent);
    }

    /// Links a block and its descendants as far as their content is known: those next to it first,
    /// and of those the one whose content came first.
    fn link_from(&mut self, id: BlockId) {
        let mut waiting = VecDeque::from([id]);
        while let Some(id) = waiting.pop_front() {
            let entry = self.entry(id);
            let parent_linked = entry.parent.is_none_or(|parent| self.entry(parent).linked);
            if entry.linked || entry.failed || !entry.has_content() || !parent_linked {
                continue;
            }
            self.link(id);
            let mut children: Vec<_> = self.children(id).collect();
            children.sort_unstable_by_key(|&child| self.entry(child).arrival);
            waiting.extend(children);
        }
    }

    fn children(&self, id: BlockId) -> impl Iterator<Item = BlockId> {
        std::iter::successors(self.entry(id).first_child, |&child| self.entry(child).next_sibling)
    }

    /// Takes a block and its descendants out of the candidates; with `failed` they are known to be
    /// invalid.
    fn unlink(&mut self, id: BlockId, failed: bool) {
        let (was_linked, was_failed) = (self.entry(id).linked, self.entry(id).failed);
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            self.candidates.remove(&self.rank(id));
            if failed {
                self.headers.remove(&self.header_rank(id));
            }
            let entry = self.entry_mut(id);
            entry.linked = false;
            entry.failed |= failed;
            waiting.extend(self.children(id));
        }
        let Some(parent) = self.entry(id).parent else {
            return;
        };
        if was_linked {
            self.candidates.reinstate_parent(self.rank(parent));
        }
        if failed && !was_failed {
            self.headers.reinstate_parent(self.header_rank(parent));
        }
    }

    /// Notes that a block is invalid, and with it all its descendants.
    pub fn mark_failed(&mut self, id: BlockId) {
        self.unlink(id, true);
    }

    /// Forgets which blocks lie in some files, before these are searched again. Returns those that
    /// lie nowhere then: [`forget_content`](Self::forget_content) is for the ones that the search
    /// does not find.
    pub(crate) fn forget_files(&mut self, is_forgotten: impl Fn(u32) -> bool) -> Vec<BlockId> {
        self.copies.retain(|_, copies| {
            copies.retain(|position| !is_forgotten(position.file));
            !copies.is_empty()
        });
        let mut nowhere = Vec::new();
        for index in 0..self.entries.len() {
            let id = BlockId::from_index(index);
            if self.entry(id).position().is_some_and(|first| is_forgotten(first.file)) {
                let next = self.take_copy(id);
                self.entry_mut(id).set_position(next);
                nowhere.extend(next.is_none().then_some(id));
            }
        }
        nowhere
    }

    /// The first further position of a block, which is no further one from now on.
    fn take_copy(&mut self, id: BlockId) -> Option<Position> {
        let copies = self.copies.get_mut(&id)?;
        let first = copies.remove(0);
        if copies.is_empty() {
            self.copies.remove(&id);
        }
        Some(first)
    }

    /// Forgets which blocks have failed: they are judged again, as by a new process.
    pub(crate) fn forget_failures(&mut self) {
        // A parent comes before its children.
        for index in 0..self.entries.len() {
            let id = BlockId::from_index(index);
            if !self.entry(id).failed {
                continue;
            }
            self.entry_mut(id).failed = false;
            let parent = self.entry(id).parent;
            self.headers
                .insert(self.header_rank(id), parent.map(|parent| self.header_rank(parent)));
            self.link_from(id);
        }
    }

    /// Forgets where a block lies, since what lies there is not its content.
    pub fn forget_content(&mut self, id: BlockId) {
        self.entry_mut(id).set_position(None);
        self.copies.remove(&id);
        self.unlink(id, false);
    }
}

/// The chain that ends in a block.
struct ChainUpTo<'a> {
    index: &'a HeaderIndex,
    id: BlockId,
}

impl ChainUpTo<'_> {
    fn at(&self, id: BlockId) -> Ancestor {
        let entry = self.index.entry(id);
        Ancestor {
            height: entry.height,
            time: entry.time,
            bits: entry.bits,
        }
    }
}

impl Ancestry for ChainUpTo<'_> {
    fn parent(&self) -> Ancestor {
        self.at(self.id)
    }

    fn median_time_past(&self) -> u32 {
        self.index.entry(self.id).median_time_past
    }

    fn at_height(&self, height: u32) -> Ancestor {
        self.at(self.index.ancestor(self.id, height).unwrap_or(self.id))
    }

    fn find_back(&self, wanted: &mut dyn FnMut(&Ancestor) -> bool) -> Ancestor {
        let mut id = self.id;
        loop {
            let ancestor = self.at(id);
            match self.index.entry(id).parent {
                Some(parent) if !wanted(&ancestor) => id = parent,
                _ => return ancestor,
            }
        }
    }
}

#[cfg(test)]
mod tests;

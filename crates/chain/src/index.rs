//! The header index: every valid header that is known, its parent and children, and where its block
//! lies.
//!
//! A block is *linked* when its content and that of all its ancestors is known and none of them has
//! failed: then it may be connected. The best chain ends in the linked block of most work; of
//! several with as much work, the one linked first. Only linked blocks without linked children are
//! *candidates*, see `candidate_tips`; `linking` has the order.

mod block_id;
mod candidate_tips;
mod entry;
mod linking;

pub use block_id::BlockId;
pub use entry::Entry;

use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::Position;
use blockmill_coins::{Tip, UndoPosition};
use blockmill_rules::header::{self, Ancestor, Ancestry, HeaderContext, MEDIAN_TIME_SPAN};
use blockmill_rules::target::block_work;
use blockmill_rules::{Params, Reject};
use candidate_tips::CandidateTips;
use hashbrown::HashTable;
use linking::FurtherCopy;
use std::collections::HashMap;
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
    /// Further copies of blocks that were found several times, in the order in which they came.
    copies: HashMap<BlockId, Vec<FurtherCopy>>,
    /// When copies came that lie in files which are searched again.
    came_before: HashMap<(BlockId, Position), u64>,
    /// Ends of the branches that can be connected.
    candidates: CandidateTips,
    /// Ends of the branches of valid headers.
    headers: CandidateTips,
    /// The last number that a block was given when it was linked.
    sequence: u64,
    /// Number of copies that have come.
    arrivals: u64,
    /// Whether blocks have numbers that they got for copies which are not their content.
    order_is_stale: bool,
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
            came_before: HashMap::new(),
            candidates: CandidateTips::default(),
            headers: CandidateTips::default(),
            sequence: 0,
            arrivals: 0,
            order_is_stale: false,
        };
        index.push(entry);
        index.candidates.insert(index.rank(genesis), None);
        index.headers.insert(index.rank(genesis), None);
        index
    }

    /// The network's parameters.
    #[inline]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The first block.
    pub fn genesis(&self) -> BlockId {
        BlockId::GENESIS
    }

    /// Hash and height of a block.
    pub fn tip_at(&self, id: BlockId) -> Tip {
        let entry = self.entry(id);
        Tip {
            hash: entry.hash,
            height: entry.height,
        }
    }

    /// All blocks, in the order in which their headers came.
    pub(crate) fn ids(&self) -> impl Iterator<Item = BlockId> + Clone + use<> {
        (0..self.entries.len()).map(BlockId::from_index)
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
    #[inline]
    pub fn entry(&self, id: BlockId) -> &Entry {
        &self.entries[id.index()]
    }

    /// The header of a block.
    pub fn header(&self, id: BlockId) -> Header {
        let entry = self.entry(id);
        let parent = entry.parent.map(|parent| self.entry(parent).hash);
        entry.header(parent.unwrap_or(self.params.genesis.prev_block_hash))
    }

    /// Where a block lies; several positions where it was found several times.
    pub fn positions(&self, id: BlockId) -> impl Iterator<Item = Position> {
        let copies = self.copies.get(&id).into_iter().flatten();
        let copies = copies.map(|copy| copy.position);
        self.entry(id).position().into_iter().chain(copies)
    }

    /// The parents of all blocks that lie in a file, in the order of the file.
    pub(crate) fn parents_in(&self, file: u32) -> Vec<BlockHash> {
        let mut found = Vec::new();
        for id in self.ids() {
            let parent = self.entry(id).parent;
            let positions = self.positions(id).filter(|position| position.file == file);
            // Genesis has no parent, and no undo data.
            found.extend(positions.filter_map(|position| Some((position.offset, parent?))));
        }
        found.sort_unstable();
        found.dedup_by_key(|(_, parent)| *parent);
        found.into_iter().map(|(_, parent)| self.entry(parent).hash).collect()
    }

    /// The blocks that lie in some files, and in which of them, in the order in which their headers
    /// came.
    pub fn blocks_in(&self, files: &[u32]) -> Vec<(BlockId, u32)> {
        let all = self
            .ids()
            .flat_map(|id| self.positions(id).map(move |position| (id, position.file)));
        all.filter(|(_, file)| files.contains(file)).collect()
    }

    fn entry_mut(&mut self, id: BlockId) -> &mut Entry {
        &mut self.entries[id.index()]
    }

    /// The valid header with the most work; of several the block that was linked first. Where all
    /// blocks are found this is the [best candidate](Self::best_candidate).
    pub fn best_header(&self) -> BlockId {
        self.headers.best().unwrap_or(self.genesis())
    }

    /// The valid headers with the most work, the block first that was linked first.
    pub fn best_headers(&self) -> impl Iterator<Item = BlockId> {
        self.headers.all_best()
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
                // The skip leads too far down.
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
        // Not reached: all blocks descend from genesis.
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
        // As in Core, a header without work is refused before its parent is looked for.
        header::check_proof_of_work(&hash, header.bits, &self.params).map_err(HeaderRefusal::Invalid)?;
        let parent = self.find(&header.prev_block_hash).ok_or(HeaderRefusal::MissingParent)?;
        if self.entry(parent).failed {
            return Err(HeaderRefusal::Invalid(Reject::header("bad-prevblk")));
        }
        let ancestry = ChainUpTo {
            index: self,
            id: parent,
        };
        let context = HeaderContext::after(&ancestry, &self.params, header, hash, now);
        header::check_header(&context).map_err(HeaderRefusal::Invalid)?;
        Ok(self.insert(header, hash, parent))
    }

    /// Takes in a header that was checked in an earlier run. Its parent must be known.
    pub fn insert_trusted(&mut self, header: &Header, hash: BlockHash) -> Option<BlockId> {
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
        let parent_rank = (!self.entry(parent).failed).then(|| self.rank(parent));
        self.headers.insert(self.rank(id), parent_rank);
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

    /// Notes where a block's undo data lies.
    pub fn set_undo(&mut self, id: BlockId, undo: UndoPosition) {
        self.entry_mut(id).set_undo(undo);
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

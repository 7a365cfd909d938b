//! The words for which a table has no place, sorted by hash and then by key.
//!
//! They lie in blocks, so that an addition moves a bounded number of them. While nobody knows the map's key there are hardly any; who
//! knows it can bring as many as there are records, and each is still found by two binary searches.

use super::pool::{ALLOCATION_BYTES, Pool};
use super::record::key_of;
use super::segment::{hash_of, place_of, word};
use crate::key::OutpointKey;
use std::cmp::Ordering;

/// Most words of a block.
const BLOCK_WORDS: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// None of them is empty.
    blocks: Vec<Vec<u64>>,
    len: usize,
    /// Words for which the blocks have room.
    room: usize,
}

/// How a word's record compares to a hash and a key.
fn compare(one: u64, hash: u32, key: &OutpointKey, pool: &Pool) -> Ordering {
    hash_of(one)
        .cmp(&hash)
        .then_with(|| key_of(pool.at(place_of(one))).cmp(key))
}

impl Overflow {
    /// Bytes of memory, with what the allocator adds.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u64>>()
            + self.room * size_of::<u64>()
            + self.blocks.len() * ALLOCATION_BYTES
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().flatten().copied()
    }

    /// The block, and the place in it, of a word; or where it would stand.
    fn search(&self, hash: u32, key: &OutpointKey, pool: &Pool) -> (usize, Result<usize, usize>) {
        let behind = self.blocks.partition_point(|block| {
            block
                .first()
                .is_some_and(|&first| compare(first, hash, key, pool).is_le())
        });
        let block = behind.saturating_sub(1);
        let at = match self.blocks.get(block) {
            Some(words) => words.binary_search_by(|&one| compare(one, hash, key, pool)),
            None => Err(0),
        };
        (block, at)
    }

    /// The place of the record with this key.
    pub(crate) fn find(&self, hash: u32, key: &OutpointKey, pool: &Pool) -> Option<u32> {
        let (block, at) = self.search(hash, key, pool);
        Some(place_of(self.blocks[block][at.ok()?]))
    }

    /// Adds the word of a record that is not here.
    pub(crate) fn insert(&mut self, new: u64, pool: &Pool) {
        let (block, at) = self.search(hash_of(new), key_of(pool.at(place_of(new))), pool);
        let (Ok(at) | Err(at)) = at;
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let words = &mut self.blocks[block];
        let room = words.capacity();
        words.insert(at, new);
        self.room += words.capacity() - room;
        self.len += 1;
        if words.len() >= BLOCK_WORDS {
            let mut upper = Vec::with_capacity(BLOCK_WORDS);
            upper.extend(words.drain(BLOCK_WORDS / 2..));
            self.room += upper.capacity();
            self.blocks.insert(block + 1, upper);
        }
    }

    /// Removes the word of a record.
    pub(crate) fn remove(&mut self, hash: u32, key: &OutpointKey, pool: &Pool) {
        let (block, Ok(at)) = self.search(hash, key, pool) else {
            return;
        };
        self.blocks[block].remove(at);
        self.len -= 1;
        if self.blocks[block].is_empty() {
            self.room -= self.blocks.remove(block).capacity();
        }
    }

    /// Gives the record of this key another place.
    pub(crate) fn replace(&mut self, hash: u32, key: &OutpointKey, place: u32, pool: &Pool) {
        if let (block, Ok(at)) = self.search(hash, key, pool) {
            self.blocks[block][at] = word(hash, place);
        }
    }

    /// Takes all words away.
    pub(crate) fn take(&mut self) -> Vec<u64> {
        let words = self.words().collect();
        *self = Self::default();
        words
    }
}

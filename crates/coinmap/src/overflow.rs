//! The words that a table has no room for, sorted by hash and then by key.
//!
//! The words are stored in blocks, so that an insertion moves a bounded number of words. While
//! the map's key is secret the overflow is nearly empty. An attacker with the key can make it
//! as large as the map. Each search is then two binary searches.

use super::pool::{ALLOCATION_BYTES, RecordPool};
use super::record::key_of;
use super::word::{hash_of, slot_of, word};
use crate::key::OutpointKey;
use std::cmp::Ordering;

/// Most words of a block.
const BLOCK_WORDS: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// No block is empty.
    blocks: Vec<Vec<u64>>,
    len: usize,
    /// Words that the blocks have capacity for.
    capacity_words: usize,
}

/// How a word's record compares to a hash and a key.
fn compare(one: u64, hash: u32, key: &OutpointKey, pool: &RecordPool) -> Ordering {
    hash_of(one)
        .cmp(&hash)
        .then_with(|| key_of(pool.at(slot_of(one))).cmp(key))
}

impl Overflow {
    /// Bytes of memory, with what the allocator adds.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<u64>>()
            + self.capacity_words * size_of::<u64>()
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

    /// The number of a block, and the index of a word in the block; or the index for a new word.
    fn search(&self, hash: u32, key: &OutpointKey, pool: &RecordPool) -> (usize, Result<usize, usize>) {
        let after = self.blocks.partition_point(|block| {
            block
                .first()
                .is_some_and(|&first| compare(first, hash, key, pool).is_le())
        });
        // The last block that begins at or below the word; the first one for a word below all.
        let block = after.saturating_sub(1);
        let index = match self.blocks.get(block) {
            Some(words) => words.binary_search_by(|&one| compare(one, hash, key, pool)),
            None => Err(0),
        };
        (block, index)
    }

    /// The slot of the record with this key.
    pub(crate) fn find(&self, hash: u32, key: &OutpointKey, pool: &RecordPool) -> Option<u32> {
        let (block, index) = self.search(hash, key, pool);
        Some(slot_of(self.blocks[block][index.ok()?]))
    }

    /// Adds the word of a record that the overflow does not have.
    pub(crate) fn insert(&mut self, new: u64, pool: &RecordPool) {
        let (block, index) = self.search(hash_of(new), key_of(pool.at(slot_of(new))), pool);
        let (Ok(index) | Err(index)) = index;
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let words = &mut self.blocks[block];
        let capacity_before = words.capacity();
        words.insert(index, new);
        self.capacity_words += words.capacity() - capacity_before;
        self.len += 1;
        // Blocks that are halved stay between a half and full, unless words are removed.
        if words.len() >= BLOCK_WORDS {
            let mut upper = Vec::with_capacity(BLOCK_WORDS);
            upper.extend(words.drain(BLOCK_WORDS / 2..));
            self.capacity_words += upper.capacity();
            self.blocks.insert(block + 1, upper);
        }
    }

    /// Removes the word of a record.
    pub(crate) fn remove(&mut self, hash: u32, key: &OutpointKey, pool: &RecordPool) {
        let (block, Ok(index)) = self.search(hash, key, pool) else {
            return;
        };
        self.blocks[block].remove(index);
        self.len -= 1;
        // An empty block has no first word to search by.
        if self.blocks[block].is_empty() {
            self.capacity_words -= self.blocks.remove(block).capacity();
        }
    }

    /// Changes the slot of the record with this key.
    pub(crate) fn replace(&mut self, hash: u32, key: &OutpointKey, slot: u32, pool: &RecordPool) {
        if let (block, Ok(index)) = self.search(hash, key, pool) {
            self.blocks[block][index] = word(hash, slot);
        }
    }

    /// Removes all words and returns them.
    pub(crate) fn take(&mut self) -> Vec<u64> {
        let words = self.words().collect();
        *self = Self::default();
        words
    }
}

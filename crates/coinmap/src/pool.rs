//! The memory of a shard's records: chunks, cut into slots of whole units. Free slots are reused.
//!
//! The number of a slot has two parts: the number of its chunk, and its first unit in the chunk.
//! Free slots of one size form a list, whose links are stored in the slots. A record that is too
//! long for a shared chunk gets a chunk of its own.

/// Bytes of a unit. Slots begin and end at multiples of a unit.
pub(crate) const UNIT: usize = 8;

/// Bits of a slot number for the first unit in the chunk.
const UNIT_BITS: u32 = 13;

/// Bytes of a chunk in a large pool. In a small pool a new chunk is at most a share of the pool,
/// so that a small map stays small. Large chunks keep the table of chunks short; every access to a
/// record reads that table.
pub(crate) const CHUNK_BYTES: usize = UNIT << UNIT_BITS;

/// Bytes of the first chunk: enough for the largest slot in a shared chunk.
const FIRST_CHUNK_BYTES: usize = UNIT * UNITS_MAX;

/// Largest slot in a shared chunk, in units.
const UNITS_MAX: usize = 128;

/// The end of a list. No slot has this number.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Bytes that the allocator adds to a block, on average.
pub(crate) const ALLOCATION_BYTES: usize = 16;

/// Chunks and their free slots.
#[derive(Debug)]
pub(crate) struct RecordPool {
    chunks: Vec<Box<[u8]>>,
    /// The first free slot of each size; the index is the size in units.
    free: Box<[u32]>,
    /// Numbers of chunks that held long records and are free now.
    vacant: Vec<u32>,
    /// The chunk that new slots are cut from, and its first unused unit.
    open: u32,
    open_unit: usize,
    open_end: usize,
    /// Bytes of all chunks.
    chunk_bytes: usize,
}

impl Default for RecordPool {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: Box::new([]),
            vacant: Vec::new(),
            open: NO_SLOT,
            open_unit: 0,
            open_end: 0,
            chunk_bytes: 0,
        }
    }
}

const fn units(length: usize) -> usize {
    length.div_ceil(UNIT)
}

const fn slot_at(chunk: u32, unit: usize) -> u32 {
    chunk << UNIT_BITS | unit as u32
}

impl RecordPool {
    /// Memory in bytes, with the allocator's share.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.chunk_bytes
            + self.chunks.len() * ALLOCATION_BYTES
            + self.chunks.capacity() * size_of::<Box<[u8]>>()
            + (self.vacant.capacity() + self.free.len()) * size_of::<u32>()
    }

    /// The bytes from the start of a slot to the end of its chunk.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> &[u8] {
        let chunk = &self.chunks[(slot >> UNIT_BITS) as usize];
        &chunk[(slot as usize & ((1 << UNIT_BITS) - 1)) * UNIT..]
    }

    /// As [`at`](Self::at), for writing.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut [u8] {
        let chunk = &mut self.chunks[(slot >> UNIT_BITS) as usize];
        &mut chunk[(slot as usize & ((1 << UNIT_BITS) - 1)) * UNIT..]
    }

    /// A slot for `length` bytes. Its content is not defined.
    ///
    /// # Panics
    /// When all chunk numbers are taken: at 32 GiB of short records, or at half a million long
    /// records.
    #[inline]
    pub(crate) fn allocate(&mut self, length: usize) -> u32 {
        let units = units(length);
        if units > UNITS_MAX {
            return self.allocate_long(units);
        }
        match self.free.get(units) {
            Some(&first) if first != NO_SLOT => {
                self.free[units] = self.next(first);
                first
            }
            _ => self.cut(units),
        }
    }

    /// Frees a slot that was allocated for `length` bytes.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32, length: usize) {
        let units = units(length);
        if units > UNITS_MAX {
            let number = slot >> UNIT_BITS;
            let chunk = std::mem::take(&mut self.chunks[number as usize]);
            self.chunk_bytes -= chunk.len();
            // The number can be given again: no word of the index names it any more.
            self.vacant.push(number);
        } else {
            self.push_free(slot, units);
        }
    }

    /// Whether slots for the two lengths have the same size.
    #[inline]
    pub(crate) fn same_size(one: usize, other: usize) -> bool {
        units(one) == units(other)
    }

    fn next(&self, slot: u32) -> u32 {
        match self.at(slot).first_chunk() {
            Some(link) => u32::from_le_bytes(*link),
            None => NO_SLOT,
        }
    }

    fn push_free(&mut self, slot: u32, units: usize) {
        if self.free.is_empty() {
            // Many shards never free a slot.
            self.free = vec![NO_SLOT; UNITS_MAX + 1].into_boxed_slice();
        }
        let next = std::mem::replace(&mut self.free[units], slot);
        // A slot has one unit at least, which is room for the link.
        self.at_mut(slot)[..4].copy_from_slice(&next.to_le_bytes());
    }

    /// Cuts a new slot.
    fn cut(&mut self, units: usize) -> u32 {
        if self.open_unit + units > self.open_end {
            self.open_chunk();
        }
        let slot = slot_at(self.open, self.open_unit);
        self.open_unit += units;
        slot
    }

    #[cold]
    fn open_chunk(&mut self) {
        // The rest of the chunk becomes a free slot of its size.
        let left = self.open_end - self.open_unit;
        if left > 0 {
            self.push_free(slot_at(self.open, self.open_unit), left);
        }
        let share = (self.chunk_bytes / 16 + 1).next_power_of_two();
        let bytes = share.clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES);
        self.open = self.add_chunk(bytes);
        self.open_unit = 0;
        self.open_end = bytes / UNIT;
    }

    #[cold]
    fn allocate_long(&mut self, units: usize) -> u32 {
        slot_at(self.add_chunk(units * UNIT), 0)
    }

    fn add_chunk(&mut self, bytes: usize) -> u32 {
        let number = self.chunks.len();
        // The last number is not used: `NO_SLOT` would be a slot of its chunk.
        let has_number = !self.vacant.is_empty() || number + 1 < 1 << (32 - UNIT_BITS);
        assert!(has_number, "a shard of the coin map has no number for another chunk");
        let chunk = vec![0; bytes].into_boxed_slice();
        self.chunk_bytes += bytes;
        if let Some(number) = self.vacant.pop() {
            self.chunks[number as usize] = chunk;
            return number;
        }
        if number == self.chunks.capacity() {
            // Doubling would leave up to half of a large table unused.
            self.chunks.reserve_exact(number / 8 + 4);
        }
        self.chunks.push(chunk);
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn freed_memory_is_used_again() {
        let mut pool = RecordPool::default();
        let slots: Vec<u32> = (0..1000).map(|_| pool.allocate(72)).collect();
        let bytes = pool.bytes();
        assert!((72_000..72_000 + 2 * CHUNK_BYTES).contains(&bytes), "{bytes}");
        for &slot in &slots {
            pool.release(slot, 72);
        }
        let again: Vec<u32> = (0..1000).map(|_| pool.allocate(70)).collect();
        let mut sorted = again.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, slots);
        assert!(pool.bytes() <= bytes + 4 * (UNITS_MAX + 1));
    }

    #[test]
    fn long_records_give_their_memory_back() {
        let mut pool = RecordPool::default();
        let long = pool.allocate(10_000);
        let with = pool.bytes();
        pool.at_mut(long)[..10_000].fill(7);
        pool.release(long, 10_000);
        assert!(pool.bytes() < with - 9_000);
        assert_eq!(pool.allocate(70_000), long);
    }

    proptest! {
        /// Slots never overlap, whatever is allocated and released.
        #[test]
        fn slots_keep_what_is_written(steps in proptest::collection::vec((1usize..1400, any::<bool>()), 1..400)) {
            let mut pool = RecordPool::default();
            let mut slots = BTreeMap::new();
            for (number, (length, release)) in steps.into_iter().enumerate() {
                if release {
                    if let Some((slot, (length, filler))) = slots.pop_first() {
                        prop_assert!(pool.at(slot)[..length].iter().all(|&byte| byte == filler));
                        pool.release(slot, length);
                    }
                    continue;
                }
                let slot = pool.allocate(length);
                pool.at_mut(slot)[..length].fill(number as u8);
                prop_assert!(slots.insert(slot, (length, number as u8)).is_none());
            }
            for (slot, (length, filler)) in slots {
                prop_assert!(pool.at(slot)[..length].iter().all(|&byte| byte == filler));
            }
        }
    }
}

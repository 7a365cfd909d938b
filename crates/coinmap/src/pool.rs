//! The memory of a shard's records: chunks of one size, cut into pieces of whole units, which are used again when they are free.
//!
//! A piece is named by its *place*: the number of its chunk, and the unit in it. Free pieces of a size form a list whose links lie in the
//! pieces themselves. A record that is too long for that has a chunk of its own.

/// Bytes of a unit: pieces begin and end at multiples of it.
pub(crate) const UNIT: usize = 8;

/// Bits of a place for the unit in its chunk.
const UNIT_BITS: u32 = 13;

/// Bytes of a chunk, once the pool is large. Before, chunks are an eighth of it at most, so that a small map is small. Large chunks keep
/// the table of chunks short: it is on the way to every record.
pub(crate) const CHUNK_BYTES: usize = UNIT << UNIT_BITS;

/// Bytes of the first chunk: enough for any piece that is cut from one.
const FIRST_CHUNK_BYTES: usize = UNIT * UNITS_MAX;

/// Largest piece that is cut from a chunk, in units; what is longer has a chunk of its own.
const UNITS_MAX: usize = 128;

/// The end of a list, and the place that no piece has.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// What an allocator takes for itself beside a block, on the average.
pub(crate) const ALLOCATION_BYTES: usize = 16;

/// Chunks and the free pieces in them.
#[derive(Debug)]
pub(crate) struct Pool {
    chunks: Vec<Box<[u8]>>,
    /// By size in units, the first of the free pieces.
    free: Box<[u32]>,
    /// Numbers of chunks that had long records, and are empty.
    vacant: Vec<u32>,
    /// The chunk that is being cut, and the first unit that is left of it.
    open: u32,
    open_unit: usize,
    open_end: usize,
    /// Bytes of all chunks.
    chunk_bytes: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: Box::new([]),
            vacant: Vec::new(),
            open: NOWHERE,
            open_unit: 0,
            open_end: 0,
            chunk_bytes: 0,
        }
    }
}

const fn units(length: usize) -> usize {
    length.div_ceil(UNIT)
}

const fn place(chunk: u32, unit: usize) -> u32 {
    chunk << UNIT_BITS | unit as u32
}

impl Pool {
    /// Bytes of memory, with what the allocator adds.
    pub(crate) fn bytes(&self) -> usize {
        self.chunk_bytes
            + self.chunks.len() * ALLOCATION_BYTES
            + self.chunks.capacity() * size_of::<Box<[u8]>>()
            + (self.vacant.capacity() + self.free.len()) * size_of::<u32>()
    }

    /// The bytes from a place on: the piece, and what lies behind it in its chunk.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> &[u8] {
        let chunk = &self.chunks[(place >> UNIT_BITS) as usize];
        &chunk[(place as usize & ((1 << UNIT_BITS) - 1)) * UNIT..]
    }

    /// As [`at`](Self::at), to be written.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: u32) -> &mut [u8] {
        let chunk = &mut self.chunks[(place >> UNIT_BITS) as usize];
        &mut chunk[(place as usize & ((1 << UNIT_BITS) - 1)) * UNIT..]
    }

    /// A piece for so many bytes. What it holds is not defined.
    ///
    /// # Panics
    /// When all numbers of chunks are taken: at 32 GiB of short records, or at half a million long ones, which have a chunk each.
    #[inline]
    pub(crate) fn allocate(&mut self, length: usize) -> u32 {
        let units = units(length);
        if units > UNITS_MAX {
            return self.allocate_long(units);
        }
        match self.free.get(units) {
            Some(&first) if first != NOWHERE => {
                self.free[units] = self.next(first);
                first
            }
            _ => self.cut(units),
        }
    }

    /// Takes a piece back that was made for so many bytes.
    #[inline]
    pub(crate) fn release(&mut self, piece: u32, length: usize) {
        let units = units(length);
        if units > UNITS_MAX {
            let number = piece >> UNIT_BITS;
            let chunk = std::mem::take(&mut self.chunks[number as usize]);
            self.chunk_bytes -= chunk.len();
            self.vacant.push(number);
        } else {
            self.put_in_list(piece, units);
        }
    }

    /// Whether a piece for one length would do for another as well, neither too short nor longer than needed.
    #[inline]
    pub(crate) fn same_size(one: usize, other: usize) -> bool {
        units(one) == units(other)
    }

    fn next(&self, piece: u32) -> u32 {
        match self.at(piece).first_chunk() {
            Some(link) => u32::from_le_bytes(*link),
            None => NOWHERE,
        }
    }

    fn put_in_list(&mut self, piece: u32, units: usize) {
        if self.free.is_empty() {
            self.free = vec![NOWHERE; UNITS_MAX + 1].into_boxed_slice();
        }
        let next = std::mem::replace(&mut self.free[units], piece);
        self.at_mut(piece)[..4].copy_from_slice(&next.to_le_bytes());
    }

    /// A piece that was never used.
    fn cut(&mut self, units: usize) -> u32 {
        if self.open_unit + units > self.open_end {
            self.open_chunk();
        }
        let piece = place(self.open, self.open_unit);
        self.open_unit += units;
        piece
    }

    #[cold]
    fn open_chunk(&mut self) {
        let left = self.open_end - self.open_unit;
        if left > 0 {
            self.put_in_list(place(self.open, self.open_unit), left);
        }
        let eighth = (self.chunk_bytes / 16 + 1).next_power_of_two();
        let bytes = eighth.clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES);
        self.open = self.add_chunk(bytes);
        self.open_unit = 0;
        self.open_end = bytes / UNIT;
    }

    #[cold]
    fn allocate_long(&mut self, units: usize) -> u32 {
        place(self.add_chunk(units * UNIT), 0)
    }

    fn add_chunk(&mut self, bytes: usize) -> u32 {
        let number = self.chunks.len();
        let has_number = !self.vacant.is_empty() || number + 1 < 1 << (32 - UNIT_BITS);
        assert!(has_number, "a shard of the coin map has no number for another chunk");
        let chunk = vec![0; bytes].into_boxed_slice();
        self.chunk_bytes += bytes;
        if let Some(number) = self.vacant.pop() {
            self.chunks[number as usize] = chunk;
            return number;
        }
        if number == self.chunks.capacity() {
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
        let mut pool = Pool::default();
        let places: Vec<u32> = (0..1000).map(|_| pool.allocate(72)).collect();
        let bytes = pool.bytes();
        assert!((72_000..72_000 + 2 * CHUNK_BYTES).contains(&bytes), "{bytes}");
        for &place in &places {
            pool.release(place, 72);
        }
        let again: Vec<u32> = (0..1000).map(|_| pool.allocate(70)).collect();
        let mut sorted = again.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, places);
        assert!(pool.bytes() <= bytes + 4 * (UNITS_MAX + 1));
    }

    #[test]
    fn long_records_give_their_memory_back() {
        let mut pool = Pool::default();
        let long = pool.allocate(10_000);
        let with = pool.bytes();
        pool.at_mut(long)[..10_000].fill(7);
        pool.release(long, 10_000);
        assert!(pool.bytes() < with - 9_000);
        assert_eq!(pool.allocate(70_000), long);
    }

    proptest! {
        /// Pieces never overlap, whatever is allocated and released.
        #[test]
        fn pieces_keep_what_is_written(steps in proptest::collection::vec((1usize..1400, any::<bool>()), 1..400)) {
            let mut pool = Pool::default();
            let mut pieces = BTreeMap::new();
            for (number, (length, release)) in steps.into_iter().enumerate() {
                if release {
                    if let Some((piece, (length, filler))) = pieces.pop_first() {
                        prop_assert!(pool.at(piece)[..length].iter().all(|&byte| byte == filler));
                        pool.release(piece, length);
                    }
                    continue;
                }
                let piece = pool.allocate(length);
                pool.at_mut(piece)[..length].fill(number as u8);
                prop_assert!(pieces.insert(piece, (length, number as u8)).is_none());
            }
            for (piece, (length, filler)) in pieces {
                prop_assert!(pool.at(piece)[..length].iter().all(|&byte| byte == filler));
            }
        }
    }
}

//! Words of the index: a hash in the upper half, the number of a record's slot in the lower half.

#[inline]
pub(crate) const fn hash_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[inline]
pub(crate) const fn slot_of(word: u64) -> u32 {
    word as u32
}

#[inline]
pub(crate) const fn word(hash: u32, slot: u32) -> u64 {
    (hash as u64) << 32 | slot as u64
}

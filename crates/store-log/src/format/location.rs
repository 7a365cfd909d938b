//! Where a record lies: the slot of its segment, its page, its number on the page.

/// Bits for the number of a record on its page.
const RECORD_BITS: u32 = 6;

/// Bits for the number of a page in its segment.
const PAGE_BITS: u32 = 16;

/// Most pages of a segment: 256 MiB.
pub const SEGMENT_PAGES_MAX: u32 = 1 << PAGE_BITS;

/// Most segments at once. The last slot is never used: its last location is the gap of the index.
pub const SEGMENTS_MAX: usize = (1 << (u32::BITS - PAGE_BITS - RECORD_BITS)) - 1;

/// Where a record lies, in 32 bits. Slots of segments are numbers of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(u32);

impl Location {
    pub const fn new(slot: usize, page: u32, record: u32) -> Self {
        Self((slot as u32) << (PAGE_BITS + RECORD_BITS) | page << RECORD_BITS | record)
    }

    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The locations of a page's live records. Its mask has a bit for each.
    pub fn of_mask(slot: usize, page: u32, mut mask: u64) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let record = (mask != 0).then(|| mask.trailing_zeros())?;
            // Clears the lowest bit that is set.
            mask &= mask - 1;
            Some(Self::new(slot, page, record))
        })
    }

    /// Slot of the segment.
    pub const fn slot(self) -> usize {
        (self.0 >> (PAGE_BITS + RECORD_BITS)) as usize
    }

    /// Number of the page in its segment.
    pub const fn page(self) -> u32 {
        self.0 >> RECORD_BITS & ((1 << PAGE_BITS) - 1)
    }

    /// Number of the record on its page.
    pub const fn record(self) -> u32 {
        self.0 & ((1 << RECORD_BITS) - 1)
    }

    /// Page and record together, as removals name them.
    pub const fn offset(self) -> u32 {
        self.0 & ((1 << (PAGE_BITS + RECORD_BITS)) - 1)
    }

    /// The location of an offset in a segment.
    pub const fn at(slot: usize, offset: u32) -> Self {
        Self((slot as u32) << (PAGE_BITS + RECORD_BITS) | offset)
    }

    /// Offsets are below this.
    pub const OFFSETS: u32 = 1 << (PAGE_BITS + RECORD_BITS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_location() {
        let location = Location::new(1022, 65_535, 63);
        assert_eq!(
            (location.slot(), location.page(), location.record()),
            (1022, 65_535, 63)
        );
        assert_eq!(Location::at(1022, location.offset()), location);
        assert_eq!(location.offset(), Location::OFFSETS - 1);
        assert!(Location::of_mask(3, 5, 1 << 63 | 1).eq([Location::new(3, 5, 0), Location::new(3, 5, 63)]));
        assert!(SEGMENTS_MAX == 1023 && Location::new(SEGMENTS_MAX, 65_535, 63).bits() == u32::MAX);
    }
}

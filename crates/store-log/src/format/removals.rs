//! Pages of removals: which records a frame takes out of the set.
//!
//! A page stands for itself. It has blocks, one after the other: number of a segment (4 bytes),
//! number of removals (2 bytes), then for each removal a VARINT: the first offset (page and
//! record), and from there the distance from the one before, less one.

use super::location::Location;
use super::page::{HEAD_BYTES, PAGE_BYTES, Page, PageHead, PageKind, begin};
use blockmill_block::reader::{Reader, write_varint};

/// Bytes before the removals of a block.
const BLOCK_BYTES: usize = 6;

/// Most bytes of a VARINT of an offset.
const VARINT_BYTES_MAX: usize = 5;

/// A removal: number of the segment, and offset. Removals sort as these two.
pub const fn removal(segment: u32, offset: u32) -> u64 {
    (segment as u64) << u32::BITS | offset as u64
}

/// The number of the segment and the offset of a removal.
pub const fn parts(removal: u64) -> (u32, u32) {
    ((removal >> u32::BITS) as u32, removal as u32)
}

/// Makes pages of removals, which come sorted.
pub fn removal_pages(removals: impl Iterator<Item = u64>) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut body: Vec<u8> = Vec::with_capacity(PAGE_BYTES);
    let mut block: Option<RemovalBlock> = None;
    for removal in removals {
        let (segment, offset) = parts(removal);
        // The longest that one removal can take.
        let needed = BLOCK_BYTES + VARINT_BYTES_MAX;
        if HEAD_BYTES + body.len() + needed > PAGE_BYTES {
            pages.push(page_of(&mut body));
            block = None;
        }
        let open = match block.take().filter(|block| block.segment == segment) {
            Some(open) => {
                // Sorted and distinct, so the distance is at least one.
                write_varint(u64::from(offset - open.last - 1), &mut body);
                open
            }
            None => {
                let start = body.len();
                body.extend(segment.to_le_bytes());
                body.extend([0; 2]);
                write_varint(u64::from(offset), &mut body);
                RemovalBlock {
                    start,
                    segment,
                    count: 0,
                    last: 0,
                }
            }
        };
        let open = RemovalBlock {
            count: open.count + 1,
            last: offset,
            ..open
        };
        body[open.start + 4..open.start + BLOCK_BYTES].copy_from_slice(&open.count.to_le_bytes());
        block = Some(open);
    }
    if !body.is_empty() {
        pages.push(page_of(&mut body));
    }
    pages
}

/// A block that is being written.
struct RemovalBlock {
    /// Where it begins in the body.
    start: usize,
    segment: u32,
    count: u16,
    last: u32,
}

fn page_of(body: &mut Vec<u8>) -> Page {
    let mut page = [0; PAGE_BYTES];
    page[HEAD_BYTES..HEAD_BYTES + body.len()].copy_from_slice(body);
    begin(&mut page, PageKind::Removals, 0, HEAD_BYTES + body.len());
    body.clear();
    page
}

/// Calls `each` with the removals of a page: segment and offset. None if it is no such page.
pub fn read_removals(page: &Page, head: &PageHead, mut each: impl FnMut(u32, u32)) -> Option<()> {
    let mut reader = Reader::new(page.get(HEAD_BYTES..head.used)?);
    while reader.remaining() > 0 {
        let segment = reader.u32().ok()?;
        let count = u16::from_le_bytes(reader.array().ok()?);
        let mut next = 0u64;
        for _ in 0..count {
            let offset = next + reader.varint(u64::from(Location::OFFSETS)).ok()?;
            // A distance may lead past the last record that can exist.
            if offset >= u64::from(Location::OFFSETS) {
                return None;
            }
            each(segment, offset as u32);
            next = offset + 1;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::{PagePosition, seal};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn removals_are_read_as_they_were_written(
            wanted in proptest::collection::btree_set((1u32..5, 0..Location::OFFSETS), 0..3000),
            dense in proptest::collection::btree_set((1u32..3, 0u32..5000), 0..3000),
        ) {
            let wanted: Vec<(u32, u32)> = wanted.union(&dense).copied().collect();
            let mut found = Vec::new();
            let packed = wanted.iter().map(|&(segment, offset)| removal(segment, offset));
            for mut page in removal_pages(packed) {
                seal(&mut page, PagePosition { segment: 1, page: 2 }, 3, 4);
                let head = PageHead::of(&page).unwrap();
                prop_assert_eq!(head.kind, PageKind::Removals);
                read_removals(&page, &head, |segment, offset| found.push((segment, offset))).unwrap();
            }
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let page: Page = bytes.try_into().unwrap();
            let head = PageHead {
                kind: PageKind::Removals,
                records: 0,
                used: PAGE_BYTES,
                position: PagePosition { segment: 1, page: 1 },
                flush: 0,
                epoch: 0,
            };
            read_removals(&page, &head, |_, offset| assert!(offset < Location::OFFSETS));
        }
    }
}

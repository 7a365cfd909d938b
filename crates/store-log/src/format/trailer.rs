//! The trailer: the last page of a frame. A frame without it was never committed.

use super::page::{HEAD_BYTES, PAGE_BYTES, Page, PageHead, PageKind, PagePosition, begin};
use blockmill_block::BlockHash;
use blockmill_block::reader::Reader;
use blockmill_coins::Tip;

/// What a trailer says. The number of the flush is in its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The first page of the frame.
    pub start: PagePosition,
    /// Pages of the frame before the trailer. First pages of segments do not count.
    pub pages: u32,
    /// CRC-32 of the checksums of these pages.
    pub checksum: u32,
    /// The checksum of the trailer before.
    pub previous: u32,
    pub tip: Tip,
    /// Coins in the set.
    pub coins: u64,
    /// Sum of the hashes of all outpoints in the set.
    pub digest: u64,
}

impl Trailer {
    /// Begins the page.
    pub fn write(&self) -> Page {
        let mut bytes = Vec::new();
        for number in [
            self.start.segment,
            self.start.page,
            self.pages,
            self.checksum,
            self.previous,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.tip.hash.0);
        bytes.extend(self.tip.height.to_le_bytes());
        bytes.extend(self.coins.to_le_bytes());
        bytes.extend(self.digest.to_le_bytes());
        let mut page = [0; PAGE_BYTES];
        page[HEAD_BYTES..HEAD_BYTES + bytes.len()].copy_from_slice(&bytes);
        begin(&mut page, PageKind::Trailer, 0, HEAD_BYTES + bytes.len());
        page
    }

    /// Reads the page. None if it is no trailer.
    pub fn read(page: &Page, head: &PageHead) -> Option<Self> {
        if head.kind != PageKind::Trailer {
            return None;
        }
        let mut reader = Reader::new(page.get(HEAD_BYTES..head.used)?);
        let mut number = || reader.u32().ok();
        let start = PagePosition::new(number()?, number()?);
        let (pages, checksum, previous) = (number()?, number()?, number()?);
        let tip = Tip {
            hash: BlockHash(reader.array().ok()?),
            height: reader.u32().ok()?,
        };
        let coins = u64::from_le_bytes(reader.array().ok()?);
        let digest = u64::from_le_bytes(reader.array().ok()?);
        Some(Self {
            start,
            pages,
            checksum,
            previous,
            tip,
            coins,
            digest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::seal;

    #[test]
    fn a_trailer_is_read_as_it_was_written() {
        let trailer = Trailer {
            start: PagePosition { segment: 3, page: 4 },
            pages: 5,
            checksum: 6,
            previous: 7,
            tip: Tip {
                hash: BlockHash([8; 32]),
                height: 9,
            },
            coins: 10,
            digest: u64::MAX,
        };
        let mut page = trailer.write();
        seal(&mut page, trailer.start, 1, 2);
        let head = PageHead::of(&page).unwrap();
        assert_eq!(Trailer::read(&page, &head), Some(trailer));
        let short = PageHead { used: 100, ..head };
        assert_eq!(Trailer::read(&page, &short), None);
    }
}

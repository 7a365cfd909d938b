//! Records that are read from the pages of segments.

use super::location::Location;
use super::page::{PAGE_BYTES, Page, PageHead, PageKind, long_length, long_pages, long_part, read_record, record};
use super::segment::{SegmentTable, page_damaged};
use blockmill_block::reader::DecodeError;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::StoreError;
use blockmill_coins::store::decode_coin;
use std::path::Path;

/// Reads records of a table. The last page stays.
pub struct PageReader<'a> {
    table: &'a SegmentTable,
    page: Box<Page>,
    /// Slot, number and head of the page.
    current: Option<(usize, u32, PageHead)>,
    /// A long record.
    joined: Vec<u8>,
}

impl<'a> PageReader<'a> {
    pub fn new(table: &'a SegmentTable) -> Self {
        Self {
            table,
            page: Box::new([0; PAGE_BYTES]),
            current: None,
            joined: Vec::new(),
        }
    }

    fn damaged(&self, location: Location, what: &str) -> StoreError {
        match self.table.get(location.slot()) {
            Some(segment) => page_damaged(&segment.path, location.page(), what),
            None => StoreError::Corrupt(format!("the index names segment {}, which is gone", location.slot())),
        }
    }

    /// The head of a page, which is read unless it is the last that was.
    fn head(&mut self, location: Location) -> Result<PageHead, StoreError> {
        let (slot, number) = (location.slot(), location.page());
        if let Some((old_slot, old_number, head)) = self.current
            && (old_slot, old_number) == (slot, number)
        {
            return Ok(head);
        }
        let Some(segment) = self.table.get(slot) else {
            return Err(self.damaged(location, ""));
        };
        self.current = None;
        let head = segment.read_page(number, &mut self.page)?;
        self.current = Some((slot, number, head));
        Ok(head)
    }

    /// The record at a location.
    pub fn record(&mut self, location: Location) -> Result<&[u8], StoreError> {
        let head = self.head(location)?;
        if head.kind == PageKind::Long {
            return self.long_record(location, &head);
        }
        match record(&self.page, &head, location.record() as usize) {
            Some(found) => Ok(found),
            None => Err(page_damaged(
                self.table
                    .get(location.slot())
                    .map_or(Path::new(""), |segment| &segment.path),
                location.page(),
                "has no such record",
            )),
        }
    }

    fn long_record(&mut self, location: Location, first: &PageHead) -> Result<&[u8], StoreError> {
        let (Some(length), Some(segment)) = (long_length(&self.page, first), self.table.get(location.slot())) else {
            return Err(self.damaged(location, "has no such record"));
        };
        self.joined.clear();
        self.joined.extend_from_slice(long_part(&self.page, first));
        // The page is overwritten now.
        self.current = None;
        for number in 1..long_pages(length) as u32 {
            let head = segment.read_page(location.page() + number, &mut self.page)?;
            // Pages of another record lie there.
            if head.kind != PageKind::LongRest || head.flush != first.flush {
                return Err(page_damaged(
                    &segment.path,
                    location.page() + number,
                    "has no such record",
                ));
            }
            self.joined.extend_from_slice(long_part(&self.page, &head));
        }
        if self.joined.len() != length {
            return Err(self.damaged(location, "has a record of another length"));
        }
        Ok(&self.joined)
    }

    /// The coin at a location, if it is that of the outpoint.
    pub fn coin(&mut self, location: Location, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let bytes = self.record(location)?;
        // Most candidates that are not the coin differ here, before anything is decoded.
        let txid = bytes.first_chunk::<32>();
        if txid.is_some_and(|txid| *txid != outpoint.txid.0) {
            return Ok(None);
        }
        match read_record(bytes) {
            Ok((found, coin)) if found == *outpoint => decode_coin(outpoint, coin).map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(self.not_a_record(location, error)),
        }
    }

    /// The outpoint of the record at a location.
    pub fn outpoint(&mut self, location: Location) -> Result<OutPoint, StoreError> {
        let read = read_record(self.record(location)?).map(|(outpoint, _)| outpoint);
        read.map_err(|error| self.not_a_record(location, error))
    }

    /// The outpoint of a record that was read from a location.
    pub fn outpoint_of(&self, record: &[u8], location: Location) -> Result<OutPoint, StoreError> {
        let read = read_record(record).map(|(outpoint, _)| outpoint);
        read.map_err(|error| self.not_a_record(location, error))
    }

    fn not_a_record(&self, location: Location, error: DecodeError) -> StoreError {
        self.damaged(location, &format!("has a record that is none: {error}"))
    }

    /// The location among some that has the record of an outpoint.
    pub fn find(
        &mut self,
        outpoint: &OutPoint,
        candidates: impl IntoIterator<Item = Location>,
    ) -> Result<Option<Location>, StoreError> {
        for location in candidates {
            if self.outpoint(location)? == *outpoint {
                return Ok(Some(location));
            }
        }
        Ok(None)
    }
}

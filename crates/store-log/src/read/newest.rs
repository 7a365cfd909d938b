//! The last commit at once, whatever the size of the store: a page or two show it.

use crate::format::page::{PAGE_BYTES, Page, PageHead, PagePosition, checksum_of};
use crate::format::segment::{Identity, SegmentTable};
use crate::format::trailer::Trailer;
use crate::open::directory::find_to_read;
use blockmill_coins::{LastCommit, StoreError};
use std::path::Path;

/// Pages of a frame that are read to see that it is whole, at most: 4 MiB.
const FRAME_PAGES_MAX: u32 = 1024;

/// A trailer, and the commit that it ends.
struct Ended {
    head: PageHead,
    trailer: Trailer,
    commit: LastCommit,
}

/// The last commit of the store in a directory, also while another process writes it. No index is
/// made, and a frame of more than 4 MiB is not read.
///
/// `synced` is a commit that was synced. A later one counts if the log ends with it, and if its
/// frame is read and whole. None where neither is there: [`Lookup`](crate::Lookup) finds the last
/// commit then.
///
/// # Errors
/// As [`LogStore::open_to_read`](crate::LogStore::open_to_read).
pub fn last_commit(
    directory: &Path,
    network: Option<&str>,
    synced: &LastCommit,
) -> Result<Option<LastCommit>, StoreError> {
    find_to_read(directory, network, |segments, identity| {
        let table = SegmentTable::of(segments.into_iter().map(Some).collect());
        // The mark belongs to a store that was replaced.
        if identity.store() != synced.store {
            return Ok(None);
        }
        let counts = |ended: &Ended| {
            let is_read = ended.trailer.pages <= FRAME_PAGES_MAX;
            let can_be = ended.commit == *synced || (is_read && ended.commit.number > synced.number);
            can_be && (!is_read || is_whole(&table, ended) == Some(true))
        };
        let end = end_of(&table)?;
        let at_end = end.and_then(|end| ended_before(&table, &identity, end));
        if let Some(ended) = at_end.filter(counts) {
            return Ok(Some(ended.commit));
        }
        // What comes after it is being written, or was never finished.
        let ended = ended_before(&table, &identity, PagePosition::from_bits(synced.end));
        Ok(ended.filter(counts).map(|ended| ended.commit))
    })
}

/// Where the log ends.
fn end_of(table: &SegmentTable) -> Result<Option<PagePosition>, StoreError> {
    let Some((_, last)) = table.in_order().pop() else {
        return Ok(None);
    };
    Ok(Some(PagePosition::new(last.number, last.pages()?)))
}

/// The commit whose trailer is the page before a position; none if that page is no trailer.
fn ended_before(table: &SegmentTable, identity: &Identity, end: PagePosition) -> Option<Ended> {
    let segment = table.get(table.slot_of(end.segment)?)?;
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    let head = segment.read_page(end.page.checked_sub(1)?, &mut page).ok()?;
    let trailer = Trailer::read(&page, &head)?;
    let commit = LastCommit {
        store: identity.store(),
        number: head.flush,
        end: end.bits(),
        tip: Some(trailer.tip),
        coins: trailer.coins,
    };
    Some(Ended { head, trailer, commit })
}

/// Whether the pages of a frame are those that its trailer names. None if some are not there.
fn is_whole(table: &SegmentTable, ended: &Ended) -> Option<bool> {
    let Ended { head, trailer, .. } = ended;
    let mut left = trailer.pages;
    let mut checksums = crc32fast::Hasher::new();
    for (_, segment) in table.in_order() {
        if segment.number < trailer.start.segment || left == 0 {
            continue;
        }
        // The first page of a segment is no part of a frame.
        let first = match segment.number == trailer.start.segment {
            true => trailer.start.page.max(1),
            false => 1,
        };
        let count = segment.pages().ok()?.checked_sub(first)?.min(left);
        let mut pages = vec![[0; PAGE_BYTES]; count as usize];
        segment.read_pages(first, &mut pages).ok()?;
        for (number, page) in (first..).zip(&pages) {
            let found = segment.check(number, page).ok()?;
            // A page of another frame: this one was never whole.
            if (found.flush, found.epoch) != (head.flush, head.epoch) {
                return Some(false);
            }
            checksums.update(&checksum_of(page).to_le_bytes());
        }
        left -= count;
    }
    Some(left == 0 && checksums.finalize() == trailer.checksum)
}

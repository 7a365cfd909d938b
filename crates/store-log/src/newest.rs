//! The last commit at once, whatever the size of the store: a page or two show it.

use crate::ledger::Ledger;
use crate::open::{find_to_read, shared_segments};
use crate::page::{Head, PAGE_BYTES, Page, Position};
use crate::replay::replay;
use crate::segment::{Identity, Table};
use crate::trailer::Trailer;
use blockmill_coins::{LastCommit, StoreError};
use std::path::Path;

/// Pages of a frame that are read to see that it is whole, at most: 8 MiB.
const FRAME_PAGES_MAX: u32 = 2048;

/// A trailer, and the commit that it ends.
struct Ended {
    head: Head,
    trailer: Trailer,
    commit: LastCommit,
}

/// The last commit of the store in a directory, also while another process writes it. No index is
/// made. `synced` is a commit that was synced. A later one counts if the log ends with it, and if
/// its frame has at most 8 MiB. None where neither is there: [`Lookup`](crate::Lookup) finds the
/// last commit then.
///
/// # Errors
/// As [`LogStore::open_to_read`](crate::LogStore::open_to_read).
pub fn last_commit(
    directory: &Path,
    network: Option<&str>,
    synced: &LastCommit,
) -> Result<Option<LastCommit>, StoreError> {
    find_to_read(directory, network, |segments, identity| {
        let table = Table::of(shared_segments(segments)?.into_iter().map(Some).collect());
        if identity.store() != synced.store {
            return Ok(None);
        }
        let at_end = match end_of(&table)? {
            Some(end) => ended_before(&table, &identity, end),
            None => None,
        };
        if let Some(ended) = at_end
            && (ended.commit == *synced || (ended.commit.number > synced.number && is_whole(&table, &ended)))
        {
            return Ok(Some(ended.commit));
        }
        // What comes after it is being written, or was never finished.
        let ended = ended_before(&table, &identity, Position::from_bits(synced.end));
        Ok(ended.map(|ended| ended.commit).filter(|commit| commit == synced))
    })
}

/// Where the log ends.
fn end_of(table: &Table) -> Result<Option<Position>, StoreError> {
    let Some((_, last)) = table.in_order().pop() else {
        return Ok(None);
    };
    Ok(Some(Position {
        segment: last.number,
        page: last.pages()?,
    }))
}

/// The commit whose trailer is the page before a position; none if that page is no trailer.
fn ended_before(table: &Table, identity: &Identity, end: Position) -> Option<Ended> {
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

/// Whether the frame of a trailer at the end of the log is whole, as far as it is small.
fn is_whole(table: &Table, ended: &Ended) -> bool {
    let Ended { head, trailer, .. } = ended;
    let Some(before) = head.flush.checked_sub(1).filter(|_| trailer.pages <= FRAME_PAGES_MAX) else {
        return false;
    };
    let replayed = replay(
        table,
        &mut Ledger::default(),
        trailer.start,
        Some((before, trailer.previous)),
    );
    let last = replayed.ok().and_then(|replayed| replayed.last);
    last.is_some_and(|last| last.flush == head.flush)
}

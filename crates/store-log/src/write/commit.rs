//! A commit: from changes to a frame, and from the frame to the index.
//!
//! 1. All threads turn parts of the changes into pages of coins; one appends them in order.
//! 2. All threads look for the records that the changes remove, group by group.
//! 3. Records that live on in a segment that is mostly garbage are appended too (`garbage`).
//! 4. Pages of removals, and a trailer, are appended. All is synced.
//! 5. All threads change the index, group by group. Then the ledger changes, with it the tip.
//!
//! Until the fifth step nothing that a reader sees has changed.
//!
//! # Certainty
//!
//! The index knows 44 bits of a hash, and they never decide that a coin is removed. Where the
//! caller knows that the coin is in the store, and one word alone has these bits, the word is the
//! coin's: it has one. Where two have them, or where the caller does not know, the records are
//! read.

use super::frame::{Frame, LogTail, PageState};
use super::garbage::{Garbage, Survivors};
use super::grouped::Grouped;
use super::records::{Added, Moved, Removed};
use crate::format::location::{Location, SEGMENTS_MAX};
use crate::format::page::{
    CoinPages, KeyRange, Page, PageKind, RecordSlot, all_live, begun, record_bytes, write_record,
};
use crate::format::records::PageReader;
use crate::format::removals::{parts, removal, removal_pages};
use crate::format::segment::SegmentTable;
use crate::format::trailer::Trailer;
use crate::index::state::LogState;
use crate::index::table::{GROUP_SHARDS, GROUPS, Group, IndexKey, LINES_OF_SEARCH, TOGETHER, groups_of_jobs};
use blockmill_block::OutPoint;
use blockmill_block::hex;
use blockmill_coinmap::HashKey;
use blockmill_coins::{Before, Changes, StoreError, Tip};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// A part of the changes, as pages.
struct ChangePages {
    pages: Vec<Page>,
    ranges: Vec<KeyRange>,
    added: Vec<(u64, RecordSlot)>,
    /// Hashes of outpoints whose coins are in the store for certain.
    removed: Vec<(usize, u64)>,
    /// Outpoints of which nobody knows.
    unknown: Vec<OutPoint>,
    /// Change of the digest by what is certain.
    digest: u64,
}

impl ChangePages {
    fn new(changes: &dyn Changes, number: usize, key: &HashKey) -> Self {
        let mut pages = CoinPages::with_capacity(changes.len() / changes.parts().max(1));
        let mut part = Self {
            pages: Vec::new(),
            ranges: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            unknown: Vec::new(),
            digest: 0,
        };
        let mut record = Vec::new();
        changes.visit(number, &mut |change| {
            let hash = key.hash(&change.outpoint);
            match change.before {
                Before::Coin => {
                    part.removed.push((IndexKey::of(hash).group, hash));
                    part.digest = part.digest.wrapping_sub(hash);
                }
                Before::Unknown => part.unknown.push(change.outpoint),
                Before::Nothing => {}
            }
            if let Some(coin) = change.coin {
                record.clear();
                write_record(&change.outpoint, &coin, &mut record);
                part.added.push((hash, pages.push(&record)));
                part.digest = part.digest.wrapping_add(hash);
            }
        });
        (part.pages, part.ranges) = pages.finish();
        part
    }
}

/// What the caller of a commit has to do when it is durable.
pub(crate) struct Committed {
    /// The checksum of the trailer.
    pub(crate) trailer_checksum: u32,
    pub(crate) tail: LogTail,
}

/// A commit under way.
pub(crate) struct Commit<'a> {
    log: &'a LogState,
    changes: &'a dyn Changes,
    frame: Frame<'a>,
    added: Vec<Added>,
    added_count: u64,
    /// By group.
    removed: Vec<Vec<Removed>>,
    /// Survivors of segments that are collected, part by part. Pages are those of the frame.
    moved: Vec<Grouped<Moved>>,
    /// All that was removed and moved, sorted.
    removals: Vec<u64>,
    digest: u64,
}

impl<'a> Commit<'a> {
    pub(crate) fn new(log: &'a LogState, changes: &'a dyn Changes, frame: Frame<'a>) -> Self {
        Self {
            log,
            changes,
            frame,
            added: Vec::new(),
            added_count: 0,
            removed: Vec::with_capacity(GROUPS),
            moved: Vec::new(),
            removals: Vec::new(),
            digest: 0,
        }
    }

    /// Does everything. Segments of `kept` numbers are not collected. `previous` is the checksum of
    /// the trailer before.
    pub(crate) fn run(
        mut self,
        garbage: &mut Garbage,
        kept: &[u32],
        previous: u32,
        tip: &Tip,
    ) -> Result<Committed, StoreError> {
        // The segment that this frame begins in is no victim, nor are later ones.
        let newest = self.frame.start().segment;
        let (certain, unknown) = self.append_coins()?;
        self.find_certain(&certain)?;
        // Its memory is free before survivors are read.
        drop(certain);
        self.find_unknown(&unknown)?;
        let mut survivors = Survivors::default();
        survivors.choose(self.log, garbage, (newest, kept), self.frame.len(), &self.removed)?;
        self.append_survivors(&survivors)?;
        self.append_removals(&survivors)?;
        let (coins, digest) = {
            let ledger = self.log.ledger();
            let removed: usize = self.removed.iter().map(Vec::len).sum();
            (
                ledger.coins + self.added_count - removed as u64,
                ledger.digest.wrapping_add(self.digest),
            )
        };
        // A frame of nothing else begins where its trailer goes.
        self.frame.reserve(1)?;
        let trailer = Trailer {
            start: self.frame.start(),
            pages: self.frame.len(),
            checksum: self.frame.checksum(),
            previous,
            tip: *tip,
            coins,
            digest,
        };
        self.append_plain(trailer.write(), KeyRange::default())?;
        self.frame.sync()?;
        // From here on nothing can fail that would leave memory and disk apart.
        self.change_index()?;
        let mut ledger = self.log.ledger_mut();
        for (slot, page, state) in self.frame.states() {
            let segment = ledger.segment_mut(slot);
            // The first page of a segment has no records, and counts here.
            segment.fill(page);
            segment.push(state.mask, state.range, state.bytes);
        }
        for location in locations(&self.log.segments.load(), &self.removals) {
            ledger.remove(location);
        }
        ledger.flush = self.frame.flush();
        (ledger.tip, ledger.coins, ledger.digest) = (Some(*tip), coins, digest);
        Ok(Committed {
            trailer_checksum: self.frame.last_checksum(),
            tail: self.frame.tail(),
        })
    }

    /// Step 1. Returns the hashes of what is removed for certain, part by part, and the outpoints
    /// of which nobody knows.
    fn append_coins(&mut self) -> Result<(Vec<Grouped<u64>>, Vec<OutPoint>), StoreError> {
        let (mut certain, mut unknown) = (Vec::new(), Vec::new());
        let (log, changes) = (self.log, self.changes);
        let make = |number| ChangePages::new(changes, number, &log.key);
        log.options.helpers.in_order(0..changes.parts(), make, |mut part| {
            let first_page = self.frame.len();
            self.append_coin_pages(&mut part.pages, &part.ranges)?;
            // Parts count their pages from 0, since nobody knows how many come before.
            self.added.push(Added::new(&part.added, first_page));
            self.added_count += part.added.len() as u64;
            self.digest = self.digest.wrapping_add(part.digest);
            certain.push(Grouped::new(&part.removed, GROUPS));
            unknown.append(&mut part.unknown);
            Ok::<(), StoreError>(())
        })?;
        Ok((certain, unknown))
    }

    /// Appends pages of coins. The pages of a long record go to one segment.
    fn append_coin_pages(&mut self, pages: &mut [Page], ranges: &[KeyRange]) -> Result<(), StoreError> {
        let state = |(page, range): (&Page, &KeyRange)| {
            let (kind, records, used) = begun(page)?;
            let state = PageState {
                mask: all_live(kind, records),
                range: *range,
                bytes: record_bytes(kind, records, used),
            };
            Some((kind, state))
        };
        let (kinds, states): (Vec<PageKind>, Vec<PageState>) = pages.iter().zip(ranges).filter_map(state).unzip();
        // Whether a record begins at a page, or the pages end.
        let is_edge = |page: usize| kinds.get(page) != Some(&PageKind::LongRest);
        let mut start = 0;
        while start < pages.len() {
            // A segment may have room for some records only: the piece ends at an edge.
            let first_edge = (start + 1..=pages.len()).find(|&page| is_edge(page));
            let last_fitting = (start + self.frame.room()).min(pages.len());
            let edge = (start + 1..=last_fitting).rev().find(|&page| is_edge(page));
            let end = edge.or(first_edge).unwrap_or(pages.len());
            self.frame.append(&mut pages[start..end], &states[start..end])?;
            start = end;
        }
        Ok(())
    }

    fn append_plain(&mut self, page: Page, range: KeyRange) -> Result<(), StoreError> {
        let state = PageState {
            mask: 0,
            range,
            bytes: 0,
        };
        self.frame.append(&mut [page], &[state])
    }

    /// Step 2, for coins that are in the store for certain.
    fn find_certain(&mut self, certain: &[Grouped<u64>]) -> Result<(), StoreError> {
        let (log, table) = (self.log, self.log.segments.load());
        let find = |groups: Range<usize>| -> Result<Vec<FoundInGroup>, StoreError> {
            groups.map(|group| find_in_group(log, &table, certain, group)).collect()
        };
        let mut undecided = Vec::new();
        log.options.helpers.in_order(groups_of_jobs(), find, |found| {
            for group in found? {
                self.removed.push(group.removed);
                undecided.extend(group.undecided);
            }
            Ok(())
        })?;
        self.find_undecided(&undecided)
    }

    /// Step 2, for coins in the store that share all bits of their hash. Their outpoints are looked
    /// for in the changes.
    fn find_undecided(&mut self, hashes: &[u64]) -> Result<(), StoreError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let mut outpoints = Vec::new();
        self.changes.visit_all(&mut |change| {
            if change.before == Before::Coin && hashes.contains(&self.log.key.hash(&change.outpoint)) {
                outpoints.push(change.outpoint);
            }
        });
        let found = self.find_unknown_ones(&outpoints)?;
        if found.len() != outpoints.len() {
            return Err(not_there("one of several with one hash"));
        }
        for removed in found {
            self.removed[IndexKey::of(removed.hash).group].push(removed);
        }
        Ok(())
    }

    /// Step 2, for coins of which the caller does not know.
    fn find_unknown(&mut self, outpoints: &[OutPoint]) -> Result<(), StoreError> {
        for removed in self.find_unknown_ones(outpoints)? {
            // The part of a change that was certain is in the digest already.
            self.digest = self.digest.wrapping_sub(removed.hash);
            self.removed[IndexKey::of(removed.hash).group].push(removed);
        }
        Ok(())
    }

    /// Those of the outpoints that are in the store.
    fn find_unknown_ones(&self, outpoints: &[OutPoint]) -> Result<Vec<Removed>, StoreError> {
        let table = self.log.segments.load();
        let mut reader = PageReader::new(&table);
        let mut found = Vec::new();
        for outpoint in outpoints {
            let hash = self.log.key.hash(outpoint);
            let key = IndexKey::of(hash);
            let group = self.log.index.read(key.group);
            let candidates: Vec<Location> = group[key.shard].candidates(key.tag).collect();
            // Reading a record may wait for the disk, and the writer of the group for us.
            drop(group);
            if let Some(location) = reader.find(outpoint, candidates)? {
                found.push(Removed { hash, location });
            }
        }
        Ok(found)
    }

    /// Step 3.
    fn append_survivors(&mut self, survivors: &Survivors) -> Result<(), StoreError> {
        let (log, table) = (self.log, self.log.segments.load());
        let make = |number| survivors.part(number, log, &table);
        log.options.helpers.in_order(0..survivors.parts(), make, |part| {
            let mut part = part?;
            let first_page = self.frame.len();
            self.append_coin_pages(&mut part.pages, &part.ranges)?;
            for moved in part.moved.iter_mut() {
                // The pages of a part counted from 0.
                moved.new.page += first_page;
            }
            self.moved.push(part.moved);
            Ok(())
        })
    }

    /// Step 4: what is removed, and removals that a segment had which goes.
    fn append_removals(&mut self, survivors: &Survivors) -> Result<(), StoreError> {
        let table = self.log.segments.load();
        let numbers: Vec<u32> = table
            .slots
            .iter()
            .map(|slot| slot.as_ref().map_or(0, |segment| segment.number))
            .collect();
        let number_of = |slot: usize| numbers.get(slot).copied().unwrap_or(0);
        let removed = self.removed.iter().flatten().map(|removed| removed.location);
        let mut removals: Vec<u64> = removed
            .map(|location| removal(number_of(location.slot()), location.offset()))
            .collect();
        // Sorted, the ledger is read from front to back.
        removals.sort_unstable();
        let ledger = self.log.ledger();
        // A word of the index that names a dead record: the index is wrong, and nothing is
        // written.
        if let Some(dead) = locations(&table, &removals).find(|&location| !ledger.is_live(location)) {
            return Err(not_there(&format!("its record at {dead:?} is not live")));
        }
        drop(ledger);
        removals.extend_from_slice(survivors.taken());
        // A sort that knows runs: these are sorted already.
        removals.sort();
        // A victim does not have what the frame removes, so no record is there twice.
        if removals.windows(2).any(|two| two[0] == two[1]) {
            return Err(StoreError::Corrupt("two changes remove one coin".to_owned()));
        }
        let mut written = Cow::Borrowed(&removals);
        if !survivors.carried().is_empty() {
            let written = written.to_mut();
            written.extend_from_slice(survivors.carried());
            written.sort();
            // Several victims may carry the same removal.
            written.dedup();
        }
        for page in removal_pages(written.iter().copied()) {
            self.append_plain(page, KeyRange::REMOVALS)?;
        }
        drop(written);
        self.removals = removals;
        Ok(())
    }

    /// Step 5.
    fn change_index(&self) -> Result<(), StoreError> {
        self.log.options.helpers.for_each(groups_of_jobs(), |mut groups| {
            groups.try_for_each(|group| {
                self.change_group(group);
                Ok(())
            })
        })
    }

    fn change_group(&self, number: usize) {
        let mut group = self.log.index.write(number);
        for batch in self.removed[number].chunks(TOGETHER) {
            prefetch(&group, batch.iter().map(|removed| home(removed.hash)), LINES_OF_REMOVAL);
            for removed in batch {
                let key = IndexKey::of(removed.hash);
                group[key.shard].remove(key.tag, removed.location);
            }
        }
        let moved: Vec<Moved> = self.moved.iter().flat_map(|part| part.group(number)).copied().collect();
        for batch in moved.chunks(TOGETHER) {
            prefetch(&group, batch.iter().map(|moved| home(moved.old.hash)), LINES_OF_SEARCH);
            for moved in batch {
                let key = IndexKey::of(moved.old.hash);
                let to = self.frame.location(moved.new);
                group[key.shard].replace(key.tag, moved.old.location, to);
            }
        }
        // Each table grows once for all that it gets.
        let mut counts = [0; GROUP_SHARDS];
        for (shard, ..) in self.added.iter().flat_map(|part| part.group(number)) {
            counts[shard] += 1;
        }
        for (shard, count) in group.iter_mut().zip(counts) {
            shard.reserve(count);
        }
        let added: Vec<(usize, u32, RecordSlot)> = self.added.iter().flat_map(|part| part.group(number)).collect();
        for batch in added.chunks(TOGETHER) {
            let homes = batch.iter().map(|&(shard, tag, _)| (shard, tag));
            prefetch(&group, homes, LINES_OF_INSERTION);
            for &(shard, tag, slot) in batch {
                group[shard].insert(tag, self.frame.location(slot));
            }
        }
    }
}

/// The locations of sorted removals. In this order the ledger is read from front to back.
fn locations(table: &SegmentTable, removals: &[u64]) -> impl Iterator<Item = Location> {
    let runs = removals.chunk_by(|&one, &other| parts(one).0 == parts(other).0);
    runs.flat_map(move |run| {
        // Nothing lives in a slot that is never used.
        let slot = table.slot_of(parts(run[0]).0).unwrap_or(SEGMENTS_MAX);
        run.iter().map(move |&removal| Location::at(slot, parts(removal).1))
    })
}

/// The records of removed coins in a group of the index.
struct FoundInGroup {
    removed: Vec<Removed>,
    /// Hashes that several coins in the store share.
    undecided: Vec<u64>,
}

fn find_in_group(
    log: &LogState,
    table: &SegmentTable,
    certain: &[Grouped<u64>],
    number: usize,
) -> Result<FoundInGroup, StoreError> {
    let (mut several, mut undecided) = (Vec::new(), Vec::new());
    let group = log.index.read(number);
    let hashes: Vec<u64> = certain.iter().flat_map(|part| part.group(number)).copied().collect();
    let mut removed = Vec::with_capacity(hashes.len());
    for (position, &hash) in hashes.iter().enumerate() {
        if position % TOGETHER == 0 {
            let next = hashes[position..].iter().take(TOGETHER);
            prefetch(&group, next.map(|&hash| home(hash)), LINES_OF_SEARCH);
        }
        let key = IndexKey::of(hash);
        let mut candidates = group[key.shard].candidates(key.tag);
        match (candidates.next(), candidates.next()) {
            (Some(location), None) => removed.push(Removed { hash, location }),
            (Some(_), Some(_)) => several.push(hash),
            (None, _) => return Err(not_there(&hex::encode(&hash.to_be_bytes()))),
        }
    }
    // Reading records would delay the searches above.
    for hash in several {
        let key = IndexKey::of(hash);
        match only_with_hash(log, table, hash, group[key.shard].candidates(key.tag))? {
            Some(location) => removed.push(Removed { hash, location }),
            None => undecided.push(hash),
        }
    }
    Ok(FoundInGroup { removed, undecided })
}

/// Lines of the CPU's cache that a change of the index reads, most of the time.
const LINES_OF_REMOVAL: usize = 9;
const LINES_OF_INSERTION: usize = 5;

/// The shard and the tag of a hash.
const fn home(hash: u64) -> (usize, u32) {
    let key = IndexKey::of(hash);
    (key.shard, key.tag)
}

/// Starts loading the words of some shards and tags of a group.
fn prefetch(group: &Group, homes: impl Iterator<Item = (usize, u32)>, lines: usize) {
    homes.for_each(|(shard, tag)| group[shard].prefetch(tag, lines));
}

/// The one candidate whose whole hash this is. None if there are several.
fn only_with_hash(
    log: &LogState,
    table: &SegmentTable,
    hash: u64,
    candidates: impl Iterator<Item = Location>,
) -> Result<Option<Location>, StoreError> {
    let mut reader = PageReader::new(table);
    let mut by_hash: HashMap<u64, Vec<Location>> = HashMap::new();
    for location in candidates {
        by_hash
            .entry(log.key.hash(&reader.outpoint(location)?))
            .or_default()
            .push(location);
    }
    match by_hash.get(&hash).map(Vec::as_slice) {
        Some(&[location]) => Ok(Some(location)),
        Some(_) => Ok(None),
        None => Err(not_there(&hex::encode(&hash.to_be_bytes()))),
    }
}

/// A coin is not in the store that the caller knows to be there.
fn not_there(what: &str) -> StoreError {
    StoreError::Corrupt(format!("a coin that was read before is not there any more: {what}"))
}

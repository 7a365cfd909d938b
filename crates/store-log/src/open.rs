//! Opening: the segments are found, the checkpoint is loaded, the frames after it are read again.

use crate::checkpoint::{self, Checkpoint, Label};
use crate::frame::Tail;
use crate::garbage::Garbage;
use crate::index::{Index, Place};
use crate::ledger::Ledger;
use crate::location::{Location, SEGMENTS_MAX};
use crate::page::{Kind, PAGE_BYTES, Page, Position, RECORDS_MAX, checksum_of};
use crate::parallel::for_each;
use crate::replay::{CALL_PAGES, Replayed, replay};
use crate::segment::{
    Identity, NETWORK_BYTES_MAX, Segment, Table, UNFINISHED, file_failed, page_damaged, segment_number, segment_path,
};
use crate::store::{LogStore, Opening, Options, PageReader, Shared};
use crate::writer::Writer;
use blockmill_blockfiles::disk::{Disk, DiskFile, Open, SystemDisk};
use blockmill_blockfiles::open_regular;
use blockmill_coins::StoreError;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a store that is written meanwhile is opened to read.
const ATTEMPTS: u32 = 5;

/// Pages of coins whose records one call adds to the index.
const INDEX_PAGES: usize = 512;

/// The numbers of all segments in a directory, sorted.
fn segment_numbers(directory: &Path) -> Result<Vec<u32>, StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether a store exists in a directory.
///
/// # Errors
/// [`StoreError::Backend`] if the directory cannot be read, or is none.
pub fn is_there(directory: &Path) -> Result<bool, StoreError> {
    match std::fs::symlink_metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found.map_err(|error| file_failed(directory, &error))?,
    };
    let other = |what| StoreError::Backend(format!("{}: {what}", directory.display()));
    let metadata = std::fs::metadata(directory).map_err(|error| match error.kind() {
        ErrorKind::NotFound => other("a symbolic link to a folder that does not exist"),
        _ => file_failed(directory, &error),
    })?;
    if !metadata.is_dir() {
        return Err(other("not a folder"));
    }
    Ok(!segment_numbers(directory)?.is_empty())
}

/// Opens a file of a store to read it. To open a pipe would wait for its writer.
pub(crate) fn open_file(path: &Path) -> Result<File, StoreError> {
    open_regular(path).map_err(|error| StoreError::Backend(error.to_string()))
}

/// The network of the store in a directory, on signet with its challenge.
///
/// # Errors
/// As [`LogStore::open`].
pub fn network(directory: &Path) -> Result<String, StoreError> {
    let Some(&number) = segment_numbers(directory)?.first() else {
        return Err(StoreError::Backend(format!("{}: no store", directory.display())));
    };
    let path = segment_path(directory, number);
    let file = open_file(&path)?;
    Ok(open_segment(&path, number, Box::new(file))?.1.network)
}

/// Removes a store, and its directory; a symbolic link to the directory in its place.
///
/// # Errors
/// [`StoreError::Backend`]; a part of the store may be gone then.
pub fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        disk.remove(&entry.map_err(failed)?.path()).map_err(failed)?;
    }
    disk.sync_directory(directory).map_err(failed)?;
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => disk.remove(directory),
        removed => removed,
    }
    .map_err(failed)?;
    disk.sync_name(directory).map_err(failed)
}

/// Removes files that never got their names: a checkpoint, or a segment, in whose midst a process
/// was killed.
fn remove_unfinished(disk: &dyn Disk, directory: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            // It may come back after a power cut, and is removed again then.
            disk.remove(&path).map_err(failed)?;
        }
    }
    Ok(())
}

/// A random number of this process.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Opens a segment and reads its first page.
fn open_segment(path: &Path, number: u32, file: Box<dyn DiskFile>) -> Result<(Segment, Identity), StoreError> {
    let segment = Segment {
        number,
        path: path.to_owned(),
        file,
    };
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    let head = segment.read_page(0, &mut page)?;
    if head.kind != Kind::Segment {
        return Err(page_damaged(path, 0, "is not the first of a segment"));
    }
    let identity = Identity::read(&page, path)?;
    Ok((segment, identity))
}

/// Opens all segments of a directory.
fn open_segments(directory: &Path, disk: Option<&dyn Disk>) -> Result<(Vec<Segment>, Identity), StoreError> {
    let (mut segments, mut identity) = (Vec::new(), None);
    for number in segment_numbers(directory)? {
        let path = segment_path(directory, number);
        let file: Box<dyn DiskFile> = match disk {
            Some(disk) => disk
                .open(&path, Open::Keep)
                .map_err(|error| file_failed(&path, &error))?,
            None => Box::new(open_file(&path)?),
        };
        let (segment, found) = open_segment(&path, number, file)?;
        if identity.get_or_insert_with(|| found.clone()) != &found {
            return Err(page_damaged(&path, 0, "is of another store"));
        }
        segments.push(segment);
    }
    match identity {
        Some(identity) => Ok((segments, identity)),
        None => Err(StoreError::Backend(format!("{}: no store", directory.display()))),
    }
}

fn check_network(identity: &Identity, network: Option<&str>) -> Result<(), StoreError> {
    match network {
        Some(wanted) if wanted != identity.network => Err(StoreError::Network {
            found: identity.network.clone(),
            wanted: wanted.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Opens something of a store that another process may write meanwhile.
pub(crate) fn find_to_read<T>(
    directory: &Path,
    network: Option<&str>,
    mut open: impl FnMut(Vec<Segment>, Identity) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut attempt = 1;
    loop {
        let opened = open_segments(directory, None).and_then(|(segments, identity)| {
            check_network(&identity, network)?;
            open(segments, identity)
        });
        match opened {
            // A writer may have written or removed a file while it was read.
            Err(StoreError::Corrupt(_) | StoreError::Backend(_)) if attempt < ATTEMPTS => attempt += 1,
            opened => return opened,
        }
    }
}

impl LogStore {
    /// Opens the store in a directory, or makes it. `network` names the network of the coins, on
    /// signet with its challenge. No other process may write it meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Format`] or [`StoreError::Network`] for a store of another kind,
    /// [`StoreError::Corrupt`] for a damaged store, else [`StoreError::Backend`].
    pub fn open(directory: &Path, network: &str, options: Options) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(SystemDisk), directory, network, options)
    }

    /// As [`LogStore::open`], on the caller's disk.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_on(disk: Arc<dyn Disk>, directory: &Path, network: &str, options: Options) -> Result<Self, StoreError> {
        if !is_there(directory)? {
            if network.len() > NETWORK_BYTES_MAX {
                return Err(StoreError::Backend(format!(
                    "{}: the name of the network is longer than {NETWORK_BYTES_MAX} bytes",
                    directory.display()
                )));
            }
            let identity = Identity {
                network: network.to_owned(),
                key: (random(), random()),
            };
            disk.create_directories(directory)
                .and_then(|()| disk.sync_name(directory))
                .map_err(|error| file_failed(directory, &error))?;
            Segment::create(&*disk, directory, 1, &identity, random())?;
        }
        let (segments, identity) = open_segments(directory, Some(&*disk))?;
        check_network(&identity, Some(network))?;
        remove_unfinished(&*disk, directory)?;
        let store = recover(Shared::new(directory, Some(disk), identity, options), segments)?;
        store.cut_off_tail()?;
        store.make_durable()?;
        Ok(store)
    }

    /// Opens the store in a directory to read it, also while another process writes it: it has the
    /// last commit at this moment. Nothing is changed, and commits are refused. Without a
    /// `network` every network is accepted.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_to_read(directory: &Path, network: Option<&str>, options: Options) -> Result<Self, StoreError> {
        find_to_read(directory, network, |segments, identity| {
            recover(Shared::new(directory, None, identity, options.clone()), segments)
        })
    }

    /// Reads all pages of all segments, whether they have something that lives or not. `stop` is
    /// asked now and then whether to end early.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for the first page that is not what was written.
    pub fn check_pages(&self, stop: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let pages_of = |slot| {
            self.shared
                .ledger()
                .segment(slot)
                .map_or(1, |segment| segment.masks().len())
        };
        let mut pages = vec![[0; PAGE_BYTES]; CALL_PAGES];
        for (slot, segment) in self.shared.segments.load().in_order() {
            let (mut number, end) = (0u32, pages_of(slot) as u32);
            while number < end && !stop() {
                let count = ((end - number) as usize).min(CALL_PAGES);
                segment.read_pages(number, &mut pages[..count])?;
                for (number, page) in (number..).zip(&pages[..count]) {
                    segment.check(number, page)?;
                }
                number += count as u32;
            }
        }
        Ok(())
    }

    /// Bytes after the last frame: of a commit that was never finished, or of one with a damaged
    /// page. A writer has none, since opening cuts them off.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    pub fn bytes_after_last_commit(&self) -> Result<u64, StoreError> {
        let tail = self.lock_writer().tail.position;
        let mut bytes = 0;
        for (_, segment) in self.shared.segments.load().in_order() {
            let end = match segment.number.cmp(&tail.segment) {
                Less => continue,
                Equal => u64::from(tail.page) * PAGE_BYTES as u64,
                Greater => 0,
            };
            let length = segment.file.length();
            let length = length.map_err(|error| file_failed(&segment.path, &error))?;
            bytes += length.saturating_sub(end);
        }
        Ok(bytes)
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts off what stands after the last frame.
    fn cut_off_tail(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let tail = self.lock_writer().tail;
        let Some(disk) = &shared.disk else {
            return Ok(());
        };
        if std::mem::take(&mut self.lock_writer().has_stale_checkpoint) {
            // It does not fit this log, and must not be taken for one that does.
            checkpoint::remove(&**disk, &shared.directory)?;
        }
        // From the last segment to the first: what is left has no gaps, if this is cut off.
        for (slot, segment) in shared.segments.load().in_order().into_iter().rev() {
            let failed = |error: io::Error| file_failed(&segment.path, &error);
            if segment.number > tail.position.segment {
                shared.segments.remove(slot);
                disk.remove(&segment.path).map_err(failed)?;
                disk.sync_name(&segment.path).map_err(failed)?;
            } else if segment.number == tail.position.segment {
                let length = u64::from(tail.position.page) * PAGE_BYTES as u64;
                if segment.file.length().map_err(failed)? > length {
                    segment.file.set_length(length).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Syncs what the opening found. The process before may have been killed in the middle of its
    /// syncs: then the last commit, new names and removals were not durable.
    fn make_durable(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let Some(disk) = &shared.disk else {
            return Ok(());
        };
        for (_, segment) in shared.segments.load().in_order() {
            let synced = segment.file.sync_data();
            synced.map_err(|error| file_failed(&segment.path, &error))?;
        }
        let synced = disk.sync_directory(&shared.directory);
        synced.map_err(|error| file_failed(&shared.directory, &error))
    }
}

/// The state at the last commit, without the index.
pub(crate) struct Known {
    pub(crate) table: Table,
    pub(crate) ledger: Ledger,
    pub(crate) replayed: Replayed,
    /// Where the next frame goes.
    pub(crate) tail: Position,
    /// The checksum of the last trailer.
    trailer: u32,
    /// Whether words of the checkpoint may be of records that are dead.
    has_dead_words: bool,
    /// The segment with the last frame of the checkpoint.
    label_segment: Option<u32>,
}

/// Changes that were read again, about: each new coin has taken the place of an old one.
fn changes_of(replayed: &Replayed) -> u64 {
    replayed.pages.len() as u64 * 2 * RECORDS_MAX as u64
}

/// The segments as a table would have them.
pub(crate) fn shared_segments(segments: Vec<Segment>) -> Result<Vec<Arc<Segment>>, StoreError> {
    if segments.len() > SEGMENTS_MAX {
        return Err(StoreError::Backend(format!("more than {SEGMENTS_MAX} segments")));
    }
    Ok(segments.into_iter().map(Arc::new).collect())
}

/// What the caller of [`know`] makes of a state and of the checkpoint that led to it. None if they
/// do not fit.
type Use<'a, T> = dyn FnMut(&Known, Option<Checkpoint>) -> Result<Option<T>, StoreError> + 'a;

/// Finds the state at the last commit, from the checkpoint if it leads there, else from the whole
/// log.
pub(crate) fn know<T>(
    directory: &Path,
    identity: &Identity,
    segments: Vec<Segment>,
    make: &mut Use<'_, T>,
) -> Result<(Known, T), StoreError> {
    let segments = shared_segments(segments)?;
    let mut gone = Vec::new();
    if let Some(checkpoint) = checkpoint::find(directory, identity)? {
        let found = after_checkpoint(checkpoint, &segments, &mut gone).and_then(|known| {
            let Some((known, checkpoint)) = known else {
                return Ok(None);
            };
            Ok(make(&known, Some(checkpoint))?.map(|made| (known, made)))
        });
        match found {
            // What the checkpoint leads to is damaged. The whole log has the last word.
            Ok(None) | Err(StoreError::Corrupt(_)) => {}
            Ok(Some(found)) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
    let known = whole_log(&segments).map_err(|error| with_gone(directory, &gone, error))?;
    match make(&known, None)? {
        Some(made) if known.ledger.live() == known.ledger.coins => Ok((known, made)),
        _ => {
            let lost = StoreError::Corrupt(format!(
                "{}: {} coins are live, and the last trailer has {}: coins were lost or doubled",
                directory.display(),
                known.ledger.live(),
                known.ledger.coins
            ));
            Err(with_gone(directory, &gone, lost))
        }
    }
}

/// Brings index and ledger to the last commit.
fn recover(mut shared: Shared, segments: Vec<Segment>) -> Result<LogStore, StoreError> {
    let (directory, identity) = (shared.directory.clone(), shared.identity.clone());
    let mut opening = Opening::WholeLog;
    let mut make = |known: &Known, checkpoint: Option<Checkpoint>| {
        opening = checkpoint.as_ref().map_or(Opening::WholeLog, |_| Opening::Checkpoint);
        shared.index = Index::default();
        Ok(fill_index(&shared, known, checkpoint)?.then_some(()))
    };
    let (known, ()) = know(&directory, &identity, segments, &mut make)?;
    let slot = known.table.slot_of(known.tail.segment);
    let writer = Writer {
        epoch: random(),
        tail: Tail {
            slot: slot.unwrap_or(0),
            position: known.tail,
        },
        trailer: known.trailer,
        failed: false,
        garbage: Garbage::default(),
        changes: changes_of(&known.replayed),
        checkpoint: None,
        label_segment: known.label_segment,
        has_stale_checkpoint: opening == Opening::WholeLog,
    };
    *shared.ledger_mut() = known.ledger;
    shared.segments.set(known.table.slots);
    Ok(LogStore {
        opening,
        shared: Arc::new(shared),
        writer: Mutex::new(writer),
    })
}

/// Fills an empty index. Returns whether it has what the last trailer says.
fn fill_index(shared: &Shared, known: &Known, checkpoint: Option<Checkpoint>) -> Result<bool, StoreError> {
    let Known {
        table,
        ledger,
        replayed,
        ..
    } = known;
    let is_whole_log = checkpoint.is_none();
    if let Some(checkpoint) = checkpoint {
        let wanted = |location| !known.has_dead_words || ledger.is_live(location);
        if checkpoint.fill(&shared.index, shared.options.threads, wanted).is_none() {
            return Ok(false);
        }
    }
    let digest = add_to_index(shared, table, ledger, &replayed.pages)?;
    let has_all = shared.index.len() == ledger.coins && ledger.live() == ledger.coins;
    Ok(has_all && (!is_whole_log || digest == ledger.digest))
}

/// Names the files that a checkpoint knew and that are gone.
fn with_gone(directory: &Path, gone: &[u32], error: StoreError) -> StoreError {
    match (gone.first(), error) {
        (Some(&number), StoreError::Corrupt(text)) => {
            let path = segment_path(directory, number);
            StoreError::Corrupt(format!("{}: the file is gone; {text}", path.display()))
        }
        (_, error) => error,
    }
}

/// Whether the last frame before a checkpoint's label is the one that the label names.
fn is_of_this_log(table: &Table, label: &Label) -> bool {
    let Some(segment) = table.slot_of(label.tail.segment).and_then(|slot| table.get(slot)) else {
        return false;
    };
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    let Some(number) = label.tail.page.checked_sub(1) else {
        return false;
    };
    segment.read_page(number, &mut page).is_ok_and(|head| {
        head.kind == Kind::Trailer && head.flush == label.flush && checksum_of(&page) == label.trailer
    })
}

/// The state to which a checkpoint leads. None if it does not fit the log. `gone` gets the segments
/// that it names and that are not there.
fn after_checkpoint(
    mut checkpoint: Checkpoint,
    segments: &[Arc<Segment>],
    gone: &mut Vec<u32>,
) -> Result<Option<(Known, Checkpoint)>, StoreError> {
    let label = checkpoint.label;
    let mut ledger = std::mem::take(&mut checkpoint.ledger);
    let numbers = std::mem::take(&mut checkpoint.slots);
    let mut slots: Vec<Option<Arc<Segment>>> = numbers
        .iter()
        .map(|&number| segments.iter().find(|segment| segment.number == number).cloned())
        .collect();
    for segment in segments.iter().filter(|segment| !numbers.contains(&segment.number)) {
        // Segments before the label that it does not name have nothing that lives.
        if segment.number > label.tail.segment {
            let free = (0..slots.len()).find(|&slot| numbers.get(slot) == Some(&0) && slots[slot].is_none());
            match free {
                Some(slot) => slots[slot] = Some(Arc::clone(segment)),
                None => slots.push(Some(Arc::clone(segment))),
            }
        }
    }
    let table = Table::of(slots);
    if table.slots.len() > SEGMENTS_MAX || !is_of_this_log(&table, &label) {
        return Ok(None);
    }
    // A segment that was collected since: what lived in it lives elsewhere, or not any more.
    for (slot, &number) in numbers.iter().enumerate() {
        if number > 0 && table.get(slot).is_none() {
            gone.push(number);
            ledger.segments[slot] = None;
        }
    }
    let replayed = replay(&table, &mut ledger, label.tail, Some((label.flush, label.trailer)))?;
    (ledger.tip, ledger.flush) = (Some(label.tip), label.flush);
    (ledger.coins, ledger.digest) = (label.coins, label.digest);
    set_last(&mut ledger, &replayed);
    let is_right = ledger.live() == ledger.coins;
    let known = Known {
        table,
        ledger,
        tail: replayed.tail.unwrap_or(label.tail),
        trailer: replayed.last.map_or(label.trailer, |last| last.checksum),
        has_dead_words: replayed.last.is_some() || !gone.is_empty(),
        replayed,
        label_segment: Some(label.tail.segment),
    };
    Ok(is_right.then_some((known, checkpoint)))
}

/// The state that the log alone leads to.
fn whole_log(segments: &[Arc<Segment>]) -> Result<Known, StoreError> {
    let table = Table::of(segments.iter().cloned().map(Some).collect());
    let start = Position {
        segment: segments.first().map_or(1, |segment| segment.number),
        page: 1,
    };
    let mut ledger = Ledger::default();
    let replayed = replay(&table, &mut ledger, start, None)?;
    set_last(&mut ledger, &replayed);
    Ok(Known {
        table,
        ledger,
        tail: replayed.tail.unwrap_or(start),
        trailer: replayed.last.map_or(0, |last| last.checksum),
        has_dead_words: false,
        replayed,
        label_segment: None,
    })
}

fn set_last(ledger: &mut Ledger, replayed: &Replayed) {
    if let Some(last) = &replayed.last {
        ledger.tip = Some(last.trailer.tip);
        ledger.flush = last.flush;
        ledger.coins = last.trailer.coins;
        ledger.digest = last.trailer.digest;
    }
}

/// Adds the live records of some pages to the index. Returns the sum of their hashes.
fn add_to_index(shared: &Shared, table: &Table, ledger: &Ledger, pages: &[(usize, u32)]) -> Result<u64, StoreError> {
    let digest = AtomicU64::new(0);
    let parts: Vec<&[(usize, u32)]> = pages.chunks(INDEX_PAGES).collect();
    for_each(parts.len(), shared.options.threads, |number| {
        let mut sum = 0u64;
        let mut reader = PageReader::new(table);
        for &(slot, number) in parts[number] {
            let mut mask = ledger
                .segment(slot)
                .map_or(0, |segment| segment.masks()[number as usize]);
            while mask != 0 {
                let location = Location::new(slot, number, mask.trailing_zeros());
                mask &= mask - 1;
                let hash = shared.key.hash(&reader.outpoint(location)?);
                let place = Place::of(hash);
                if shared.index.write(place.group)[place.lane].insert(place.tag, location) {
                    sum = sum.wrapping_add(hash);
                }
            }
        }
        digest.fetch_add(sum, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(digest.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::SegmentLedger;
    use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
    use blockmill_coins::{CoinStore, OwnedChange, Tip};
    use std::collections::BTreeMap;

    fn outpoint(number: u64) -> OutPoint {
        let mut txid = [0; 32];
        txid[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        OutPoint {
            txid: Txid(txid),
            vout: 0,
        }
    }

    /// A commit that replaces every coin whose number has a draw below `share` of 16.
    fn commit(store: &LogStore, round: u32, coins: u64, share: u64) {
        let mut changes: BTreeMap<OutPoint, Option<Coin>> = BTreeMap::new();
        for number in 0..coins {
            let draw = outpoint(number ^ u64::from(round) << 40).txid.0[7] % 16;
            if u64::from(draw) < share {
                let coin = Coin {
                    value: i64::from(round),
                    height: round,
                    is_coinbase: false,
                    script_pubkey: vec![7; number as usize % 40].into(),
                };
                changes.insert(outpoint(number), (!draw.is_multiple_of(8)).then_some(coin));
            }
        }
        let changes: Vec<OwnedChange> = changes.into_iter().collect();
        let hash = BlockHash([round as u8; 32]);
        store.commit(&changes, &Tip { hash, height: round }).unwrap();
    }

    /// Segments by their numbers, with what the ledger says of each.
    fn ledgers(store: &LogStore) -> BTreeMap<u32, SegmentLedger> {
        let (table, ledger) = (store.shared.segments.load(), store.shared.ledger());
        let of = |(slot, segment): &(usize, Arc<Segment>)| {
            let found = ledger.segment(*slot).cloned().unwrap_or_default();
            (segment.number, found)
        };
        table.in_order().iter().map(of).collect()
    }

    /// After each commit, whatever checkpoint is there then.
    #[test]
    fn a_checkpoint_leads_to_what_the_whole_log_says() {
        const COINS: u64 = 3000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coins");
        let options = Options {
            checkpoint_changes: 1500,
            checkpoint_step: 1,
            segment_pages_min: 12,
            garbage_bytes_min: 0,
            ..Options::default()
        };
        let mut store = LogStore::open(&path, "regtest", options.clone()).unwrap();
        commit(&store, 0, COINS, 16);
        let (mut from_checkpoint, mut during) = (0, 0);
        for round in 1..150 {
            commit(&store, round, COINS, 1 + u64::from(round) % 3);
            let wanted = ledgers(&store);
            let found = LogStore::open_to_read(&path, None, options.clone()).unwrap();
            from_checkpoint += u32::from(found.opening() == Opening::Checkpoint);
            let is_written = store.lock_writer().checkpoint.is_some();
            during += u32::from(is_written);
            let found = ledgers(&found);
            for (number, ledger) in &wanted {
                // A segment in which nothing lives may be gone from the checkpoint.
                let none = SegmentLedger::default();
                let other = found.get(number).unwrap_or(&none);
                assert!(other == ledger || ledger.live() == 0, "round {round}, segment {number}");
            }
            if round % 20 == 0 {
                match round % 40 {
                    // As by a kill.
                    0 => std::mem::forget(store),
                    _ => drop(store),
                }
                store = LogStore::open(&path, "regtest", options.clone()).unwrap();
                assert_eq!(store.opening(), Opening::Checkpoint, "round {round}");
                let has_all = store.lock_writer().changes == 0;
                assert!(has_all || round % 40 == 0, "a clean end left frames to be read");
            }
        }
        assert!(from_checkpoint > 100 && during > 50, "{from_checkpoint} {during}");
    }
}

//! Opening: from the state at the last commit to an index and a writer.

use super::checkpoint::Checkpoint;
use super::directory::{check_network, find_to_read, is_there, open_segments, remove_unfinished};
use super::recover::{Recovered, recover};
use super::replay::Replayed;
use crate::format::location::Location;
use crate::format::page::{PAGE_BYTES, RECORDS_MAX};
use crate::format::records::PageReader;
use crate::format::segment::{Identity, NETWORK_BYTES_MAX, Segment, SegmentTable, file_failed};
use crate::index::ledger::Ledger;
use crate::index::state::{LogOptions, LogState};
use crate::index::table::{Index, IndexKey};
use crate::write::checkpoint;
use crate::write::frame::LogTail;
use crate::write::garbage::Garbage;
use crate::write::writer::LogWriter;
use blockmill_blockfiles::disk::Disk;
use blockmill_coins::StoreError;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of coins whose records one call adds to the index.
const INDEX_PAGES: usize = 512;

/// What an opening began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A checkpoint, and the frames after it.
    Checkpoint,
    /// All frames: there was no checkpoint, or none that fits the log.
    WholeLog,
}

/// A store that was opened.
pub(crate) struct OpenedLog {
    pub(crate) opening: Opening,
    pub(crate) state: LogState,
    pub(crate) writer: LogWriter,
}

/// A random number of this process.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// As [`LogStore::open_on`](crate::LogStore::open_on).
pub(crate) fn open_to_write(
    disk: Arc<dyn Disk>,
    directory: &Path,
    network: &str,
    options: LogOptions,
) -> Result<OpenedLog, StoreError> {
    if !is_there(directory)? {
        create(&*disk, directory, network)?;
    }
    let (segments, identity) = open_segments(directory, Some(&*disk))?;
    check_network(&identity, Some(network))?;
    remove_unfinished(&*disk, directory)?;
    let state = LogState::new(directory, Some(Arc::clone(&disk)), identity, options);
    let opened = load(state, &segments)?;
    opened.cut_off_tail(&*disk)?;
    // After the cut, which is made durable, too.
    opened.make_durable(&*disk)?;
    Ok(opened)
}

/// As [`LogStore::open_to_read`](crate::LogStore::open_to_read).
pub(crate) fn open_to_read(
    directory: &Path,
    network: Option<&str>,
    options: &LogOptions,
) -> Result<OpenedLog, StoreError> {
    find_to_read(directory, network, |segments, identity| {
        load(LogState::new(directory, None, identity, options.clone()), &segments)
    })
}

/// Makes an empty store.
fn create(disk: &dyn Disk, directory: &Path, network: &str) -> Result<(), StoreError> {
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
    Segment::create(disk, directory, 1, &identity, random()).map(|_| ())
}

/// Brings index and ledger to the last commit.
fn load(mut state: LogState, segments: &[Arc<Segment>]) -> Result<OpenedLog, StoreError> {
    let (directory, identity) = (state.directory.clone(), state.identity.clone());
    let mut opening = Opening::WholeLog;
    let mut fill = |recovered: &Recovered, checkpoint: Option<Checkpoint>| {
        opening = checkpoint.as_ref().map_or(Opening::WholeLog, |_| Opening::Checkpoint);
        // A checkpoint that did not fit may have filled a part of it.
        state.index = Index::default();
        Ok(fill_index(&state, recovered, checkpoint)?.then_some(()))
    };
    let (recovered, ()) = recover(&directory, &identity, segments, &mut fill)?;
    let slot = recovered.table.slot_of(recovered.tail.segment);
    let writer = LogWriter {
        epoch: random(),
        tail: LogTail {
            slot: slot.unwrap_or(0),
            position: recovered.tail,
        },
        trailer: recovered.trailer,
        failed: false,
        garbage: Garbage::default(),
        changes: changes_of(&recovered.replayed),
        checkpoint: None,
        label_segment: recovered.label_segment,
    };
    *state.ledger_mut() = recovered.ledger;
    state.segments.set(recovered.table.slots);
    Ok(OpenedLog { opening, state, writer })
}

/// Changes that were read again, about: each new coin has replaced an old one.
fn changes_of(replayed: &Replayed) -> u64 {
    replayed.pages.len() as u64 * 2 * RECORDS_MAX as u64
}

/// Fills an empty index. Returns whether it has what the last trailer says.
fn fill_index(state: &LogState, recovered: &Recovered, checkpoint: Option<Checkpoint>) -> Result<bool, StoreError> {
    let Recovered {
        table,
        ledger,
        replayed,
        ..
    } = recovered;
    let is_whole_log = checkpoint.is_none();
    if let Some(checkpoint) = checkpoint {
        // Asking the ledger for each word takes time, and is seldom needed.
        let wanted = |location| !recovered.has_dead_words || ledger.is_live(location);
        if checkpoint.fill(&state.index, &state.options.helpers, wanted).is_none() {
            return Ok(false);
        }
    }
    let digest = add_to_index(state, table, ledger, &replayed.pages)?;
    let has_all = state.index.len() == ledger.coins && ledger.live() == ledger.coins;
    // After a checkpoint only the words of later frames are hashed.
    Ok(has_all && (!is_whole_log || digest == ledger.digest))
}

/// Adds the live records of some pages to the index. Returns the sum of their hashes.
fn add_to_index(
    state: &LogState,
    table: &SegmentTable,
    ledger: &Ledger,
    pages: &[(usize, u32)],
) -> Result<u64, StoreError> {
    let digest = AtomicU64::new(0);
    state.options.helpers.for_each(pages.chunks(INDEX_PAGES), |pages| {
        let mut sum = 0u64;
        let mut reader = PageReader::new(table);
        for &(slot, number) in pages {
            let segment = ledger.segment(slot);
            let mask = segment.map_or(0, |segment| segment.masks()[number as usize]);
            for location in Location::of_mask(slot, number, mask) {
                let hash = state.key.hash(&reader.outpoint(location)?);
                let key = IndexKey::of(hash);
                // The checkpoint may have words of later frames.
                if state.index.write(key.group)[key.shard].insert(key.tag, location) {
                    sum = sum.wrapping_add(hash);
                }
            }
        }
        // Relaxed: the sum is read when all threads are done.
        digest.fetch_add(sum, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(digest.into_inner())
}

impl OpenedLog {
    /// Cuts off what stands after the last frame.
    fn cut_off_tail(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let (state, tail) = (&self.state, self.writer.tail.position);
        if self.opening == Opening::WholeLog {
            // It does not fit this log, and must not be taken for one that does.
            checkpoint::remove(disk, &state.directory)?;
        }
        // From the last segment to the first: what is left has no gaps, if this is cut off.
        for (slot, segment) in state.segments.load().in_order().into_iter().rev() {
            let failed = |error: io::Error| file_failed(&segment.path, &error);
            if segment.number > tail.segment {
                state.segments.remove(slot);
                disk.remove(&segment.path).map_err(failed)?;
                disk.sync_name(&segment.path).map_err(failed)?;
            } else if segment.number == tail.segment {
                let length = u64::from(tail.page) * PAGE_BYTES as u64;
                if segment.file.length().map_err(failed)? > length {
                    segment.file.set_length(length).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Syncs what the opening found. The process before may have been killed in the middle of its
    /// syncs: then the last commit, new names and removals were not durable.
    fn make_durable(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        for (_, segment) in self.state.segments.load().in_order() {
            let synced = segment.file.sync_data();
            synced.map_err(|error| file_failed(&segment.path, &error))?;
        }
        let directory = &self.state.directory;
        let synced = disk.sync_directory(directory);
        synced.map_err(|error| file_failed(directory, &error))
    }
}

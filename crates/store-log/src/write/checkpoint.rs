//! A checkpoint: the index and the ledger in a file, so that an opening need not read the log.
//!
//! The file has a first page, and then one stream of bytes over its other pages:
//!
//! - words: of all shards, one shard after the other, each word in 8 bytes;
//! - directory: the number of words of each shard, in 4 bytes;
//! - slots: how many; for each the number of its segment (0: none), records written and their bytes
//!   (8 bytes each), pages (4 bytes), and of each page the mask (8 bytes) and the range (4 bytes).
//!
//! A checkpoint is written in steps, beside commits. Its label is the flush at which it began. It
//! may have some words and masks of later flushes: when the frames after the label are read, a word
//! that is there already is not added again, and a record that is dead already stays so. A slot
//! that becomes free meanwhile stays free until it is finished. It names segments that were removed
//! meanwhile, so that their words are known to be dead.
//!
//! The file is written beside the old one and renamed.

use crate::format::label::{Label, checkpoint_path, unfinished_path};
use crate::format::page::{BODY_BYTES, CALL_PAGES, HEAD_BYTES, PAGE_BYTES, Page, PageKind, PagePosition, begin, seal};
use crate::format::segment::file_failed;
use crate::index::ledger::{SegmentLedger, WrittenRecords};
use crate::index::state::LogState;
use crate::index::table::{GROUP_SHARDS, GROUPS};
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_coins::StoreError;
use std::cmp::Ordering;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Pages that a step leaves to the next without a sync, at most. Without this the last step would
/// wait for the whole file.
const SYNC_PAGES: usize = 4096;

/// Groups that a step writes at least: a checkpoint takes at most sixteen steps.
const STEP_GROUPS: usize = GROUPS / 16;

/// Removes the checkpoint, durably.
///
/// # Errors
/// [`StoreError::Backend`].
pub(crate) fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), StoreError> {
    let path = checkpoint_path(directory);
    let removed = match disk.remove(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => disk.sync_name(&path),
    };
    removed.map_err(|error| file_failed(&path, &error))
}

/// A checkpoint that is being written.
pub(crate) struct CheckpointWriter {
    label: Label,
    /// What was written to the label's segment by then.
    written: WrittenRecords,
    epoch: u64,
    file: Box<dyn DiskFile>,
    next_group: usize,
    /// Segments that were removed meanwhile: slot and number. Words of them may be written already.
    removed: Vec<(usize, u32)>,
    directory: Vec<u32>,
    words: u64,
    /// Bytes of the stream so far.
    bytes: u64,
    /// Pages that are not written yet. The last may be part full.
    waiting: Vec<Page>,
    /// Bytes in use on the last page.
    used: usize,
    /// The number of the first of them.
    first_page: u32,
    /// Pages that were written and not synced.
    unsynced: usize,
}

impl CheckpointWriter {
    pub(crate) fn begin(log: &LogState, disk: &dyn Disk, label: Label, epoch: u64) -> io::Result<Self> {
        let slot = log.segments.load().slot_of(label.tail.segment);
        let ledger = log.ledger();
        let written = slot.and_then(|slot| ledger.segment(slot)).map(SegmentLedger::written);
        Ok(Self {
            label,
            written: written.unwrap_or_default(),
            epoch,
            file: disk.open(&unfinished_path(&log.directory), Open::Empty)?,
            next_group: 0,
            removed: Vec::new(),
            directory: Vec::with_capacity(GROUPS * GROUP_SHARDS),
            words: 0,
            bytes: 0,
            waiting: Vec::new(),
            // As if the last page were full: the first byte begins a page.
            used: BODY_BYTES,
            first_page: 1,
            unsynced: 0,
        })
    }

    /// The segment with the last frame that the checkpoint has.
    pub(crate) fn label_segment(&self) -> u32 {
        self.label.tail.segment
    }

    /// A segment was removed in which nothing lives.
    pub(crate) fn note_removed(&mut self, slot: usize, number: u32) {
        self.removed.push((slot, number));
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.used == BODY_BYTES {
                self.write(CALL_PAGES)?;
                self.waiting.push([0; PAGE_BYTES]);
                self.used = 0;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BODY_BYTES - self.used));
            if let Some(page) = self.waiting.last_mut() {
                page[HEAD_BYTES + self.used..HEAD_BYTES + self.used + now.len()].copy_from_slice(now);
            }
            self.used += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Writes the waiting pages if there are at least this many.
    fn write(&mut self, pages_min: usize) -> io::Result<()> {
        if self.waiting.len() < pages_min {
            return Ok(());
        }
        for (number, page) in (self.first_page..).zip(&mut self.waiting) {
            begin(page, PageKind::CheckpointPart, 0, PAGE_BYTES);
            let position = PagePosition::new(0, number);
            seal(page, position, self.label.flush, self.epoch);
        }
        let offset = u64::from(self.first_page) * PAGE_BYTES as u64;
        self.file.write_all_at(self.waiting.as_flattened(), offset)?;
        self.first_page += self.waiting.len() as u32;
        self.unsynced += self.waiting.len();
        self.waiting.clear();
        Ok(())
    }

    /// Writes the next groups; all that are left if `finish`. Returns whether it is finished: the
    /// file has its name, durably.
    pub(crate) fn step(&mut self, log: &LogState, disk: &dyn Disk, finish: bool) -> io::Result<bool> {
        let (end, words_end) = (self.next_group + STEP_GROUPS, self.words + log.options.checkpoint_step);
        while self.next_group < GROUPS && (finish || self.next_group < end || self.words < words_end) {
            // Between two steps commits change groups: what is read here may be of a later flush.
            let group = log.index.read(self.next_group);
            for shard in group.iter() {
                self.directory.push(shard.len() as u32);
                self.words += shard.len() as u64;
                for word in shard.iter() {
                    self.put(&word.to_le_bytes())?;
                }
            }
            self.next_group += 1;
        }
        if self.next_group < GROUPS {
            if self.unsynced >= SYNC_PAGES {
                self.file.sync_data()?;
                self.unsynced = 0;
            }
            return Ok(false);
        }
        // The counts of all shards are known now.
        for count in std::mem::take(&mut self.directory) {
            self.put(&count.to_le_bytes())?;
        }
        self.put_slots(log)?;
        // The last page may be part full.
        self.write(1)?;
        let mut page = log.identity.write(PageKind::Checkpoint);
        let start = log.identity.end();
        let label = self.label.write(self.words, self.bytes);
        page[start..start + label.len()].copy_from_slice(&label);
        begin(&mut page, PageKind::Checkpoint, 0, start + label.len());
        seal(
            &mut page,
            PagePosition { segment: 0, page: 0 },
            self.label.flush,
            self.epoch,
        );
        // The first page comes last: it has the lengths. All is synced before the file has its
        // name.
        self.file.write_all_at(&page, 0)?;
        self.file.sync_data()?;
        let path = checkpoint_path(&log.directory);
        disk.rename(&unfinished_path(&log.directory), &path)?;
        disk.sync_name(&path)?;
        Ok(true)
    }

    /// Writes what there is of each segment before the label. The rest comes from the frames.
    fn put_slots(&mut self, log: &LogState) -> io::Result<()> {
        let table = log.segments.load();
        let tail = self.label.tail;
        self.put(&(table.slots.len() as u32).to_le_bytes())?;
        for (slot, segment) in table.slots.iter().enumerate() {
            let ledger = log.ledger().segment(slot).cloned().unwrap_or_default();
            // Words that were written before name it, and are known to be dead by its number.
            let removed = self.removed.iter().find(|removed| removed.0 == slot);
            let number = match segment {
                Some(segment) => segment.number,
                None => removed.map_or(0, |removed| removed.1),
            };
            let (written, pages) = match number.cmp(&tail.segment) {
                Ordering::Less => (ledger.written(), ledger.masks().len()),
                Ordering::Equal => (self.written, ledger.masks().len().min(tail.page as usize)),
                Ordering::Greater => (WrittenRecords::default(), 0),
            };
            self.put(&number.to_le_bytes())?;
            self.put(&written.records.to_le_bytes())?;
            self.put(&written.bytes.to_le_bytes())?;
            self.put(&(pages as u32).to_le_bytes())?;
            for (mask, range) in ledger.masks().iter().zip(ledger.ranges()).take(pages) {
                self.put(&mask.to_le_bytes())?;
                self.put(&range.first.to_le_bytes())?;
                self.put(&range.last.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

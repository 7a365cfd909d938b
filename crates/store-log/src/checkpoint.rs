//! A checkpoint: the index and the ledger in a file, so that an opening need not read the log.
//!
//! The file has a first page, and then one stream of bytes over its other pages:
//!
//! - words: of all lanes, one lane after the other, each word in 8 bytes;
//! - directory: the number of words of each lane, in 4 bytes;
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

use crate::index::{GROUPS, Index, LANES, Lane};
use crate::ledger::{Ledger, SegmentLedger, Written};
use crate::location::Location;
use crate::page::{
    BODY_BYTES, HEAD_BYTES, Head, Kind, PAGE_BYTES, Page, Position, Range, begin, seal, u16_at, u32_at, u64_at,
};
use crate::parallel::for_each;
use crate::segment::{Identity, UNFINISHED, file_failed};
use crate::store::Shared;
use blockmill_block::BlockHash;
use blockmill_block::reader::Reader;
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_blockfiles::{FileError, open_regular};
use blockmill_coins::{StoreError, Tip};
use std::cmp::Ordering;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Name of the file.
const NAME: &str = "checkpoint";

/// Pages that are read or written in one call.
const CALL_PAGES: usize = 256;

/// Pages that a step leaves to the next without a sync, at most. Without this the last step would
/// wait for the whole file.
const SYNC_PAGES: usize = 4096;

/// Groups that a step writes at least: a checkpoint takes at most sixteen steps.
const STEP_GROUPS: usize = GROUPS / 16;

/// The path of the checkpoint.
pub(crate) fn checkpoint_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

fn unfinished_path(directory: &Path) -> PathBuf {
    directory.join(NAME).with_extension(UNFINISHED)
}

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

/// The state that a checkpoint stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) flush: u64,
    /// Where the next frame begins.
    pub(crate) tail: Position,
    /// The checksum of the last trailer.
    pub(crate) trailer: u32,
    pub(crate) tip: Tip,
    pub(crate) coins: u64,
    pub(crate) digest: u64,
}

impl Label {
    fn write(&self, words: u64, bytes: u64) -> Vec<u8> {
        let mut into = Vec::new();
        for number in [self.flush, self.coins, self.digest, words, bytes] {
            into.extend(number.to_le_bytes());
        }
        for number in [self.tail.segment, self.tail.page, self.trailer, self.tip.height] {
            into.extend(number.to_le_bytes());
        }
        into.extend(self.tip.hash.0);
        into
    }

    /// The label, the number of words, and the length of the stream.
    fn read(bytes: &[u8]) -> Option<(Self, u64, u64)> {
        let mut reader = Reader::new(bytes);
        let mut long = || reader.array().ok().map(u64::from_le_bytes);
        let (flush, coins, digest, words, bytes) = (long()?, long()?, long()?, long()?, long()?);
        let mut short = || reader.u32().ok();
        let tail = Position {
            segment: short()?,
            page: short()?,
        };
        (tail.page <= crate::location::SEGMENT_PAGES_MAX).then_some(())?;
        let (trailer, height) = (short()?, short()?);
        let tip = Tip {
            hash: BlockHash(reader.array().ok()?),
            height,
        };
        let label = Self {
            flush,
            tail,
            trailer,
            tip,
            coins,
            digest,
        };
        Some((label, words, bytes))
    }
}

/// A checkpoint that is being written.
pub(crate) struct CheckpointWriter {
    label: Label,
    /// What was written to the label's segment by then.
    written: Written,
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
    pub(crate) fn begin(shared: &Shared, disk: &dyn Disk, label: Label, epoch: u64) -> io::Result<Self> {
        let slot = shared.segments.load().slot_of(label.tail.segment);
        let ledger = shared.ledger();
        let written = slot.and_then(|slot| ledger.segment(slot)).map(SegmentLedger::written);
        Ok(Self {
            label,
            written: written.unwrap_or_default(),
            epoch,
            file: disk.open(&unfinished_path(&shared.directory), Open::Empty)?,
            next_group: 0,
            removed: Vec::new(),
            directory: Vec::with_capacity(GROUPS * LANES),
            words: 0,
            bytes: 0,
            waiting: Vec::new(),
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
            begin(page, Kind::CheckpointPart, 0, PAGE_BYTES);
            let position = Position {
                segment: 0,
                page: number,
            };
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
    pub(crate) fn step(&mut self, shared: &Shared, disk: &dyn Disk, finish: bool) -> io::Result<bool> {
        let (end, words_end) = (
            self.next_group + STEP_GROUPS,
            self.words + shared.options.checkpoint_step,
        );
        while self.next_group < GROUPS && (finish || self.next_group < end || self.words < words_end) {
            let group = shared.index.read(self.next_group);
            for lane in group.iter() {
                self.directory.push(lane.len() as u32);
                self.words += lane.len() as u64;
                for word in lane.iter() {
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
        for count in std::mem::take(&mut self.directory) {
            self.put(&count.to_le_bytes())?;
        }
        self.put_slots(shared)?;
        self.write(1)?;
        let mut page = shared.identity.write(Kind::Checkpoint);
        let start = shared.identity.end();
        let label = self.label.write(self.words, self.bytes);
        page[start..start + label.len()].copy_from_slice(&label);
        begin(&mut page, Kind::Checkpoint, 0, start + label.len());
        seal(
            &mut page,
            Position { segment: 0, page: 0 },
            self.label.flush,
            self.epoch,
        );
        self.file.write_all_at(&page, 0)?;
        self.file.sync_data()?;
        let path = checkpoint_path(&shared.directory);
        disk.rename(&unfinished_path(&shared.directory), &path)?;
        disk.sync_name(&path)?;
        Ok(true)
    }

    /// Writes what there is of each segment before the label. The rest comes from the frames.
    fn put_slots(&mut self, shared: &Shared) -> io::Result<()> {
        let table = shared.segments.load();
        let tail = self.label.tail;
        self.put(&(table.slots.len() as u32).to_le_bytes())?;
        for (slot, segment) in table.slots.iter().enumerate() {
            let ledger = shared.ledger().segment(slot).cloned().unwrap_or_default();
            let removed = self.removed.iter().find(|removed| removed.0 == slot);
            let number = match segment {
                Some(segment) => segment.number,
                None => removed.map_or(0, |removed| removed.1),
            };
            let (written, pages) = match number.cmp(&tail.segment) {
                Ordering::Less => (ledger.written(), ledger.masks().len()),
                Ordering::Equal => (self.written, ledger.masks().len().min(tail.page as usize)),
                Ordering::Greater => (Written::default(), 0),
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

/// A checkpoint that is there, without its words.
pub(crate) struct Checkpoint {
    file: Box<dyn DiskFile>,
    flush: u64,
    epoch: u64,
    /// The length of the stream.
    end: u64,
    pub(crate) label: Label,
    /// Without tip, flush, coins and digest.
    pub(crate) ledger: Ledger,
    /// The number of each slot's segment; 0 for none.
    pub(crate) slots: Vec<u32>,
    /// Where the words of each lane begin in the stream, and where those of the last end.
    pub(crate) starts: Vec<u64>,
}

impl Checkpoint {
    fn stream(&self, offset: u64, end: u64) -> Stream<'_> {
        Stream {
            file: &*self.file,
            flush: self.flush,
            epoch: self.epoch,
            pages: Vec::new(),
            first_page: 1,
            offset,
            end,
        }
    }

    /// The words of a lane, sorted. None if they are not what was written.
    pub(crate) fn words(&self, group: usize, lane: usize) -> Option<Vec<u64>> {
        let number = group * LANES + lane;
        let (start, end) = (self.starts[number], self.starts[number + 1]);
        read_words(&mut self.stream(start, end), end - start)
    }

    /// Fills an empty index with the words whose locations are wanted. None if the file is not what
    /// was written.
    pub(crate) fn fill(&self, index: &Index, threads: usize, wanted: impl Fn(Location) -> bool + Sync) -> Option<()> {
        let filled = for_each::<()>(GROUPS, threads, |group| {
            let starts = &self.starts[group * LANES..=(group + 1) * LANES];
            let mut stream = self.stream(starts[0], starts[LANES]);
            for (number, lane) in index.write(group).iter_mut().enumerate() {
                let words = read_words(&mut stream, starts[number + 1] - starts[number]);
                let filled = words.and_then(|words| Lane::from_words(&words, &wanted));
                *lane = filled.ok_or(())?;
            }
            Ok(())
        });
        filled.ok()
    }
}

fn read_words(stream: &mut Stream<'_>, length: u64) -> Option<Vec<u64>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    stream.read(&mut bytes)?;
    Some(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
}

/// The stream of a checkpoint.
struct Stream<'a> {
    file: &'a dyn DiskFile,
    flush: u64,
    epoch: u64,
    pages: Vec<Page>,
    /// The number of the first of them.
    first_page: u32,
    offset: u64,
    end: u64,
}

impl Stream<'_> {
    /// Reads on into `bytes`. None if the file is damaged.
    fn read(&mut self, mut bytes: &mut [u8]) -> Option<()> {
        while !bytes.is_empty() {
            let number = 1 + (self.offset / BODY_BYTES as u64) as u32;
            let start = (self.offset % BODY_BYTES as u64) as usize;
            if number < self.first_page || number >= self.first_page + self.pages.len() as u32 {
                self.load(number)?;
            }
            let page = &self.pages[(number - self.first_page) as usize];
            let length = bytes.len().min(BODY_BYTES - start);
            let (now, later) = bytes.split_at_mut(length);
            now.copy_from_slice(&page[HEAD_BYTES + start..HEAD_BYTES + start + length]);
            self.offset += length as u64;
            bytes = later;
        }
        Some(())
    }

    fn load(&mut self, number: u32) -> Option<()> {
        let pages = 1 + self.end.div_ceil(BODY_BYTES as u64);
        let count = pages.checked_sub(u64::from(number))?.min(CALL_PAGES as u64) as usize;
        (count > 0).then_some(())?;
        self.pages.resize(count, [0; PAGE_BYTES]);
        self.first_page = number;
        let offset = u64::from(number) * PAGE_BYTES as u64;
        self.file.read_exact_at(self.pages.as_flattened_mut(), offset).ok()?;
        for (number, page) in (number..).zip(&self.pages) {
            let head = Head::of(page)?;
            let is_right = head.kind == Kind::CheckpointPart
                && head.position.page == number
                && (head.flush, head.epoch) == (self.flush, self.epoch);
            is_right.then_some(())?;
        }
        Some(())
    }

    fn u32(&mut self) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(&mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

/// Finds the checkpoint of a directory. None if there is none, or none that is whole: the log has
/// everything.
///
/// # Errors
/// [`StoreError::Backend`] if the file is there and cannot be opened.
pub(crate) fn find(directory: &Path, identity: &Identity) -> Result<Option<Checkpoint>, StoreError> {
    let path = checkpoint_path(directory);
    match open_regular(&path) {
        Err(FileError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Backend(error.to_string())),
        Ok(file) => Ok(read(Box::new(file), &path, identity)),
    }
}

/// Reads a checkpoint, except its words. None if the file is not what was written.
pub(crate) fn read(file: Box<dyn DiskFile>, path: &Path, identity: &Identity) -> Option<Checkpoint> {
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    file.read_exact_at(&mut *page, 0).ok()?;
    let head = Head::of(&page).filter(|head| head.kind == Kind::Checkpoint)?;
    (Identity::read(&page, path).ok()? == *identity).then_some(())?;
    let (label, word_count, end) = Label::read(page.get(identity.end()..head.used)?)?;
    // A length that the file does not have is found out before anything is made for it.
    (file.length().ok()? / PAGE_BYTES as u64 > end.div_ceil(BODY_BYTES as u64)).then_some(())?;
    (word_count.checked_mul(8)? <= end).then_some(())?;
    let mut checkpoint = Checkpoint {
        file,
        flush: head.flush,
        epoch: head.epoch,
        end,
        label,
        ledger: Ledger::default(),
        slots: Vec::new(),
        starts: Vec::with_capacity(GROUPS * LANES + 1),
    };
    let mut stream = checkpoint.stream(word_count * 8, end);
    let mut counts = vec![0; GROUPS * LANES * 4];
    stream.read(&mut counts)?;
    let (ledger, slots) = read_slots(&mut stream, &label)?;
    (stream.offset == checkpoint.end).then_some(())?;
    let mut start = 0;
    for lane in 0..GROUPS * LANES {
        checkpoint.starts.push(start);
        start += u64::from(u32_at(&counts, lane * 4)) * 8;
    }
    checkpoint.starts.push(start);
    (checkpoint.ledger, checkpoint.slots) = (ledger, slots);
    (start == word_count * 8).then_some(checkpoint)
}

fn read_slots(stream: &mut Stream<'_>, label: &Label) -> Option<(Ledger, Vec<u32>)> {
    let (mut ledger, mut slots) = (Ledger::default(), Vec::new());
    for slot in 0..stream.u32()? as usize {
        (slot < crate::location::SEGMENTS_MAX).then_some(())?;
        let number = stream.u32()?;
        let written = Written {
            records: stream.u64()?,
            bytes: stream.u64()?,
        };
        let pages = stream.u32()?;
        let is_possible = |figure: u64, each: u64| figure <= u64::from(pages) * each;
        (is_possible(written.records, 64) && is_possible(written.bytes, 1 << 13)).then_some(())?;
        slots.push(number);
        if number == 0 {
            (pages == 0).then_some(())?;
            continue;
        }
        // Later pages come from their frames.
        let position = Position {
            segment: number,
            page: pages,
        };
        (pages <= crate::location::SEGMENT_PAGES_MAX && (pages == 0 || position <= label.tail)).then_some(())?;
        let segment: &mut SegmentLedger = ledger.segment_mut(slot);
        for _ in 0..pages {
            let mut bytes = [0; 12];
            stream.read(&mut bytes)?;
            let range = Range {
                first: u16_at(&bytes, 8),
                last: u16_at(&bytes, 10),
            };
            segment.push(u64_at(&bytes, 0), range, 0);
        }
        segment.set_written(written);
    }
    Some((ledger, slots))
}

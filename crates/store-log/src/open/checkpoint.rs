//! Reading a checkpoint. Its format is at `write::checkpoint`.

use crate::format::label::{Label, checkpoint_path};
use crate::format::location::{Location, SEGMENT_PAGES_MAX, SEGMENTS_MAX};
use crate::format::page::{
    BODY_BYTES, CALL_PAGES, HEAD_BYTES, KeyRange, PAGE_BYTES, Page, PageHead, PageKind, PagePosition, RECORDS_MAX,
    u16_at, u32_at, u64_at,
};
use crate::format::segment::Identity;
use crate::index::ledger::{Ledger, WrittenRecords};
use crate::index::table::{GROUP_SHARDS, GROUPS, Index, IndexShard};
use blockmill_blockfiles::disk::DiskFile;
use blockmill_blockfiles::{FileError, open_regular};
use blockmill_coins::StoreError;
use blockmill_pool::Helpers;
use std::io::ErrorKind;
use std::path::Path;

/// A checkpoint that is there, without its words.
pub struct Checkpoint {
    file: Box<dyn DiskFile>,
    flush: u64,
    epoch: u64,
    /// The length of the stream.
    end: u64,
    pub label: Label,
    /// Without tip, flush, coins and digest.
    pub ledger: Ledger,
    /// The number of each slot's segment; 0 for none.
    pub slots: Vec<u32>,
    /// Where the words of each shard begin in the stream, and where those of the last end.
    pub starts: Vec<u64>,
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

    /// The words of a shard, sorted. None if they are not what was written.
    pub fn words(&self, group: usize, shard: usize) -> Option<Vec<u64>> {
        let number = group * GROUP_SHARDS + shard;
        let (start, end) = (self.starts[number], self.starts[number + 1]);
        read_words(&mut self.stream(start, end), end - start)
    }

    /// Fills an empty index with the words whose locations are wanted. None if the file is not what
    /// was written.
    pub fn fill(&self, index: &Index, helpers: &Helpers, wanted: impl Fn(Location) -> bool + Sync) -> Option<()> {
        let filled = helpers.for_each(0..GROUPS, |group| {
            let starts = &self.starts[group * GROUP_SHARDS..=(group + 1) * GROUP_SHARDS];
            // The words of a group are read in one go.
            let mut stream = self.stream(starts[0], starts[GROUP_SHARDS]);
            for (number, shard) in index.write(group).iter_mut().enumerate() {
                let words = read_words(&mut stream, starts[number + 1] - starts[number]);
                let filled = words.and_then(|words| IndexShard::from_words(&words, &wanted));
                *shard = filled.ok_or(())?;
            }
            Ok::<(), ()>(())
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
            // The first page of the file is no part of the stream.
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
        // Reads of one page each would cost more than the pages that are not needed.
        self.pages.resize(count, [0; PAGE_BYTES]);
        self.first_page = number;
        let offset = u64::from(number) * PAGE_BYTES as u64;
        self.file.read_exact_at(self.pages.as_flattened_mut(), offset).ok()?;
        for (number, page) in (number..).zip(&self.pages) {
            let head = PageHead::of(page)?;
            let is_right = head.kind == PageKind::CheckpointPart
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
pub fn find(directory: &Path, identity: &Identity) -> Result<Option<Checkpoint>, StoreError> {
    let path = checkpoint_path(directory);
    match open_regular(&path) {
        Err(FileError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Backend(error.to_string())),
        Ok(file) => Ok(read(Box::new(file), &path, identity)),
    }
}

/// Reads a checkpoint, except its words. None if the file is not what was written.
pub fn read(file: Box<dyn DiskFile>, path: &Path, identity: &Identity) -> Option<Checkpoint> {
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    file.read_exact_at(&mut *page, 0).ok()?;
    let head = PageHead::of(&page).filter(|head| head.kind == PageKind::Checkpoint)?;
    // A copy of another store may lie here.
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
        starts: Vec::with_capacity(GROUPS * GROUP_SHARDS + 1),
    };
    let mut stream = checkpoint.stream(word_count * 8, end);
    let mut counts = vec![0; GROUPS * GROUP_SHARDS * 4];
    stream.read(&mut counts)?;
    let (ledger, slots) = read_slots(&mut stream, &label)?;
    // Bytes that nobody reads would say that the format is another.
    (stream.offset == checkpoint.end).then_some(())?;
    let mut start = 0;
    for shard in 0..GROUPS * GROUP_SHARDS {
        checkpoint.starts.push(start);
        start += u64::from(u32_at(&counts, shard * 4)) * 8;
    }
    checkpoint.starts.push(start);
    (checkpoint.ledger, checkpoint.slots) = (ledger, slots);
    (start == word_count * 8).then_some(checkpoint)
}

fn read_slots(stream: &mut Stream<'_>, label: &Label) -> Option<(Ledger, Vec<u32>)> {
    let (mut ledger, mut slots) = (Ledger::default(), Vec::new());
    for slot in 0..stream.u32()? as usize {
        (slot < SEGMENTS_MAX).then_some(())?;
        let number = stream.u32()?;
        let written = WrittenRecords {
            records: stream.u64()?,
            bytes: stream.u64()?,
        };
        let pages = stream.u32()?;
        // A wrong count would make a segment look full of life, and it would never be collected.
        let is_possible = |figure: u64, each: u64| figure <= u64::from(pages) * each;
        (is_possible(written.records, RECORDS_MAX as u64) && is_possible(written.bytes, 1 << 13)).then_some(())?;
        slots.push(number);
        if number == 0 {
            (pages == 0).then_some(())?;
            continue;
        }
        // Later pages come from their frames.
        let position = PagePosition::new(number, pages);
        (pages <= SEGMENT_PAGES_MAX && (pages == 0 || position <= label.tail)).then_some(())?;
        let segment = ledger.segment_mut(slot);
        for _ in 0..pages {
            let mut bytes = [0; 12];
            stream.read(&mut bytes)?;
            let range = KeyRange {
                first: u16_at(&bytes, 8),
                last: u16_at(&bytes, 10),
            };
            segment.push(u64_at(&bytes, 0), range, 0);
        }
        // Pages were pushed without their bytes.
        segment.set_written(written);
    }
    Some((ledger, slots))
}

//! Segments: the files of the log, and which of them there are.

use super::location::SEGMENTS_MAX;
use super::page::{
    HEAD_BYTES, PAGE_BYTES, Page, PageHead, PageKind, PagePosition, begin, seal, u16_at, u32_at, u64_at,
};
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_coinmap::HashKey;
use blockmill_coins::StoreError;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Version of the format of all files.
pub const FORMAT: u32 = 1;

/// The first bytes of each file, after the head of its first page.
const MAGIC: [u8; 16] = *b"blockmill coins\n";

/// Extension of a file until it gets its name.
pub const UNFINISHED: &str = "new";

/// Bytes of the longest name of a network. After it the page has room for a checkpoint's label.
pub const NETWORK_BYTES_MAX: usize = PAGE_BYTES / 2;

const NETWORK_AT: usize = HEAD_BYTES + MAGIC.len() + 4 + 16 + 2;

/// The error of the system for a file. A file that ends early is damaged.
pub fn file_failed(path: &Path, error: &io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::UnexpectedEof => StoreError::Corrupt(text),
        _ => StoreError::Backend(text),
    }
}

/// What is wrong with a page of a file.
pub fn page_damaged(path: &Path, page: u32, what: &str) -> StoreError {
    let offset = u64::from(page) * PAGE_BYTES as u64;
    StoreError::Corrupt(format!("{}: the page at offset {offset} {what}", path.display()))
}

/// What all files of a store have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The network that the coins belong to; at most [`NETWORK_BYTES_MAX`] bytes.
    pub network: String,
    /// The key of the hashes, drawn when the store was made.
    pub key: (u64, u64),
}

impl Identity {
    /// Begins the first page of a file.
    pub fn write(&self, kind: PageKind) -> Page {
        let mut page = [0; PAGE_BYTES];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.key.0.to_le_bytes());
        bytes.extend(self.key.1.to_le_bytes());
        bytes.extend((self.network.len() as u16).to_le_bytes());
        bytes.extend(self.network.as_bytes());
        page[HEAD_BYTES..HEAD_BYTES + bytes.len()].copy_from_slice(&bytes);
        begin(&mut page, kind, 0, HEAD_BYTES + bytes.len());
        page
    }

    /// Reads the first page of a file. Its checksum is right.
    ///
    /// # Errors
    /// [`StoreError::Format`] if another version wrote it, else [`StoreError::Corrupt`].
    pub fn read(page: &Page, path: &Path) -> Result<Self, StoreError> {
        let after_magic = HEAD_BYTES + MAGIC.len();
        if page[HEAD_BYTES..after_magic] != MAGIC {
            return Err(page_damaged(path, 0, "is not one of a coin log"));
        }
        let format = u32_at(page, after_magic);
        // The magic is right, so the rest is ours, of whatever version.
        if format != FORMAT {
            return Err(StoreError::Format {
                found: format.to_string(),
                wanted: FORMAT,
            });
        }
        let length = usize::from(u16_at(page, NETWORK_AT - 2));
        let network = (length <= NETWORK_BYTES_MAX).then(|| page[NETWORK_AT..NETWORK_AT + length].to_vec());
        let network = network.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Self {
            network: network.ok_or_else(|| page_damaged(path, 0, "names no network"))?,
            key: (u64_at(page, after_magic + 4), u64_at(page, after_magic + 12)),
        })
    }

    /// The key of the hashes.
    pub fn hash_key(&self) -> HashKey {
        HashKey::known(self.key.0, self.key.1)
    }

    /// The key, which tells stores apart.
    pub fn store(&self) -> [u8; 16] {
        let mut store = [0; 16];
        store[..8].copy_from_slice(&self.key.0.to_le_bytes());
        store[8..].copy_from_slice(&self.key.1.to_le_bytes());
        store
    }

    /// Where a first page has room for what the kind of its file adds.
    pub fn end(&self) -> usize {
        NETWORK_AT + self.network.len()
    }
}

/// The path of a segment.
pub fn segment_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("segment-{number:08}"))
}

/// The number of a segment, from the name of its file.
pub fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("segment-")?;
    let number: u32 = digits.parse().ok()?;
    // A number has one name only: without a sign, and with no zeros too many.
    (format!("{number:08}") == digits && number > 0).then_some(number)
}

/// An open file of the log.
pub struct Segment {
    pub number: u32,
    pub path: PathBuf,
    pub file: Box<dyn DiskFile>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Segment").field(&self.number).finish()
    }
}

impl Segment {
    /// Creates a file with its first page. Its name is durable when this returns.
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        number: u32,
        identity: &Identity,
        epoch: u64,
    ) -> Result<Self, StoreError> {
        let path = segment_path(directory, number);
        let unfinished = path.with_extension(UNFINISHED);
        let mut page = identity.write(PageKind::Segment);
        seal(&mut page, PagePosition::new(number, 0), 0, epoch);
        let create = || {
            let file = disk.open(&unfinished, Open::Empty)?;
            file.write_all_at(&page, 0)?;
            file.sync_data()?;
            // A segment has its name only when its first page is durable.
            disk.rename(&unfinished, &path)?;
            disk.sync_name(&path)?;
            Ok(file)
        };
        let file = create().map_err(|error: io::Error| file_failed(&path, &error))?;
        Ok(Self { number, path, file })
    }

    /// Reads a page and checks it.
    ///
    /// # Errors
    /// [`StoreError::Backend`], or [`StoreError::Corrupt`] if the page is not what was written.
    pub fn read_page(&self, number: u32, page: &mut Page) -> Result<PageHead, StoreError> {
        let offset = u64::from(number) * PAGE_BYTES as u64;
        self.file
            .read_exact_at(page, offset)
            .map_err(|error| file_failed(&self.path, &error))?;
        self.check(number, page)
    }

    /// The head of a page that was read.
    pub fn check(&self, number: u32, page: &Page) -> Result<PageHead, StoreError> {
        let head = PageHead::of(page).ok_or_else(|| page_damaged(&self.path, number, "is not what was written"))?;
        let wanted = PagePosition::new(self.number, number);
        if head.position != wanted {
            return Err(page_damaged(&self.path, number, "belongs elsewhere"));
        }
        Ok(head)
    }

    /// Number of whole pages.
    pub fn pages(&self) -> Result<u32, StoreError> {
        let length = self.file.length().map_err(|error| file_failed(&self.path, &error))?;
        Ok(u32::try_from(length / PAGE_BYTES as u64).unwrap_or(u32::MAX))
    }

    /// Reads pages from one on, without checking them.
    pub fn read_pages(&self, first: u32, pages: &mut [Page]) -> Result<(), StoreError> {
        let offset = u64::from(first) * PAGE_BYTES as u64;
        self.file
            .read_exact_at(pages.as_flattened_mut(), offset)
            .map_err(|error| file_failed(&self.path, &error))
    }
}

/// The segments that there are, by their slots.
#[derive(Debug, Clone, Default)]
pub struct SegmentTable {
    pub version: u64,
    pub slots: Vec<Option<Arc<Segment>>>,
    /// Slots that became free while a checkpoint is written. They stay free until it is finished.
    /// None if no checkpoint is being written.
    kept_slots: Option<Vec<usize>>,
}

impl SegmentTable {
    /// These segments, by their slots.
    pub fn of(slots: Vec<Option<Arc<Segment>>>) -> Self {
        Self {
            slots,
            ..Self::default()
        }
    }

    pub fn get(&self, slot: usize) -> Option<&Arc<Segment>> {
        self.slots.get(slot)?.as_ref()
    }

    /// The slot of the segment of a number.
    pub fn slot_of(&self, number: u32) -> Option<usize> {
        self.slots
            .iter()
            .position(|segment| segment.as_ref().is_some_and(|segment| segment.number == number))
    }

    /// Slots and segments, in the order of their numbers.
    pub fn in_order(&self) -> Vec<(usize, Arc<Segment>)> {
        let slots = self.slots.iter().enumerate();
        let mut found: Vec<(usize, Arc<Segment>)> = slots
            .filter_map(|(slot, segment)| Some((slot, Arc::clone(segment.as_ref()?))))
            .collect();
        found.sort_by_key(|(_, segment)| segment.number);
        found
    }
}

/// The table as it is now. Readers hold the table they began with, and the files in it.
#[derive(Debug, Default)]
pub struct Segments {
    current: RwLock<Arc<SegmentTable>>,
    version: AtomicU64,
}

impl Segments {
    pub fn load(&self) -> Arc<SegmentTable> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this table is still the current one.
    pub fn is_current(&self, table: &SegmentTable) -> bool {
        // Acquire: pairs with the Release in `change`. A reader that has seen a location of a new
        // segment has also seen the version, since the index has a lock.
        self.version.load(Ordering::Acquire) == table.version
    }

    fn change<R>(&self, change: impl FnOnce(&mut SegmentTable) -> R) -> R {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut table = SegmentTable::clone(&current);
        table.version += 1;
        let result = change(&mut table);
        // Release: pairs with the Acquire in `is_current`.
        self.version.store(table.version, Ordering::Release);
        // Readers that have the old table go on with its files.
        *current = Arc::new(table);
        result
    }

    /// Adds a segment in the first free slot, or after all others.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if there are too many.
    pub fn add(&self, segment: Segment) -> Result<usize, StoreError> {
        self.change(|table| {
            let kept = table.kept_slots.as_deref().unwrap_or_default();
            let mut slots = table.slots.iter().enumerate();
            let free = slots.find(|(slot, segment)| segment.is_none() && !kept.contains(slot));
            let slot = free.map_or(table.slots.len(), |(slot, _)| slot);
            if slot >= SEGMENTS_MAX {
                return Err(StoreError::Backend(format!("more than {SEGMENTS_MAX} segments")));
            }
            // The slot may be the next one after all.
            table.slots.resize(table.slots.len().max(slot + 1), None);
            table.slots[slot] = Some(Arc::new(segment));
            Ok(slot)
        })
    }

    /// Says whether slots that become free stay free from now on: a checkpoint that is being
    /// written may have locations in them. It has none in a slot that was free before it began.
    pub fn keep_slots(&self, keeps: bool) {
        self.change(|table| table.kept_slots = keeps.then(Vec::new));
    }

    /// Sets all segments at once.
    pub fn set(&self, slots: Vec<Option<Arc<Segment>>>) {
        self.change(|table| table.slots = slots);
    }

    /// Takes a segment out. No location in the index may name it.
    pub fn remove(&self, slot: usize) {
        self.change(|table| {
            table.slots[slot] = None;
            if let Some(kept) = &mut table.kept_slots {
                kept.push(slot);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn names_of_segments() {
        assert_eq!(segment_number("segment-00000012"), Some(12));
        for name in [
            "segment-12",
            "segment-00000000",
            "segment-0000001x",
            "segment-00000012.new",
            "x",
        ] {
            assert_eq!(segment_number(name), None, "{name}");
        }
        let path = segment_path(Path::new("d"), 123_456_789);
        assert_eq!(path, Path::new("d/segment-123456789"));
        assert_eq!(segment_number("segment-123456789"), Some(123_456_789));
    }

    /// Checkpoints are written most of the time, and segments come and go.
    #[test]
    fn slots_are_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let (segments, mut slots) = (Segments::default(), VecDeque::new());
        let mut kept: Vec<usize> = Vec::new();
        for number in 25..20_000 {
            // A checkpoint takes 20 segments of every 25.
            match number % 25 {
                0 => segments.keep_slots(true),
                20 => {
                    segments.keep_slots(false);
                    kept.clear();
                }
                _ => {}
            }
            let file = Box::new(std::fs::File::create(&path).unwrap());
            let segment = Segment {
                number,
                path: path.clone(),
                file,
            };
            let slot = segments.add(segment).unwrap();
            assert!(
                !kept.contains(&slot),
                "a slot was used again while a checkpoint was written"
            );
            slots.push_back(slot);
            if slots.len() > 16 {
                let removed = slots.pop_front().unwrap();
                segments.remove(removed);
                if number % 25 < 20 {
                    kept.push(removed);
                }
            }
        }
        assert!(segments.load().slots.len() <= 16 + 2 * 20);
    }

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let path = Path::new("x");
        let identity_of = |network: String| Identity {
            network,
            key: (3, u64::MAX),
        };
        let longest = identity_of("n".repeat(NETWORK_BYTES_MAX));
        let mut page = longest.write(PageKind::Segment);
        assert_eq!(Identity::read(&page, path).unwrap(), longest);
        page[NETWORK_AT - 2] += 1;
        assert!(matches!(Identity::read(&page, path), Err(StoreError::Corrupt(_))));

        let identity = identity_of("signet 51".to_owned());
        let mut page = identity.write(PageKind::Segment);
        assert_eq!(Identity::read(&page, path).unwrap(), identity);
        page[HEAD_BYTES + 16] = 2;
        assert!(matches!(Identity::read(&page, path), Err(StoreError::Format { .. })));
        page[HEAD_BYTES] = 0;
        assert!(matches!(Identity::read(&page, path), Err(StoreError::Corrupt(_))));
    }
}

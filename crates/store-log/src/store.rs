//! The store: what all its threads share, and reading.

use crate::checkpoint::checkpoint_path;
use crate::index::{Index, LINES_OF_SEARCH, Place, TOGETHER};
use crate::ledger::Ledger;
use crate::location::Location;
use crate::page::{Head, Kind, PAGE_BYTES, Page, long_length, long_pages, long_part, read_record, record};
use crate::scan::{CoinsInOrder, LogParts, PART_RECORDS};
use crate::segment::{Identity, Segments, Table, page_damaged};
use crate::writer::Writer;
use blockmill_block::reader::DecodeError;
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::disk::Disk;
use blockmill_coinmap::HashKey;
use blockmill_coins::store::{CoinParts, decode_coin};
use blockmill_coins::{Changes, CoinIterator, CoinStore, LastCommit, StoreError, Tip};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How a store works. The files do not depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Threads that prepare a commit, and read the log when it is opened.
    pub threads: usize,
    /// The fewest pages of 4 KiB in a segment. Segments are a sixteenth of the set, but not smaller
    /// than this, and not larger than 65,536 pages.
    pub segment_pages_min: u32,
    /// A checkpoint is written after this many changes, or after as many as a quarter of the set
    /// has coins, whichever is more.
    pub checkpoint_changes: u64,
    /// The fewest coins whose places a commit writes to a checkpoint, until all are written. It is
    /// a sixteenth of the set otherwise.
    pub checkpoint_step: u64,
    /// Bytes of garbage that are never worth collecting.
    pub garbage_bytes_min: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            segment_pages_min: 4096,
            checkpoint_changes: 16_000_000,
            checkpoint_step: 200_000,
            garbage_bytes_min: 16 << 20,
        }
    }
}

/// What readers and the writer share.
pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    /// None for a store that is only read.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) identity: Identity,
    pub(crate) key: HashKey,
    pub(crate) options: Options,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    ledger: RwLock<Ledger>,
}

impl Shared {
    pub(crate) fn new(directory: &Path, disk: Option<Arc<dyn Disk>>, identity: Identity, options: Options) -> Self {
        Self {
            directory: directory.to_owned(),
            disk,
            key: HashKey::known(identity.key.0, identity.key.1),
            identity,
            options,
            index: Index::default(),
            segments: Segments::default(),
            ledger: RwLock::default(),
        }
    }

    pub(crate) fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ledger_mut(&self) -> RwLockWriteGuard<'_, Ledger> {
        self.ledger.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coins of some outpoints, in the same order.
    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        let places: Vec<Place> = outpoints
            .iter()
            .map(|outpoint| Place::of(self.key.hash(outpoint)))
            .collect();
        let mut candidates: Vec<(Location, u32)> = Vec::with_capacity(outpoints.len());
        let table = loop {
            // The table before the index: see `Segments`.
            let table = self.segments.load();
            candidates.clear();
            // The searches of a few outpoints overlap.
            for (numbers, together) in (0u32..).step_by(TOGETHER).zip(places.chunks(TOGETHER)) {
                for place in together {
                    self.index.read(place.group)[place.lane].prefetch(place.tag, LINES_OF_SEARCH);
                }
                for (number, place) in (numbers..).zip(together) {
                    let group = self.index.read(place.group);
                    let found = group[place.lane].candidates(place.tag);
                    candidates.extend(found.map(|location| (location, number)));
                }
            }
            if self.segments.is_current(&table) {
                break table;
            }
        };
        // In the order of the disk: records of one page need one read.
        candidates.sort_unstable();
        let first = coins.len();
        coins.resize(first + outpoints.len(), None);
        let mut reader = PageReader::new(&table);
        for (location, number) in candidates {
            let outpoint = &outpoints[number as usize];
            if let Some(coin) = reader.coin(location, outpoint)? {
                coins[first + number as usize] = Some(coin);
            }
        }
        Ok(())
    }
}

/// Reads records of a table. The last page stays.
pub(crate) struct PageReader<'a> {
    table: &'a Table,
    page: Box<Page>,
    /// Slot, number and head of the page.
    current: Option<(usize, u32, Head)>,
    /// A long record.
    joined: Vec<u8>,
}

impl<'a> PageReader<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
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
    fn head(&mut self, location: Location) -> Result<Head, StoreError> {
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
    pub(crate) fn record(&mut self, location: Location) -> Result<&[u8], StoreError> {
        let head = self.head(location)?;
        if head.kind == Kind::Long {
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

    fn long_record(&mut self, location: Location, first: &Head) -> Result<&[u8], StoreError> {
        let (Some(length), Some(segment)) = (long_length(&self.page, first), self.table.get(location.slot())) else {
            return Err(self.damaged(location, "has no such record"));
        };
        self.joined.clear();
        self.joined.extend_from_slice(long_part(&self.page, first));
        // The page is overwritten now.
        self.current = None;
        for number in 1..long_pages(length) as u32 {
            let head = segment.read_page(location.page() + number, &mut self.page)?;
            if head.kind != Kind::LongRest || head.flush != first.flush {
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
    pub(crate) fn coin(&mut self, location: Location, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let bytes = self.record(location)?;
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
    pub(crate) fn outpoint(&mut self, location: Location) -> Result<OutPoint, StoreError> {
        let read = read_record(self.record(location)?).map(|(outpoint, _)| outpoint);
        read.map_err(|error| self.not_a_record(location, error))
    }

    /// The outpoint of a record that was read from a location.
    pub(crate) fn outpoint_of(&self, record: &[u8], location: Location) -> Result<OutPoint, StoreError> {
        let read = read_record(record).map(|(outpoint, _)| outpoint);
        read.map_err(|error| self.not_a_record(location, error))
    }

    fn not_a_record(&self, location: Location, error: DecodeError) -> StoreError {
        self.damaged(location, &format!("has a record that is none: {error}"))
    }

    /// The location among some that has the record of an outpoint.
    pub(crate) fn find(
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

/// What an opening began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A checkpoint, and the frames after it.
    Checkpoint,
    /// All frames: there was no checkpoint, or none that fits the log.
    WholeLog,
}

/// Coins in a log. See the [crate].
pub struct LogStore {
    pub(crate) opening: Opening,
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: Mutex<Writer>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LogStore")
            .field("directory", &self.shared.directory)
            .finish_non_exhaustive()
    }
}

impl LogStore {
    /// The network of the store, on signet with its challenge.
    pub fn network(&self) -> &str {
        &self.shared.identity.network
    }

    /// Number of coins at the last commit.
    pub fn len(&self) -> u64 {
        self.shared.ledger().coins
    }

    /// What the opening began with.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// The coins in parts of about so many.
    #[doc(hidden)]
    pub fn coins_in_parts_of(&self, coins: u64) -> impl CoinParts + use<> {
        LogParts::new(&self.shared, coins)
    }

    /// Whether there are no coins.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl CoinStore for LogStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let mut coins = Vec::with_capacity(1);
        self.shared.get_many(std::slice::from_ref(outpoint), &mut coins)?;
        Ok(coins.pop().flatten())
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        self.shared.get_many(outpoints, coins)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        Ok(self.shared.ledger().tip)
    }

    /// The key of the hashes: each file of the log begins with it.
    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(Some(self.shared.identity.store()))
    }

    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = self.shared.ledger();
        Ok(Some(ledger.last_commit(&self.shared.identity, writer.tail.position)))
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.commit(&self.shared, changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        Ok(Box::new(CoinsInOrder::new(&self.shared)))
    }

    fn coins_in_parts(&self) -> Result<Option<Box<dyn CoinParts>>, StoreError> {
        Ok(Some(Box::new(self.coins_in_parts_of(PART_RECORDS))))
    }

    /// The index, a word for each coin, and the ledger, which says what lives on each page.
    fn memory(&self) -> usize {
        self.shared.index.bytes() + self.shared.ledger().bytes()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        let checkpoint = std::fs::metadata(checkpoint_path(&self.shared.directory));
        Ok(self.shared.ledger().disk_bytes() + checkpoint.map_or(0, |metadata| metadata.len()))
    }
}

//! The store: the doors of the crate.

use crate::format::label::checkpoint_path;
use crate::format::page::{CALL_PAGES, PAGE_BYTES};
use crate::format::segment::file_failed;
use crate::index::state::{LogOptions, LogState};
use crate::open::load::{OpenedLog, Opening, open_to_read, open_to_write};
use crate::read::get::get_many;
use crate::read::scan::{CoinsInOrder, LogParts, PART_RECORDS};
use crate::write::writer::LogWriter;
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::disk::{Disk, SystemDisk};
use blockmill_coins::store::CoinParts;
use blockmill_coins::{Changes, CoinIterator, CoinStore, LastCommit, StoreError, Tip};
use std::cmp::Ordering::{Equal, Greater, Less};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Coins in a log. See the [crate].
pub struct LogStore {
    opening: Opening,
    state: LogState,
    writer: Mutex<LogWriter>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LogStore")
            .field("directory", &self.state.directory)
            .finish_non_exhaustive()
    }
}

impl From<OpenedLog> for LogStore {
    fn from(opened: OpenedLog) -> Self {
        Self {
            opening: opened.opening,
            state: opened.state,
            writer: Mutex::new(opened.writer),
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
    pub fn open(directory: &Path, network: &str, options: LogOptions) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(SystemDisk), directory, network, options)
    }

    /// As [`LogStore::open`], on the caller's disk.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        network: &str,
        options: LogOptions,
    ) -> Result<Self, StoreError> {
        open_to_write(disk, directory, network, options).map(Self::from)
    }

    /// Opens the store in a directory to read it, also while another process writes it: it has the
    /// last commit at this moment. Nothing is changed, and commits are refused. Without a
    /// `network` every network is accepted.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_to_read(directory: &Path, network: Option<&str>, options: LogOptions) -> Result<Self, StoreError> {
        open_to_read(directory, network, &options).map(Self::from)
    }

    /// The network of the store, on signet with its challenge.
    pub fn network(&self) -> &str {
        &self.state.identity.network
    }

    /// Number of coins at the last commit.
    pub fn len(&self) -> u64 {
        self.state.ledger().coins
    }

    /// What the opening began with.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// The coins in parts of about so many.
    #[doc(hidden)]
    pub fn coins_in_parts_of(&self, coins: u64) -> impl CoinParts + use<> {
        LogParts::new(&self.state, coins)
    }

    /// Whether there are no coins.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads all pages of all segments, whether they have something that lives or not. `stop` is
    /// asked now and then whether to end early.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for the first page that is not what was written.
    pub fn check_pages(&self, stop: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let pages_of = |slot| {
            self.state
                .ledger()
                .segment(slot)
                // A segment without records has its first page.
                .map_or(1, |segment| segment.masks().len())
        };
        let mut pages = vec![[0; PAGE_BYTES]; CALL_PAGES];
        for (slot, segment) in self.state.segments.load().in_order() {
            // Pages after the last frame are no part of the store.
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
        for (_, segment) in self.state.segments.load().in_order() {
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

    fn lock_writer(&self) -> MutexGuard<'_, LogWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CoinStore for LogStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let mut coins = Vec::with_capacity(1);
        get_many(&self.state, std::slice::from_ref(outpoint), &mut coins)?;
        Ok(coins.pop().flatten())
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        get_many(&self.state, outpoints, coins)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        Ok(self.state.ledger().tip)
    }

    /// The key of the hashes: each file of the log begins with it.
    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(Some(self.state.identity.store()))
    }

    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        let writer = self.lock_writer();
        // Under the lock of the writer, so that the tail is of the same commit.
        let ledger = self.state.ledger();
        Ok(Some(ledger.last_commit(&self.state.identity, writer.tail.position)))
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        writer.commit(&self.state, changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        Ok(Box::new(CoinsInOrder::new(&self.state)))
    }

    fn coins_in_parts(&self) -> Result<Option<Box<dyn CoinParts>>, StoreError> {
        Ok(Some(Box::new(self.coins_in_parts_of(PART_RECORDS))))
    }

    /// The index, a word for each coin, and the ledger, which says what lives on each page.
    fn memory(&self) -> usize {
        self.state.index.bytes() + self.state.ledger().bytes()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        let checkpoint = std::fs::metadata(checkpoint_path(&self.state.directory));
        Ok(self.state.ledger().disk_bytes() + checkpoint.map_or(0, |metadata| metadata.len()))
    }
}

impl Drop for LogStore {
    /// Finishes the checkpoint under way, or writes one if enough has changed since the last, so
    /// that the next opening is fast. If the checkpoint has everything, files in which nothing
    /// lives are removed. After a failed commit, or in a panic, the files stay as they are.
    fn drop(&mut self) {
        let state = &self.state;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !writer.failed && !std::thread::panicking() {
            writer.checkpoint(state, true);
            if writer.changes == 0 {
                // The checkpoint has the last frame.
                writer.remove_emptied(state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::SEGMENT_PAGES_MAX;
    use crate::format::page::PagePosition;
    use crate::format::segment::Segment;
    use crate::index::ledger::SegmentLedger;
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
        let (table, ledger) = (store.state.segments.load(), store.state.ledger());
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
        let options = LogOptions {
            checkpoint_changes: 1500,
            checkpoint_step: 1,
            segment_pages_min: 12,
            garbage_bytes_min: 0,
            ..LogOptions::default()
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

    /// Files may name any numbers, and the last ones have no next.
    #[test]
    fn the_last_numbers_are_refused() {
        let change_nothing = |store: &LogStore| {
            let changes: &[OwnedChange] = &[];
            let tip = Tip {
                hash: BlockHash([1; 32]),
                height: 1,
            };
            store.commit(&changes, &tip)
        };
        let open = |name: &str| {
            let directory = tempfile::tempdir().unwrap();
            let store = LogStore::open(&directory.path().join(name), "regtest", LogOptions::default()).unwrap();
            change_nothing(&store).unwrap();
            (directory, store)
        };
        let (_directory, store) = open("flush");
        store.state.ledger_mut().flush = u64::MAX;
        assert!(matches!(change_nothing(&store), Err(StoreError::Corrupt(_))));

        let (_directory, store) = open("segment");
        store.writer.lock().unwrap().tail.position = PagePosition {
            segment: u32::MAX,
            page: SEGMENT_PAGES_MAX,
        };
        assert!(matches!(change_nothing(&store), Err(StoreError::Backend(_))));
    }
}

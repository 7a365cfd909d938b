//! All coins in the order of their keys.
//!
//! The keys are cut into parts that fit into memory. For each part a thread reads the pages that
//! have keys in it, and sorts their live records; meanwhile the caller takes the part before. Pages
//! of one flush are sorted, so each of them is read for one part or two. At the end the sum of the
//! hashes is compared with the digest: a coin that was lost, doubled, or has risen is found.
//!
//! Callers with several threads take the parts themselves, in any order.
//!
//! Coins may be long, and many keys may begin with the same bytes. A part that does not fit into
//! memory for these reasons is read in pieces (`pieces`).

use super::pieces::Pieces;
use super::view::{SortedRecords, View};
use crate::index::state::LogState;
use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::HashKey;
use blockmill_coins::StoreError;
use blockmill_coins::store::{CoinParts, KEY_LENGTH, OutpointKey, PartCoins};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Records of a part, about: 15 MiB of coins.
pub(crate) const PART_RECORDS: u64 = 1 << 17;

/// Gives the live records of a part to `each`, sorted: all at once, or in pieces. Ends when it
/// returns false.
fn for_each_piece(view: &View, part: usize, each: &mut dyn FnMut(SortedRecords) -> bool) -> Result<bool, StoreError> {
    if let Some(whole) = view.read(part)? {
        return Ok(each(whole));
    }
    for piece in Pieces::new(view, part) {
        if !each(piece?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all coins were read: none is `left`, and nothing of the sum of their hashes.
fn check_complete(left: u64, digest: u64) -> Result<(), StoreError> {
    if left == 0 && digest == 0 {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "the coins are not those that were written: {} too few, sum of hashes off by {digest:x}",
        // Coins that are too many show as a negative number.
        left.cast_signed()
    )))
}

/// All coins of a commit in parts. Later commits do not show.
pub(crate) struct LogParts {
    key: HashKey,
    view: View,
    /// Coins that were not read yet.
    left: AtomicU64,
    /// The sum of their hashes.
    digest: AtomicU64,
}

impl LogParts {
    pub(crate) fn new(log: &LogState, part_records: u64) -> Self {
        // The ledger is locked, so no segment goes before the table is there.
        let ledger = log.ledger();
        Self {
            key: log.key,
            view: View::new(log.segments.load(), &ledger, part_records),
            left: AtomicU64::new(ledger.coins),
            digest: AtomicU64::new(ledger.digest),
        }
    }

    fn decode(&self, part: &SortedRecords) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
        let mut coins: Vec<(OutPoint, Coin)> = Vec::with_capacity(part.len());
        let mut digest = 0u64;
        for number in 0..part.len() {
            let coin = part.coin(number, coins.last().map(|(outpoint, _)| outpoint))?;
            digest = digest.wrapping_add(self.key.hash(&coin.0));
            coins.push(coin);
        }
        // Sums of what threads have read, which is handed on by other means.
        self.left.fetch_sub(coins.len() as u64, Ordering::Relaxed);
        self.digest.fetch_sub(digest, Ordering::Relaxed);
        Ok(coins)
    }
}

impl CoinParts for LogParts {
    fn parts(&self) -> usize {
        self.view.ends.len()
    }

    fn end(&self, part: usize) -> Option<OutpointKey> {
        let prefix = u16::try_from(self.view.ends[part]).ok()?;
        let mut key = [0; KEY_LENGTH];
        key[..2].copy_from_slice(&prefix.to_be_bytes());
        Some(key)
    }

    fn read_bounded(&self, part: usize) -> Result<PartCoins<'_>, StoreError> {
        Ok(match self.view.read(part)? {
            Some(whole) => PartCoins::Whole(self.decode(&whole)?),
            None => PartCoins::Pieces(Box::new(
                Pieces::new(&self.view, part).map(|piece| self.decode(&piece?)),
            )),
        })
    }

    fn check_complete(&self) -> Result<(), StoreError> {
        check_complete(self.left.load(Ordering::Relaxed), self.digest.load(Ordering::Relaxed))
    }
}

/// All coins of a commit, in order. Later commits do not show.
pub(crate) struct CoinsInOrder {
    key: HashKey,
    parts: Receiver<Result<SortedRecords, StoreError>>,
    part: SortedRecords,
    next: usize,
    previous: Option<OutPoint>,
    left: u64,
    digest: u64,
    ended: bool,
}

impl CoinsInOrder {
    pub(crate) fn new(log: &LogState) -> Self {
        // The ledger is locked, so no segment goes before the table is there.
        let ledger = log.ledger();
        let view = View::new(log.segments.load(), &ledger, PART_RECORDS);
        let (coins, digest) = (ledger.coins, ledger.digest);
        drop(ledger);
        // One part is read while the caller takes the one before.
        let (sender, parts) = sync_channel(1);
        let read = move || {
            let mut send = |part| sender.send(Ok(part)).is_ok();
            for part in 0..view.ends.len() {
                match for_each_piece(&view, part, &mut send) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        // Nobody listens any more, or the error ends the iterator.
                        let _ = sender.send(Err(error));
                        return;
                    }
                }
            }
        };
        // Without a thread there are no parts, and the first call of `next` says so.
        let _ = std::thread::Builder::new().name("scan".to_owned()).spawn(read);
        Self {
            key: log.key,
            parts,
            part: SortedRecords::default(),
            next: 0,
            previous: None,
            left: coins,
            digest,
            ended: false,
        }
    }

    /// The last record was taken.
    fn end(&mut self) -> Option<Result<(OutPoint, Coin), StoreError>> {
        self.ended = true;
        check_complete(self.left, self.digest).err().map(Err)
    }

    fn take(&mut self) -> Result<(OutPoint, Coin), StoreError> {
        let (outpoint, coin) = self.part.coin(self.next, self.previous.as_ref())?;
        self.next += 1;
        self.previous = Some(outpoint);
        self.digest = self.digest.wrapping_sub(self.key.hash(&outpoint));
        self.left = self.left.wrapping_sub(1);
        Ok((outpoint, coin))
    }
}

impl Iterator for CoinsInOrder {
    type Item = Result<(OutPoint, Coin), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        while self.next == self.part.len() {
            match self.parts.recv() {
                Ok(Ok(part)) => (self.part, self.next) = (part, 0),
                Ok(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Err(_) => return self.end(),
            }
        }
        let taken = self.take();
        self.ended = taken.is_err();
        Some(taken)
    }
}

//! The coins cache beside a model of its content. The fuzzer's bytes name the steps.

use crate::gated_store::{Ending, GatedStore};
use crate::input::Input;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
use blockmill_coinmap::CoinMap;
use blockmill_coins::{CoinRef, CoinStore, CoinsCache, FlushEpoch, HashedOutPoint, Overwrite, Tip};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most steps of one input.
const STEPS_MAX: usize = 160;

/// Most flushes of one input: each starts a thread and makes a new map.
const FLUSHES_MAX: usize = 4;

/// Most comparisons of all coins before the end.
const CHECKS_MAX: usize = 2;

/// Most coins that were read and may be inserted.
const READS_MAX: usize = 32;

/// Limits of the cache in bytes. After a flush none, a few, some or all coins stay.
const LIMITS: [usize; 5] = [0, limit_for(200), limit_for(700), limit_for(2000), 64 << 20];

/// The limit of a cache in which coins of `bytes` bytes stay after a flush. A quarter of the limit
/// is for them and the empty map.
pub const fn limit_for(bytes: usize) -> usize {
    4 * (CoinMap::EMPTY_BYTES + bytes)
}

const TIP: Tip = Tip {
    hash: BlockHash([3; 32]),
    height: 3,
};

type Coins = BTreeMap<OutPoint, Coin>;

/// A coin that was read from the store, and the flush epoch before the read.
type Read = (OutPoint, Coin, FlushEpoch);

struct Flushes {
    store: Arc<GatedStore>,
    cache: CoinsCache,
    model: Coins,
    /// How the flush under way will end, and the coins at its flush point.
    frozen: Option<(Ending, Coins)>,
    flushes: usize,
    checks: usize,
    /// What the store should hold.
    stored: Coins,
    /// Older and newer coins since the last flush began, to be undone from the last.
    undo: Vec<(OutPoint, Option<Coin>)>,
    reads: Vec<Read>,
    /// Outpoints that were absent from the store, with the flush epoch before the read.
    absent: BTreeMap<OutPoint, FlushEpoch>,
}

/// Runs the steps that the bytes name.
///
/// # Panics
/// If cache and model differ.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    let mut flushes = Flushes::new(LIMITS[usize::from(flags & 7) % LIMITS.len()]);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        flushes.step(&mut input);
    }
    flushes.check();
    flushes.finish();
    flushes.check();
    if flags & 8 != 0 {
        flushes.flush_in_foreground(Ending::Well);
        flushes.check();
    }
    // Leftovers of earlier flushes must not come back.
    flushes.spend_all();
}

/// One of 48 outpoints, of twelve transactions.
fn outpoint(input: &mut Input<'_>) -> OutPoint {
    let number = input.u8() % 48;
    OutPoint {
        txid: Txid([number / 4; 32]),
        vout: u32::from(number % 4),
    }
}

/// Any coin that fits its contract: heights are below 2^31.
fn coin(input: &mut Input<'_>) -> Coin {
    let form = input.u8();
    let value = match form & 3 {
        0..=2 => input.u8().into(),
        _ => input.i64(),
    };
    let height = match form & 4 {
        0 => input.u8().into(),
        _ => input.u32() >> 1,
    };
    Coin {
        value,
        height,
        is_coinbase: form & 8 != 0,
        script_pubkey: script(form >> 4, input.u8()).into(),
    }
}

/// A script, standard or not, filled with `byte`.
fn script(form: u8, byte: u8) -> Vec<u8> {
    let around = |before: &[u8], length: usize, after: &[u8]| [before, &vec![byte; length], after].concat();
    match form {
        0 => around(&[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
        1 => around(&[0xa9, 20], 20, &[0x87]),
        2 => around(&[0, 20], 20, &[]),
        3 => around(&[0, 32], 32, &[]),
        4 => around(&[0x51, 32], 32, &[]),
        5 => around(&[33], 33, &[0xac]),
        6 => around(&[65], 65, &[0xac]),
        7 => around(&[0x51], 1500 + usize::from(byte), &[]),
        8 => around(&[0x6a], 3, &[]),
        9 => around(&[0x51], 10_000, &[]),
        10 => around(&[0x51], 9_999, &[]),
        _ => around(&[0x51], usize::from(byte), &[]),
    }
}

fn ending(input: &mut Input<'_>) -> Ending {
    match input.u8() % 4 {
        0 => Ending::Failing,
        1 => Ending::Lying,
        _ => Ending::Well,
    }
}

impl Flushes {
    fn new(limit: usize) -> Self {
        let store = Arc::new(GatedStore::default());
        Self {
            cache: CoinsCache::new(Arc::<GatedStore>::clone(&store), limit),
            store,
            model: Coins::new(),
            frozen: None,
            flushes: 0,
            checks: 0,
            stored: Coins::new(),
            undo: Vec::new(),
            reads: Vec::new(),
            absent: BTreeMap::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 24 {
            0..=4 => self.add(input),
            5..=9 => self.spend(&outpoint(input)),
            10 | 11 => {
                let outpoint = outpoint(input);
                let found = self.cache.get(&outpoint).expect("the store can be read");
                assert_eq!(found.as_ref(), self.model.get(&outpoint));
            }
            12 => {
                let outpoint = outpoint(input);
                let absent_at = self.absent.get(&outpoint).copied();
                let found = self.cache.contains(&outpoint, absent_at);
                assert_eq!(
                    found.expect("the store can be read"),
                    self.model.contains_key(&outpoint)
                );
            }
            13 | 14 => self.read(outpoint(input)),
            15 | 16 => {
                // The coin stays in `reads`, and may be inserted again.
                if let Some((outpoint, coin, read_epoch)) = self.reads.get(usize::from(input.u8()) % READS_MAX) {
                    let at = self.cache.hash_key().hashed(outpoint);
                    self.cache.insert_if_fresh_read(&at, coin, *read_epoch);
                }
            }
            17 => self.begin_flush(ending(input)),
            18 => self.store.open(),
            19 => {
                // The flush runs up to its last step, in which entries have been promoted.
                self.store.open();
                while self.cache.is_flushing() && !self.cache.is_flush_done() {
                    std::thread::yield_now();
                }
            }
            20 => self.finish(),
            21 => self.flush_in_foreground(ending(input)),
            22 => self.roll_back(),
            _ => self.look(outpoint(input)),
        }
    }

    fn add(&mut self, input: &mut Input<'_>) {
        let (outpoint, coin) = (outpoint(input), coin(input));
        // Without `overwrite` the caller promises that no coin is there.
        let overwrite = if self.model.contains_key(&outpoint) || coin.value % 4 == 0 {
            Overwrite::Possible
        } else {
            Overwrite::Impossible
        };
        self.cache.add(&outpoint, CoinRef::from(&coin), overwrite);
        if !is_unspendable(&coin.script_pubkey) {
            let old = self.model.insert(outpoint, coin);
            self.undo.push((outpoint, old));
        }
    }

    fn spend(&mut self, outpoint: &OutPoint) {
        let coin = self.cache.spend(outpoint).expect("the store can be read");
        assert_eq!(coin, self.model.remove(outpoint));
        if coin.is_some() {
            self.undo.push((*outpoint, coin));
        }
    }

    /// Reads from the store as the fetcher does: the flush epoch first.
    fn read(&mut self, outpoint: OutPoint) {
        let read_epoch = self.cache.flush_epoch();
        match self.store.get(&outpoint).expect("the store can be read") {
            Some(coin) if self.reads.len() < READS_MAX => self.reads.push((outpoint, coin, read_epoch)),
            Some(_) => {}
            None => drop(self.absent.insert(outpoint, read_epoch)),
        }
    }

    /// Begins a flush that waits at the gate, unless a flush is under way.
    fn begin_flush(&mut self, ending: Ending) {
        if self.frozen.is_none() {
            if self.flushes == FLUSHES_MAX {
                return;
            }
            self.flushes += 1;
            self.store.close(ending);
            self.frozen = Some((ending, self.model.clone()));
            self.undo.clear();
        }
        self.cache
            .begin_flush(&TIP, || Ok(()))
            .expect("a thread can be started");
        assert!(self.cache.is_flushing());
    }

    /// Lets the flush end, and compares the store with the model.
    fn finish(&mut self) {
        self.store.open();
        let finished = self.cache.finish_flush();
        if let Some((ending, coins)) = self.frozen.take() {
            assert_eq!(finished.is_ok(), ending == Ending::Well);
            self.check_store(ending, coins);
        } else {
            assert!(finished.is_ok());
        }
        assert!(!self.cache.is_flushing());
    }

    fn check_store(&mut self, ending: Ending, coins: Coins) {
        if ending != Ending::Failing {
            self.stored = coins;
        }
        let found: Coins = self.store.coins().expect("a list").map(Result::unwrap).collect();
        assert_eq!(found, self.stored);
    }

    /// Flushes in the foreground: coins stay where they are if there is room.
    fn flush_in_foreground(&mut self, ending: Ending) {
        self.finish();
        self.store.open_for(ending);
        self.undo.clear();
        let flushed = self.cache.flush(&TIP, || Ok(()));
        self.store.open_for(Ending::Well);
        assert_eq!(flushed.is_ok(), ending == Ending::Well);
        self.check_store(ending, self.model.clone());
    }

    /// Undoes all changes since the last flush began.
    fn roll_back(&mut self) {
        for (outpoint, old) in std::mem::take(&mut self.undo).into_iter().rev() {
            match old {
                Some(coin) => {
                    self.cache.add(&outpoint, CoinRef::from(&coin), Overwrite::Possible);
                    self.model.insert(outpoint, coin);
                }
                None => {
                    let spent = self.cache.spend(&outpoint).expect("the store can be read");
                    assert_eq!(spent, self.model.remove(&outpoint));
                }
            }
        }
    }

    /// Calls the cache's other queries.
    fn look(&mut self, outpoint: OutPoint) {
        let all = self.model.keys().copied().chain([outpoint]);
        let mut unknown: Vec<HashedOutPoint> = all.map(|outpoint| self.cache.hash_key().hashed(&outpoint)).collect();
        let all = unknown.len();
        self.cache.view().retain_unknown(&mut unknown);
        assert!(unknown.len() <= all);
        if !self.cache.may_miss() {
            let known = |at: &HashedOutPoint| self.model.contains_key(at.outpoint());
            assert!(!unknown.iter().any(known), "a known coin is reported as unknown");
        }
        // Every entry that leaves takes its bytes off the sum.
        assert!(self.cache.bytes() < 1 << 30 && self.cache.len() < 1 << 20 && self.cache.dirty_len() < 1 << 20);
        let _ = (self.cache.wants_flush(), self.cache.is_full());
        if self.checks < CHECKS_MAX {
            self.checks += 1;
            self.check();
        }
    }

    /// Checks that cache and store together have the coins of the model.
    fn check(&self) {
        let mut found = self.cache.coins().expect("a list").map(Result::unwrap);
        let mut expected = self.model.iter();
        loop {
            match (found.next(), expected.next()) {
                (None, None) => break,
                (Some((outpoint, coin)), Some(pair)) => assert_eq!((&outpoint, &coin), pair),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }

    /// Spends all coins one by one, and checks that none is left.
    fn spend_all(&mut self) {
        for outpoint in self.model.keys().copied().collect::<Vec<_>>() {
            self.spend(&outpoint);
        }
        self.flush_in_foreground(Ending::Well);
        assert_eq!(self.cache.len(), 0);
        self.check();
    }
}

//! The cache against a model, over a store whose commits wait for the test, fail, or report a false
//! failure.

use super::*;
use crate::MemoryStore;
use crate::store::{Before, Changes, OwnedChange};
use blockmill_block::{BlockHash, Txid};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

mod shards;
mod world;

const TIP: Tip = Tip {
    hash: BlockHash([3; 32]),
    height: 3,
};

const LIMIT: usize = 8 << 20;

fn outpoint(number: u8) -> OutPoint {
    OutPoint {
        txid: Txid([number / 4; 32]),
        vout: u32::from(number % 4),
    }
}

fn coin(value: i64) -> Coin {
    Coin {
        value,
        height: value as u32 % 50,
        is_coinbase: false,
        script_pubkey: vec![0x51; value as usize % 40].into(),
    }
}

/// The end of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Well,
    /// Nothing is written.
    Failing,
    /// All is written, and the store reports a failure.
    Lying,
    /// Nothing is written, and the store panics.
    Panicking,
}

#[derive(Debug)]
struct Gate {
    open: bool,
    ending: Ending,
}

/// A store whose commits wait at a gate.
#[derive(Debug)]
struct GatedStore {
    inner: MemoryStore,
    gate: Mutex<Gate>,
    changed: Condvar,
    /// Reads so far, and how many succeed.
    reads: AtomicU64,
    good_reads: AtomicU64,
}

impl GatedStore {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            gate: Mutex::new(Gate {
                open: true,
                ending: Ending::Well,
            }),
            changed: Condvar::new(),
            reads: AtomicU64::new(0),
            good_reads: AtomicU64::new(u64::MAX),
        })
    }

    fn set(&self, open: bool, ending: Ending) {
        *self.gate.lock().unwrap() = Gate { open, ending };
        self.changed.notify_all();
    }
}

impl CoinStore for GatedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        if self.reads.fetch_add(1, Ordering::Relaxed) >= self.good_reads.load(Ordering::Relaxed) {
            return Err(StoreError::Backend("a fault of the test".to_owned()));
        }
        self.inner.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.inner.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut list: Vec<OwnedChange> = Vec::new();
        let mut is_known = true;
        changes.visit_all(&mut |change| {
            let stored = self.inner.get(&change.outpoint).unwrap();
            is_known &= match change.before {
                Before::Coin => stored.is_some(),
                Before::Nothing => stored.is_none(),
                Before::Unknown => true,
            };
            list.push((change.outpoint, change.coin.map(|coin| coin.to_coin())));
        });
        assert!(is_known, "the cache is wrong about the store");
        assert!(list.is_sorted_by_key(|change| change.0));
        assert_eq!(list.len(), changes.len());
        let gate = self.gate.lock().unwrap();
        let gate = self.changed.wait_while(gate, |gate| !gate.open).unwrap();
        if gate.ending == Ending::Panicking {
            drop(gate);
            panic!("a panic of the test");
        }
        if gate.ending != Ending::Failing {
            self.inner.commit(&list, tip)?;
        }
        if gate.ending != Ending::Well {
            return Err(StoreError::Backend("a fault of the test".to_owned()));
        }
        Ok(())
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.inner.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

fn gated() -> (Arc<GatedStore>, CoinsCache) {
    let store = GatedStore::new();
    let cache = CoinsCache::new(Arc::<GatedStore>::clone(&store), LIMIT);
    (store, cache)
}

fn add(cache: &mut CoinsCache, number: u8, value: i64, overwrite: Overwrite) {
    cache.add(&outpoint(number), CoinRef::from(&coin(value)), overwrite);
}

fn insert_read(cache: &mut CoinsCache, outpoint: &OutPoint, coin: &Coin, read_epoch: FlushEpoch) -> bool {
    let at = cache.hashed(outpoint);
    cache.insert_if_fresh_read(&at, coin, read_epoch)
}

fn begin(cache: &mut CoinsCache) {
    cache.begin_flush(&TIP, || Ok(())).unwrap();
}

fn stored(cache: &CoinsCache, number: u8) -> bool {
    cache.store().get(&outpoint(number)).unwrap().is_some()
}

#[test]
fn a_fresh_coin_that_is_spent_is_never_written() {
    let (_, mut cache) = gated();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    assert_eq!(cache.dirty_len(), 1);
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    assert_eq!((cache.len(), cache.dirty_len()), (0, 0));
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), None);
}

#[test]
fn a_coin_that_may_overwrite_leaves_a_marker() {
    let (_, mut cache) = gated();
    add(&mut cache, 1, 5, Overwrite::Possible);
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(stored(&cache, 1));
    // The outpoint gets another coin, which is spent: the older coin in the store must go too.
    add(&mut cache, 1, 6, Overwrite::Possible);
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(6)));
    assert_eq!((cache.len(), cache.dirty_len()), (1, 1));
    assert_eq!(cache.get(&outpoint(1)).unwrap(), None);
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(!stored(&cache, 1));
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_coin_restored_over_its_marker_is_not_fresh() {
    let (_, mut cache) = gated();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    cache.spend(&outpoint(1)).unwrap();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.spend(&outpoint(1)).unwrap();
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(!stored(&cache, 1));
}

#[test]
fn unspendable_outputs_stay_out() {
    let (_, mut cache) = gated();
    let unspendable = Coin {
        script_pubkey: [0x6a].into(),
        ..coin(5)
    };
    cache.add(&outpoint(1), CoinRef::from(&unspendable), Overwrite::Impossible);
    assert!(cache.is_empty());
}

/// Spends a coin that the running batch brings into the store. Returns whether the store has the
/// coin after the next flush.
fn spent_across_the_flush_point(disabled: Option<Rule>) -> bool {
    let (store, mut cache) = gated();
    cache.disabled = disabled;
    store.set(false, Ending::Well);
    add(&mut cache, 1, 5, Overwrite::Impossible);
    begin(&mut cache);
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    store.set(true, Ending::Well);
    cache.finish_flush().unwrap();
    cache.flush(&TIP, || Ok(())).unwrap();
    stored(&cache, 1)
}

#[test]
fn fresh_does_not_reach_across_the_flush_point() {
    assert!(!spent_across_the_flush_point(None));
    assert!(spent_across_the_flush_point(Some(Rule::FreshAcrossFlushPoint)));
}

/// Reads a coin from the store, spends it, flushes the marker, and inserts what was read. Returns
/// whether the cache has the coin again.
fn inserted_after_spend_and_flush(disabled: Option<Rule>) -> bool {
    let (_, mut cache) = gated();
    cache.disabled = disabled;
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    let read_epoch = cache.flush_epoch();
    let read = cache.store().get(&outpoint(1)).unwrap().unwrap();
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    cache.flush(&TIP, || Ok(())).unwrap();
    insert_read(&mut cache, &outpoint(1), &read, read_epoch);
    cache.get(&outpoint(1)).unwrap().is_some()
}

#[test]
fn no_coin_rises_from_the_dead() {
    assert!(!inserted_after_spend_and_flush(None));
    assert!(inserted_after_spend_and_flush(Some(Rule::Resurrection)));
}

/// Reads a coin from the store, spends it, and inserts what was read, while the marker is above or
/// below the flush point. Returns whether the coin was inserted.
fn inserted_after_spend(disabled: Option<Rule>, frozen: bool) -> bool {
    let (store, mut cache) = gated();
    cache.disabled = disabled;
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    let read_epoch = cache.flush_epoch();
    let read = cache.store().get(&outpoint(1)).unwrap().unwrap();
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    if frozen {
        store.set(false, Ending::Well);
        begin(&mut cache);
    }
    let taken = insert_read(&mut cache, &outpoint(1), &read, read_epoch);
    let unspent = cache.get(&outpoint(1)).unwrap().is_some();
    assert_eq!(taken, unspent);
    store.set(true, Ending::Well);
    cache.finish_flush().unwrap();
    unspent
}

#[test]
fn a_stale_fetch_replaces_nothing() {
    for frozen in [false, true] {
        assert!(!inserted_after_spend(None, frozen));
        assert!(inserted_after_spend(Some(Rule::StaleFetch), frozen));
    }
}

#[test]
fn a_coin_that_the_last_flush_left_unchanged_is_accepted() {
    let (_, mut cache) = gated();
    for number in 1..=40 {
        add(&mut cache, number, number.into(), Overwrite::Impossible);
    }
    cache.flush(&TIP, || Ok(())).unwrap();
    let store = Arc::clone(cache.store());
    let mut cache = CoinsCache::new(store, 1 << 20);
    let read_epoch = cache.flush_epoch();
    for number in 1..=20 {
        assert_eq!(cache.spend(&outpoint(number)).unwrap(), Some(coin(number.into())));
    }
    // One outpoint is spent and gets another coin: the earlier read is stale.
    add(&mut cache, 20, 99, Overwrite::Possible);
    begin(&mut cache);
    cache.finish_flush().unwrap();
    for number in 1..=20 {
        assert!(!insert_read(
            &mut cache,
            &outpoint(number),
            &coin(number.into()),
            read_epoch
        ));
    }
    for number in 21..=30 {
        assert!(insert_read(
            &mut cache,
            &outpoint(number),
            &coin(number.into()),
            read_epoch
        ));
    }
    add(&mut cache, 50, 5, Overwrite::Impossible);
    begin(&mut cache);
    cache.finish_flush().unwrap();
    // The changes of the flush before the last are not known any more.
    for number in 31..=40 {
        assert!(!insert_read(
            &mut cache,
            &outpoint(number),
            &coin(number.into()),
            read_epoch
        ));
        assert!(insert_read(
            &mut cache,
            &outpoint(number),
            &coin(number.into()),
            read_epoch.next()
        ));
    }
}

#[test]
fn a_coin_that_was_read_ahead_is_a_hit() {
    let (_, mut cache) = gated();
    let store = Arc::clone(cache.store());
    store.commit(&[(outpoint(1), Some(coin(5)))], &TIP).unwrap();
    let read_epoch = cache.flush_epoch();
    assert!(insert_read(&mut cache, &outpoint(1), &coin(5), read_epoch));
    assert!(!insert_read(&mut cache, &outpoint(1), &coin(5), read_epoch));
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    assert_eq!(cache.counters(), CacheCounters { hits: 1, misses: 0 });
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(!stored(&cache, 1));
}

#[test]
fn after_a_failed_flush_no_coin_rises_from_the_dead() {
    for ending in [Ending::Failing, Ending::Lying] {
        let (store, mut cache) = gated();
        store.set(false, ending);
        add(&mut cache, 1, 5, Overwrite::Impossible);
        add(&mut cache, 2, 6, Overwrite::Impossible);
        begin(&mut cache);
        assert_eq!(cache.spend(&outpoint(2)).unwrap(), Some(coin(6)));
        add(&mut cache, 3, 7, Overwrite::Impossible);
        store.set(true, ending);
        assert!(matches!(cache.finish_flush(), Err(FlushError::Store(_))));
        assert_eq!(
            (cache.len(), cache.dirty_len(), cache.flush_epoch()),
            (3, 3, FlushEpoch::default())
        );
        store.set(true, Ending::Well);
        assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
        cache.flush(&TIP, || Ok(())).unwrap();
        assert_eq!([1, 2, 3].map(|number| stored(&cache, number)), [false, false, true]);
    }
}

/// A panic in the store is a failed flush: the spent markers must be kept.
#[test]
fn a_flush_that_panics_loses_nothing() {
    let (store, mut cache) = gated();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
    add(&mut cache, 2, 6, Overwrite::Impossible);
    store.set(true, Ending::Panicking);
    begin(&mut cache);
    let error = cache.finish_flush().unwrap_err();
    assert!(
        matches!(&error, FlushError::Panicked(text) if text == "a panic of the test"),
        "{error}"
    );
    assert_eq!(cache.get(&outpoint(1)).unwrap(), None);
    store.set(true, Ending::Well);
    cache.flush(&TIP, || Ok(())).unwrap();
    assert_eq!([1, 2].map(|number| stored(&cache, number)), [false, true]);
}

#[test]
fn what_comes_before_a_flush_may_refuse_it() {
    let (_, mut cache) = gated();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.begin_flush(&TIP, || Err("no".into())).unwrap();
    assert!(matches!(cache.finish_flush(), Err(FlushError::Before(error)) if error.to_string() == "no"));
    assert!(!stored(&cache, 1));
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(stored(&cache, 1));
    assert_eq!(cache.flush_counters().flushes, 1);
    assert_eq!(cache.flush_counters().changes, 1);
}

fn numbered(number: u32) -> OutPoint {
    let mut txid = [0; 32];
    txid[..4].copy_from_slice(&number.to_be_bytes());
    OutPoint {
        txid: Txid(txid),
        vout: 0,
    }
}

#[test]
fn the_youngest_and_those_asked_for_stay() {
    let limit = 16 << 20;
    let mut cache = CoinsCache::new(Arc::new(MemoryStore::new()), limit);
    let of_height = |height| Coin {
        height,
        script_pubkey: vec![0x51; 25].into(),
        ..coin(7)
    };
    let mut count = 0;
    while !cache.wants_flush() {
        count += 1;
        cache.add(
            &numbered(count),
            CoinRef::from(&of_height(count)),
            Overwrite::Impossible,
        );
    }
    // Old coins that were asked for.
    for number in 1..=100 {
        assert!(cache.get(&numbered(number)).unwrap().is_some());
    }
    cache.flush(&TIP, || Ok(())).unwrap();
    let kept = cache.len() as u32;
    let keep = cache.flush_at() - limit / 16 * BETWEEN_FLUSHES_16;
    assert!(cache.bytes() <= keep + limit / 16, "{}", cache.bytes());
    assert!(cache.bytes() >= keep - limit / 16 * 2, "{}", cache.bytes());
    assert_eq!(cache.flush_counters().kept, u64::from(kept));
    let misses = cache.counters().misses;
    // Of the oldest ones that stay, 32 heights are alike.
    for number in (1..=100).chain(count - kept + 133..=count) {
        assert!(cache.get(&numbered(number)).unwrap().is_some());
    }
    assert_eq!(cache.counters().misses, misses);
    for number in 101..200 {
        assert!(cache.get(&numbered(number)).unwrap().is_some());
    }
    assert_eq!(cache.counters().misses, misses + 99);
}

/// Many changes at once, after a flush of them has failed.
#[test]
fn large_flushes_write_every_change_once() {
    const COINS: u32 = 60_000;
    let (store, mut cache) = gated();
    let of = |number: u32| coin(i64::from(number % 1000));
    for number in 0..COINS {
        cache.add(&numbered(number), CoinRef::from(&of(number)), Overwrite::Impossible);
    }
    // A failed flush changes nothing.
    store.set(true, Ending::Failing);
    assert!(cache.flush(&TIP, || Ok(())).is_err());
    assert_eq!(cache.dirty_len(), COINS as usize);
    store.set(true, Ending::Well);
    cache.flush(&TIP, || Ok(())).unwrap();
    assert_eq!(store.coins().unwrap().count(), COINS as usize);
    for number in (0..COINS).step_by(2) {
        assert_eq!(cache.spend(&numbered(number)).unwrap(), Some(of(number)));
    }
    cache.flush(&TIP, || Ok(())).unwrap();
    assert_eq!(cache.flush_counters().changes, u64::from(COINS + COINS / 2));
    let mut left: Vec<_> = store.coins().unwrap().map(Result::unwrap).collect();
    left.sort_unstable_by_key(|(outpoint, _)| *outpoint);
    let mut expected: Vec<_> = (1..COINS)
        .step_by(2)
        .map(|number| (numbered(number), of(number)))
        .collect();
    expected.sort_unstable_by_key(|(outpoint, _)| *outpoint);
    assert!(left == expected);
}

#[test]
fn memory_is_counted_and_given_back() {
    let mut cache = CoinsCache::new(Arc::new(MemoryStore::new()), 1 << 20);
    let empty = cache.bytes();
    let mut count = 0;
    while !cache.is_full() {
        count += 1;
        cache.add(&numbered(count), CoinRef::from(&coin(30)), Overwrite::Impossible);
    }
    assert!(cache.wants_flush());
    for number in 1..=count {
        assert!(cache.spend(&numbered(number)).unwrap().is_some());
    }
    cache.flush(&TIP, || Ok(())).unwrap();
    assert_eq!(cache.bytes(), empty);
}

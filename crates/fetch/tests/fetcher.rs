//! The fetcher from outside: everything is read once and found, by any thread, from a slow, broken
//! or fast store.

use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
use blockmill_coins::{
    Changes, CoinIterator, CoinStore, FlushClock, FlushEpoch, HashKey, HashedOutPoint, MemoryStore, OwnedChange,
    StoreError, Tip,
};
use blockmill_fetch::{Fetcher, FoundCoins, Options, Wanted};
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn outpoint(number: u64) -> OutPoint {
    let mut txid = [0; 32];
    txid[..8].copy_from_slice(&number.to_le_bytes());
    OutPoint {
        txid: Txid(txid),
        vout: (number % 3) as u32,
    }
}

/// With the hash under some key.
fn hashed(number: u64) -> HashedOutPoint {
    HashKey::known(1, 2).hashed(&outpoint(number))
}

fn coin(number: u64) -> Coin {
    Coin {
        value: number as i64,
        height: 7,
        is_coinbase: false,
        script_pubkey: vec![number as u8; 25].into(),
    }
}

/// A store that sleeps for each key on the calling thread, and that can fail or panic.
#[derive(Default)]
struct TestStore {
    coins: MemoryStore,
    each: Duration,
    fails: AtomicBool,
    panics: AtomicBool,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
    threads: Mutex<Vec<String>>,
}

impl TestStore {
    fn new(coins: Range<u64>, each: Duration) -> Arc<Self> {
        let store = Self {
            each,
            ..Self::default()
        };
        let mut changes: Vec<OwnedChange> = coins.map(|number| (outpoint(number), Some(coin(number)))).collect();
        changes.sort_by_key(|change| change.0);
        let tip = Tip {
            hash: BlockHash([1; 32]),
            height: 1,
        };
        store.coins.commit(&changes, &tip).unwrap();
        Arc::new(store)
    }
}

impl CoinStore for TestStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        assert!(!self.panics.load(Ordering::Relaxed), "a store that panics");
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::Backend("a store that fails".to_owned()));
        }
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        if !self.each.is_zero() {
            std::thread::sleep(self.each);
        }
        let name = std::thread::current().name().unwrap_or("").to_owned();
        let mut threads = self.threads.lock().unwrap();
        if !threads.contains(&name) {
            threads.push(name);
        }
        drop(threads);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.coins.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.coins.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.coins.commit(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.coins.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.coins.disk_size()
    }
}

fn fetcher(workers: usize, readers: usize, store: &Arc<TestStore>) -> (ThreadPool, Fetcher, FlushClock) {
    let options = Options {
        readers,
        ..Options::default()
    };
    fetcher_with(workers, &options, store)
}

fn fetcher_with(workers: usize, options: &Options, store: &Arc<TestStore>) -> (ThreadPool, Fetcher, FlushClock) {
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap();
    let clock = FlushClock::default();
    let store: Arc<dyn CoinStore> = Arc::<TestStore>::clone(store);
    let fetcher = Fetcher::new(&pool, 0, store, clock.clone(), options);
    (pool, fetcher, clock)
}

#[test]
fn coins_without_room_are_not_read() {
    let store = TestStore::new(0..1_000, Duration::ZERO);
    let options = Options {
        readers: 0,
        coins_bytes_max: 10_000,
    };
    let (_pool, fetcher, _clock) = fetcher_with(0, &options, &store);
    let wanted = || (0..1_000).map(hashed).collect::<Vec<_>>();
    let first = fetcher.begin(wanted());
    let found = first.finish();
    assert!(!found.complete);
    // A range of items is read as long as there is room for one coin.
    assert!((50..250).contains(&found.coins.len()), "{}", found.coins.len());
    // Coins that were handed out need no room any more.
    assert!(!fetcher.begin(wanted()).finish().coins.is_empty());
    assert!(fetcher.begin(vec![hashed(7)]).finish().complete);
}

fn numbers(found: &FoundCoins) -> Vec<u64> {
    assert!(found.complete);
    found
        .coins
        .iter()
        .map(|fetched| {
            assert_eq!(fetched.coin, coin(fetched.coin.value as u64));
            assert_eq!(fetched.at, hashed(fetched.coin.value as u64));
            fetched.coin.value as u64
        })
        .collect()
}

#[test]
fn what_is_there_is_found_in_order() {
    for (workers, readers) in [(0, 0), (1, 0), (3, 0), (0, 4), (8, 8)] {
        let store = TestStore::new(100..900, Duration::ZERO);
        let (_thread_pool, fetcher, clock) = fetcher(workers, readers, &store);
        let mut epoch = FlushEpoch::default();
        for _ in 0..50 {
            let wanted: Vec<HashedOutPoint> = (0..1000).map(hashed).collect();
            let found = fetcher.begin(wanted).finish();
            assert_eq!(numbers(&found), (100..900).collect::<Vec<_>>());
            assert!(found.coins.iter().all(|fetched| fetched.read_epoch == epoch));
            assert_eq!(found.begin_epoch, epoch);
            clock.advance();
            epoch = epoch.next();
        }
        let statistics = fetcher.statistics();
        assert_eq!((statistics.keys, statistics.found), (50 * 1000, 50 * 800));
        assert_eq!(statistics.failed, 0);
    }
}

/// Whoever has the result of a fetch has its figures, whichever thread did the last range.
#[test]
fn figures_are_counted_before_a_fetch_is_done() {
    let store = TestStore::new(0..200, Duration::ZERO);
    let (_thread_pool, fetcher, _) = fetcher(2, 0, &store);
    for round in 1..=20_000 {
        let _found = fetcher.begin((0..200).map(hashed).collect::<Vec<_>>()).finish();
        let statistics = fetcher.statistics();
        assert_eq!((statistics.keys, statistics.found), (round * 200, round * 200));
    }
}

#[test]
fn nothing_wanted_is_done_at_once() {
    let store = TestStore::new(0..10, Duration::ZERO);
    let (_thread_pool, fetcher, _) = fetcher(1, 1, &store);
    let fetch = fetcher.begin(Vec::new());
    assert!(fetch.is_done());
    assert_eq!(numbers(&fetch.finish()), []);
}

/// With slow reads many are in flight, though there is one worker. In sequence the reads would take
/// much longer.
#[test]
fn reads_that_block_are_done_by_readers() {
    const EACH: Duration = Duration::from_micros(500);
    let store = TestStore::new(0..2000, EACH);
    let (_thread_pool, fetcher, _) = fetcher(1, 16, &store);
    let start = Instant::now();
    // Several fetches at once, small and large.
    let ranges = [0..700, 700..710, 710..711, 711..1500, 1500..2000];
    let fetches: Vec<_> = ranges
        .iter()
        .map(|range| fetcher.begin(range.clone().map(hashed).collect::<Vec<_>>()))
        .collect();
    for (range, fetch) in ranges.into_iter().zip(fetches) {
        assert_eq!(numbers(&fetch.finish()), range.collect::<Vec<_>>());
    }
    let elapsed = start.elapsed();
    assert!(elapsed < EACH * 2000 / 2, "{elapsed:?}");
    let in_flight = store.in_flight_max.load(Ordering::Relaxed);
    assert!(in_flight >= 12, "{in_flight}");
    assert!(fetcher.statistics().in_flight_max >= 12);
    assert!(fetcher.statistics().by_readers > 100);
    let threads = store.threads.lock().unwrap();
    assert!(threads.iter().any(|name| name == "reader-15"), "{threads:?}");
}

/// While reads are fast, readers do not take part.
#[test]
fn fast_reads_are_left_to_the_pool() {
    let store = TestStore::new(0..5000, Duration::ZERO);
    let (_thread_pool, fetcher, _) = fetcher(1, 16, &store);
    for _ in 0..20 {
        let found = fetcher.begin((0..5000).map(hashed).collect::<Vec<_>>()).finish();
        assert_eq!(found.coins.len(), 5000);
    }
    let statistics = fetcher.statistics();
    assert!(statistics.by_readers * 4 < statistics.batches, "{statistics:?}");
}

#[test]
fn dropping_a_fetch_cancels_it() {
    let store = TestStore::new(0..100_000, Duration::from_micros(50));
    let (pool, fetcher, _) = fetcher(2, 2, &store);
    for _ in 0..10 {
        drop(fetcher.begin((0..100_000).map(hashed).collect::<Vec<_>>()));
    }
    // The next fetch is served.
    assert_eq!(numbers(&fetcher.begin(vec![hashed(5), hashed(200_000)]).finish()), [5]);
    assert!(fetcher.statistics().keys < 200_000);
    // A fetch may outlive its fetcher and the pool.
    let fetch = fetcher.begin((0..300).map(hashed).collect::<Vec<_>>());
    drop(fetcher);
    drop(pool);
    assert_eq!(numbers(&fetch.finish()).len(), 300);
}

#[test]
fn a_store_that_fails_or_panics_finds_nothing() {
    let store = TestStore::new(0..1000, Duration::ZERO);
    let (_thread_pool, fetcher, _) = fetcher(2, 2, &store);
    let all = || (0..1000).map(hashed).collect::<Vec<_>>();
    store.fails.store(true, Ordering::Relaxed);
    let nothing = FoundCoins::default();
    assert_eq!(fetcher.begin(all()).finish(), nothing);
    let failed = fetcher.statistics().failed;
    assert!(failed > 0);
    store.panics.store(true, Ordering::Relaxed);
    assert_eq!(fetcher.begin(all()).finish(), nothing);
    store.panics.store(false, Ordering::Relaxed);
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(numbers(&fetcher.begin(all()).finish()).len(), 1000);
}

/// Counts how often each item is asked for, and leaves some out.
struct Picky {
    asked: Arc<Vec<AtomicUsize>>,
    first: u64,
    leave_out: u64,
}

impl Wanted for Picky {
    fn items(&self) -> usize {
        self.asked.len()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<HashedOutPoint>) {
        for item in items {
            self.asked[item].fetch_add(1, Ordering::Relaxed);
            let number = self.first + item as u64;
            if self.leave_out == 0 || !number.is_multiple_of(self.leave_out) {
                wanted.push(hashed(number));
            }
        }
    }
}

/// The items are dropped with their fetch, even if no worker or reader looks for work again.
#[test]
fn a_fetch_frees_its_items() {
    for workers in [0, 2] {
        let store = TestStore::new(0..1000, Duration::ZERO);
        let (_thread_pool, fetcher, _) = fetcher(workers, 0, &store);
        let asked: Arc<Vec<AtomicUsize>> = Arc::new((0..500).map(|_| AtomicUsize::new(0)).collect());
        let wanted = || Picky {
            asked: Arc::clone(&asked),
            first: 0,
            leave_out: 0,
        };
        for _ in 0..20 {
            let (one, other) = (fetcher.begin(wanted()), fetcher.begin(wanted()));
            one.finish();
            drop(other);
        }
        // A worker may be about to drop the last one.
        let deadline = Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&asked) > 1 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&asked), 1);
    }
}

proptest! {
    /// With any number of fetches and threads: every item is asked for once, and every coin is
    /// found.
    #[test]
    fn every_item_is_asked_for_once(
        sizes in proptest::collection::vec((0usize..400, 0u64..4), 1..12),
        workers in 0usize..4,
        readers in 0usize..4,
        micros in prop_oneof![Just(0u64), Just(30)],
    ) {
        let store = TestStore::new(0..3000, Duration::from_micros(micros));
        let (_thread_pool, fetcher, _) = fetcher(workers, readers, &store);
        let mut first = 0;
        let fetches: Vec<_> = sizes.iter().map(|&(size, leave_out)| {
            let asked: Arc<Vec<AtomicUsize>> = Arc::new((0..size).map(|_| AtomicUsize::new(0)).collect());
            let wanted = Picky { asked: Arc::clone(&asked), first, leave_out };
            let expected: Vec<u64> = (first..first + size as u64)
                .filter(|number| (leave_out == 0 || !number.is_multiple_of(leave_out)) && *number < 3000)
                .collect();
            first += size as u64;
            (fetcher.begin(wanted), asked, expected)
        }).collect();
        for (fetch, asked, expected) in fetches {
            prop_assert_eq!(numbers(&fetch.finish()), expected);
            prop_assert!(asked.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}

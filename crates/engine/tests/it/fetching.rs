//! Coins that are read ahead lead to the outcome of reading them one by one, whatever is switched
//! off. The engine waits much less for slow stores.

use crate::common::{LARGE, Settings, connect, figures, open, open_with, options};
use blockmill_block::{Coin, OutPoint};
use blockmill_chaingen::{ChainSpec, Profile, Summary, write_chain};
use blockmill_coins::{Changes, CoinIterator, CoinStore, MemoryStore, StoreError, Tip};
use blockmill_engine::internals::Without;
use blockmill_engine::{ConnectReport, Options, Plan, RunOutcome};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A store that sleeps for each key on the calling thread, in batches too.
struct SlowStore {
    store: Arc<MemoryStore>,
    each: Duration,
}

impl CoinStore for SlowStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        std::thread::sleep(self.each);
        self.store.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.store.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.store.commit(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.store.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.store.disk_size()
    }
}

struct Made {
    directory: TempDir,
    summary: Summary,
}

impl Made {
    fn new(blocks: u32, inputs: u64, coins: u64) -> Self {
        let spec = ChainSpec {
            inputs,
            coins,
            ..ChainSpec::new(Profile::Utxo, blocks, 23)
        };
        let directory = tempfile::tempdir().unwrap();
        let summary = write_chain(&directory.path().join("chain"), &spec, &mut |_| ()).unwrap();
        Self { directory, summary }
    }

    fn blocks(&self) -> std::path::PathBuf {
        self.directory.path().join("chain")
    }

    /// Connects with a store that has the coins up to a height and a cache that has none.
    fn connect_cold(&self, height: u32, each: Duration, settings: impl Into<Settings>) -> ConnectReport {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let store = Arc::new(MemoryStore::new());
        let first = Options {
            stop_at_height: Some(height),
            ..options(2, LARGE)
        };
        let mut engine = open_with(&data, Arc::<MemoryStore>::clone(&store), first).unwrap();
        connect(&mut engine, &[&self.blocks()]);
        drop(engine);
        let slow = Arc::new(SlowStore { store, each });
        let mut engine = open_with(&data, slow, settings).unwrap();
        let report = connect(&mut engine, &[&self.blocks()]);
        assert_eq!(report.start_height, height);
        self.check(&report, &figures(&engine));
        report
    }

    fn check(&self, report: &ConnectReport, figures: &blockmill_coins::UtxoStats) {
        assert_eq!(report.outcome(), RunOutcome::Complete, "{report:?}");
        assert_eq!(figures.hash_serialized_3.to_string(), self.summary.hash_serialized_3);
    }

    /// Connects in a fresh directory with the store of the command.
    fn connect_fresh(&self, data: &Path, settings: impl Into<Settings>) -> ConnectReport {
        let mut engine = open(data, settings);
        let report = connect(&mut engine, &[&self.blocks()]);
        self.check(&report, &figures(&engine));
        assert_eq!(report.totals.windows_rolled_back, 0, "a valid chain");
        report
    }
}

fn without_fetch(options: Options) -> Settings {
    let without = Without {
        fetch: true,
        ..Without::default()
    };
    Settings::without(options, without)
}

#[test]
fn many_reads_of_a_slow_store_are_in_flight() {
    const EACH: Duration = Duration::from_micros(200);
    let made = Made::new(160, 6_000, 3_000);
    for threads in [1, 2] {
        let with = made.connect_cold(130, EACH, options(threads, LARGE));
        let without = made.connect_cold(130, EACH, without_fetch(options(threads, LARGE)));
        let fetch = with.totals.fetch;
        assert!(fetch.reads.in_flight_max >= 12, "{fetch:?}");
        // Nearly all that was found is taken, and resolve has little left to read.
        assert!(fetch.taken * 10 >= fetch.reads.found * 9, "{fetch:?}");
        assert!(
            with.totals.cache.misses * 10 < without.totals.cache.misses,
            "{:?}",
            with.totals.cache
        );
        assert_eq!(without.totals.fetch, Default::default());
        // With 16 readers it may be 16 times; a machine that is busy with other things makes it
        // less.
        let ratio = without.seconds / with.seconds;
        assert!(ratio > 2.0, "{ratio}: {} {}", without.seconds, with.seconds);
    }
}

#[test]
fn nothing_is_read_while_the_cache_has_all_there_is() {
    let made = Made::new(130, 2_000, 1_000);
    let directory = tempfile::tempdir().unwrap();
    let report = made.connect_fresh(&directory.path().join("data"), options(2, LARGE));
    assert_eq!(report.totals.fetch.reads.keys, 0);
    assert_eq!(report.totals.cache.misses, 0);
}

#[test]
fn switches_threads_caches_and_flushes_leave_the_outcome() {
    let made = Made::new(140, 4_000, 3_000);
    for number in 0..32 {
        let bit = |bit: u32| number & 1 << bit != 0;
        let without = Without {
            fetch: bit(0),
            overlap: bit(1),
            decode: bit(2),
            shards: bit(4),
            background_flush: bit(3),
        };
        // Two of the four each: all four with each value of each switch.
        let settings = [(1, 0, 60_000), (2, 0, 2), (3, 400_000, 10), (2, 700_000, 60_000)];
        let odd = (number as u32).count_ones() as usize % 2;
        for &(threads, cache_bytes_max, flush) in settings[odd..].iter().step_by(2) {
            let options = Options {
                flush_interval: Duration::from_millis(flush),
                ..options(threads, cache_bytes_max)
            };
            let settings = Settings::without(options, without);
            let directory = tempfile::tempdir().unwrap();
            let report = made.connect_fresh(&directory.path().join("data"), settings);
            if without.fetch {
                assert_eq!(report.totals.fetch.reads.keys, 0);
            }
        }
    }
}

#[test]
fn blocks_on_their_way_are_counted_and_bounded() {
    const CACHE_BYTES: usize = 16 << 20;
    let plan = Plan::for_memory(CACHE_BYTES, 2);
    // If only their number were bounded, nearly all of this chain would be loaded: 20 MB, and three
    // times that decoded.
    let made = Made::new(130, 250_000, 3_000);
    let directory = tempfile::tempdir().unwrap();
    let report = made.connect_fresh(&directory.path().join("data"), options(2, CACHE_BYTES));
    let queues = report.totals.queues;
    let largest = 4 * report.totals.bytes as usize / (report.height as usize - 100);
    let allowed = plan.ahead_bytes + plan.in_flight_bytes;
    assert!(queues.memory_max <= allowed + 2 * largest, "{queues:?} {largest}");
    assert!(queues.memory_max >= allowed / 4, "{queues:?}");
    assert!(queues.ahead.max() >= 1 && queues.in_flight.max() >= 1, "{queues:?}");
    assert!(queues.ahead.mean() >= queues.loaded.mean(), "{queues:?}");

    let without = Without {
        decode: true,
        overlap: true,
        ..Without::default()
    };
    let one_by_one = Settings::without(options(2, CACHE_BYTES), without);
    let report = made.connect_fresh(&directory.path().join("other"), one_by_one);
    assert_eq!(report.totals.queues.in_flight.max(), 1);
    assert_eq!(report.totals.queues.ahead.max(), 0);
}

//! Random delays in all stages, with random settings. Verdict, tip and set are those of a run
//! without delays.

use crate::common::deferring::Deferring;
use crate::common::grower::{Grower, SPARE_COINBASE};
use crate::common::{SUBSIDY, Settings, builder, hash_of, spend_failing, write_blocks};
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_chaingen::builder::spend_any;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{Changes, CoinIterator, CoinStore, MemoryStore, StatsBuilder, StoreError, Tip};
use blockmill_engine::internals::{Internals, StageHook, WindowSizes, Without};
use blockmill_engine::{Event, Observer, Options, Signatures};
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks before those that may be bad.
const TRUNK: u32 = 108;

/// Blocks that may be bad.
const LENGTH: u32 = 36;

/// Random numbers that several threads draw.
struct Rng(AtomicU64);

impl Rng {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seed)))
    }

    fn below(&self, end: u64) -> u64 {
        // SplitMix64.
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut value = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % end
    }

    /// Windows and jobs of any sizes, or as they are.
    fn window_sizes(&self) -> Option<WindowSizes> {
        let choose = |sizes: &[usize]| sizes[self.below(sizes.len() as u64) as usize];
        (self.below(4) > 0).then(|| WindowSizes {
            blocks: choose(&[1, 2, 5, 32]),
            jobs: choose(&[1, 2, 64]),
        })
    }

    /// Mostly returns at once, sometimes yields, sometimes sleeps for up to `most` microseconds.
    fn delay(&self, most: u64) {
        match self.below(8) {
            0 => std::thread::sleep(Duration::from_micros(self.below(most))),
            1 | 2 => std::thread::yield_now(),
            _ => {}
        }
    }
}

struct SlowVerifier(Arc<Rng>);

impl ScriptVerifier for SlowVerifier {
    type Prepared = <KernelVerifier as ScriptVerifier>::Prepared;
    type Deferred<T: Send> = ();

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError> {
        self.0.delay(300);
        KernelVerifier.prepare(transaction, spent)
    }

    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        self.0.delay(300);
        KernelVerifier.verify(prepared, input, flags)
    }
}

struct SlowStore {
    store: MemoryStore,
    dice: Arc<Rng>,
}

impl CoinStore for SlowStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        self.dice.delay(100);
        let found = self.store.get(outpoint);
        self.dice.delay(100);
        found
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.store.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.dice.delay(2_000);
        let outcome = self.store.commit(changes, tip);
        self.dice.delay(2_000);
        outcome
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.store.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.store.disk_size()
    }
}

/// Takes its time after a commit.
struct SlowObserver(Arc<Rng>);

impl Observer for SlowObserver {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Progress(_) = event {
            self.0.delay(500);
        }
    }
}

/// What a run comes to: rejected blocks, tip and hash of the set.
type Outcome = (Vec<(BlockHash, String)>, BlockHash, String);

fn run(blocks: &Path, settings: Settings, dice: &Arc<Rng>) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let store = Arc::new(SlowStore {
        store: MemoryStore::new(),
        dice: Arc::clone(dice),
    });
    let verifier = Deferring::new(SlowVerifier(Arc::clone(dice)));
    let builder = builder(&data).store(store).options(settings.options);
    let mut engine = builder.internals(settings.internals).open(verifier).unwrap();
    let report = engine
        .connect(&[blocks.to_owned()], &mut SlowObserver(Arc::clone(dice)))
        .unwrap();
    let rejected = report.rejected.iter();
    let rejected = rejected.map(|block| (block.hash, block.reject.reason.to_string()));
    let set = StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins().unwrap())
        .unwrap()
        .finish(&engine.tip());
    (rejected.collect(), report.tip, set.hash_serialized_3.to_string())
}

fn runs(seeds: std::ops::Range<u64>) {
    let trunk = Grower::of(TRUNK);
    let directory = tempfile::tempdir().unwrap();
    for seed in seeds {
        let dice = Rng::new(seed);
        let mut grower = trunk.fork(seed as u8);
        let (script_fails, takes_too_much) = (
            dice.below(LENGTH as u64 * 3 / 2) as u32,
            dice.below(LENGTH as u64 * 3) as u32,
        );
        for number in 1..=LENGTH {
            let mut block = grower.next();
            let spare = grower.chain.coinbase(SPARE_COINBASE);
            if number == script_fails {
                block = block.transaction(spend_failing(spare, SUBSIDY));
            } else if number == LENGTH && script_fails > LENGTH {
                block = block.transaction(spend_any(spare, SUBSIDY));
            }
            if number == takes_too_much {
                block = block.fees(1);
            }
            let block = block.build();
            grower.chain.push(block);
        }
        let file = write_blocks(&directory.path().join("blocks.dat"), &grower.chain.blocks);
        let quiet = Rng::new(0);
        let serial = Options {
            threads: 1,
            signatures: Signatures::OneByOne,
            flush_interval: Duration::from_secs(60),
            ..Options::default()
        };
        let without = Without {
            fetch: true,
            overlap: true,
            decode: true,
            shards: true,
            background_flush: true,
        };
        let expected = run(&file, Settings::without(serial, without), &quiet);
        let first_bad = (1..=LENGTH).find(|&number| number == script_fails || number == takes_too_much);
        let last_good = TRUNK + first_bad.map_or(LENGTH, |number| number - 1);
        assert_eq!(expected.1, hash_of(&grower.chain.blocks[last_good as usize]));
        let options = Options {
            threads: 1 + dice.below(5) as usize,
            cache_bytes_max: [0, 300_000, 1 << 20, 64 << 20][dice.below(4) as usize],
            flush_interval: Duration::from_micros([0, 500, 5_000, 60_000_000][dice.below(4) as usize]),
            readers: dice.below(4) as usize,
            signatures: [Signatures::OneByOne, Signatures::Lanes, Signatures::Lanes][dice.below(3) as usize],
            ..Options::default()
        };
        let without = Without {
            fetch: dice.below(8) == 0,
            overlap: dice.below(8) == 0,
            decode: dice.below(8) == 0,
            shards: dice.below(8) == 0,
            background_flush: dice.below(8) == 0,
        };
        let delaying = Arc::clone(&dice);
        let internals = Internals {
            without,
            stage_hook: Some(StageHook(Arc::new(move |_| delaying.delay(1_000)))),
            windows: dice.window_sizes(),
        };
        let delayed = Settings { options, internals };
        let found = run(&file, delayed.clone(), &dice);
        assert_eq!(found, expected, "seed {seed}: {delayed:?}");
    }
}

#[test]
fn delays_change_nothing() {
    runs(0..40);
}

#[test]
#[ignore = "a thousand runs: a minute or two"]
fn delays_change_nothing_a_thousand_times() {
    runs(1_000..2_000);
}

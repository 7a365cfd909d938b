//! A chain resolved twice: with fetches, flushes and lanes as in the engine, and without.
//!
//! Four bytes of the input (`Beside`) name what happens beside each block: when its fetches begin,
//! when they end, when the block is resolved, and after that. Up to four blocks are loaded ahead,
//! as in the engine. Each notes its transactions, and its fetches see the cache of that moment.

use crate::flushes::limit_for;
use crate::gated_store::{Ending, GatedStore};
use crate::input::Input;
use crate::world::{BLOCKS_MAX, PARAMS, Planned, SPACING, World, first_coins};
use blockmill_block::{Block, BlockHash, BlockUndo, Coin, OutPoint};
use blockmill_coins::{CoinStore, CoinsCache, FlushEpoch, MemoryStore, MustBeNew, OwnedChange, Tip};
use blockmill_engine::pipeline::inputs::{BlockInputs, BlockOutputs};
use blockmill_engine::pipeline::lanes::{Dealing, WindowBlock, WindowOutcome, resolve_window};
use blockmill_engine::pipeline::outline::Outline;
use blockmill_engine::pipeline::resolve::{self, ResolveError};
use blockmill_engine::pipeline::upcoming::UpcomingTxids;
use blockmill_fetch::{Fetch, Fetcher, Options};
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use blockmill_rules::Reject;
use blockmill_rules::connect::{ConnectContext, MedianTimes, Overwriting};
use blockmill_rules::flags::block_script_flags;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

/// Pools with one worker and with two. All inputs share them.
static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| {
    [1, 2].map(|workers| ThreadPool::new(&ThreadPoolOptions::workers(workers)).expect("threads can be started"))
});

/// Transactions of the blocks ahead. They only decide what is read ahead, so entries left from
/// other inputs are harmless.
static MADE: LazyLock<Arc<UpcomingTxids>> = LazyLock::new(Arc::default);

/// Limits of the cache in bytes. After a flush none, a few, some or all coins stay.
const LIMITS: [usize; 4] = [0, limit_for(400), limit_for(1500), 64 << 20];

/// Flushes of one input at most.
const FLUSHES_MAX: usize = 3;

const FETCHER: Options = Options {
    readers: 2,
    coins_bytes_max: 1 << 20,
};

const TIP: Tip = Tip {
    hash: BlockHash([3; 32]),
    height: 3,
};

/// The verdict on a block.
type Outcome = Result<BlockUndo, Reject>;

/// A block of the chain, the events beside it, and its verdict in the plain run.
struct Case {
    planned: Planned,
    beside: [Beside; 4],
    /// Whether the store fails all reads while the block is resolved for the first time.
    fails_reads: bool,
    /// Whether its fetches are abandoned.
    gives_up: bool,
    /// Number of blocks that are disconnected after it.
    disconnected: usize,
    expected: Outcome,
}

/// An event beside a block.
#[derive(Debug, Clone, Copy)]
enum Beside {
    Nothing,
    /// A flush begins, and waits at the gate.
    Freeze,
    /// A flush begins, and the gate is open.
    Begin,
    /// A flush runs to its end in place.
    InPlace,
    /// The gate opens.
    Open,
    /// The gate opens, and the flush ends.
    Finish,
    /// Reads ahead return only when the next fetches are finished.
    HoldReads,
    /// Reads fail until the next fetches are finished.
    FailReads,
}

impl Beside {
    fn of(choice: u8) -> Self {
        match choice % 8 {
            1 => Self::Freeze,
            2 => Self::Begin,
            3 => Self::InPlace,
            4 => Self::Open,
            5 => Self::Finish,
            6 => Self::HoldReads,
            7 => Self::FailReads,
            _ => Self::Nothing,
        }
    }
}

fn resolve(
    planned: &Planned,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    let median_time_past = |height: u32| height * SPACING;
    let context = ConnectContext {
        params: &PARAMS,
        height: planned.height,
        flags: block_script_flags(&PARAMS, planned.height, &planned.block.hash()),
        overwriting: planned.overwriting,
        median_times: Some(MedianTimes {
            parent: median_time_past(planned.height - 1),
            at_height: &median_time_past,
        }),
        legacy_sigops: &planned.legacy_sigops,
    };
    resolve::apply(&planned.block, &context, absent_at, cache)
}

/// Resolves a block in lanes. None: something is odd, and the cache is as it was.
fn resolve_in_lanes(
    planned: &Planned,
    absent_at: Option<FlushEpoch>,
    pool: &ThreadPool,
    cache: &mut CoinsCache,
) -> Option<BlockUndo> {
    let median_time_past = |height: u32| height * SPACING;
    let outline = Outline::new(&planned.block, cache.hash_key());
    let block = WindowBlock {
        block: &planned.block,
        outline: &outline,
        context: ConnectContext {
            params: &PARAMS,
            height: planned.height,
            flags: block_script_flags(&PARAMS, planned.height, &planned.block.hash()),
            overwriting: Overwriting::Allowed,
            median_times: Some(MedianTimes {
                parent: median_time_past(planned.height - 1),
                at_height: &median_time_past,
            }),
            legacy_sigops: &planned.legacy_sigops,
        },
        must_be_new: MustBeNew::Yes(absent_at),
    };
    let dealing = Dealing {
        pool,
        jobs: 2,
        spent_bytes_max: usize::MAX,
        magic: PARAMS.magic(),
    };
    let WindowOutcome::Judged(judged) = resolve_window(&[block], cache, dealing, &|_, _, _| ()) else {
        return None;
    };
    judged.into_iter().next().map(|judged| judged.undo)
}

fn disconnect(block: &Block, undo: &BlockUndo, cache: &mut CoinsCache) -> bool {
    resolve::disconnect(block, undo, block.transaction_count(), cache).expect("the store can be read")
}

fn all_coins(cache: &CoinsCache) -> Vec<(OutPoint, Coin)> {
    let coins: Result<_, _> = cache.coins().expect("a list").collect();
    coins.expect("the store can be read")
}

/// Writes the coins before the first block into a store, if there are any.
fn fill(store: &dyn CoinStore, with_coins: bool) {
    if with_coins {
        let coins = first_coins().into_iter().map(|(outpoint, coin)| (outpoint, Some(coin)));
        store
            .commit(&coins.collect::<Vec<OwnedChange>>(), &TIP)
            .expect("memory can be written");
    }
}

/// The plain run: makes the chain with the verdict on each block, and returns the coins at the end.
fn plan(input: &mut Input<'_>, flags: u8) -> (Vec<Case>, Vec<(OutPoint, Coin)>) {
    let with_coins = flags & 2 == 0;
    let store = Arc::new(MemoryStore::new());
    fill(&*store, with_coins);
    let mut cache = CoinsCache::new(store, LIMITS[3]);
    let mut world = World::new(if flags & 4 == 0 { 1 } else { 60 }, with_coins);
    let mut cases: Vec<Case> = Vec::new();
    // Connected blocks, each with the world before it.
    let mut connected: Vec<(usize, World)> = Vec::new();
    while cases.len() < BLOCKS_MAX && !input.is_empty() {
        let beside = input.array::<4>().map(Beside::of);
        let more = input.u8();
        let before = world.clone();
        let planned = world.next_block(input);
        let expected = match resolve(&planned, None, &mut cache) {
            Ok(undo) => {
                connected.push((cases.len(), before));
                Ok(undo)
            }
            Err(ResolveError::Reject(reject)) => {
                // The next block may have the same height.
                world = before;
                Err(reject)
            }
            Err(error) => panic!("a store in memory has failed: {error}"),
        };
        let disconnected = if more & 0x30 == 0x30 { usize::from(more >> 6) } else { 0 };
        let disconnected = disconnected.min(connected.len());
        cases.push(Case {
            planned,
            beside,
            fails_reads: more & 3 == 3,
            gives_up: more & 0xc == 0xc,
            disconnected,
            expected,
        });
        for (index, before) in connected.split_off(connected.len() - disconnected).into_iter().rev() {
            let Case { planned, expected, .. } = &cases[index];
            let undo = expected.as_ref().expect("a connected block has undo data");
            disconnect(&planned.block, undo, &mut cache);
            world = before;
        }
    }
    (cases, all_coins(&cache))
}

/// The fetches of a block.
struct Fetches {
    inputs: Option<Fetch>,
    outputs: Option<Fetch>,
}

/// The run with fetches and flushes.
struct FetchingRun {
    store: Arc<GatedStore>,
    cache: CoinsCache,
    fetcher: Fetcher,
    /// Where blocks are resolved in lanes, if they are.
    lanes: Option<&'static ThreadPool>,
    flushes: usize,
}

impl FetchingRun {
    fn new(flags: u8) -> Self {
        let store = Arc::new(GatedStore::default());
        fill(&*store, flags & 2 == 0);
        let limit = LIMITS[usize::from(flags >> 4 & 3)];
        let cache = CoinsCache::new(Arc::<GatedStore>::clone(&store), limit);
        let pool = &POOLS[usize::from(flags & 1)];
        let below = Arc::<GatedStore>::clone(&store);
        Self {
            lanes: (flags & 8 == 0).then_some(pool),
            fetcher: Fetcher::new(pool, 0, below, cache.flush_clock(), &FETCHER),
            cache,
            store,
            flushes: 0,
        }
    }

    fn beside(&mut self, beside: Beside) {
        let begins = matches!(beside, Beside::Freeze | Beside::Begin | Beside::InPlace);
        if begins && (self.cache.is_flushing() || self.flushes == FLUSHES_MAX) {
            return;
        }
        self.flushes += usize::from(begins);
        match beside {
            Beside::Nothing => {}
            Beside::Freeze | Beside::Begin => {
                if matches!(beside, Beside::Freeze) {
                    self.store.close(Ending::Well);
                }
                self.cache
                    .begin_flush(&TIP, || Ok(()))
                    .expect("a thread can be started");
            }
            Beside::InPlace => self.cache.flush(&TIP, || Ok(())).expect("memory can be written"),
            Beside::Open => self.store.open(),
            Beside::Finish => self.finish_flush(),
            Beside::HoldReads => self.store.hold_reads(),
            Beside::FailReads => self.store.fail_reads(true),
        }
    }

    fn finish_flush(&mut self) {
        self.store.open();
        self.cache.finish_flush().expect("memory can be written");
    }

    /// Begins the fetches of a loaded block, as the engine does.
    fn begin_fetches(&self, planned: &Planned, resolved: u32) -> Fetches {
        for transaction in planned.block.transactions() {
            MADE.note(&transaction.txid(), planned.height);
        }
        if !self.cache.may_miss() {
            return Fetches {
                inputs: None,
                outputs: None,
            };
        }
        let inputs = BlockInputs {
            block: Arc::clone(&planned.block),
            resolved,
            made: Arc::clone(&MADE),
            view: self.cache.view(),
        };
        let outputs = (planned.overwriting == Overwriting::Forbidden).then(|| BlockOutputs(Arc::clone(&planned.block)));
        Fetches {
            inputs: Some(self.fetcher.begin(inputs)),
            outputs: outputs.map(|outputs| self.fetcher.begin(outputs)),
        }
    }

    /// Ends the fetches of a block before it is resolved, as the engine does.
    fn finish_fetches(&mut self, fetches: Fetches) -> Option<FlushEpoch> {
        let found = fetches.inputs?.finish().coins;
        let outputs = fetches.outputs.map(Fetch::finish);
        for fetched in &found {
            self.cache
                .insert_if_fresh_read(&fetched.outpoint, &fetched.coin, fetched.read_epoch);
        }
        let outputs = outputs.filter(|outputs| outputs.complete && outputs.coins.is_empty());
        outputs.map(|outputs| outputs.begin_epoch)
    }

    /// Resolves a block; tries again if the store fails.
    fn resolve(&mut self, case: &Case, absent_at: Option<FlushEpoch>) -> Outcome {
        self.store.fail_reads(case.fails_reads);
        if let Some(pool) = self.lanes
            && case.planned.overwriting == Overwriting::Forbidden
            && let Some(undo) = resolve_in_lanes(&case.planned, absent_at, pool, &mut self.cache)
        {
            self.store.fail_reads(false);
            return Ok(undo);
        }
        let mut outcome = resolve(&case.planned, absent_at, &mut self.cache);
        if matches!(outcome, Err(ResolveError::Store(_))) {
            assert!(case.fails_reads, "the store fails unasked");
            self.store.fail_reads(false);
            outcome = resolve(&case.planned, absent_at, &mut self.cache);
        }
        self.store.fail_reads(false);
        match outcome {
            Ok(undo) => Ok(undo),
            Err(ResolveError::Reject(reject)) => Err(reject),
            Err(error) => panic!("the block is half resolved: {error}"),
        }
    }

    /// Runs the chain.
    fn run(&mut self, cases: &[Case], window: usize) {
        let mut prefetched = VecDeque::new();
        let mut connected: Vec<&Case> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            while prefetched.len() < window && index + prefetched.len() < cases.len() {
                let next = &cases[index + prefetched.len()];
                self.beside(next.beside[0]);
                let resolved = connected.last().map_or(0, |case| case.planned.height);
                prefetched.push_back(self.begin_fetches(&next.planned, resolved));
            }
            self.beside(case.beside[1]);
            self.store.release_reads();
            let fetches = prefetched.pop_front().filter(|_| !case.gives_up);
            let absent_at = fetches.and_then(|fetches| self.finish_fetches(fetches));
            self.beside(case.beside[2]);
            let outcome = self.resolve(case, absent_at);
            assert_eq!(outcome, case.expected, "block {index}");
            if outcome.is_ok() {
                connected.push(case);
            }
            self.beside(case.beside[3]);
            if case.disconnected > 0 {
                self.store.fail_reads(false);
            }
            for case in connected
                .split_off(connected.len() - case.disconnected)
                .into_iter()
                .rev()
            {
                let undo = case.expected.as_ref().expect("a connected block has undo data");
                disconnect(&case.planned.block, undo, &mut self.cache);
            }
        }
        self.store.release_reads();
        self.store.fail_reads(false);
    }

    /// Checks that exactly these coins are in the cache, now and after the flush under way, and in
    /// the store after one more flush.
    fn check(&mut self, expected: &[(OutPoint, Coin)]) {
        if self.cache.is_flushing() {
            assert_eq!(all_coins(&self.cache), expected);
            self.finish_flush();
        }
        assert_eq!(all_coins(&self.cache), expected);
        self.cache.flush(&TIP, || Ok(())).expect("memory can be written");
        let stored: Result<Vec<_>, _> = self.store.coins().expect("a list").collect();
        assert_eq!(stored.expect("memory can be read"), expected);
    }
}

/// Makes the chain that the bytes describe, and resolves it twice.
///
/// # Panics
/// If the outcomes differ.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    let window = usize::from(flags >> 6) + 1;
    let (cases, expected) = plan(&mut input, flags);
    let mut run = FetchingRun::new(flags);
    run.run(&cases, window);
    run.check(&expected);
    for case in &cases {
        for transaction in case.planned.block.transactions() {
            // No block of the next input makes this transaction.
            MADE.note(&transaction.txid(), 0);
        }
    }
}

//! A chain resolved with fetches, flushes and shards as in the engine, beside the rules over a plain
//! map of coins.
//!
//! Four bytes of the input (`Beside`) name what happens beside each block: when its fetches begin,
//! when they end, when the block is resolved, and after that. Up to four blocks are loaded ahead,
//! as in the engine. Each notes its transactions, and its fetches see the cache of that moment.
//!
//! Loaded blocks are resolved together, as a window in shards. A window ends where blocks are
//! disconnected, and where the input says so.

use crate::flushes::limit_for;
use crate::gated_store::{Ending, GatedStore};
use crate::input::Input;
use crate::plain::{self, PlainCoins};
use crate::windows::resolve;
use crate::world::{BLOCKS_MAX, Planned, World, first_coins};
use blockmill_block::{BlockHash, BlockUndo, Coin, OutPoint};
use blockmill_coins::{CoinStore, CoinsCache, FlushEpoch, OwnedChange, Tip};
use blockmill_engine::pipeline::inputs::{BlockInputs, BlockOutputs};
use blockmill_engine::pipeline::outline::Outline;
use blockmill_engine::pipeline::shards::{WindowOutcome, disconnect};
use blockmill_engine::pipeline::upcoming::UpcomingTxids;
use blockmill_fetch::{Fetch, Fetcher, Options};
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use blockmill_rules::connect::Overwriting;
use blockmill_rules::{COINBASE_MATURITY, Reject};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, LazyLock};

/// Pools with one worker and with two. All inputs share them.
static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| {
    [1, 2].map(|workers| ThreadPool::new(&ThreadPoolOptions::workers(workers)).expect("threads can be started"))
});

/// Transactions of the blocks ahead. They only decide what is read ahead, so entries left from
/// other inputs are harmless.
static UPCOMING: LazyLock<Arc<UpcomingTxids>> = LazyLock::new(Arc::default);

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
    /// Whether its window has no block before it.
    begins_window: bool,
    /// Whether its window has no block after it.
    ends_window: bool,
    /// Jobs that shards are put into, if a window begins with it.
    jobs: usize,
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
    /// A flush runs to its end in the foreground.
    Foreground,
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
            3 => Self::Foreground,
            4 => Self::Open,
            5 => Self::Finish,
            6 => Self::HoldReads,
            7 => Self::FailReads,
            _ => Self::Nothing,
        }
    }
}

/// Number of the first cases that are resolved together.
fn window_length(cases: &[Case]) -> usize {
    let ended = cases.iter().position(|case| case.ends_window || case.disconnected > 0);
    let cases = &cases[..ended.map_or(cases.len(), |last| last + 1)];
    let next = cases.iter().skip(1).position(|case| case.begins_window);
    let cases = &cases[..next.map_or(cases.len(), |number| number + 1)];
    // As in the engine. Then no block of a window spends a coinbase of the window, and a block that
    // may overwrite coinbases leaves nothing below a coin that the window spends.
    let first = cases[0].planned.height;
    let fits = |case: &&Case| case.planned.height.abs_diff(first) < COINBASE_MATURITY;
    cases.iter().take_while(fits).count()
}

/// A block repeats a transaction of its own or of an earlier block, which no real chain can have
/// where BIP 30 is not checked. The engine has no verdict on it, and the run ends.
struct Repeated;

/// Whether no two blocks have a transaction in common. Shards are sure of all valid windows then.
fn is_without_repeats(cases: &[Case]) -> bool {
    let mut seen = HashSet::new();
    let mut transactions = cases.iter().flat_map(|case| case.planned.block.transactions());
    transactions.all(|transaction| seen.insert(transaction.txid()))
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
    let mut coins: PlainCoins = with_coins.then(first_coins).into_iter().flatten().collect();
    let mut world = World::new(if flags & 4 == 0 { 1 } else { 60 }, with_coins);
    let mut cases: Vec<Case> = Vec::new();
    // Connected blocks, each with the world before it.
    let mut connected: Vec<(usize, World)> = Vec::new();
    while cases.len() < BLOCKS_MAX && !input.is_empty() {
        let beside = input.array::<4>().map(Beside::of);
        let more = input.u8();
        let before = world.clone();
        let planned = world.next_block(input);
        let expected = plain::connect(&planned, &mut coins);
        match &expected {
            Ok(_) => connected.push((cases.len(), before)),
            // The next block may have the same height.
            Err(_) => world = before,
        }
        let disconnected = if more & 0x30 == 0x30 { usize::from(more >> 6) } else { 0 };
        let disconnected = disconnected.min(connected.len());
        cases.push(Case {
            planned,
            beside,
            fails_reads: more & 3 == 3,
            gives_up: more & 0xc == 0xc,
            // The good blocks beside a bad one can be valid windows then.
            begins_window: more & 0x20 != 0 && expected.is_err(),
            ends_window: more & 0x30 == 0x10 || (more & 0x20 != 0 && expected.is_err()),
            jobs: [64, 1, 2, 64][usize::from(more >> 6)],
            disconnected,
            expected,
        });
        for (index, before) in connected.split_off(connected.len() - disconnected).into_iter().rev() {
            let Case { planned, expected, .. } = &cases[index];
            let undo = expected.as_ref().expect("a connected block has undo data");
            plain::disconnect(planned, undo, &mut coins);
            world = before;
        }
    }
    (cases, coins.into_iter().collect())
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
    /// The threads that blocks are dealt out to; without them this one resolves each by itself.
    shards: Option<&'static ThreadPool>,
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
            shards: (flags & 8 == 0).then_some(pool),
            fetcher: Fetcher::new(pool, 0, below, cache.flush_clock(), &FETCHER),
            cache,
            store,
            flushes: 0,
        }
    }

    fn beside(&mut self, beside: Beside) {
        let begins = matches!(beside, Beside::Freeze | Beside::Begin | Beside::Foreground);
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
            Beside::Foreground => self.cache.flush(&TIP, || Ok(())).expect("memory can be written"),
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
            UPCOMING.note(&transaction.txid(), planned.height);
        }
        if !self.cache.may_miss() {
            return Fetches {
                inputs: None,
                outputs: None,
            };
        }
        let outline = Arc::new(Outline::new(&planned.block, self.cache.hash_key()));
        let inputs = BlockInputs {
            outline: Arc::clone(&outline),
            resolved,
            upcoming: Arc::clone(&UPCOMING),
            view: self.cache.view(),
        };
        let outputs = (planned.overwriting == Overwriting::Forbidden).then(|| BlockOutputs(outline));
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
                .insert_if_fresh_read(&fetched.at, &fetched.coin, fetched.read_epoch);
        }
        let outputs = outputs.filter(|outputs| outputs.complete && outputs.coins.is_empty());
        outputs.map(|outputs| outputs.begin_epoch)
    }

    /// Resolves a window, or each of its blocks if that is odd.
    fn resolve_window(
        &mut self,
        window: &[Case],
        absent_at: &[Option<FlushEpoch>],
        is_without_repeats: bool,
    ) -> Result<Vec<Outcome>, Repeated> {
        if self.shards.is_some() && window.len() > 1 {
            let fails_reads = window.iter().any(|case| case.fails_reads);
            self.store.fail_reads(fails_reads);
            let planned: Vec<&Planned> = window.iter().map(|case| &case.planned).collect();
            let undo = resolve(&planned, absent_at, window[0].jobs, self.shards, &mut self.cache);
            self.store.fail_reads(false);
            match undo {
                Ok(undo) => return Ok(undo.into_iter().map(Ok).collect()),
                Err(WindowOutcome::Odd) => {}
                Err(other) => panic!("of several blocks: {other:?}"),
            }
            let is_valid = window.iter().all(|case| case.expected.is_ok());
            assert!(
                fails_reads || !is_valid || !is_without_repeats,
                "shards are not sure of a valid window"
            );
        }
        let blocks = window.iter().zip(absent_at);
        blocks
            .map(|(case, &absent_at)| self.resolve(case, absent_at, is_without_repeats))
            .collect()
    }

    /// Resolves a block; tries again if the store fails.
    fn resolve(
        &mut self,
        case: &Case,
        absent_at: Option<FlushEpoch>,
        is_without_repeats: bool,
    ) -> Result<Outcome, Repeated> {
        self.store.fail_reads(case.fails_reads);
        let mut once = || resolve(&[&case.planned], &[absent_at], case.jobs, self.shards, &mut self.cache);
        let mut outcome = once();
        if matches!(outcome, Err(WindowOutcome::Failed(_))) {
            assert!(case.fails_reads, "the store fails unasked");
            self.store.fail_reads(false);
            outcome = once();
        }
        self.store.fail_reads(false);
        match outcome {
            Ok(mut undo) => Ok(Ok(undo.remove(0))),
            Err(WindowOutcome::Rejected(reject)) => Ok(Err(reject)),
            Err(WindowOutcome::Contradiction) if !is_without_repeats => Err(Repeated),
            Err(other) => panic!("of one block: {other:?}"),
        }
    }

    /// Runs the chain, with up to `ahead` blocks loaded.
    fn run(&mut self, cases: &[Case], ahead: usize) -> Result<(), Repeated> {
        let is_without_repeats = is_without_repeats(cases);
        let mut prefetched = VecDeque::new();
        let mut connected: Vec<&Case> = Vec::new();
        let mut done = 0;
        while done < cases.len() {
            while prefetched.len() < ahead && done + prefetched.len() < cases.len() {
                let next = &cases[done + prefetched.len()];
                self.beside(next.beside[0]);
                let resolved = connected.last().map_or(0, |case| case.planned.height);
                prefetched.push_back(self.begin_fetches(&next.planned, resolved));
            }
            let loaded = &cases[done..done + prefetched.len()];
            let window = &loaded[..window_length(loaded)];
            let mut absent_at = Vec::new();
            for case in window {
                self.beside(case.beside[1]);
                self.store.release_reads();
                let fetches = prefetched.pop_front().filter(|_| !case.gives_up);
                absent_at.push(fetches.and_then(|fetches| self.finish_fetches(fetches)));
                self.beside(case.beside[2]);
            }
            let outcomes = self.resolve_window(window, &absent_at, is_without_repeats)?;
            for (number, (case, outcome)) in window.iter().zip(outcomes).enumerate() {
                assert_eq!(outcome, case.expected, "block {}", done + number);
                if outcome.is_ok() {
                    connected.push(case);
                }
                self.beside(case.beside[3]);
            }
            done += window.len();
            self.disconnect_last(window, &mut connected);
        }
        self.store.release_reads();
        self.store.fail_reads(false);
        Ok(())
    }

    /// Disconnects the blocks that are to be disconnected after a window.
    fn disconnect_last(&mut self, window: &[Case], connected: &mut Vec<&Case>) {
        let count = window.last().map_or(0, |case| case.disconnected);
        if count > 0 {
            self.store.fail_reads(false);
        }
        for case in connected.split_off(connected.len() - count).into_iter().rev() {
            let undo = case.expected.as_ref().expect("a connected block has undo data");
            let outline = Outline::new(&case.planned.block, self.cache.hash_key());
            disconnect(&case.planned.block, &outline, undo, &mut self.cache).expect("the store can be read");
        }
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
    let ahead = usize::from(flags >> 6) + 1;
    let (cases, expected) = plan(&mut input, flags);
    let mut run = FetchingRun::new(flags);
    if run.run(&cases, ahead).is_ok() {
        run.check(&expected);
    }
    for case in &cases {
        for transaction in case.planned.block.transactions() {
            // No block of the next input makes this transaction.
            UPCOMING.note(&transaction.txid(), 0);
        }
    }
}

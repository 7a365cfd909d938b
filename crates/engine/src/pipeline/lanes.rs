//! The blocks of a window are resolved in lanes, by all threads.
//!
//! Whether a coin is there at a place in the chain depends on the events of its outpoint alone. So
//! events are dealt out by outpoint. Each lane goes through its events of the window, in the order
//! of the chain, whatever the other lanes do. Then each block is judged by itself, with the coins
//! that the lanes have found.
//!
//! A lane makes the coins of the window first, in a table of its own. A spend looks there first,
//! and takes only a coin that was made before it, and not yet spent: then the coin never enters the
//! cache. What is left in the table enters it at the end.
//!
//! Lanes and judges say "valid" or nothing. Everything else is *odd*: a coin that is missing, or
//! made twice, or there already, a broken rule, an error of the store, a panic. Then all lanes take
//! back what they have done, and the serial code (`resolve`) says what is wrong, if anything is.

use crate::pipeline::outline::{Create, Outline, Spend};
use blockmill_block::undo::write_record;
use blockmill_block::{Block, BlockUndo, Coins, Magic, OutPoint, Transaction};
use blockmill_coins::{CoinsCache, HashedOutPoint, LANES, Lane, LaneLog, Lanes, MustBeNew, Overwrite, StoreError};
use blockmill_pool::{ThreadPool, contain};
use blockmill_rules::connect::{BlockCoins, ConnectContext, Overwriting, Spent, connect_block};
use std::convert::Infallible;
use std::time::Instant;

/// Searches of a lane that overlap.
const TOGETHER: usize = 16;

/// A block of a window.
pub struct WindowBlock<'w> {
    /// The block.
    pub block: &'w Block,
    /// Its events, under the key of the cache.
    pub outline: &'w Outline,
    /// Its place in the chain. Whether it may overwrite coins is said by `must_be_new`.
    pub context: ConnectContext<'w>,
    /// What must hold for the coins that it makes.
    pub must_be_new: MustBeNew,
}

/// A block that keeps all rules but those of its scripts, which have not run.
#[derive(Debug)]
pub struct Judged {
    /// The coins that it spends.
    pub undo: BlockUndo,
    /// Its undo data as a record.
    pub record: Vec<u8>,
}

/// How a window is dealt out.
#[derive(Debug, Clone, Copy)]
pub struct Dealing<'p> {
    /// The threads.
    pub pool: &'p ThreadPool,
    /// Jobs that the lanes are put into.
    pub jobs: usize,
    /// The network's magic, for records.
    pub magic: Magic,
    /// What a test breaks.
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
}

/// A fault that a test plants, to show that it is found.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A lane leaves a coin that it has spent in the cache.
    DropsSpend,
    /// A judge takes coins from the wrong lane.
    SwapsLanes,
    /// A coin of the window is spent twice.
    SpendsTwice,
    /// A coin of the window is spent by the transaction that makes it, or before.
    SeesTooEarly,
    /// A spend is not taken back.
    ForgetsToTakeBack,
    /// Nobody looks whether a coin is there already.
    OverwritesUnasked,
}

#[cfg(test)]
mod tests;

/// Spends and makes the coins of the blocks of a window, and judges the blocks by all rules but
/// their scripts. None: something is odd, and the cache has the coins that it had before. `done` is
/// told of each job with its block, or with none for a lane's, and the moments of its begin and
/// end.
pub fn resolve_window(
    window: &[WindowBlock<'_>],
    cache: &mut CoinsCache,
    dealing: Dealing<'_>,
    done: &(dyn Fn(Option<usize>, Instant, Instant) + Sync),
) -> Option<Vec<Judged>> {
    let lanes = cache.lanes();
    let mut outcomes: Vec<LaneOutcome> = (0..LANES).map(LaneOutcome::new).collect();
    #[cfg(test)]
    for outcome in &mut outcomes {
        outcome.fault = dealing.fault;
    }
    let timed = |block: Option<usize>, job: &mut dyn FnMut()| {
        let start = Instant::now();
        job();
        done(block, start, Instant::now());
    };
    let per_job = LANES.div_ceil(dealing.jobs.clamp(1, LANES));
    dealing.pool.scope(|scope| {
        for together in outcomes.chunks_mut(per_job) {
            let (lanes, timed) = (&lanes, &timed);
            scope.spawn(move || {
                timed(None, &mut || {
                    for outcome in &mut *together {
                        outcome.is_odd |= contain(|| outcome.run(lanes, window)).is_err();
                    }
                });
            });
        }
    });
    let mut judged: Vec<Option<Judged>> = window.iter().map(|_| None).collect();
    if outcomes.iter().all(|outcome| !outcome.is_odd) {
        let outcomes = &outcomes;
        dealing.pool.scope(|scope| {
            for (number, judged) in judged.iter_mut().enumerate() {
                let timed = &timed;
                scope.spawn(move || {
                    timed(Some(number), &mut || {
                        *judged = contain(|| judge(number, window, outcomes, dealing.magic)).unwrap_or(None);
                    });
                });
            }
        });
    }
    let judged: Option<Vec<Judged>> = judged.into_iter().collect();
    if judged.is_none() {
        for outcome in &mut outcomes {
            outcome.take_back(&lanes, window);
        }
    }
    cache.end_lanes(outcomes.iter().map(|outcome| &outcome.log));
    judged
}

/// A coin that a lane makes in the window.
#[derive(Debug, Clone, Copy)]
struct Made {
    hash: u64,
    /// Number of its block in the window.
    block: u32,
    /// Number among those that the block makes in the lane.
    number: u32,
    is_spent: bool,
}

/// What a lane has done.
#[derive(Debug)]
struct LaneOutcome {
    lane: usize,
    /// Something is not certain.
    is_odd: bool,
    /// With all coins that the window spends in the lane, in the order of the chain.
    log: LaneLog,
    /// Where those of each block begin.
    starts: Vec<usize>,
    /// All coins that the window makes in the lane, in the order of the chain.
    made: Vec<Made>,
    /// How many of them were looked at for the cache.
    settled: usize,
    #[cfg(test)]
    fault: Option<Fault>,
}

/// The coins that are made in a window, by their hashes: numbers from 1.
struct Table {
    slots: Vec<u32>,
    mask: usize,
}

impl Table {
    /// At most half of it is used.
    fn new(coins: usize) -> Self {
        let slots = (2 * coins).next_power_of_two();
        Self {
            slots: vec![0; slots],
            mask: slots - 1,
        }
    }
}

impl LaneOutcome {
    fn new(lane: usize) -> Self {
        Self {
            lane,
            is_odd: false,
            log: LaneLog::default(),
            starts: Vec::new(),
            made: Vec::new(),
            settled: 0,
            #[cfg(test)]
            fault: None,
        }
    }

    /// The event that makes a coin of the window.
    #[inline]
    fn create<'w>(&self, made: &Made, window: &[WindowBlock<'w>]) -> &'w Create {
        &window[made.block as usize].outline.creates(self.lane)[made.number as usize]
    }

    /// The slot of an outpoint, empty or not.
    #[inline]
    fn slot(&self, table: &Table, at: &HashedOutPoint, window: &[WindowBlock<'_>]) -> usize {
        let mut slot = at.hash() as usize & table.mask;
        loop {
            match table.slots[slot]
                .checked_sub(1)
                .map(|number| &self.made[number as usize])
            {
                None => return slot,
                Some(made) if made.hash == at.hash() && self.create(made, window).at == *at => return slot,
                Some(_) => slot = (slot + 1) & table.mask,
            }
        }
    }

    fn run(&mut self, lanes: &Lanes<'_>, window: &[WindowBlock<'_>]) {
        let outcome = self.try_run(lanes, window);
        // Errors of the store are met again, and named, by the serial code.
        self.is_odd = !matches!(outcome, Ok(true));
    }

    /// Returns false if something is odd.
    fn try_run(&mut self, lanes: &Lanes<'_>, window: &[WindowBlock<'_>]) -> Result<bool, StoreError> {
        let Some(table) = self.make(window) else {
            return Ok(false);
        };
        let mut lane = lanes.lane(self.lane);
        Ok(self.spend(&mut lane, &table, window)? && self.settle(&mut lane, window)?)
    }

    /// Puts all coins of the window into a table. None if an outpoint is made twice.
    fn make(&mut self, window: &[WindowBlock<'_>]) -> Option<Table> {
        let creates = |block: &WindowBlock<'_>| block.outline.creates(self.lane).len();
        let count = window.iter().map(creates).sum();
        let mut table = Table::new(count);
        self.made.reserve_exact(count);
        for (block, of) in (0..).zip(window) {
            for (number, create) in (0..).zip(of.outline.creates(self.lane)) {
                let slot = self.slot(&table, &create.at, window);
                if table.slots[slot] != 0 {
                    return None;
                }
                self.made.push(Made {
                    hash: create.at.hash(),
                    block,
                    number,
                    is_spent: false,
                });
                table.slots[slot] = self.made.len() as u32;
            }
        }
        Some(table)
    }

    /// Spends what the window spends.
    fn spend(&mut self, lane: &mut Lane<'_>, table: &Table, window: &[WindowBlock<'_>]) -> Result<bool, StoreError> {
        for (number, block) in (0..).zip(window) {
            self.starts.push(self.log.spent().len());
            for together in block.outline.spends(self.lane).chunks(TOGETHER) {
                let mut made = [0; TOGETHER];
                for (spend, made) in together.iter().zip(&mut made) {
                    *made = table.slots[self.slot(table, &spend.at, window)];
                    if *made == 0 {
                        lane.prefetch_word(spend.at.hash());
                    }
                }
                for (spend, made) in together.iter().zip(&made) {
                    if *made == 0 {
                        lane.prefetch_record(spend.at.hash());
                    }
                }
                for (spend, made) in together.iter().zip(&made) {
                    let is_spent = match made.checked_sub(1) {
                        Some(made) => self.spend_made(made as usize, (number, spend.transaction), window),
                        None => lane.spend(&spend.at, &mut self.log)?,
                    };
                    if !is_spent {
                        return Ok(false);
                    }
                    #[cfg(test)]
                    if self.fault == Some(Fault::DropsSpend) {
                        let last = self.log.spent().len() - 1;
                        lane.take_back_spend(&spend.at, last, &mut self.log);
                    }
                }
            }
        }
        self.starts.push(self.log.spent().len());
        Ok(true)
    }

    /// Spends a coin of the window. Returns false if it is spent, or not made before this place.
    #[inline]
    fn spend_made(&mut self, made: usize, place: (u32, u32), window: &[WindowBlock<'_>]) -> bool {
        let coin = self.made[made];
        let create = self.create(&coin, window);
        let is_spent = coin.is_spent;
        let is_before = (coin.block, create.transaction) < place;
        #[cfg(test)]
        let (is_spent, is_before) = (
            is_spent && self.fault != Some(Fault::SpendsTwice),
            is_before || self.fault == Some(Fault::SeesTooEarly),
        );
        if is_spent || !is_before {
            return false;
        }
        self.made[made].is_spent = true;
        let of = &window[coin.block as usize];
        self.log.push_elsewhere(create.coin(of.block, of.context.height));
        true
    }

    /// Puts the coins that are left into the cache.
    fn settle(&mut self, lane: &mut Lane<'_>, window: &[WindowBlock<'_>]) -> Result<bool, StoreError> {
        let needs_nothing = |made: &Made| made.is_spent && window[made.block as usize].must_be_new == MustBeNew::No;
        while self.settled < self.made.len() {
            let end = self.made.len().min(self.settled + TOGETHER);
            let together = &self.made[self.settled..end];
            for made in together.iter().filter(|made| !needs_nothing(made)) {
                lane.prefetch_word(made.hash);
            }
            while self.settled < end {
                let made = self.made[self.settled];
                if !needs_nothing(&made) && !self.settle_one(lane, &made, window)? {
                    return Ok(false);
                }
                self.settled += 1;
            }
        }
        Ok(true)
    }

    fn settle_one(&mut self, lane: &mut Lane<'_>, made: &Made, window: &[WindowBlock<'_>]) -> Result<bool, StoreError> {
        let of = &window[made.block as usize];
        let must_be_new = of.must_be_new;
        #[cfg(test)]
        let must_be_new = match self.fault {
            Some(Fault::OverwritesUnasked) => MustBeNew::No,
            _ => must_be_new,
        };
        let create = self.create(made, window);
        if made.is_spent {
            return lane.is_free(&create.at, must_be_new, &mut self.log);
        }
        // A coinbase may repeat an older one, in blocks from before BIP 30.
        let overwrite = match create.transaction {
            0 => Overwrite::Possible,
            _ => Overwrite::Impossible,
        };
        let coin = create.coin(of.block, of.context.height);
        lane.create(&create.at, coin, overwrite, must_be_new, &mut self.log)
    }

    /// Takes back everything, the last first.
    fn take_back(&mut self, lanes: &Lanes<'_>, window: &[WindowBlock<'_>]) {
        let mut lane = lanes.lane(self.lane);
        let settled = self.made[..self.settled].iter().rev();
        for made in settled.filter(|made| !made.is_spent) {
            let create = &window[made.block as usize].outline.creates(self.lane)[made.number as usize];
            lane.take_back_create(&create.at, &mut self.log);
        }
        let spends = window.iter().flat_map(|block| block.outline.spends(self.lane));
        let spent: Vec<&Spend> = spends.take(self.log.spent().len()).collect();
        for (number, spend) in spent.into_iter().enumerate().rev() {
            #[cfg(test)]
            if self.fault == Some(Fault::ForgetsToTakeBack) {
                continue;
            }
            lane.take_back_spend(&spend.at, number, &mut self.log);
        }
    }
}

/// Judges a block with the coins that the lanes have found. None if it breaks a rule.
fn judge(number: usize, window: &[WindowBlock<'_>], outcomes: &[LaneOutcome], magic: Magic) -> Option<Judged> {
    let WindowBlock {
        block,
        outline,
        context,
        ..
    } = &window[number];
    let first = block.input_range(0).end;
    // For each input the lane of its coin, and the coin's number there.
    let mut places = vec![(0u32, 0u32); block.input_count() - first];
    for outcome in outcomes {
        let start = outcome.starts[number] as u32;
        for (coin, spend) in (start..).zip(outline.spends(outcome.lane)) {
            places[spend.input as usize - first] = (outcome.lane as u32, coin);
        }
    }
    let mut undo = BlockUndo::with_capacity(places.len());
    for index in 1..block.transaction_count() {
        for input in block.input_range(index) {
            let (lane, coin) = places[input - first];
            #[cfg(test)]
            let lane = match outcomes[lane as usize].fault {
                Some(Fault::SwapsLanes) if outcomes[lane as usize ^ 1].log.spent().len() > coin as usize => lane ^ 1,
                _ => lane,
            };
            undo.push_coin(outcomes[lane as usize].log.spent().at(coin as usize));
        }
        undo.end_transaction();
    }
    let context = ConnectContext {
        // The lanes have seen to that.
        overwriting: Overwriting::Allowed,
        ..*context
    };
    let mut coins = FoundCoins { undo: &undo, index: 0 };
    connect_block(block, &context, &mut coins).ok()?;
    let mut record = Vec::with_capacity(undo.memory());
    write_record(magic, &block.header().prev_block_hash, &undo, &mut record);
    Some(Judged { undo, record })
}

/// The coins of a block that the lanes have found.
struct FoundCoins<'a> {
    undo: &'a BlockUndo,
    /// The transaction whose coins were spent last.
    index: usize,
}

impl BlockCoins for FoundCoins<'_> {
    type Error = Infallible;

    fn contains(&mut self, _: &OutPoint) -> Result<bool, Infallible> {
        Ok(false)
    }

    fn spend(&mut self, index: usize, _: &Transaction<'_>) -> Result<Spent, Infallible> {
        self.index = index;
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        self.undo.transaction(self.index - 1)
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

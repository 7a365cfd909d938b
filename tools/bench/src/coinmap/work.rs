//! The operations of a coins cache on its map, one kind after the other; and how a map grows.

use super::coins::{Batch, Numbers, outpoint};
use super::maps::{Map, Tally};
use blockmill_block::OutPoint;
use blockmill_harness::coins::value;
use blockmill_harness::{Failure, Run, same, status_bytes, thread_cpu_seconds, timed};
use std::hint::black_box;

/// Coins of a block: the operations between two readings of the clock.
const BLOCK: u64 = 5000;

/// Coins that a block of the mixed operations spends, and that it creates.
const SPENT: u64 = 2500;
const CREATED: u64 = 3000;

/// One spent coin in this many is of any age. The others are among the youngest.
const OLD_ONE_OF: u64 = 5;

/// One coin in this many counts as one of the youngest.
const YOUNG_PART: u64 = 100;

/// The figures: nanoseconds of an operation.
pub(super) const INSERT: &str = "insert_ns";
pub(super) const FIND: &str = "find_ns";
pub(super) const FIND_MANY: &str = "find_many_ns";
pub(super) const CONNECT: &str = "connect_ns";
pub(super) const ERASE: &str = "erase_ns";

/// Checks the content of a map.
fn expect(operation: &str, found: Tally, wanted: Tally) -> Result<(), Failure> {
    same(operation, "coins and the sum of their amounts", found, wanted)
}

fn tally(numbers: impl IntoIterator<Item = u64>) -> Tally {
    Tally::of(numbers.into_iter().map(|number| Some(value(number))))
}

/// Outpoints to look for, and what must be found.
#[derive(Default)]
struct Wanted {
    outpoints: Vec<OutPoint>,
    tally: Tally,
}

impl Wanted {
    fn add(&mut self, number: u64) {
        self.outpoints.push(outpoint(number));
        self.tally.add(Some(value(number)));
    }
}

/// A map under measurement.
struct Measured<M> {
    map: M,
    all: Run,
    /// Numbers of the coins in the map.
    live: Vec<u32>,
    numbers: Numbers,
}

/// Runs all operations on a map with `coins` coins. Finds and erasures are a quarter as many.
pub(super) fn run<M: Map>(coins: u64) -> Result<Run, Failure> {
    let mut measured = Measured {
        map: M::default(),
        all: Run::default(),
        // Allocated before memory is measured.
        live: Vec::with_capacity(coins as usize * 5 / 4),
        numbers: Numbers(coins),
    };
    measured.live.extend(0..coins as u32);
    measured.insert(coins)?;
    let finds = (coins / 4).max(BLOCK);
    measured.find(FIND, finds, M::find_each)?;
    measured.find(FIND_MANY, finds, M::find_many)?;
    measured.connect(coins)?;
    measured.erase(finds)?;
    Ok(measured.all)
}

impl<M: Map> Measured<M> {
    /// Adds the runs of an operation.
    fn add(&mut self, operation: &str, run: &Run) {
        self.all.add(run);
        let each = run.seconds * 1e9 / run.count as f64;
        self.all.figures.insert(operation.to_owned(), each);
    }

    /// Checks the whole content of the map.
    fn check(&self, operation: &str) -> Result<(), Failure> {
        let live = self.live.iter().map(|&number| u64::from(number));
        expect(operation, self.map.all(), tally(live))
    }

    fn insert(&mut self, coins: u64) -> Result<(), Failure> {
        let mut batch = Batch::default();
        batch.fill(0..BLOCK);
        let resident = status_bytes("VmRSS");
        let mut insert = Run::default();
        for start in (0..coins).step_by(BLOCK as usize) {
            // Coins are made between two measurements.
            batch.fill(start..(start + BLOCK).min(coins));
            let map = &mut self.map;
            let insertion = || batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
            insert.add(&timed(BLOCK.min(coins - start), insertion).1);
        }
        // The process did nothing else before, so its peak is that of the map.
        let peak = status_bytes("VmHWM").saturating_sub(resident);
        self.all = Run::default().with("bytes_each", peak as f64 / coins as f64);
        self.add(INSERT, &insert);
        self.check(INSERT)
    }

    fn find(&mut self, operation: &str, count: u64, find: fn(&mut M, &[OutPoint]) -> Tally) -> Result<(), Failure> {
        let mut all = Run::default();
        for _ in 0..count / BLOCK {
            let mut wanted = Wanted::default();
            (0..BLOCK).for_each(|_| wanted.add(self.numbers.below(self.live.len() as u64)));
            let (found, run) = timed(BLOCK, || find(&mut self.map, &wanted.outpoints));
            expect(operation, found, wanted.tally)?;
            all.add(&run);
        }
        self.add(operation, &all);
        Ok(())
    }

    /// Runs blocks that spend coins, mostly young ones, and create others.
    fn connect(&mut self, coins: u64) -> Result<(), Failure> {
        let mut all = Run::default();
        let mut batch = Batch::default();
        let mut next = coins;
        for _ in 0..(coins / 20_000).max(2) {
            let mut wanted = Wanted::default();
            for _ in 0..SPENT {
                let end = self.live.len() as u64;
                let index = match self.numbers.below(OLD_ONE_OF) {
                    0 => self.numbers.below(end),
                    _ => end - 1 - self.numbers.below((end / YOUNG_PART).max(1)),
                };
                // The youngest coin takes the free index.
                wanted.add(self.live.swap_remove(index as usize).into());
            }
            batch.fill(next..next + CREATED);
            self.live.extend((next..next + CREATED).map(|number| number as u32));
            next += CREATED;
            let map = &mut self.map;
            let (found, run) = timed(SPENT + CREATED, || {
                let mut take = |outpoint| black_box(map.take(outpoint)).map(|coin| coin.value);
                let found = Tally::of(wanted.outpoints.iter().map(&mut take));
                batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
                found
            });
            expect(CONNECT, found, wanted.tally)?;
            all.add(&run);
        }
        self.add(CONNECT, &all);
        self.check(CONNECT)
    }

    /// Erases live coins in random order.
    fn erase(&mut self, count: u64) -> Result<(), Failure> {
        let mut all = Run::default();
        for _ in 0..count / BLOCK {
            let mut wanted = Wanted::default();
            for _ in 0..BLOCK.min(self.live.len() as u64) {
                let index = self.numbers.below(self.live.len() as u64);
                wanted.add(self.live.swap_remove(index as usize).into());
            }
            let map = &mut self.map;
            let erasure = || Tally::of(wanted.outpoints.iter().map(|outpoint| map.erase(outpoint)));
            let (found, run) = timed(wanted.outpoints.len() as u64, erasure);
            expect(ERASE, found, wanted.tally)?;
            all.add(&run);
        }
        self.add(ERASE, &all);
        self.check(ERASE)
    }
}

/// The insertions while a map grew, in CPU seconds of their thread, the clock included.
#[derive(Default)]
struct Growth {
    longest: f64,
    all: f64,
}

impl Growth {
    fn time(&mut self, work: impl FnOnce()) {
        let before = thread_cpu_seconds();
        work();
        let took = thread_cpu_seconds() - before;
        self.longest = self.longest.max(took);
        self.all += took;
    }

    fn run(&self, count: u64) -> Run {
        let run = Run {
            seconds: self.all,
            cpu_seconds: self.all,
            count,
            ..Run::default()
        };
        run.with("longest_us", self.longest * 1e6)
    }
}

/// Bytes of our map for each coin, rounded.
const BYTES_EACH: u64 = 90;

/// Steps of arithmetic that take about half a microsecond.
const ARITHMETIC_STEPS: u32 = 200;

/// Measures this machine without a map: operations about as long as an insertion, on as many fresh
/// pages as a map of `coins` coins has. Each is timed as an insertion.
pub(super) fn touch_pages(coins: u64) -> Run {
    let mut memory = vec![0u8; (coins * BYTES_EACH) as usize];
    let mut growth = Growth::default();
    let mut value = 1u64;
    for offset in (0..memory.len()).step_by(BYTES_EACH as usize) {
        growth.time(|| {
            for _ in 0..ARITHMETIC_STEPS {
                value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
            }
            memory[offset] = value as u8;
        });
    }
    // So that no write is optimised away.
    black_box(memory);
    growth.run(coins)
}

/// Inserts `coins` coins, and reads the thread's clock before and after each.
pub(super) fn grow<M: Map>(coins: u64) -> Result<Run, Failure> {
    let mut map = M::default();
    let mut growth = Growth::default();
    let mut batch = Batch::default();
    for start in (0..coins).step_by(BLOCK as usize) {
        batch.fill(start..(start + BLOCK).min(coins));
        for (outpoint, coin) in batch.coins() {
            growth.time(|| map.insert(outpoint, coin));
        }
    }
    expect("growth", map.all(), tally(0..coins))?;
    Ok(growth.run(coins))
}

//! All operations of a coins cache on its map, one kind after the other; and how a map grows.

use super::coins::{Batch, Numbers, outpoint};
use super::maps::{Map, Tally};
use blockmill_block::OutPoint;
use blockmill_harness::coins::value;
use blockmill_harness::{Failure, Run, same, status_bytes, thread_cpu_seconds, timed};
use std::collections::BTreeMap;
use std::hint::black_box;

/// Coins of a block: the operations between two readings of the clock.
pub(super) const BLOCK: u64 = 5000;

/// Coins that a block of the mixed operations spends, and that it makes.
const SPENT: u64 = 2500;
const MADE: u64 = 3000;

/// One spent coin in this many is of any age. The others are among the youngest.
const OLD_ONE_OF: u64 = 5;

/// One coin in this many counts as one of the youngest.
const YOUNG_PART: u64 = 100;

/// The operations, in the order in which they run.
pub(super) const INSERT: &str = "insert";
pub(super) const FIND: &str = "find, one by one";
pub(super) const FIND_ABSENT: &str = "find, one by one, absent";
pub(super) const FIND_MANY: &str = "find, 5,000 at a time";
pub(super) const ITERATE: &str = "iterate";
pub(super) const MIX: &str = "as in block connection";
pub(super) const ERASE: &str = "erase";

pub(super) const OPERATIONS: [&str; 7] = [INSERT, FIND, FIND_ABSENT, FIND_MANY, ITERATE, MIX, ERASE];

/// The runs of the operations, by name.
pub(super) type Phases = BTreeMap<String, Run>;

/// Adds the time of `count` operations.
fn time<R>(phase: &mut Run, count: u64, work: impl FnOnce() -> R) -> R {
    let (result, run) = timed(count, work);
    phase.add(&run);
    result
}

/// Checks the content of a map.
pub(super) fn expect(operation: &str, found: Tally, wanted: Tally) -> Result<(), Failure> {
    same(operation, "coins and the sum of their amounts", found, wanted)
}

fn tally(numbers: impl IntoIterator<Item = u64>) -> Tally {
    let mut tally = Tally::default();
    numbers.into_iter().for_each(|number| tally.add(Some(value(number))));
    tally
}

/// Runs all operations on a map with `coins` coins. Finds and erasures are a quarter as many.
pub(super) fn run<M: Map>(coins: u64) -> Result<Phases, Failure> {
    // Allocated before memory is measured.
    let mut live: Vec<u32> = (0..coins as u32).collect();
    live.reserve(coins as usize / 4);
    let mut numbers = Numbers(coins);
    let mut phases = Phases::new();
    let mut add = |name: &str, run: Run| phases.insert(name.to_owned(), run);
    let (mut map, insert) = fill::<M>(coins)?;
    add(INSERT, insert);
    let finds = (coins / 4).max(BLOCK);
    add(
        FIND,
        find(&mut map, FIND, finds, |_| numbers.below(coins), M::find_each)?,
    );
    let absent = |number| coins * 2 + number;
    add(FIND_ABSENT, find(&mut map, FIND_ABSENT, finds, absent, M::find_each)?);
    add(
        FIND_MANY,
        find(&mut map, FIND_MANY, finds, |_| numbers.below(coins), M::find_many)?,
    );
    let (all, iterate) = timed(coins, || map.all());
    expect(ITERATE, all, tally(0..coins))?;
    add(ITERATE, iterate);
    add(MIX, mix(&mut map, &mut live, coins, &mut numbers)?);
    add(ERASE, erase(&mut map, live, finds, &mut numbers)?);
    Ok(phases)
}

fn fill<M: Map>(coins: u64) -> Result<(M, Run), Failure> {
    let mut batch = Batch::default();
    batch.fill(0..BLOCK);
    let resident = status_bytes("VmRSS");
    let mut map = M::default();
    let mut insert = Run::default();
    for start in (0..coins).step_by(BLOCK as usize) {
        let end = (start + BLOCK).min(coins);
        // Coins are made between two measurements.
        batch.fill(start..end);
        time(&mut insert, end - start, || {
            batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
        });
    }
    // The process did nothing else before, so its peak is that of the map.
    let peak = status_bytes("VmHWM").saturating_sub(resident);
    let each = |bytes: u64| bytes as f64 / coins as f64;
    let accounted = map.bytes().map(|bytes| each(bytes as u64));
    expect(INSERT, map.all(), tally(0..coins))?;
    Ok((
        map,
        insert
            .with("bytes_each", each(peak))
            .with("accounted_bytes_each", accounted),
    ))
}

/// Finds the coins of the numbers that `choose` gives. Numbers above the map's coins are absent.
fn find<M: Map>(
    map: &mut M,
    operation: &str,
    count: u64,
    mut choose: impl FnMut(u64) -> u64,
    find: impl Fn(&mut M, &[OutPoint]) -> Tally,
) -> Result<Run, Failure> {
    let mut phase = Run::default();
    let present = map.len() as u64;
    let mut outpoints = Vec::new();
    let (mut wanted, mut found) = (Tally::default(), Tally::default());
    for block in 0..count / BLOCK {
        outpoints.clear();
        for number in 0..BLOCK {
            let number = choose(block * BLOCK + number);
            outpoints.push(outpoint(number));
            wanted.add((number < present).then(|| value(number)));
        }
        found.merge(time(&mut phase, BLOCK, || find(map, &outpoints)));
    }
    expect(operation, found, wanted)?;
    Ok(phase)
}

/// Runs blocks that spend coins, mostly young ones, and make others.
fn mix<M: Map>(map: &mut M, live: &mut Vec<u32>, coins: u64, numbers: &mut Numbers) -> Result<Run, Failure> {
    let mut phase = Run::default();
    let mut batch = Batch::default();
    let mut outpoints = Vec::new();
    let mut next = coins;
    for _ in 0..(coins / 20_000).max(2) {
        outpoints.clear();
        let mut wanted = Tally::default();
        for _ in 0..SPENT {
            let end = live.len() as u64;
            let old = numbers.below(OLD_ONE_OF) == 0;
            let young = (end / YOUNG_PART).max(1);
            let index = if old {
                numbers.below(end)
            } else {
                end - 1 - numbers.below(young)
            };
            // The youngest coin takes the free index.
            let number = u64::from(live.swap_remove(index as usize));
            outpoints.push(outpoint(number));
            wanted.add(Some(value(number)));
        }
        batch.fill(next..next + MADE);
        live.extend((next..next + MADE).map(|number| number as u32));
        next += MADE;
        let found = time(&mut phase, SPENT + MADE, || {
            let mut tally = Tally::default();
            for outpoint in &outpoints {
                let coin = black_box(map.take(outpoint));
                tally.add(coin.map(|coin| coin.value));
            }
            batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
            tally
        });
        expect(MIX, found, wanted)?;
    }
    expect(MIX, map.all(), tally(live.iter().map(|&number| u64::from(number))))?;
    Ok(phase)
}

/// Erases live coins in random order.
fn erase<M: Map>(map: &mut M, mut live: Vec<u32>, count: u64, numbers: &mut Numbers) -> Result<Run, Failure> {
    let mut phase = Run::default();
    let mut outpoints = Vec::new();
    for _ in 0..count / BLOCK {
        outpoints.clear();
        let mut wanted = Tally::default();
        for _ in 0..BLOCK.min(live.len() as u64) {
            let index = numbers.below(live.len() as u64) as usize;
            let number = u64::from(live.swap_remove(index));
            outpoints.push(outpoint(number));
            wanted.add(Some(value(number)));
        }
        let found = time(&mut phase, outpoints.len() as u64, || {
            let mut tally = Tally::default();
            for outpoint in &outpoints {
                tally.add(map.erase(outpoint));
            }
            tally
        });
        expect(ERASE, found, wanted)?;
    }
    expect(ERASE, map.all(), tally(live.iter().map(|&number| u64::from(number))))?;
    Ok(phase)
}

/// The insertions while a map grew, in CPU seconds of their thread, the clock included.
#[derive(Default)]
struct Growth {
    longest: f64,
    over_1_ms: u32,
    all: f64,
}

impl Growth {
    fn time(&mut self, work: impl FnOnce()) {
        let before = thread_cpu_seconds();
        work();
        let took = thread_cpu_seconds() - before;
        self.longest = self.longest.max(took);
        self.over_1_ms += u32::from(took > 1e-3);
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
            .with("over_1_ms", f64::from(self.over_1_ms))
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

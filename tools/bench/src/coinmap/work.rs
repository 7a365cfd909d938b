//! The second table's work: all operations of a coins cache on its map, one kind after the other.

use super::allocator;
use super::coins::{Batch, Numbers, Scripts, outpoint, value};
use super::contenders::{Contender, Tally};
use super::memory::{resident_bytes, resident_peak_bytes, thread_cpu_ns};
use crate::clock::Stopwatch;
use crate::error::BenchError;
use blockmill_block::OutPoint;
use serde::{Deserialize, Serialize};
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

/// The time of one kind of operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) operation: String,
    pub(super) count: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Phase {
    pub(super) fn new(operation: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            count: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
        }
    }

    /// Adds the time of `count` operations.
    pub(super) fn time<R>(&mut self, count: u64, run: impl FnOnce() -> R) -> R {
        let clock = Stopwatch::start();
        let result = run();
        let elapsed = clock.elapsed();
        self.count += count;
        self.seconds += elapsed.seconds;
        self.cpu_seconds += elapsed.cpu_seconds;
        result
    }
}

/// The outcome of a run of all operations.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) phases: Vec<Phase>,
    /// Peak of memory while all coins were inserted, above the memory before the first.
    pub(super) peak_bytes: Option<u64>,
    /// Memory with all coins in the map: the map's own figure, and the allocator's.
    pub(super) accounted_bytes: Option<u64>,
    pub(super) allocator_bytes: Option<u64>,
}

/// Checks the content of a map.
pub(super) fn expect(operation: &str, found: Tally, wanted: Tally) -> Result<(), BenchError> {
    if found == wanted {
        return Ok(());
    }
    Err(BenchError::Mismatch {
        run: operation.to_owned(),
        what: "coins and the sum of their amounts",
        found: format!("{found:?}"),
        wanted: format!("{wanted:?}"),
    })
}

fn tally(numbers: impl IntoIterator<Item = u64>) -> Tally {
    let mut tally = Tally::default();
    numbers.into_iter().for_each(|number| tally.add(Some(value(number))));
    tally
}

/// Runs all operations on a map with `coins` coins. Finds and erasures are a quarter as many.
pub(super) fn run<C: Contender>(coins: u64) -> Result<Outcome, BenchError> {
    // Allocated before memory is measured.
    let mut live: Vec<u32> = (0..coins as u32).collect();
    live.reserve(coins as usize / 4);
    let mut numbers = Numbers(coins);
    let mut outcome = Outcome::default();
    let mut map = fill::<C>(coins, &mut outcome)?;
    let finds = (coins / 4).max(BLOCK);
    let mut phases = vec![
        find(&mut map, FIND, finds, |_| numbers.below(coins), C::find_each)?,
        find(&mut map, FIND_ABSENT, finds, |number| coins * 2 + number, C::find_each)?,
    ];
    phases.push(find(
        &mut map,
        FIND_MANY,
        finds,
        |_| numbers.below(coins),
        C::find_many,
    )?);
    let mut iterate = Phase::new(ITERATE);
    let all = iterate.time(coins, || map.all());
    expect(ITERATE, all, tally(0..coins))?;
    phases.push(iterate);
    phases.push(mix(&mut map, &mut live, coins, &mut numbers)?);
    phases.push(erase(&mut map, &live, finds, &mut numbers)?);
    outcome.phases.extend(phases);
    Ok(outcome)
}

/// Finds outpoints one by one, in the same way for each contender.
trait FindEach: Contender {
    fn find_each(&mut self, outpoints: &[OutPoint]) -> Tally {
        let mut tally = Tally::default();
        for outpoint in outpoints {
            tally.add(self.find(outpoint));
        }
        tally
    }
}

impl<C: Contender> FindEach for C {}

fn fill<C: Contender>(coins: u64, outcome: &mut Outcome) -> Result<C, BenchError> {
    let mut batch = Batch::default();
    batch.fill(0..BLOCK, Scripts::Mixed);
    let resident = resident_bytes();
    let in_use = allocator::bytes_in_use();
    let mut map = C::default();
    let mut insert = Phase::new(INSERT);
    let mut start = 0;
    while start < coins {
        let end = (start + BLOCK).min(coins);
        batch.fill(start..end, Scripts::Mixed);
        insert.time(end - start, || {
            batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
        });
        start = end;
    }
    outcome.peak_bytes = difference(resident_peak_bytes(), resident);
    outcome.allocator_bytes = difference(allocator::bytes_in_use(), in_use);
    outcome.accounted_bytes = map.bytes().map(|bytes| bytes as u64);
    outcome.phases.push(insert);
    expect(INSERT, map.all(), tally(0..coins))?;
    Ok(map)
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Finds the coins of the numbers that `choose` gives. Numbers above the map's coins are absent.
fn find<C: Contender>(
    map: &mut C,
    operation: &str,
    count: u64,
    mut choose: impl FnMut(u64) -> u64,
    find: impl Fn(&mut C, &[OutPoint]) -> Tally,
) -> Result<Phase, BenchError> {
    let mut phase = Phase::new(operation);
    let present = map.len() as u64;
    let mut outpoints = Vec::new();
    let mut wanted = Tally::default();
    let mut found = Tally::default();
    for block in 0..count / BLOCK {
        outpoints.clear();
        for number in 0..BLOCK {
            let number = choose(block * BLOCK + number);
            outpoints.push(outpoint(number));
            wanted.add((number < present).then(|| value(number)));
        }
        let here = phase.time(BLOCK, || find(map, &outpoints));
        found.count += here.count;
        found.value_sum = found.value_sum.wrapping_add(here.value_sum);
    }
    expect(operation, found, wanted)?;
    Ok(phase)
}

/// Runs blocks that spend coins, mostly young ones, and make others.
fn mix<C: Contender>(map: &mut C, live: &mut Vec<u32>, coins: u64, numbers: &mut Numbers) -> Result<Phase, BenchError> {
    let mut phase = Phase::new(MIX);
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
            let at = if old {
                numbers.below(end)
            } else {
                end - 1 - numbers.below(young)
            };
            // The youngest coin takes the free index.
            let number = u64::from(live.swap_remove(at as usize));
            outpoints.push(outpoint(number));
            wanted.add(Some(value(number)));
        }
        batch.fill(next..next + MADE, Scripts::Mixed);
        live.extend((next..next + MADE).map(|number| number as u32));
        next += MADE;
        let found = phase.time(SPENT + MADE, || {
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
fn erase<C: Contender>(map: &mut C, live: &[u32], count: u64, numbers: &mut Numbers) -> Result<Phase, BenchError> {
    let mut phase = Phase::new(ERASE);
    // A partial shuffle: only the coins to erase.
    let mut live = live.to_vec();
    let mut outpoints = Vec::new();
    for _ in 0..count / BLOCK {
        outpoints.clear();
        let mut wanted = Tally::default();
        for _ in 0..BLOCK.min(live.len() as u64) {
            let at = numbers.below(live.len() as u64) as usize;
            let number = u64::from(live.swap_remove(at));
            outpoints.push(outpoint(number));
            wanted.add(Some(value(number)));
        }
        let found = phase.time(outpoints.len() as u64, || {
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

/// The longest insertions while a map grew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Growth {
    /// The longest, in CPU time of its thread, the reading of the clock included.
    pub(super) longest_ns: u64,
    /// Number of insertions that took more than a millisecond.
    pub(super) over_1_ms: u64,
    /// The shortest, about the cost of reading the clock.
    pub(super) shortest_ns: u64,
}

impl Growth {
    fn record(&mut self, took_ns: u64) {
        self.longest_ns = self.longest_ns.max(took_ns);
        self.shortest_ns = self.shortest_ns.min(took_ns);
        self.over_1_ms += u64::from(took_ns > 1_000_000);
    }
}

/// Bytes of our map for each coin, rounded.
const BYTES_EACH: u64 = 90;

/// Steps of arithmetic that take about half a microsecond.
const ARITHMETIC_STEPS: u32 = 200;

/// Measures this machine without a map: operations about as long as an insertion, on as many fresh
/// pages as a map of `coins` coins has. Each is timed as an insertion.
pub(super) fn touch_pages(coins: u64) -> Growth {
    let mut memory = vec![0u8; (coins * BYTES_EACH) as usize];
    let mut growth = Growth {
        shortest_ns: u64::MAX,
        ..Growth::default()
    };
    let mut value = 1u64;
    for offset in (0..memory.len()).step_by(BYTES_EACH as usize) {
        let before = thread_cpu_ns();
        for _ in 0..ARITHMETIC_STEPS {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
        }
        memory[offset] = value as u8;
        growth.record(thread_cpu_ns() - before);
    }
    black_box(memory);
    growth
}

/// Inserts `coins` coins, and reads the thread's clock before and after each.
pub(super) fn grow<C: Contender>(coins: u64) -> Result<Growth, BenchError> {
    let mut map = C::default();
    let mut growth = Growth {
        shortest_ns: u64::MAX,
        ..Growth::default()
    };
    let mut batch = Batch::default();
    let mut start = 0;
    while start < coins {
        let end = (start + BLOCK).min(coins);
        batch.fill(start..end, Scripts::Mixed);
        for (outpoint, coin) in batch.coins() {
            let before = thread_cpu_ns();
            map.insert(outpoint, coin);
            let took = thread_cpu_ns() - before;
            growth.record(took);
        }
        start = end;
    }
    expect("growth", map.all(), tally(0..coins))?;
    Ok(growth)
}

//! Reads of random coins, in batches as an engine asks for them. Nothing else runs: work that an
//! open has begun in the background is awaited first.

use super::Run;
use crate::Failure;
use crate::list::CoinList;
use crate::process::{Stopwatch, Used, status_bytes};
use crate::spread::Spread;
use crate::stores::{Contestant, Purpose};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::CoinRef;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Barrier;
use std::time::Instant;

/// Outpoints asked for at once, about those of a block's transactions that one worker fetches.
const BATCH: usize = 64;

/// Slices in which a thread's reads are timed, for their spread.
const SLICES: usize = 10;

impl Run<'_> {
    /// Reads coins that are there with each number of threads, then as many that are not.
    pub(super) fn read(&self, reads: u64, threads: &[u64], absent: u64) -> Result<Value, Failure> {
        // Once before the memory is looked at, so that the list's own memory does not count.
        let mut wanted = CoinList::default();
        self.want_present(0..reads.max(absent), 0, &mut wanted);
        let anonymous_before = status_bytes("RssAnon");
        let opening = Instant::now();
        let store = self.open(Purpose::Use)?;
        let open_seconds = opening.elapsed().as_secs_f64();
        store.settle()?;
        let open_anonymous = status_bytes("RssAnon").saturating_sub(anonymous_before);
        let said = store.memory();
        let rounds = self.rounds(store.as_ref())?;
        let mut rows = Vec::new();
        for &threads in threads {
            let first = threads << 32;
            self.want_present(first..first + reads, rounds, &mut wanted);
            rows.push(read_all(store.as_ref(), &wanted, threads as usize, "present")?);
        }
        if absent > 0 {
            wanted.clear();
            for number in 0..absent {
                wanted.push(self.generator.absent(number), None);
            }
            rows.push(read_all(store.as_ref(), &wanted, 1, "absent")?);
        }
        Ok(json!({
            "open_seconds": open_seconds,
            "rows": rows,
            "open_anonymous_bytes": open_anonymous,
            "open_said_bytes": said,
            "anonymous_bytes": status_bytes("RssAnon").saturating_sub(anonymous_before),
            "file_bytes": status_bytes("RssFile"),
        }))
    }

    /// Makes `list` random coins that are there after `rounds`.
    fn want_present(&self, numbers: Range<u64>, rounds: u64, list: &mut CoinList) {
        list.clear();
        for number in numbers {
            let (outpoint, coin) = self.generator.present(number, rounds);
            list.push(outpoint, Some(CoinRef::from(&coin)));
        }
    }
}

/// What the threads of a measurement share.
struct Reading<'a> {
    store: &'a dyn Contestant,
    wanted: &'a CoinList,
    /// All threads are there, and have their memory.
    ready: Barrier,
    /// The watch runs.
    begin: Barrier,
}

impl Reading<'_> {
    /// Reads a part of what is wanted; microseconds a read, for each slice of the part.
    fn read(&self, part: &Range<usize>) -> Result<Vec<f64>, Failure> {
        let (mut outpoints, mut coins) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut slices = Vec::with_capacity(SLICES);
        self.ready.wait();
        self.begin.wait();
        for slice in (0..SLICES).map(|slice| slice_of(part, slice, SLICES)) {
            let watch = Instant::now();
            for start in slice.clone().step_by(BATCH) {
                let batch = start..slice.end.min(start + BATCH);
                self.read_batch(batch, &mut outpoints, &mut coins)?;
            }
            slices.push(watch.elapsed().as_secs_f64() * 1e6 / slice.len() as f64);
        }
        Ok(slices)
    }

    /// Reads a batch, and compares it.
    fn read_batch(
        &self,
        batch: Range<usize>,
        outpoints: &mut Vec<OutPoint>,
        coins: &mut Vec<Option<Coin>>,
    ) -> Result<(), Failure> {
        outpoints.clear();
        outpoints.extend(batch.clone().map(|position| self.wanted.entry(position).0));
        coins.clear();
        self.store.get_many(outpoints, coins)?;
        let found = coins.iter().map(|coin| coin.as_ref().map(CoinRef::from));
        if !found.eq(batch.map(|position| self.wanted.entry(position).1)) {
            return Err("a coin read is not what was written".into());
        }
        Ok(())
    }
}

/// The slice of a number when a range is cut into `count`.
fn slice_of(range: &Range<usize>, number: usize, count: usize) -> Range<usize> {
    let at = |number| range.start + range.len() * number / count;
    at(number)..at(number + 1)
}

/// Reads what is wanted, a part in each thread.
fn read_all(store: &dyn Contestant, wanted: &CoinList, threads: usize, name: &str) -> Result<Value, Failure> {
    let reading = Reading {
        store,
        wanted,
        ready: Barrier::new(threads + 1),
        begin: Barrier::new(threads + 1),
    };
    let reads = wanted.count();
    let (used, slices) = std::thread::scope(|scope| -> Result<(Used, Vec<f64>), Failure> {
        let reading = &reading;
        let threads: Vec<_> = (0..threads)
            .map(|thread| slice_of(&(0..reads), thread, threads))
            .map(|part| scope.spawn(move || reading.read(&part)))
            .collect();
        reading.ready.wait();
        let watch = Stopwatch::start();
        reading.begin.wait();
        let mut slices = Vec::new();
        for thread in threads {
            slices.extend(thread.join().map_err(|_| "a reader panicked")??);
        }
        Ok((watch.used(), slices))
    })?;
    let per_read = |figure: f64| figure / reads as f64;
    Ok(json!({
        "what": name,
        "threads": threads,
        "reads": reads,
        "microseconds_per_read": per_read(used.seconds * 1e6),
        "cpu_microseconds_per_read": per_read(used.cpu_seconds * 1e6),
        // As one thread sees it: with several, more than the time above.
        "slices": Spread::new(slices).map_or(Value::Null, Spread::json),
        "disk_bytes_per_read": per_read(used.read_bytes as f64),
        // A mapped file is read by faults, others by calls.
        "fetches_per_read": per_read((used.read_calls + used.major_faults) as f64),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_all_of_a_range_once() {
        for range in [0..0, 5..6, 100..207, 7..1007] {
            let slices = (0..SLICES).flat_map(|slice| slice_of(&range, slice, SLICES));
            assert!(slices.eq(range.clone()));
        }
    }
}

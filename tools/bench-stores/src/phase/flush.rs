//! Flushes, one after the other. Their number is that of a store in use, so they measure what a
//! flush costs in the long run, and leave behind an aged store for the reads.
//!
//! A round is made between two flushes. Its CPU time is taken out; its wall time stays, and is time
//! for work in the background, as an engine has it between its flushes. The CPU time of a flush
//! reaches to the beginning of the next one; that of the last, until the store is at rest and
//! closed.

use super::{Run, change_bytes, figures, tip};
use crate::Failure;
use crate::list::CoinList;
use crate::process::{MemoryWatch, Stopwatch, disk_size, process_cpu_seconds, thread_cpu_seconds};
use crate::spread::Spread;
use crate::stores::Purpose;
use serde_json::{Value, json};
use std::time::Instant;

/// CPU seconds of the process without those of making rounds.
#[derive(Debug, Default)]
struct Meter {
    making: f64,
}

impl Meter {
    fn make<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = thread_cpu_seconds();
        let made = work();
        self.making += thread_cpu_seconds() - start;
        made
    }

    fn used(&self) -> f64 {
        process_cpu_seconds() - self.making
    }
}

/// The spread of one figure of the commits.
fn spread(commits: &[Value], name: &str) -> Value {
    let figures = commits.iter().filter_map(|commit| commit[name].as_f64());
    Spread::new(figures).map_or(Value::Null, Spread::json)
}

impl Run<'_> {
    /// Flushes as many rounds as asked.
    pub(super) fn flush(&self, rounds: u64) -> Result<Value, Failure> {
        // Once before the memory is looked at, so that a round's own memory does not count.
        let mut changes = CoinList::default();
        self.generator.fill_round(0, &mut changes);
        let memory = MemoryWatch::start();
        let opening = Instant::now();
        let store = self.open(Purpose::Use)?;
        let open_seconds = opening.elapsed().as_secs_f64();
        let first = self.rounds(store.as_ref())?;
        if first > 0 && rounds > 1 {
            return Err("the rounds were run before".into());
        }
        let mut meter = Meter::default();
        let mut change_bytes_in_all = 0;
        let mut commits = Vec::new();
        let mut cpu_before = Vec::new();
        let watch = Stopwatch::start();
        for round in first..first + rounds {
            change_bytes_in_all += meter.make(|| {
                self.generator.fill_round(round, &mut changes);
                change_bytes(&changes)
            });
            cpu_before.push(meter.used());
            let watch = Stopwatch::start();
            store.commit(&changes, &tip(self.load_commits() + round + 1))?;
            commits.push(figures(watch.used()));
        }
        let settling = Instant::now();
        store.settle()?;
        drop(store);
        let settle_seconds = settling.elapsed().as_secs_f64();
        cpu_before.push(meter.used());
        let all = watch.used();
        let peaks = memory.finish();
        for (commit, cpu) in commits.iter_mut().zip(cpu_before.windows(2)) {
            commit["cpu_seconds_with_background"] = json!(cpu[1] - cpu[0]);
        }
        let cpu_seconds = cpu_before[rounds as usize] - cpu_before[0];
        Ok(json!({
            "open_seconds": open_seconds,
            "seconds": spread(&commits, "seconds"),
            "cpu_seconds": spread(&commits, "cpu_seconds_with_background"),
            "commits": commits,
            "settle_seconds": settle_seconds,
            "cpu_seconds_per_commit": cpu_seconds / rounds as f64,
            "written_bytes": all.written_bytes,
            "read_bytes": all.read_bytes,
            "change_bytes": change_bytes_in_all,
            "write_ratio": all.written_bytes as f64 / change_bytes_in_all as f64,
            "anonymous_bytes": peaks.anonymous_bytes,
            "file_bytes": peaks.file_bytes,
            "resident_bytes": peaks.resident_bytes,
            "disk_bytes": disk_size(&self.directory)?,
        }))
    }
}

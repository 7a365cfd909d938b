//! Locks under contention: `cargo run --release -p blockmill-sync --example contention [THREADS]`.
//!
//! All threads enter one lock, and enter again as soon as they have left. The table has for each
//! lock
//!
//! - the entries of all threads in a millisecond;
//! - the longest time that a thread waited, for the lock or for a core;
//! - the evenness: entries of the least served thread, divided by those of the most served.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use blockmill_sync::{CachePadded, CriticalSection, Mutex, Semaphore};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of one run.
const RUN: Duration = Duration::from_millis(200);

/// Runs of each lock, in turns with the other locks. The table shows the median run.
const RUNS: usize = 5;

/// Pauses inside the lock: some tens of microseconds.
const PAUSES: u32 = 1_000;

/// A lock around a short piece of work.
type Lock<'a> = &'a (dyn Fn(&dyn Fn()) + Sync);

/// What one run measured.
#[derive(Clone, Copy)]
struct Run {
    entries_per_s: f64,
    longest_wait: Duration,
    evenness: f64,
}

/// Enters the lock until `stop` is set. Returns the number of entries and the longest wait.
fn enter_until(stop: &AtomicBool, lock: Lock) -> (u64, Duration) {
    let (mut entries, longest) = (0, Cell::new(Duration::ZERO));
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        lock(&|| {
            longest.set(longest.get().max(start.elapsed()));
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
        });
        entries += 1;
    }
    (entries, longest.get())
}

fn run(threads: usize, lock: Lock) -> Run {
    let stop = CachePadded::new(AtomicBool::new(false));
    let start = Instant::now();
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(|| enter_until(&stop, lock))).collect();
        std::thread::sleep(RUN);
        stop.store(true, Ordering::Relaxed);
        let joined = handles.into_iter().map(|handle| handle.join());
        joined.map(|result| result.expect("a thread does not panic")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let entries = || results.iter().map(|&(entries, _)| entries);
    let (least, most) = (entries().min().unwrap_or(0), entries().max().unwrap_or(0));
    Run {
        entries_per_s: entries().sum::<u64>() as f64 / seconds,
        longest_wait: results.iter().map(|&(_, wait)| wait).max().unwrap_or_default(),
        evenness: least as f64 / most.max(1) as f64,
    }
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::args().nth(1).map_or(Ok(4 * cores), |text| text.parse());
    let Ok(threads @ 1..) = threads else {
        eprintln!("usage: contention [THREADS]");
        std::process::exit(2);
    };

    let section = CriticalSection::new();
    let semaphore = Semaphore::new(1);
    let (mutex, std_mutex) = (Mutex::new(()), std::sync::Mutex::new(()));
    let locks: [(&str, Lock); 4] = [
        ("CriticalSection", &|work| {
            let _guard = section.enter();
            work();
        }),
        ("Mutex", &|work| {
            let _guard = mutex.lock();
            work();
        }),
        ("Semaphore, 1 permit", &|work| {
            let _permit = semaphore.permit();
            work();
        }),
        ("std::sync::Mutex", &|work| {
            let _guard = std_mutex.lock().expect("no holder panics");
            work();
        }),
    ];

    let mut runs = vec![Vec::new(); locks.len()];
    for _ in 0..RUNS {
        for (runs, (_, lock)) in runs.iter_mut().zip(&locks) {
            runs.push(run(threads, *lock));
        }
    }

    println!("{threads} threads, {cores} cores, median of {RUNS} runs");
    println!(
        "{:<20} {:>12} {:>16} {:>9}",
        "lock", "entries/ms", "longest wait, ms", "evenness"
    );
    for ((name, _), mut runs) in locks.iter().zip(runs) {
        let mut median = |key: &dyn Fn(&Run) -> f64| {
            runs.sort_by(|left, right| key(left).total_cmp(&key(right)));
            key(&runs[RUNS / 2])
        };
        println!(
            "{name:<20} {:>12.0} {:>16.2} {:>9.2}",
            median(&|run| run.entries_per_s) / 1e3,
            median(&|run| run.longest_wait.as_secs_f64()) * 1e3,
            median(&|run| run.evenness),
        );
    }
}

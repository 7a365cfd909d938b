//! A work source of one's own: `cargo run --release -p blockmill-pool --example work_source`.
//!
//! The source counts primes. Its queue is one atomic number: each unit of work is the next thousand
//! candidates. Two counts run on one pool, and the pool serves the urgent one first.

#![allow(clippy::print_stdout, reason = "the counts are the output")]

use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, WorkSource};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Candidates in a unit of work.
const UNIT: u64 = 1_000;

/// Counts the primes below `end`.
struct Primes {
    end: u64,
    /// First candidate of the next unit.
    next: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    primes: u64,
    candidates_done: u64,
    panic: Option<Panic>,
}

impl Primes {
    fn below(end: u64) -> Arc<Self> {
        Arc::new(Self {
            end,
            next: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Waits for the count. Resumes the panic of a unit, if one panicked.
    fn wait(&self) -> u64 {
        let state = self.state.lock().expect("no holder panics");
        let is_running = |state: &mut State| state.candidates_done < self.end && state.panic.is_none();
        let mut state = self.changed.wait_while(state, is_running).expect("no holder panics");
        if let Some(panic) = state.panic.take() {
            drop(state);
            panic.resume();
        }
        state.primes
    }
}

impl WorkSource for Primes {
    fn pending(&self) -> usize {
        let left = self.end.saturating_sub(self.next.load(Ordering::Relaxed));
        left.div_ceil(UNIT) as usize
    }

    fn serve(&self, _worker: usize) {
        let first = self.next.fetch_add(UNIT, Ordering::Relaxed);
        // Another worker may have taken the last unit since `pending`.
        if first >= self.end {
            return;
        }
        let candidates = first..(first + UNIT).min(self.end);
        let primes = candidates.clone().filter(|&candidate| is_prime(candidate)).count();

        let mut state = self.state.lock().expect("no holder panics");
        state.primes += primes as u64;
        state.candidates_done += candidates.end - candidates.start;
        self.changed.notify_all();
    }

    fn panicked(&self, panic: Panic) {
        self.state.lock().expect("no holder panics").panic = Some(panic);
        self.changed.notify_all();
    }
}

fn is_prime(candidate: u64) -> bool {
    let mut divisors = (2..).take_while(|divisor| divisor * divisor <= candidate);
    candidate > 1 && divisors.all(|divisor| candidate % divisor != 0)
}

fn main() -> std::io::Result<()> {
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(2))?;
    let (patient, urgent) = (Primes::below(2_000_000), Primes::below(200_000));

    // Lower numbers are served first. A handle ends its registration when it is dropped.
    let patient_handle = pool.register(9, patient.clone());
    let urgent_handle = pool.register(1, urgent.clone());
    let start = Instant::now();
    patient_handle.notify();
    urgent_handle.notify();

    println!("{} primes below 200,000 after {:?}", urgent.wait(), start.elapsed());
    println!("{} primes below 2,000,000 after {:?}", patient.wait(), start.elapsed());
    Ok(())
}

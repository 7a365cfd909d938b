//! The queue before the document's review. All workers share the arrays of requests and results,
//! the bitmaps, and the completion event. Jobs go to the workers in turn, or, after the first step
//! of the review, to one worker until its slots are full.
//!
//! Jobs are numbers in atomics, without unsafe code. They are the same two words as in the other
//! contenders.

use super::job::{Job, Load};
use super::runner::{Outcome, Queue, Run, SLOTS_PER_WORKER};
use blockmill_sync::{AutoResetEvent, Backoff};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

const WORD_BITS: usize = u64::BITS as usize;

/// The choice of the worker for the next job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// The worker after that of the previous job.
    RoundRobin,
    /// The worker of the previous job, until its slots are full.
    Batching,
}

/// The state that all threads share.
struct Shared<'a> {
    load: &'a Load,
    requests: Box<[[AtomicU64; 2]]>,
    /// A bit for each slot; flipped by the requester.
    fill: Box<[AtomicU64]>,
    /// A bit for each slot; flipped by its worker.
    done: Box<[AtomicU64]>,
    /// For the requester: a job is done.
    completion: Doorbell,
    /// For each worker: it has a job.
    work: Box<[Doorbell]>,
    ends: AtomicBool,
}

/// An event. Setting it makes a system call only if a thread sleeps.
#[derive(Default)]
struct Doorbell {
    sleeps: AtomicBool,
    event: AutoResetEvent,
}

impl Doorbell {
    fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            self.event.set();
        }
    }

    /// Spins for a while, then sleeps, until `look` finds something.
    fn wait<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        let mut backoff = Backoff::new();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if backoff.snooze() {
                continue;
            }
            self.sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if let Some(found) = look() {
                self.sleeps.store(false, Ordering::Relaxed);
                return found;
            }
            self.event.wait();
            backoff = Backoff::new();
        }
    }
}

impl<'a> Shared<'a> {
    fn new(load: &'a Load, workers: usize) -> Self {
        let slots = workers * SLOTS_PER_WORKER;
        let words = || (0..slots.div_ceil(WORD_BITS)).map(|_| AtomicU64::new(0)).collect();
        Self {
            load,
            requests: (0..slots).map(|_| Default::default()).collect(),
            fill: words(),
            done: words(),
            completion: Doorbell::default(),
            work: (0..workers).map(|_| Doorbell::default()).collect(),
            ends: AtomicBool::new(false),
        }
    }

    /// Word and bits of a worker's slots.
    fn slots_of(worker: usize) -> (usize, u64) {
        let first = worker * SLOTS_PER_WORKER;
        let bits = (1 << SLOTS_PER_WORKER) - 1;
        (first / WORD_BITS, bits << (first % WORD_BITS))
    }

    fn serve(&self, worker: usize) {
        let (word, mine) = Self::slots_of(worker);
        loop {
            let work = self.work[worker].wait(|| {
                // Acquire: pairs with the Release in `submit`.
                let work = (self.fill[word].load(Ordering::Acquire) ^ self.done[word].load(Ordering::Relaxed)) & mine;
                (work != 0 || self.ends.load(Ordering::Relaxed)).then_some(work)
            });
            if work == 0 {
                return;
            }
            for bit in (0..WORD_BITS).filter(|bit| work >> bit & 1 == 1) {
                let slot = &self.requests[word * WORD_BITS + bit];
                let mut job = Job::new(slot[0].load(Ordering::Relaxed));
                self.load.handle(&mut job);
                slot[1].store(job.result, Ordering::Relaxed);
                // Release: pairs with the Acquire in `refresh`. Other workers flip bits of the same
                // word.
                self.done[word].fetch_xor(1 << bit, Ordering::Release);
                self.completion.ring();
            }
        }
    }
}

/// The requester.
struct Requester<'a> {
    shared: &'a Shared<'a>,
    policy: Policy,
    workers: usize,
    next: usize,
    /// The requester's copy of the bitmap.
    fill: Vec<u64>,
    taken: Vec<u64>,
    ready: Vec<u64>,
    /// The word at which the search for a finished job begins.
    word: usize,
}

impl Requester<'_> {
    /// A job known to be finished, or one found in the bitmap.
    fn look(&mut self) -> Option<Job> {
        let words = self.fill.len();
        let round = || (0..words).map(|number| (self.word + number) % words);
        let word = round().find(|&word| self.ready[word] != 0).or_else(|| {
            round().find(|&word| {
                self.taken[word] != 0
                    && (self.taken[word] & !(self.fill[word] ^ self.shared.done[word].load(Ordering::Relaxed))) != 0
            })
        })?;
        if self.ready[word] == 0 {
            // Acquire: pairs with the Release in `serve`.
            let done = self.shared.done[word].load(Ordering::Acquire);
            self.ready[word] = self.taken[word] & !(self.fill[word] ^ done);
        }
        self.word = word;
        let bit = self.ready[word].trailing_zeros();
        self.ready[word] &= !(1 << bit);
        self.taken[word] &= !(1 << bit);
        let slot = &self.shared.requests[word * WORD_BITS + bit as usize];
        let load = |number: usize| slot[number].load(Ordering::Relaxed);
        Some(Job {
            request: load(0),
            result: load(1),
        })
    }
}

impl Queue for Requester<'_> {
    fn submit(&mut self, job: Job) {
        let (worker, word, bit) = loop {
            let (word, bits) = Shared::slots_of(self.next);
            let free = bits & !self.taken[word];
            let worker = self.next;
            if free == 0 || self.policy == Policy::RoundRobin {
                self.next = (self.next + 1) % self.workers;
            }
            if free != 0 {
                break (worker, word, free.trailing_zeros());
            }
        };
        self.taken[word] |= 1 << bit;
        self.shared.requests[word * WORD_BITS + bit as usize][0].store(job.request, Ordering::Relaxed);
        self.fill[word] ^= 1 << bit;
        // Release: pairs with the Acquire in `serve`.
        self.shared.fill[word].store(self.fill[word], Ordering::Release);
        self.shared.work[worker].ring();
    }

    fn collect(&mut self) -> Job {
        let completion = &self.shared.completion;
        completion.wait(|| self.look())
    }

    fn try_collect(&mut self) -> Option<Job> {
        self.look()
    }
}

/// Runs one requester and its workers.
pub(super) fn baseline_v0(run: &Run<'_>, policy: Policy) -> Outcome {
    let shared = Shared::new(run.load, run.workers);
    std::thread::scope(|scope| {
        for worker in 0..run.workers {
            let shared = &shared;
            scope.spawn(move || shared.serve(worker));
        }
        let words = shared.fill.len();
        let outcome = run.execute(&mut Requester {
            shared: &shared,
            policy,
            workers: run.workers,
            next: 0,
            fill: vec![0; words],
            taken: vec![0; words],
            ready: vec![0; words],
            word: 0,
        });
        shared.ends.store(true, Ordering::Relaxed);
        for bell in &shared.work {
            bell.ring();
        }
        outcome
    })
}

//! No queue at all: the most that the cores can do.

use super::contenders::{Contender, Lowest};
use super::job::{Check, Job};
use blockmill_sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The checks of a round are split among the threads beforehand. There are at most as many threads
/// as cores, and they never sleep.
pub(super) struct StaticSplit {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    job: Mutex<Option<Arc<Job>>>,
    /// Counts the rounds; the last one ends the threads.
    round: AtomicU32,
    /// Threads that are still at work in the round.
    busy: AtomicUsize,
    lowest: Lowest,
    parts: usize,
}

/// The value of `round` that ends the threads.
const LAST: u32 = u32::MAX;

impl StaticSplit {
    pub(super) fn new(threads: usize, cores: usize) -> std::io::Result<Self> {
        let parts = threads.min(cores);
        let shared = Arc::new(Shared {
            job: Mutex::new(None),
            round: AtomicU32::new(0),
            busy: AtomicUsize::new(0),
            lowest: Lowest::default(),
            parts,
        });
        let mut this = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for part in 1..parts {
            let shared = Arc::clone(&shared);
            this.threads
                .push(std::thread::Builder::new().spawn(move || shared.serve(part))?);
        }
        Ok(this)
    }
}

impl Shared {
    fn serve(&self, part: usize) {
        let mut last = 0;
        loop {
            let round = self.round.load(Ordering::Acquire);
            if round == last {
                std::hint::spin_loop();
                continue;
            }
            if round == LAST {
                return;
            }
            last = round;
            let job = self.job.lock().clone().expect("a round has a job");
            self.run(part, &job);
            drop(job);
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }

    fn run(&self, part: usize, job: &Job) {
        for index in (0..job.checks).skip(part).step_by(self.parts) {
            self.lowest.judge(job, &Check::new(index));
        }
    }
}

impl Contender for StaticSplit {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let shared = &self.shared;
        *shared.job.lock() = Some(Arc::clone(job));
        shared.busy.store(shared.parts - 1, Ordering::Relaxed);
        shared.round.fetch_add(1, Ordering::Release);
        shared.run(0, job);
        while shared.busy.load(Ordering::Acquire) > 0 {
            std::hint::spin_loop();
        }
        shared.lowest.take()
    }
}

impl Drop for StaticSplit {
    fn drop(&mut self) {
        self.shared.round.store(LAST, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

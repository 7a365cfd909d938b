//! A locked queue like Bitcoin Core's `CCheckQueue`: one mutex, one condition variable for workers
//! and one for the master. Checks are moved into the queue and out again, in batches.

use super::contenders::{Lowest, Rounds};
use super::job::{Check, Job};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most checks that a thread takes at a time.
const BATCH: usize = 128;

#[derive(Default)]
struct State {
    queue: Vec<Check>,
    job: Option<Arc<Job>>,
    /// Threads that wait for work.
    idle: usize,
    /// All threads of the queue.
    total: usize,
    /// Checks of the round that are not done.
    todo: usize,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    lowest: Lowest,
}

/// The queue with its workers.
pub(super) struct Locked {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Locked {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut this = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for _ in 1..threads {
            let shared = Arc::clone(&shared);
            this.threads
                .push(std::thread::Builder::new().spawn(move || shared.take_part(false))?);
        }
        Ok(this)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, group: Vec<Check>) {
        let count = group.len();
        let mut state = self.lock();
        state.queue.extend(group);
        state.todo += count;
        drop(state);
        if count == 1 {
            self.work.notify_one();
        } else {
            self.work.notify_all();
        }
    }

    /// Takes checks and runs them. The master returns when the round is done, a worker when the
    /// queue is dropped.
    fn take_part(&self, master: bool) {
        let condition = if master { &self.done } else { &self.work };
        let mut taken: Vec<Check> = Vec::with_capacity(BATCH);
        let mut done = 0;
        loop {
            let mut state = self.lock();
            if done > 0 {
                state.todo -= done;
                // The master looks for itself.
                if state.todo == 0 && !master {
                    self.done.notify_one();
                }
            } else {
                state.total += 1;
            }
            while state.queue.is_empty() {
                if (master && state.todo == 0) || state.stop {
                    state.total -= 1;
                    return;
                }
                state.idle += 1;
                state = condition.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
            // As in Core: a thread leaves work for others, and takes less as the queue runs dry.
            let share = state.queue.len() / (state.total + state.idle + 1);
            done = share.clamp(1, BATCH);
            let rest = state.queue.len() - done;
            // From the end, which moves no other check.
            taken.extend(state.queue.drain(rest..));
            let job = state.job.clone();
            drop(state);
            for check in taken.drain(..) {
                if let Some(job) = &job {
                    self.lowest.validate(job, &check);
                }
            }
        }
    }
}

impl Rounds for Locked {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        self.shared.lock().job = Some(Arc::clone(job));
        for group in job.groups() {
            self.shared.add(group.map(Check::new).collect());
        }
        self.shared.take_part(true);
        self.shared.lock().job = None;
        self.shared.lowest.take()
    }
}

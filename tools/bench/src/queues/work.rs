//! The work queue, and its peers: a channel and a pool.

use super::job::{CHANNEL, OURS, RAYON, black_steps, steps_that_take};
use blockmill_harness::{Failure, Run, Stopwatch, same};
use blockmill_workqueue::{Done, Handler, Options, Requester, WorkQueue};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Slots for each worker. All slots together limit the jobs in flight.
pub(super) const SLOTS_PER_WORKER: usize = 4;

/// Words of memory that jobs read, and of a page.
const WORDS: usize = (2 << 20) / size_of::<u64>();
const PAGE_WORDS: u64 = 4096 / size_of::<u64>() as u64;

/// Jobs between two readings of the clock.
const JOBS_PER_LOOK: u64 = 256;

/// A request and its result, as the contenders carry them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Job {
    request: u64,
    result: u64,
}

impl Job {
    fn new(request: u64) -> Self {
        Self { request, result: 0 }
    }
}

/// The work of a job. Its result depends on its number and on a word of memory.
#[derive(Debug)]
pub(super) struct Load {
    memory: Box<[u64]>,
    steps: u32,
}

#[inline]
fn mix(number: u64) -> u64 {
    (number ^ 0x2545_f491_4f6c_dd1d)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

impl Load {
    /// Jobs that take `time`, beside the read.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            memory: (0..WORDS as u64).map(mix).collect(),
            steps: steps_that_take(time),
        }
    }

    /// Does a job.
    #[inline]
    fn work(&self, job: &mut Job) {
        black_steps(self.steps, job.request);
        job.result = self.result(job.request);
    }

    /// The right result of a job.
    #[inline]
    fn result(&self, request: u64) -> u64 {
        let word = (request * PAGE_WORDS + request / PAGE_WORDS) as usize % WORDS;
        mix(request ^ self.memory[word])
    }

    fn check(&self, job: &Job) -> Result<(), Failure> {
        same("work queue", "result of a job", job.result, self.result(job.request))
    }
}

/// A run of a contender with so many workers, for so long.
type Contender = fn(&Arc<Load>, usize, Duration) -> Result<Run, Failure>;

pub(super) const QUEUES: [(&str, Contender); 3] = [(OURS, ours), (CHANNEL, channel), (RAYON, rayon)];

/// A queue: jobs come out in any order. The caller of `submit` makes sure that a slot is free.
trait Queue {
    fn submit(&mut self, job: Job);
    fn collect(&mut self) -> Option<Job>;
    fn try_collect(&mut self) -> Option<Job>;
}

/// Repeats until the time is over and no job is in flight: submits while slots are free, waits for
/// a job, collects all finished ones.
fn request(queue: &mut impl Queue, load: &Load, slots: usize, time: Duration) -> Result<Run, Failure> {
    let (mut submitted, mut collected, mut look) = (0, 0, JOBS_PER_LOOK);
    let (clock, start) = (Stopwatch::start(), Instant::now());
    let mut goes_on = true;
    loop {
        while goes_on && submitted - collected < slots as u64 {
            queue.submit(Job::new(submitted));
            submitted += 1;
        }
        // The time is over, and no job is in flight.
        if submitted == collected {
            return Ok(clock.run(collected));
        }
        let mut done = queue.collect();
        while let Some(job) = done {
            collected += 1;
            load.check(&job)?;
            done = if collected < submitted {
                queue.try_collect()
            } else {
                None
            };
        }
        if collected >= look {
            // Reading the clock for each job would cost more than an empty job.
            look = collected + JOBS_PER_LOOK;
            goes_on = start.elapsed() < time;
        }
    }
}

/// The load of a run. The pool may outlive the run.
struct Shared(Arc<Load>);

impl Handler for Shared {
    type Job = Job;

    #[inline]
    fn handle(&self, job: &mut Job) {
        self.0.work(job);
    }
}

impl Queue for Requester<Shared> {
    #[inline]
    fn submit(&mut self, job: Job) {
        let ticket = Self::submit(self, job);
        assert!(ticket.is_ok(), "there is a slot");
    }

    #[inline]
    fn collect(&mut self) -> Option<Job> {
        self.collect_any().and_then(Result::ok).map(Done::take)
    }

    #[inline]
    fn try_collect(&mut self) -> Option<Job> {
        self.try_collect_any().and_then(Result::ok).map(Done::take)
    }
}

fn ours(load: &Arc<Load>, workers: usize, time: Duration) -> Result<Run, Failure> {
    let options = Options {
        workers: Some(workers),
        slots_per_worker: Some(SLOTS_PER_WORKER),
        ..Options::default()
    };
    let queue = WorkQueue::with_own_threads(Shared(Arc::clone(load)), &options)?;
    request(&mut queue.requester(), load, workers * SLOTS_PER_WORKER, time)
}

/// Two channels with room for every slot: one to the workers, one back.
struct Channels {
    to_workers: crossbeam_channel::Sender<Job>,
    from_workers: crossbeam_channel::Receiver<Job>,
}

impl Queue for Channels {
    fn submit(&mut self, job: Job) {
        let sent = self.to_workers.send(job);
        assert!(sent.is_ok(), "workers end after the requester");
    }

    fn collect(&mut self) -> Option<Job> {
        self.from_workers.recv().ok()
    }

    fn try_collect(&mut self) -> Option<Job> {
        self.from_workers.try_recv().ok()
    }
}

fn channel(load: &Arc<Load>, workers: usize, time: Duration) -> Result<Run, Failure> {
    let slots = workers * SLOTS_PER_WORKER;
    let (to_workers, jobs) = crossbeam_channel::bounded::<Job>(slots);
    let (results, from_workers) = crossbeam_channel::bounded(slots);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (jobs, results) = (jobs.clone(), results.clone());
            scope.spawn(move || {
                for mut job in jobs {
                    load.work(&mut job);
                    // The requester has gone: an error ended the run.
                    if results.send(job).is_err() {
                        break;
                    }
                }
            });
        }
        let mut queue = Channels {
            to_workers,
            from_workers,
        };
        // The workers end when the queue is dropped.
        request(&mut queue, load, slots, time)
    })
}

/// A job spawned for each slot, and a scope that waits for all. The requester is one of the pool's
/// threads and helps, which is faster than a thread outside of the pool.
fn rayon(load: &Arc<Load>, workers: usize, time: Duration) -> Result<Run, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build()?;
    pool.install(|| {
        let (clock, start) = (Stopwatch::start(), Instant::now());
        let mut jobs = vec![Job::default(); workers * SLOTS_PER_WORKER];
        let (mut count, mut look) = (0, JOBS_PER_LOOK);
        loop {
            if count >= look {
                if start.elapsed() >= time {
                    return Ok(clock.run(count));
                }
                look = count + JOBS_PER_LOOK;
            }
            for job in &mut jobs {
                *job = Job::new(count);
                count += 1;
            }
            rayon::scope(|scope| {
                for job in &mut jobs {
                    scope.spawn(move |_| load.work(job));
                }
            });
            jobs.iter().try_for_each(|job| load.check(job))?;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Does each job when it is collected; every hundredth result is wrong if that is asked for.
    struct Sloppy<'a>(&'a Load, VecDeque<Job>, bool);

    impl Queue for Sloppy<'_> {
        fn submit(&mut self, job: Job) {
            assert!(self.1.len() < 8);
            self.1.push_back(job);
        }

        fn collect(&mut self) -> Option<Job> {
            self.try_collect()
        }

        fn try_collect(&mut self) -> Option<Job> {
            let mut job = self.1.pop_front()?;
            self.0.work(&mut job);
            job.result ^= u64::from(self.2 && job.request % 100 == 99);
            Some(job)
        }
    }

    #[test]
    fn wrong_results_are_noticed() {
        let load = Load::new(Duration::from_nanos(10));
        let ask = |wrong| {
            request(
                &mut Sloppy(&load, VecDeque::new(), wrong),
                &load,
                8,
                Duration::from_millis(2),
            )
        };
        assert!(ask(false).unwrap().count >= JOBS_PER_LOOK);
        assert!(ask(true).unwrap_err().to_string().contains("result of a job"));
    }

    #[test]
    fn each_queue_does_all_jobs() {
        let load = Arc::new(Load::new(Duration::from_micros(1)));
        for (_, run) in QUEUES {
            assert!(run(&load, 3, Duration::from_millis(2)).unwrap().count >= JOBS_PER_LOOK);
        }
    }
}

//! A queue through its public interface.

use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use blockmill_workqueue::{Handler, Help, Options, Requester, Ticket, WorkQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const HELPS: [Help; 2] = [Help::Never, Help::WhileWaiting];

/// Counts the jobs that exist.
#[derive(Default)]
struct Census(Arc<AtomicUsize>);

impl Census {
    fn job(&self, request: u64) -> Job {
        self.0.fetch_add(1, Ordering::Relaxed);
        Job {
            request,
            result: None,
            times: 0,
            alive: Arc::clone(&self.0),
        }
    }

    fn alive(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Job {
    request: u64,
    result: Option<u64>,
    times: u32,
    alive: Arc<AtomicUsize>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Job {
    fn check(&self, request: u64) {
        assert_eq!(
            (self.request, self.result, self.times),
            (request, Some(request * 3 + 1), 1)
        );
    }
}

/// Spins for a set time on every job, and panics at some.
#[derive(Default)]
struct Triple {
    spin_ns: u64,
    panics_every: u64,
    handled: AtomicUsize,
    begun: AtomicUsize,
    hold: AtomicBool,
}

impl Handler for Triple {
    type Job = Job;

    fn handle(&self, job: &mut Job) {
        self.begun.fetch_add(1, Ordering::Release);
        let start = std::time::Instant::now();
        while self.spin_ns > 0 && start.elapsed() < Duration::from_nanos(self.spin_ns) {
            std::hint::spin_loop();
        }
        while self.hold.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.handled.fetch_add(1, Ordering::Relaxed);
        job.times += 1;
        if self.panics_every > 0 && job.request % self.panics_every == 0 {
            panic!("job {}", job.request);
        }
        job.result = Some(job.request * 3 + 1);
    }
}

fn options(workers: usize, slots: usize, help: Help) -> Options {
    Options {
        workers: Some(workers),
        slots_per_worker: Some(slots),
        help,
    }
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    for workers in [0, 1, 2, 8, 64] {
        for slots in [1, 4, 64] {
            all.extend(HELPS.map(|help| options(workers, slots, help)));
        }
    }
    all
}

fn in_order(requester: &mut Requester<Triple>, census: &Census, jobs: u64) {
    let mut collected = 0;
    requester.process((0..jobs).map(|request| census.job(request)), |job| {
        job.unwrap().check(collected);
        collected += 1;
    });
    assert_eq!(collected, jobs);
}

fn as_completed(requester: &mut Requester<Triple>, census: &Census, jobs: u64) {
    let first = {
        let ticket = requester.submit(census.job(0)).unwrap();
        requester.collect_next().unwrap().unwrap().check(0);
        ticket.0 + 1
    };
    let mut seen = vec![false; jobs as usize];
    let (mut submitted, mut collected) = (0, 0);
    while collected < jobs {
        while submitted < jobs && requester.in_flight() < requester.capacity() {
            let ticket = requester.submit(census.job(submitted)).unwrap();
            assert_eq!(ticket, Ticket(first + submitted));
            submitted += 1;
        }
        let done = requester.collect_any().unwrap().unwrap();
        let request = done.ticket().0 - first;
        done.check(request);
        assert!(!std::mem::replace(&mut seen[request as usize], true));
        collected += 1;
    }
    assert!(requester.collect_any().is_none() && requester.try_collect_any().is_none());
}

#[test]
fn every_job_is_handled_once_and_results_come_as_asked() {
    for options in all_options() {
        for spin_ns in [0, 500] {
            let census = Census::default();
            let handler = Triple {
                spin_ns,
                ..Triple::default()
            };
            let queue = WorkQueue::with_own_threads(handler, &options).unwrap();
            assert_eq!(queue.workers(), options.workers.unwrap());
            let mut requester = queue.requester();
            in_order(&mut requester, &census, 700);
            as_completed(&mut requester, &census, 700);
            assert_eq!(requester.in_flight(), 0);
            assert_eq!(queue.handler().handled.load(Ordering::Relaxed), 1_401, "{options:?}");
            assert_eq!(census.alive(), 0);
        }
    }
}

#[test]
fn several_requesters_at_once() {
    for options in [1, 2, 64]
        .into_iter()
        .flat_map(|workers| HELPS.map(|help| options(workers, 4, help)))
    {
        let queue = WorkQueue::with_own_threads(Triple::default(), &options).unwrap();
        std::thread::scope(|scope| {
            for number in 0..5 {
                let mut requester = queue.requester();
                scope.spawn(move || {
                    let census = Census::default();
                    for _ in 0..10 {
                        if number % 2 == 0 {
                            in_order(&mut requester, &census, 100);
                        } else {
                            as_completed(&mut requester, &census, 100);
                        }
                    }
                    drop(requester);
                    assert_eq!(census.alive(), 0);
                });
            }
        });
        let all = 3 * 10 * 100 + 2 * 10 * 101;
        assert_eq!(queue.handler().handled.load(Ordering::Relaxed), all);
    }
}

#[test]
fn a_full_queue_gives_the_job_back() {
    for options in all_options() {
        let census = Census::default();
        let queue = WorkQueue::with_own_threads(Triple::default(), &options).unwrap();
        let mut requester = queue.requester();
        let slots = options.workers.unwrap().max(1) * options.slots_per_worker.unwrap();
        assert!(requester.capacity() >= slots);
        for request in 0..requester.capacity() as u64 {
            requester.submit(census.job(request)).unwrap();
        }
        let full = requester.submit(census.job(99)).unwrap_err();
        assert_eq!(full.0.request, 99);
        drop(full);
        assert_eq!(requester.in_flight(), requester.capacity());
        requester.collect_next().unwrap().unwrap().check(0);
        assert!(requester.submit(census.job(1)).is_ok());
        drop(requester);
        assert_eq!(census.alive(), 0);
    }
}

#[test]
fn jobs_that_are_not_collected_are_dropped_once() {
    for options in all_options() {
        let census = Census::default();
        let queue = WorkQueue::with_own_threads(Triple::default(), &options).unwrap();
        for round in 0..20 {
            let mut requester = queue.requester();
            for request in 0..requester.capacity() as u64 {
                requester.submit(census.job(request)).unwrap();
            }
            for request in 0..round % 4 {
                if let Some(done) = requester.collect_next() {
                    done.unwrap().check(request);
                }
            }
            drop(requester);
            assert_eq!(census.alive(), 0);
        }
        // The requesters came one after the other, so all of them used the same requester queue.
        assert!(format!("{queue:?}").contains("requester_queues: 1"), "{queue:?}");
    }
}

#[test]
fn dropping_waits_for_the_job_in_hand() {
    let census = Census::default();
    let handler = Triple {
        hold: AtomicBool::new(true),
        ..Triple::default()
    };
    let queue = WorkQueue::with_own_threads(handler, &options(1, 4, Help::WhileWaiting)).unwrap();
    let mut requester = queue.requester();
    let mut unhandled = queue.requester();
    let (job, rest) = (census.job(1), census.job(2));
    requester.submit(job).unwrap();
    std::thread::scope(|scope| {
        // Only the worker can be in the handler.
        while queue.handler().begun.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        unhandled.submit(rest).unwrap();
        let dropping = scope.spawn(move || drop(requester));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!dropping.is_finished());
        // The job is dropped without having been handled.
        drop(unhandled);
        assert_eq!(census.alive(), 1);
        queue.handler().hold.store(false, Ordering::Release);
        dropping.join().unwrap();
    });
    assert_eq!(census.alive(), 0);
    assert_eq!(queue.handler().handled.load(Ordering::Relaxed), 1);
}

#[test]
fn a_forgotten_requester_leaves_nothing_dangling() {
    for help in HELPS {
        let census = Census::default();
        let queue = WorkQueue::with_own_threads(Triple::default(), &options(2, 4, help)).unwrap();
        let mut requester = queue.requester();
        for request in 0..8 {
            requester.submit(census.job(request)).unwrap();
        }
        std::mem::forget(requester);
        let mut other = queue.requester();
        in_order(&mut other, &census, 100);
        drop(other);
        while queue.handler().handled.load(Ordering::Relaxed) < 108 {
            std::thread::yield_now();
        }
        drop(queue);
        assert_eq!(census.alive(), 8);
    }
}

#[test]
fn a_result_that_is_forgotten_is_collected_again() {
    let census = Census::default();
    let queue = WorkQueue::with_own_threads(Triple::default(), &Options::default()).unwrap();
    let mut requester = queue.requester();
    requester.submit(census.job(5)).unwrap();
    std::mem::forget(requester.collect_next().unwrap().unwrap());
    let mut done = requester.collect_next().unwrap().unwrap();
    done.times += 1;
    assert_eq!(done.take().times, 2);
    assert!(requester.collect_next().is_none());
    assert_eq!(census.alive(), 0);
}

#[test]
fn a_panic_is_the_result_of_its_job_alone() {
    for options in all_options() {
        let census = Census::default();
        let handler = Triple {
            panics_every: 7,
            ..Triple::default()
        };
        let queue = WorkQueue::with_own_threads(handler, &options).unwrap();
        let mut requester = queue.requester();
        let mut number = 0;
        requester.process((0..100).map(|request| census.job(request)), |job| {
            match job {
                Ok(job) => job.check(number),
                Err(panicked) => {
                    assert_eq!(number % 7, 0);
                    assert_eq!(panicked.ticket, Ticket(number));
                    assert_eq!(panicked.panic.message(), format!("job {number}"));
                }
            }
            number += 1;
        });
        assert_eq!(number, 100);
        // Jobs that are not collected are dropped too.
        for request in 0..requester.capacity() as u64 {
            requester.submit(census.job(request)).unwrap();
        }
        drop(requester);
        assert_eq!(census.alive(), 0);
        let mut requester = queue.requester();
        requester.submit(census.job(1)).unwrap();
        requester.collect_any().unwrap().unwrap().check(1);
    }
}

#[test]
fn queues_share_a_pool_and_outlive_it() {
    let pool = ThreadPool::new(&ThreadPoolOptions {
        name: "test".to_owned(),
        ..ThreadPoolOptions::workers(2)
    })
    .unwrap();
    let census = Census::default();
    let first = WorkQueue::new(&pool, 1, Triple::default());
    let second = WorkQueue::with_options(&pool, 0, Triple::default(), &options(99, 2, Help::WhileWaiting));
    assert_eq!((first.workers(), second.workers()), (2, 2));
    let mut requesters = [first.requester(), second.requester()];
    for requester in &mut requesters {
        in_order(requester, &census, 500);
    }
    drop((first, second));
    for requester in &mut requesters {
        in_order(requester, &census, 500);
        requester.submit(census.job(1)).unwrap();
    }
    drop(pool);
    // Now the requesters do all of the work.
    for requester in &mut requesters {
        requester.collect_next().unwrap().unwrap().check(1);
        in_order(requester, &census, 500);
        as_completed(requester, &census, 500);
    }
    drop(requesters);
    assert_eq!(census.alive(), 0);
}

/// Requesters that only submit: workers do the jobs, without help.
#[test]
fn jobs_are_done_while_nobody_collects() {
    for help in HELPS {
        let census = Census::default();
        let queue = WorkQueue::with_own_threads(Triple::default(), &options(2, 16, help)).unwrap();
        let mut requester = queue.requester();
        in_order(&mut requester, &census, 1_000);
        for round in 0..100 {
            for request in 0..5 {
                requester.submit(census.job(request)).unwrap();
            }
            let all = 1_000 + (round + 1) * 5;
            while queue.handler().handled.load(Ordering::Relaxed) < all {
                std::thread::yield_now();
            }
            for request in 0..5 {
                // A job counts as handled a little before its slot is given back.
                while requester.try_collect_next().is_none_or(|done| {
                    done.unwrap().check(request);
                    false
                }) {
                    std::thread::yield_now();
                }
            }
            if round % 20 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Requesters that never wait, with jobs both shorter and longer than a unit of work.
#[test]
fn try_collect_finds_all_jobs() {
    for options in all_options() {
        for spin_ns in [0, 1_000, 20_000] {
            let census = Census::default();
            let handler = Triple {
                spin_ns,
                ..Triple::default()
            };
            let queue = WorkQueue::with_own_threads(handler, &options).unwrap();
            let mut requester = queue.requester();
            for round in 0..10 {
                for request in 0..(requester.capacity() as u64).min(20) {
                    requester.submit(census.job(request)).unwrap();
                }
                while requester.in_flight() > 0 {
                    let done = if round % 2 == 0 {
                        requester.try_collect_next()
                    } else {
                        requester.try_collect_any()
                    };
                    match done {
                        Some(done) => assert_eq!(done.unwrap().times, 1),
                        None => std::thread::yield_now(),
                    }
                }
            }
        }
    }
}

/// The workers end with their pool. A requester that only tries still finds its jobs finished.
#[test]
fn try_collect_finds_all_jobs_when_the_pool_has_ended() {
    let census = Census::default();
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(2)).unwrap();
    let queue = WorkQueue::new(&pool, 0, Triple::default());
    drop(pool);
    let mut requester = queue.requester();
    for request in 0..5 {
        requester.submit(census.job(request)).unwrap();
    }
    let mut found = 0;
    for _ in 0..1_000 {
        found += u32::from(requester.try_collect_any().is_some());
    }
    assert_eq!(found, 5);
}

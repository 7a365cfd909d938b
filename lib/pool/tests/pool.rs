//! The pool through its public interface.

use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, WorkSource};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Counted units of work. Every `panics_every`-th unit panics, unless that is 0.
#[derive(Default)]
struct Units {
    waiting: AtomicUsize,
    done: AtomicUsize,
    panics_every: usize,
    panics: Mutex<Vec<String>>,
    order: Arc<Mutex<Vec<&'static str>>>,
    name: &'static str,
    /// While set, workers hold the units that they have taken.
    held: AtomicBool,
    threads: Mutex<HashSet<String>>,
}

impl Units {
    fn add(&self, units: usize) {
        self.waiting.fetch_add(units, Ordering::Release);
    }

    fn wait_for(&self, done: usize) {
        let start = Instant::now();
        while self.done.load(Ordering::Acquire) < done {
            assert!(start.elapsed() < Duration::from_secs(60), "a wake was lost");
            std::thread::yield_now();
        }
    }
}

impl WorkSource for Units {
    fn pending(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    fn serve(&self, worker: usize) {
        let take = |units: usize| units.checked_sub(1);
        if self
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_err()
        {
            return;
        }
        assert!(worker < 64);
        while self.held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.threads
            .lock()
            .unwrap()
            .insert(std::thread::current().name().unwrap().to_owned());
        self.order.lock().unwrap().push(self.name);
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if self.panics_every > 0 && done % self.panics_every == 0 {
            panic!("unit {done}");
        }
    }

    fn panicked(&self, panic: Panic) {
        self.panics.lock().unwrap().push(panic.message().to_owned());
    }
}

fn pool(workers: usize) -> ThreadPool {
    ThreadPool::new(&ThreadPoolOptions {
        name: "test".to_owned(),
        ..ThreadPoolOptions::workers(workers)
    })
    .unwrap()
}

#[test]
fn every_unit_is_done_with_pauses_between() {
    for workers in [1, 2, 7, 32] {
        let pool = pool(workers);
        let units = Arc::new(Units::default());
        let handle = pool.register(0, Arc::<Units>::clone(&units));
        let mut all = 0;
        for round in 0..300 {
            all += round % 4;
            units.add(round % 4);
            handle.notify();
            units.wait_for(all);
            if round % 50 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert_eq!(units.done.load(Ordering::Relaxed), all);
        let threads = units.threads.lock().unwrap();
        assert!(threads.iter().all(|name| name.starts_with("test-")), "{threads:?}");
    }
}

#[test]
fn idle_workers_park_and_no_more_wake_than_there_are_cores() {
    let pool = pool(32);
    let units = Arc::new(Units::default());
    let handle = pool.register(0, Arc::<Units>::clone(&units));
    let wait_until_parked = || {
        let start = Instant::now();
        while pool.awake() > 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "{} are awake", pool.awake());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let producer = handle.register_producer();
    let cores = ThreadPoolOptions::default().cores.saturating_sub(1).max(1);
    // A worker that parks at the very moment of a notification may find the work by itself, and be
    // one too many. So one of several attempts must stay within the cores. Without the rule all
    // workers wake in each attempt.
    let stays_within_cores = |attempt: usize| {
        wait_until_parked();
        units.held.store(true, Ordering::Release);
        units.add(50);
        let mut awake = 0;
        for _ in 0..200 {
            handle.notify();
            std::thread::yield_now();
            awake = awake.max(pool.awake());
        }
        units.held.store(false, Ordering::Release);
        units.wait_for((attempt + 1) * 50);
        awake <= cores
    };
    assert!((0..100).any(stays_within_cores));
    drop(producer);
    wait_until_parked();
}

#[test]
fn panics_go_to_their_work_source_and_the_workers_go_on() {
    let pool = pool(2);
    let bad = Arc::new(Units {
        panics_every: 10,
        ..Units::default()
    });
    let good = Arc::new(Units::default());
    let bad_handle = pool.register(0, Arc::<Units>::clone(&bad));
    let good_handle = pool.register(1, Arc::<Units>::clone(&good));
    bad.add(100);
    bad_handle.notify();
    good.add(100);
    good_handle.notify();
    bad.wait_for(100);
    good.wait_for(100);
    drop(pool);
    let mut panics = bad.panics.lock().unwrap().clone();
    panics.sort();
    let mut expected: Vec<String> = (1..=10).map(|ten| format!("unit {}", ten * 10)).collect();
    expected.sort();
    assert_eq!(panics, expected);
    assert!(good.panics.lock().unwrap().is_empty());
}

#[test]
fn the_work_source_of_higher_priority_comes_first() {
    let pool = pool(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let source = |name| {
        Arc::new(Units {
            name,
            order: Arc::clone(&order),
            ..Units::default()
        })
    };
    let (low, high, middle) = (source("low"), source("high"), source("middle"));
    // A job holds the worker until all work sources have work.
    let hold = Arc::new(AtomicBool::new(true));
    let held = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let pool = &pool;
        let (hold_job, held_job) = (Arc::clone(&hold), Arc::clone(&held));
        scope.spawn(move || {
            pool.scope(|scope| {
                for _ in 0..2 {
                    let (hold, held) = (Arc::clone(&hold_job), Arc::clone(&held_job));
                    // One of the two runs on the thread of the scope.
                    scope.spawn(move || {
                        if std::thread::current().name() == Some("test-0") {
                            held.store(true, Ordering::Release);
                        }
                        while hold.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                    });
                }
            });
        });
        while !held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let handles = [
            pool.register(9, Arc::<Units>::clone(&low)),
            pool.register(1, Arc::<Units>::clone(&high)),
            pool.register(5, Arc::<Units>::clone(&middle)),
        ];
        for (handle, source) in handles.iter().zip([&low, &high, &middle]) {
            source.add(3);
            handle.notify();
        }
        hold.store(false, Ordering::Release);
        for source in [&low, &high, &middle] {
            source.wait_for(3);
        }
    });
    let order = order.lock().unwrap();
    assert_eq!(
        order.chunks(3).collect::<Vec<_>>(),
        [["high"; 3], ["middle"; 3], ["low"; 3]]
    );
}

/// Holds a worker.
#[derive(Default)]
struct Gate {
    pending: AtomicUsize,
    held: AtomicBool,
    open: AtomicBool,
}

impl WorkSource for Gate {
    fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    fn serve(&self, _worker: usize) {
        self.pending.store(0, Ordering::Release);
        self.held.store(true, Ordering::Release);
        while !self.open.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn panicked(&self, panic: Panic) {
        panic.resume();
    }
}

#[test]
fn jobs_of_scopes_have_the_priority_of_the_options() {
    for (scope_priority, expected) in [
        (4, ["job", "unit"]),
        (5, ["job", "unit"]),
        (6, ["unit", "job"]),
        (ThreadPoolOptions::default().scope_priority, ["unit", "job"]),
    ] {
        let pool = ThreadPool::new(&ThreadPoolOptions {
            scope_priority,
            ..ThreadPoolOptions::workers(1)
        })
        .unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let units = Arc::new(Units {
            name: "unit",
            order: Arc::clone(&order),
            ..Units::default()
        });
        let gate = Arc::new(Gate::default());
        let handles = [
            pool.register(0, Arc::<Gate>::clone(&gate)),
            pool.register(5, Arc::<Units>::clone(&units)),
        ];
        gate.pending.store(1, Ordering::Release);
        handles[0].notify();
        while !gate.held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        pool.scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| order.lock().unwrap().push("job"));
            }
            units.add(3);
            handles[1].notify();
            gate.open.store(true, Ordering::Release);
            // The thread of the scope runs none of the jobs.
            while order.lock().unwrap().len() < 6 {
                std::thread::yield_now();
            }
        });
        let order = order.lock().unwrap();
        assert_eq!(
            order.chunks(3).collect::<Vec<_>>(),
            expected.map(|name| [name; 3]),
            "{scope_priority}"
        );
    }
}

#[test]
fn the_pool_drops_an_unregistered_work_source() {
    let pool = pool(3);
    let units = Arc::new(Units::default());
    let handle = pool.register(0, Arc::<Units>::clone(&units));
    units.add(10);
    handle.notify();
    units.wait_for(10);
    drop(handle);
    let start = Instant::now();
    while Arc::strong_count(&units) > 1 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    units.add(1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(units.done.load(Ordering::Relaxed), 10);
}

#[test]
fn jobs_borrow_and_nest() {
    for workers in [0, 1, 4, 16] {
        let pool = pool(workers);
        for _ in 0..50 {
            let sums: Vec<AtomicUsize> = (0..10).map(|_| AtomicUsize::new(0)).collect();
            let result = pool.scope(|scope| {
                for (number, sum) in sums.iter().enumerate() {
                    scope.spawn(move || {
                        sum.fetch_add(number, Ordering::Relaxed);
                        scope.spawn(move || {
                            sum.fetch_add(100, Ordering::Relaxed);
                        });
                    });
                }
                "done"
            });
            assert_eq!(result, "done");
            let found: Vec<usize> = sums.into_iter().map(AtomicUsize::into_inner).collect();
            assert_eq!(found, (100..110).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_panic_of_a_job_goes_on_in_the_scope_when_all_have_ended() {
    let pool = pool(2);
    let done = AtomicUsize::new(0);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for number in 0..20 {
                let done = &done;
                scope.spawn(move || {
                    std::thread::yield_now();
                    done.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(number, 7, "job 7");
                });
            }
        });
    }));
    let message = *caught.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("job 7"), "{message}");
    assert_eq!(done.load(Ordering::Relaxed), 20);
    assert_eq!(pool.scope(|_| 5), 5);
}

/// A panic whose payload panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload");
    }
}

#[test]
fn a_payload_that_panics_is_forgotten_and_ends_no_scope_early() {
    for workers in [0, 1, 4] {
        let pool = pool(workers);
        let done = Arc::new(AtomicUsize::new(0));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.scope(|scope| {
                for number in 0..20 {
                    let done = Arc::clone(&done);
                    scope.spawn(move || {
                        std::thread::sleep(Duration::from_millis(1));
                        done.fetch_add(1, Ordering::Relaxed);
                        if number < 10 {
                            std::panic::panic_any(Bomb);
                        }
                    });
                }
            });
        }));
        // All jobs ended before the drop of the first payload, which panics.
        assert_eq!(done.load(Ordering::Relaxed), 20);
        std::mem::forget(caught.unwrap_err());
        assert_eq!(pool.scope(|_| 5), 5);
    }
}

/// A job on a worker starts a second job and waits for it, while the thread of the scope waits
/// already.
#[test]
fn a_scope_that_waits_runs_the_jobs_that_come_then() {
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = pool(1);
        let (taken, last_done) = (AtomicBool::new(false), AtomicBool::new(false));
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        pool.scope(|scope| {
            scope.spawn(|| {
                taken.store(true, Ordering::Release);
                std::thread::sleep(Duration::from_millis(50));
                scope.spawn(|| last_done.store(true, Ordering::Release));
                until(&last_done);
            });
            until(&taken);
        });
        send.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(30)).expect("the scope ends");
}

/// Two scopes on a pool without workers: each thread runs the jobs of its own scope to the end.
#[test]
fn scopes_end_beside_each_other_without_workers() {
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = pool(0);
        let flag = || AtomicBool::new(false);
        let (pushed, taken, other_done) = (flag(), flag(), flag());
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        let last_done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                pool.scope(|scope| {
                    scope.spawn(|| {
                        taken.store(true, Ordering::Release);
                        until(&other_done);
                        std::thread::sleep(Duration::from_millis(50));
                        scope.spawn(|| last_done.store(true, Ordering::Release));
                    });
                    pushed.store(true, Ordering::Release);
                    let start = Instant::now();
                    while !taken.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(1) {
                        std::thread::yield_now();
                    }
                });
            });
            threads.spawn(|| {
                until(&pushed);
                pool.scope(|scope| scope.spawn(|| other_done.store(true, Ordering::Release)));
            });
        });
        send.send(last_done.into_inner()).unwrap();
    });
    assert!(ended.recv_timeout(Duration::from_secs(30)).expect("the scopes end"));
}

/// A work source that owns the handle of another one in the same pool.
struct Owner(#[expect(dead_code, reason = "the handle is only dropped")] blockmill_pool::WorkSourceHandle);

impl WorkSource for Owner {
    fn pending(&self) -> usize {
        0
    }
    fn serve(&self, _worker: usize) {}
    fn panicked(&self, _panic: Panic) {}
}

#[test]
fn a_work_source_may_own_a_handle_of_its_pool() {
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for workers in [0, 1, 3] {
            for _ in 0..100 {
                let pool = pool(workers);
                let inner = pool.register(0, Arc::new(Units::default()));
                let outer = pool.register(0, Arc::new(Owner(inner)));
                // Leaves the workers time to copy the list of work sources.
                std::thread::sleep(Duration::from_micros(100));
                drop(outer);
            }
        }
        send.send(()).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(60))
        .expect("no thread deadlocks");
}

/// A unit of work that holds the last reference to its pool.
struct Last(Mutex<Option<Arc<ThreadPool>>>);

impl WorkSource for Last {
    fn pending(&self) -> usize {
        usize::from(self.0.lock().unwrap().is_some())
    }
    fn serve(&self, _worker: usize) {
        let pool = self.0.lock().unwrap().take();
        drop(pool);
    }
    fn panicked(&self, _panic: Panic) {
        unreachable!("a pool that a worker drops does not wait for that worker");
    }
}

#[test]
fn a_worker_may_drop_its_pool() {
    for workers in [1, 3] {
        let pool = Arc::new(pool(workers));
        let last = Arc::new(Last(Mutex::new(None)));
        let handle = pool.register(0, Arc::<Last>::clone(&last));
        *last.0.lock().unwrap() = Some(pool);
        handle.notify();
        let start = Instant::now();
        // All workers end and drop their references. The handle drops the reference of the list.
        drop(handle);
        while Arc::strong_count(&last) > 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "a worker goes on");
            std::thread::yield_now();
        }
    }
}

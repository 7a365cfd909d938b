//! Jobs that own what they use, and pairs of jobs.

use blockmill_pool::{Helpers, ThreadPool, ThreadPoolOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn pool(workers: usize) -> ThreadPool {
    ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap()
}

#[test]
fn spawned_jobs_end_with_their_results() {
    for workers in [0, 1, 4] {
        let pool = pool(workers);
        let handles: Vec<_> = (0..500).map(|number| pool.spawn(move || number * 2)).collect();
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), number * 2);
        }
    }
}

#[test]
fn a_panic_is_the_result_of_its_job() {
    for workers in [0, 2] {
        let pool = pool(workers);
        let bad = pool.spawn(|| -> u32 { panic!("on purpose") });
        let good = pool.spawn(|| 5);
        assert_eq!(bad.join().unwrap_err().message(), "on purpose");
        assert_eq!(good.join().unwrap(), 5);
    }
}

#[test]
fn jobs_whose_handles_are_dropped_run() {
    let pool = pool(2);
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let done = Arc::clone(&done);
        drop(pool.spawn(move || done.fetch_add(1, Ordering::Relaxed)));
    }
    let start = Instant::now();
    while done.load(Ordering::Relaxed) < 100 {
        assert!(start.elapsed() < Duration::from_secs(60), "a job does not run");
        std::thread::yield_now();
    }
}

/// Each of two jobs on the only worker waits for a job that it has spawned.
#[test]
fn a_job_may_join_a_job() {
    for workers in [0, 1, 3] {
        let helpers = Helpers::start(workers + 1).unwrap();
        let inner = helpers.clone();
        let outer = helpers.spawn(move || {
            let jobs: Vec<_> = (0..10).map(|number| inner.spawn(move || number)).collect();
            jobs.into_iter().map(|job| job.join().unwrap()).sum::<u32>()
        });
        assert_eq!(outer.join().unwrap(), 45);
    }
}

#[test]
fn a_job_that_outlives_its_pool_runs_where_it_is_joined() {
    let pool = pool(0);
    let job = pool.spawn(|| std::thread::current().id());
    drop(pool);
    assert!(!job.is_finished());
    assert_eq!(job.join().unwrap(), std::thread::current().id());
}

#[test]
fn both_closures_run_and_a_panic_of_either_goes_on() {
    for workers in [0, 1, 4] {
        let pool = pool(workers);
        let (mut left, mut right) = (vec![1], vec![2]);
        for _ in 0..200 {
            let lengths = pool.join(
                || {
                    left.push(0);
                    left.len()
                },
                || {
                    right.push(0);
                    right.len()
                },
            );
            assert_eq!(lengths, (left.len(), right.len()));
        }
        let first = || pool.join(|| panic!("first"), || 5).1;
        let second = || pool.join(|| 5, || panic!("second")).0;
        for (call, message) in [(&first as &dyn Fn() -> i32, "first"), (&second, "second")] {
            let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&message));
        }
    }
}

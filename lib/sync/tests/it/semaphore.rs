//! The semaphore on the real machine: against a model, under stress with more threads than cores,
//! and with threads that barge.

use blockmill_sync::semaphore::{PERMITS_MAX, STARVING_AFTER};
use blockmill_sync::wait::Deadline;
use blockmill_sync::{CachePadded, CriticalSection, Mutex, PermitOverflow, Semaphore};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn timeouts_wait_for_their_time_and_unregister_the_waiter() {
    let semaphore = Semaphore::new(0);
    let start = Instant::now();
    assert!(!semaphore.acquire_timeout(Duration::from_millis(30)));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert!(!semaphore.acquire_timeout(Duration::ZERO));
    assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
    assert!(!semaphore.is_starving());
    semaphore.release(1).unwrap();
    assert!(semaphore.acquire_timeout(Duration::MAX));
}

#[test]
fn more_permits_than_fit_are_refused() {
    let semaphore = Semaphore::new(PERMITS_MAX - 1);
    assert_eq!(semaphore.release(2), Err(PermitOverflow));
    assert_eq!(semaphore.release(1), Ok(()));
    assert_eq!(semaphore.release(1), Err(PermitOverflow));
    assert_eq!(semaphore.release(u32::MAX), Err(PermitOverflow));
    assert_eq!(semaphore.release(0), Ok(()));
    assert_eq!(semaphore.permits(), PERMITS_MAX);
    assert!(semaphore.try_acquire());
}

#[test]
fn dropping_a_permit_releases_it_and_forgetting_does_not() {
    let semaphore = Semaphore::new(2);
    let first = semaphore.permit();
    let second = semaphore.try_permit().unwrap();
    assert!(semaphore.try_permit().is_none());
    drop(first);
    assert_eq!(semaphore.permits(), 1);
    second.forget();
    assert_eq!(semaphore.permits(), 1);
}

#[test]
fn several_permits_are_taken_together_or_not_at_all() {
    let semaphore = Arc::new(Semaphore::new(3));
    assert!(semaphore.try_permit_many(4).is_none());
    let two = semaphore.permit_many(2);
    assert_eq!((two.count(), semaphore.permits()), (2, 1));
    assert!(semaphore.try_permit_owned(2).is_none());
    let time = Duration::from_millis(20);
    let start = Instant::now();
    assert!(semaphore.permit_many_timeout(2, time).is_none());
    assert!(semaphore.permit_owned_timeout(3, time).is_none());
    assert!(start.elapsed() >= 2 * time);
    // What they collected is back.
    assert_eq!((semaphore.permits(), semaphore.waiters()), (1, 0));
    assert!(!semaphore.is_starving());
    drop(two);
    let all = semaphore.permit_owned_timeout(3, time).unwrap();
    assert!(semaphore.permit_timeout(time).is_none());
    let elsewhere = std::thread::spawn(move || drop(all));
    assert_eq!(semaphore.permit_owned(3).count(), 3);
    elsewhere.join().unwrap();
    semaphore.permit_owned(2).forget();
    assert_eq!(semaphore.permits(), 1);
    semaphore.acquire_many(0);
    assert_eq!(semaphore.permits(), 1);
}

#[test]
#[should_panic(expected = "too many permits")]
fn more_permits_than_there_can_be_are_refused() {
    Semaphore::new(0).acquire_many(PERMITS_MAX + 1);
}

#[test]
fn a_section_stays_taken_when_others_try() {
    let section = CriticalSection::new();
    let guard = section.enter();
    for _ in 0..3 {
        assert!(section.try_enter().is_none());
    }
    drop(guard);
    assert!(section.try_enter().is_some());
}

#[test]
fn all_waiters_are_released_and_nothing_happens_without_any() {
    let semaphore = Semaphore::new(0);
    assert_eq!(semaphore.release_all_waiters(), Ok(0));
    assert_eq!(semaphore.permits(), 0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| semaphore.acquire());
        }
        while semaphore.waiters() < 8 {
            std::thread::yield_now();
        }
        assert_eq!(semaphore.release_all_waiters(), Ok(8));
    });
    assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
}

/// Threads acquire, hold and release. Never are more threads inside than there are permits, and all
/// permits are there at the end.
fn stress(threads: u32, permits: u32, rounds: u32, with_timeouts: bool) {
    let semaphore = Semaphore::new(permits);
    let inside = CachePadded::new(AtomicU32::new(0));
    let entered = CachePadded::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (semaphore, inside, entered) = (&semaphore, &inside, &entered);
            scope.spawn(move || {
                for round in 0..rounds {
                    if with_timeouts && (round + number) % 3 == 0 {
                        if !semaphore.acquire_timeout(Duration::from_micros(u64::from(round % 50))) {
                            continue;
                        }
                    } else {
                        semaphore.acquire();
                    }
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < permits);
                    entered.fetch_add(1, Ordering::Relaxed);
                    if round % 64 == 0 {
                        std::thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    semaphore.release(1).unwrap();
                }
            });
        }
    });
    assert_eq!((semaphore.permits(), semaphore.waiters()), (permits, 0));
    assert!(!semaphore.is_starving());
    let entered = entered.load(Ordering::Relaxed);
    let all = u64::from(threads) * u64::from(rounds);
    assert!(
        entered == all || (with_timeouts && entered > all / 2),
        "{entered} of {all}"
    );
}

#[test]
fn stress_with_more_threads_than_cores() {
    for (threads, permits) in [(2, 1), (4, 1), (16, 1), (16, 3), (64, 1), (64, 8)] {
        stress(threads, permits, 200_000 / threads, false);
        stress(threads, permits, 50_000 / threads, true);
    }
}

/// Threads take one permit, several, or all, and some give up. Never are more out than there are.
#[test]
fn stress_with_several_permits_at_once() {
    for (threads, permits) in [(2, 2), (4, 3), (16, 3), (16, 8), (48, 5)] {
        let semaphore = Semaphore::new(permits);
        let out = CachePadded::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..threads {
                let (semaphore, out) = (&semaphore, &out);
                scope.spawn(move || {
                    for round in 0..20_000 / threads {
                        let count = 1 + (number * 7 + round * 5) % permits;
                        let time = Duration::from_micros(u64::from(round % 100));
                        let permit = match round % 4 {
                            0 => semaphore.permit_many_timeout(count, time),
                            1 => semaphore.try_permit_many(count),
                            _ => Some(semaphore.permit_many(count)),
                        };
                        let Some(_permit) = permit else {
                            continue;
                        };
                        assert!(out.fetch_add(count, Ordering::SeqCst) + count <= permits);
                        if round % 64 == 0 {
                            std::thread::yield_now();
                        }
                        out.fetch_sub(count, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((semaphore.permits(), semaphore.waiters()), (permits, 0));
        assert!(!semaphore.is_starving());
    }
}

/// Random numbers of threads and permits, for `BLOCKMILL_TEST_SEMAPHORE_SECONDS` seconds, by
/// default an hour. A watchdog looks for lost wakes.
#[test]
#[ignore = "takes an hour"]
fn stress_for_long() {
    let seconds = std::env::var("BLOCKMILL_TEST_SEMAPHORE_SECONDS").map_or(3_600, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let beat = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = (0, Instant::now());
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(500));
                let now = beat.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                }
                if last.1.elapsed() > Duration::from_secs(120) {
                    eprintln!("a round has not ended for two minutes: {now} rounds were done");
                    std::process::abort();
                }
            }
        });
        let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
        while Instant::now() < end {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let threads = 2 + (random % 63) as u32;
            let permits = 1 + ((random >> 8) % 4) as u32;
            stress(threads, permits, 100_000 / threads, random & (1 << 20) == 0);
            beat.fetch_add(1, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
    let rounds = beat.into_inner();
    eprintln!("{rounds} rounds of 100,000 passes in {seconds} s");
    assert!(rounds > 0);
}

/// Threads that enter again right after leaving cannot keep another thread out.
#[test]
fn barging_threads_starve_no_waiter() {
    let section = CriticalSection::new();
    let stop = AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let guard = section.enter();
                    for _ in 0..200 {
                        std::hint::spin_loop();
                    }
                    drop(guard);
                }
            });
        }
        for _ in 0..300 {
            let start = Instant::now();
            drop(section.enter());
            longest = longest.max(start.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
    });
    // A thread may also wait for a core, on a busy machine far longer than for the lock. A starving
    // waiter would wait for ever.
    assert!(longest < STARVING_AFTER + Duration::from_secs(60), "{longest:?}");
}

/// Threads that take single permits again and again cannot keep another from all of them.
#[test]
fn barging_threads_do_not_keep_a_waiter_from_all_permits() {
    let semaphore = Semaphore::new(4);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _permit = semaphore.permit();
                    std::thread::yield_now();
                }
            });
        }
        let late = (0..100).find(|_| {
            let permit = semaphore.permit_many_timeout(4, Duration::from_secs(60));
            permit.is_none_or(|permit| permit.count() != 4)
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(late, None);
    });
}

#[test]
fn a_mutex_counts_right() {
    let total = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    *total.lock() += 1;
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 160_000);
    let held = Mutex::new(());
    let guard = held.lock();
    assert!(held.is_locked());
    assert!(held.try_lock_for(Duration::from_millis(2)).is_none());
    assert!(held.try_lock_until(Instant::now()).is_none());
    drop(guard);
    assert!(held.try_lock().is_some());
}

#[derive(Debug, Clone)]
enum Step {
    TryAcquire,
    AcquireTimeout,
    TryAcquireMany(u32),
    AcquireManyTimeout(u32),
    Release(u32),
    ReleaseAllWaiters,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::TryAcquire),
        1 => Just(Step::AcquireTimeout),
        2 => (0u32..5).prop_map(Step::TryAcquireMany),
        2 => (0u32..5).prop_map(Step::AcquireManyTimeout),
        4 => prop_oneof![0u32..4, Just(PERMITS_MAX - 2)].prop_map(Step::Release),
        1 => Just(Step::ReleaseAllWaiters),
    ]
}

proptest! {
    /// With one thread a semaphore is a counter.
    #[test]
    fn with_one_thread_it_is_a_counter(start in 0u32..4, steps in proptest::collection::vec(step(), 0..60)) {
        let semaphore = Semaphore::new(start);
        let mut model = start;
        for step in steps {
            match step {
                Step::TryAcquire => {
                    prop_assert_eq!(semaphore.try_acquire(), model > 0);
                    model = model.saturating_sub(1);
                }
                Step::AcquireTimeout => {
                    prop_assert_eq!(semaphore.acquire_timeout(Duration::from_micros(1)), model > 0);
                    model = model.saturating_sub(1);
                }
                Step::TryAcquireMany(count) | Step::AcquireManyTimeout(count) => {
                    let taken = if matches!(step, Step::TryAcquireMany(_)) {
                        semaphore.try_acquire_many(count)
                    } else {
                        semaphore.acquire_many_until(count, &Deadline::after(Duration::from_micros(1)))
                    };
                    prop_assert_eq!(taken, count <= model);
                    model -= if taken { count } else { 0 };
                }
                Step::Release(count) => {
                    let fits = count <= PERMITS_MAX - model;
                    prop_assert_eq!(semaphore.release(count).is_ok(), fits);
                    model += if fits { count } else { 0 };
                }
                Step::ReleaseAllWaiters => prop_assert_eq!(semaphore.release_all_waiters(), Ok(0)),
            }
            prop_assert_eq!((semaphore.permits(), semaphore.waiters()), (model, 0));
        }
    }
}

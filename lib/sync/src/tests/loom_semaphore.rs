//! Models of the semaphore and the critical section.

use super::{WEAKENED, model};
use crate::wait::Deadline;
use crate::{CriticalSection, Semaphore};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// A counter that only exclusion protects. Loom fails if two threads may access it at once.
struct Guarded {
    section: CriticalSection,
    count: UnsafeCell<u32>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            section: CriticalSection::new(),
            count: UnsafeCell::new(0),
        })
    }

    fn add(&self) {
        let _guard = self.section.enter();
        self.count.with_mut(|count| {
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: this thread holds the guard. Loom checks that no other thread is here.
            unsafe {
                *count += 1;
            }
        });
    }
}

#[expect(unsafe_code, reason = "the model is about this access")]
// SAFETY: threads access `count` only inside the section. Loom checks that.
unsafe impl Sync for Guarded {}
#[expect(unsafe_code, reason = "the model is about this access")]
// SAFETY: as for Sync.
unsafe impl Send for Guarded {}

fn exclusion(threads: usize, preemptions: usize) {
    model(preemptions, move || {
        let guarded = Guarded::new();
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || guarded.add())
            })
            .collect();
        guarded.add();
        for other in others {
            other.join().unwrap();
        }
        // Each thread entered once, so no wake was lost. The permit is there again.
        guarded.count.with(|count| {
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: this thread has joined all others.
            let count = unsafe { *count };
            assert_eq!(count as usize, threads);
        });
        assert_eq!(guarded.section.waiters(), 0);
        assert!(guarded.section.try_enter().is_some());
    });
}

#[test]
fn two_threads_exclude_each_other() {
    exclusion(2, 4);
}

#[test]
fn three_threads_exclude_each_other() {
    exclusion(3, 2);
}

/// The planted weakening: without Acquire a thread may not see the writes of the last holder.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_acquire_is_caught() {
    WEAKENED.set(true);
    exclusion(2, 4);
}

#[test]
fn no_permit_is_lost_or_made() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(2));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || {
                    semaphore.acquire();
                    semaphore.release(1).unwrap();
                })
            })
            .collect();
        semaphore.acquire();
        semaphore.release(1).unwrap();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((semaphore.permits(), semaphore.waiters()), (2, 0));
        assert!(!semaphore.is_starving());
    });
}

#[test]
fn two_permits_released_at_once_reach_two_waiters() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || semaphore.acquire())
            })
            .collect();
        semaphore.release(2).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
}

/// A deadline passes at any moment, together with spurious wakes.
#[test]
fn a_timeout_against_a_release() {
    model(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let deadline = Deadline::in_the_future();
        let waiter = {
            let (semaphore, deadline) = (Arc::clone(&semaphore), deadline.clone());
            thread::spawn(move || semaphore.acquire_until(&deadline))
        };
        let clock = {
            let (semaphore, deadline) = (Arc::clone(&semaphore), deadline);
            thread::spawn(move || {
                deadline.pass();
                semaphore.wake_spuriously();
            })
        };
        semaphore.release(1).unwrap();
        let taken = waiter.join().unwrap();
        clock.join().unwrap();
        assert_eq!(semaphore.permits(), u32::from(!taken));
        assert_eq!(semaphore.waiters(), 0);
        assert!(!semaphore.is_starving());
    });
}

/// A waiter that gives up must not swallow a wake that another waiter needs.
#[test]
fn a_wake_is_not_lost_with_a_waiter_that_gives_up() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let deadline = Deadline::in_the_future();
        let patient = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire())
        };
        let hasty = {
            let (semaphore, deadline) = (Arc::clone(&semaphore), deadline.clone());
            thread::spawn(move || semaphore.acquire_until(&deadline))
        };
        semaphore.release(1).unwrap();
        deadline.pass();
        semaphore.wake_spuriously();
        if hasty.join().unwrap() {
            semaphore.release(1).unwrap();
        }
        patient.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
    });
}

#[test]
fn releasing_all_waiters_against_acquire() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || semaphore.acquire())
            })
            .collect();
        let released = semaphore.release_all_waiters().unwrap();
        assert!(released <= 2);
        // Waiters that registered later get their permits here.
        semaphore.release(2 - released).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert_eq!(semaphore.release_all_waiters(), Ok(0));
    });
}

/// Once a waiter is starving, a newcomer cannot take the permit ahead of it.
#[test]
fn no_newcomer_overtakes_a_starving_waiter() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    model(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiter = {
            let semaphore = Arc::clone(&semaphore);
            // The waiter keeps its permit, so a newcomer can only get another permit.
            thread::spawn(move || semaphore.acquire())
        };
        semaphore.release(1).unwrap();
        if semaphore.try_acquire() {
            // A newcomer overtook the waiter, or the waiter has not come yet. The waiter may now
            // make an attempt, and find that it is starving.
            thread::yield_now();
            let starving = semaphore.is_starving();
            semaphore.release(1).unwrap();
            if starving {
                SEEN.store(true, Ordering::Relaxed);
                assert!(!semaphore.try_acquire());
            }
        }
        waiter.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
    assert!(SEEN.load(Ordering::Relaxed), "no execution has a starving waiter");
}

/// Wakes a sleeping waiter in vain, so that it starves. Returns whether a waiter is starving: in
/// some executions none sleeps yet.
fn starve(semaphore: &Semaphore) -> bool {
    // Loom switches threads at a read only where the model yields.
    thread::yield_now();
    semaphore.wake_spuriously();
    thread::yield_now();
    semaphore.is_starving()
}

/// A newcomer that becomes a waiter cannot take the permit either: before its first wake it leaves
/// the permit to the starving waiter.
#[test]
fn a_fresh_waiter_does_not_overtake_a_starving_one() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    model(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiter = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire())
        };
        let starving = starve(&semaphore);
        semaphore.release(1).unwrap();
        if starving {
            let passed = Deadline::in_the_future();
            passed.pass();
            SEEN.store(true, Ordering::Relaxed);
            assert!(!semaphore.acquire_until(&passed), "a fresh waiter overtook");
        }
        waiter.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
    assert!(SEEN.load(Ordering::Relaxed), "no execution has a starving waiter");
}

/// A waiter that may not take a permit, and gives up after a wake, passes the wake on.
#[test]
fn a_waiter_that_may_not_take_passes_its_wake_on() {
    model(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let deadline = Deadline::in_the_future();
        let patient = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire())
        };
        starve(&semaphore);
        let hasty = {
            let (semaphore, deadline) = (Arc::clone(&semaphore), deadline.clone());
            thread::spawn(move || {
                if semaphore.acquire_until(&deadline) {
                    semaphore.release(1).unwrap();
                }
            })
        };
        thread::yield_now();
        deadline.pass();
        semaphore.release(1).unwrap();
        patient.join().unwrap();
        semaphore.wake_spuriously();
        hasty.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
}

/// A value that one thread writes with both permits, and others read with one.
struct ReadMostly {
    semaphore: Semaphore,
    value: UnsafeCell<u32>,
}

#[expect(unsafe_code, reason = "the model is about this access")]
// SAFETY: a thread that writes holds both permits. Loom checks that no other thread reads then.
unsafe impl Sync for ReadMostly {}

fn both_permits_exclude_readers(preemptions: usize) {
    model(preemptions, || {
        let shared = Arc::new(ReadMostly {
            semaphore: Semaphore::new(2),
            value: UnsafeCell::new(0),
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _permit = shared.semaphore.permit();
                    shared.value.with(|value| {
                        #[expect(unsafe_code, reason = "the model is about this access")]
                        // SAFETY: this thread holds a permit, so the writer does not hold both.
                        let value = unsafe { *value };
                        assert!(value <= 1);
                    });
                })
            })
            .collect();
        let permit = shared.semaphore.permit_many(2);
        shared.value.with_mut(|value| {
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: this thread holds both permits.
            unsafe {
                *value += 1;
            }
        });
        drop(permit);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!((shared.semaphore.permits(), shared.semaphore.waiters()), (2, 0));
        assert!(!shared.semaphore.is_starving());
    });
}

#[test]
fn a_writer_with_both_permits_excludes_readers() {
    both_permits_exclude_readers(2);
}

/// The planted weakening: a permit that was collected without Acquire.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_collection_is_caught() {
    WEAKENED.set(true);
    both_permits_exclude_readers(2);
}

/// Two waiters for two permits each, released one at a time: neither keeps the other from them.
#[test]
fn two_waiters_for_two_permits_do_not_block_each_other() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || semaphore.acquire_many(2))
            })
            .collect();
        for _ in 0..3 {
            semaphore.release(1).unwrap();
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
}

/// A waiter for two permits that uses up the wake of the only permit, while another waiter starves,
/// passes the wake on.
#[test]
fn a_waiter_for_two_passes_its_wake_to_the_starving_one() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let modest = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire())
        };
        if !starve(&semaphore) {
            semaphore.release(1).unwrap();
            modest.join().unwrap();
            return;
        }
        SEEN.store(true, Ordering::Relaxed);
        let greedy = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire_many(2))
        };
        thread::yield_now();
        // Both fall asleep again, in either order.
        semaphore.wake_spuriously();
        thread::yield_now();
        semaphore.release(1).unwrap();
        modest.join().unwrap();
        semaphore.release(2).unwrap();
        greedy.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
    assert!(SEEN.load(Ordering::Relaxed), "no execution has a starving waiter");
}

/// A waiter that has collected one of its two permits gives up. The permit goes to another waiter.
#[test]
fn a_waiter_that_gives_up_loses_no_permit() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let deadline = Deadline::in_the_future();
        let greedy = {
            let (semaphore, deadline) = (Arc::clone(&semaphore), deadline.clone());
            thread::spawn(move || semaphore.acquire_many_until(2, &deadline))
        };
        let modest = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire())
        };
        semaphore.release(1).unwrap();
        deadline.pass();
        semaphore.wake_spuriously();
        // There is only one permit.
        assert!(!greedy.join().unwrap());
        modest.join().unwrap();
        assert_eq!((semaphore.permits(), semaphore.waiters()), (0, 0));
        assert!(!semaphore.is_starving());
    });
}

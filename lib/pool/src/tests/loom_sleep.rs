//! Models of parking against publishing. A lost wake is a deadlock of the model, and loom reports
//! it.

use super::{WEAKENED, model};
use crate::sleep::{Found, Sleep};
use blockmill_sync::AutoResetEvent;
use blockmill_sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Units of work, and the workers that search for them.
struct Harness {
    sleep: Sleep,
    units: AtomicU32,
    awake_max: u32,
}

impl Harness {
    /// Leaks the harness: when loom reports a deadlock, dropping the harness would panic once more.
    fn new(workers: usize, awake_max: u32) -> &'static Self {
        Box::leak(Box::new(Self {
            sleep: Sleep::new(workers),
            units: AtomicU32::new(0),
            awake_max,
        }))
    }

    fn publish(&self) {
        self.units.fetch_add(1, Ordering::Release);
        self.sleep.notify(|| self.awake_max);
    }

    fn pending(&self) -> u32 {
        self.units.load(Ordering::Acquire)
    }

    fn take(&self) -> bool {
        let units = self.pending();
        units > 0
            && self
                .units
                .compare_exchange(units, units - 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes `units` units, and parks while there are none.
    fn work(&self, worker: usize, units: u32) {
        let mut taken = 0;
        while taken < units {
            if self.pending() > 0 {
                if self.sleep.found_work() == Found::LastSearcher && self.pending() > 1 {
                    self.sleep.notify(|| self.awake_max);
                }
                while taken < units && self.take() {
                    taken += 1;
                }
                self.sleep.search();
            } else {
                let _ = self.sleep.park(worker, || self.pending() > 0);
            }
        }
    }
}

fn one_worker(units: u32) {
    model(3, move || {
        let harness = Harness::new(1, 1);
        let worker = thread::spawn(move || harness.work(0, units));
        for _ in 0..units {
            harness.publish();
        }
        worker.join().unwrap();
        assert_eq!(harness.pending(), 0);
    });
}

#[test]
fn a_worker_that_parks_sees_what_is_published() {
    one_worker(1);
}

#[test]
fn a_worker_parks_again_and_again() {
    one_worker(2);
}

/// The planted weakening: with weaker fences the worker may sleep although there is work.
#[test]
#[should_panic(expected = "deadlock")]
fn a_weaker_fence_is_caught() {
    WEAKENED.set(true);
    one_worker(1);
}

#[test]
fn two_workers_share_two_units() {
    model(2, || {
        let harness = Harness::new(2, 2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    harness.work(worker, 1);
                    // The worker runs its unit for ever and does not search again.
                    if harness.sleep.found_work() == Found::LastSearcher && harness.pending() > 0 {
                        harness.sleep.notify(|| harness.awake_max);
                    }
                })
            })
            .collect();
        harness.publish();
        harness.publish();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(harness.pending(), 0);
    });
}

#[test]
fn two_publish_for_one_worker() {
    model(2, || {
        let harness = Harness::new(1, 1);
        let worker = thread::spawn(move || harness.work(0, 2));
        let other = thread::spawn(move || harness.publish());
        harness.publish();
        other.join().unwrap();
        worker.join().unwrap();
        assert_eq!(harness.pending(), 0);
    });
}

#[test]
fn all_are_woken() {
    model(2, || {
        let harness = Harness::new(2, 2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    while harness.pending() == 0 {
                        let _ = harness.sleep.park(worker, || harness.pending() > 0);
                    }
                })
            })
            .collect();
        harness.units.store(1, Ordering::Release);
        harness.sleep.wake_all();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two workers each wait for two changes, one after the other, and park in between. Each change
/// wakes both, even if the upper one on the stack parks again at once.
#[test]
fn all_are_woken_by_each_change() {
    model(2, || {
        let harness = Harness::new(2, 2);
        let noticed: &'static _ = Box::leak(Box::new((AtomicU32::new(0), AutoResetEvent::new())));
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    for change in 1..=2 {
                        while harness.pending() < change {
                            let _ = harness.sleep.park(worker, || harness.pending() >= change);
                        }
                        if noticed.0.fetch_add(1, Ordering::AcqRel) + 1 == 2 * change {
                            noticed.1.set();
                        }
                    }
                })
            })
            .collect();
        for change in 1..=2 {
            harness.units.store(change, Ordering::Release);
            harness.sleep.wake_all();
            noticed.1.wait();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

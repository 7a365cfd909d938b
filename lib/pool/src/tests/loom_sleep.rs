//! Models of parking against publishing. A model in which a wake is lost ends in a deadlock, which loom reports.

use super::{WEAKENED, model};
use crate::sleep::{Found, Sleep};
use blockmill_sync::AutoResetEvent;
use blockmill_sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Units of work, and those who look for them.
struct Yard {
    sleep: Sleep,
    units: AtomicU32,
    awake_max: u32,
}

impl Yard {
    /// Leaked: where loom reports a deadlock, dropping it would panic once more.
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

    /// Takes so many units, and parks while there are none.
    fn work(&self, worker: usize, units: u32) {
        let mut taken = 0;
        while taken < units {
            if self.pending() > 0 {
                if self.sleep.found_work() == Found::NobodyLooks && self.pending() > 1 {
                    self.sleep.notify(|| self.awake_max);
                }
                while taken < units && self.take() {
                    taken += 1;
                }
                self.sleep.look();
            } else {
                let _ = self.sleep.park(worker, || self.pending() > 0);
            }
        }
    }
}

fn one_worker(units: u32) {
    model(3, move || {
        let yard = Yard::new(1, 1);
        let worker = thread::spawn(move || yard.work(0, units));
        for _ in 0..units {
            yard.publish();
        }
        worker.join().unwrap();
        assert_eq!(yard.pending(), 0);
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

/// The planted weakening: without the fences the worker may sleep although there is work.
#[test]
#[should_panic(expected = "deadlock")]
fn a_weaker_fence_is_caught() {
    WEAKENED.set(true);
    one_worker(1);
}

#[test]
fn two_workers_share_two_units() {
    model(2, || {
        let yard = Yard::new(2, 2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    yard.work(worker, 1);
                    // It does its unit for ever: it looks no more.
                    if yard.sleep.found_work() == Found::NobodyLooks && yard.pending() > 0 {
                        yard.sleep.notify(|| yard.awake_max);
                    }
                })
            })
            .collect();
        yard.publish();
        yard.publish();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(yard.pending(), 0);
    });
}

#[test]
fn two_publish_for_one_worker() {
    model(2, || {
        let yard = Yard::new(1, 1);
        let worker = thread::spawn(move || yard.work(0, 2));
        let other = thread::spawn(move || yard.publish());
        yard.publish();
        other.join().unwrap();
        worker.join().unwrap();
        assert_eq!(yard.pending(), 0);
    });
}

#[test]
fn all_are_woken() {
    model(2, || {
        let yard = Yard::new(2, 2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    while yard.pending() == 0 {
                        let _ = yard.sleep.park(worker, || yard.pending() > 0);
                    }
                })
            })
            .collect();
        yard.units.store(1, Ordering::Release);
        yard.sleep.wake_all();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two workers that each take note of two changes, one after the other, and park between them: all are woken by each change, also
/// those that are below one that parks again at once.
#[test]
fn all_are_woken_by_each_change() {
    model(2, || {
        let yard = Yard::new(2, 2);
        let noticed: &'static _ = Box::leak(Box::new((AtomicU32::new(0), AutoResetEvent::new())));
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                thread::spawn(move || {
                    for change in 1..=2 {
                        while yard.pending() < change {
                            let _ = yard.sleep.park(worker, || yard.pending() >= change);
                        }
                        if noticed.0.fetch_add(1, Ordering::AcqRel) + 1 == 2 * change {
                            noticed.1.set();
                        }
                    }
                })
            })
            .collect();
        for change in 1..=2 {
            yard.units.store(change, Ordering::Release);
            yard.sleep.wake_all();
            noticed.1.wait();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

//! Work on many items, through the public interface.

use blockmill_pool::{Helpers, Panic, ThreadPool, ThreadPoolOptions, WorkSource};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Helpers of each kind: none, workers of a pool, threads of their own, and those of a pool that is
/// gone.
fn all_helpers() -> Vec<(Option<ThreadPool>, Helpers)> {
    let mut all = vec![(None, Helpers::default())];
    for workers in [0, 1, 2, 7] {
        let pool = ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap();
        let helpers = pool.helpers(3);
        all.push((Some(pool), helpers));
        all.push((None, Helpers::start(workers + 1).unwrap()));
    }
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(2)).unwrap();
    all.push((None, pool.helpers(3)));
    all
}

fn for_all(check: impl Fn(&Helpers)) {
    for (_pool, helpers) in all_helpers() {
        check(&helpers);
    }
}

#[test]
fn results_come_in_order_and_few_are_ahead() {
    for_all(|helpers| {
        let (mut taken, begun) = (Vec::new(), Mutex::new(0usize));
        let most = AtomicUsize::new(0);
        let convert = |item: u64| {
            let now = {
                let mut begun = begun.lock().unwrap();
                *begun += 1;
                *begun
            };
            most.fetch_max(now, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(item * 7_919 % 300));
            item
        };
        let take = |item| {
            taken.push(item);
            *begun.lock().unwrap() -= 1;
            Ok::<(), ()>(())
        };
        helpers.in_order(0..500u64, convert, take).unwrap();
        assert!(taken.into_iter().eq(0..500));
        assert!(most.into_inner() <= 2 * helpers.threads());
        helpers.in_order(0..0u64, |item| item, |_| Err(())).unwrap();
    });
}

/// Results wait while one takes long, and while `take` does.
#[test]
fn results_that_wait_have_a_bound() {
    for_all(|helpers| {
        for most in [0, 10, 1_000, usize::MAX] {
            let waiting = AtomicUsize::new(0);
            let highest = AtomicUsize::new(0);
            let weight = |item: usize| item * 7_919 % 30;
            let convert = |item: usize| {
                std::thread::sleep(Duration::from_micros(if item % 20 == 0 { 500 } else { 5 }));
                let before = waiting.fetch_add(weight(item), Ordering::Relaxed);
                highest.fetch_max(before + weight(item), Ordering::Relaxed);
                (item, weight(item))
            };
            let mut taken = 0;
            let take = |item| {
                assert_eq!(item, taken);
                taken += 1;
                if item % 50 == 0 {
                    std::thread::sleep(Duration::from_micros(500));
                }
                waiting.fetch_sub(weight(item), Ordering::Relaxed);
                Ok::<(), ()>(())
            };
            helpers.in_order_weighed(most, 0..400, convert, take).unwrap();
            assert_eq!(taken, 400);
            let of_threads = 29 * helpers.threads();
            assert!(highest.into_inner() <= most.saturating_add(of_threads));
        }
    });
}

#[test]
fn each_item_is_worked_on_once() {
    for_all(|helpers| {
        let sums: Vec<AtomicUsize> = (0..3_000).map(|_| AtomicUsize::new(0)).collect();
        let add = |sum: &AtomicUsize| {
            sum.fetch_add(1, Ordering::Relaxed);
            Ok::<(), ()>(())
        };
        helpers.for_each(&sums, add).unwrap();
        assert!(sums.into_iter().all(|sum| sum.into_inner() == 1));
    });
}

/// While one item takes long, the others of `for_each` go on.
#[test]
fn one_long_item_holds_up_no_other() {
    for_all(|helpers| {
        if helpers.threads() == 1 {
            return;
        }
        let done = AtomicUsize::new(0);
        let work = |item: usize| {
            if item == 0 {
                while done.load(Ordering::Acquire) < 200 {
                    std::thread::yield_now();
                }
            }
            done.fetch_add(1, Ordering::Release);
            Ok::<(), ()>(())
        };
        helpers.for_each(0..300, work).unwrap();
        assert_eq!(done.into_inner(), 300);
    });
}

#[test]
fn the_first_error_ends_it() {
    for_all(|helpers| {
        let mut taken = 0;
        let convert = |item: u64| if item == 40 { Err("converted") } else { Ok(item) };
        let outcome = helpers.in_order(0..u64::MAX, convert, |item| item.map(|_| taken += 1));
        assert_eq!((outcome, taken), (Err("converted"), 40));
        let take = |item| if item == 40 { Err("taken") } else { Ok(()) };
        assert_eq!(helpers.in_order(0..u64::MAX, |item| item, take), Err("taken"));
        // All items from 40 on fail, and some of them sooner than item 40.
        let work = |item: u64| {
            if item >= 40 {
                std::thread::sleep(Duration::from_micros(200u64.saturating_sub(item)));
                return Err(item);
            }
            Ok(())
        };
        assert_eq!(helpers.for_each(0..u64::MAX, work), Err(40));
    });
}

#[test]
fn after_an_error_no_more_items_begin() {
    for_all(|helpers| {
        let begun = AtomicUsize::new(0);
        let work = |item: u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 9 { Err(()) } else { Ok(()) }
        };
        helpers.for_each(0..u64::MAX, work).unwrap_err();
        let at_end = begun.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(begun.load(Ordering::Relaxed), at_end);
    });
}

fn message_of(call: impl FnOnce() -> Result<(), ()>) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    payload.downcast_ref::<&str>().unwrap().to_string()
}

#[test]
fn a_panic_ends_it_with_its_own_message() {
    for_all(|helpers| {
        let panics = |item: u64| {
            if item == 9 {
                panic!("on purpose");
            }
        };
        let converted = || helpers.in_order(0..u64::MAX, panics, |()| Ok(()));
        assert_eq!(message_of(converted), "on purpose");
        let taken = || {
            helpers.in_order(
                0..u64::MAX,
                |item| item,
                |item| {
                    panics(item);
                    Ok(())
                },
            )
        };
        assert_eq!(message_of(taken), "on purpose");
        // An iterator that panics is not asked for another item.
        let mut asked = 0;
        let items = std::iter::from_fn(|| {
            asked += 1;
            panics(asked);
            Some(asked)
        });
        let fetched = || helpers.in_order(items, |item| item, |_| Ok(()));
        assert_eq!(message_of(fetched), "on purpose");
        assert_eq!(asked, 9);
    });
}

#[test]
fn only_the_workers_and_the_caller_work() {
    let options = ThreadPoolOptions {
        name: "ours".to_owned(),
        ..ThreadPoolOptions::workers(3)
    };
    let pool = ThreadPool::new(&options).unwrap();
    let names = Mutex::new(HashSet::new());
    let work = |_| {
        let name = std::thread::current().name().map(str::to_owned);
        names.lock().unwrap().insert(name);
        std::thread::sleep(Duration::from_micros(300));
        Ok::<(), ()>(())
    };
    pool.for_each(0..200, work).unwrap();
    let mut expected: HashSet<_> = (0..3).map(|worker| Some(format!("ours-{worker}"))).collect();
    expected.insert(std::thread::current().name().map(str::to_owned));
    // How many workers come depends on the cores.
    assert!(names.into_inner().unwrap().is_subset(&expected));
}

/// Calls inside calls, and several at once on one pool.
#[test]
fn calls_nest_and_share_a_pool() {
    for workers in [0, 1, 4] {
        let pool = ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap();
        let sum = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..20 {
                        let outer = |item: usize| {
                            let mut inner = 0;
                            let add = |number: usize| {
                                inner += number;
                                Ok::<(), ()>(())
                            };
                            pool.in_order(0..item, |number| number, add).unwrap();
                            inner
                        };
                        let take = |found: usize| {
                            sum.fetch_add(found, Ordering::Relaxed);
                            Ok::<(), ()>(())
                        };
                        pool.in_order(0..30, outer, take).unwrap();
                    }
                });
            }
        });
        // For each item n the sum of the numbers below n.
        let each: usize = (0..30).map(|item| item * (item.max(1) - 1) / 2).sum();
        assert_eq!(sum.into_inner(), each * 80);
    }
}

/// Counts the items that were done when it was served.
struct Urgent {
    is_pending: AtomicUsize,
    items: Arc<AtomicUsize>,
    at: AtomicUsize,
}

impl WorkSource for Urgent {
    fn pending(&self) -> usize {
        self.is_pending.load(Ordering::Acquire)
    }

    fn serve(&self, _worker: usize) {
        if self.is_pending.swap(0, Ordering::AcqRel) == 1 {
            self.at.store(self.items.load(Ordering::Acquire), Ordering::Release);
        }
    }

    fn panicked(&self, panic: Panic) {
        panic.resume();
    }
}

/// A worker serves more urgent work after one item, not after all.
#[test]
fn urgent_work_comes_between_two_items() {
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(1)).unwrap();
    let items = Arc::new(AtomicUsize::new(0));
    let urgent = Arc::new(Urgent {
        is_pending: AtomicUsize::new(0),
        items: Arc::clone(&items),
        at: AtomicUsize::new(usize::MAX),
    });
    let handle = pool.register(0, Arc::<Urgent>::clone(&urgent));
    let caller = std::thread::current().id();
    let work = |_| {
        if std::thread::current().id() != caller && items.fetch_add(1, Ordering::AcqRel) == 10 {
            urgent.is_pending.store(1, Ordering::Release);
            handle.notify();
        }
        std::thread::sleep(Duration::from_micros(100));
        Ok::<(), ()>(())
    };
    pool.helpers(1).for_each(0..500, work).unwrap();
    assert_eq!(urgent.at.load(Ordering::Acquire), 11);
}

/// Many short calls: a lost wake would hang.
#[test]
fn short_calls_end() {
    for_all(|helpers| {
        for round in 0..2_000 {
            let mut taken = 0;
            let take = |()| {
                taken += 1;
                Ok::<(), ()>(())
            };
            helpers.in_order(0..round % 7, |_| (), take).unwrap();
            assert_eq!(taken, round % 7);
        }
    });
}

//! Work on several threads whose results are taken in order.

use blockmill_sync::Semaphore;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

/// Items that may be on their way at a time, for each thread.
const ITEMS_PER_THREAD: u32 = 2;

/// Ends the threads of [`in_order`], also when one of them panics.
struct End<'a> {
    ended: &'a AtomicBool,
    permits: &'a Semaphore,
    threads: u32,
    /// Whether a panic alone ends them.
    at_panic: bool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !self.at_panic || std::thread::panicking() {
            // The release of the permits publishes the flag.
            self.ended.store(true, Ordering::Release);
            // There are few permits, so they do not overflow.
            let _ = self.permits.release(self.threads);
        }
    }
}

/// Calls `convert` with the items on `threads` threads, and `take` with the results in the order of
/// the items' numbers, which count from 0. Few items are on their way at a time.
///
/// # Errors
/// The first of `convert` and `take`.
pub fn in_order<I: Send, T: Send, E: Send>(
    threads: usize,
    items: impl Iterator<Item = (usize, I)> + Send,
    convert: &(dyn Fn(I) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, 1 << 10) as u32;
    let permits = Semaphore::new(threads * ITEMS_PER_THREAD);
    let ended = AtomicBool::new(false);
    let end = |at_panic| End {
        ended: &ended,
        permits: &permits,
        threads,
        at_panic,
    };
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let (sender, results) = channel();
        for _ in 0..threads {
            let (sender, permits, ended, next) = (sender.clone(), &permits, &ended, &next);
            let guard = end(true);
            scope.spawn(move || {
                let _guard = guard;
                loop {
                    permits.acquire();
                    if ended.load(Ordering::Acquire) {
                        return;
                    }
                    let Some((number, item)) = next() else {
                        let _ = permits.release(1);
                        return;
                    };
                    if sender.send((number, convert(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let _guard = end(false);
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for (number, result) in results {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&expected) {
                take(result?)?;
                expected += 1;
                let _ = permits.release(1);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    #[test]
    fn results_come_in_order_and_few_at_a_time() {
        for threads in [1, 2, 7] {
            let (mut taken, under_way) = (Vec::new(), Mutex::new(0usize));
            let convert = |item: u64| {
                let now = {
                    let mut under_way = under_way.lock().unwrap();
                    *under_way += 1;
                    *under_way
                };
                assert!(now <= threads * ITEMS_PER_THREAD as usize);
                std::thread::sleep(Duration::from_micros(item * 7_919 % 300));
                Ok::<_, ()>(item)
            };
            let mut take = |item| {
                taken.push(item);
                *under_way.lock().unwrap() -= 1;
                Ok(())
            };
            in_order(threads, (0..500u64).enumerate(), &convert, &mut take).unwrap();
            assert!(taken.into_iter().eq(0..500));
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in [1, 3] {
            let mut taken = 0;
            let convert = |item: u64| if item == 40 { Err("converted") } else { Ok(item) };
            let mut take = |_| {
                taken += 1;
                Ok(())
            };
            let outcome = in_order(threads, (0..u64::MAX).enumerate(), &convert, &mut take);
            assert_eq!((outcome, taken), (Err("converted"), 40));
            let convert = |item: u64| Ok(item);
            let mut take = |item| if item == 40 { Err("taken") } else { Ok(()) };
            let outcome = in_order(threads, (0..u64::MAX).enumerate(), &convert, &mut take);
            assert_eq!(outcome, Err("taken"));
        }
    }

    #[test]
    fn a_panic_ends_it() {
        for threads in [1, 3] {
            let convert = |item: u64| {
                assert!(item != 9, "on purpose");
                Ok::<_, ()>(item)
            };
            let run = || in_order(threads, (0..u64::MAX).enumerate(), &convert, &mut |_| Ok(()));
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            let mut take = |item| {
                assert!(item != 9, "on purpose");
                Ok::<_, ()>(())
            };
            let run = || in_order(threads, (0..u64::MAX).enumerate(), &|item| Ok(item), &mut take);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        }
    }
}

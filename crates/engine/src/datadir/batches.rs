//! All coins of a set in batches, on several threads.

use crate::datadir::past::Past;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{OutpointKey, outpoint_from_key, outpoint_key};
use blockmill_coins::{CoinStore, StoreError};
use blockmill_sync::Semaphore;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Coins of a batch, where the store has no parts.
const BATCH: usize = 1 << 16;

/// Batches that may be in memory at a time, for each thread.
const BATCHES_PER_THREAD: u32 = 2;

/// Coins of a set, sorted by key. All keys of a batch are above those of the batch before.
pub type Batch = Vec<(OutPoint, Coin)>;

/// The keys that a batch stands for.
type KeyRange = (Bound<OutpointKey>, Bound<OutpointKey>);

/// Gives all coins of `store`, as they were in the past if there is one, to `convert`, a batch at a
/// time, on so many threads; and what comes of it to `take`, in order, on this thread. Ends at the
/// first error.
///
/// # Errors
/// Those of the store, of `convert` and of `take`.
pub(crate) fn for_each<T: Send, E: Send + From<StoreError>>(
    store: &dyn CoinStore,
    past: Option<&Past>,
    threads: usize,
    convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(parts) = store.coins_in_parts()? {
        let read = |part: usize| {
            let start = part.checked_sub(1).and_then(|before| parts.end(before));
            let range = (
                start.map_or(Bound::Unbounded, Bound::Included),
                parts.end(part).map_or(Bound::Unbounded, Bound::Excluded),
            );
            convert(as_it_was(parts.read(part)?, past, range))
        };
        in_order(threads, (0..parts.parts()).map(|part| (part, part)), &read, take)?;
        return Ok(parts.check_complete()?);
    }
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(1);
        scope.spawn(move || {
            // Nobody listens any more after an error.
            let _ = read_batches(store, &sender);
        });
        let read = |batch: Result<(Batch, KeyRange), StoreError>| {
            let (batch, range) = batch?;
            convert(as_it_was(batch, past, range))
        };
        in_order(threads, batches.into_iter().enumerate(), &read, take)
    })
}

/// Gives the coins of an iterator, which is read on a thread of its own, to `convert` and `take` as
/// [`UtxoSet::for_each_batch`](crate::UtxoSet::for_each_batch) does.
///
/// # Errors
/// Those of the iterator, of `convert` and of `take`.
pub fn for_each_batch_of<T: Send, E: Send>(
    coins: impl Iterator<Item = Result<(OutPoint, Coin), E>> + Send,
    threads: usize,
    convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(1);
        scope.spawn(move || {
            let mut coins = coins;
            loop {
                let batch: Result<Batch, E> = coins.by_ref().take(BATCH).collect();
                let is_last = batch.as_ref().map_or(true, |batch| batch.len() < BATCH);
                // Nobody listens any more after an error.
                if sender.send(batch).is_err() || is_last {
                    return;
                }
            }
        });
        let read = |batch: Result<Batch, E>| convert(batch?);
        in_order(threads, batches.into_iter().enumerate(), &read, take)
    })
}

type Batches = SyncSender<Result<(Batch, KeyRange), StoreError>>;

/// Reads the coins of a store that has no parts. None if nobody listens any more.
fn read_batches(store: &dyn CoinStore, sender: &Batches) -> Option<()> {
    let mut coins = match store.coins() {
        Ok(coins) => coins,
        Err(error) => return sender.send(Err(error)).ok(),
    };
    let mut start = Bound::Unbounded;
    loop {
        let batch: Batch = match coins.by_ref().take(BATCH).collect() {
            Ok(batch) => batch,
            Err(error) => return sender.send(Err(error)).ok(),
        };
        let Some(last) = batch.last().filter(|_| batch.len() == BATCH) else {
            return sender.send(Ok((batch, (start, Bound::Unbounded)))).ok();
        };
        let last = outpoint_key(&last.0);
        sender.send(Ok((batch, (start, Bound::Included(last))))).ok()?;
        start = Bound::Excluded(last);
    }
}

/// The coins with keys in a range, as they were.
fn as_it_was(mut batch: Batch, past: Option<&Past>, range: KeyRange) -> Batch {
    let Some(past) = past else {
        return batch;
    };
    batch.retain(|(_, coin)| past.was_there(coin));
    let before = batch.len();
    batch.extend(
        past.spent(range)
            .map(|(key, coin)| (outpoint_from_key(key), coin.clone())),
    );
    if batch.len() > before {
        // Two sorted runs; outpoints sort as their keys do.
        batch.sort_by_key(|(outpoint, _)| *outpoint);
    }
    batch
}

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

/// Calls `convert` with the items on so many threads, and `take` with the results in the order of
/// the items' numbers, which count from 0. Few items are on their way at a time.
fn in_order<I: Send, T: Send, E: Send>(
    threads: usize,
    items: impl Iterator<Item = (usize, I)> + Send,
    convert: &(dyn Fn(I) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, 1 << 10) as u32;
    let permits = Semaphore::new(threads * BATCHES_PER_THREAD);
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
                assert!(now <= threads * BATCHES_PER_THREAD as usize);
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

//! All coins of a set in batches, on several threads.

use crate::datadir::in_order::in_order;
use crate::datadir::past::Past;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{OutpointKey, outpoint_from_key, outpoint_key};
use blockmill_coins::{CoinStore, SnapshotChunk, SnapshotChunks, SnapshotError, StoreError};
use std::io::Read;
use std::ops::Bound;
use std::sync::mpsc::sync_channel;

/// Coins of a batch, where the store has no parts.
const BATCH: usize = 1 << 16;

/// Coins of a set, sorted by key. All keys of a batch are above those of the batch before.
pub type Batch = Vec<(OutPoint, Coin)>;

/// The keys that a batch stands for.
type KeyRange = (Bound<OutpointKey>, Bound<OutpointKey>);

/// Gives all coins of `store`, as they were in the past if there is one, to `convert`, a batch at a
/// time, on `threads` threads; and what comes of it to `take`, in order, on this thread. Ends at
/// the first error.
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
    let open = || Ok(store.coins()?.map(|entry| entry.map_err(E::from)));
    let convert = |batch, range| convert(as_it_was(batch, past, range));
    by_reader(open, threads, &convert, take)
}

/// Gives the coins of a snapshot to `convert` and `take` as
/// [`UtxoSet::for_each_batch`](crate::UtxoSet::for_each_batch) does.
///
/// # Errors
/// Those of the file, of `convert` and of `take`.
pub fn for_each_batch_of<T: Send, E: Send + From<SnapshotError>>(
    chunks: SnapshotChunks<impl Read + Send>,
    threads: usize,
    convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let decode = |chunk: Result<SnapshotChunk, SnapshotError>| convert(chunk?.coins()?);
    in_order(threads, chunks.enumerate(), &decode, take)
}

/// Opens coins, and reads them in batches, on a thread of its own.
fn by_reader<I, T: Send, E: Send>(
    open: impl FnOnce() -> Result<I, E> + Send,
    threads: usize,
    convert: &(dyn Fn(Batch, KeyRange) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    I: Iterator<Item = Result<(OutPoint, Coin), E>>,
{
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(1);
        // The reader ends when nobody listens any more.
        scope.spawn(move || -> Option<()> {
            let mut coins = match open() {
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
        });
        let read = |batch: Result<(Batch, KeyRange), E>| {
            let (batch, range) = batch?;
            convert(batch, range)
        };
        in_order(threads, batches.into_iter().enumerate(), &read, take)
    })
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

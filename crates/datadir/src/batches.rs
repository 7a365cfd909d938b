//! All coins of a set in batches, on several threads.

use crate::past::Past;
use blockmill_block::{Coin, OutPoint};
use blockmill_chain::in_order::in_order;
use blockmill_coins::store::{CoinPieces, OutpointKey, PartCoins, outpoint_from_key, outpoint_key};
use blockmill_coins::{CoinStore, SnapshotChunk, SnapshotChunks, SnapshotError, StoreError};
use std::io::Read;
use std::ops::Bound;
use std::sync::mpsc::sync_channel;

/// Coins of a batch at most, where the store has no parts.
const BATCH: usize = 1 << 16;

/// Memory in bytes of the coins of such a batch, about.
const BATCH_BYTES: usize = 8 << 20;

/// Coins of a set, sorted by key. All keys of a batch are above those of the batch before.
pub type Batch = Vec<(OutPoint, Coin)>;

/// The keys that a batch stands for.
type KeyRange = (Bound<OutpointKey>, Bound<OutpointKey>);

/// Memory in bytes of a coin in a batch, about.
pub(crate) fn memory_of(coin: &Coin) -> usize {
    size_of::<(OutPoint, Coin)>() + coin.script_pubkey.len()
}

/// A part of a store that a thread has read.
enum ReadPart<'a, T> {
    Converted(T),
    /// It is too large. Its pieces are converted one after another, when it is their turn.
    Pieces(KeyRange, CoinPieces<'a>),
}

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
            Ok(match parts.read_bounded(part)? {
                PartCoins::Whole(coins) => ReadPart::Converted(convert(as_it_was(coins, past, range))?),
                PartCoins::Pieces(pieces) => ReadPart::Pieces(range, pieces),
            })
        };
        let mut take = |part| match part {
            ReadPart::Converted(converted) => take(converted),
            ReadPart::Pieces(range, pieces) => in_pieces(range, pieces, &mut |batch, range| {
                take(convert(as_it_was(batch, past, range))?)
            }),
        };
        in_order(threads, (0..parts.parts()).map(|part| (part, part)), &read, &mut take)?;
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

/// Gives out the pieces of a part, each with its share of the part's keys.
fn in_pieces<E: From<StoreError>>(
    (mut start, end): KeyRange,
    pieces: CoinPieces<'_>,
    give: &mut dyn FnMut(Batch, KeyRange) -> Result<(), E>,
) -> Result<(), E> {
    for piece in pieces {
        let piece = piece?;
        let Some(last) = piece.last().map(|(outpoint, _)| outpoint_key(outpoint)) else {
            continue;
        };
        give(piece, (start, Bound::Included(last)))?;
        start = Bound::Excluded(last);
    }
    give(Batch::new(), (start, end))
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
                let (mut batch, mut bytes) = (Batch::new(), 0);
                let mut last = None;
                for coin in coins.by_ref() {
                    let (outpoint, coin) = match coin {
                        Ok(coin) => coin,
                        Err(error) => return sender.send(Err(error)).ok(),
                    };
                    bytes += memory_of(&coin);
                    batch.push((outpoint, coin));
                    if batch.len() == BATCH || bytes >= BATCH_BYTES {
                        last = Some(outpoint_key(&outpoint));
                        break;
                    }
                }
                let Some(last) = last else {
                    return sender.send(Ok((batch, (start, Bound::Unbounded)))).ok();
                };
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

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;

    fn coin(number: u8) -> (OutPoint, Coin) {
        let outpoint = OutPoint {
            txid: Txid([number; 32]),
            vout: 0,
        };
        let coin = Coin {
            value: 1,
            height: 1,
            is_coinbase: false,
            script_pubkey: Box::default(),
        };
        (outpoint, coin)
    }

    /// Coins of the past may lie between those of two pieces, and above the last.
    #[test]
    fn pieces_share_the_keys_of_their_part() {
        let key = |number: u8| outpoint_key(&coin(number).0);
        let part = (Bound::Included(key(1)), Bound::Excluded(key(9)));
        let pieces = [vec![coin(2), coin(3)], vec![coin(5)]];
        let mut given = Vec::new();
        let pieces: CoinPieces<'_> = Box::new(pieces.into_iter().map(Ok));
        in_pieces::<StoreError>(part, pieces, &mut |batch, range| {
            given.push((batch.len(), range));
            Ok(())
        })
        .unwrap();
        let wanted = [
            (2, (Bound::Included(key(1)), Bound::Included(key(3)))),
            (1, (Bound::Excluded(key(3)), Bound::Included(key(5)))),
            (0, (Bound::Excluded(key(5)), Bound::Excluded(key(9)))),
        ];
        assert_eq!(given, wanted);
    }
}

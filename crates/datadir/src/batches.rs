//! All coins of a set in batches, on several threads.

use crate::past::Past;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{CoinPieces, OutpointKey, PartCoins, outpoint_from_key, outpoint_key};
use blockmill_coins::{CoinStore, SnapshotChunk, SnapshotChunks, SnapshotError, StoreError};
use blockmill_pool::Helpers;
use std::io::Read;
use std::ops::Bound;

/// Coins of a set, sorted by key. All keys of a batch are above those of the batch before.
pub type Batch = Vec<(OutPoint, Coin)>;

/// The keys that a batch stands for.
type KeyRange = (Bound<OutpointKey>, Bound<OutpointKey>);

/// A part of a store that a thread has read.
enum ReadPart<'a, T> {
    Converted(T),
    /// It is too large. Its pieces are converted one after another, when it is their turn.
    Pieces(KeyRange, CoinPieces<'a>),
}

/// Gives all coins of `store`, as they were in the past if there is one, to `convert`, a batch at a
/// time, on all threads; and what comes of it to `take`, in order, on this thread. Ends at the
/// first error.
///
/// # Errors
/// Those of the store, of `convert` and of `take`.
pub(crate) fn for_each<T: Send, E: Send + From<StoreError>>(
    store: &dyn CoinStore,
    past: Option<&Past>,
    helpers: &Helpers,
    convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let Some(parts) = store.coins_in_parts()? else {
        // Such a store has its coins in memory already.
        let coins = store.coins()?.collect::<Result<Batch, StoreError>>()?;
        return take(convert(as_it_was(coins, past, (Bound::Unbounded, Bound::Unbounded)))?);
    };
    let read = |part: usize| -> Result<ReadPart<'_, T>, E> {
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
    helpers.in_order(0..parts.parts(), read, |part| match part? {
        ReadPart::Converted(converted) => take(converted),
        ReadPart::Pieces(range, pieces) => in_pieces(range, pieces, &mut |batch, range| {
            take(convert(as_it_was(batch, past, range))?)
        }),
    })?;
    Ok(parts.check_complete()?)
}

/// Gives the coins of a snapshot to `convert` and `take` as
/// [`UtxoSet::for_each_batch`](crate::UtxoSet::for_each_batch) does, on `threads` threads, or on
/// this one alone if the system starts no others.
///
/// # Errors
/// Those of the file, as `failed` makes them, of `convert` and of `take`.
pub fn for_each_batch_of<T: Send, E: Send>(
    chunks: SnapshotChunks<impl Read + Send>,
    threads: usize,
    failed: impl Fn(SnapshotError) -> E + Copy + Sync,
    convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let decode = |chunk: Result<SnapshotChunk, SnapshotError>| {
        let coins = chunk.and_then(|chunk| chunk.coins());
        convert(coins.map_err(failed)?)
    };
    // Without threads this one does everything.
    let helpers = Helpers::start(threads).unwrap_or_default();
    helpers.in_order(chunks, decode, |converted| take(converted?))
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
    // Coins that were spent since may stand above the last piece, too.
    give(Batch::new(), (start, end))
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

//! The set as it was after an earlier block: without the coins that were made since, and with those
//! that were spent since.
//!
//! Undo data has the spent coins, and blocks have their outpoints. A coin is spent once, so blocks
//! may be read in any order, on several threads.

use crate::{DataDir, OpenError};
use blockmill_block::coin::is_unspendable;
use blockmill_block::{Coin, OutPoint};
use blockmill_chain::block_read_error::BlockReadError;
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::report::events::{Event, Observer};
use blockmill_coins::store::{OutpointKey, outpoint_from_key, outpoint_key};
use blockmill_coins::{CoinIterator, StoreError, Tip};
use blockmill_pool::Helpers;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Why the set cannot be had as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PastError {
    /// The set does not reach that far.
    #[error("the set is at height {tip}, and height {height} is above it")]
    AboveTip {
        /// The height asked for.
        height: u32,
        /// Height of the set.
        tip: u32,
    },
    /// There is no undo data that far down.
    #[error("the set began with a snapshot at height {snapshot}: it was at no height below")]
    BelowSnapshot {
        /// Height of the snapshot.
        snapshot: u32,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A block or its undo data cannot be read.
    #[error(transparent)]
    Block(#[from] BlockReadError),
    /// The caller has asked to stop.
    #[error("stopped before the set was as it had been")]
    Stopped,
}

/// An earlier height, and where the blocks above it may lie.
#[derive(Debug, Clone, Copy)]
pub struct Earlier<'a> {
    /// The height.
    pub height: u32,
    /// Block files, beside those in which the blocks were found when they were connected.
    pub sources: &'a [PathBuf],
}

impl From<u32> for Earlier<'_> {
    fn from(height: u32) -> Self {
        Self { height, sources: &[] }
    }
}

/// What tells the set at an earlier height from the set as it is.
#[doc(hidden)]
#[derive(Debug)]
pub struct Past {
    pub(crate) tip: Tip,
    /// The coins that were spent since.
    spent: BTreeMap<OutpointKey, Coin>,
}

impl Past {
    /// Reads what the blocks above `height` have changed in the set at `tip`.
    pub(crate) fn read(
        directory: &DataDir,
        tip: &Tip,
        Earlier { height, sources }: Earlier<'_>,
        helpers: &Helpers,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self, PastError> {
        if height > tip.height {
            let tip = tip.height;
            return Err(PastError::AboveTip { height, tip });
        }
        if let Some(snapshot) = directory.snapshot().map(|mark| mark.height)
            && (height < snapshot && snapshot <= tip.height)
        {
            return Err(PastError::BelowSnapshot { snapshot });
        }
        let mut blocks = directory.blocks(tip)?;
        if !sources.is_empty() && !blocks.add_files(sources, stop, observer).map_err(OpenError::from)? {
            return Err(PastError::Stopped);
        }
        Self::of(&blocks, height, helpers, stop, observer)
    }

    /// As [`read`](Self::read), of blocks that are open.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn of(
        blocks: &ChainBlocks,
        height: u32,
        helpers: &Helpers,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self, PastError> {
        let hash = blocks.hash(height)?;
        let mut past = Self {
            tip: Tip { hash, height },
            spent: BTreeMap::new(),
        };
        past.add_spent(blocks, helpers, stop, observer)?;
        past.add_overwritten(blocks)?;
        Ok(past)
    }

    fn add_spent(
        &mut self,
        blocks: &ChainBlocks,
        helpers: &Helpers,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(), PastError> {
        let (bottom, top) = (self.tip.height, blocks.height());
        let heights = (bottom + 1..=top).take_while(|_| !stop.load(Ordering::Relaxed));
        let read = |height| spent_from_below(blocks, height, bottom);
        let mut done = 0;
        helpers.in_order(heights, read, |spent| {
            self.spent.extend(spent?);
            done += 1;
            let of = top - bottom;
            observer.event(&Event::LookingBack { blocks: done, of });
            Ok::<(), PastError>(())
        })?;
        // The heights end early then, as if there were no more.
        if stop.load(Ordering::Relaxed) {
            return Err(PastError::Stopped);
        }
        Ok(())
    }

    /// Two coinbases of the main network repeat older ones, whose coins were there still. Undo data
    /// does not have those.
    fn add_overwritten(&mut self, blocks: &ChainBlocks) -> Result<(), BlockReadError> {
        let params = blocks.params();
        let is_of_chain = |(height, hash): &(u32, _)| blocks.hash(*height).is_ok_and(|found| found == *hash);
        for exception in params.bip30_exceptions {
            if exception.0 <= self.tip.height || !is_of_chain(exception) {
                continue;
            }
            let repeated = blocks.block(exception.0)?;
            let txid = repeated.transaction(0).txid();
            for overwritten in params.bip30_overwritten {
                if overwritten.0 > self.tip.height || !is_of_chain(overwritten) {
                    continue;
                }
                let block = blocks.block(overwritten.0)?;
                let coinbase = block.transaction(0);
                if coinbase.txid() != txid {
                    continue;
                }
                for (vout, output) in (0..).zip(coinbase.outputs()) {
                    if !is_unspendable(output.script_pubkey()) {
                        let coin = Coin {
                            value: output.value(),
                            height: overwritten.0,
                            is_coinbase: true,
                            script_pubkey: output.script_pubkey().into(),
                        };
                        self.spent.insert(outpoint_key(&OutPoint { txid, vout }), coin);
                    }
                }
            }
        }
        Ok(())
    }

    /// The coin of an outpoint then, from what it is now.
    pub fn coin(&self, outpoint: &OutPoint, now: Option<Coin>) -> Option<Coin> {
        let spent = self.spent.get(&outpoint_key(outpoint));
        spent.cloned().or(now.filter(|coin| self.was_there(coin)))
    }

    /// Whether a coin of now was there then.
    pub(crate) fn was_there(&self, coin: &Coin) -> bool {
        coin.height <= self.tip.height
    }

    /// All coins then, from all coins now, which are sorted.
    pub(crate) fn coins(
        &self,
        now: CoinIterator,
    ) -> impl Iterator<Item = Result<(OutPoint, Coin), StoreError>> + use<> {
        let height = self.tip.height;
        let kept = now.filter(move |entry| entry.as_ref().map_or(true, |(_, coin)| coin.height <= height));
        let spent = self
            .spent
            .iter()
            .map(|(key, coin)| (outpoint_from_key(key), coin.clone()));
        Merged {
            now: kept.peekable(),
            spent: spent.collect::<Vec<_>>().into_iter().peekable(),
        }
    }

    /// The coins that were there then and are spent now, with keys in a range.
    pub(crate) fn spent(
        &self,
        range: (Bound<OutpointKey>, Bound<OutpointKey>),
    ) -> impl Iterator<Item = (&OutpointKey, &Coin)> {
        self.spent.range(range)
    }
}

/// Two sorted sequences as one.
struct Merged<N: Iterator, S: Iterator> {
    now: Peekable<N>,
    spent: Peekable<S>,
}

impl<N, S> Iterator for Merged<N, S>
where
    N: Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
    S: Iterator<Item = (OutPoint, Coin)>,
{
    type Item = Result<(OutPoint, Coin), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let spent_first = match (self.now.peek(), self.spent.peek()) {
            (Some(Ok((now, _))), Some((spent, _))) => spent < now,
            // An error goes out first. Without coins of now all that were spent follow.
            (now, _) => now.is_none(),
        };
        if spent_first {
            return self.spent.next().map(Ok);
        }
        self.now.next()
    }
}

/// The coins from blocks up to `bottom` that a block spends.
fn spent_from_below(
    blocks: &ChainBlocks,
    height: u32,
    bottom: u32,
) -> Result<Vec<(OutpointKey, Coin)>, BlockReadError> {
    let read = blocks.read(height)?;
    let inputs = read
        .block
        .transactions()
        .skip(1)
        .flat_map(|transaction| transaction.inputs());
    let spent = inputs
        .zip(read.undo.coins().iter())
        // A coin that was made since was not there then.
        .filter(|(_, coin)| coin.height <= bottom);
    Ok(spent
        .map(|(input, coin)| (outpoint_key(&input.previous_output()), coin.to_coin()))
        .collect())
}

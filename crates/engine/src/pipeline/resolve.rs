//! The coins of a block: spent and created in the cache, or disconnected from it.

use crate::pipeline::outline::Outline;
use blockmill_block::coin::{Coin, is_unspendable};
use blockmill_block::{Block, BlockUndo, Coins, OutPoint, Transaction};
use blockmill_coins::{
    CoinRef, CoinsCache, EntryLog, FlushEpoch, HashKey, HashedOutPoint, Overwrite, Session, StoreError,
};
use blockmill_rules::Reject;
use blockmill_rules::connect::{BlockCoins, BlockError, ConnectContext, Spent, connect_block};
use thiserror::Error;

/// Why a block is not resolved.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// It breaks a rule.
    #[error("{0}")]
    Reject(#[from] Reject),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Spends what the block spends, creates what it creates, and judges it by all rules but its
/// scripts. Returns the coins spent. When it fails the cache has the coins that it had before.
/// `outline` is the block's, under the key of the cache. `absent_at` is the flush epoch at which
/// the store had none of the block's outputs, if that was seen.
///
/// # Errors
/// [`ResolveError`]; a rule that is broken is the first one in Core's order.
pub fn apply<B: AsRef<[u8]>>(
    block: &Block<B>,
    outline: &Outline,
    context: &ConnectContext<'_>,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    let hashes = outline.hashes_in_order(block);
    let key = *cache.hash_key();
    cache.change(|session, log| {
        log.reserve(block.input_count());
        let mut coins = CacheCoins {
            height: context.height,
            absent_at,
            coins_start: 0,
            ends: Vec::with_capacity(block.transaction_count()),
            created: 0,
            looked: 0,
            events: Events::new(&hashes),
            session,
            log,
        };
        let error = match connect_block(block, context, &mut coins) {
            Ok(_) => return Ok(BlockUndo::from_coins(coins.log.take_spent(), coins.ends)),
            Err(BlockError::Reject(reject)) => reject.into(),
            Err(BlockError::Coins(error)) => error.into(),
        };
        coins.take_back(block, &key);
        Err(error)
    })
}

/// The coins of a block, in the cache.
struct CacheCoins<'a, 'c> {
    height: u32,
    absent_at: Option<FlushEpoch>,
    /// Where the coins of the last transaction begin among those that were spent.
    coins_start: usize,
    /// For each transaction but the coinbase the number of coins spent up to its end.
    ends: Vec<usize>,
    /// Transactions whose outputs are in the cache.
    created: usize,
    /// Events of the transactions whose outputs were looked for.
    looked: usize,
    events: Events<'a>,
    session: &'a mut Session<'c>,
    /// With the coins spent so far. Those of a transaction that fails stand at the end.
    log: &'a mut EntryLog,
}

impl BlockCoins for CacheCoins<'_, '_> {
    type Error = StoreError;

    /// No output that can never be spent is in the cache, or in the store.
    fn contains(&mut self, _: usize, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        let start = self.looked + transaction.input_count();
        self.looked = start + transaction.output_count();
        let hashes = &self.events.hashes[start..self.looked];
        for (at, _) in spendable_outputs(transaction, hashes) {
            if self.session.contains(&at, self.absent_at, self.log)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn spend(&mut self, _: usize, transaction: &Transaction<'_>) -> Result<Spent, StoreError> {
        let hashes = self.events.take(transaction.input_count(), self.session);
        self.coins_start = self.log.spent().len();
        for (number, (input, &hash)) in transaction.inputs().zip(hashes).enumerate() {
            let at = HashedOutPoint::new(input.previous_output(), hash);
            if !self.session.spend(&at, self.log)? {
                return Ok(Spent::Missing(number));
            }
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        let coins = self.log.spent();
        coins.range(self.coins_start..coins.len())
    }

    fn create(&mut self, index: usize, transaction: &Transaction<'_>) {
        let is_coinbase = index == 0;
        if is_coinbase {
            self.events.take(transaction.input_count(), self.session);
        } else {
            self.ends.push(self.log.spent().len());
        }
        // A coinbase may repeat an older one, in blocks from before BIP 30.
        let overwrite = if is_coinbase {
            Overwrite::Possible
        } else {
            Overwrite::Impossible
        };
        let hashes = self.events.take(transaction.output_count(), self.session);
        for (at, coin) in spendable_outputs(transaction, hashes) {
            let coin = CoinRef {
                height: self.height,
                is_coinbase,
                ..coin
            };
            self.session.add(&at, coin, overwrite, self.log);
        }
        self.created = index + 1;
    }
}

impl CacheCoins<'_, '_> {
    /// Takes back everything, the last first.
    fn take_back<B: AsRef<[u8]>>(&mut self, block: &Block<B>, key: &HashKey) {
        let mut left = self.log.spent().len();
        // Of the transaction that failed some coins may be spent.
        for index in (0..block.transaction_count().min(self.created + 1)).rev() {
            let transaction = block.transaction(index);
            if index < self.created {
                let hashes = hashes_made(&transaction, key);
                let made: Vec<_> = spendable_outputs(&transaction, &hashes).collect();
                for (at, _) in made.iter().rev() {
                    self.session.take_back_create(at, self.log);
                }
            }
            let first = match index {
                0 => 0,
                _ => block.input_range(index).start - block.input_range(0).end,
            };
            let spent: Vec<OutPoint> = transaction.inputs().map(|input| input.previous_output()).collect();
            while left > first {
                left -= 1;
                let at = key.hashed(&spent[left - first]);
                self.session.take_back_spend(&at, left, self.log);
            }
        }
    }
}

/// The hashes of a block in the order in which the cache is asked for them. Entries are on their
/// way before they are asked for.
struct Events<'a> {
    hashes: &'a [u64],
    /// Those that were taken.
    taken: usize,
    /// Those whose first memory is on its way, and whose second.
    begun: [usize; 2],
}

impl<'a> Events<'a> {
    /// Hashes that are begun together.
    const TOGETHER: usize = 32;

    fn new(hashes: &'a [u64]) -> Self {
        Self {
            hashes,
            taken: 0,
            begun: [0; 2],
        }
    }

    /// The next hashes. Those after them are begun.
    fn take(&mut self, count: usize, session: &Session<'_>) -> &'a [u64] {
        let end = self.hashes.len();
        let [words, records] = &mut self.begun;
        while *records < end.min(self.taken + count + Self::TOGETHER) {
            let ahead = end.min(*words + Self::TOGETHER);
            session.prefetch_words(&self.hashes[*words..ahead]);
            *words = ahead;
            if *words == end || *words > Self::TOGETHER {
                let ahead = end.min(*records + Self::TOGETHER);
                session.prefetch_records(&self.hashes[*records..ahead]);
                *records = ahead;
            }
        }
        let taken = &self.hashes[self.taken..self.taken + count];
        self.taken += count;
        taken
    }
}

/// The outputs of a transaction that can be spent, with their hashes, as coins without a height.
fn spendable_outputs<'t>(
    transaction: &Transaction<'t>,
    hashes: &'t [u64],
) -> impl Iterator<Item = (HashedOutPoint, CoinRef<'t>)> + use<'t> {
    let txid = transaction.txid();
    let outputs = (0..).zip(transaction.outputs()).zip(hashes);
    outputs
        .filter(|((_, output), _)| !is_unspendable(output.script_pubkey()))
        .map(move |((vout, output), &hash)| {
            let coin = CoinRef {
                value: output.value(),
                height: 0,
                is_coinbase: false,
                script_pubkey: output.script_pubkey(),
            };
            (HashedOutPoint::new(OutPoint { txid, vout }, hash), coin)
        })
}

/// Disconnects a block: removes its outputs, and restores the coins that it spent, from the last
/// transaction to the first. Returns whether every output was there with its value and script.
///
/// Undo data is enough. A log would not do: once a flush has ended, its flags may be wrong about
/// the store.
///
/// # Errors
/// [`StoreError`].
pub fn disconnect<B: AsRef<[u8]>>(
    block: &Block<B>,
    undo: &BlockUndo,
    cache: &mut CoinsCache,
) -> Result<bool, StoreError> {
    let key = *cache.hash_key();
    cache.change(|session, log| {
        let mut is_clean = true;
        for index in (0..block.transaction_count()).rev() {
            let transaction = block.transaction(index);
            is_clean &= remove_outputs(&transaction, &key, session, log)?;
            if index > 0 {
                for (input, coin) in transaction.inputs().zip(undo.transaction(index - 1).iter()) {
                    session.add(&key.hashed(&input.previous_output()), coin, Overwrite::Possible, log);
                }
            }
            log.forget_changes();
        }
        Ok(is_clean)
    })
}

fn remove_outputs(
    transaction: &Transaction<'_>,
    key: &HashKey,
    session: &mut Session<'_>,
    log: &mut EntryLog,
) -> Result<bool, StoreError> {
    let mut is_clean = true;
    for (at, coin) in spendable_outputs(transaction, &hashes_made(transaction, key)) {
        let is_as_made = |spent: CoinRef<'_>| (spent.value, spent.script_pubkey) == (coin.value, coin.script_pubkey);
        let number = log.spent().len();
        session.spend(&at, log)?;
        is_clean &= log.spent().get(number).is_some_and(is_as_made);
    }
    Ok(is_clean)
}

/// The hashes of all outputs of a transaction.
fn hashes_made(transaction: &Transaction<'_>, key: &HashKey) -> Vec<u64> {
    let of = key.transaction(&transaction.txid());
    (0..transaction.output_count() as u32)
        .map(|vout| of.hash(vout))
        .collect()
}

/// The coins that the outputs of a block's coinbase replace, where it may repeat an older coinbase.
/// Undo data has none of them.
///
/// # Errors
/// [`StoreError`].
pub fn replaced_coins<B: AsRef<[u8]>>(
    block: &Block<B>,
    cache: &mut CoinsCache,
) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
    let coinbase = block.transaction(0);
    let txid = coinbase.txid();
    let mut replaced = Vec::new();
    for vout in 0..coinbase.output_count() as u32 {
        let outpoint = OutPoint { txid, vout };
        replaced.extend(cache.get(&outpoint)?.map(|coin| (outpoint, coin)));
    }
    Ok(replaced)
}

/// Restores the coins that [`replaced_coins`] has found, when their block has been disconnected.
pub fn restore_replaced(replaced: &[(OutPoint, Coin)], cache: &mut CoinsCache) {
    for (outpoint, coin) in replaced {
        cache.add(outpoint, CoinRef::from(coin), Overwrite::Possible);
    }
}

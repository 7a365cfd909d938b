//! The coins of a block: spent and created in the cache, or disconnected from it.

use crate::pipeline::outline::Outline;
use blockmill_block::coin::{Coin, is_unspendable};
use blockmill_block::{Block, BlockUndo, Coins, OutPoint, Transaction};
use blockmill_coins::{CoinRef, CoinsCache, EntryLog, FlushEpoch, HashedOutPoint, Overwrite, Session, StoreError};
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

/// Spends what the block spends, creates what it creates, and validates it by all rules but its
/// scripts. Returns the coins spent. When it fails the cache has the coins that it had before.
/// `outline` is the block's, under the key of the cache. `absent_at` is the flush epoch at which
/// the store had none of the block's outputs, if that was seen.
///
/// # Errors
/// [`ResolveError`]; a rule that is broken is the first one in Core's order.
pub fn resolve_block<B: AsRef<[u8]>>(
    block: &Block<B>,
    outline: &Outline,
    context: &ConnectContext<'_>,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    let hashes = outline.hashes_in_order(block);
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
        coins.take_back(block);
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
        // The hashes of a transaction's inputs stand before those of its outputs.
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
    fn take_back<B: AsRef<[u8]>>(&mut self, block: &Block<B>) {
        let mut left = self.log.spent().len();
        // Of the transaction that failed some coins may be spent.
        let count = block.transaction_count().min(self.created + 1);
        for (index, hashed) in last_first(block, count, self.events.hashes) {
            if index < self.created {
                let created: Vec<_> = hashed.spendable_outputs().collect();
                for (at, _) in created.iter().rev() {
                    self.session.take_back_create(at, self.log);
                }
            }
            let first = match index {
                0 => 0,
                // The coinbase spends nothing, so its inputs do not count.
                _ => block.input_range(index).start - block.input_range(0).end,
            };
            let spent: Vec<_> = hashed.inputs().collect();
            while left > first {
                left -= 1;
                self.session.take_back_spend(&spent[left - first], left, self.log);
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
            // One step later: where a record lies is in its word.
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

/// A transaction with the hashes of its inputs and of its outputs.
struct HashedTransaction<'b> {
    transaction: Transaction<'b>,
    inputs: &'b [u64],
    outputs: &'b [u64],
}

impl<'b> HashedTransaction<'b> {
    fn inputs(&self) -> impl Iterator<Item = HashedOutPoint> {
        let inputs = self.transaction.inputs().zip(self.inputs);
        inputs.map(|(input, &hash)| HashedOutPoint::new(input.previous_output(), hash))
    }

    fn spendable_outputs(&self) -> impl Iterator<Item = (HashedOutPoint, CoinRef<'b>)> + use<'b> {
        spendable_outputs(&self.transaction, self.outputs)
    }
}

/// The first `count` transactions of a block with their numbers, the last of them first. `hashes`
/// are in the order of the block.
fn last_first<'b, B: AsRef<[u8]>>(
    block: &'b Block<B>,
    count: usize,
    hashes: &'b [u64],
) -> impl Iterator<Item = (usize, HashedTransaction<'b>)> {
    let lengths = (0..count).map(|index| {
        let transaction = block.transaction(index);
        transaction.input_count() + transaction.output_count()
    });
    let mut end = lengths.sum();
    (0..count).rev().map(move |index| {
        let transaction = block.transaction(index);
        let outputs = end - transaction.output_count();
        let inputs = outputs - transaction.input_count();
        let hashed = HashedTransaction {
            inputs: &hashes[inputs..outputs],
            outputs: &hashes[outputs..end],
            transaction,
        };
        end = inputs;
        (index, hashed)
    })
}

/// Disconnects a block: removes its outputs, and restores the coins that it spent, from the last
/// transaction to the first. Returns whether every output was there with its value and script.
/// `outline` is the block's, under the key of the cache.
///
/// Undo data is enough. A log would not do: once a flush has ended, its flags may be wrong about
/// the store.
///
/// # Errors
/// [`StoreError`].
pub fn disconnect<B: AsRef<[u8]>>(
    block: &Block<B>,
    outline: &Outline,
    undo: &BlockUndo,
    cache: &mut CoinsCache,
) -> Result<bool, StoreError> {
    let hashes = outline.hashes_in_order(block);
    cache.change(|session, log| {
        let mut is_clean = true;
        for (index, hashed) in last_first(block, block.transaction_count(), &hashes) {
            is_clean &= remove_outputs(&hashed, session, log)?;
            if index > 0 {
                // Undo data begins with transaction 1, since the coinbase spends nothing.
                for (at, coin) in hashed.inputs().zip(undo.transaction(index - 1).iter()) {
                    session.add(&at, coin, Overwrite::Possible, log);
                }
            }
            // Nobody takes this back, and coins that were removed would only take memory.
            log.forget_changes();
        }
        Ok(is_clean)
    })
}

fn remove_outputs(
    hashed: &HashedTransaction<'_>,
    session: &mut Session<'_>,
    log: &mut EntryLog,
) -> Result<bool, StoreError> {
    let mut is_clean = true;
    for (at, coin) in hashed.spendable_outputs() {
        let is_as_created = |spent: CoinRef<'_>| (spent.value, spent.script_pubkey) == (coin.value, coin.script_pubkey);
        let number = log.spent().len();
        session.spend(&at, log)?;
        // A coin that is missing adds nothing to the log.
        is_clean &= log.spent().get(number).is_some_and(is_as_created);
    }
    Ok(is_clean)
}

/// The coins that the outputs of a block's coinbase replace, where it may repeat an older coinbase.
/// Undo data has none of them.
///
/// # Errors
/// [`StoreError`].
pub fn replaced_coins(outline: &Outline, cache: &mut CoinsCache) -> Result<Vec<(HashedOutPoint, Coin)>, StoreError> {
    let mut replaced = Vec::new();
    for create in outline.all_creates().iter().filter(|create| create.transaction == 0) {
        let coin = cache.change(|session, log| session.get(&create.at, log))?;
        replaced.extend(coin.map(|coin| (create.at, coin)));
    }
    Ok(replaced)
}

/// Restores the coins that [`replaced_coins`] has found, when their block has been disconnected.
pub fn restore_replaced(replaced: &[(HashedOutPoint, Coin)], cache: &mut CoinsCache) {
    for (at, coin) in replaced {
        cache.change(|session, log| session.add(at, CoinRef::from(coin), Overwrite::Possible, log));
    }
}

//! The coins of a block: spent and created in the cache, or disconnected from it.

use crate::pipeline::outline::hashes_in_order;
use blockmill_block::coin::{Coin, is_unspendable};
use blockmill_block::{Block, BlockUndo, CoinList, Coins, OutPoint, Transaction};
use blockmill_coins::{CoinRef, CoinsCache, FlushEpoch, HashedOutPoint, Overwrite, Session, StoreError};
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
    /// The store failed, and the cache could not be put right.
    #[error("{0}")]
    Broken(StoreError),
}

/// Spends what the block spends, creates what it creates, and judges it by all rules but its
/// scripts. Returns the coins spent. When it fails the cache has the coins that it had before,
/// unless the error is [`ResolveError::Broken`]. `absent_at` is the flush epoch at which the store
/// had none of the block's outputs, if that was seen.
///
/// # Errors
/// [`ResolveError`]; a rule that is broken is the first one in Core's order.
pub fn apply<B: AsRef<[u8]>>(
    block: &Block<B>,
    context: &ConnectContext<'_>,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    let hashes = hashes_in_order(block, cache.hash_key());
    let (outcome, undo, created) = {
        let mut coins = CacheCoins {
            height: context.height,
            absent_at,
            undo: BlockUndo::with_capacity(block.input_count()),
            coins_start: 0,
            created: 0,
            events: Events::new(&hashes),
            session: cache.session(),
        };
        let outcome = connect_block(block, context, &mut coins);
        (outcome, coins.undo, coins.created)
    };
    let error = match outcome {
        Ok(_) => return Ok(undo),
        Err(BlockError::Reject(reject)) => reject.into(),
        Err(BlockError::Coins(error)) => error.into(),
    };
    disconnect(block, &undo, created, cache).map_err(ResolveError::Broken)?;
    Err(error)
}

/// The coins of a block, in the cache.
struct CacheCoins<'a> {
    height: u32,
    absent_at: Option<FlushEpoch>,
    /// The coins spent so far. Those of a transaction that fails stand at the end, without an end
    /// of their own.
    undo: BlockUndo,
    /// Where the coins of the last transaction begin.
    coins_start: usize,
    /// Transactions whose outputs are in the cache.
    created: usize,
    events: Events<'a>,
    session: Session<'a>,
}

impl BlockCoins for CacheCoins<'_> {
    type Error = StoreError;

    fn contains(&mut self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        let at = self.session.hash_key().hashed(outpoint);
        self.session.contains(&at, self.absent_at)
    }

    fn spend(&mut self, _: usize, transaction: &Transaction<'_>) -> Result<Spent, StoreError> {
        let hashes = self.events.take(transaction.input_count(), &self.session);
        self.coins_start = self.undo.coins().len();
        for (number, (input, &hash)) in transaction.inputs().zip(hashes).enumerate() {
            let at = HashedOutPoint::new(input.previous_output(), hash);
            if !self.session.spend_into(&at, self.undo.coins_mut())? {
                return Ok(Spent::Missing(number));
            }
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        let coins = self.undo.coins();
        coins.range(self.coins_start..coins.len())
    }

    fn create(&mut self, index: usize, transaction: &Transaction<'_>) {
        let is_coinbase = index == 0;
        if is_coinbase {
            self.events.take(transaction.input_count(), &self.session);
        } else {
            self.undo.end_transaction();
        }
        let hashes = self.events.take(transaction.output_count(), &self.session);
        create_outputs(transaction, hashes, self.height, is_coinbase, &mut self.session);
        self.created = index + 1;
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

fn create_outputs(
    transaction: &Transaction<'_>,
    hashes: &[u64],
    height: u32,
    is_coinbase: bool,
    session: &mut Session<'_>,
) {
    let txid = transaction.txid();
    // A coinbase may repeat an older one, in blocks from before BIP 30.
    let overwrite = if is_coinbase {
        Overwrite::Possible
    } else {
        Overwrite::Impossible
    };
    for ((vout, output), &hash) in (0..).zip(transaction.outputs()).zip(hashes) {
        if is_unspendable(output.script_pubkey()) {
            continue;
        }
        let coin = CoinRef {
            value: output.value(),
            height,
            is_coinbase,
            script_pubkey: output.script_pubkey(),
        };
        session.add(&HashedOutPoint::new(OutPoint { txid, vout }, hash), coin, overwrite);
    }
}

/// Disconnects a block that was applied as far as `undo` and `created` say: removes the outputs of
/// the first `created` transactions, and restores the coins that were spent, from the last to the
/// first. Returns whether every output was there with its value and script.
///
/// # Errors
/// [`StoreError`].
pub fn disconnect<B: AsRef<[u8]>>(
    block: &Block<B>,
    undo: &BlockUndo,
    created: usize,
    cache: &mut CoinsCache,
) -> Result<bool, StoreError> {
    let mut clean = true;
    let mut session = cache.session();
    let key = *session.hash_key();
    let mut coins = undo.coins();
    // A transaction that failed half way has coins after the last end.
    for index in (0..block.transaction_count().min(created + 1)).rev() {
        let transaction = block.transaction(index);
        if index < created {
            clean &= remove_outputs(&transaction, &mut session)?;
        }
        if index == 0 {
            break;
        }
        let start = match index - 1 {
            number if number < undo.transaction_count() => undo.range(number).start,
            _ if undo.transaction_count() == 0 => 0,
            _ => undo.range(undo.transaction_count() - 1).end,
        };
        let own = coins.range(start..coins.len());
        for (input, coin) in transaction.inputs().zip(own.iter()) {
            session.add(&key.hashed(&input.previous_output()), coin, Overwrite::Possible);
        }
        coins = coins.range(0..start);
    }
    Ok(clean)
}

fn remove_outputs(transaction: &Transaction<'_>, session: &mut Session<'_>) -> Result<bool, StoreError> {
    let mut clean = true;
    let txid = transaction.txid();
    let of = session.hash_key().transaction(&txid);
    let mut removed = CoinList::default();
    for (vout, output) in (0..).zip(transaction.outputs()) {
        if is_unspendable(output.script_pubkey()) {
            continue;
        }
        removed.clear();
        session.spend_into(
            &HashedOutPoint::new(OutPoint { txid, vout }, of.hash(vout)),
            &mut removed,
        )?;
        let is_as_made =
            |coin: CoinRef<'_>| coin.value == output.value() && coin.script_pubkey == output.script_pubkey();
        clean &= removed.coins().get(0).is_some_and(is_as_made);
    }
    Ok(clean)
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

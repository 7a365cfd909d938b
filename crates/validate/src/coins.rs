//! The coins of a block, as they are given.

use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, BlockUndo, Coin, CoinList, CoinRef, Coins, OutPoint, Transaction, Txid};
use blockmill_rules::SpentOutput;
use blockmill_rules::connect::{BlockCoins, BlockError, ConnectContext, Connected, Spent, connect_block};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

/// What scripts ask for of coins.
pub(crate) fn spent_outputs(coins: Coins<'_>) -> Vec<SpentOutput<'_>> {
    coins
        .iter()
        .map(|coin| SpentOutput {
            value: coin.value,
            script_pubkey: coin.script_pubkey,
        })
        .collect()
}

/// Finds the coin of an outpoint; none if it does not exist or is spent.
pub type CoinLookupFn<'a, E> = dyn FnMut(&OutPoint) -> Result<Option<Coin>, E> + 'a;

/// The coins that a block spends.
pub enum GivenCoins<'a, E = Infallible> {
    /// The coin of each input except the coinbase's, in block order: Core's undo data. A coin
    /// without a height counts as mature. Whether an output overwrites a coin cannot be seen.
    InOrder(&'a Arc<BlockUndo>),
    /// The coins as they are before the block, by outpoint. An output of the block itself needs no
    /// coin; one with the block's height or a greater one must equal it.
    Lookup(&'a mut CoinLookupFn<'a, E>),
}

/// Whether coins in block order are compared with the block that spends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCoins {
    /// A coin that the block itself creates MUST equal that output and be spent by a later
    /// transaction. Every other coin MUST have a lower height than the block, or none. No coin MUST
    /// be spent twice.
    Compared,
    /// The caller compares sums over the chain, and the order of creation and spending.
    ByOthers,
}

/// Which coins a block makes, and which are spent so far.
struct Ledger<'b, B> {
    block: &'b Block<B>,
    height: u32,
    makers: HashMap<Txid, usize>,
    spent: HashSet<OutPoint>,
}

/// Where the coin of an input comes from.
enum Source<'b> {
    /// From the block itself.
    Block(CoinRef<'b>),
    /// From before the block, where coins have a lower height than this.
    Before { below: u32 },
    /// There is no such coin, or none any more.
    Nowhere,
}

impl<'b, B: AsRef<[u8]>> Ledger<'b, B> {
    fn new(block: &'b Block<B>, height: u32) -> Self {
        let mut makers = HashMap::with_capacity(block.transaction_count());
        for (index, transaction) in block.transactions().enumerate() {
            makers.entry(transaction.txid()).or_insert(index);
        }
        Self {
            block,
            height,
            makers,
            spent: HashSet::with_capacity(block.input_count()),
        }
    }

    /// Spends an outpoint in the transaction at `index`.
    fn spend(&mut self, index: usize, outpoint: &OutPoint) -> Source<'b> {
        if !self.spent.insert(*outpoint) {
            return Source::Nowhere;
        }
        match self.makers.get(&outpoint.txid) {
            None => Source::Before { below: self.height },
            Some(&maker) if maker < index => self.made(maker, outpoint.vout),
            // An earlier block with the same transaction does not help: BIP 30 forbids this one, or
            // the chain is one in which no id repeats.
            Some(_) => Source::Nowhere,
        }
    }

    /// The coin of an output of the block.
    fn made(&self, maker: usize, vout: u32) -> Source<'b> {
        let transaction = self.block.transaction(maker);
        if vout as usize >= transaction.output_count() {
            return Source::Nowhere;
        }
        let output = transaction.output(vout as usize);
        if is_unspendable(output.script_pubkey()) {
            return Source::Nowhere;
        }
        Source::Block(output.coin(self.height, maker == 0))
    }
}

/// The coins of a block, in its undo data.
pub(crate) struct OrderedCoins<'a, B> {
    undo: &'a BlockUndo,
    /// None if the coins are not compared.
    ledger: Option<Ledger<'a, B>>,
    /// The transaction whose coins were spent last.
    index: usize,
    /// Its coins, where some have no height.
    with_heights: CoinList,
}

impl<'a, B: AsRef<[u8]>> OrderedCoins<'a, B> {
    /// `undo` has to fit the block.
    pub(crate) fn new(block: &'a Block<B>, height: u32, undo: &'a BlockUndo, own: OwnCoins) -> Self {
        Self {
            undo,
            ledger: (own == OwnCoins::Compared).then(|| Ledger::new(block, height)),
            index: 0,
            with_heights: CoinList::default(),
        }
    }
}

/// Whether a coin is the one that the block makes.
fn is_as_made(coin: &CoinRef<'_>, made: &CoinRef<'_>) -> bool {
    let is_same_output = (coin.value, coin.script_pubkey) == (made.value, made.script_pubkey);
    is_same_output && (is_without_height(coin) || (coin.height, coin.is_coinbase) == (made.height, made.is_coinbase))
}

/// The coin of genesis can never be spent, so no coin has height 0.
fn is_without_height(coin: &CoinRef<'_>) -> bool {
    coin.height == 0
}

impl<B: AsRef<[u8]>> BlockCoins for OrderedCoins<'_, B> {
    type Error = Infallible;

    fn contains(&mut self, _: usize, _: &Transaction<'_>) -> Result<bool, Infallible> {
        // It shows in a set alone.
        Ok(false)
    }

    /// Undo data of old makes has no heights. A coin without a height counts as mature, unless the
    /// block itself makes it.
    fn spend(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<Spent, Infallible> {
        let coins = self.undo.transaction(index - 1);
        self.index = index;
        self.with_heights.clear();
        let some_unknown = coins.iter().any(|coin| is_without_height(&coin));
        for (number, (input, coin)) in transaction.inputs().zip(coins.iter()).enumerate() {
            let source = match &mut self.ledger {
                Some(ledger) => ledger.spend(index, &input.previous_output()),
                None => Source::Before { below: u32::MAX },
            };
            let coin = match source {
                Source::Before { below } if coin.height < below => CoinRef {
                    is_coinbase: coin.is_coinbase && !is_without_height(&coin),
                    ..coin
                },
                Source::Block(made) if is_as_made(&coin, &made) => made,
                _ => return Ok(Spent::Missing(number)),
            };
            if some_unknown {
                self.with_heights.push(coin);
            }
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        if self.with_heights.is_empty() {
            self.undo.transaction(self.index - 1)
        } else {
            self.with_heights.coins()
        }
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

/// Validates a block by every rule that needs its coins, which `lookup` finds as they are before the
/// block. Returns those that it spends.
///
/// # Errors
/// [`BlockError`]; a rule that is broken is the first one in Core's order.
pub fn connect_looked_up<B: AsRef<[u8]>, E>(
    block: &Block<B>,
    context: &ConnectContext<'_>,
    lookup: &mut CoinLookupFn<'_, E>,
) -> Result<(Connected, BlockUndo), BlockError<E>> {
    let mut coins = LookedUpCoins {
        ledger: Ledger::new(block, context.height),
        lookup,
        start: 0,
        coins: CoinList::with_capacity(block.input_count()),
        ends: Vec::with_capacity(block.transaction_count()),
    };
    let connected = connect_block(block, context, &mut coins)?;
    Ok((connected, BlockUndo::from_coins(coins.coins, coins.ends)))
}

/// The coins of a block, found by outpoint.
struct LookedUpCoins<'a, 'l, B, E> {
    ledger: Ledger<'a, B>,
    lookup: &'a mut CoinLookupFn<'l, E>,
    /// Where the coins of the last transaction begin.
    start: usize,
    /// The coins spent so far, and for each transaction their number up to its end.
    coins: CoinList,
    ends: Vec<usize>,
}

impl<B: AsRef<[u8]>, E> BlockCoins for LookedUpCoins<'_, '_, B, E> {
    type Error = E;

    fn contains(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<bool, E> {
        let txid = transaction.txid();
        for vout in 0..transaction.output_count() as u32 {
            if let Source::Block(made) = self.ledger.made(index, vout)
                && let Some(coin) = (self.lookup)(&OutPoint { txid, vout })?
                // The block's own coin overwrites nothing.
                && CoinRef::from(&coin) != made
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn spend(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<Spent, E> {
        self.start = self.coins.len();
        for (number, input) in transaction.inputs().enumerate() {
            let outpoint = input.previous_output();
            let source = self.ledger.spend(index, &outpoint);
            let given = match source {
                Source::Nowhere => None,
                _ => (self.lookup)(&outpoint)?,
            };
            let given = given.as_ref().map(CoinRef::from);
            let coin = match source {
                Source::Before { below } => given.filter(|given| given.height < below),
                // A lower one is what the block overwrites.
                Source::Block(made) => given
                    .is_none_or(|given| given.height < made.height || given == made)
                    .then_some(made),
                Source::Nowhere => None,
            };
            match coin {
                Some(coin) => self.coins.push(coin),
                None => return Ok(Spent::Missing(number)),
            }
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        let coins = self.coins.coins();
        coins.range(self.start..coins.len())
    }

    fn create(&mut self, index: usize, _: &Transaction<'_>) {
        if index > 0 {
            self.ends.push(self.coins.len());
        }
    }
}

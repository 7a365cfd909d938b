//! What blocks are in the tables: rows of each, and coins that come and go.

use crate::copy::tuples;
use crate::error::MirrorError;
use crate::table::MirrorTable;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{Coin, Network, OutPoint};
use blockmill_chain::{ChainBlocks, SpendingBlock, SpendingTransaction};
use blockmill_coins::Tip;
use blockmill_datadir::{FeedBlock, FeedBlocks};
use blockmill_rules::Params;
use blockmill_tables::batch::Batch;
use blockmill_tables::pass::{Made, MadeOfBlocks, Makers};
use blockmill_tables::product::ProductKind;
use blockmill_tables::{block_row, coin_row};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Rows of a table, as `COPY` takes them.
pub(crate) type TableRows = (MirrorTable, Vec<u8>);

/// What some blocks change in the tables, in one transaction.
#[derive(Debug)]
pub(crate) struct Change {
    /// The block after them.
    pub(crate) tip: Tip,
    /// The height whose rows go: of a block that left.
    pub(crate) left: Option<u32>,
    /// Coins that were there before, and go. Those of the second part may have been there.
    pub(crate) spent: Outpoints,
    pub(crate) overwritten: Outpoints,
    /// What comes.
    pub(crate) rows: Vec<TableRows>,
    pub(crate) counts: Counts,
}

/// What some blocks have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) blocks: u64,
    pub(crate) transactions: u64,
}

/// Outpoints, as parameters of a statement.
#[derive(Debug, Default)]
pub(crate) struct Outpoints {
    pub(crate) txids: Vec<Vec<u8>>,
    pub(crate) vouts: Vec<i64>,
}

impl Outpoints {
    fn push(&mut self, outpoint: &OutPoint) {
        self.txids.push(outpoint.txid.0.iter().rev().copied().collect());
        self.vouts.push(outpoint.vout.into());
    }
}

/// What is left of coins that come and go: those that come and stay, and those that were there.
#[derive(Debug, Default)]
struct CoinChanges {
    come: HashMap<OutPoint, (Coin, Option<u32>)>,
    spent: Outpoints,
    overwritten: Outpoints,
}

/// Makes rows of blocks. Several threads may do so at once.
pub(crate) struct RowMaker {
    network: Network,
    params: Params,
    /// Height of the first block of the tables of blocks.
    from: u32,
    has_coins: bool,
    has_blocks: bool,
    /// Those that a pass makes.
    tables: Vec<MirrorTable>,
    makers: Makers,
}

impl RowMaker {
    pub(crate) fn new(
        tables: &[MirrorTable],
        from: u32,
        network: Network,
        params: Params,
    ) -> Result<Self, MirrorError> {
        let with_product = |table: &MirrorTable| Some((*table, table.product()?));
        let (made, kinds): (_, Vec<ProductKind>) = tables.iter().filter_map(with_product).unzip();
        let makers = Makers::without_chain(&kinds, &params);
        Ok(Self {
            network,
            params,
            from,
            has_coins: tables.contains(&MirrorTable::Coins),
            has_blocks: tables.contains(&MirrorTable::Blocks),
            tables: made,
            makers: makers.ok_or_else(|| MirrorError::Usage("a table rests on the whole chain".to_owned()))?,
        })
    }

    /// The rows of the coins of a set.
    pub(crate) fn coins(&self, coins: Vec<(OutPoint, Coin)>, times: &[u32]) -> Vec<u8> {
        let rows = coin_row::rows(coins, times, self.network);
        tuples(&rows, coin_row::TABLE.columns)
    }

    /// The rows of some blocks of a chain, but those of coins.
    pub(crate) fn blocks(
        &self,
        chain: &ChainBlocks,
        heights: RangeInclusive<u32>,
    ) -> Result<(Vec<TableRows>, Counts), MirrorError> {
        let read = |height| {
            let read = chain.read(height)?;
            Ok((read, chain.median_time_past(height)?))
        };
        self.rows(&mut heights.map(read))
    }

    /// Rows of blocks, each with its median time.
    fn rows(
        &self,
        blocks: &mut dyn Iterator<Item = Result<(SpendingBlock, u32), MirrorError>>,
    ) -> Result<(Vec<TableRows>, Counts), MirrorError> {
        let mut flat = Batch::new(block_row::TABLE.columns);
        let mut count = 0;
        let blocks = blocks.map(|block| {
            let (read, median_time) = block?;
            count += 1;
            if self.has_blocks {
                block_row::add(&mut flat, &read, median_time);
            }
            Ok(read)
        });
        let convert = |number: usize, rows: Batch| {
            let table = self.tables[number];
            Ok::<_, MirrorError>((table, tuples(&rows, table.table().columns)))
        };
        let MadeOfBlocks { rows, transactions } = self.makers.make(blocks, self.network, true, &convert)?;
        // Nothing is left to be completed: these tables rest on nothing below.
        let rows = rows.into_iter().filter_map(|(_, made)| match made {
            Made::Piece(rows, _) => Some(rows),
            Made::Rows(_) => None,
        });
        let mut rows: Vec<TableRows> = rows.collect();
        if flat.rows() > 0 {
            rows.push((MirrorTable::Blocks, tuples(&flat, block_row::TABLE.columns)));
        }
        let counts = Counts {
            blocks: count,
            transactions,
        };
        Ok((rows, counts))
    }

    /// What some blocks of the feed change: one that left, or several that came.
    pub(crate) fn change(&self, blocks: FeedBlocks<'_>) -> Result<Change, MirrorError> {
        let (mut coins, mut tip, mut left) = (CoinChanges::default(), None, None);
        let mut noted = blocks.filter_map(|block| {
            let block = match block {
                Ok(block) => block,
                Err(error) => return Some(Err(error.into())),
            };
            tip = Some(block.cursor_after());
            if self.has_coins {
                match block.is_connected {
                    true => coins.connect(&block, &self.params),
                    false => coins.disconnect(&block),
                }
            }
            if !block.is_connected {
                left = Some(block.block.height);
            }
            let is_written = block.is_connected && block.block.height >= self.from;
            is_written.then_some(Ok((block.block, block.median_time_past)))
        });
        let (mut rows, counts) = self.rows(&mut noted)?;
        let come = coins.come.into_iter();
        let come: Vec<_> = come.map(|(outpoint, (coin, time))| (outpoint, coin, time)).collect();
        if !come.is_empty() {
            let come = coin_row::rows_with_times(come, self.network);
            rows.push((MirrorTable::Coins, tuples(&come, coin_row::TABLE.columns)));
        }
        Ok(Change {
            // The feed gives no empty pieces.
            tip: tip.ok_or_else(|| MirrorError::Corrupt("a piece of the feed without blocks".to_owned()))?,
            left,
            spent: coins.spent,
            overwritten: coins.overwritten,
            rows,
            counts,
        })
    }
}

/// The coins that a transaction makes.
fn made<'a>(spending: &SpendingTransaction<'a>, height: u32) -> impl Iterator<Item = (OutPoint, Coin)> + use<'a> {
    let transaction = spending.transaction;
    let (txid, is_coinbase) = (transaction.txid(), transaction.is_coinbase());
    (0..).zip(transaction.outputs()).filter_map(move |(vout, output)| {
        let coin = output.coin(height, is_coinbase);
        (!is_unspendable(coin.script_pubkey)).then(|| (OutPoint { txid, vout }, coin.to_coin()))
    })
}

/// The outpoints that a transaction spends.
fn spent<'a>(spending: &SpendingTransaction<'a>) -> impl Iterator<Item = OutPoint> + use<'a> {
    let inputs = spending.inputs();
    inputs.filter_map(|(input, coin)| coin.map(|_| input.previous_output()))
}

impl CoinChanges {
    fn connect(&mut self, feed: &FeedBlock, params: &Params) {
        let FeedBlock { block, .. } = feed;
        let (height, time) = (block.height, block.block.header().time);
        let of = (height, block.block.hash());
        let is_repeated = params.bip30_exceptions.contains(&of);
        for spending in block.transactions() {
            for outpoint in spent(&spending) {
                if self.come.remove(&outpoint).is_none() {
                    self.spent.push(&outpoint);
                }
            }
            for (outpoint, coin) in made(&spending, height) {
                // Two coinbases repeat older ones, whose coins they replace.
                if self.come.insert(outpoint, (coin, Some(time))).is_none() && is_repeated {
                    self.overwritten.push(&outpoint);
                }
            }
        }
    }

    fn disconnect(&mut self, feed: &FeedBlock) {
        let FeedBlock { block, .. } = feed;
        let mut next = feed.coin_times.len();
        let transactions: Vec<_> = block.transactions().collect();
        for spending in transactions.into_iter().rev() {
            for (outpoint, _) in made(&spending, block.height) {
                if self.come.remove(&outpoint).is_none() {
                    self.spent.push(&outpoint);
                }
            }
            // Times are in the order of all coins, of which these are the last that remain.
            next = next.saturating_sub(spending.coins.iter().len());
            let inputs = spending.inputs().filter_map(|(input, coin)| Some((input, coin?)));
            for (number, (input, coin)) in inputs.enumerate() {
                let time = feed.coin_times.get(next + number).copied();
                self.come.insert(input.previous_output(), (coin.to_coin(), time));
            }
        }
    }
}

//! A block of a window is validated by itself, with the coins that the shards have found.

#[cfg(test)]
use super::Fault;
use super::{ShardOutcome, ValidBlock, WindowBlock};
use blockmill_block::undo::write_record;
use blockmill_block::{BlockUndo, CoinList, Coins, Magic, Transaction};
use blockmill_rules::connect::{BlockCoins, ConnectContext, Overwriting, Spent, connect_block};
use std::convert::Infallible;

/// Bytes of a coin in a record, about.
const RECORD_BYTES_PER_COIN: usize = 32;

/// Validates a block with the coins that the shards have found. None if it breaks a rule.
pub(super) fn validate(
    number: usize,
    window: &[WindowBlock<'_>],
    outcomes: &[&ShardOutcome],
    magic: Magic,
) -> Option<ValidBlock> {
    let WindowBlock {
        block,
        outline,
        context,
        ..
    } = &window[number];
    // The coinbase spends nothing: coins count from the first input after it.
    let first = block.input_range(0).end;
    // What a shard has found lies in a row, and the coins of a block in the order of its inputs.
    let mut coins = CoinList::with_empty_coins(block.input_count() - first);
    for outcome in outcomes.iter().filter(|outcome| outline.has_events_in(outcome.shard)) {
        let found = outcome.log.spent();
        let range = outcome.starts[number]..outcome.starts[number + 1];
        #[cfg(test)]
        let found = from_shard(found, outcome, outcomes, range.end);
        let indices = outline.spends(outcome.shard).iter().map(|spend| {
            let index = spend.input as usize - first;
            #[cfg(test)]
            let index = maybe_swapped(index, block.input_count() - first, outcome);
            index
        });
        coins.put(found.range(range), indices);
    }
    #[cfg(test)]
    assert!(
        number + 1 < window.len() || outcomes[0].fault != Some(Fault::PanicsInValidation),
        "a fault of the test"
    );
    let ends = (1..block.transaction_count()).map(|index| block.input_range(index).end - first);
    let undo = BlockUndo::from_coins(coins, ends.collect());
    let context = ConnectContext {
        // The shards know which outpoints are new.
        overwriting: Overwriting::Allowed,
        ..*context
    };
    let mut coins = FoundCoins { undo: &undo, index: 0 };
    // Which rule is broken is found by `judge`.
    connect_block(block, &context, &mut coins).ok()?;
    let mut record = Vec::with_capacity(undo.coins().len() * RECORD_BYTES_PER_COIN);
    write_record(magic, &block.header().prev_block_hash, &undo, &mut record);
    Some(ValidBlock { undo, record })
}

/// The coins of a shard, or with a fault of the test those of another, if it has as many as `end`.
#[cfg(test)]
fn from_shard<'l>(found: Coins<'l>, outcome: &ShardOutcome, outcomes: &[&'l ShardOutcome], end: usize) -> Coins<'l> {
    let other = outcomes.iter().find(|other| other.shard == outcome.shard ^ 1);
    let other = other.map(|other| other.log.spent());
    let is_wanted = |other: &Coins<'_>| outcome.fault == Some(Fault::SwapsShards) && end <= other.len();
    other.filter(is_wanted).unwrap_or(found)
}

/// The index, or with a fault of the test another one below `count`.
#[cfg(test)]
fn maybe_swapped(index: usize, count: usize, outcome: &ShardOutcome) -> usize {
    if outcome.fault == Some(Fault::MixesInputs) && count > 1 && index < 2 {
        1 - index
    } else {
        index
    }
}

/// The coins of a block that the shards have found.
struct FoundCoins<'a> {
    undo: &'a BlockUndo,
    /// The transaction whose coins were spent last.
    index: usize,
}

impl BlockCoins for FoundCoins<'_> {
    type Error = Infallible;

    fn contains(&mut self, _: usize, _: &Transaction<'_>) -> Result<bool, Infallible> {
        // Never asked, since `overwriting` is `Allowed`.
        Ok(false)
    }

    fn spend(&mut self, index: usize, _: &Transaction<'_>) -> Result<Spent, Infallible> {
        self.index = index;
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        // Undo data begins with transaction 1, since the coinbase spends nothing.
        self.undo.transaction(self.index - 1)
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

//! A block of a window is judged by itself, with the coins that the lanes have found.

#[cfg(test)]
use super::Fault;
use super::{Judged, LaneOutcome, WindowBlock};
use blockmill_block::undo::write_record;
use blockmill_block::{BlockUndo, CoinRef, Coins, Magic, OutPoint, Transaction};
use blockmill_rules::connect::{BlockCoins, ConnectContext, Overwriting, Spent, connect_block};
use std::convert::Infallible;

/// Bytes of a coin in a record, about.
const RECORD_BYTES_PER_COIN: usize = 32;

/// Judges a block with the coins that the lanes have found. None if it breaks a rule.
pub(super) fn judge(
    number: usize,
    window: &[WindowBlock<'_>],
    outcomes: &[&LaneOutcome],
    magic: Magic,
) -> Option<Judged> {
    let WindowBlock {
        block,
        outline,
        context,
        ..
    } = &window[number];
    let first = block.input_range(0).end;
    // The coin of each input. What a lane has found lies in a row, so it is read in that order.
    let mut coins = vec![NO_COIN; block.input_count() - first];
    for outcome in outcomes {
        let found = outcome.log.spent();
        let found = found.range(outcome.starts[number]..outcome.starts[number + 1]);
        for (coin, spend) in found.iter().zip(outline.spends(outcome.lane)) {
            coins[spend.input as usize - first] = coin;
        }
    }
    #[cfg(test)]
    plant_faults(number, window, outcomes, &mut coins);
    let mut undo = BlockUndo::with_capacity(coins.len());
    for index in 1..block.transaction_count() {
        for input in block.input_range(index) {
            undo.push_coin(coins[input - first]);
        }
        undo.end_transaction();
    }
    let context = ConnectContext {
        // The lanes know which outpoints are new.
        overwriting: Overwriting::Allowed,
        ..*context
    };
    let mut coins = FoundCoins { undo: &undo, index: 0 };
    connect_block(block, &context, &mut coins).ok()?;
    let mut record = Vec::with_capacity(undo.coins().len() * RECORD_BYTES_PER_COIN);
    write_record(magic, &block.header().prev_block_hash, &undo, &mut record);
    Some(Judged { undo, record })
}

/// What the inputs have before the lanes' coins are dealt out.
const NO_COIN: CoinRef<'_> = CoinRef {
    value: 0,
    height: 0,
    is_coinbase: false,
    script_pubkey: &[],
};

#[cfg(test)]
fn plant_faults<'l>(
    number: usize,
    window: &[WindowBlock<'_>],
    outcomes: &[&'l LaneOutcome],
    coins: &mut [CoinRef<'l>],
) {
    match outcomes[0].fault {
        Some(Fault::MixesInputs) if coins.len() > 1 => coins.swap(0, 1),
        Some(Fault::PanicsInJudge) if number + 1 == window.len() => panic!("a fault of the test"),
        Some(Fault::SwapsLanes) => {
            let WindowBlock { block, outline, .. } = &window[number];
            let first = block.input_range(0).end;
            for outcome in outcomes {
                let other = outcomes[outcome.lane ^ 1].log.spent();
                for (coin, spend) in (outcome.starts[number]..).zip(outline.spends(outcome.lane)) {
                    let place = &mut coins[spend.input as usize - first];
                    *place = other.get(coin).unwrap_or(*place);
                }
            }
        }
        _ => {}
    }
}

/// The coins of a block that the lanes have found.
struct FoundCoins<'a> {
    undo: &'a BlockUndo,
    /// The transaction whose coins were spent last.
    index: usize,
}

impl BlockCoins for FoundCoins<'_> {
    type Error = Infallible;

    fn contains(&mut self, _: &OutPoint) -> Result<bool, Infallible> {
        Ok(false)
    }

    fn spend(&mut self, index: usize, _: &Transaction<'_>) -> Result<Spent, Infallible> {
        self.index = index;
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        self.undo.transaction(self.index - 1)
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

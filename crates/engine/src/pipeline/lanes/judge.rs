//! A block of a window is judged by itself, with the coins that the lanes have found.

#[cfg(test)]
use super::Fault;
use super::{Judged, LaneOutcome, WindowBlock};
use blockmill_block::undo::write_record;
use blockmill_block::{BlockUndo, Coins, Magic, OutPoint, Transaction};
use blockmill_rules::connect::{BlockCoins, ConnectContext, Overwriting, Spent, connect_block};
use std::convert::Infallible;

/// Bytes of a coin in a record, about.
const RECORD_BYTES_PER_COIN: usize = 32;

/// Judges a block with the coins that the lanes have found. None if it breaks a rule.
pub(super) fn judge(
    number: usize,
    window: &[WindowBlock<'_>],
    outcomes: &[LaneOutcome],
    magic: Magic,
) -> Option<Judged> {
    let WindowBlock {
        block,
        outline,
        context,
        ..
    } = &window[number];
    let first = block.input_range(0).end;
    // For each input the lane of its coin, and the coin's number there.
    let mut places = vec![(0u32, 0u32); block.input_count() - first];
    for outcome in outcomes {
        let start = outcome.starts[number] as u32;
        for (coin, spend) in (start..).zip(outline.spends(outcome.lane)) {
            places[spend.input as usize - first] = (outcome.lane as u32, coin);
        }
    }
    #[cfg(test)]
    match outcomes[0].fault {
        Some(Fault::MixesInputs) if places.len() > 1 => places.swap(0, 1),
        Some(Fault::PanicsInJudge) if number + 1 == window.len() => panic!("a fault of the test"),
        _ => {}
    }
    let mut undo = BlockUndo::with_capacity(places.len());
    for index in 1..block.transaction_count() {
        for input in block.input_range(index) {
            let (lane, coin) = places[input - first];
            #[cfg(test)]
            let lane = match outcomes[lane as usize].fault {
                Some(Fault::SwapsLanes) if outcomes[lane as usize ^ 1].log.spent().len() > coin as usize => lane ^ 1,
                _ => lane,
            };
            undo.push_coin(outcomes[lane as usize].log.spent().at(coin as usize));
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

//! What the fetcher reads for a block ahead.

use crate::pipeline::upcoming::UpcomingTxids;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, OutPoint};
use blockmill_coins::CacheView;
use blockmill_fetch::Wanted;
use std::ops::Range;
use std::sync::Arc;

/// The coins that a block spends, less those that no store can have yet, and those that the cache
/// has.
pub struct BlockInputs {
    /// The block.
    pub block: Arc<Block>,
    /// The height up to which blocks were resolved when `view` was taken.
    pub resolved: u32,
    /// What the blocks ahead make.
    pub made: Arc<UpcomingTxids>,
    /// Which coins the cache has.
    pub view: CacheView,
}

impl BlockInputs {
    /// Inputs of the coinbase, which spend nothing.
    fn first(&self) -> usize {
        self.block.input_range(0).end
    }
}

impl Wanted for BlockInputs {
    fn items(&self) -> usize {
        self.block.input_count() - self.first()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<OutPoint>) {
        let (start, end) = (items.start + self.first(), items.end + self.first());
        let mut next = start;
        while next < end {
            let (transaction, number) = self.block.locate_input(next);
            let inputs = self.block.transaction(transaction).inputs().skip(number);
            let before = next;
            for input in inputs.take(end - next) {
                let outpoint = input.previous_output();
                if !self.made.is_made_above(&outpoint.txid, self.resolved) {
                    wanted.push(outpoint);
                }
                next += 1;
            }
            // A transaction has inputs, or the block would not have been decoded; but nothing rests
            // on that here.
            if next == before {
                break;
            }
        }
        self.view.retain_unknown(wanted);
    }
}

/// The coins that a block makes: none of them may be there already (BIP 30). The items are its
/// transactions.
pub struct BlockOutputs(pub Arc<Block>);

impl Wanted for BlockOutputs {
    fn items(&self) -> usize {
        self.0.transaction_count()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<OutPoint>) {
        for transaction in self.0.transactions().skip(items.start).take(items.len()) {
            let txid = transaction.txid();
            for (vout, output) in (0..).zip(transaction.outputs()) {
                if !is_unspendable(output.script_pubkey()) {
                    wanted.push(OutPoint { txid, vout });
                }
            }
        }
    }
}

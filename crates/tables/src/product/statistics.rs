//! Figures of the set of coins after each block, as Core's `gettxoutsetinfo` gives them with an
//! index, and those of the block itself, as `getblockstats` does.
//!
//! Threads make the figures of runs of blocks, and what each block changes in the set. The sums
//! over all blocks below are made in the order of blocks.

mod amounts;
mod coins;
mod fees;
mod row;

use super::{Complete, OfBlock, OfChain, Product};
use crate::batch::{Batch, Id, Row, Table};
use crate::set_change::SetChange;
use blockmill_chain::{BlockReadError, SpendingBlock};
use blockmill_coins::MuHash;
use row::StatisticsRow;
use std::sync::Arc;

pub(crate) const TABLE: Table = Table {
    name: "statistics",
    row: "statistic",
    columns: StatisticsRow::COLUMNS,
    without_dictionary: &["block_hash", "muhash"],
    index: "block_hash",
};

pub(crate) struct Statistics(pub(crate) Arc<OfChain>);

/// The figures of a set.
struct Totals {
    coins: i128,
    bogosize: i128,
    /// Of all coins, in satoshi.
    sum: i128,
    unspendable: i128,
    /// None above a block with a coin that is not known.
    muhash: Option<MuHash>,
}

impl Totals {
    /// Goes on to the set after a block. The MuHash is that before its run of blocks.
    fn add(&mut self, change: &SetChange, before: Option<&MuHash>) {
        self.coins += i128::from(change.made) - i128::from(change.spent);
        self.bogosize += change.bogosize;
        self.sum += change.amount;
        self.unspendable += change.unspendable;
        self.muhash = before.zip(change.muhash.as_ref()).map(|(before, change)| {
            let mut muhash = before.clone();
            muhash.merge(change);
            muhash
        });
    }

    /// Completes the rows of a run of blocks.
    fn complete(&mut self, rows: &mut Batch) -> Result<(), BlockReadError> {
        let (mut txouts, mut bogosize, mut total, mut unspendable) = (vec![], vec![], vec![], vec![]);
        let mut hashes = Vec::new();
        let before = self.muhash.clone();
        for change in rows.changes().drain(..) {
            self.add(&change, before.as_ref());
            let of_chain = || BlockReadError::Impossible {
                hash: change.hash,
                height: change.height,
                why: "the coins that it spends are not those that the chain has made".to_owned(),
            };
            txouts.push(u64::try_from(self.coins).map_err(|_| of_chain())?);
            bogosize.push(u64::try_from(self.bogosize).map_err(|_| of_chain())?);
            total.push(i64::try_from(self.sum).map_err(|_| of_chain())?);
            unspendable.push(i64::try_from(self.unspendable).map_err(|_| of_chain())?);
            hashes.push(self.muhash.as_ref().map(|muhash| Id::new(muhash.finalize())));
        }
        rows.replace("txouts", txouts);
        rows.replace("bogosize", bogosize);
        rows.replace("total_amount", total);
        rows.replace("total_unspendable_amount", unspendable);
        rows.replace("muhash", hashes);
        Ok(())
    }
}

impl Product for Statistics {
    fn add_block(&self, of: &OfBlock, read: &SpendingBlock, rows: &mut Batch) -> Result<(), BlockReadError> {
        let wrong = |why| BlockReadError::Impossible {
            hash: of.hash,
            height: of.height,
            why,
        };
        let (row, change) = StatisticsRow::of(&self.0, of, read).map_err(wrong)?;
        rows.push(row);
        rows.push_change(change);
        Ok(())
    }

    fn end_run(&self, rows: &mut Batch) {
        SetChange::end_run(rows.changes());
    }

    fn completer(&self) -> Option<Complete> {
        let mut totals = Totals {
            coins: 0,
            bogosize: 0,
            sum: 0,
            unspendable: 0,
            muhash: Some(MuHash::new()),
        };
        Some(Box::new(move |rows| totals.complete(rows)))
    }
}

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
use crate::set_totals::{Completed, SetTotals};
use blockmill_chain::{BlockReadError, SpendingBlock};
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

impl Complete for SetTotals {
    fn complete(&mut self, rows: &mut Batch) -> Result<(), BlockReadError> {
        let mut completed = Completed::default();
        let before = self.muhash.clone();
        for change in rows.changes().drain(..) {
            self.add(&change, before.as_ref());
            completed.push(self).ok_or_else(|| BlockReadError::Impossible {
                hash: change.hash,
                height: change.height,
                why: "the coins that it spends are not those that the chain has made".to_owned(),
            })?;
        }
        rows.replace("txouts", completed.txouts);
        rows.replace("bogosize", completed.bogosize);
        rows.replace("total_amount", completed.total_amount);
        rows.replace("total_unspendable_amount", completed.total_unspendable_amount);
        let muhashes = completed.muhash.into_iter().map(|hash| hash.map(Id::new));
        rows.replace("muhash", muhashes.collect());
        Ok(())
    }

    fn state(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn resume(&mut self, state: &[u8]) -> bool {
        Self::from_bytes(state).map(|totals| *self = totals).is_some()
    }

    fn states(&mut self, rows: &mut Batch) -> Vec<Vec<u8>> {
        let before = self.muhash.clone();
        let changes = rows.changes().drain(..);
        let after = |change: SetChange| {
            self.add(&change, before.as_ref());
            self.to_bytes()
        };
        changes.map(after).collect()
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

    fn completer(&self) -> Option<Box<dyn Complete>> {
        Some(Box::new(SetTotals::default()))
    }
}

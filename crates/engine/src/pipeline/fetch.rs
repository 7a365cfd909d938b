//! Coins are fetched ahead of their use: what the fetcher is asked for, and what the cache takes.

use crate::pipeline::inputs::{BlockInputs, BlockOutputs};
use crate::pipeline::outline::Outline;
use crate::pipeline::upcoming::UpcomingTxids;
use crate::report::telemetry::Telemetry;
use blockmill_coins::{CoinsCache, FlushEpoch};
use blockmill_fetch::{Fetch, Fetcher};
use blockmill_rules::connect::Overwriting;
use std::sync::Arc;
use std::time::Instant;

/// The reads for one block.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// The coins that it spends.
    inputs: Option<Fetch>,
    /// The coins that it creates and that must not be there.
    outputs: Option<Fetch>,
}

impl Fetches {
    /// Whether all reads have ended.
    pub(crate) fn are_done(&self) -> bool {
        [&self.inputs, &self.outputs]
            .into_iter()
            .all(|fetch| fetch.as_ref().is_none_or(Fetch::is_done))
    }
}

/// The fetcher of a pipeline.
pub(crate) struct Fetching {
    fetcher: Fetcher,
    /// Whether coins are fetched ahead; else resolve reads them itself, one by one.
    is_ahead: bool,
}

impl Fetching {
    pub(crate) fn new(fetcher: Fetcher, is_ahead: bool) -> Self {
        Self { fetcher, is_ahead }
    }

    /// Whether coins are to be fetched. There is no need while the cache has all coins.
    pub(crate) fn is_useful(&self, cache: &CoinsCache) -> bool {
        self.is_ahead && cache.may_miss()
    }

    /// Whether reads of the store block.
    pub(crate) fn reads_block(&self) -> bool {
        self.fetcher.reads_block()
    }

    /// Begins to read what a block with this outline needs of the store. Blocks up to height
    /// `resolved` have changed the cache; `upcoming` knows the transactions of the blocks above.
    pub(crate) fn begin(
        &self,
        outline: &Arc<Outline>,
        overwriting: Overwriting,
        resolved: u32,
        upcoming: &Arc<UpcomingTxids>,
        cache: &CoinsCache,
    ) -> Fetches {
        let inputs = BlockInputs {
            outline: Arc::clone(outline),
            resolved,
            upcoming: Arc::clone(upcoming),
            view: cache.view(),
        };
        // Only BIP 30 asks whether an output is there already.
        let outputs = (overwriting == Overwriting::Forbidden).then(|| BlockOutputs(Arc::clone(outline)));
        Fetches {
            inputs: Some(self.fetcher.begin(inputs)),
            outputs: outputs.map(|outputs| self.fetcher.begin(outputs)),
        }
    }

    /// Waits for the reads for a block, and inserts the coins into the cache. Returns the epoch at
    /// which the store had none of the block's outputs, if that was seen.
    pub(crate) fn finish(
        &self,
        height: u32,
        fetches: Fetches,
        cache: &mut CoinsCache,
        telemetry: &mut Telemetry,
    ) -> Option<FlushEpoch> {
        // Nothing was fetched for this block: resolve reads its coins itself.
        let inputs = fetches.inputs?;
        let start = Instant::now();
        let found = inputs.finish().coins;
        let outputs = fetches.outputs.map(Fetch::finish);
        let waited = start.elapsed();
        let taken = found
            .iter()
            .filter(|fetched| cache.insert_if_fresh_read(&fetched.at, &fetched.coin, fetched.read_epoch))
            .count();
        telemetry.fetched(height, start, waited, self.fetcher.statistics(), taken as u64);
        // Outputs are absent only if all were looked for and none was found.
        let outputs = outputs.filter(|outputs| outputs.complete && outputs.coins.is_empty());
        outputs.map(|outputs| outputs.begin_epoch)
    }
}

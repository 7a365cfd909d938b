//! Fetching ahead: what the engine asks the fetcher for, and what it does with what comes.

use crate::pipeline::connect::Engine;
use crate::pipeline::inputs::{BlockInputs, BlockOutputs};
use crate::pipeline::load::{Body, LoadRequest, Loaded};
use crate::pipeline::prefetch::{self, Window};
use crate::report::{FetchTotals, Stage};
use blockmill_coins::FlushEpoch;
use blockmill_fetch::Fetch;
use blockmill_rules::ScriptVerifier;
use std::sync::Arc;
use std::time::Instant;

/// Fetched coins that have not been offered take at most this fraction of the memory for coins, or
/// what one block needs.
const CACHE_SHARE: usize = 16;

/// Bytes of a fetched coin, about.
const FETCHED_BYTES: usize = 150;

/// What is read for a block.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// The coins that it spends.
    inputs: Option<Fetch>,
    /// Those that it makes and that must not be there.
    outputs: Option<Fetch>,
}

impl Fetches {
    /// Whether all of it has come.
    pub(crate) fn are_done(&self) -> bool {
        [&self.inputs, &self.outputs]
            .into_iter()
            .all(|fetch| fetch.as_ref().is_none_or(Fetch::is_done))
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Whether coins are to be read ahead: not while the cache has all there are.
    pub(crate) fn should_fetch(&self) -> bool {
        !self.options.without.fetch && self.cache.may_miss()
    }

    /// How far ahead blocks are loaded and their coins fetched. When reads block, and nobody but
    /// this thread loads blocks, as many blocks as may be are loaded first, so that reads for all
    /// of them are under way. What is fetched takes a small part of the memory for coins.
    pub(crate) fn prefetch_limits(&self) -> Window {
        let load_first = self.pool.workers() == 0 && self.should_fetch() && self.fetcher.reads_block();
        Window {
            loaded_min: if load_first { prefetch::BLOCKS_MAX } else { 1 },
            inputs_max: self.cache.limit() / CACHE_SHARE / FETCHED_BYTES,
        }
    }

    /// Begins to read what a block that was loaded needs of the store.
    pub(crate) fn begin_fetches(&self, task: &LoadRequest, loaded: &Loaded) -> Fetches {
        let resolved = (self.active.len() + self.in_flight.len()) as u32 - 1;
        let Body::Sound(block, _) = &loaded.body else {
            return Fetches::default();
        };
        if !self.should_fetch() || task.height <= resolved {
            return Fetches::default();
        }
        let inputs = BlockInputs {
            block: Arc::clone(block),
            resolved,
            made: Arc::clone(&self.loader.made),
            view: self.cache.view(),
        };
        let outputs = self.enforces_bip30(task.id).then(|| BlockOutputs(Arc::clone(block)));
        Fetches {
            inputs: Some(self.fetcher.begin(inputs)),
            outputs: outputs.map(|outputs| self.fetcher.begin(outputs)),
        }
    }

    /// Waits for what is read for a block, and offers the coins to the cache. Returns the epoch at
    /// which the store was seen to have none of the block's outputs, if it was.
    pub(crate) fn finish_fetches(&mut self, height: u32, fetches: Fetches) -> Option<FlushEpoch> {
        let inputs = fetches.inputs?;
        let start = Instant::now();
        let found = inputs.finish().coins;
        let outputs = fetches.outputs.map(Fetch::finish);
        let waited = start.elapsed();
        for fetched in &found {
            let taken = self
                .cache
                .insert_if_fresh_read(&fetched.outpoint, &fetched.coin, fetched.read_epoch);
            self.totals.fetch.taken += u64::from(taken);
        }
        let statistics = self.fetcher.statistics();
        let busy = statistics.time - self.totals.fetch.reads.time;
        self.totals.fetch = FetchTotals {
            reads: statistics,
            taken: self.totals.fetch.taken,
        };
        self.totals.stages.add(Stage::Fetch, busy, waited);
        self.trace.add(Stage::Fetch, height, start + waited, Instant::now());
        let outputs = outputs.filter(|outputs| outputs.complete && outputs.coins.is_empty());
        outputs.map(|outputs| outputs.begin_epoch)
    }
}

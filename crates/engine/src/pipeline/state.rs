//! The pipeline: every part that a block passes on its way, and how far ahead each of them works.

use crate::internals::Without;
use crate::options::Options;
use crate::pipeline::error::ConnectError;
use crate::pipeline::fetch::{Fetches, Fetching};
use crate::pipeline::flush::{FlushTarget, Flusher};
use crate::pipeline::in_flight::InFlightBlocks;
use crate::pipeline::load::{BlockLoader, Content, LoadRequest, PrefetchedBlock};
use crate::pipeline::prefetch::{self, Bounds, LoadHandler, Window};
use crate::pipeline::windows::Windows;
use crate::plan::Plan;
use crate::report::connect_report::Halt;
use crate::report::stages::Stage;
use crate::report::telemetry::{CacheState, Reporter, Telemetry};
use crate::report::trace::Trace;
use blockmill_chain::index::BlockId;
use blockmill_chain::state::ChainState;
use blockmill_coins::{CoinStore, CoinsCache, FlushEpoch, StoreError};
use blockmill_datadir::state::DataState;
use blockmill_fetch::{Fetcher, Options as FetchOptions};
use blockmill_pool::{Helpers, ThreadPool, ThreadPoolOptions};
use blockmill_rules::ScriptVerifier;
use blockmill_validate::check_pool::CheckPool;
use blockmill_workqueue::{Help, Options as WorkQueueOptions, WorkQueue};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Highest priority: no block can be resolved without its coins, and few are missing.
const FETCH_PRIORITY: u32 = 0;

/// All later blocks wait for a window, and its jobs are short.
const WINDOW_PRIORITY: u32 = 0;

/// Everything waits for the checks of the lowest block in the end.
const CHECK_PRIORITY: u32 = 1;

/// Blocks are loaded when there are no checks.
const LOAD_PRIORITY: u32 = 2;

/// A flush goes on by itself: its thread prepares what no worker has begun. When it falls back, the
/// master waits, and soon the workers have nothing else to do.
const FLUSH_PRIORITY: u32 = 3;

/// The master loads blocks only when it can do nothing else.
const LOADING: WorkQueueOptions = WorkQueueOptions {
    workers: None,
    slots_per_worker: Some(prefetch::BLOCKS_MAX),
    help: Help::WhileWaiting,
};

/// Most blocks in flight.
const IN_FLIGHT_MAX: usize = 256;

/// Most of them that have checks in the check queue.
pub(super) const ROUNDS_IN_FLIGHT_MAX: usize = blockmill_checkqueue::ROUNDS_MAX / 2;

/// How a pipeline is to work.
pub(crate) struct Settings {
    pub(crate) options: Options,
    pub(crate) without: Without,
    pub(crate) windows: Windows,
}

impl Settings {
    /// Most blocks that are loaded ahead.
    fn loaded_max(&self) -> usize {
        if self.without.decode { 1 } else { prefetch::BLOCKS_MAX }
    }

    /// Most blocks in flight.
    pub(super) fn in_flight_max(&self) -> usize {
        if self.without.overlap { 1 } else { IN_FLIGHT_MAX }
    }
}

/// Everything that a block passes on its way.
pub(crate) struct Pipeline<V: ScriptVerifier + 'static> {
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    pub(crate) loader: Arc<BlockLoader<V>>,
    pub(super) loading: WorkQueue<LoadHandler<V>>,
    pub(super) fetching: Fetching,
    /// The coins at the tip, while no run goes on.
    pub(crate) cache: CoinsCache,
    pub(super) checks: CheckPool<V>,
    pub(super) in_flight: InFlightBlocks<V>,
    pub(crate) flusher: Flusher,
    /// Blocks that cannot be read to be kept: they are not tried again.
    pub(super) not_kept: HashSet<BlockId>,
    /// The threads beside the caller's. They end when all that they serve is gone.
    pub(super) thread_pool: ThreadPool,
}

/// What a run works on besides the pipeline.
pub(crate) struct Run<'a> {
    pub(crate) chain: &'a mut ChainState,
    pub(crate) data: &'a mut DataState,
    pub(crate) reporter: Reporter<'a>,
}

/// Starts the threads that validate and prepare flushes: with the caller's, `threads` of them.
///
/// # Errors
/// The system's, where it makes no more threads.
pub(crate) fn start_threads(threads: usize) -> std::io::Result<ThreadPool> {
    ThreadPool::new(&ThreadPoolOptions {
        name: "worker".to_owned(),
        scope_priority: WINDOW_PRIORITY,
        ..ThreadPoolOptions::workers(threads.saturating_sub(1))
    })
}

/// These threads as helpers of a store.
pub(crate) fn flush_helpers(thread_pool: &ThreadPool) -> Helpers {
    thread_pool.helpers(FLUSH_PRIORITY)
}

impl<V: ScriptVerifier + 'static> Pipeline<V> {
    /// A pipeline over `store` for the blocks of `chain`. Reports name `headers_path` for a block
    /// that no file has.
    pub(crate) fn new(
        settings: Settings,
        chain: &ChainState,
        headers_path: PathBuf,
        thread_pool: ThreadPool,
        store: Arc<dyn CoinStore>,
        verifier: V,
        trace: &Trace,
    ) -> Self {
        let plan = Plan::for_memory(settings.options.cache_bytes_max, settings.options.threads);
        let verifier = Arc::new(verifier);
        let checks = CheckPool::with_record(Arc::clone(&verifier), &thread_pool, CHECK_PRIORITY, trace.of_checks());
        let params = chain.index().params().clone();
        let files = chain.files().clone();
        let cache = CoinsCache::new(Arc::clone(&store), plan.cache_bytes);
        let hash_key = *cache.hash_key();
        let loader = BlockLoader::new(files, params, verifier, hash_key, headers_path, trace.clone());
        let loader = Arc::new(loader);
        let handler = LoadHandler(Arc::clone(&loader));
        let loading = WorkQueue::with_options(&thread_pool, LOAD_PRIORITY, handler, &LOADING);
        let readers = FetchOptions {
            readers: settings.options.readers,
            coins_bytes_max: plan.fetched_bytes,
        };
        let fetcher = Fetcher::new(&thread_pool, FETCH_PRIORITY, store, cache.flush_clock(), &readers);
        Self {
            plan,
            loader,
            loading,
            fetching: Fetching::new(fetcher, !settings.without.fetch),
            cache,
            checks,
            in_flight: InFlightBlocks::default(),
            flusher: Flusher::new(settings.options.flush_interval, !settings.without.background_flush),
            not_kept: HashSet::new(),
            thread_pool,
            settings,
        }
    }

    /// Whether a run is to end where the tip is.
    pub(crate) fn must_halt(&self, chain: &ChainState) -> Option<Halt> {
        // Relaxed: the flag orders nothing, and a late look costs one more block.
        if self.settings.options.stop.load(Ordering::Relaxed) {
            return Some(Halt::Stopped);
        }
        let limit = self.settings.options.stop_at_height?;
        (chain.height() >= limit).then_some(Halt::HeightReached)
    }

    /// The same before the active chain goes on to `target`. A block at the last height that is not
    /// below it gives way first: it may have been read before it showed that its equal came first.
    pub(crate) fn must_halt_below(&self, chain: &ChainState, target: BlockId) -> Option<Halt> {
        let halt = self.must_halt(chain)?;
        let is_last = self.settings.options.stop_at_height == Some(chain.height());
        let is_below = chain.index().ancestor(target, chain.height()) == Some(chain.tip_id());
        (halt == Halt::Stopped || !is_last || is_below).then_some(halt)
    }

    /// Set by anyone to make a run stop.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.settings.options.stop
    }

    /// The threads of the pipeline as helpers of a store.
    pub(crate) fn flush_helpers(&self) -> Helpers {
        flush_helpers(&self.thread_pool)
    }

    /// Loads a block on this thread.
    pub(crate) fn load_now(&self, chain: &ChainState, id: BlockId, telemetry: &mut Telemetry) -> Content {
        let block = self.loader.load(LoadRequest::new(chain.index(), id));
        count_times(&block.times, telemetry);
        block.content
    }

    /// Loads a block of the active chain on this thread, also from files of earlier runs that this
    /// one was not given.
    pub(crate) fn load_active(&self, chain: &mut ChainState, id: BlockId, telemetry: &mut Telemetry) -> Content {
        let content = self.load_now(chain, id, telemetry);
        if !matches!(content, Content::Sound(_)) && chain.recall_active() {
            return self.load_now(chain, id, telemetry);
        }
        content
    }

    /// Memory in bytes of the blocks in flight, and of their deferred signature
    /// checks, about.
    pub(super) fn in_flight_memory(&self) -> usize {
        self.in_flight.memory() + self.checks.deferred_memory()
    }

    /// How many blocks are loaded ahead.
    pub(super) fn prefetch_bounds(&self) -> Bounds {
        Bounds {
            blocks: self.settings.loaded_max(),
            memory: self.plan.ahead_bytes,
        }
    }

    /// When blocks are handed out. When reads block, and nobody but this thread loads blocks, as
    /// many blocks as may be are loaded first, so that reads for all of them are under way.
    pub(super) fn prefetch_window(&self, next_height: usize) -> Window {
        let height_max = self
            .settings
            .options
            .stop_at_height
            .map_or(usize::MAX, |height| height as usize);
        let load_first =
            self.checks.workers() == 0 && self.fetching.is_useful(&self.cache) && self.fetching.reads_block();
        Window {
            loaded_min: if load_first { prefetch::BLOCKS_MAX } else { 1 },
            inputs_max: self.plan.fetched_inputs,
            blocks_max: if self.flusher.is_after_every_block() {
                1
            } else {
                self.settings.windows.blocks_max
            }
            .min(self.settings.in_flight_max().saturating_sub(self.in_flight.len()))
            .min(ROUNDS_IN_FLIGHT_MAX.saturating_sub(self.in_flight.rounds()))
            // The block at the last height is connected, too.
            .min(height_max.saturating_sub(next_height).saturating_add(1))
            .max(1),
            events_wanted: self.plan.window_events,
            memory_max: (self.plan.in_flight_bytes.saturating_sub(self.in_flight_memory())).min(self.plan.window_bytes),
        }
    }

    pub(super) fn begin_fetches(&self, block: &PrefetchedBlock, chain: &ChainState) -> Fetches {
        let resolved = chain.height() + self.in_flight.len() as u32;
        let request = &block.request;
        match &block.content {
            Content::Sound(sound) if request.height > resolved && self.fetching.is_useful(&self.cache) => {
                let overwriting = chain.overwriting(request.id);
                let upcoming = &self.loader.upcoming;
                self.fetching
                    .begin(&sound.outline, overwriting, resolved, upcoming, &self.cache)
            }
            _ => Fetches::default(),
        }
    }

    /// Ends a flush that has written everything.
    pub(super) fn finish_flush_if_done(&mut self, run: &mut Run<'_>) -> Result<(), ConnectError> {
        if self.cache.is_flush_done() {
            self.flusher.finish(&mut self.cache, run.reporter.telemetry)?;
        }
        Ok(())
    }

    /// Waits a little if the cache would be full before a flush ends. This thread checks scripts
    /// meanwhile, `help_checks` at a time.
    pub(super) fn let_flush_catch_up(&self, help_checks: u32, telemetry: &mut Telemetry) {
        self.flusher.catch_up(&self.cache, telemetry, |telemetry| {
            self.in_flight.help(help_checks) || self.verify_some(telemetry)
        });
    }

    /// Waits for the reads for a block, and inserts the coins into the cache. Returns the epoch at
    /// which the store had none of the block's outputs, if that was seen.
    pub(super) fn finish_fetches(
        &mut self,
        height: u32,
        fetches: Fetches,
        telemetry: &mut Telemetry,
    ) -> Option<FlushEpoch> {
        self.fetching.finish(height, fetches, &mut self.cache, telemetry)
    }

    /// Verifies a part of the deferred signature checks. Returns false if there are too few
    /// to fill the lanes.
    pub(super) fn verify_some(&self, telemetry: &mut Telemetry) -> bool {
        let spent = self.checks.verify_some();
        if let Some(busy) = spent {
            telemetry.add_stage(Stage::Check, busy, Duration::ZERO);
        }
        spent.is_some()
    }

    /// Disconnects all blocks in flight from the cache.
    pub(super) fn disconnect_in_flight(&mut self) -> Result<(), ConnectError> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        // Taken out, since `change_coins` borrows the whole pipeline.
        let mut in_flight = std::mem::take(&mut self.in_flight);
        self.change_coins(|cache| in_flight.disconnect_all(cache))?;
        // A deferred script keeps its block in memory until it is decided.
        self.checks.verify_abandoned();
        Ok(())
    }

    /// Changes the coins of more than one transaction. If that fails, no flush follows.
    pub(crate) fn change_coins<R>(
        &mut self,
        change: impl FnOnce(&mut CoinsCache) -> Result<R, StoreError>,
    ) -> Result<R, ConnectError> {
        let outcome = change(&mut self.cache);
        if outcome.is_err() {
            self.flusher.note_broken();
        }
        Ok(outcome?)
    }

    /// The cache at this moment.
    pub(crate) fn cache_state(&self) -> CacheState {
        CacheState {
            coins: self.cache.len() as u64,
            bytes: self.cache.bytes() as u64,
            counters: self.cache.counters(),
        }
    }

    /// Begins a flush if it is time for one. No block may be in flight.
    pub(crate) fn flush_if_due(&mut self, run: &mut Run<'_>) -> Result<(), ConnectError> {
        self.flusher.flush_if_due(FlushTarget {
            tip: run.chain.tip(),
            cache: &mut self.cache,
            data: run.data,
            telemetry: run.reporter.telemetry,
        })
    }

    /// Writes everything up to the tip, durably. No block may be in flight.
    pub(crate) fn flush(&mut self, run: &mut Run<'_>) -> Result<(), ConnectError> {
        self.flusher.flush(FlushTarget {
            tip: run.chain.tip(),
            cache: &mut self.cache,
            data: run.data,
            telemetry: run.reporter.telemetry,
        })
    }
}

/// Counts the times of a block that was loaded.
pub(super) fn count_times(times: &[(Stage, Duration)], telemetry: &mut Telemetry) {
    for &(stage, time) in times {
        telemetry.add_stage(stage, time, Duration::ZERO);
    }
}

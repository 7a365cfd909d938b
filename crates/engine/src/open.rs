//! Opening the engine on a data directory.

use crate::chain::import::{FirstSeen, Indexed};
use crate::chain::index::HeaderIndex;
use crate::datadir::chain_log::ChainLog;
use crate::datadir::store_file::open_store;
use crate::datadir::{ChainId, DataDir, file_error};
use crate::error::EngineError;
use crate::pipeline::checks::CheckPool;
use crate::pipeline::connect::Engine;
use crate::pipeline::flush::FlushPace;
use crate::pipeline::load::BlockLoader;
use crate::pipeline::prefetch::{self, Loading};
use crate::pipeline::signatures::{SignatureRanges, Signatures};
use crate::report::events::Event;
use crate::report::trace::{StageHook, Trace, TracedStore};
use crate::report::{Observer, Totals};
use blockmill_block::BlockHash;
use blockmill_coins::{CoinStore, CoinsCache};
use blockmill_fetch::{Fetcher, Options as FetchOptions};
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_workqueue::{Help, Options as WorkQueueOptions, WorkQueue};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Among the work sources of the pool: without its coins no block goes on, and there are few of
/// them to read.
const FETCHING_FIRST: u32 = 0;

/// The oldest block's checks are what everything waits for in the end.
const CHECKS_THEN: u32 = 1;

/// Blocks are loaded when there are no checks.
const LOADING_LAST: u32 = 2;

/// The master loads blocks only when it can do nothing else.
const LOADING: WorkQueueOptions = WorkQueueOptions {
    workers: None,
    slots_per_worker: Some(prefetch::BLOCKS_MAX),
    help: Help::WhileWaiting,
};

/// The store's share of the memory for coins is this fraction.
const STORE_CACHE_SHARE: usize = 8;

/// Parts of the pipeline that can be switched off. The outcome is the same without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Without {
    /// Fetching: resolve reads coins itself, one by one.
    pub fetch: bool,
    /// Overlap: a block is resolved when the one before it is committed.
    pub overlap: bool,
    /// Decoding ahead: a block is loaded when it is needed.
    pub decode: bool,
    /// Flushing in the background: connecting waits for every flush.
    pub background_flush: bool,
}

/// How the engine is to work.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that validate, the caller's included.
    pub threads: usize,
    /// Memory for coins in bytes: the coins cache and the store's own cache.
    pub cache_bytes_max: usize,
    /// Time of work after which changes are flushed.
    pub flush_interval: Duration,
    /// A block whose chain is assumed to have valid scripts.
    pub assume_valid: Option<BlockHash>,
    /// How signatures are verified.
    pub signatures: Signatures,
    /// The height above which nothing is connected.
    pub stop_at_height: Option<u32>,
    /// Threads beside those that validate, which read coins from the store when its reads block.
    /// They are started when they are needed.
    pub readers: usize,
    /// What is to be left out, to show its share.
    pub without: Without,
    /// Whether the observer is told of every stage of every block.
    pub trace: bool,
    /// Called between the stages of every block.
    pub stage_hook: Option<StageHook>,
    /// Set by anyone to make the engine stop after the block it is at.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    /// All cores, 450 MiB, a flush a minute, every script checked, no end.
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cache_bytes_max: 450 << 20,
            flush_interval: Duration::from_secs(60),
            assume_valid: None,
            signatures: Signatures::default(),
            stop_at_height: None,
            readers: FetchOptions::default().readers,
            without: Without::default(),
            trace: false,
            stage_hook: None,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Opens the data directory at `path`, or makes one for the chain in `chain_id`.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub fn open(path: &Path, chain_id: Option<&ChainId>, verifier: V, options: Options) -> Result<Self, EngineError> {
        let mut directory = DataDir::open(path, chain_id)?;
        let store = open_store(&directory, options.cache_bytes_max / STORE_CACHE_SHARE)?;
        if directory.snapshot().is_some() && store.tip()?.is_none() {
            // Loading a snapshot was cut off before its last step.
            directory.set_snapshot(None)?;
        }
        Self::with_store(directory, store, verifier, options)
    }

    /// As [`Engine::open`], with a store of the caller's.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub fn with_store(
        directory: DataDir,
        store: Arc<dyn CoinStore>,
        verifier: V,
        options: Options,
    ) -> Result<Self, EngineError> {
        let params = directory.chain_id().params();
        Self::with_params(directory, params, store, verifier, options)
    }

    /// As [`Engine::with_store`], by other rules than those of the directory's network.
    pub(crate) fn with_params(
        directory: DataDir,
        params: Params,
        store: Arc<dyn CoinStore>,
        verifier: V,
        options: Options,
    ) -> Result<Self, EngineError> {
        let magic = params.magic();
        let mut index = HeaderIndex::new(params);
        let mut log = ChainLog::open(&directory, magic, &mut index)?;
        let mut active = vec![index.genesis()];
        if let Some(tip) = store.tip()? {
            let Some(id) = index.find(&tip.hash) else {
                return Err(EngineError::Damaged {
                    path: directory.file("headers.dat"),
                    detail: format!("the header of the tip {} (height {}) is missing", tip.hash, tip.height),
                });
            };
            index.set_connected(id);
            active = (0..=index.entry(id).height)
                .filter_map(|height| index.ancestor(id, height))
                .collect();
        }
        let tip = *active.last().unwrap_or(&index.genesis());
        let undo_problem = log.undo_problem(&index.header(tip), index.entry(tip).undo().as_ref());
        log.cut_back()?;
        let trace = Trace::new(options.trace, options.stage_hook.clone());
        let store: Arc<dyn CoinStore> = if options.trace {
            let trace = trace.clone();
            Arc::new(TracedStore { store, trace })
        } else {
            store
        };
        let verifier = Arc::new(verifier);
        let thread_pool = ThreadPool::new(&ThreadPoolOptions {
            name: "worker".to_owned(),
            ..ThreadPoolOptions::workers(options.threads.saturating_sub(1))
        })
        .map_err(file_error("worker threads"))?;
        let pool = CheckPool::with_trace(Arc::clone(&verifier), &thread_pool, CHECKS_THEN, trace.clone());
        let headers_path = directory.file("headers.dat");
        let loader = Arc::new(BlockLoader::new(
            index.params().clone(),
            verifier,
            headers_path,
            trace.clone(),
        ));
        let loading = WorkQueue::with_options(&thread_pool, LOADING_LAST, Loading(Arc::clone(&loader)), &LOADING);
        let cache_limit = options.cache_bytes_max - options.cache_bytes_max / STORE_CACHE_SHARE;
        let cache = CoinsCache::new(Arc::clone(&store), cache_limit);
        let flush_clock = cache.flush_clock();
        let readers = FetchOptions {
            readers: options.readers,
        };
        let fetcher = Fetcher::new(&thread_pool, FETCHING_FIRST, store, flush_clock, &readers);
        let mut engine = Self {
            directory,
            options,
            index,
            loader,
            loading,
            own_blocks: Indexed::default(),
            orphans: HashMap::new(),
            writer: None,
            cache,
            log,
            pool,
            fetcher,
            _thread_pool: thread_pool,
            in_flight: VecDeque::new(),
            active,
            last_flush: Instant::now(),
            flush_pace: FlushPace::default(),
            changed: false,
            broken: false,
            totals: Totals::default(),
            cache_coins_max: 0,
            cache_bytes_max: 0,
            rejected: Vec::new(),
            unreadable: Vec::new(),
            script_note: None,
            signature_note: false,
            signature_ranges: SignatureRanges::default(),
            undo_problem,
            trace,
        };
        engine.index_own_blocks()?;
        Ok(engine)
    }

    /// Tells, once, what is wrong with the undo data.
    pub(crate) fn tell_undo_problem(&mut self, observer: &mut dyn Observer) {
        if let Some(detail) = self.undo_problem.take() {
            observer.event(&Event::UndoDamaged {
                path: &self.directory.file("undo.dat"),
                height: self.height(),
                detail: &detail,
            });
        }
    }

    /// Indexes the blocks that came through `submit`.
    fn index_own_blocks(&mut self) -> Result<(), EngineError> {
        let own = self.directory.file("blocks");
        if own.join("blk00000.dat").is_file() {
            self.own_blocks = self.index_sources(&[own], FirstSeen::ByArrival, &mut ())?;
        }
        Ok(())
    }
}

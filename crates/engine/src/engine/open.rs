//! An engine is opened on a data directory.

use crate::chain::index::HeaderIndex;
use crate::chain::state::ChainState;
use crate::datadir::chain_log::ChainLog;
use crate::datadir::files::HEADERS_FILE;
use crate::datadir::state::DataState;
use crate::datadir::store_file::open_store;
use crate::datadir::{ChainId, DataDir};
use crate::engine::Engine;
use crate::engine::options::Options;
use crate::error::EngineError;
use crate::pipeline::apply::ScriptOptions;
use crate::pipeline::fetch::FetchMode;
use crate::pipeline::flush::FlushMode;
use crate::pipeline::state::{Concurrency, Limits, Pipeline, Settings};
use crate::report::telemetry::{Reporter, Telemetry};
use crate::report::trace::{Trace, TracedStore};
use blockmill_coins::CoinStore;
use blockmill_rules::{Params, ScriptVerifier};
use std::path::Path;
use std::sync::Arc;

/// The store's share of the memory for coins is this fraction.
const STORE_CACHE_SHARE: usize = 8;

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
        let headers_path = directory.file(HEADERS_FILE);
        let (chain, data) = open_chain(directory, params, &*store)?;
        let trace = Trace::new(options.trace, options.stage_hook.clone());
        let store: Arc<dyn CoinStore> = if options.trace {
            let trace = trace.clone();
            Arc::new(TracedStore { store, trace })
        } else {
            store
        };
        let without = options.without;
        let full = Concurrency::FULL;
        let settings = Settings {
            threads: options.threads,
            readers: options.readers,
            cache_bytes: options.cache_bytes_max - options.cache_bytes_max / STORE_CACHE_SHARE,
            limits: Limits {
                stop: options.stop,
                height_max: options.stop_at_height,
            },
            scripts: ScriptOptions {
                assume_valid: options.assume_valid,
                signatures: options.signatures,
            },
            concurrency: Concurrency {
                loaded_max: if without.decode { 1 } else { full.loaded_max },
                in_flight_max: if without.overlap { 1 } else { full.in_flight_max },
            },
            fetch_mode: if without.fetch {
                FetchMode::Off
            } else {
                FetchMode::Ahead
            },
            flush_interval: options.flush_interval,
            flush_mode: if without.background_flush {
                FlushMode::Foreground
            } else {
                FlushMode::Background
            },
        };
        let pipeline = Pipeline::new(settings, &chain, headers_path, store, verifier, &trace)?;
        let mut engine = Self {
            pipeline,
            chain,
            data,
            telemetry: Telemetry::new(trace),
            cache_bytes_max: options.cache_bytes_max,
        };
        engine.import_submitted()?;
        Ok(engine)
    }

    /// Imports the blocks that came through [`submit`](Self::submit) in earlier runs.
    fn import_submitted(&mut self) -> Result<(), EngineError> {
        let Some(folder) = self.data.submitted_blocks() else {
            return Ok(());
        };
        let mut reporter = Reporter {
            telemetry: &mut self.telemetry,
            observer: &mut (),
        };
        self.chain.import_own(folder, self.pipeline.stop(), &mut reporter)
    }
}

/// Opens the log of connected blocks, and finds the chain that the store is at.
fn open_chain(
    directory: DataDir,
    params: Params,
    store: &dyn CoinStore,
) -> Result<(ChainState, DataState), EngineError> {
    let magic = params.magic();
    let mut index = HeaderIndex::new(params);
    let mut log = ChainLog::open(&directory, magic, &mut index)?;
    let mut tip = index.genesis();
    if let Some(stored) = store.tip()? {
        tip = index.find(&stored.hash).ok_or_else(|| EngineError::Damaged {
            path: directory.file(HEADERS_FILE),
            detail: format!(
                "the header of the tip {} (height {}) is missing",
                stored.hash, stored.height
            ),
        })?;
        index.set_connected(tip);
    }
    let undo_problem = log.undo_problem(&index.header(tip), index.entry(tip).undo().as_ref());
    log.cut_back()?;
    Ok((
        ChainState::new(index, tip),
        DataState::new(directory, log, undo_problem),
    ))
}

//! An engine is opened on a data directory.

use crate::engine::Engine;
use crate::internals::Internals;
use crate::options::Options;
use crate::pipeline::state::{Pipeline, Settings, flush_helpers, start_threads};
use crate::pipeline::windows::Windows;
use crate::report::telemetry::Telemetry;
use crate::report::trace::{Trace, TracedStore};
use blockmill_block::Network;
use blockmill_blockfiles::disk::{Disk, SystemDisk};
use blockmill_coins::CoinStore;
use blockmill_datadir::files::HEADERS_FILE;
use blockmill_datadir::state::DataState;
use blockmill_datadir::store_file::open_store;
use blockmill_datadir::{ChainId, DataDir, OpenError};
use blockmill_rules::{Params, ScriptVerifier};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens an engine. Made by [`Engine::builder`].
#[must_use]
pub struct EngineBuilder<V> {
    path: PathBuf,
    chain_id: Option<ChainId>,
    disk: Arc<dyn Disk>,
    store: Option<Arc<dyn CoinStore>>,
    options: Options,
    internals: Internals,
    params: Option<Params>,
    verifier: PhantomData<fn(V)>,
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Prepares an engine on the data directory at `path`.
    pub fn builder(path: impl Into<PathBuf>) -> EngineBuilder<V> {
        EngineBuilder {
            path: path.into(),
            chain_id: None,
            disk: Arc::new(SystemDisk),
            store: None,
            options: Options::default(),
            internals: Internals::default(),
            params: None,
            verifier: PhantomData,
        }
    }
}

impl<V: ScriptVerifier + 'static> EngineBuilder<V> {
    /// The network. A new data directory needs one; an existing one is checked against it.
    pub fn network(self, network: Network) -> Self {
        self.chain_id(ChainId {
            network,
            signet_challenge: None,
        })
    }

    /// As [`network`](Self::network), with a signet challenge where there is one.
    pub fn chain_id(mut self, chain_id: ChainId) -> Self {
        self.chain_id = Some(chain_id);
        self
    }

    /// How the engine is to work.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// A store of the caller's instead of the one in the data directory. What the store keeps in
    /// memory is not part of [`Options::cache_bytes_max`].
    pub fn store(mut self, store: Arc<dyn CoinStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// A disk of the caller's. Everything in the data directory is written to it.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Changes for tests and benchmarks.
    #[doc(hidden)]
    pub fn internals(mut self, internals: Internals) -> Self {
        self.internals = internals;
        self
    }

    /// Other rules than those of the directory's network.
    #[cfg(all(test, not(blockmill_without_kernel)))]
    pub(crate) fn params(mut self, params: Params) -> Self {
        self.params = Some(params);
        self
    }

    /// Opens the data directory, or makes one if there is none and the network is named.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(self, verifier: V) -> Result<Engine<V>, OpenError> {
        let mut directory = DataDir::open_on(self.disk, &self.path, self.chain_id.as_ref())?;
        let options = self.options;
        let thread_pool = start_threads(options.threads).map_err(OpenError::Threads)?;
        let store = match self.store {
            Some(store) => store,
            None => open_store(&directory, flush_helpers(&thread_pool))?,
        };
        if directory.snapshot().is_some() && store.tip()?.is_none() {
            // Loading a snapshot was cut off before its last step.
            directory.set_snapshot(None)?;
        }
        let params = self.params.unwrap_or_else(|| directory.chain_id().params());
        let internals = self.internals;
        let headers_path = directory.file(HEADERS_FILE);
        let (chain, data) = DataState::open(directory, params, &*store)?;
        let trace = Trace::new(options.trace, internals.stage_hook.clone());
        let store: Arc<dyn CoinStore> = if options.trace {
            let trace = trace.clone();
            Arc::new(TracedStore { store, trace })
        } else {
            store
        };
        let settings = Settings {
            windows: Windows::new(&internals),
            without: internals.without,
            options,
        };
        let pipeline = Pipeline::new(settings, &chain, headers_path, thread_pool, store, verifier, &trace);
        let mut engine = Engine {
            pipeline,
            chain,
            data,
            telemetry: Telemetry::new(trace),
        };
        engine.import_own()?;
        Ok(engine)
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Imports the blocks that the directory has itself.
    fn import_own(&mut self) -> Result<(), OpenError> {
        let folders = self.data.own_folders()?;
        if folders.is_empty() {
            return Ok(());
        }
        let stop = self.pipeline.stop();
        self.chain.import_own_blocks(&folders, stop, &mut ())?;
        // What a power cut has torn of the retained blocks is missing in no chain.
        let data = &self.data;
        self.chain.forget_own_damages(|path| data.is_kept(path));
        Ok(())
    }
}

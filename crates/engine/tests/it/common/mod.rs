//! What the tests of the engine share: regtest chains under construction, engines on directories of
//! their own, and the figures of the UTXO set.

pub(crate) mod deferring;
pub(crate) mod faults;
pub(crate) mod generated;
pub(crate) mod grower;
pub(crate) mod keys;
pub(crate) mod recorded;
pub(crate) mod rejections;
pub(crate) mod signatures;

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::{self, Block, OutPoint, ScriptBuf, Transaction, TxOut};
use blockmill_block::{BlockHash, Network};
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, MemoryStore, StatsBuilder, UtxoStats};
use blockmill_engine::internals::{Internals, WindowSizes, Without};
use blockmill_engine::{
    ChainId, ConnectReport, Engine, EngineBuilder, OpenError, Options, RunOutcome, Signatures, Submission, Verdict,
};
use blockmill_rules::ScriptVerifier;
use blockmill_script::CoreVerifier;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Seconds between two blocks.
pub(crate) const SPACING: u32 = 600;

/// Satoshi that a coinbase of the first 149 heights may take.
pub(crate) const SUBSIDY: u64 = 5_000_000_000;

/// A size of the coins cache that nothing in these tests fills.
pub(crate) const LARGE: usize = 64 << 20;

/// The engine with the script verifier of the command.
pub(crate) type CoreEngine = Engine<CoreVerifier>;

/// Both ways to verify signatures.
pub(crate) const BOTH_WAYS: [Signatures; 2] = [Signatures::OneByOne, Signatures::Lanes];

/// A verifier that has lanes if they are wanted for all blocks.
pub(crate) fn verifier(signatures: Signatures) -> CoreVerifier {
    CoreVerifier::new(match signatures {
        Signatures::Lanes => blockmill_script::Signatures::Lanes,
        Signatures::Auto | Signatures::OneByOne => blockmill_script::Signatures::OneByOne,
    })
}

/// A regtest chain under construction: its blocks, genesis first.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) blocks: Vec<Block>,
}

impl Chain {
    /// The first block alone.
    pub(crate) fn new() -> Self {
        Self {
            blocks: vec![genesis_block(bitcoin::Network::Regtest)],
        }
    }

    /// The first block, and `count` blocks that have only a coinbase.
    pub(crate) fn of(count: u32) -> Self {
        let mut chain = Self::new();
        chain.mine(count);
        chain
    }

    pub(crate) fn height(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    pub(crate) fn tip(&self) -> &Block {
        &self.blocks[self.blocks.len() - 1]
    }

    /// Hash of the tip.
    pub(crate) fn hash(&self) -> BlockHash {
        hash_of(self.tip())
    }

    /// A block on the tip, still to be built.
    pub(crate) fn next(&self) -> BlockBuilder {
        let tip = self.tip();
        BlockBuilder::new(tip.block_hash(), self.height() + 1, tip.header.time + SPACING)
    }

    pub(crate) fn push(&mut self, block: Block) {
        assert_eq!(block.header.prev_blockhash, self.tip().block_hash());
        self.blocks.push(block);
    }

    /// Appends blocks that have only a coinbase.
    pub(crate) fn mine(&mut self, count: u32) {
        for _ in 0..count {
            self.push(self.next().build());
        }
    }

    /// The same chain up to `height`.
    pub(crate) fn up_to(&self, height: u32) -> Self {
        Self {
            blocks: self.blocks[..=height as usize].to_vec(),
        }
    }

    /// The first output of the coinbase at `height`.
    pub(crate) fn coinbase(&self, height: u32) -> OutPoint {
        outpoint(&self.blocks[height as usize].txdata[0], 0)
    }

    /// Median of the times of the last eleven blocks.
    pub(crate) fn median_time_past(&self) -> u32 {
        let mut times: Vec<_> = self
            .blocks
            .iter()
            .rev()
            .take(11)
            .map(|block| block.header.time)
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// An output of a transaction.
pub(crate) fn outpoint(transaction: &Transaction, vout: u32) -> OutPoint {
    OutPoint {
        txid: transaction.compute_txid(),
        vout,
    }
}

/// An output that anyone can spend.
pub(crate) fn output(value: u64) -> TxOut {
    output_to(value, any_script())
}

/// An output to a script.
pub(crate) fn output_to(value: u64, script_pubkey: ScriptBuf) -> TxOut {
    TxOut {
        value: bitcoin::Amount::from_sat(value),
        script_pubkey,
    }
}

/// A transaction that spends one outpoint into these outputs.
pub(crate) fn spend_into(from: OutPoint, outputs: Vec<TxOut>) -> Transaction {
    Transaction {
        output: outputs,
        ..spend_any(from, 0)
    }
}

/// A transaction that spends an outpoint of `value` under a sequence number.
pub(crate) fn spend_locked(from: OutPoint, value: u64, sequence: u32) -> Transaction {
    let mut transaction = spend_any(from, value);
    transaction.input[0].sequence = bitcoin::Sequence(sequence);
    transaction
}

/// A transaction whose first script fails: OP_RETURN comes before the script of the coin.
pub(crate) fn spend_failing(from: OutPoint, value: u64) -> Transaction {
    let mut transaction = spend_any(from, value);
    transaction.input[0].script_sig = ScriptBuf::from_bytes(vec![0x6a]);
    transaction
}

/// The hash of a block in the project's form.
pub(crate) fn hash_of(block: &Block) -> BlockHash {
    BlockHash(block.block_hash().to_byte_array())
}

/// Writes blocks to a file in the form of `blk*.dat`.
pub(crate) fn write_blocks<'a>(path: &Path, blocks: impl IntoIterator<Item = &'a Block>) -> PathBuf {
    write_records(path, blocks.into_iter().map(serialize))
}

/// Writes what may be blocks to such a file.
pub(crate) fn write_records(path: &Path, records: impl IntoIterator<Item = Vec<u8>>) -> PathBuf {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend(Network::Regtest.magic().0);
        bytes.extend((record.len() as u32).to_le_bytes());
        bytes.extend(record);
    }
    std::fs::write(path, bytes).unwrap();
    path.to_owned()
}

pub(crate) fn regtest() -> ChainId {
    ChainId {
        network: Network::Regtest,
        signet_challenge: None,
    }
}

/// Flushes happen only for want of room and at the end of `connect`. libsecp256k1 verifies all
/// signatures.
pub(crate) fn options(threads: usize, cache_bytes_max: usize) -> Options {
    Options {
        threads,
        cache_bytes_max,
        flush_interval: Duration::from_secs(3600),
        signatures: Signatures::OneByOne,
        ..Options::default()
    }
}

/// The folder of the store in a data directory.
pub(crate) const STORE: &str = "coins.log";

/// The same while a snapshot is loaded into it.
pub(crate) const LOADING: &str = "coins.log.loading";

/// Small blocks are resolved in shards, too: `BLOCKMILL_TEST_WINDOWS`, as `5x2` for windows of five
/// blocks and shards in two jobs, or `off`.
pub(crate) fn internals() -> Internals {
    let mut internals = Internals::default();
    let sizes = std::env::var("BLOCKMILL_TEST_WINDOWS").unwrap_or_else(|_| "32x64".to_owned());
    internals.without.shards = sizes == "off";
    internals.windows = sizes.split_once('x').map(|(blocks, jobs)| WindowSizes {
        blocks: blocks.parse().expect("a number of blocks"),
        jobs: jobs.parse().expect("a number of jobs"),
    });
    internals
}

/// Options of an engine, and what only tests change.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    pub(crate) internals: Internals,
}

impl Default for Settings {
    fn default() -> Self {
        Options::default().into()
    }
}

impl From<Options> for Settings {
    fn from(options: Options) -> Self {
        Self {
            options,
            internals: internals(),
        }
    }
}

impl Settings {
    /// The options, and parts of the pipeline left out.
    pub(crate) fn without(options: Options, without: Without) -> Self {
        let internals = Internals { without, ..internals() };
        Self { options, internals }
    }
}

/// An engine on a directory for regtest.
pub(crate) fn builder<V: ScriptVerifier + 'static>(path: &Path) -> EngineBuilder<V> {
    Engine::builder(path).network(Network::Regtest).internals(internals())
}

/// An engine on a directory, with the store of the command.
pub(crate) fn open(path: &Path, settings: impl Into<Settings>) -> CoreEngine {
    let Settings { options, internals } = settings.into();
    let verifier = verifier(options.signatures);
    let builder = builder(path).options(options).internals(internals);
    builder.open(verifier).unwrap()
}

/// An engine on a directory, with the store that the test gives.
pub(crate) fn open_with(
    path: &Path,
    store: Arc<dyn CoinStore>,
    settings: impl Into<Settings>,
) -> Result<CoreEngine, OpenError> {
    let Settings { options, internals } = settings.into();
    let verifier = verifier(options.signatures);
    let builder = builder(path).store(store).options(options);
    builder.internals(internals).open(verifier)
}

pub(crate) fn connect(engine: &mut CoreEngine, sources: &[&Path]) -> ConnectReport {
    let sources: Vec<_> = sources.iter().map(|&path| path.to_owned()).collect();
    engine.connect(&sources, &mut ()).unwrap()
}

pub(crate) fn submit(engine: &mut CoreEngine, block: &Block) -> Submission {
    submit_bytes(engine, serialize(block))
}

pub(crate) fn submit_bytes(engine: &mut CoreEngine, bytes: Vec<u8>) -> Submission {
    engine.submit(bytes, &mut ()).unwrap()
}

/// Submits a block that becomes the tip.
pub(crate) fn submit_good(engine: &mut CoreEngine, block: &Block) {
    let submission = submit(engine, block);
    assert_eq!(submission.verdict, Verdict::Connected, "{submission:?}");
    assert_eq!(engine.tip_hash(), hash_of(block));
}

/// Submits a block that is kept beside the active chain.
pub(crate) fn submit_side(engine: &mut CoreEngine, block: &Block) {
    let tip = engine.tip_hash();
    let submission = submit(engine, block);
    assert_eq!(submission.verdict, Verdict::Side, "{submission:?}");
    assert_eq!(engine.tip_hash(), tip);
}

/// Tip, figures and hash of the UTXO set.
pub(crate) fn figures(engine: &CoreEngine) -> UtxoStats {
    StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins().unwrap())
        .unwrap()
        .finish(&engine.tip())
}

/// The figures of an engine that knows this chain alone, with libsecp256k1 for all signatures.
pub(crate) fn figures_of(chain: &Chain) -> UtxoStats {
    let directory = tempfile::tempdir().unwrap();
    let file = write_blocks(&directory.path().join("chain.dat"), &chain.blocks);
    let store = Arc::new(MemoryStore::new());
    let mut engine = open_with(&directory.path().join("data"), store, options(1, LARGE)).unwrap();
    let report = connect(&mut engine, &[&file]);
    assert_eq!(
        (report.tip, report.outcome()),
        (chain.hash(), RunOutcome::Complete),
        "{report:?}"
    );
    figures(&engine)
}

/// An engine with a directory of its own that can be closed and opened again.
pub(crate) struct Node {
    pub(crate) engine: CoreEngine,
    options: Options,
    directory: TempDir,
}

impl Node {
    pub(crate) fn new(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            engine: open(&directory.path().join("data"), options.clone()),
            options,
            directory,
        }
    }

    /// An engine that has connected a chain from a file.
    pub(crate) fn on(chain: &Chain, options: Options) -> Self {
        let mut node = Self::new(options);
        let file = write_blocks(&node.file("trunk.dat"), &chain.blocks);
        assert_eq!(node.connect(&[&file]).tip, chain.hash());
        node
    }

    /// Drops the engine as it is and opens it again.
    pub(crate) fn restart(self) -> Self {
        let Self {
            engine,
            options,
            directory,
        } = self;
        drop(engine);
        Self {
            engine: open(&directory.path().join("data"), options.clone()),
            options,
            directory,
        }
    }

    /// A file beside the data directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn connect(&mut self, sources: &[&Path]) -> ConnectReport {
        connect(&mut self.engine, sources)
    }

    pub(crate) fn figures(&self) -> UtxoStats {
        figures(&self.engine)
    }
}

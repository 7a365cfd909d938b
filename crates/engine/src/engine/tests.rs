use crate::internals::{Internals, StageHook, WindowSizes, Without};
use crate::report::connect_report::Halt;
use crate::report::stages::Stage;
use crate::{Engine, Options};
use bitcoin::hashes::Hash;
use blockmill_block::{BlockHash, Coin, Network, OutPoint, Txid};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_coins::{CoinStore, MemoryStore};
use blockmill_datadir::DataDir;
use blockmill_datadir::past::Past;
use blockmill_kernel::KernelVerifier;
use blockmill_pool::Helpers;
use blockmill_rules::Params;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Two blocks, of which the second repeats the coinbase of the first.
struct Repetition {
    home: tempfile::TempDir,
    blocks: [bitcoin::Block; 2],
    /// The coin of both.
    outpoint: OutPoint,
    /// Rules by which they are valid.
    params: Params,
}

fn hash(block: &bitcoin::Block) -> BlockHash {
    BlockHash(block.block_hash().to_byte_array())
}

impl Repetition {
    /// The blocks lie in a file.
    fn new() -> Self {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let time = genesis.header.time;
        let first = BlockBuilder::new(genesis.block_hash(), 1, time + 600).build();
        let coinbase = first.txdata[0].clone();
        let second = BlockBuilder::new(first.block_hash(), 2, time + 1200)
            .coinbase(|own| *own = coinbase.clone())
            .build();
        let outpoint = OutPoint {
            txid: Txid(coinbase.compute_txid().to_byte_array()),
            vout: 0,
        };
        let mut params = Params::new(Network::Regtest, None);
        params.heights.height_in_coinbase = u32::MAX;
        params.bip30_exceptions = Box::leak(Box::new([(2, hash(&second))]));
        let repetition = Self {
            home: tempfile::tempdir().unwrap(),
            blocks: [first, second],
            outpoint,
            params,
        };
        let mut bytes = Vec::new();
        for block in &repetition.blocks {
            let block = bitcoin::consensus::serialize(block);
            bytes.extend(repetition.params.magic().0);
            bytes.extend((block.len() as u32).to_le_bytes());
            bytes.extend(block);
        }
        std::fs::write(repetition.file(), bytes).unwrap();
        repetition
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("blk00000.dat")
    }
}

/// Two blocks of the main network repeat an older coinbase. If one of them is taken back before
/// it is committed, the older coin is there again, whether it came from the store or from the
/// cache.
#[test]
fn a_repeated_coinbase_is_taken_back() {
    take_back_repeated_coinbase(None);
}

/// Shards do not know what a block replaces, so such a block is a window by itself.
#[test]
fn a_repeated_coinbase_is_taken_back_with_shards_in_use() {
    for (blocks, jobs) in [(1, 1), (32, 64)] {
        take_back_repeated_coinbase(Some(WindowSizes { blocks, jobs }));
    }
}

/// Another block that repeats a coinbase breaks a rule. The older coin is in the store alone, so a
/// shard does not come upon it by itself.
#[test]
fn a_repeated_coinbase_is_refused_with_shards_in_use() {
    for (blocks, jobs) in [(1, 1), (32, 64)] {
        let repetition = Repetition::new();
        let mut params = repetition.params.clone();
        params.bip30_exceptions = &[];
        let data = repetition.home.path().join("data");
        let store = Arc::new(MemoryStore::default());
        let connect = |options: Options| {
            let internals = Internals {
                windows: Some(WindowSizes { blocks, jobs }),
                ..Internals::default()
            };
            let builder = Engine::builder(&data).network(Network::Regtest).params(params.clone());
            let builder = builder.store(Arc::<MemoryStore>::clone(&store)).options(options);
            let mut engine = builder.internals(internals).open(KernelVerifier).unwrap();
            engine.connect(&[repetition.file()], &mut ()).unwrap()
        };
        let report = connect(Options {
            stop_at_height: Some(1),
            ..Options::default()
        });
        assert_eq!((report.height, report.totals.windows_rolled_back), (1, 0));
        let report = connect(Options::default());
        let rejected: Vec<_> = report
            .rejected
            .iter()
            .map(|block| (block.hash, &*block.reject.reason))
            .collect();
        assert_eq!(rejected, [(hash(&repetition.blocks[1]), "bad-txns-BIP30")]);
        assert_eq!((report.height, report.totals.windows_rolled_back), (1, 1));
        assert_eq!(
            store.get(&repetition.outpoint).unwrap().map(|coin| coin.height),
            Some(1)
        );
    }
}

fn take_back_repeated_coinbase(windows: Option<WindowSizes>) {
    let repetition = Repetition::new();
    let Repetition {
        home, outpoint, params, ..
    } = &repetition;
    for flushed_between in [false, true] {
        let data = home.path().join(format!("data-{flushed_between}"));
        let store = Arc::new(MemoryStore::default());
        let open = |options: Options| {
            let builder = Engine::builder(&data).network(Network::Regtest).params(params.clone());
            builder.store(Arc::<MemoryStore>::clone(&store)).options(options)
        };
        let sources = [repetition.file()];
        if flushed_between {
            let options = Options {
                stop_at_height: Some(1),
                ..Options::default()
            };
            assert_eq!(
                open(options)
                    .open(KernelVerifier)
                    .unwrap()
                    .connect(&sources, &mut ())
                    .unwrap()
                    .height,
                1
            );
        }
        // It stops when the second block has been resolved and not committed.
        let stop = Arc::new(AtomicBool::new(false));
        let is_first_committed = AtomicBool::new(flushed_between);
        let hook = {
            let stop = Arc::clone(&stop);
            move |stage| match stage {
                Stage::Commit => is_first_committed.store(true, Ordering::Relaxed),
                Stage::Resolve if is_first_committed.load(Ordering::Relaxed) => stop.store(true, Ordering::Relaxed),
                _ => {}
            }
        };
        let options = Options {
            stop,
            ..Options::default()
        };
        let internals = Internals {
            stage_hook: Some(StageHook(Arc::new(hook))),
            without: Without {
                overlap: true,
                ..Without::default()
            },
            windows,
        };
        let mut engine = open(options).internals(internals).open(KernelVerifier).unwrap();
        let report = engine.connect(&sources, &mut ()).unwrap();
        assert_eq!((report.height, report.halt), (1, Halt::Stopped));
        // For this engine, and in the store.
        for coin in [engine.coin(outpoint), store.get(outpoint)] {
            let coin = coin.unwrap().expect("the coin of the first block");
            assert_eq!(coin.height, 1, "{flushed_between}");
        }
        drop(engine);

        let report = open(Options::default())
            .open(KernelVerifier)
            .unwrap()
            .connect(&sources, &mut ())
            .unwrap();
        assert_eq!(report.height, 2);
        let now = store.get(outpoint).unwrap();
        assert_eq!(now.as_ref().unwrap().height, 2);

        look_back(&repetition, &data, &store, now.as_ref());
    }
}

/// Looking back the older coin is there, too. `now` is the coin at the tip.
fn look_back(repetition: &Repetition, data: &Path, store: &MemoryStore, now: Option<&Coin>) {
    let directory = DataDir::open_to_read(data).unwrap();
    let tip = store.tip().unwrap().unwrap();
    let mut params = repetition.params.clone();
    let first = hash(&repetition.blocks[0]);
    for (overwritten, then) in [(&[(1, first)][..], Some(1)), (&[], None)] {
        params.bip30_overwritten = Box::leak(overwritten.into());
        let blocks = directory.blocks_with(&tip, params.clone()).unwrap();
        for (height, expected) in [(2, Some(2)), (1, then), (0, None)] {
            let past = Past::of(&blocks, height, &Helpers::default(), &AtomicBool::new(false), &mut ()).unwrap();
            let coin = past.coin(&repetition.outpoint, now.cloned());
            assert_eq!(coin.map(|coin| coin.height), expected);
        }
    }
}

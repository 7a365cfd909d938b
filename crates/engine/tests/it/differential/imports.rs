//! Imports of block files, by this engine and by Core (`-reindex`), side by side. After every run
//! both have the same tip, and the set is that of a plain model.
//!
//! A tree of blocks lies in a few files, in any order, with wrong copies and invalid blocks. The
//! engine gets more and more of the files. It is stopped at heights and by its flag, and opened
//! again, with other numbers of threads and other sizes of the cache. An engine that is opened
//! again knows its active chain, so Core gets that chain first.
//!
//! `BLOCKMILL_TEST_IMPORTS_SEED` sets the first tree; a disagreement names its tree.

use super::core_node::CoreImport;
use super::forest::Forest;
use super::random::Random;
use super::tree::BOOTSTRAP;
use crate::common::{CoreEngine, LARGE, figures, open, open_with, options, write_records};
use blockmill_block::coin::is_unspendable;
use blockmill_block::{BlockHash, Coin, Network, OutPoint, Txid};
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::constants::genesis_block;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Block};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{MemoryStore, StatsBuilder, Tip, UtxoStats};
use blockmill_engine::report::Halt;
use blockmill_engine::{ChainBlocks, ConnectReport, Event, Observer, Options};
use blockmill_rules::Params;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Where a run is to stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    AtHeight(u32),
    /// The flag is set when a block of this height is connected.
    ByFlag(u32),
}

#[derive(Debug)]
struct Run {
    /// Numbers of the files, in the order in which they are given.
    files: Vec<usize>,
    /// Records that are submitted before that: the numbers of their files, and their own.
    submitted: Vec<(usize, usize)>,
    opens_anew: bool,
    stop: Stop,
    threads: usize,
    cache_bytes_max: usize,
}

/// More and more of the files; all of them without a stop at last.
fn plan(all: &[Vec<Vec<u8>>], random: &mut Random) -> Vec<Run> {
    let count = all.len();
    let runs = 1 + random.below(3) as usize;
    let (mut given, mut stop) = (0, Stop::Never);
    (1..=runs)
        .map(|number| {
            let is_last = number == runs;
            let more = random.below((count - given) as u64 + 1) as usize;
            given = if is_last { count } else { given + more }.max(1);
            let mut files: Vec<usize> = (0..given).collect();
            if random.one_in(3) {
                let middle = random.below(given as u64) as usize;
                files.rotate_left(middle);
            }
            let mut submitted = Vec::new();
            if random.one_in(3) {
                for _ in 0..random.below(12) {
                    let file = random.below(count as u64) as usize;
                    let last = all[file].len().saturating_sub(1);
                    submitted.push((file, last - random.below(30).min(last as u64) as usize));
                }
            }
            let height = 100 + random.below(22) as u32;
            // An engine is opened with the height at which it stops.
            let opens_anew = number == 1 || matches!(stop, Stop::AtHeight(_)) || random.one_in(2);
            stop = match random.below(4) {
                0 if !is_last && opens_anew => Stop::AtHeight(height),
                1 if !is_last => Stop::ByFlag(height),
                _ => Stop::Never,
            };
            Run {
                files,
                submitted,
                opens_anew,
                stop,
                threads: random.pick(&[1, 2, 4]),
                cache_bytes_max: random.pick(&[0, 1 << 20, LARGE]),
            }
        })
        .collect()
}

/// Sets the flag at a height.
struct StopAt(Option<u32>, Arc<AtomicBool>);

impl Observer for StopAt {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Connected(change) = event {
            let is_reached = self.0.is_some_and(|height| change.height >= height);
            self.1.fetch_or(is_reached, Ordering::Relaxed);
        }
    }
}

/// A directory of the engine, and what Core must have been given to be where the engine is.
struct Pair {
    directory: TempDir,
    /// None: the store of the directory.
    store: Option<Arc<MemoryStore>>,
    engine: Option<CoreEngine>,
    stop: Arc<AtomicBool>,
    /// The files for Core.
    history: Vec<Vec<Vec<u8>>>,
}

impl Pair {
    fn new(random: &mut Random) -> Self {
        let genesis = serialize(&genesis_block(bitcoin::Network::Regtest));
        Self {
            directory: tempfile::tempdir().unwrap(),
            store: (!random.one_in(4)).then(Arc::default),
            engine: None,
            stop: Arc::default(),
            history: vec![vec![genesis]],
        }
    }

    /// The file of the blocks that were submitted.
    fn submitted(&self) -> Vec<u8> {
        std::fs::read(self.directory.path().join("data/blocks/blk00000.dat")).unwrap_or_default()
    }

    /// Submits records. Core gets those that the engine keeps.
    fn submit(&mut self, run: &Run, forest: &Forest) {
        self.stop.store(false, Ordering::Relaxed);
        for &(file, number) in &run.submitted {
            let Some(record) = forest.files[file].get(number) else {
                continue;
            };
            let before = self.submitted().len();
            let engine = self.engine.as_mut().unwrap();
            engine.submit(record.clone(), &mut ()).unwrap();
            if self.submitted().len() > before {
                self.history.push(vec![record.clone()]);
            }
        }
    }

    /// Opens the engine for a run. It knows its active chain and the blocks that were submitted.
    fn open(&mut self, run: &Run, forest: &Forest) {
        if let Some(engine) = self.engine.take() {
            let mut chain: Vec<_> = chain_to(engine.tip_hash(), forest).map(serialize).collect();
            chain.push(self.history[0][0].clone());
            chain.reverse();
            self.history = vec![chain, records(&self.submitted())];
        }
        let options = Options {
            stop_at_height: match run.stop {
                Stop::AtHeight(height) => Some(height),
                Stop::Never | Stop::ByFlag(_) => None,
            },
            stop: Arc::clone(&self.stop),
            ..options(run.threads, run.cache_bytes_max)
        };
        let path = self.directory.path().join("data");
        self.engine = Some(match &self.store {
            Some(store) => open_with(&path, Arc::<MemoryStore>::clone(store), options).unwrap(),
            None => open(&path, options),
        });
    }

    fn connect(&mut self, run: &Run, sources: &[PathBuf]) -> ConnectReport {
        let height = match run.stop {
            Stop::ByFlag(height) => Some(height),
            Stop::Never | Stop::AtHeight(_) => None,
        };
        let files: Vec<_> = run.files.iter().map(|&number| sources[number].clone()).collect();
        self.stop.store(false, Ordering::Relaxed);
        let mut observer = StopAt(height, Arc::clone(&self.stop));
        self.engine.as_mut().unwrap().connect(&files, &mut observer).unwrap()
    }

    /// Gives Core everything so far, and returns its tip.
    fn core_tip(&self) -> String {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("blocks")).unwrap();
        for (number, records) in self.history.iter().enumerate() {
            let path = directory.path().join(format!("blocks/blk{number:05}.dat"));
            write_records(&path, records.iter().cloned());
        }
        CoreImport::of(directory.path()).tip()
    }
}

/// The records of a block file.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(8) {
        let length = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
        records.push(rest[..length].to_vec());
        bytes = &rest[length..];
    }
    records
}

fn header_hash(record: &[u8]) -> [u8; 32] {
    bitcoin::BlockHash::hash(&record[..80]).to_byte_array()
}

/// The blocks from a tip down to the second one.
fn chain_to(tip: BlockHash, forest: &Forest) -> impl Iterator<Item = &Block> {
    let find = |hash: bitcoin::BlockHash| forest.blocks.get(&BlockHash(hash.to_byte_array()));
    std::iter::successors(forest.blocks.get(&tip), move |block| find(block.header.prev_blockhash))
}

/// The set at a tip, by a plain model.
fn model(tip: Tip, forest: &Forest, context: &dyn Fn() -> String) -> UtxoStats {
    let mut coins: BTreeMap<OutPoint, Coin> = BTreeMap::new();
    let chain: Vec<&Block> = chain_to(tip.hash, forest).collect();
    assert_eq!(chain.len(), tip.height as usize);
    for (height, block) in (1..).zip(chain.into_iter().rev()) {
        for (number, transaction) in block.txdata.iter().enumerate() {
            if number > 0 {
                for input in &transaction.input {
                    let bitcoin::OutPoint { txid, vout } = input.previous_output;
                    let txid = Txid(txid.to_byte_array());
                    let spent = coins.remove(&OutPoint { txid, vout });
                    assert!(spent.is_some(), "height {height}: {}", context());
                }
            }
            let txid = Txid(transaction.compute_txid().to_byte_array());
            for (vout, output) in (0..).zip(&transaction.output) {
                let script_pubkey = output.script_pubkey.as_bytes();
                if !is_unspendable(script_pubkey) {
                    let coin = Coin {
                        value: output.value.to_sat().cast_signed(),
                        height,
                        is_coinbase: number == 0,
                        script_pubkey: script_pubkey.into(),
                    };
                    coins.insert(OutPoint { txid, vout }, coin);
                }
            }
        }
    }
    let mut builder = StatsBuilder::new(Hashes::Serialized);
    coins.iter().for_each(|(outpoint, coin)| builder.add(outpoint, coin));
    builder.finish(&tip)
}

/// The tip of the chain that readers of files take.
fn tip_of_files(sources: &[PathBuf]) -> BlockHash {
    let params = Params::new(Network::Regtest, None);
    let opened = ChainBlocks::of_files(sources, &[], &params, &AtomicBool::new(false), &mut ());
    let blocks = opened.unwrap().unwrap();
    blocks.hash(blocks.height()).unwrap()
}

/// The records of all files, each with the height of its block, its hash and its parent's. A record
/// without a height is no block of the tree.
fn describe(forest: &Forest) -> String {
    let mut text = String::new();
    for (number, records) in forest.files.iter().enumerate() {
        for record in records.iter().filter(|_| records.len() != BOOTSTRAP as usize) {
            let hash = BlockHash(header_hash(record));
            let block = forest.blocks.get(&hash);
            let parent = bitcoin::BlockHash::from_byte_array(record[4..36].try_into().unwrap());
            let is_whole = block.is_some_and(|block| serialize(block) == *record);
            let height = chain_to(hash, forest).count();
            text += &format!(
                "{number}.dat: {height} {hash} on {parent}{}\n",
                if is_whole { "" } else { ", wrong" }
            );
        }
    }
    text
}

/// Whether the tip has rivals of the same height, valid or not.
fn is_tied(report: &ConnectReport, forest: &Forest) -> bool {
    let at_height = |hash: &&BlockHash| chain_to(**hash, forest).count() == report.height as usize;
    forest.blocks.keys().filter(at_height).count() > 1
}

/// What a tree has shown.
#[derive(Default)]
struct Seen {
    runs: u64,
    halts: u64,
    /// Runs whose tip has rivals of the same height.
    ties: u64,
    /// Words of rejected blocks.
    reasons: HashSet<String>,
    /// What was done to blocks.
    mutations: HashSet<&'static str>,
    /// Trees whose readers take the same tip.
    read: u64,
}

/// Compares the runs over one tree.
fn check(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let forest = Forest::new(&mut random);
    let runs = plan(&forest.files, &mut random);
    let mut pair = Pair::new(&mut random);
    let sources: Vec<_> = (0..)
        .zip(&forest.files)
        .map(|(number, records)| {
            let path = pair.directory.path().join(format!("{number}.dat"));
            write_records(&path, records.iter().cloned())
        })
        .collect();
    seen.mutations.extend(&forest.mutations);
    for (number, run) in runs.iter().enumerate() {
        if run.opens_anew {
            pair.open(run, &forest);
        }
        pair.submit(run, &forest);
        let report = pair.connect(run, &sources);
        pair.history
            .extend(run.files.iter().map(|&number| forest.files[number].clone()));
        let core = pair.core_tip();
        let context = || {
            let (faults, tree) = (&forest.mutations, describe(&forest));
            let ConnectReport {
                rejected,
                unreadable,
                leftovers,
                ..
            } = &report;
            let found = format!("{rejected:#?}, {unreadable:#?}, {leftovers} left over");
            format!("tree {seed}, run {number} of {runs:?}, faults {faults:?}\n{tree}{found}\nCore: {core}")
        };
        let engine = pair.engine.as_ref().unwrap();
        if report.halt == Halt::Finished {
            assert_eq!(report.tip.to_string(), core, "{}", context());
        }
        assert_eq!(figures(engine), model(engine.tip(), &forest, &context), "{}", context());
        let all_is_well = report.rejected.is_empty() && report.unreadable.is_empty();
        if number == 0 && run.submitted.is_empty() && report.halt == Halt::Finished && all_is_well {
            let files: Vec<_> = run.files.iter().map(|&number| sources[number].clone()).collect();
            assert_eq!(tip_of_files(&files), report.tip, "{}", context());
            seen.read += 1;
        }
        seen.runs += 1;
        seen.ties += u64::from(is_tied(&report, &forest));
        seen.halts += u64::from(report.halt != Halt::Finished);
        seen.reasons
            .extend(report.rejected.iter().map(|block| block.reject.reason.to_string()));
    }
}

fn check_trees(count: u64) {
    let _core = super::core();
    let first = super::number("BLOCKMILL_TEST_IMPORTS_SEED", 0);
    let mut seen = Seen::default();
    for seed in first..first + count {
        check(seed, &mut seen);
    }
    eprintln!(
        "{} runs, {} of them stopped, {} with a tie, {} read; {} kinds of faults, {} reasons: {:?}",
        seen.runs,
        seen.halts,
        seen.ties,
        seen.read,
        seen.mutations.len(),
        seen.reasons.len(),
        seen.reasons
    );
    assert!(seen.runs > count && seen.halts > count / 20 && seen.ties > count / 4 && seen.read > count / 20);
    assert!(
        seen.mutations.len() >= 20 && seen.reasons.len() >= 10,
        "{:?}",
        seen.mutations
    );
}

#[test]
fn tips_and_sets_after_imports_are_those_of_core() {
    check_trees(200);
}

/// A run that is stopped reads all files, and so does the next one. A block with a wrong copy came
/// with its sound one, when that was read first.
#[test]
fn blocks_in_files_that_are_read_again_came_before() {
    let _core = super::core();
    check(397, &mut Seen::default());
}

#[test]
#[ignore = "a quarter of an hour"]
fn tips_and_sets_after_two_thousand_imports_are_those_of_core() {
    check_trees(2_000);
}

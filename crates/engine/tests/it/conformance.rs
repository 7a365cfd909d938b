//! The known full-block tests from block files, in shards: blocks good and bad, in order, with the
//! answers of Bitcoin Core.
//!
//! A call of `connect` gets several blocks at once, so it may never try a bad one: another chain
//! may have more work by then. So these hold however many there are in a call:
//! - after it, the tip and the set are Core's after the last block of the call. The stream has no
//!   answer where that depends on whether blocks without parents are kept;
//! - Core rejects each block that the engine rejects, for the same reason;
//! - it is all the same with shards and without.

use crate::common::{self, CoreEngine, LARGE, Settings, figures, open, options};
use blockmill_block::{Network, hex};
use blockmill_coins::UtxoStats;
use blockmill_engine::ConnectReport;
use blockmill_engine::internals::WindowSizes;
use blockmill_realdata::{FULL_BLOCK_ROWS, full_block_rows, text_of, word_of};
use blockmill_rules::Reject;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tempfile::TempDir;

/// Most blocks of a window, and jobs of its shards.
const SIZES: [(usize, usize); 4] = [(1, 1), (2, 2), (5, 64), (32, 64)];

/// Blocks of a call. With these the block of the stream that takes longest is connected once: in
/// the larger calls a longer chain leaves it out.
const TOGETHER: [usize; 8] = [1, 5, 7, 10, 14, 20, 32, FULL_BLOCK_ROWS];

/// Blocks that are bad only by the coins that they spend or make.
const BAD_BY_COINS: u64 = 20;

/// What Core says of the blocks that it rejects.
struct Answers<'r> {
    /// The words for each hash. Blocks of one header may be bad in several ways.
    words: HashMap<&'r str, Vec<&'r str>>,
    heights: HashMap<&'r str, u64>,
}

impl<'r> Answers<'r> {
    fn of(rows: &'r [Value]) -> Self {
        let mut answers = Self {
            words: HashMap::new(),
            heights: HashMap::from([(text_of(&rows[0], "prev_hash"), 0)]),
        };
        for row in rows {
            if let Some(height) = answers.heights.get(text_of(row, "prev_hash")) {
                answers.heights.insert(text_of(row, "block_hash"), height + 1);
            }
            if let Some(hash) = bad_hash(row) {
                answers.words.entry(hash).or_default().push(word_of(row));
            }
        }
        answers
    }

    fn have(&self, hash: &str, word: &str) -> bool {
        self.words.get(hash).is_some_and(|words| words.contains(&word))
    }
}

/// The block that Core rejects when it gets a row's block: that one, or its parent, which was on
/// the side and is bad.
fn bad_hash(row: &Value) -> Option<&str> {
    match text_of(row, "core_verdict") {
        "reject" => Some(text_of(row, "block_hash")),
        "reject_ancestor" => Some(text_of(row, "prev_hash")),
        _ => None,
    }
}

/// What a call comes to: blocks rejected, those that cannot be read, the tip and the set.
type Outcome = (Vec<(String, u32, Reject)>, Vec<String>, UtxoStats);

/// An engine that gets the stream, a few blocks at a time.
struct Run {
    engine: CoreEngine,
    directory: TempDir,
    /// All blocks that it has named bad.
    named: HashSet<String>,
}

impl Run {
    fn new(sizes: Option<(usize, usize)>, cache_bytes_max: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::from(options(2, cache_bytes_max));
        settings.internals.windows = sizes.map(|(blocks, jobs)| WindowSizes { blocks, jobs });
        settings.internals.without.shards = sizes.is_none();
        Self {
            engine: open(&directory.path().join("data"), settings),
            directory,
            named: HashSet::new(),
        }
    }

    /// Connects the blocks of rows, from a file, and compares the outcome with Core's answers.
    fn connect(&mut self, rows: &[Value], answers: &Answers<'_>) -> (Outcome, ConnectReport) {
        let last = rows.last().expect("a row");
        let name = text_of(last, "name");
        let mut bytes = Vec::new();
        // A block that does not decode has another key.
        for block in rows.iter().filter_map(|row| row["block_hex"].as_str()) {
            let block = hex::decode(block).unwrap();
            bytes.extend(Network::Regtest.magic().0);
            bytes.extend((block.len() as u32).to_le_bytes());
            bytes.extend(block);
        }
        let file = self.directory.path().join(format!("{}.dat", last["seq"]));
        std::fs::write(&file, bytes).unwrap();
        let report = common::connect(&mut self.engine, &[&file]);

        for block in &report.rejected {
            let (hash, word) = (block.hash.to_string(), &*block.reject.reason);
            // The header is known as that of a bad block.
            let is_known = word == "duplicate-invalid" && self.named.contains(&hash);
            assert!(is_known || answers.have(&hash, word), "{name}: {block}");
            self.named.insert(hash);
        }
        let unreadable: Vec<String> = report.unreadable.iter().map(|block| block.hash.to_string()).collect();
        for hash in &unreadable {
            assert!(answers.have(hash, "high-hash"), "{name}: {hash}");
            self.named.insert(hash.clone());
        }
        assert!(report.damages.is_empty(), "{name}: {:?}", report.damages);
        let figures = figures(&self.engine);
        assert_eq!(figures.best_block, report.tip, "{name}");
        if last.get("core_tip_after").is_some() {
            assert_eq!(last["core_tip_after"], report.tip.to_string(), "{name}");
            assert_eq!(last["core_height_after"], report.height, "{name}");
            assert_eq!(last["utxo_count_after"], figures.txouts, "{name}");
            assert_eq!(last["utxo_hash_after"], figures.hash_serialized_3.to_string(), "{name}");
        }
        let rejected = report.rejected.iter();
        let rejected = rejected.map(|block| (block.hash.to_string(), block.height, block.reject.clone()));
        ((rejected.collect(), unreadable, figures), report)
    }
}

#[test]
fn in_calls_of_one_block_of_several_and_of_all() {
    let Some(rows) = full_block_rows() else {
        return;
    };
    let answers = Answers::of(&rows);
    for together in TOGETHER {
        // Without a cache the coins of earlier calls are in the store alone.
        let cache_bytes_max = if together == 1 { 0 } else { LARGE };
        let mut expected: Vec<Outcome> = Vec::new();
        for sizes in std::iter::once(None).chain(SIZES.map(Some)) {
            let mut run = Run::new(sizes, cache_bytes_max);
            let found = rows.chunks(together).map(|rows| run.connect(rows, &answers).0);
            let found: Vec<Outcome> = found.collect();
            if sizes.is_none() {
                expected = found;
            } else {
                assert_eq!(found, expected, "{sizes:?}, {together} blocks in a call");
            }
            let rolled_back = run.engine.totals().windows_rolled_back;
            assert!(rolled_back >= BAD_BY_COINS || together > 1, "{sizes:?}: {rolled_back}");
            if together == 1 {
                // No bad block was left out. Some are named only when others build on them.
                let bad = rows.iter().filter_map(bad_hash);
                let missed: Vec<_> = bad.filter(|&hash| !run.named.contains(hash)).collect();
                assert!(missed.is_empty(), "{sizes:?}: {missed:?}");
            }
        }
    }
}

/// All blocks up to a bad one in one call. The bad one is the last of its window, or has a parent
/// there that is bad.
#[test]
fn all_blocks_up_to_each_bad_one() {
    let Some(rows) = full_block_rows() else {
        return;
    };
    let answers = Answers::of(&rows);
    let mut rolled_back = 0;
    for (number, row) in rows.iter().enumerate() {
        let Some(bad) = bad_hash(row) else {
            continue;
        };
        let mut run = Run::new(Some(SIZES[number % SIZES.len()]), LARGE);
        let (_, report) = run.connect(&rows[..=number], &answers);
        rolled_back += report.totals.windows_rolled_back;
        // With no more work than Core's tip it is not tried.
        if Some(answers.heights[text_of(row, "block_hash")]) > row["core_height_after"].as_u64() {
            assert!(run.named.contains(bad), "{}: {report:?}", row["name"]);
        }
    }
    assert!(rolled_back >= BAD_BY_COINS, "{rolled_back}");
}

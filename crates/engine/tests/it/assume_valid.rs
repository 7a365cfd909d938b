//! Scripts are left out for blocks in the chain of the assumed valid block and of the best header
//! that are buried under more than two weeks of work.
//!
//! The tests have both sides of each condition, with a block whose script fails. The block is
//! accepted where scripts are left out, and refused where they run.

use super::options;
use crate::common::{
    Chain, CoreEngine, LARGE, SUBSIDY, connect, hash_of, open_with, outpoint, spend_failing, submit, submit_good,
    write_blocks,
};
use bitcoin::Block;
use blockmill_block::BlockHash;
use blockmill_chaingen::builder::spend_any;
use blockmill_coins::MemoryStore;
use blockmill_engine::{ConnectReport, Options, RunOutcome, Verdict};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// Height of the block whose script fails: the first that can spend.
const BAD: u32 = 101;

/// Blocks in two weeks of work.
const BURIED: u32 = 2_016;

/// Height of the chain: [`BAD`] is buried under one more block than two weeks, and a few others
/// are, too.
const HEIGHT: u32 = BAD + BURIED + 6;

/// The chain with the bad block.
static CHAIN: LazyLock<Chain> = LazyLock::new(|| {
    let mut chain = Chain::of(BAD - 1);
    let fails = spend_failing(chain.coinbase(1), SUBSIDY);
    chain.push(chain.next().transaction(fails).build());
    chain.mine(HEIGHT - BAD);
    chain
});

/// What is given to the engine, and what it is to assume.
struct Setup {
    directory: TempDir,
    files: Vec<PathBuf>,
}

impl Setup {
    /// Block files with these blocks, in this order.
    fn new<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = write_blocks(&directory.path().join("blocks.dat"), blocks);
        Self {
            directory,
            files: vec![file],
        }
    }

    /// The chain up to a height.
    fn up_to(height: u32) -> Self {
        Self::new(&CHAIN.blocks[..=height as usize])
    }

    fn engine(&self, options: Options) -> CoreEngine {
        let store = Arc::new(MemoryStore::new());
        let number = std::fs::read_dir(self.directory.path()).unwrap().count();
        let data = self.directory.path().join(format!("data-{number}"));
        open_with(&data, store, options).unwrap()
    }

    fn connect(&self, assumed: Option<BlockHash>) -> ConnectReport {
        let mut engine = self.engine(assuming(assumed));
        let files: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        connect(&mut engine, &files)
    }

    /// All blocks are connected, `skipped` of them without their scripts.
    fn accepts(&self, assumed: BlockHash, height: u32, skipped: u32) {
        let report = self.connect(Some(assumed));
        assert_eq!(report.outcome(), RunOutcome::Complete, "{:?}", report.rejected);
        assert_eq!((report.height, report.totals.blocks), (height, u64::from(height)));
        assert_eq!(report.totals.scripts_skipped, u64::from(skipped));
    }

    /// The bad block is refused, after `skipped` blocks whose scripts were left out.
    fn refuses(&self, assumed: Option<BlockHash>, skipped: u32) {
        let report = self.connect(assumed);
        assert_eq!(report.outcome(), RunOutcome::Rejected);
        let rejected = &report.rejected[report.rejected.len() - 1];
        assert_eq!((rejected.hash, rejected.height), (hash_at(BAD), BAD));
        assert_eq!(rejected.reject.reason, "block-script-verify-flag-failed");
        assert_eq!((rejected.reject.transaction, rejected.reject.input), (Some(1), Some(0)));
        assert_eq!(report.totals.scripts_skipped, u64::from(skipped));
    }
}

fn assuming(assume_valid: Option<BlockHash>) -> Options {
    Options {
        assume_valid,
        ..options(2, LARGE)
    }
}

/// Hash of the chain's block at a height.
fn hash_at(height: u32) -> BlockHash {
    hash_of(&CHAIN.blocks[height as usize])
}

#[test]
fn nothing_is_assumed_by_default() {
    assert_eq!(Options::default().assume_valid, None);
    Setup::up_to(HEIGHT).refuses(None, 0);
}

/// A block is buried deep enough when the work on top of it takes more than two weeks.
#[test]
fn buried_under_two_weeks_of_work() {
    for (above, skipped) in [(0, 1), (1, 2), (5, 6)] {
        let height = BAD + BURIED + above;
        let setup = Setup::up_to(height);
        if above == 0 {
            setup.refuses(Some(hash_at(height)), BAD - 1);
        } else {
            setup.accepts(hash_at(height), height, BAD - 1 + skipped - 1);
        }
    }
    // Much too near: no block is buried deep enough.
    Setup::up_to(BAD + 10).refuses(Some(hash_at(BAD + 10)), 0);
}

#[test]
fn up_to_the_assumed_block() {
    let setup = Setup::up_to(HEIGHT);
    setup.refuses(Some(hash_at(BAD - 1)), BAD - 1);
    setup.accepts(hash_at(BAD), HEIGHT, BAD);
    setup.accepts(hash_at(BAD + 1), HEIGHT, BAD + 1);
    // Of the blocks up to the assumed one, those that are not buried are checked all the same.
    setup.accepts(hash_at(HEIGHT - 1), HEIGHT, HEIGHT - BURIED - 1);
    setup.refuses(Some(hash_at(0)), 0);
}

#[test]
fn the_assumed_block_is_unknown() {
    let unknown = BlockHash([7; 32]);
    Setup::up_to(HEIGHT).refuses(Some(unknown), 0);
    // Known to the chain, but not to the engine.
    Setup::up_to(HEIGHT - 1).refuses(Some(hash_at(HEIGHT)), 0);
    Setup::up_to(HEIGHT - 1).accepts(hash_at(HEIGHT - 1), HEIGHT - 1, HEIGHT - 1 - BURIED - 1);
}

/// A block on top of the chain's block at `height` that is not in the chain.
fn side_block(height: u32) -> Block {
    let chain = CHAIN.up_to(height);
    chain.next().header(|header| header.time += 1).build()
}

#[test]
fn the_assumed_block_is_in_another_chain() {
    for (fork, skipped) in [(0, 0), (50, 50), (BAD - 1, BAD - 1)] {
        // What the two chains have in common is assumed.
        let side = side_block(fork);
        let setup = Setup::new(CHAIN.blocks.iter().chain([&side]));
        setup.refuses(Some(hash_of(&side)), skipped);
    }
    for fork in [BAD, BAD + 3] {
        let side = side_block(fork);
        let setup = Setup::new(CHAIN.blocks.iter().chain([&side]));
        setup.accepts(hash_of(&side), HEIGHT, fork);
    }
}

/// A branch of more headers, of which one block is not what its header says: its chain is not
/// connected, but it has the best header.
#[test]
fn the_best_header_is_in_another_chain() {
    let fork = 90;
    let mut branch = CHAIN.up_to(fork);
    branch.push(side_block(fork));
    branch.mine(HEIGHT + 1 - branch.height());
    let mut blocks = branch.blocks.split_off(fork as usize + 1);
    let whole = Setup::new(CHAIN.blocks.iter().chain(&blocks));
    let report = whole.connect(Some(hash_at(HEIGHT)));
    assert_eq!(
        (report.outcome(), report.tip),
        (RunOutcome::Complete, hash_of(&blocks[blocks.len() - 1]))
    );
    assert_eq!(report.totals.scripts_skipped, u64::from(fork));
    blocks[3].txdata[0].lock_time = bitcoin::absolute::LockTime::from_consensus(1);
    let damaged = Setup::new(CHAIN.blocks.iter().chain(&blocks));
    damaged.refuses(Some(hash_at(HEIGHT)), fork);
    // With one block less the chain of the bad block has the best header.
    blocks.truncate(blocks.len() - 1);
    let shorter = Setup::new(CHAIN.blocks.iter().chain(&blocks));
    shorter.accepts(hash_at(HEIGHT), HEIGHT, HEIGHT - BURIED - 1);
}

/// All other rules hold for blocks whose scripts are left out.
#[test]
fn only_scripts_are_left_out() {
    let mut chain = Chain::of(BAD - 1);
    let first = spend_any(chain.coinbase(1), SUBSIDY);
    let double = spend_any(outpoint(&first, 0), SUBSIDY + 1);
    chain.push(chain.next().transaction(first).transaction(double).build());
    chain.mine(HEIGHT - BAD);
    let setup = Setup::new(&chain.blocks);
    let report = setup.connect(Some(chain.hash()));
    assert_eq!(report.height, BAD - 1);
    assert_eq!(report.rejected[0].reject.reason, "bad-txns-in-belowout");
    assert_eq!(report.totals.scripts_skipped, u64::from(BAD - 1));
}

/// Block by block there is never a best header far above: scripts run.
#[test]
fn submitted_blocks_are_checked() {
    let setup = Setup::up_to(0);
    let mut engine = setup.engine(assuming(Some(hash_at(BAD))));
    for block in &CHAIN.blocks[1..BAD as usize] {
        submit_good(&mut engine, block);
    }
    let submission = submit(&mut engine, &CHAIN.blocks[BAD as usize]);
    assert_eq!(submission.verdict, Verdict::Invalid);
    assert_eq!(submission.reason.as_deref(), Some("block-script-verify-flag-failed"));
    assert_eq!(engine.totals().scripts_skipped, 0);
}

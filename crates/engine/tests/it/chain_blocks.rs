//! Blocks with the coins that they spend: of a data directory, and of block files with undo files
//! beside them.

use super::{SIGNATURES, options};
use crate::common::generated::{FORK, Generated, HEIGHT};
use crate::common::{LARGE, connect, open, verifier};
use blockmill_block::{Network, OutPoint};
use blockmill_chaingen::Profile;
use blockmill_engine::datadir::chain_bytes::ChainBytesError;
use blockmill_engine::inspect::verify_files::{FilesOptions, FilesReport, verify_files};
use blockmill_engine::{BlockReadError, ChainBlocks, Event, Observer, RunOutcome, SpendingBlock, UtxoSet};
use blockmill_rules::Params;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

static CHAIN: LazyLock<Generated> = LazyLock::new(|| Generated::new(Profile::Mixed));

/// A folder as Core's, of the chain of [`CHAIN`] with the other branch after it, which has no undo
/// data; and a data directory of that chain.
struct Folders {
    _home: TempDir,
    core: PathBuf,
    data: PathBuf,
}

fn folders() -> Folders {
    let home = tempfile::tempdir().unwrap();
    let (core, data) = (home.path().join("core"), home.path().join("data"));
    let mut engine = open(&data, options(2, LARGE));
    assert_eq!(connect(&mut engine, &[&CHAIN.blocks()]).height, HEIGHT);
    drop(engine);
    std::fs::create_dir(&core).unwrap();
    let chain = CHAIN.blocks().join("blk00000.dat");
    std::fs::copy(chain, core.join("blk00000.dat")).unwrap();
    // The form of undo.dat is that of Core.
    std::fs::copy(data.join("undo.dat"), core.join("rev00000.dat")).unwrap();
    Folders {
        _home: home,
        core,
        data,
    }
}

fn of_files(sources: &[PathBuf]) -> ChainBlocks {
    let params = Params::new(Network::Regtest, None);
    let opened = ChainBlocks::of_files(sources, &[], &params, &AtomicBool::new(false), &mut ());
    opened.unwrap().unwrap()
}

/// Fails unless the coins of all blocks are the outputs that earlier transactions have made.
fn check_coins(blocks: impl Iterator<Item = Result<SpendingBlock, BlockReadError>>) -> (u32, usize) {
    let mut outputs = HashMap::new();
    let (mut heights, mut inputs) = (0, 0);
    for block in blocks {
        let block = block.unwrap();
        assert_eq!(block.height, heights);
        heights += 1;
        let mut fees = 0;
        for spending in block.transactions() {
            let txid = spending.transaction.txid();
            let mut sum = 0;
            for (input, coin) in spending.inputs() {
                let Some(coin) = coin else {
                    assert!(spending.transaction.is_coinbase() && spending.fee().is_none());
                    continue;
                };
                inputs += 1;
                let made = outputs.remove(&input.previous_output());
                assert_eq!(made, Some((coin.height, coin.value, coin.script_pubkey.to_vec())));
                sum += coin.value;
            }
            for (vout, output) in (0..).zip(spending.transaction.outputs()) {
                let value = (block.height, output.value(), output.script_pubkey().to_vec());
                outputs.insert(OutPoint { txid, vout }, value);
                sum -= output.value();
            }
            if let Some(fee) = spending.fee() {
                assert_eq!(fee, sum);
                fees += fee;
            }
        }
        assert!(fees >= 0);
    }
    (heights, inputs)
}

#[test]
fn coins_are_the_outputs_that_were_made_before() {
    let folders = folders();
    let set = UtxoSet::open(&folders.data, 1).unwrap();
    let of_data = set.blocks().unwrap();
    let of_files = of_files(std::slice::from_ref(&folders.core));
    for blocks in [&of_data, &of_files] {
        assert_eq!(blocks.height(), HEIGHT);
        let (heights, inputs) = check_coins(blocks.iter(0..=HEIGHT));
        assert_eq!(heights, HEIGHT + 1);
        assert!(inputs as u64 >= CHAIN.summary.inputs && inputs > 2_000);
        assert!(matches!(
            blocks.iter(HEIGHT + 1..=HEIGHT + 1).next(),
            Some(Err(BlockReadError::AboveTip { height, tip: HEIGHT })) if height == HEIGHT + 1
        ));
    }
    for height in (0..=HEIGHT).rev() {
        let (own, other) = (of_data.read(height).unwrap(), of_files.read(height).unwrap());
        assert_eq!((own.undo, own.flags), (other.undo, other.flags));
        assert!(own.block.bytes() == other.block.bytes());
    }
}

#[test]
fn a_chain_as_bytes_is_the_same_chain() {
    let folders = folders();
    let params = Params::new(Network::Regtest, None);
    let blocks = of_files(std::slice::from_ref(&folders.core));
    let bytes = blocks.to_bytes();
    let same = ChainBlocks::from_bytes(&bytes, &params).unwrap();
    assert_eq!(same.height(), HEIGHT);
    assert!(same.to_bytes() == bytes);
    let (heights, _) = check_coins(same.iter(0..=HEIGHT));
    assert_eq!(heights, HEIGHT + 1);
    // The first header is at 16, and its nonce at 76 of it.
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        ChainBlocks::from_bytes(&changed, &params).err()
    };
    assert_eq!(refused(&|bytes| bytes[0] ^= 1), Some(ChainBytesError::NoChain));
    assert_eq!(refused(&|bytes| bytes[8] ^= 1), Some(ChainBytesError::OtherNetwork));
    let after_two = refused(&|bytes| bytes[16 + 80 * 2 + 40] ^= 1);
    assert_eq!(after_two, Some(ChainBytesError::Header { height: 3 }));
    assert_eq!(refused(&|bytes| bytes.push(0)), Some(ChainBytesError::NoChain));
    for end in (0..bytes.len()).step_by(97) {
        assert!(refused(&|bytes| bytes.truncate(end)).is_some(), "{end}");
    }
    // Files that have gone away have no blocks.
    std::fs::remove_file(folders.core.join("blk00000.dat")).unwrap();
    let gone = ChainBlocks::from_bytes(&bytes, &params).unwrap();
    let unreadable = gone.find_unreadable(1..=HEIGHT);
    assert_eq!(unreadable, [(1..=HEIGHT, "in none of the block files".to_owned())]);
}

#[test]
fn headers_of_other_files_make_the_chain() {
    let folders = folders();
    let params = Params::new(Network::Regtest, None);
    let whole = of_files(std::slice::from_ref(&folders.core));
    let headers: Vec<_> = (1..=HEIGHT).map(|height| whole.header(height).unwrap()).collect();
    let (none, stop) = (folders.core.join("empty"), AtomicBool::new(false));
    std::fs::write(&none, []).unwrap();
    let open = |sources: &[PathBuf], headers| ChainBlocks::of_files(sources, headers, &params, &stop, &mut ());
    let bare = open(std::slice::from_ref(&none), &headers).unwrap().unwrap();
    assert_eq!(
        (bare.height(), bare.hash(HEIGHT).unwrap()),
        (HEIGHT, whole.hash(HEIGHT).unwrap())
    );
    assert!(matches!(bare.block(7), Err(BlockReadError::InNoFile { height: 7, .. })));
    let short = open(std::slice::from_ref(&none), &headers[..7]).unwrap().unwrap();
    assert_eq!(short.height(), 7);
    let both = open(&[none, folders.core.clone()], &headers[..7]).unwrap().unwrap();
    assert_eq!(both.height(), HEIGHT);
    both.block(7).unwrap();
}

#[test]
fn runs_come_in_order_from_any_number_of_threads() {
    let folders = folders();
    let blocks = of_files(std::slice::from_ref(&folders.core));
    for (threads, bytes) in [(1, 1), (2, 100_000), (5, u64::MAX)] {
        for heights in [0..=HEIGHT, 7..=7, 50..=110] {
            let mut all = Vec::new();
            let convert = |run| blocks.iter(run).collect::<Result<Vec<_>, _>>();
            let mut take = |read: Vec<SpendingBlock>| {
                let lengths = read.iter().map(|block| block.block.bytes().len() as u64);
                // The last one makes it full.
                assert!(lengths.rev().skip(1).sum::<u64>() < bytes);
                all.extend(read.into_iter().map(|block| block.height));
                Ok::<_, BlockReadError>(())
            };
            blocks
                .for_each_run(heights.clone(), bytes, threads, &convert, &mut take)
                .unwrap();
            assert!(all.into_iter().eq(heights));
        }
    }
    #[expect(clippy::reversed_empty_ranges)]
    let none = blocks.for_each_run(5..=4, 1, 2, &|_| Err::<(), _>(()), &mut |()| Err(()));
    none.unwrap();
    // Blocks of two ranges are never together.
    let ranges = [3..=9, 10..=12, 60..=60, 62..=HEIGHT];
    let mut found = Vec::new();
    let mut take = |run| {
        found.push(run);
        Ok(())
    };
    // All are taken, however much memory each takes.
    let convert = |run| Ok::<_, BlockReadError>((run, usize::MAX / 8));
    blocks
        .for_each_run_in(&ranges, u64::MAX, 3, &convert, &mut take)
        .unwrap();
    assert_eq!(found, ranges);
}

#[test]
fn the_chain_of_most_work_is_taken() {
    let folders = folders();
    let mut blocks = of_files(&[folders.core.clone(), CHAIN.branch.clone()]);
    assert_eq!(blocks.height(), HEIGHT + 1);
    blocks.read(FORK).unwrap();
    // The branch was never connected: it has no undo data, and there is no such file.
    assert!(matches!(
        blocks.read(FORK + 1),
        Err(BlockReadError::NoUndoFile { height, .. }) if height == FORK + 1
    ));
    blocks.block(FORK + 1).unwrap();
    // More positions change nothing.
    let stop = AtomicBool::new(false);
    assert!(blocks.add_files(&[folders.core], &stop, &mut ()).unwrap());
    blocks.read(FORK).unwrap();
}

#[test]
fn a_search_of_files_can_be_stopped() {
    struct Stop<'a>(&'a AtomicBool);
    impl Observer for Stop<'_> {
        fn event(&mut self, event: &Event<'_>) {
            self.0.fetch_or(matches!(event, Event::Indexing(_)), Ordering::Relaxed);
        }
    }
    let folders = folders();
    let params = Params::new(Network::Regtest, None);
    let stop = AtomicBool::new(true);
    let sources = [folders.core.clone()];
    let opened = ChainBlocks::of_files(&sources, &[], &params, &stop, &mut ()).unwrap();
    assert!(opened.is_none());
    let mut blocks = UtxoSet::open(&folders.data, 1).unwrap().blocks().unwrap();
    assert!(!blocks.add_files(&sources, &stop, &mut Stop(&stop)).unwrap());
    blocks.read(HEIGHT).unwrap();
}

/// The network's first block is never connected. Its copy in the files is judged all the same, by
/// all who read the files.
#[test]
fn a_copy_of_the_first_block_with_other_content_is_named() {
    let folders = folders();
    let params = Params::new(Network::Regtest, None);
    let verify = |only| -> FilesReport {
        let options = FilesOptions {
            only,
            threads: 1,
            signatures: SIGNATURES,
        };
        let (verifier, stop) = (Arc::new(verifier(SIGNATURES)), AtomicBool::new(false));
        let sources = [folders.core.clone()];
        verify_files(&sources, &params, options, &verifier, &stop, &mut ()).unwrap()
    };
    let unverified = |report: &FilesReport| -> Vec<u32> {
        let heights = report.unverified.iter().map(|unverified| unverified.height);
        heights.collect()
    };
    let genesis = Some(params.genesis.hash());
    let alone = verify(genesis);
    assert_eq!((alone.totals.blocks, alone.totals.transactions), (1, 1));
    assert!(unverified(&verify(None)).is_empty());
    let path = folders.core.join("blk00000.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    // In the text of its coinbase.
    bytes[8 + 80 + 80] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(unverified(&verify(None)), [0]);
    assert_eq!(unverified(&verify(genesis)), [0]);
    let mut engine = open(&folders.data.with_extension("again"), options(1, LARGE));
    let report = connect(&mut engine, &[&folders.core]);
    assert_eq!((report.height, report.outcome()), (HEIGHT, RunOutcome::Rejected));
}

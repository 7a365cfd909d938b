//! A run is stopped or killed, or the end of a file is cut off. The next start goes on from the
//! last flush and ends at the same set.

use super::{SIGNATURES, options};
use crate::common::faults::{FaultyStore, KillAt};
use crate::common::generated::{FORK, Generated, HEIGHT, copy_all, cut, length};
use crate::common::{
    self, Chain, CoreEngine, LARGE, connect, figures, figures_of, open, open_with, submit, submit_good, submit_side,
    verifier,
};
use bitcoin::Block;
use blockmill_block::BlockHash;
use blockmill_chaingen::Profile;
use blockmill_engine::report::Halt;
use blockmill_engine::{ConnectError, Engine, Event, Observer, OpenError, Options, RunOutcome, Verdict};
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of a record of `headers.dat`.
const HEADER_RECORD: u64 = 96;

static CHAIN: LazyLock<Generated> = LazyLock::new(|| Generated::new(Profile::Mixed));

/// No flush before the end.
fn at_the_end(stop_at_height: Option<u32>) -> Options {
    Options {
        stop_at_height,
        ..options(2, LARGE)
    }
}

/// A flush after every block.
fn every_block(stop_at_height: Option<u32>) -> Options {
    Options {
        flush_interval: Duration::ZERO,
        ..at_the_end(stop_at_height)
    }
}

#[test]
fn stopped_at_heights() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = 0;
    for height in [0, 1, 50, 100, 101, 101, 115, HEIGHT - 1, HEIGHT, HEIGHT + 1] {
        let mut engine = open(directory.path(), every_block(Some(height)));
        assert_eq!(engine.height(), before);
        let report = connect(&mut engine, &[&CHAIN.blocks()]);
        let height = height.min(HEIGHT);
        let halt = if before < HEIGHT && height < HEIGHT {
            Halt::HeightReached
        } else {
            Halt::Finished
        };
        assert_eq!(
            (report.start_height, report.height, report.halt),
            (before, height, halt)
        );
        assert_eq!(report.totals.blocks, u64::from(height - before));
        assert_eq!(report.outcome(), RunOutcome::Complete);
        before = height;
    }
    CHAIN.assert_tip(&figures(&open(directory.path(), every_block(None))));
}

/// Asks the engine to stop once a height is reached.
struct StopAt(u32, Arc<AtomicBool>);

impl Observer for StopAt {
    fn event(&mut self, event: &Event<'_>) {
        let is_reached = matches!(event, Event::Progress(progress) if progress.height >= self.0);
        self.1.fetch_or(is_reached, Ordering::Relaxed);
    }
}

#[test]
fn stopped_by_the_flag() {
    let directory = tempfile::tempdir().unwrap();
    for height in [1, 2, 99, 107, 120] {
        let options = at_the_end(None);
        let mut observer = StopAt(height, options.stop.clone());
        let mut engine = open(directory.path(), options);
        let report = engine.connect(&[CHAIN.blocks()], &mut observer).unwrap();
        assert_eq!((report.height, report.halt), (height, Halt::Stopped));
    }
    let mut engine = open(directory.path(), at_the_end(None));
    let report = connect(&mut engine, &[&CHAIN.blocks()]);
    assert_eq!((report.start_height, report.halt), (120, Halt::Finished));
    CHAIN.assert_tip(&figures(&engine));
}

/// The run stops inside of a reorganisation, where the tip has less work than the old one.
#[test]
fn stopped_inside_of_a_reorganisation() {
    let both = [CHAIN.blocks(), CHAIN.branch.clone()];
    let both: Vec<&Path> = both.iter().map(PathBuf::as_path).collect();
    for height in [FORK + 1, HEIGHT - 1, HEIGHT] {
        let directory = tempfile::tempdir().unwrap();
        connect(&mut open(directory.path(), at_the_end(None)), &both[..1]);
        let options = at_the_end(None);
        let mut observer = StopAt(height, options.stop.clone());
        let mut engine = open(directory.path(), options);
        let paths: Vec<PathBuf> = both.iter().map(|path| path.to_path_buf()).collect();
        let report = engine.connect(&paths, &mut observer).unwrap();
        assert_eq!((report.height, report.halt), (height, Halt::Stopped));
        drop(engine);
        // A limit below the tip disconnects nothing, though there is a better branch.
        let mut engine = open(directory.path(), at_the_end(Some(FORK)));
        assert_eq!(connect(&mut engine, &both).height, height);
        drop(engine);
        let mut engine = open(directory.path(), at_the_end(None));
        assert_eq!(connect(&mut engine, &both).outcome(), RunOutcome::Complete);
        assert_eq!(figures(&engine), CHAIN.branch_figures);
    }
}

/// Connects, and kills the engine when a block at `height` is connected.
fn killed_at(directory: &Path, options: Options, height: u32) {
    let mut engine = open(directory, options);
    let run = AssertUnwindSafe(|| engine.connect(&[CHAIN.blocks()], &mut KillAt(height)));
    assert!(catch_unwind(run).is_err());
    assert_eq!(engine.height(), height);
}

/// Goes on to the tip, and from there to the other branch, which needs the undo data of the blocks
/// above the fork.
fn check_the_rest(directory: &Path, start_height: u32) {
    let mut engine = open(directory, at_the_end(None));
    let report = connect(&mut engine, &[&CHAIN.blocks()]);
    assert_eq!(
        (report.start_height, report.outcome()),
        (start_height, RunOutcome::Complete)
    );
    CHAIN.assert_tip(&figures(&engine));
    drop(engine);
    let mut engine = open(directory, at_the_end(None));
    let report = connect(&mut engine, &[&CHAIN.blocks(), &CHAIN.branch]);
    assert_eq!(report.totals.disconnected, u64::from(HEIGHT - FORK));
    assert_eq!(figures(&engine), CHAIN.branch_figures);
}

#[test]
fn killed_between_flushes() {
    // With a flush after every block, kills lose nothing. With a flush at the end they lose all.
    let directory = tempfile::tempdir().unwrap();
    for height in [1, 100, 104, 105, 117, HEIGHT - 1] {
        killed_at(directory.path(), every_block(None), height);
        assert_eq!(open(directory.path(), at_the_end(None)).height(), height);
    }
    check_the_rest(directory.path(), HEIGHT - 1);
    let directory = tempfile::tempdir().unwrap();
    for height in [100, 120, HEIGHT] {
        killed_at(directory.path(), at_the_end(None), height);
        assert_eq!(open(directory.path(), at_the_end(None)).height(), 0);
    }
    check_the_rest(directory.path(), 0);
}

/// A data directory that was flushed at height 105. The engine was killed fifteen blocks later.
struct Killed {
    directory: TempDir,
    /// The undo data of the fifteen blocks. A kill may leave any part of it.
    loose: Vec<u8>,
}

impl Killed {
    const FLUSHED: u32 = 105;
    const CONNECTED: u32 = Self::FLUSHED + 15;

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        connect(&mut open(path, at_the_end(Some(Self::FLUSHED))), &[&CHAIN.blocks()]);
        let flushed_undo = length(&path.join("undo.dat"));
        let unhurt = tempfile::tempdir().unwrap();
        copy_all(path, unhurt.path());
        let options = at_the_end(Some(Self::CONNECTED));
        connect(&mut open(unhurt.path(), options), &[&CHAIN.blocks()]);
        let undo = std::fs::read(unhurt.path().join("undo.dat")).unwrap();
        killed_at(path, at_the_end(None), Self::CONNECTED);
        // All of their undo data was in the log's buffer.
        assert_eq!(length(&path.join("undo.dat")), flushed_undo);
        Self {
            directory,
            loose: undo[flushed_undo as usize..].to_vec(),
        }
    }

    /// A copy with these bytes of undo data after the flushed ones.
    fn copy_with(&self, left: &[u8]) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_all(self.directory.path(), copy.path());
        let undo = File::options().append(true).open(copy.path().join("undo.dat"));
        undo.unwrap().write_all(left).unwrap();
        copy
    }
}

#[test]
fn undo_data_after_the_flush_is_cut_off() {
    let killed = Killed::new();
    let length = killed.loose.len();
    assert!(length > 1_000);
    for bytes in [0, 1, 31, 32, 33, 500, length / 2, length - 1, length] {
        let copy = killed.copy_with(&killed.loose[..length - bytes]);
        check_the_rest(copy.path(), Killed::FLUSHED);
    }
    // A kill may leave later parts without earlier ones.
    let mut gap = killed.loose.clone();
    gap[..length / 2].fill(0);
    check_the_rest(killed.copy_with(&gap).path(), Killed::FLUSHED);
}

/// Undo data that was flushed is lost, which a kill cannot do. The engine goes on until it has to
/// disconnect that block.
#[test]
fn undo_data_before_the_flush_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    connect(&mut open(path, every_block(Some(120))), &[&CHAIN.blocks()]);
    cut(&path.join("undo.dat"), 1);
    let mut engine = open(path, every_block(None));
    assert_eq!(connect(&mut engine, &[&CHAIN.blocks()]).outcome(), RunOutcome::Complete);
    CHAIN.assert_tip(&figures(&engine));
    let lost = hash_at(120);
    drop(engine);
    for _ in 0..2 {
        let mut engine = open(path, every_block(None));
        let error = engine
            .connect(&[CHAIN.blocks(), CHAIN.branch.clone()], &mut ())
            .unwrap_err();
        assert!(
            matches!(&error, ConnectError::Undo { hash, .. } if *hash == lost),
            "{error}"
        );
        drop(engine);
        CHAIN.assert_tip(&figures(&open(path, every_block(None))));
    }
}

/// Hash of the generated chain's block at a height.
fn hash_at(height: u32) -> BlockHash {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = open(directory.path(), at_the_end(Some(height)));
    connect(&mut engine, &[&CHAIN.blocks()]);
    engine.tip_hash()
}

#[test]
fn headers_above_the_tip_are_cut_off() {
    // The commit fails after the header of its block was written. A kill between the two leaves the
    // same files.
    const TIP: u32 = 112;
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::default());
    store.fail_at_commit(u64::from(TIP) + 1);
    let mut engine = open_with(directory.path(), store.clone(), every_block(None)).unwrap();
    let error = engine.connect(&[CHAIN.blocks()], &mut ()).unwrap_err();
    assert!(matches!(error, ConnectError::Store(_)), "{error}");
    drop(engine);
    let headers = length(&directory.path().join("headers.dat"));
    assert_eq!(headers, u64::from(TIP + 1) * HEADER_RECORD);
    for bytes in [0, 1, 4, 50, HEADER_RECORD - 1, HEADER_RECORD] {
        let copy = tempfile::tempdir().unwrap();
        copy_all(directory.path(), copy.path());
        cut(&copy.path().join("headers.dat"), bytes);
        let store = Arc::new(FaultyStore::copy_of(&store));
        let mut engine = open_with(copy.path(), store, every_block(None)).unwrap();
        let report = connect(&mut engine, &[&CHAIN.blocks(), &CHAIN.branch]);
        assert_eq!((report.start_height, report.outcome()), (TIP, RunOutcome::Complete));
        assert_eq!(figures(&engine), CHAIN.branch_figures);
    }
}

/// Opens a directory whose `headers.dat` does not reach to the tip.
fn check_headers_damaged(directory: &Path) {
    let Err(error) = CoreEngine::builder(directory)
        .options(at_the_end(None))
        .open(verifier(SIGNATURES))
    else {
        panic!("it opens");
    };
    let headers = directory.join("headers.dat");
    assert!(
        matches!(&error, OpenError::Damaged { path, .. } if *path == headers),
        "{error}"
    );
    assert!(error.to_string().contains("headers.dat"), "{error}");
}

#[test]
fn headers_up_to_the_tip_are_missed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    connect(&mut open(path, every_block(Some(110))), &[&CHAIN.blocks()]);
    let whole = std::fs::read(path.join("headers.dat")).unwrap();
    assert_eq!(whole.len() as u64, 110 * HEADER_RECORD);
    let last = 109 * HEADER_RECORD as usize;
    let mut flipped = whole.clone();
    flipped[last / 2] ^= 1;
    let cases = [
        &whole[..0],
        &whole[..1],
        &whole[..last],
        &whole[..whole.len() - 1],
        &flipped,
    ];
    for bytes in cases {
        std::fs::write(path.join("headers.dat"), bytes).unwrap();
        check_headers_damaged(path);
    }
    std::fs::remove_file(path.join("headers.dat")).unwrap();
    check_headers_damaged(path);
    // Without the first record the others have no parent.
    std::fs::write(path.join("headers.dat"), &whole[HEADER_RECORD as usize..]).unwrap();
    check_headers_damaged(path);
    // Nothing else was touched.
    std::fs::write(path.join("headers.dat"), &whole).unwrap();
    check_the_rest(path, 110);
}

#[test]
fn a_store_that_is_gone_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    connect(&mut open(directory.path(), every_block(Some(115))), &[&CHAIN.blocks()]);
    let store = directory.path().join(common::STORE);
    std::fs::remove_dir_all(&store).unwrap();
    let headers = directory.path().join("headers.dat");
    let before = std::fs::read(&headers).unwrap();
    let builder = Engine::builder(directory.path()).options(every_block(None));
    let error = builder.open(verifier(SIGNATURES)).err().expect("it is refused");
    assert!(
        matches!(&error, OpenError::Damaged { path, .. } if *path == store),
        "{error}"
    );
    assert_eq!(std::fs::read(&headers).unwrap(), before);
}

/// The end of the file of submitted blocks is cut off before it was flushed.
#[test]
fn submitted_blocks_are_cut_off() {
    let chain = Chain::of(6);
    for bytes in [1, 8, 9, 80, 120] {
        let directory = tempfile::tempdir().unwrap();
        let mut engine = open(directory.path(), at_the_end(None));
        for block in &chain.blocks[1..4] {
            submit_good(&mut engine, block);
        }
        engine.flush().unwrap();
        submit_good(&mut engine, &chain.blocks[4]);
        submit_good(&mut engine, &chain.blocks[5]);
        drop(engine);
        cut(&directory.path().join("blocks/blk00000.dat"), bytes);
        let mut engine = open(directory.path(), at_the_end(None));
        assert_eq!(engine.connect(&[], &mut ()).unwrap().height, 4, "{bytes}");
        let again: &[Block] = &chain.blocks[4..];
        let verdicts: Vec<_> = again.iter().map(|block| submit(&mut engine, block).verdict).collect();
        assert_eq!(verdicts, [Verdict::Duplicate, Verdict::Connected, Verdict::Connected]);
        assert_eq!(figures(&engine), figures_of(&chain));
        drop(engine);
        let mut engine = open(directory.path(), at_the_end(None));
        assert_eq!(connect(&mut engine, &[]).tip, chain.hash());
    }
}

/// A header that came only with a wrong body is forgotten at a restart. The blocks above it are
/// kept, and are connected when the right body comes, alone or in a file.
#[test]
fn kept_blocks_wait_for_their_parent_over_a_restart() {
    for in_file in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let chain = Chain::of(3);
        let mut wrong = chain.blocks[1].clone();
        wrong.txdata[0].input[0].witness = bitcoin::Witness::from_slice(&[[7; 32]]);
        {
            let mut engine = open(&data, at_the_end(None));
            let submission = submit(&mut engine, &wrong);
            assert_eq!(submission.verdict, Verdict::Invalid, "{submission:?}");
            for block in &chain.blocks[2..] {
                submit_side(&mut engine, block);
            }
        }
        let mut engine = open(&data, at_the_end(None));
        if in_file {
            let file = home.path().join("blk00000.dat");
            let file = common::write_blocks(&file, &chain.blocks[1..2]);
            let report = connect(&mut engine, &[&file]);
            assert_eq!((report.height, report.leftovers), (3, 0));
        } else {
            let submission = submit(&mut engine, &chain.blocks[1]);
            assert_eq!(submission.verdict, Verdict::Connected, "{submission:?}");
        }
        assert_eq!(engine.tip_hash(), chain.hash());
        let mut longer = chain.clone();
        longer.mine(1);
        submit_good(&mut engine, longer.tip());
    }
}

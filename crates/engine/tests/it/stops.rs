//! Stops between blocks that are verified, and inside of files that are searched.

use super::{SIGNATURES, options};
use crate::common::{Chain, LARGE, open, regtest, verifier, write_blocks};
use blockmill_engine::inspect::verify_blocks::Problem;
use blockmill_engine::inspect::verify_files::{FilesOptions, Stopped, verify_files};
use blockmill_engine::report::Halt;
use blockmill_engine::{Event, Observer, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All blocks.
const ONE_THREAD: FilesOptions = FilesOptions {
    only: None,
    threads: 1,
    signatures: SIGNATURES,
};

/// Asks to stop at a height, or as soon as `headers` headers are found.
struct StopAt {
    stop: Arc<AtomicBool>,
    height: u32,
    headers: usize,
    looks: usize,
}

impl StopAt {
    fn new(height: u32, headers: usize) -> Self {
        Self {
            stop: Arc::default(),
            height,
            headers,
            looks: 0,
        }
    }
}

impl Observer for StopAt {
    fn event(&mut self, event: &Event<'_>) {
        let is_reached = match event {
            Event::Progress(progress) => progress.height >= self.height,
            Event::Indexing(indexing) => {
                assert!(indexing.offset < indexing.bytes && indexing.file <= indexing.files);
                self.looks += 1;
                indexing.headers >= self.headers
            }
            _ => false,
        };
        self.stop.fetch_or(is_reached, Ordering::Relaxed);
    }
}

#[test]
fn verification_says_how_many_blocks_are_left() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = [write_blocks(
        &directory.path().join("blk00000.dat"),
        &Chain::of(20).blocks,
    )];
    let verify = |mut observer: StopAt| {
        let stop = Arc::clone(&observer.stop);
        let verifier = Arc::new(verifier(SIGNATURES));
        verify_files(
            &blocks,
            &regtest().params(),
            ONE_THREAD,
            &verifier,
            &stop,
            &mut observer,
        )
        .unwrap()
    };
    let whole = verify(StopAt::new(u32::MAX, usize::MAX));
    assert_eq!((whole.stopped, whole.unverified.len()), (None, 20));
    assert!(matches!(whole.unverified[0].problem, Problem::NoUndoFile(_)));
    let part = verify(StopAt::new(7, usize::MAX));
    assert_eq!((part.stopped, part.unverified.len()), (Some(Stopped::Before(13)), 7));
    let none = StopAt::new(0, usize::MAX);
    none.stop.store(true, Ordering::Relaxed);
    let none = verify(none);
    assert_eq!((none.stopped, none.unverified.len()), (Some(Stopped::Indexing), 0));
}

#[test]
fn a_search_is_stopped_inside_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(3_000);
    let blocks = [write_blocks(&directory.path().join("blk00000.dat"), &chain.blocks)];
    let connect = |name: &str, mut observer: StopAt| {
        let options = Options {
            stop: Arc::clone(&observer.stop),
            ..options(1, LARGE)
        };
        let mut engine = open(&directory.path().join(name), options);
        let report = engine.connect(&blocks, &mut observer).unwrap();
        (report, observer.looks)
    };
    let (whole, looks) = connect("whole", StopAt::new(u32::MAX, usize::MAX));
    assert_eq!((whole.halt, whole.height), (Halt::Finished, 3_000));
    assert!(looks > 5, "{looks} looks in half a megabyte");
    let (part, looks_before) = connect("part", StopAt::new(u32::MAX, 1_000));
    assert_eq!((part.halt, part.height, part.leftovers), (Halt::Stopped, 0, 0));
    assert!(looks_before < looks);
}

/// What a search did not come to is searched by the next run of the same engine.
#[test]
fn a_search_that_was_stopped_is_made_up_for() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(3_000);
    let blocks = [write_blocks(&directory.path().join("blk00000.dat"), &chain.blocks)];
    let mut observer = StopAt::new(u32::MAX, 1_000);
    let stop = Arc::clone(&observer.stop);
    let options = Options {
        stop: Arc::clone(&stop),
        ..options(1, LARGE)
    };
    let mut engine = open(&directory.path().join("data"), options);
    let report = engine.connect(&blocks, &mut observer).unwrap();
    assert_eq!((report.halt, report.height), (Halt::Stopped, 0));
    stop.store(false, Ordering::Relaxed);
    let report = engine.connect(&blocks, &mut ()).unwrap();
    assert_eq!((report.halt, report.height), (Halt::Finished, 3_000));
}

//! A store whose end is damaged or lost. Readers do not take the older set that it has for the last
//! one; a writer goes on from there, and says so.

use crate::common::generated::{copy_all, scratch};
use crate::common::{Chain, CoreEngine, LARGE, builder, figures, figures_of, options, verifier, write_blocks};
use blockmill_blockfiles::disk::Disk;
use blockmill_engine::inspect::doctor::examine;
use blockmill_engine::{CoinLookup, Event, Observer, Older, OpenError, Options, Status, UtxoSet};
use blockmill_faultdisk::{Failing, JournalDisk};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

/// Height up to which the store is whole, and height that it had.
const FOUND: u32 = 17;
pub(crate) const SYNCED: u32 = 20;

/// Flushes after every block.
fn flushing() -> Options {
    Options {
        flush_interval: Duration::ZERO,
        ..options(1, LARGE)
    }
}

/// Block files, and a data directory of the first 20 blocks, whose last commits are lost.
pub(crate) struct Damaged {
    pub(crate) chain: Chain,
    pub(crate) blocks: PathBuf,
    pub(crate) data: PathBuf,
    _folder: TempDir,
}

impl Damaged {
    pub(crate) fn new() -> Self {
        let folder = scratch();
        let chain = Chain::of(SYNCED + 5);
        let blocks = write_blocks(&folder.path().join("blocks.dat"), &chain.blocks);
        let data = folder.path().join("data");
        let options = Options {
            stop_at_height: Some(SYNCED),
            ..flushing()
        };
        let mut engine = crate::common::open(&data, options);
        engine.connect(std::slice::from_ref(&blocks), &mut ()).unwrap();
        drop(engine);
        let segment = data.join("coins.log/segment-00000001");
        let bytes = std::fs::read(&segment).unwrap();
        // Each flush ends with a page of kind 6.
        let ends = (1..).zip(bytes.chunks(4096)).filter(|(_, page)| page[4] == 6);
        let ends: Vec<usize> = ends.map(|(pages, _)| pages * 4096).collect();
        let end = ends[ends.len() - 1 - (SYNCED - FOUND) as usize];
        std::fs::write(&segment, &bytes[..end + 5000]).unwrap();
        let _ = std::fs::remove_file(data.join("coins.log/checkpoint"));
        Self {
            chain,
            blocks,
            data,
            _folder: folder,
        }
    }

    /// The calls to the disk of a writer that mends the store and connects all blocks.
    fn calls_of_a_writer(&self) -> usize {
        let disk = JournalDisk::new(Failing::Nothing);
        let folder = scratch();
        let data = folder.path().join("whole");
        copy_all(&self.data, &data);
        let mut engine = open_on(disk.clone(), &data).unwrap();
        engine.connect(std::slice::from_ref(&self.blocks), &mut ()).unwrap();
        drop(engine);
        disk.calls()
    }
}

/// The heights that a writer says.
#[derive(Default)]
struct Said(Vec<(u32, u32)>);

impl Observer for Said {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::StoreOlder { older, .. } = event {
            self.0.push((older.found.height, older.synced.height));
        }
    }
}

fn older_of<T>(opened: Result<T, OpenError>) -> Option<Older> {
    match opened {
        Ok(_) => None,
        Err(OpenError::Older { older, .. }) => Some(older),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn readers_refuse_an_older_set_and_a_writer_mends_it() {
    let damaged = Damaged::new();
    let (data, chain) = (&damaged.data, &damaged.chain);
    for older in [
        older_of(UtxoSet::open(data, 1)),
        older_of(CoinLookup::open(data)),
        older_of(Status::of(data)),
    ] {
        let older = older.expect("it is older");
        assert_eq!((older.found.height, older.synced.height), (FOUND, SYNCED));
        assert_eq!(older.found.hash, crate::common::hash_of(&chain.blocks[FOUND as usize]));
        assert_eq!(
            older.synced.hash,
            crate::common::hash_of(&chain.blocks[SYNCED as usize])
        );
    }
    let findings = examine(data, &AtomicBool::new(false), &mut ()).unwrap();
    assert_eq!(findings.is_sound(), Some(false), "{findings:?}");

    // A writer that finds no block leaves it so: the directory has retained the ones above.
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let mut said = Said::default();
    let mut engine = crate::common::open(data, flushing());
    engine.connect(&[], &mut said).unwrap();
    assert_eq!((&said.0[..], engine.height()), (&[(FOUND, SYNCED)][..], FOUND));
    drop(engine);
    assert!(older_of(UtxoSet::open(data, 1)).is_some());
    let options = Options {
        stop_at_height: Some(SYNCED),
        ..flushing()
    };
    let mut engine = crate::common::open(data, options);
    for _ in 0..2 {
        engine
            .connect(std::slice::from_ref(&damaged.blocks), &mut said)
            .unwrap();
    }
    assert_eq!(said.0, [(FOUND, SYNCED); 2], "said once by each");
    drop(engine);
    let set = UtxoSet::open(data, 1).unwrap();
    assert_eq!(set.tip().height, SYNCED);
    let findings = examine(data, &AtomicBool::new(false), &mut ()).unwrap();
    assert_eq!(findings.is_sound(), Some(true), "{findings:?}");
}

fn open_on(disk: JournalDisk, data: &Path) -> Result<CoreEngine, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk);
    builder(data)
        .disk(disk)
        .options(flushing())
        .open(verifier(flushing().signatures))
}

/// A writer that mends the store is stopped at each of its calls. What it has committed again is
/// not taken for an older set, although numbers of commits are given twice.
#[test]
fn a_writer_that_is_stopped_while_it_mends_leaves_no_false_mark() {
    let damaged = Damaged::new();
    let folder = scratch();
    let sources = [damaged.blocks.clone()];
    let (mut refused, mut taken) = (0, 0);
    for call in 0..damaged.calls_of_a_writer() {
        let data = folder.path().join(format!("left-{call}"));
        copy_all(&damaged.data, &data);
        let disk = JournalDisk::new(Failing::From(call, ErrorKind::Other));
        if let Ok(mut engine) = open_on(disk, &data) {
            let _ = engine.connect(&sources, &mut ());
        }
        match UtxoSet::open(&data, 1) {
            Ok(set) => {
                taken += 1;
                // Right before the first commit the mark is set back.
                assert!(set.tip().height >= FOUND, "call {call}");
            }
            Err(OpenError::Older { older, .. }) => {
                refused += 1;
                assert_eq!(older.found.height, FOUND, "call {call}");
            }
            Err(error) => panic!("call {call}: {error}"),
        }
        let mut engine = crate::common::open(&data, flushing());
        engine.connect(&sources, &mut ()).unwrap();
        assert_eq!(figures(&engine), figures_of(&damaged.chain), "call {call}");
        drop(engine);
        assert_eq!(UtxoSet::open(&data, 1).unwrap().tip().height, SYNCED + 5);
        std::fs::remove_dir_all(&data).unwrap();
    }
    assert!(refused > 5 && taken > 20, "{refused} {taken}");
}

/// One call of a writer fails. Where nothing was committed again, readers go on to say what is
/// missing, also if the mark was set back before.
#[test]
fn a_commit_that_fails_leaves_the_mark() {
    let damaged = Damaged::new();
    let folder = scratch();
    let sources = [damaged.blocks.clone()];
    let mut failed_commits = 0;
    for call in 0..damaged.calls_of_a_writer() {
        let data = folder.path().join(format!("left-{call}"));
        copy_all(&damaged.data, &data);
        let disk = JournalDisk::new(Failing::Once(call, ErrorKind::Other));
        let connected = open_on(disk, &data).map(|mut engine| engine.connect(&sources, &mut ()).is_ok());
        match UtxoSet::open(&data, 1) {
            Ok(set) => assert!(set.tip().height > FOUND, "call {call}"),
            Err(OpenError::Older { .. }) => failed_commits += usize::from(connected.is_ok_and(|ok| !ok)),
            Err(error) => panic!("call {call}: {error}"),
        }
        std::fs::remove_dir_all(&data).unwrap();
    }
    assert!(failed_commits > 3, "{failed_commits}");
}

/// A mark that is torn, or that is gone, says nothing about the store.
#[test]
fn without_a_mark_the_older_set_is_taken() {
    let damaged = Damaged::new();
    let mark = damaged.data.join("commit.dat");
    let whole = std::fs::read(&mark).unwrap();
    std::fs::write(&mark, &whole[..50]).unwrap();
    for _ in 0..2 {
        let set = UtxoSet::open(&damaged.data, 1).unwrap();
        assert_eq!(set.tip().height, FOUND);
        let status = Status::of(&damaged.data).unwrap();
        assert_eq!((status.tip, status.coins), (set.tip(), FOUND.into()));
        let _ = std::fs::remove_file(&mark);
    }
    // The next writer makes one, without a block, too.
    drop(crate::common::open(&damaged.data, flushing()));
    assert!(mark.exists());
    assert_eq!(Status::of(&damaged.data).unwrap().tip.height, FOUND);
}

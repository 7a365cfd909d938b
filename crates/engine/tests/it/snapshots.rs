//! Snapshots, where tests of the command are not enough: loads that are cut off, and branches that
//! leave the chain below a snapshot.

use super::options;
use crate::common::generated::copy_all;
use crate::common::{
    Chain, CoreEngine, LARGE, LOADING, STORE, connect, figures, figures_of, open, regtest, write_blocks,
};
use blockmill_block::BlockHash;
use blockmill_engine::datadir::snapshot;
use blockmill_engine::datadir::snapshot::DumpSnapshotError;
use blockmill_engine::inspect::doctor::{Health, examine};
use blockmill_engine::{DataDir, LoadSnapshotError, Remedy, UtxoSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// Height of the snapshot.
const BASE: u32 = 110;

struct Setup {
    scratch: TempDir,
    chain: Chain,
    blocks: PathBuf,
    snapshot: PathBuf,
    hash: BlockHash,
}

impl Setup {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let chain = Chain::of(BASE + 10);
        let blocks = write_blocks(&scratch.path().join("chain.dat"), &chain.blocks);
        let base = write_blocks(&scratch.path().join("base.dat"), &chain.up_to(BASE).blocks);
        let data = scratch.path().join("early");
        let mut engine = open(&data, options(1, LARGE));
        connect(&mut engine, &[&base]);
        let hash = figures(&engine).hash_serialized_3;
        drop(engine);
        let snapshot = scratch.path().join("snapshot");
        let set = UtxoSet::open(&data, 1).unwrap();
        let stats = snapshot::dump(&set, &snapshot, &AtomicBool::new(false), &mut ()).unwrap();
        assert_eq!((stats.height, stats.hash_serialized_3), (BASE, hash));
        Self {
            scratch,
            chain,
            blocks,
            snapshot,
            hash,
        }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn engine(&self) -> CoreEngine {
        open(&self.data(), options(1, LARGE))
    }

    fn load(&self, engine: CoreEngine) -> Result<(), LoadSnapshotError> {
        let sources = [self.blocks.clone()];
        engine
            .load_snapshot(&sources, &self.snapshot, Some(self.hash), &mut ())
            .map(|stats| assert_eq!(stats.hash_serialized_3, self.hash))
    }
}

#[test]
fn a_branch_that_leaves_below_a_snapshot_cannot_be_taken_and_one_above_can() {
    let setup = Setup::new();
    setup.load(setup.engine()).unwrap();
    let mut engine = setup.engine();
    connect(&mut engine, &[&setup.blocks]);
    assert_eq!(engine.height(), BASE + 10);
    // These blocks differ from those of the chain: they come a second later.
    let branch = |from: u32, blocks: u32| {
        let mut branch = setup.chain.up_to(from);
        branch.push(branch.next().header(|header| header.time += 1).build());
        branch.mine(blocks - 1);
        branch
    };
    let above = branch(BASE + 3, 10);
    let file = write_blocks(&setup.scratch.path().join("above.dat"), &above.blocks[BASE as usize..]);
    connect(&mut engine, &[&file]);
    assert_eq!(engine.tip_hash(), above.hash());
    assert_eq!(figures(&engine), figures_of(&above));
    let below = branch(BASE - 1, 30);
    let file = write_blocks(&setup.scratch.path().join("below.dat"), &below.blocks[BASE as usize..]);
    let error = engine.connect(&[file], &mut ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("snapshot") && text.contains(&format!("height {BASE}")),
        "{text}"
    );
}

/// A load that is stopped ends with its own error, and leaves no file.
#[test]
fn a_dump_that_is_stopped_leaves_nothing() {
    let setup = Setup::new();
    let set = UtxoSet::open(&setup.scratch.path().join("early"), 1).unwrap();
    let path = setup.scratch.path().join("other");
    let before = std::fs::read_dir(setup.scratch.path()).unwrap().count();
    let error = snapshot::dump(&set, &path, &AtomicBool::new(true), &mut ()).unwrap_err();
    assert!(matches!(&error, DumpSnapshotError::Stopped { path: named } if *named == path));
    assert_eq!(std::fs::read_dir(setup.scratch.path()).unwrap().count(), before);
}

#[test]
fn a_load_that_was_cut_off_leaves_a_directory_that_works() {
    let setup = Setup::new();
    let (store, loading) = (setup.data().join(STORE), setup.data().join(LOADING));
    drop(setup.engine());
    let empty = setup.scratch.path().join("empty");
    copy_all(&store, &empty);
    let undo_the_rename = || {
        std::fs::rename(&store, &loading).unwrap();
        copy_all(&empty, &store);
    };
    // Killed after the headers and the mark were written, before the store got its name.
    setup.load(setup.engine()).unwrap();
    undo_the_rename();
    let findings = examine(&setup.data(), &AtomicBool::new(false), &mut ()).unwrap();
    assert_eq!(findings.is_sound(), Some(true), "{findings:?}");
    assert!(findings.0.iter().any(|finding| finding.part == LOADING));
    let engine = setup.engine();
    assert_eq!((engine.height(), engine.directory().snapshot()), (0, None));
    assert!(!loading.exists());
    setup.load(engine).unwrap();
    assert!(setup.engine().directory().snapshot().is_some());

    // The same, and then the chain is connected from the first block on.
    undo_the_rename();
    let mut engine = setup.engine();
    connect(&mut engine, &[&setup.blocks]);
    assert_eq!(figures(&engine), figures_of(&setup.chain));
    drop(engine);
    let engine = setup.engine();
    assert_eq!((engine.height(), engine.directory().snapshot()), (BASE + 10, None));
}

/// The last steps of a load into a log: the empty one goes, and the loaded one gets its name.
/// Between them who reads finds what the next engine finds.
#[test]
fn a_log_without_its_name_is_read() {
    let setup = Setup::new();
    setup.load(setup.engine()).unwrap();
    let part = |name: &str| setup.data().join(name);
    let (path, loading) = (part(STORE), part(LOADING));
    let look = || {
        let findings = examine(&setup.data(), &AtomicBool::new(false), &mut ()).unwrap();
        assert_eq!(findings.is_sound(), Some(true), "{findings:?}");
        let of_loading = findings.0.iter().filter(|finding| finding.part == LOADING);
        let health: Vec<_> = of_loading
            .map(|finding| (finding.health, finding.detail.clone()))
            .collect();
        assert_eq!(health.len(), 2, "{findings:?}");
        assert!(health[0].0 == Health::Sound && health[0].1.contains(&setup.hash.to_string()));
        assert!(health[1].0 == Health::Harmless && health[1].1.contains("the name coins.log"));
        let set = UtxoSet::open(&setup.data(), 1).unwrap();
        assert_eq!((set.tip().height, set.snapshot_height()), (BASE, Some(BASE)));
        let dumped = setup.scratch.path().join("dumped");
        let stats = snapshot::dump(&set, &dumped, &AtomicBool::new(false), &mut ()).unwrap();
        assert_eq!(stats.hash_serialized_3, setup.hash);
        std::fs::remove_file(dumped).unwrap();
    };
    // Nothing of the empty log is left, or its folder, or a file that is not of the coins.
    for left in [None, Some(None), Some(Some("checkpoint"))] {
        std::fs::rename(&path, &loading).unwrap();
        if let Some(file) = left {
            std::fs::create_dir(&path).unwrap();
            if let Some(file) = file {
                std::fs::write(path.join(file), []).unwrap();
            }
        }
        look();
        let engine = setup.engine();
        assert_eq!(
            (engine.height(), figures(&engine).hash_serialized_3),
            (BASE, setup.hash)
        );
        assert!(path.exists() && !loading.exists());
    }
}

#[test]
fn a_snapshot_without_its_mark_is_not_taken_for_what_was_validated() {
    let setup = Setup::new();
    setup.load(setup.engine()).unwrap();
    let meta = setup.data().join("meta.json");
    std::fs::remove_file(&meta).unwrap();
    let error = DataDir::open(&setup.data(), Some(&regtest())).unwrap_err();
    assert!(error.to_string().contains("snapshot"), "{error}");
    assert!(!meta.exists());
    let findings = examine(&setup.data(), &AtomicBool::new(false), &mut ()).unwrap();
    assert_eq!(findings.0[0].remedy, Some(Remedy::NewDirectory), "{findings:?}");
}

/// Where a file is changed, and how: a bit is another.
fn changed(path: &Path, bytes: &[u8], offset: usize) {
    let mut bytes = bytes.to_vec();
    bytes[offset] ^= 1 << (offset % 8);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn no_byte_may_be_another() {
    let mut setup = Setup::new();
    let bytes = std::fs::read(&setup.snapshot).unwrap();
    setup.snapshot = setup.scratch.path().join("changed");
    // Every byte of the metadata, and some bytes of the coins, so that all bytes of a coin are met.
    let offsets = (0..51).chain((51..bytes.len()).step_by(37));
    for offset in offsets {
        changed(&setup.snapshot, &bytes, offset);
        let error = setup.load(setup.engine()).unwrap_err();
        use LoadSnapshotError::{Base, Content, WrongHash};
        let refused = matches!(error, Content { .. } | Base { .. } | WrongHash { .. });
        assert!(refused, "{offset}: {error}");
    }
    std::fs::write(&setup.snapshot, &bytes).unwrap();
    setup.load(setup.engine()).unwrap();
}

//! Block files that change while they are read. Connected blocks stay, errors name the rest, and no
//! block is connected that no file has.

use super::options;
use crate::common::generated::{Generated, HEIGHT};
use crate::common::{LARGE, connect, figures, open};
use blockmill_chaingen::Profile;
use blockmill_engine::{Event, Observer, RunOutcome};
use blockmill_rules::RejectKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::LazyLock;

static CHAIN: LazyLock<Generated> = LazyLock::new(|| Generated::new(Profile::Mixed));

/// Does something to a file when a height is reached.
struct ChangeAt<F: FnMut()>(u32, Option<F>);

impl<F: FnMut()> Observer for ChangeAt<F> {
    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Progress(progress) if progress.height >= self.0)
            && let Some(mut change) = self.1.take()
        {
            change();
        }
    }
}

/// A copy of the chain's file.
fn copy(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("chain.dat");
    std::fs::copy(CHAIN.blocks().join("blk00000.dat"), &path).unwrap();
    path
}

#[test]
fn a_file_that_shrinks_or_changes_meanwhile() {
    let whole = std::fs::read(CHAIN.blocks().join("blk00000.dat")).unwrap();
    let half = whole.len() as u64 / 2;
    let shrink = |path: &PathBuf| File::options().write(true).open(path).unwrap().set_len(half).unwrap();
    let gone = |path: &PathBuf| File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    let noise = |path: &PathBuf| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![0x5a; (whole.len() as u64 - half) as usize], half)
            .unwrap();
    };
    let zeros = |path: &PathBuf| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![0; (whole.len() as u64 - half) as usize], half)
            .unwrap();
    };
    let changes: [&dyn Fn(&PathBuf); 4] = [&shrink, &gone, &noise, &zeros];
    for (number, change) in changes.into_iter().enumerate() {
        for threads in [1, 2] {
            let directory = tempfile::tempdir().unwrap();
            let path = copy(&directory);
            let data = directory.path().join("data");
            let mut observer = ChangeAt(20, Some(|| change(&path)));
            let mut engine = open(&data, options(threads, LARGE));
            let report = engine.connect(std::slice::from_ref(&path), &mut observer).unwrap();
            assert!((20..HEIGHT).contains(&report.height), "{number}: {report:?}");
            // A block with a changed second half may still decode. Then it does not match its
            // header.
            let next = match (&report.unreadable[..], &report.rejected[..]) {
                ([first, ..], []) => (first.height.unwrap(), first.path.clone(), RunOutcome::Incomplete),
                ([], [first]) if first.reject.kind == RejectKind::Mutated => {
                    (first.height, first.path.clone(), RunOutcome::Rejected)
                }
                other => panic!("{number}: {other:?}"),
            };
            let expected = (report.height + 1, path.canonicalize().unwrap(), report.outcome());
            assert_eq!(next, expected);
            drop(engine);
            // With the right file again it goes on to the end.
            std::fs::write(&path, &whole).unwrap();
            let mut engine = open(&data, options(threads, LARGE));
            assert_eq!(connect(&mut engine, &[&path]).start_height, report.height);
            CHAIN.assert_tip(&figures(&engine));
        }
    }
}

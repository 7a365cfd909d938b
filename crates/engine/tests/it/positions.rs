//! Where blocks are is kept: a run reads the files that are new or have changed, and no others.

use super::options;
use crate::common::{Chain, LARGE, Node, write_blocks};
use blockmill_engine::{ConnectReport, Event, Observer};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A search after this time, by the clock of this machine, is trusted if it finds a file unchanged.
const SETTLED: Duration = Duration::from_millis(5_200);

/// Blocks in a file.
const BLOCKS: usize = 3;

/// The numbers of the files that are read.
#[derive(Default)]
struct Read(BTreeSet<usize>);

impl Observer for Read {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Indexing(indexing) = event {
            self.0.insert(indexing.file - 1);
        }
    }
}

fn connect(node: &mut Node, folder: &Path) -> (ConnectReport, Vec<usize>) {
    let mut read = Read::default();
    let report = node.engine.connect(&[folder.to_owned()], &mut read).unwrap();
    (report, read.0.into_iter().collect())
}

fn file(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("blk{number:05}.dat"))
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    let mut node = Node::new(options(2, LARGE));
    let folder = node.file("blocks");
    std::fs::create_dir(&folder).unwrap();
    let chain = Chain::of(62);
    let files: Vec<_> = chain.blocks.chunks(BLOCKS).collect();
    for (number, blocks) in files[..20].iter().enumerate() {
        write_blocks(&file(&folder, number), *blocks);
    }
    let (report, read) = connect(&mut node, &folder);
    assert_eq!((report.height, read), (59, (0..20).collect()));
    // What has just changed may change again with the same times.
    sleep(SETTLED);
    node = node.restart();
    assert_eq!(connect(&mut node, &folder).1.len(), 20);
    node = node.restart();
    assert!(connect(&mut node, &folder).1.is_empty());

    // A new file, and no other, in a new process and in the same.
    node = node.restart();
    write_blocks(&file(&folder, 20), &files[20][..1]);
    for height in [60, 60] {
        let (report, read) = connect(&mut node, &folder);
        assert_eq!((report.height, read), (height, vec![20]));
    }

    // A file that grows, and one that is written once more.
    write_blocks(&file(&folder, 20), files[20]);
    write_blocks(&file(&folder, 7), files[7]);
    node = node.restart();
    let (report, read) = connect(&mut node, &folder);
    assert_eq!((report.height, read), (62, vec![7, 20]));

    // Another key, and back.
    sleep(SETTLED);
    node = node.restart();
    assert_eq!(connect(&mut node, &folder).1, [7, 20]);
    std::fs::write(folder.join("xor.dat"), [1; 8]).unwrap();
    node = node.restart();
    let (report, read) = connect(&mut node, &folder);
    assert_eq!((report.damages.len(), read.len()), (21, 21));
    std::fs::remove_file(folder.join("xor.dat")).unwrap();
    node = node.restart();
    let (report, read) = connect(&mut node, &folder);
    assert_eq!((report.damages.len(), report.height, read.len()), (0, 62, 0));

    // Without what was kept everything is read.
    let kept = node.file("data/places.dat");
    for wrong in [None, Some(b"no such file")] {
        std::fs::remove_file(&kept).unwrap();
        if let Some(bytes) = wrong {
            std::fs::write(&kept, bytes).unwrap();
        }
        node = node.restart();
        let (report, read) = connect(&mut node, &folder);
        assert_eq!((report.tip, read.len()), (chain.hash(), 21));
    }
}

/// A damaged file is searched by every run, and its damage reported.
#[test]
fn damage_is_reported_by_every_run() {
    let mut node = Node::new(options(2, LARGE));
    let folder = node.file("blocks");
    std::fs::create_dir(&folder).unwrap();
    let chain = Chain::of(4);
    write_blocks(&file(&folder, 0), &chain.blocks[..3]);
    let last = write_blocks(&file(&folder, 1), &chain.blocks[3..]);
    let length = std::fs::metadata(&last).unwrap().len();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&last)
        .unwrap()
        .set_len(length - 5)
        .unwrap();
    for expected in [vec![0, 1], vec![0, 1], vec![1]] {
        node = node.restart();
        let (report, read) = connect(&mut node, &folder);
        assert_eq!((report.height, report.damages.len(), read), (3, 1, expected));
        sleep(SETTLED);
    }
}

//! Searches that are noted, and found again.

use super::*;
use blockmill_block::Network;
use blockmill_blockfiles::{BlockFileWriter, Position, SystemDisk};
use blockmill_rules::Params;

/// A folder with a block file that was left alone, and one beside it for the positions.
pub(super) struct Folder {
    pub(super) directory: tempfile::TempDir,
    pub(super) files: BlockFiles,
}

impl Folder {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut files = BlockFiles::new();
        let magic = Network::Regtest.magic();
        let mut writer = BlockFileWriter::open(&directory.path().join("blocks"), magic, None).unwrap();
        writer.append(&[7; 100], &mut files).unwrap();
        Self { directory, files }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("places.dat")
    }

    pub(super) fn open(&self) -> FoundPositions {
        FoundPositions::open(Arc::new(SystemDisk), self.path()).unwrap()
    }

    pub(super) fn begin(&self, positions: &FoundPositions) -> Result<Vec<Record>, Begun> {
        let begun = positions.begin(&self.files, 0).unwrap();
        let known = positions
            .known(&begun, 0, ScanDepth::Lengths)
            .map(|records| records.collect());
        known.ok_or(begun)
    }

    /// As if time had passed since the last change.
    pub(super) fn begin_later(&self, positions: &FoundPositions) -> Begun {
        let begun = self.begin(positions).unwrap_err();
        assert!(!begun.is_old);
        Begun { is_old: true, ..begun }
    }
}

pub(super) fn record(offset: u64) -> Record {
    let header = Params::new(Network::Regtest, None).genesis;
    Record {
        position: Position {
            file: 0,
            length: 100,
            offset,
        },
        header,
        hash: header.hash(),
    }
}

pub(super) fn note(positions: &mut FoundPositions, begun: Begun, records: &[Record]) {
    let mut entries = Vec::new();
    positions.note(begun, records, (ScanDepth::Lengths, false), &mut entries);
    positions.write(&entries).unwrap();
}

#[test]
fn a_file_that_stays_is_searched_once() {
    let folder = Folder::new();
    let mut positions = folder.open();
    let found = [record(8), record(200)];
    let begun = folder.begin(&positions).unwrap_err();
    note(&mut positions, begun, &found);
    let begun = folder.begin_later(&folder.open());
    note(&mut positions, begun, &found);
    let mut positions = folder.open();
    assert_eq!(folder.begin(&positions).unwrap(), found);
    let files: Vec<_> = positions
        .files()
        .map(|(path, search)| (path, search.records(0).collect::<Vec<_>>()))
        .collect();
    assert_eq!(files, [(folder.files.path(0), found.to_vec())]);
    // A change of the content alone: the file is still the same one.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.files.path(0))
        .unwrap();
    file.set_len(108).unwrap();
    let begun = folder.begin_later(&positions);
    note(&mut positions, begun, &found[..1]);
    assert_eq!(folder.begin(&folder.open()).unwrap(), found[..1]);
}

/// Readers have the records of a file with damage, and the next run searches it again.
#[test]
fn a_file_with_damage_is_kept_and_searched_again() {
    let folder = Folder::new();
    let mut positions = folder.open();
    let begun = folder.begin_later(&positions);
    let mut entries = Vec::new();
    positions.note(begun, &[record(8)], (ScanDepth::Lengths, true), &mut entries);
    positions.write(&entries).unwrap();
    let mut positions = folder.open();
    let begun = folder.begin(&positions).unwrap_err();
    assert_eq!(positions.files().next().unwrap().1.records(0).count(), 1);
    // Once contents were read, they are read again.
    assert_eq!(positions.depth(&begun), ScanDepth::Lengths);
    for again in [true, false] {
        let begun = Begun {
            is_old: true,
            ..positions.begin(&folder.files, 0).unwrap()
        };
        entries.clear();
        positions.note(begun, &[record(8)], (ScanDepth::Contents, again), &mut entries);
        positions.write(&entries).unwrap();
        positions = folder.open();
        assert_eq!(folder.begin(&positions).is_err(), again);
        assert_eq!(
            positions.depth(&positions.begin(&folder.files, 0).unwrap()),
            ScanDepth::Contents
        );
    }
}

#[test]
fn entries_that_no_longer_count_go() {
    let folder = Folder::new();
    let many = vec![record(8); 4_000];
    let mut lengths = Vec::new();
    for _ in 0..8 {
        let mut positions = folder.open();
        let begun = Begun {
            path: folder.files.path(0).to_owned(),
            mark: Mark::new(&std::fs::metadata(folder.files.path(0)).unwrap(), folder.files.key(0)),
            at: Moment::now(),
            is_old: true,
        };
        note(&mut positions, begun, &many);
        lengths.push(std::fs::metadata(folder.path()).unwrap().len());
    }
    assert!(lengths.iter().all(|&length| length < 8 * 400_000), "{lengths:?}");
    assert!(lengths.windows(2).any(|pair| pair[1] < pair[0]), "{lengths:?}");
    assert_eq!(folder.begin(&folder.open()).unwrap(), many);
}

#[test]
fn without_a_file_there_is_nothing() {
    let folder = Folder::new();
    let positions = FoundPositions::read(&folder.path()).unwrap();
    assert!(positions.searches.is_empty());
    assert!(!folder.path().exists());
}

//! Searches that are noted, and found again.

use super::*;
use blockmill_block::Network;
use blockmill_blockfiles::{BlockFileWriter, SystemDisk};
use blockmill_rules::Params;
use std::time::SystemTime;

/// A folder with a block file that was left alone, and one beside it for the positions.
struct Folder {
    directory: tempfile::TempDir,
    files: BlockFiles,
}

impl Folder {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut files = BlockFiles::new();
        let magic = Network::Regtest.magic();
        let mut writer = BlockFileWriter::open(&directory.path().join("blocks"), magic, None).unwrap();
        writer.append(&[7; 100], &mut files).unwrap();
        Self { directory, files }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("places.dat")
    }

    fn open(&self) -> FoundPositions {
        FoundPositions::open(Arc::new(SystemDisk), self.path()).unwrap()
    }

    fn begin(&self, positions: &FoundPositions) -> Result<Vec<Record>, Begun> {
        let begun = positions.begin(&self.files, 0).unwrap();
        let known = positions
            .known(&begun, 0, ScanDepth::Lengths)
            .map(|records| records.collect());
        known.ok_or(begun)
    }

    /// As if time had passed since the last change.
    fn begin_later(&self, positions: &FoundPositions) -> Begun {
        let begun = self.begin(positions).unwrap_err();
        assert!(!begun.is_old);
        Begun { is_old: true, ..begun }
    }
}

fn record(offset: u64) -> Record {
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

fn note(positions: &mut FoundPositions, begun: Begun, records: &[Record]) {
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

/// A search counts once an earlier one has seen the file the same, long enough before it; whichever
/// process that was, but of this boot.
#[test]
fn file_is_settled_by_two_searches_apart() {
    let folder = Folder::new();
    let at = |seconds: u64| Moment {
        boot: 1,
        nanoseconds: seconds * 1_000_000_000,
    };
    let note_at = |at| {
        let mut positions = folder.open();
        let begun = positions.begin(&folder.files, 0).unwrap();
        note(&mut positions, Begun { at, ..begun }, &[record(8)]);
        let change = positions.change(&folder.files, 0).unwrap();
        let is_known = folder.begin(&folder.open()).is_ok();
        assert_eq!(is_known, change == Change::None);
        is_known
    };
    assert!(!note_at(at(100)));
    assert!(!note_at(at(104)));
    assert!(note_at(at(105)));
    // A change begins it again, and so does a boot, or a clock that went back.
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.files.path(0))
        .unwrap();
    file.set_len(108).unwrap();
    let other_boot = Moment { boot: 2, ..at(300) };
    for moment in [at(200), at(204), other_boot, at(206), at(100), at(104)] {
        assert!(!note_at(moment), "{moment:?}");
    }
    assert!(note_at(at(105)));
}

/// What lay still while another file of the file system changed is trusted at once, by the clock of
/// the file system, wherever that is. The newest file is not.
#[test]
fn file_older_than_another_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = BlockFiles::new();
    let now = SystemTime::now();
    for (number, age) in [(0, 3 * OLDER_BY), (1, OLDER_BY / 2), (2, Duration::ZERO)] {
        let path = directory.path().join(format!("blk{number:05}.dat"));
        std::fs::write(&path, []).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_modified(now - age).unwrap();
    }
    let numbers = files.add(directory.path()).unwrap();
    let positions = FoundPositions::default();
    let of_marks = |change: &dyn Fn(&mut Mark)| {
        let mut begun: Vec<Begun> = numbers
            .iter()
            .map(|&file| positions.begin(&files, file).unwrap())
            .collect();
        begun.iter_mut().for_each(|begun| change(&mut begun.mark));
        note_old(&mut begun);
        begun.iter().map(|begun| begun.is_old).collect::<Vec<_>>()
    };
    // The inodes have changed a moment ago.
    assert_eq!(of_marks(&|_| ()), [false; 3]);
    let without_ctime = |mark: &mut Mark| mark.changed = 0;
    assert_eq!(of_marks(&without_ctime), [true, false, false]);
    let long_ago = |mark: &mut Mark| (mark.changed, mark.modified) = (0, mark.modified - (1 << 60));
    assert_eq!(of_marks(&long_ago), [true, false, false]);
    // File systems of their own have clocks of their own.
    let apart = |mark: &mut Mark| (mark.changed, mark.device) = (0, mark.inode);
    assert_eq!(of_marks(&apart), [false; 3]);
}

/// A reader gets what is appended, and all of a file that is written anew.
#[test]
fn a_reader_goes_on_where_it_was() {
    let folder = Folder::new();
    let mut positions = folder.open();
    let mut reader = PositionsReader::new(folder.path());
    let found = |reader: &mut PositionsReader| reader.read().unwrap().searches.len();
    assert_eq!(found(&mut reader), 0);
    let write = |positions: &mut FoundPositions, name: &str, count: u64| {
        let mut begun = positions.begin(&folder.files, 0).unwrap();
        begun.path = folder.directory.path().join("blocks").join(name);
        std::fs::write(&begun.path, []).unwrap();
        let records: Vec<_> = (0..count).map(record).collect();
        let mut entries = Vec::new();
        positions.note(begun, &records, (ScanDepth::Lengths, false), &mut entries);
        positions.write(&entries).unwrap();
    };
    write(&mut positions, "one", 1);
    assert_eq!(found(&mut reader), 1);
    reader.forget_known(|_| true);
    write(&mut positions, "two", 2);
    assert_eq!(found(&mut reader), 1);
    // Unknown blocks stay.
    reader.forget_known(|_| false);
    assert_eq!(found(&mut reader), 1);
    reader.forget_known(|_| true);
    let length = || std::fs::metadata(folder.path()).unwrap().len();
    // The last search of a file counts, so the file is written anew in time.
    let before = length();
    for _ in 0..40 {
        write(&mut positions, "three", 1_000);
    }
    assert_eq!(found(&mut reader), 3);
    // Written anew twice, the file may have the inode that it had.
    for _ in 0..80 {
        write(&mut positions, "four", 1_000);
    }
    assert_eq!(found(&mut reader), 4);
    assert!(length() < before + 3 * (GARBAGE_MAX + 100_000), "{}", length());
    assert_eq!(folder.open().searches.len(), 4);
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
fn a_damaged_file_is_read_up_to_the_damage() {
    let folder = Folder::new();
    let mut positions = folder.open();
    let begun = folder.begin_later(&positions);
    note(&mut positions, begun, &[record(8)]);
    let whole = std::fs::read(folder.path()).unwrap();
    for length in 0..whole.len() {
        std::fs::write(folder.path(), &whole[..length]).unwrap();
        let mut positions = folder.open();
        let begun = folder.begin_later(&positions);
        note(&mut positions, begun, &[record(9)]);
        assert_eq!(folder.begin(&folder.open()).unwrap(), [record(9)]);
    }
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        std::fs::write(folder.path(), &damaged).unwrap();
        assert!(folder.begin(&folder.open()).is_err(), "byte {byte}");
        assert!(FoundPositions::read(&folder.path()).unwrap().searches.is_empty());
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

/// Any byte of the last entry that is changed, and any length that a kill may leave.
#[test]
fn what_is_not_whole_is_seen() {
    let folder = Folder::new();
    let health = || FoundPositions::health(&folder.path()).unwrap();
    assert_eq!(health(), None);
    for _ in 0..2 {
        let mut positions = folder.open();
        let begun = positions.begin(&folder.files, 0).unwrap();
        note(&mut positions, begun, &[record(8)]);
    }
    assert_eq!(health(), Some(PositionsHealth::Whole(2)));
    let whole = std::fs::read(folder.path()).unwrap();
    let second = MAGIC.len() + (whole.len() - MAGIC.len()) / 2;
    let starts = [0, MAGIC.len(), second];
    for at in 0..whole.len() {
        let entries = starts[1..].iter().filter(|&&start| start <= at).count();
        let start = starts[entries];
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(folder.path(), bytes).unwrap();
        // A length that is longer than the file is what a kill leaves, too.
        let is_cut_off = entries > 0 && at < start + 4 && matches!(health(), Some(PositionsHealth::CutOff(..)));
        assert!(
            is_cut_off || health() == Some(PositionsHealth::Damaged(start as u64)),
            "{at}: {:?}",
            health()
        );
        std::fs::write(folder.path(), &whole[..at]).unwrap();
        let left = match (entries, at - start) {
            (1.., 0) => PositionsHealth::Whole(entries - 1),
            (_, left) => PositionsHealth::CutOff(entries.saturating_sub(1), left as u64),
        };
        assert_eq!(health(), Some(left), "{at}");
    }
}

//! The undo log on a real file.

use crate::common::{Rng, without_hanging};
use blockmill_block::undo::UndoRecordError;
use blockmill_block::{BlockHash, BlockUndo, CoinRef, Magic};
use blockmill_coins::undo_log::BUFFER_BYTES;
use blockmill_coins::{UndoLog, UndoLogError, UndoPosition};
use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use tempfile::TempDir;

const MAGIC: Magic = Magic([0xfa, 0xbf, 0xb5, 0xda]);
const PARENT: BlockHash = BlockHash([7; 32]);

fn scratch() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("undo.dat");
    (directory, path)
}

fn undo(coins: usize) -> BlockUndo {
    let mut undo = BlockUndo::default();
    for index in 0..coins {
        undo.push_coin(CoinRef {
            value: index as i64,
            height: 5,
            is_coinbase: false,
            script_pubkey: &vec![0x51; index % 40],
        });
        undo.end_transaction();
    }
    undo
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn set_length(path: &Path, length: u64) {
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Appends records of many lengths. One thread of five syncs now and then.
fn append_many(log: &UndoLog, thread: usize) -> Vec<(UndoPosition, Vec<u8>)> {
    const RECORDS: usize = 60;
    const LENGTHS: [usize; 7] = [0, 1, 40, 1_000, 9_000, 60_000, 300_000];
    let mut rng = Rng::new(thread as u64);
    let mut appended = Vec::new();
    for number in 0..RECORDS {
        let length = match number {
            20 if thread.is_multiple_of(4) => BUFFER_BYTES + thread,
            30 if thread.is_multiple_of(4) => BUFFER_BYTES,
            _ => LENGTHS[rng.below(LENGTHS.len())],
        };
        let record = rng.record(length);
        let position = log.append_record(&record).unwrap();
        assert_eq!(position.length as usize, length);
        if thread.is_multiple_of(5) && number.is_multiple_of(7) {
            log.sync().unwrap();
        }
        if number.is_multiple_of(11) {
            assert_eq!(log.read_record(&position).unwrap(), record);
        }
        appended.push((position, record));
    }
    appended
}

fn check_many_writers() {
    const THREADS: usize = 16;
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    let mut all: Vec<_> = thread::scope(|scope| {
        let log = &log;
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || append_many(log, thread)))
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    for (position, record) in &all {
        assert_eq!(log.read_record(position).unwrap(), *record);
    }
    log.sync().unwrap();
    all.sort_by_key(|(position, _)| (position.offset, position.length));
    let mut end = 0;
    let bytes = std::fs::read(&path).unwrap();
    for (position, record) in &all {
        assert_eq!(position.offset, end);
        end = position.end().unwrap();
        assert_eq!(bytes[position.offset as usize..end as usize], record[..]);
    }
    assert_eq!((end, end), (bytes.len() as u64, log.bytes()));
}

#[test]
fn many_writers_at_once() {
    without_hanging(check_many_writers);
}

#[test]
fn undo_data_is_read_while_it_is_in_the_buffer_and_afterwards() {
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    let positions: Vec<_> = (0..4)
        .map(|coins| log.append(MAGIC, &PARENT, &undo(coins)).unwrap())
        .collect();
    assert_eq!((length(&path), log.bytes()), (0, positions[3].end().unwrap()));
    let read = |log: &UndoLog, coins: usize| log.read(MAGIC, &PARENT, &positions[coins]).unwrap();
    for coins in [2, 0, 3, 1] {
        assert_eq!(read(&log, coins), undo(coins));
        assert_eq!(length(&path), log.bytes());
    }
    let other = log.read(MAGIC, &BlockHash([8; 32]), &positions[2]);
    assert!(matches!(other, Err(UndoLogError::Record(UndoRecordError::Checksum))));
    let other = log.read(Magic([1; 4]), &PARENT, &positions[2]);
    assert!(matches!(other, Err(UndoLogError::Record(UndoRecordError::Head))));
    log.sync().unwrap();
    drop(log);
    let log = UndoLog::open(&path, 0).unwrap();
    for coins in 0..4 {
        assert_eq!(read(&log, coins), undo(coins));
    }
}

#[test]
fn positions_outside_of_the_log_are_errors() {
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    let check = |log: &UndoLog, offset, length| {
        let read = log.read_record(&UndoPosition { offset, length });
        assert!(matches!(read, Err(UndoLogError::OutOfRange(_))), "{offset}, {length}");
    };
    check(&log, 0, 1);
    log.append_record(&[5; 100]).unwrap();
    for synced in [false, true] {
        if synced {
            log.sync().unwrap();
        }
        for (offset, length) in [
            (0, 101),
            (100, 1),
            (101, 0),
            (0, u32::MAX),
            (u64::MAX, 0),
            (u64::MAX, u32::MAX),
        ] {
            check(&log, offset, length);
        }
    }
    assert_eq!(log.read_record(&UndoPosition { offset: 100, length: 0 }).unwrap(), []);
    drop(log);
    // The file is shorter than the known end.
    let log = UndoLog::open(&path, 300).unwrap();
    check(&log, 50, 51);
    check(&log, 200, 100);
}

#[test]
fn dropping_writes_nothing() {
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    log.append_record(&[1; 50]).unwrap();
    log.sync().unwrap();
    log.append_record(&[2; 50]).unwrap();
    drop(log);
    assert_eq!(std::fs::read(&path).unwrap(), [1; 50]);
}

#[test]
fn after_a_crash_earlier_records_are_read() {
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    let first = log.append(MAGIC, &PARENT, &undo(3)).unwrap();
    let second = log.append(MAGIC, &PARENT, &undo(5)).unwrap();
    let last = log.append(MAGIC, &PARENT, &undo(1)).unwrap();
    log.sync().unwrap();
    drop(log);
    let whole = std::fs::read(&path).unwrap();
    let garbage = [&whole[..last.offset as usize], &[0xff; 200]].concat();
    let zeros = [&whole[..last.offset as usize], &[0; 200]].concat();
    let cut = (last.offset as usize..whole.len()).map(|length| whole[..length].to_vec());
    for bytes in cut.chain([garbage, zeros]) {
        std::fs::write(&path, &bytes).unwrap();
        let mut log = UndoLog::open(&path, second.end().unwrap()).unwrap();
        assert!(log.read(MAGIC, &PARENT, &last).is_err());
        // Nothing before the known end is overwritten.
        assert_eq!(log.bytes(), bytes.len() as u64);
        log.cut_back(second.end().unwrap()).unwrap();
        assert_eq!(length(&path), second.end().unwrap());
        assert_eq!(log.append(MAGIC, &PARENT, &undo(9)).unwrap().offset, last.offset);
        log.sync().unwrap();
        drop(log);
        let log = UndoLog::open(&path, 0).unwrap();
        for (position, coins) in [(first, 3), (second, 5)] {
            assert_eq!(log.read(MAGIC, &PARENT, &position).unwrap(), undo(coins));
        }
    }
}

#[test]
fn records_go_after_the_known_end_even_if_the_file_is_shorter() {
    let (_directory, path) = scratch();
    let log = UndoLog::open(&path, 0).unwrap();
    let lost = log.append(MAGIC, &PARENT, &undo(3)).unwrap();
    log.sync().unwrap();
    drop(log);
    set_length(&path, 10);
    let mut log = UndoLog::open(&path, lost.end().unwrap()).unwrap();
    log.cut_back(lost.end().unwrap()).unwrap();
    let next = log.append(MAGIC, &PARENT, &undo(4)).unwrap();
    assert_eq!(next.offset, lost.end().unwrap());
    log.sync().unwrap();
    assert_eq!(log.read(MAGIC, &PARENT, &next).unwrap(), undo(4));
    assert!(matches!(log.read(MAGIC, &PARENT, &lost), Err(UndoLogError::Record(_))));
}

#[test]
fn cutting_back_forgets_the_rest_of_file_and_buffer() {
    let (_directory, path) = scratch();
    let mut log = UndoLog::open(&path, 0).unwrap();
    log.append_record(&[1; 100]).unwrap();
    log.sync().unwrap();
    log.append_record(&[2; 50]).unwrap();
    log.cut_back(120).unwrap();
    assert_eq!((log.bytes(), length(&path)), (120, 100));
    log.cut_back(1_000).unwrap();
    assert_eq!(log.bytes(), 120);
    log.cut_back(60).unwrap();
    assert_eq!((log.bytes(), length(&path)), (60, 60));
    // A record that replaces synced records is synced too.
    let position = log.append_record(&[3; 10]).unwrap();
    assert_eq!(position.offset, 60);
    log.sync().unwrap();
    assert_eq!(length(&path), 70);
    assert_eq!(log.read_record(&position).unwrap(), [3; 10]);
}

/// A step of the log's user.
#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Sync,
    Read(prop::sample::Index),
    /// With the synced positions known, and the rest cut back.
    Reopen,
    /// With no position known, and nothing cut back.
    ReopenAsItIs,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..3_000).prop_map(Step::Append),
        1 => (0..2 * BUFFER_BYTES).prop_map(Step::Append),
        2 => Just(Step::Sync),
        4 => any::<prop::sample::Index>().prop_map(Step::Read),
        1 => Just(Step::Reopen),
        1 => Just(Step::ReopenAsItIs),
    ]
}

/// The expected content of the log.
#[derive(Default)]
struct Model {
    /// All records, concatenated.
    bytes: Vec<u8>,
    positions: Vec<UndoPosition>,
    synced: usize,
}

impl Model {
    fn record(&self, position: &UndoPosition) -> &[u8] {
        &self.bytes[position.offset as usize..][..position.length as usize]
    }

    /// Forgets everything from a length on.
    fn cut(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.positions
            .retain(|position| position.end().unwrap() <= length as u64);
    }
}

fn check_steps(steps: Vec<Step>) {
    let (_directory, path) = scratch();
    let mut log = UndoLog::open(&path, 0).unwrap();
    let mut model = Model::default();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append(length) => {
                let record = Rng::new(number as u64).record(length);
                let position = log.append_record(&record).unwrap();
                assert_eq!(position.offset, model.bytes.len() as u64);
                model.bytes.extend(&record);
                model.positions.push(position);
            }
            Step::Sync => {
                log.sync().unwrap();
                model.synced = model.bytes.len();
                assert_eq!(length(&path), log.bytes());
            }
            Step::Read(index) if !model.positions.is_empty() => {
                let position = index.get(&model.positions);
                assert_eq!(log.read_record(position).unwrap(), model.record(position));
            }
            Step::Read(_) => {}
            Step::Reopen => {
                drop(log);
                model.cut(model.synced);
                log = UndoLog::open(&path, model.synced as u64).unwrap();
                log.cut_back(model.synced as u64).unwrap();
            }
            Step::ReopenAsItIs => {
                drop(log);
                model.cut(length(&path) as usize);
                assert!(model.bytes.len() >= model.synced);
                log = UndoLog::open(&path, 0).unwrap();
            }
        }
        assert_eq!(log.bytes(), model.bytes.len() as u64);
    }
    for position in &model.positions {
        assert_eq!(log.read_record(position).unwrap(), model.record(position));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_as_its_model(steps in prop::collection::vec(step(), 0..60)) {
        check_steps(steps);
    }
}

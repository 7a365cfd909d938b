use super::tail::{FirstFailure, Tail};
use super::*;

const START: u64 = 100;

fn position(offset: u64, length: u32) -> UndoPosition {
    UndoPosition { offset, length }
}

/// Ends a write with success.
fn land(tail: &mut Tail, full: FullBuffer<'_>) {
    tail.end_write(&full.write, full.bytes, None);
}

#[test]
fn records_get_consecutive_offsets() {
    let mut tail = Tail::new(START);
    assert_eq!(tail.append(&[1; 7]), Some(position(100, 7)));
    assert_eq!(tail.append(&[]), Some(position(107, 0)));
    let rest = vec![2; BUFFER_BYTES - 7];
    assert_eq!(tail.append(&rest), Some(position(107, rest.len() as u32)));
    assert_eq!(tail.append(&[3]), None);
    assert_eq!(tail.append(&[]), Some(position(100 + BUFFER_BYTES as u64, 0)));
    let (appended, full) = tail.append_after_full(&[3], 1);
    assert_eq!(appended, position(100 + BUFFER_BYTES as u64, 1));
    assert_eq!((full.write.start, full.bytes.len()), (START, BUFFER_BYTES));
    assert!(full.large_record.is_empty());
    assert_eq!(tail.written_end(), START);
    land(&mut tail, full);
    assert_eq!(tail.written_end(), START + BUFFER_BYTES as u64);
    assert_eq!(tail.end(), tail.written_end() + 1);
}

#[test]
fn a_record_larger_than_a_buffer_follows_the_full_buffer() {
    let mut tail = Tail::new(START);
    let large = vec![1; BUFFER_BYTES + 1];
    tail.append(&[1; 5]).unwrap();
    let (appended, full) = tail.append_after_full(&large, large.len() as u32);
    assert_eq!(appended, position(105, large.len() as u32));
    assert_eq!((full.bytes.len(), full.large_record.len()), (5, large.len()));
    assert_eq!(tail.append(&[2]), Some(position(appended.end().unwrap(), 1)));
    land(&mut tail, full);
    assert_eq!(tail.written_end(), appended.end().unwrap());
}

#[test]
fn writes_end_in_any_order() {
    let mut tail = Tail::new(0);
    let mut full = Vec::new();
    for _ in 0..3 {
        tail.append(&[1; 10]).unwrap();
        full.extend(tail.take_buffer());
    }
    assert!(tail.take_buffer().is_none());
    let [first, second, third] = full.try_into().unwrap();
    land(&mut tail, second);
    assert_eq!(tail.written_end(), 0);
    assert_eq!(tail.write_before(30).unwrap().start, 0);
    assert!(tail.write_before(0).is_none());
    land(&mut tail, first);
    assert_eq!(tail.written_end(), 20);
    assert!(tail.write_before(20).is_none());
    land(&mut tail, third);
    assert_eq!((tail.written_end(), tail.end()), (30, 30));
}

#[test]
fn nothing_after_a_failed_write_counts_as_written() {
    let mut tail = Tail::new(0);
    tail.append(&[1; 10]).unwrap();
    let first = tail.take_buffer().unwrap();
    tail.append(&[1; 10]).unwrap();
    let second = tail.take_buffer().unwrap();
    let failure = |text| FirstFailure::new("write", &io::Error::other(text));
    tail.end_write(&first.write, first.bytes, Some(failure("first")));
    tail.fail(failure("second"));
    land(&mut tail, second);
    assert_eq!(tail.written_end(), 0);
    let error = tail.failure().unwrap().clone().into_error();
    assert_eq!(error.to_string(), "an earlier write failed: first");
}

#[test]
fn one_leads_and_the_others_wait() {
    let mut tail = Tail::new(0);
    assert!(matches!(tail.sync_turn(0), SyncTurn::Durable));
    tail.append(&[1; 10]).unwrap();
    assert!(matches!(tail.sync_turn(10), SyncTurn::Lead(_)));
    assert!(matches!(tail.sync_turn(10), SyncTurn::Wait(_)));
    tail.end_sync(None);
    assert!(matches!(tail.sync_turn(10), SyncTurn::Lead(_)));
    tail.append(&[1; 10]).unwrap();
    tail.end_sync(Some(10));
    assert!(matches!(tail.sync_turn(10), SyncTurn::Durable));
    assert!(matches!(tail.sync_turn(20), SyncTurn::Lead(_)));
}

#[test]
fn buffers_are_used_again() {
    let mut tail = Tail::new(0);
    let mut buffers = std::collections::HashSet::new();
    for _ in 0..20 {
        tail.append(&[1]).unwrap();
        let full = tail.take_buffer().unwrap();
        assert_eq!(full.bytes.capacity(), BUFFER_BYTES);
        buffers.insert(full.bytes.as_ptr());
        land(&mut tail, full);
    }
    assert!(buffers.len() <= FULL_BUFFERS_MAX as usize + 1);
}

#[test]
fn the_tail_is_cut_back() {
    for (end, expected) in [
        (200, 130),
        (130, 130),
        (115, 115),
        (110, 110),
        (100, 100),
        (7, 7),
        (0, 0),
    ] {
        let mut tail = Tail::new(START);
        tail.append(&[1; 30]).unwrap();
        tail.cut_back(end);
        assert_eq!(tail.end(), expected);
        assert_eq!(tail.written_end(), expected.min(START));
    }
}

#[test]
fn an_offset_that_no_file_has_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("undo.dat");
    for end in [i64::MAX as u64 + 1, u64::MAX] {
        assert!(matches!(UndoLog::open(&path, end), Err(UndoLogError::Io(_))));
    }
    // The file system may refuse to write at this offset; nothing panics.
    let log = UndoLog::open(&path, i64::MAX as u64).unwrap();
    let appended = log.append_record(&[7; 100]).unwrap();
    assert_eq!(appended.offset, i64::MAX as u64);
    assert!(log.sync().is_err());
}

//! The undo log on a file that counts, waits and fails: shared syncs, writes in flight, and errors
//! that reach every thread.

use crate::common::faulty_file::{FAULT, FaultyFile, State};
use crate::common::{Rng, without_hanging};
use blockmill_coins::undo_log::{BUFFER_BYTES, FULL_BUFFERS_MAX};
use blockmill_coins::{UndoLog, UndoLogError, UndoPosition};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// More than the machine has cores.
const THREADS: u64 = 16;

/// A time in which a wrong event would happen.
const CHANCE: Duration = Duration::from_millis(30);

const NAME: &str = "data/undo.dat";

fn log_in(file: &FaultyFile) -> UndoLog {
    UndoLog::with_file(Path::new(NAME), Box::new(file.clone()), 0).unwrap()
}

/// Whether the bytes of a file have the record at its position.
fn holds(bytes: &[u8], position: &UndoPosition, record: &[u8]) -> bool {
    let start = position.offset as usize;
    bytes.get(start..start + record.len()) == Some(record)
}

#[track_caller]
fn assert_is_first(error: &UndoLogError) {
    assert!(matches!(error, UndoLogError::Io(_)), "{error:?}");
    assert_eq!(error.to_string(), format!("{NAME}: {FAULT}"));
}

#[track_caller]
fn assert_is_later(error: &UndoLogError, operation: &str) {
    assert!(matches!(error, UndoLogError::Failed(_)), "{error:?}");
    let text = format!("{NAME}: an earlier {operation} failed: {FAULT}");
    assert_eq!(error.to_string(), text);
}

/// After a failure every append and every sync reports the first failure, and the file is not
/// called.
#[track_caller]
fn check_failed_for_good(log: &UndoLog, file: &FaultyFile, operation: &str) {
    let calls = || {
        let state = file.state();
        state.writes + state.syncs
    };
    let before = calls();
    for length in [0, 10, BUFFER_BYTES, BUFFER_BYTES + 1] {
        assert_is_later(&log.append_record(&vec![1; length]).unwrap_err(), operation);
        assert_is_later(&log.sync().unwrap_err(), operation);
    }
    assert_eq!(calls(), before);
}

#[test]
fn syncs_are_shared_and_nobody_returns_before_its_own() {
    const ROUNDS: u32 = 20;
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| state.sync_time = Duration::from_millis(2));
        let log = log_in(&file);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (log, file) = (&log, &file);
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    for _ in 0..ROUNDS {
                        let record = rng.record(100);
                        let position = log.append_record(&record).unwrap();
                        log.sync().unwrap();
                        assert!(holds(&file.state().synced, &position, &record));
                    }
                });
            }
        });
        let syncs = file.state().syncs;
        assert!(syncs * 4 <= ROUNDS * THREADS as u32, "{syncs} syncs");
        // Nothing was appended since, so nothing is synced.
        log.sync().unwrap();
        assert_eq!(file.state().syncs, syncs);
    });
}

#[test]
fn a_call_during_a_sync_is_served_by_the_next_sync() {
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| state.held_sync = Some(1));
        let log = log_in(&file);
        let returned = AtomicU32::new(0);
        thread::scope(|scope| {
            let sync = |record: &'static [u8]| {
                let position = log.append_record(record).unwrap();
                log.sync().unwrap();
                assert!(holds(&file.state().synced, &position, record));
                returned.fetch_add(1, Ordering::Relaxed);
            };
            scope.spawn(move || sync(&[1; 10]));
            drop(file.wait_until(|state| state.syncs == 1));
            for _ in 0..5 {
                scope.spawn(move || sync(&[2; 20]));
            }
            while log.bytes() < 110 {
                thread::yield_now();
            }
            thread::sleep(CHANCE);
            assert_eq!((returned.load(Ordering::Relaxed), file.state().syncs), (0, 1));
            file.set(|state| state.held_sync = None);
        });
        assert_eq!(file.state().syncs, 2);
    });
}

/// Appends until a write waits.
fn fill_until_held(log: &UndoLog, file: &FaultyFile) -> Result<(), UndoLogError> {
    while file.state().writes == 0 {
        log.append_record(&[9; 70_000])?;
    }
    Ok(())
}

#[test]
fn a_sync_waits_for_the_writes_of_others() {
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| state.held_write = Some(1));
        let log = log_in(&file);
        let returned = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| fill_until_held(&log, &file).unwrap());
            drop(file.wait_until(|state| state.writes == 1));
            let (log, file, returned) = (&log, &file, &returned);
            scope.spawn(move || {
                let end = log.bytes();
                log.sync().unwrap();
                returned.store(true, Ordering::Relaxed);
                assert!(file.state().synced.len() as u64 >= end);
                assert!(file.state().synced.iter().all(|&byte| byte == 9));
            });
            // The sync has written its own part.
            drop(file.wait_until(|state| state.writes == 2));
            // Other threads can append meanwhile.
            log.append_record(&[9; 100]).unwrap();
            thread::sleep(CHANCE);
            assert!(!returned.load(Ordering::Relaxed));
            assert_eq!(file.state().syncs, 0);
            file.set(|state| state.held_write = None);
        });
        assert!(returned.load(Ordering::Relaxed));
    });
}

#[test]
fn full_buffers_are_written_at_once_but_not_too_many() {
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| state.write_time = Duration::from_millis(3));
        let log = log_in(&file);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let log = &log;
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    for _ in 0..4 {
                        log.append_record(&rng.record(BUFFER_BYTES * 3 / 4)).unwrap();
                    }
                });
            }
        });
        let most = file.state().writes_now_max;
        assert!((2..=FULL_BUFFERS_MAX).contains(&most), "{most}");
    });
}

/// Many threads append and sync until each has met an error.
fn errors_of_many(log: &UndoLog) -> Vec<UndoLogError> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    let mut rng = Rng::new(number);
                    loop {
                        let length = rng.below(200_000);
                        let done = log.append_record(&rng.record(length)).and_then(|_| log.sync());
                        if let Err(error) = done {
                            return error;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// One thread gets the first error; all others get a report of it.
fn check_fault_for_many(operation: &'static str, tell: fn(&mut State)) {
    without_hanging(move || {
        let file = FaultyFile::default();
        file.set(tell);
        let log = log_in(&file);
        let errors = errors_of_many(&log);
        let (first, later): (Vec<_>, Vec<_>) = errors.iter().partition(|error| matches!(error, UndoLogError::Io(_)));
        assert_eq!(first.len(), 1);
        assert_is_first(first[0]);
        for error in later {
            assert_is_later(error, operation);
        }
        check_failed_for_good(&log, &file, operation);
    });
}

#[test]
fn a_failed_write_reaches_everyone() {
    check_fault_for_many("write", |state| state.failing_write = Some(12));
}

#[test]
fn a_failed_first_write_reaches_everyone() {
    check_fault_for_many("write", |state| state.failing_write = Some(1));
}

#[test]
fn a_failed_sync_reaches_everyone() {
    check_fault_for_many("sync", |state| {
        state.failing_sync = Some(5);
        state.sync_time = Duration::from_millis(2);
    });
}

#[test]
fn threads_that_wait_for_a_leader_learn_that_it_failed() {
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| {
            state.held_sync = Some(1);
            state.failing_sync = Some(1);
        });
        let log = log_in(&file);
        log.append_record(&[1; 10]).unwrap();
        thread::scope(|scope| {
            let leader = scope.spawn(|| log.sync().unwrap_err());
            drop(file.wait_until(|state| state.syncs == 1));
            // Half of the threads wait for the leader's sync, half for the next one.
            let wait = || scope.spawn(|| log.sync().unwrap_err());
            let mut waiters: Vec<_> = (0..5).map(|_| wait()).collect();
            thread::sleep(CHANCE);
            log.append_record(&[2; 10]).unwrap();
            waiters.extend((0..5).map(|_| wait()));
            thread::sleep(CHANCE);
            file.set(|state| state.held_sync = None);
            assert_is_first(&leader.join().unwrap());
            for waiter in waiters {
                assert_is_later(&waiter.join().unwrap(), "sync");
            }
        });
        assert_eq!(file.state().syncs, 1);
        check_failed_for_good(&log, &file, "sync");
    });
}

#[test]
fn a_sync_that_waits_for_a_write_learns_that_it_failed() {
    without_hanging(|| {
        let file = FaultyFile::default();
        file.set(|state| {
            state.held_write = Some(1);
            state.failing_write = Some(1);
        });
        let log = log_in(&file);
        thread::scope(|scope| {
            let writer = scope.spawn(|| fill_until_held(&log, &file).unwrap_err());
            drop(file.wait_until(|state| state.writes == 1));
            let waiter = scope.spawn(|| log.sync().unwrap_err());
            drop(file.wait_until(|state| state.writes == 2));
            thread::sleep(CHANCE);
            file.set(|state| state.held_write = None);
            assert_is_first(&writer.join().unwrap());
            assert_is_later(&waiter.join().unwrap(), "write");
        });
        assert_eq!(file.state().syncs, 0);
        check_failed_for_good(&log, &file, "write");
    });
}

#[test]
fn what_was_written_before_the_failure_can_be_read() {
    without_hanging(|| {
        let file = FaultyFile::default();
        let mut log = log_in(&file);
        let synced = log.append_record(&[1; 10]).unwrap();
        log.sync().unwrap();
        let in_buffer = log.append_record(&[2; 10]).unwrap();
        file.set(|state| state.failing_write = Some(2));
        assert_is_first(&log.read_record(&in_buffer).unwrap_err());
        assert_is_later(&log.read_record(&in_buffer).unwrap_err(), "write");
        assert_eq!(log.read_record(&synced).unwrap(), [1; 10]);
        assert_is_later(&log.cut_back(0).unwrap_err(), "write");
        check_failed_for_good(&log, &file, "write");
        assert_eq!(log.read_record(&synced).unwrap(), [1; 10]);
    });
}

/// A panic of the file leaves no thread waiting.
#[test]
fn a_file_that_panics_fails() {
    without_hanging(|| {
        for in_sync in [false, true] {
            let file = FaultyFile::default();
            file.set(|state| {
                state.panics = true;
                state.write_time = Duration::from_millis(5);
                state.sync_time = Duration::from_millis(5);
                if in_sync {
                    state.failing_sync = Some(1);
                } else {
                    state.failing_write = Some(1);
                }
            });
            let log = log_in(&file);
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let log = &log;
                    scope.spawn(move || {
                        let mut rng = Rng::new(number);
                        let synced = log.append_record(&rng.record(100)).and_then(|_| log.sync());
                        let error = synced.unwrap_err();
                        assert!(error.to_string().contains("the file panicked"), "{error}");
                    });
                }
            });
        }
    });
}

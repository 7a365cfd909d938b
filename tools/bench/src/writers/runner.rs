//! One run: writers append for a given time, then one sync and the check of the log.

use super::input::Input;
use super::prealloc::Preallocated;
use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use blockmill_coins::undo_log::LockKind;
use blockmill_coins::{UndoLog, UndoLogError, UndoPosition};
use blockmill_sync::{CachePadded, ManualResetEvent};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The repeated work of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Encodes the undo data of a block, with its checksum, and appends the record.
    Sequence,
    /// Appends a record that was encoded before the run.
    Record,
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) writers: usize,
    pub(super) time: Duration,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Sequences of each writer.
    pub(super) sequences: Vec<u64>,
    /// Bytes of the log.
    pub(super) bytes: u64,
    /// From the first writer's begin to the last writer's end.
    pub(super) elapsed: Elapsed,
    /// The sync after the last sequence.
    pub(super) sync_seconds: f64,
}

impl Outcome {
    pub(super) fn all_sequences(&self) -> u64 {
        self.sequences.iter().sum()
    }

    pub(super) fn sequences_per_second(&self) -> f64 {
        self.all_sequences() as f64 / self.elapsed.seconds
    }

    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.seconds
    }

    pub(super) fn cpu_seconds_per_sequence(&self) -> f64 {
        self.elapsed.cpu_seconds / self.all_sequences() as f64
    }

    /// The fewest and the most sequences of a writer, each over the fair share.
    pub(super) fn shares(&self) -> (f64, f64) {
        let fair = self.all_sequences() as f64 / self.sequences.len() as f64;
        let share = |sequences: Option<&u64>| sequences.map_or(0.0, |&sequences| sequences as f64 / fair);
        (share(self.sequences.iter().min()), share(self.sequences.iter().max()))
    }
}

/// The records of one writer.
struct Written {
    /// Number of the record that it appended first; the others follow in turn.
    first_record: usize,
    /// Positions of its records.
    positions: Vec<UndoPosition>,
    begin: Instant,
    end: Instant,
}

/// Does a run in an empty log under locks of kind `K`, and checks its result. `name` is the run's
/// name in errors. The run ends early if the log fills `file`.
pub(super) fn run<K: LockKind>(
    file: &mut Preallocated,
    input: &Input,
    load: Load,
    name: &str,
) -> Result<Outcome, BenchError> {
    let (log, log_begin) = file.log::<K>()?;
    let (written, elapsed) = append_all(&log, input, load, file.bytes())?;
    let begin = Instant::now();
    log.sync()?;
    let sync_seconds = begin.elapsed().as_secs_f64();
    check(&log, log_begin, input, &written, name)?;
    Ok(Outcome {
        sequences: written.iter().map(|written| written.positions.len() as u64).collect(),
        bytes: log.bytes() - log_begin,
        elapsed,
        sync_seconds,
    })
}

/// Lets the writers append until the time is over, or a record lies at `end_max` or later.
fn append_all<K: LockKind>(
    log: &UndoLog<K>,
    input: &Input,
    load: Load,
    end_max: u64,
) -> Result<(Vec<Written>, Elapsed), UndoLogError> {
    let stop = CachePadded::new(AtomicBool::new(false));
    let full = ManualResetEvent::new();
    let barrier = Barrier::new(load.writers + 1);
    std::thread::scope(|scope| {
        let (stop, full, barrier) = (&*stop, &full, &barrier);
        let running: Vec<_> = (0..load.writers)
            .map(|writer| {
                // Writers begin at different records, so that they do not append the same record
                // at the same time.
                let first_record = writer * input.records.len() / load.writers;
                scope.spawn(move || {
                    barrier.wait();
                    append(log, input, load.work, first_record, |position| {
                        if position.offset >= end_max {
                            stop.store(true, Ordering::Relaxed);
                            full.set();
                        }
                        stop.load(Ordering::Relaxed)
                    })
                })
            })
            .collect();
        let clock = Stopwatch::start();
        barrier.wait();
        full.wait_timeout(load.time);
        stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in running {
            match thread.join() {
                Ok(written) => all.push(written),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let cpu_seconds = clock.elapsed().cpu_seconds;
        let all = all.into_iter().collect::<Result<Vec<Written>, _>>()?;
        let begin = all.iter().map(|written| written.begin).min();
        let end = all.iter().map(|written| written.end).max();
        let seconds = begin.zip(end).map_or(0.0, |(begin, end)| (end - begin).as_secs_f64());
        Ok((all, Elapsed { seconds, cpu_seconds }))
    })
}

/// One writer: appends the records in turn until the end condition holds.
fn append<K: LockKind>(
    log: &UndoLog<K>,
    input: &Input,
    work: Work,
    first_record: usize,
    ends: impl Fn(&UndoPosition) -> bool,
) -> Result<Written, UndoLogError> {
    let mut positions = Vec::new();
    let begin = Instant::now();
    for record in input.records.iter().cycle().skip(first_record) {
        let position = match work {
            Work::Sequence => log.append(input.magic, &record.previous, &record.undo)?,
            Work::Record => log.append_record(&record.encoded)?,
        };
        positions.push(position);
        if ends(&position) {
            break;
        }
    }
    Ok(Written {
        first_record,
        positions,
        begin,
        end: Instant::now(),
    })
}

/// Checks that the log has exactly the appended records. They lie one after the other from the
/// log's begin to its end. Each, read back from the file, has its checksum and is the record that
/// its writer appended.
fn check<K: LockKind>(
    log: &UndoLog<K>,
    begin: u64,
    input: &Input,
    written: &[Written],
    name: &str,
) -> Result<(), BenchError> {
    let mismatch = |what: &'static str, found: u64, wanted: u64| BenchError::Mismatch {
        run: name.to_owned(),
        what,
        found: found.to_string(),
        wanted: wanted.to_string(),
    };
    let mut appended: Vec<_> = written
        .iter()
        .flat_map(|written| {
            let records = input.records.iter().cycle().skip(written.first_record);
            written.positions.iter().zip(records)
        })
        .collect();
    appended.sort_unstable_by_key(|(position, _)| position.offset);
    let bytes: u64 = appended.iter().map(|(_, record)| record.bytes()).sum();
    if log.bytes() != begin + bytes {
        return Err(mismatch("end of the log", log.bytes(), begin + bytes));
    }
    let mut end = begin;
    for (position, record) in appended {
        if position.offset != end {
            return Err(mismatch("offset of a record", position.offset, end));
        }
        if u64::from(position.length) != record.bytes() {
            return Err(mismatch("length of a record", position.length.into(), record.bytes()));
        }
        if log.read_record(position)? != record.encoded {
            return Err(BenchError::Mismatch {
                run: name.to_owned(),
                what: "a record",
                found: format!("another at offset {}", position.offset),
                wanted: "the one appended".to_owned(),
            });
        }
        end += record.bytes();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writers::input::Record;
    use blockmill_block::undo::write_record;
    use blockmill_block::{BlockHash, BlockUndo, CoinRef, Magic};
    use blockmill_coins::undo_log::SectionLock;
    use std::path::Path;

    const MAGIC: Magic = Magic([1, 2, 3, 4]);
    const FILE_BYTES: u64 = 3 << 20;

    /// Records of different lengths.
    fn input() -> Input {
        let record = |number: u8| {
            let mut undo = BlockUndo::default();
            for value in 0..number {
                undo.push_coin(CoinRef {
                    value: value.into(),
                    height: 5,
                    is_coinbase: false,
                    script_pubkey: &[0x51; 40],
                });
            }
            undo.end_transaction();
            let previous = BlockHash([number; 32]);
            let mut encoded = Vec::new();
            write_record(MAGIC, &previous, &undo, &mut encoded);
            Record {
                previous,
                undo,
                encoded,
            }
        };
        Input {
            magic: MAGIC,
            records: (1..=5).map(record).collect(),
        }
    }

    fn load(work: Work) -> Load {
        Load {
            work,
            writers: 3,
            time: Duration::from_millis(10),
        }
    }

    #[test]
    fn both_kinds_of_work_fill_the_log() {
        let input = input();
        let mut file = Preallocated::make(FILE_BYTES).unwrap();
        for work in [Work::Sequence, Work::Record, Work::Record] {
            let outcome = run::<SectionLock>(&mut file, &input, load(work), "a run").unwrap();
            assert_eq!(outcome.sequences.len(), 3);
            assert!(outcome.sequences.iter().all(|&sequences| sequences > 0));
            assert!(outcome.bytes >= outcome.all_sequences() * input.records[0].bytes());
            assert!(outcome.sequences_per_second() > 0.0 && outcome.bytes_per_second() > 0.0);
            assert!(outcome.sync_seconds > 0.0);
            let (unlucky, lucky) = outcome.shares();
            assert!(unlucky <= 1.0 && lucky >= 1.0);
        }
    }

    #[test]
    fn a_run_ends_where_the_file_does() {
        let input = input();
        let mut file = Preallocated::make(10_000).unwrap();
        let slow = Load {
            time: Duration::from_secs(60),
            ..load(Work::Record)
        };
        let outcome = run::<SectionLock>(&mut file, &input, slow, "a run").unwrap();
        assert!(outcome.bytes > 10_000 && outcome.bytes < 10_000 + 4 * input.records[4].bytes());
        assert!(outcome.elapsed.seconds < 60.0);
    }

    /// Appends, lets `damage` change the log's file and the writers' positions, and expects the
    /// mismatch `wrong`.
    fn check_finds(wrong: &str, damage: impl FnOnce(&Path, &mut Vec<Written>)) {
        let input = input();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("undo.dat");
        let log = UndoLog::open(&path, 0).unwrap();
        let (mut written, _) = append_all(&log, &input, load(Work::Sequence), FILE_BYTES).unwrap();
        log.sync().unwrap();
        check(&log, 0, &input, &written, "a run").unwrap();
        damage(&path, &mut written);
        let error = check(&log, 0, &input, &written, "a run").unwrap_err();
        assert!(
            matches!(&error, BenchError::Mismatch { what, .. } if *what == wrong),
            "{error}"
        );
        assert!(error.to_string().starts_with("a run: "), "{error}");
    }

    #[test]
    fn a_planted_mismatch_is_found() {
        check_finds("a record", |path, _| {
            let mut bytes = std::fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(path, bytes).unwrap();
        });
        check_finds("end of the log", |_, written| {
            written[1].positions.pop();
        });
        check_finds("offset of a record", |_, written| {
            written[2].positions[0].offset += 1;
        });
        check_finds("length of a record", |_, written| {
            written[0].positions[0].length -= 1;
        });
    }
}

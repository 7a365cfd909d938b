//! The undo log: one file of records, to which any number of threads append at once.
//!
//! A record is what a block spent, as in Core's `rev*.dat`, with its checksum. The log assigns the
//! record an offset, and reads it from there.
//!
//! # The way of a record
//!
//! 1. The appending thread encodes the record and computes its checksum, before it takes a lock.
//! 2. Under the lock of `tail` the record gets the offset at the end of the log, and is copied into
//!    the log buffer.
//! 3. If the buffer has no room, the thread swaps it for an empty one and puts its record there,
//!    still under the lock. Then it writes the full buffer. Offsets are absolute, so several full
//!    buffers may be in flight to the file: at most [`FULL_BUFFERS_MAX`], each with a permit that
//!    was taken before the lock. Empty buffers are reused. A record larger than a buffer gets the
//!    offset at the end of the full buffer, and is written with it, from the caller's memory.
//! 4. [`UndoLog::sync`] writes the buffer as it is, waits for the writes of other threads, and
//!    syncs the file.
//!
//! # Locks and permits
//!
//! | | guards | held for |
//! |---|---|---|
//! | a permit of `full_buffers` | a buffer in flight to the file | its write |
//! | lock of `tail` | everything else | a copy of at most [`BUFFER_BYTES`]; no call of the file |
//!
//! A thread takes its permit before the lock. It holds neither while it waits for another thread's
//! write or sync. So a thread that writes a buffer waits only for the file and the lock. Every
//! write ends, its permit comes back, and the threads that wait go on.
//!
//! # Group commit
//!
//! A thread that calls `sync` notes the end of the log. If everything before that end is durable,
//! the call returns. If no sync is in progress, the thread leads one: for itself, and for all whose
//! records are in the log when the leader takes the buffer. Otherwise the thread waits until the
//! sync in progress has ended, and looks again. Then its records are durable, or it leads the next
//! sync, or it waits for the leader of the next sync. That sync begins after the call, so it covers
//! the records: no thread waits for more than two syncs.
//!
//! A thread waits for one write or one sync, by its event. The event is set once, when the write or
//! the sync has ended, with or without success, and is never reset. So no wake-up is lost. No
//! thread spins, except for the bounded time that the lock and the semaphore spin before they
//! block.
//!
//! # Failure
//!
//! After a failed write or sync nobody knows what the file has. (After a failed `fdatasync` the
//! kernel may count pages as clean that it could not write.) So the log never tries again: it has
//! failed for good. The thread that met the error gets the error. Every later append and sync
//! reports what failed first. Leaders and writers that fail set their events too, and the threads
//! that wait learn of the failure when they look again. Records before the failed write can still
//! be read.
//!
//! # What is lost without a sync
//!
//! When the log is dropped: the records in the buffer, since dropping writes nothing. When the
//! machine stops: any part of what was not synced, and not only from the end, since buffers are
//! written in any order. Neither affects what a `sync` has covered. What counts is what the caller
//! names elsewhere after a sync; [`UndoLog::cut_back`] removes the rest of the file.

pub mod error;
mod file;
mod position;
mod tail;

pub use error::UndoLogError;
pub use position::UndoPosition;
pub use tail::{BUFFER_BYTES, FULL_BUFFERS_MAX};

use blockmill_block::undo::{read_record, write_record};
use blockmill_block::{BlockHash, BlockUndo, Magic};
use blockmill_blockfiles::FileError;
use blockmill_blockfiles::disk::{Disk, DiskFile, SystemDisk};
use blockmill_sync::{Mutex, Semaphore};
use std::fmt;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tail::{FirstFailure, FullBuffer, SyncTurn, Tail};

/// An open undo log. The head of the module has the protocol.
///
/// ```
/// use blockmill_block::{BlockHash, BlockUndo, Magic};
/// use blockmill_coins::UndoLog;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("undo.dat");
/// let (magic, parent) = (Magic([1, 2, 3, 4]), BlockHash([7; 32]));
/// let log = UndoLog::open(&path, 0)?;
/// let position = log.append(magic, &parent, &BlockUndo::default())?;
/// assert_eq!(log.read(magic, &parent, &position)?, BlockUndo::default());
/// log.sync()?;
/// drop(log);
/// let log = UndoLog::open(&path, 0)?;
/// assert_eq!(log.read(magic, &parent, &position)?, BlockUndo::default());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndoLog {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    tail: Mutex<Tail>,
    /// One permit for each full buffer that may be in flight to the file.
    full_buffers: Semaphore,
}

impl fmt::Debug for UndoLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("UndoLog")
            .field("path", &self.path)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl UndoLog {
    /// Opens the log in the file at `path`, or creates it. The next record gets an offset after the
    /// end of the file, and after `known_end`: the largest end of the positions that the caller
    /// knows, in bytes.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn open(path: &Path, known_end: u64) -> Result<Self, UndoLogError> {
        Self::open_on(&SystemDisk, path, known_end)
    }

    /// As [`UndoLog::open`], on the caller's disk.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn open_on(disk: &dyn Disk, path: &Path, known_end: u64) -> Result<Self, UndoLogError> {
        let file = file::open(disk, path).map_err(io_error(path))?;
        Self::with_file(path, file, known_end)
    }

    /// As [`UndoLog::open`], in the caller's file. Errors name the file by `path`.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn with_file(path: &Path, file: Box<dyn DiskFile>, known_end: u64) -> Result<Self, UndoLogError> {
        let end = file.length().map_err(io_error(path))?.max(known_end);
        if i64::try_from(end).is_err() {
            // No file is that long. Below this bound the sum of record lengths cannot overflow.
            return Err(io_error(path)(ErrorKind::FileTooLarge.into()));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            tail: Mutex::new(Tail::new(end)),
            full_buffers: Semaphore::new(FULL_BUFFERS_MAX),
        })
    }

    /// Removes everything from the offset `end` on. The caller passes the largest end of all
    /// positions that it still names anywhere.
    ///
    /// # Errors
    /// [`UndoLogError::Io`], and the log is unchanged; [`UndoLogError::Failed`].
    pub fn cut_back(&mut self, end: u64) -> Result<(), UndoLogError> {
        // The reference is exclusive, so nothing is in flight to the file.
        self.unless_failed(|_| ())?;
        if self.file.length().map_err(io_error(&self.path))? > end {
            self.file.set_length(end).map_err(io_error(&self.path))?;
        }
        // Only after the file has shrunk: the log is unchanged if that fails.
        self.tail.lock().cut_back(end);
        Ok(())
    }

    /// Appends the undo data of a block whose parent is `previous`. Returns its position.
    ///
    /// # Errors
    /// As [`append_record`](Self::append_record).
    pub fn append(&self, magic: Magic, previous: &BlockHash, undo: &BlockUndo) -> Result<UndoPosition, UndoLogError> {
        let mut record = Vec::new();
        write_record(magic, previous, undo, &mut record);
        self.append_record(&record)
    }

    /// Appends an encoded record. Returns its position.
    ///
    /// # Errors
    /// [`UndoLogError::Io`] if a write failed, either of this record or of the full buffer before
    /// it; the record then has no position. [`UndoLogError::Failed`], [`UndoLogError::TooLong`].
    #[inline]
    pub fn append_record(&self, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        match self.unless_failed(|tail| tail.append(record))? {
            Some(position) => Ok(position),
            None => self.append_after_swap(record),
        }
    }

    /// Appends a record for which the buffer had no room.
    #[cold]
    fn append_after_swap(&self, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        let length = u32::try_from(record.len()).map_err(|_| UndoLogError::TooLong { length: record.len() })?;
        let _permit = self.full_buffers.permit();
        let (position, full) = self.unless_failed(|tail| match tail.append(record) {
            // Another thread has swapped the buffer in the meantime.
            Some(position) => (position, None),
            None => {
                let (position, full) = tail.append_after_full(record, length);
                (position, Some(full))
            }
        })?;
        if let Some(full) = full {
            self.write(full)?;
        }
        Ok(position)
    }

    /// Writes a full buffer to its offset. The thread holds a permit.
    fn write(&self, full: FullBuffer<'_>) -> Result<(), UndoLogError> {
        let large_offset = full.write.start + full.bytes.len() as u64;
        let written = without_panic(|| {
            self.file.write_all_at(&full.bytes, full.write.start)?;
            self.file.write_all_at(full.large_record, large_offset)
        });
        let failure = written.as_ref().err().map(|error| FirstFailure::new("write", error));
        self.tail.lock().end_write(&full.write, full.bytes, failure);
        // After the tail knows of it: threads that wait look there again.
        full.write.ended.set();
        written.map_err(io_error(&self.path))
    }

    /// Makes all records durable that were appended before the call.
    ///
    /// # Errors
    /// [`UndoLogError::Io`], [`UndoLogError::Failed`].
    pub fn sync(&self) -> Result<(), UndoLogError> {
        let wanted = self.unless_failed(|tail| tail.end())?;
        loop {
            match self.unless_failed(|tail| tail.sync_turn(wanted))? {
                SyncTurn::Durable => return Ok(()),
                SyncTurn::Wait(ended) => ended.wait(),
                SyncTurn::Lead(ended) => {
                    let synced = self.sync_for_all();
                    self.tail.lock().end_sync(synced.as_ref().ok().copied());
                    // After the tail knows of it: threads that wake look there.
                    ended.set();
                    return synced.map(|_| ());
                }
            }
        }
    }

    /// Syncs the whole log, for the leader. Returns the offset before which everything is durable.
    fn sync_for_all(&self) -> Result<u64, UndoLogError> {
        let end = self.write_out()?;
        let synced = without_panic(|| self.file.sync_data());
        synced.map_err(|error| self.fail("sync", error))?;
        Ok(end)
    }

    /// Writes the buffer as it is, and waits for the writes of other threads. Returns the offset
    /// before which everything is in the file.
    fn write_out(&self) -> Result<u64, UndoLogError> {
        let permit = self.full_buffers.permit();
        let (end, full) = self.unless_failed(|tail| (tail.end(), tail.take_buffer()))?;
        if let Some(full) = full {
            self.write(full)?;
        }
        // Others that wait for a permit may write what is before the end.
        drop(permit);
        // Records that are appended meanwhile are after the end, so the number of these writes only
        // falls.
        while let Some(write) = self.unless_failed(|tail| tail.write_before(end))? {
            write.ended.wait();
        }
        Ok(end)
    }

    /// Reads the undo data of a block whose parent is `previous`. A record that is not in the file
    /// yet is written first.
    ///
    /// # Errors
    /// As [`read_record`](Self::read_record), or [`UndoLogError::Record`].
    pub fn read(&self, magic: Magic, previous: &BlockHash, position: &UndoPosition) -> Result<BlockUndo, UndoLogError> {
        let record = self.read_record(position)?;
        Ok(read_record(magic, previous, &record)?)
    }

    /// Reads the bytes of a record. A record that is not in the file yet is written first, with the
    /// whole buffer.
    ///
    /// # Errors
    /// [`UndoLogError::OutOfRange`], [`UndoLogError::Io`]; [`UndoLogError::Failed`] if the record
    /// did not reach the file before a write or a sync failed.
    pub fn read_record(&self, position: &UndoPosition) -> Result<Vec<u8>, UndoLogError> {
        let out_of_range = || UndoLogError::OutOfRange(*position);
        let (end, written_end) = {
            let tail = self.tail.lock();
            (tail.end(), tail.written_end())
        };
        let record_end = position.end().filter(|&record_end| record_end <= end);
        if record_end.ok_or_else(out_of_range)? > written_end {
            self.write_out()?;
        }
        let mut record = vec![0; position.length as usize];
        match self.file.read_exact_at(&mut record, position.offset) {
            Ok(()) => Ok(record),
            // The file ends before positions that were known when it was opened.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(out_of_range()),
            Err(error) => Err(io_error(&self.path)(error)),
        }
    }

    /// Length of the log in bytes, the buffer included.
    pub fn bytes(&self) -> u64 {
        self.tail.lock().end()
    }

    /// Works on the tail, unless the log has failed.
    #[inline]
    fn unless_failed<R>(&self, work: impl FnOnce(&mut Tail) -> R) -> Result<R, UndoLogError> {
        let mut guard = self.tail.lock();
        let tail = &mut *guard;
        let worked = match tail.failure() {
            None => Ok(work(tail)),
            Some(failure) => Err(failure.clone()),
        };
        // An error is made without the lock.
        drop(guard);
        worked.map_err(|failure| UndoLogError::Failed(file_error(&self.path, failure.into_error())))
    }

    /// Marks the log as failed. Returns the error for the thread that met it.
    #[cold]
    fn fail(&self, operation: &'static str, error: io::Error) -> UndoLogError {
        let failure = FirstFailure::new(operation, &error);
        self.tail.lock().fail(failure);
        io_error(&self.path)(error)
    }
}

/// Turns a panic of the file into an error: other threads may wait for the outcome.
fn without_panic(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(io::Error::other("the file panicked")))
}

fn file_error(path: &Path, error: io::Error) -> FileError {
    FileError::Io {
        path: path.to_owned(),
        error,
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> UndoLogError {
    move |error| UndoLogError::Io(file_error(path, error))
}

#[cfg(test)]
mod tests;

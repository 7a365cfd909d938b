//! The undo log: one file of records that is only appended to, by any number of threads at once.
//!
//! A record is what a block spent, as in Core's `rev*.dat`, with its checksum. The log gives it a place, and reads it
//! from there.
//!
//! # The way of a record
//!
//! 1. The thread that appends it encodes it and makes its checksum, before it takes any lock.
//! 2. Under the lock of `tail` the record gets the place behind all others and is copied into the log buffer.
//! 3. Who finds no room swaps the buffer for an empty one and puts its record there, still under the lock; then it
//!    writes the full buffer. Places are absolute, so several full buffers may be on their way to the file at once: at
//!    most [`FULL_BUFFERS_MAX`], each with a permit that was taken before the lock. Empty buffers are used again. A
//!    record that is larger than a buffer gets the place behind the full buffer, and is written with it from where the
//!    caller has it.
//! 4. [`UndoLog::sync`] writes out the buffer as it is, waits for what others are writing, and syncs the file.
//!
//! # Who holds what
//!
//! | | guards | held for |
//! |---|---|---|
//! | a permit of `full_buffers` | a buffer on its way to the file | its write |
//! | lock of `tail` | all else | a copy of at most [`BUFFER_BYTES`]; never a call of the file |
//!
//! Permits are taken before the lock, and nobody waits for the write or the sync of another while it holds either. So
//! the thread that writes a buffer waits for nothing but the file and the lock: every write ends, its permit comes
//! back, and who waits for either goes on.
//!
//! # Group commit
//!
//! Who calls `sync` notes the end of the log. If all before it is durable, that is all. If no sync is in progress, the
//! caller becomes the leader of one, for itself and for all whose records are in the log when it takes the buffer out.
//! Else it waits until the sync that is in progress has ended, whoever that may serve, and looks again: it finds its
//! records durable, or leads the next sync, or waits for the one that another of those who waited leads. That one
//! begins after its call, and so serves it: nobody waits for more than two.
//!
//! A wait is for one write or one sync: for its event, which is set once, when it has ended, well or not, and is never
//! reset. So no wake can be lost. Nobody spins, but for the bounded time that the lock and the semaphore do before they
//! block.
//!
//! # Failure
//!
//! After a write or a sync that failed nobody knows what the file has (after a failed `fdatasync` the kernel may hold
//! what it could not write for clean). So it is never tried again: the log has failed for good. Who met the error gets
//! it; from then on every append and every sync says what had failed first. Leaders and writers that fail set their
//! events like others, and who waited for them learns of the failure when it looks again. Records before the failed
//! write can still be read.
//!
//! # What is lost without a sync
//!
//! Records in the buffer, when the log is dropped: dropping writes nothing. When the machine stops, any part of what
//! was not synced, and not only from the end: buffers are written in any order. Nothing that a `sync` vouched for is
//! ever lost by that. What counts is what the caller names elsewhere after a sync; [`UndoLog::cut_back`] removes what
//! lies behind it.

pub mod error;
mod file;
pub mod lock;

mod tail;

pub use error::UndoLogError;
pub use lock::{Guarded, LockKind, SectionLock, StandardLock};

use blockmill_block::undo::{read_record, write_record};
use blockmill_block::{BlockHash, BlockUndo, Magic};
use blockmill_blockfiles::FileError;
use blockmill_blockfiles::disk::{Disk, DiskFile, SystemDisk};
use blockmill_sync::Semaphore;
use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tail::{Failure, FullBuffer, SyncTurn, Tail};

/// Bytes of the log buffer.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Full buffers that may be on their way to the file at once. With the one that is being filled they are all the memory
/// that the log takes.
pub const FULL_BUFFERS_MAX: u32 = 4;

thread_local! {
    /// Where a thread encodes records. It keeps the memory, at most that of a buffer: with many writers, taking it and giving it back
    /// for each record takes longer than the lock.
    static RECORD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Where a block's undo data lies in the undo log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoPosition {
    /// Place of the record in bytes.
    pub offset: u64,
    /// Length of the record in bytes.
    pub length: u32,
}

impl UndoPosition {
    /// The place behind the record in bytes; none if no number has room for it.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length.into())
    }
}

/// The open log. `K` is the kind of its locks.
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
pub struct UndoLog<K: LockKind = SectionLock> {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    tail: K::Lock<Tail>,
    /// A permit for each full buffer that may be on its way to the file.
    full_buffers: Semaphore,
}

impl<K: LockKind> fmt::Debug for UndoLog<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("UndoLog")
            .field("path", &self.path)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl UndoLog {
    /// Opens the log in the file at `path`, or makes it. The next record goes behind all that the file has, and behind
    /// `known_end`, the largest end of the positions that the caller knows.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn open(path: &Path, known_end: u64) -> Result<Self, UndoLogError> {
        Self::open_with_lock(path, known_end)
    }
}

impl<K: LockKind> UndoLog<K> {
    /// As [`UndoLog::open`], with locks of any kind.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn open_with_lock(path: &Path, known_end: u64) -> Result<Self, UndoLogError> {
        Self::open_on(&SystemDisk, path, known_end)
    }

    /// As [`UndoLog::open`], with locks of any kind, on a disk of the caller's.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn open_on(disk: &dyn Disk, path: &Path, known_end: u64) -> Result<Self, UndoLogError> {
        let file = file::open(disk, path).map_err(io_error(path))?;
        Self::with_file(path, file, known_end)
    }

    /// As [`UndoLog::open`], in a file of the caller's, which `path` names in errors.
    ///
    /// # Errors
    /// [`UndoLogError::Io`].
    pub fn with_file(path: &Path, file: Box<dyn DiskFile>, known_end: u64) -> Result<Self, UndoLogError> {
        let end = file.length().map_err(io_error(path))?.max(known_end);
        if i64::try_from(end).is_err() {
            // No file is that long. Below it, adding up lengths of records cannot overflow.
            return Err(io_error(path)(ErrorKind::FileTooLarge.into()));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            tail: Guarded::new(Tail::new(end)),
            full_buffers: Semaphore::new(FULL_BUFFERS_MAX),
        })
    }

    /// Removes what lies behind `end`. To be called by who knows that no record there is named anywhere; `end` is the
    /// largest end of the positions that are.
    ///
    /// # Errors
    /// [`UndoLogError::Io`], and the log is as it was; [`UndoLogError::Failed`].
    pub fn cut_back(&mut self, end: u64) -> Result<(), UndoLogError> {
        // Nobody else has the log, so nothing is on its way to the file.
        self.while_sound(|_| ())?;
        if self.file.length().map_err(io_error(&self.path))? > end {
            self.file.set_length(end).map_err(io_error(&self.path))?;
        }
        self.tail.with(|tail| tail.cut_back(end));
        Ok(())
    }

    /// Appends the undo data of a block whose parent is `previous`.
    ///
    /// # Errors
    /// As for [`append_record`](Self::append_record).
    pub fn append(&self, magic: Magic, previous: &BlockHash, undo: &BlockUndo) -> Result<UndoPosition, UndoLogError> {
        let mut record = RECORD.take();
        record.clear();
        write_record(magic, previous, undo, &mut record);
        let position = self.append_record(&record);
        if record.capacity() <= BUFFER_BYTES {
            RECORD.set(record);
        }
        position
    }

    /// Appends a record that is encoded already.
    ///
    /// # Errors
    /// [`UndoLogError::Io`] if a write failed, be it of this record or of the full buffer that was in its way; then the
    /// record has no place. [`UndoLogError::Failed`], [`UndoLogError::TooLong`].
    #[inline]
    pub fn append_record(&self, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        match self.while_sound(|tail| tail.place(record))? {
            Some(position) => Ok(position),
            None => self.append_behind_full(record),
        }
    }

    /// Appends a record for which the buffer had no room.
    #[cold]
    fn append_behind_full(&self, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        let length = u32::try_from(record.len()).map_err(|_| UndoLogError::TooLong { length: record.len() })?;
        let _permit = self.full_buffers.permit();
        let (position, full) = self.while_sound(|tail| match tail.place(record) {
            // Someone else has swapped the buffer meanwhile.
            Some(position) => (position, None),
            None => {
                let (position, full) = tail.place_behind_full(record, length);
                (position, Some(full))
            }
        })?;
        if let Some(full) = full {
            self.write(full)?;
        }
        Ok(position)
    }

    /// Writes a full buffer to its place; by who holds a permit.
    fn write(&self, full: FullBuffer<'_>) -> Result<(), UndoLogError> {
        let behind = full.write.start + full.bytes.len() as u64;
        let written = without_panic(|| {
            self.file.write_all_at(&full.bytes, full.write.start)?;
            self.file.write_all_at(full.large_record, behind)
        });
        let failure = written.as_ref().err().map(|error| Failure::new("write", error));
        self.tail.with(|tail| tail.end_write(&full.write, full.bytes, failure));
        full.write.ended.set();
        written.map_err(io_error(&self.path))
    }

    /// Makes everything durable that was appended before the call.
    ///
    /// # Errors
    /// [`UndoLogError::Io`], [`UndoLogError::Failed`].
    pub fn sync(&self) -> Result<(), UndoLogError> {
        let wanted = self.while_sound(|tail| tail.end())?;
        loop {
            match self.while_sound(|tail| tail.sync_turn(wanted))? {
                SyncTurn::Durable => return Ok(()),
                SyncTurn::Wait(ended) => ended.wait(),
                SyncTurn::Lead(ended) => {
                    let synced = self.sync_for_all();
                    self.tail.with(|tail| tail.end_sync(synced.as_ref().ok().copied()));
                    ended.set();
                    return synced.map(|_| ());
                }
            }
        }
    }

    /// Syncs all that is in the log, by the leader. Returns the place before which everything is durable.
    fn sync_for_all(&self) -> Result<u64, UndoLogError> {
        let end = self.write_out()?;
        let synced = without_panic(|| self.file.sync_data());
        synced.map_err(|error| self.fail("sync", error))?;
        Ok(end)
    }

    /// Writes the buffer as it is, and waits for what others are writing: everything before the place that is returned
    /// is in the file then.
    fn write_out(&self) -> Result<u64, UndoLogError> {
        let permit = self.full_buffers.permit();
        let (end, full) = self.while_sound(|tail| (tail.end(), tail.take_buffer()))?;
        if let Some(full) = full {
            self.write(full)?;
        }
        drop(permit);
        // What is appended meanwhile lies behind the end, so these become no more.
        while let Some(write) = self.while_sound(|tail| tail.write_before(end))? {
            write.ended.wait();
        }
        Ok(end)
    }

    /// Reads the undo data of a block whose parent is `previous`. A record that is not in the file yet is written
    /// first.
    ///
    /// # Errors
    /// As for [`read_record`](Self::read_record), or [`UndoLogError::Record`].
    pub fn read(&self, magic: Magic, previous: &BlockHash, position: &UndoPosition) -> Result<BlockUndo, UndoLogError> {
        let record = self.read_record(position)?;
        Ok(read_record(magic, previous, &record)?)
    }

    /// Reads the bytes of a record. One that is not in the file yet is written first, with all that is in the buffer.
    ///
    /// # Errors
    /// [`UndoLogError::OutOfRange`], [`UndoLogError::Io`]; [`UndoLogError::Failed`] if the record did not reach the
    /// file before a write or a sync failed.
    pub fn read_record(&self, position: &UndoPosition) -> Result<Vec<u8>, UndoLogError> {
        let out_of_range = || UndoLogError::OutOfRange(*position);
        let (end, written_end) = self.tail.with(|tail| (tail.end(), tail.written_end()));
        let record_end = position.end().filter(|&record_end| record_end <= end);
        if record_end.ok_or_else(out_of_range)? > written_end {
            self.write_out()?;
        }
        let mut record = vec![0; position.length as usize];
        match self.file.read_exact_at(&mut record, position.offset) {
            Ok(()) => Ok(record),
            // The file ends before the positions that were known when it was opened.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(out_of_range()),
            Err(error) => Err(io_error(&self.path)(error)),
        }
    }

    /// Bytes of the log, those in the buffer included.
    pub fn bytes(&self) -> u64 {
        self.tail.with(|tail| tail.end())
    }

    /// Works on the tail, unless the log has failed.
    #[inline]
    fn while_sound<R>(&self, work: impl FnOnce(&mut Tail) -> R) -> Result<R, UndoLogError> {
        let worked = self.tail.with(|tail| match tail.failure() {
            None => Ok(work(tail)),
            Some(failure) => Err(failure.clone()),
        });
        worked.map_err(|failure| UndoLogError::Failed(file_error(&self.path, failure.into_error())))
    }

    /// Notes that the log has failed. Returns the error for who met it.
    #[cold]
    fn fail(&self, operation: &'static str, error: io::Error) -> UndoLogError {
        let failure = Failure::new(operation, &error);
        self.tail.with(|tail| tail.fail(failure));
        io_error(&self.path)(error)
    }
}

/// Makes an error of a panic of the file: others may wait for what it was to do.
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

//! The state under the lock of the undo log: the buffer that is being filled, the full buffers in
//! flight to the file, and how much of the log is durable.
//!
//! ```text
//! 0        durable       written_end    start         end
//! | synced | in the file | in flight    | buffer      |
//! ```
//! Part of what is in flight may be in the file already. Nothing here calls the file.

use super::position::UndoPosition;
use blockmill_sync::ManualResetEvent;
use std::io;
use std::sync::Arc;

/// Bytes of the log buffer.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Full buffers that may be in flight to the file at once. With the buffer that is being filled
/// they are all the memory of the log.
pub const FULL_BUFFERS_MAX: u32 = 4;

/// A write in flight. Threads that wait for it share ownership, so the event outlives the thread
/// that sets it.
#[derive(Debug)]
pub(super) struct Write {
    /// Offset of the write in bytes. Every later write in flight has a larger offset.
    pub(super) start: u64,
    /// Set when the write has ended, with or without success; never reset.
    pub(super) ended: ManualResetEvent,
}

/// A full buffer, for a thread to write.
#[derive(Debug)]
#[must_use = "what is taken out of the tail must be written"]
pub(super) struct FullBuffer<'a> {
    pub(super) write: Arc<Write>,
    pub(super) bytes: Vec<u8>,
    /// A record too large for a buffer, which follows the bytes; else empty.
    pub(super) large_record: &'a [u8],
}

/// The first failure.
#[derive(Debug, Clone)]
pub(super) struct FirstFailure {
    operation: &'static str,
    kind: io::ErrorKind,
    cause: String,
}

impl FirstFailure {
    /// The failure of a write or a sync.
    pub(super) fn new(operation: &'static str, error: &io::Error) -> Self {
        Self {
            operation,
            kind: error.kind(),
            cause: error.to_string(),
        }
    }

    /// The error of a later call.
    pub(super) fn into_error(self) -> io::Error {
        let text = format!("an earlier {} failed: {}", self.operation, self.cause);
        io::Error::new(self.kind, text)
    }
}

/// What a thread that calls for a sync does next. The event of a sync is set when it has ended,
/// with or without success, and is never reset.
#[derive(Debug)]
#[must_use]
pub(super) enum SyncTurn {
    /// Nothing: its records are durable.
    Durable,
    /// Wait for the sync in progress, and look again.
    Wait(Arc<ManualResetEvent>),
    /// Sync for all threads, and set the event.
    Lead(Arc<ManualResetEvent>),
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct Tail {
    /// Offset in the file of the buffer's first byte.
    start: u64,
    /// The last records, in sequence.
    buffer: Vec<u8>,
    /// Empty buffers, one for each free permit.
    spare: Vec<Vec<u8>>,
    /// Writes that have not ended, and writes that failed.
    in_flight: Vec<Arc<Write>>,
    /// All records before this offset are durable. Initially the offset of the first record.
    durable: u64,
    /// The sync in progress.
    sync: Option<Arc<ManualResetEvent>>,
    failure: Option<FirstFailure>,
}

impl Tail {
    /// The tail of a log that ends at `end`.
    pub(super) fn new(end: u64) -> Self {
        let empty = || Vec::with_capacity(BUFFER_BYTES);
        Self {
            start: end,
            buffer: empty(),
            spare: (0..FULL_BUFFERS_MAX).map(|_| empty()).collect(),
            in_flight: Vec::with_capacity(FULL_BUFFERS_MAX as usize),
            durable: end,
            sync: None,
            failure: None,
        }
    }

    /// The offset of the log's end.
    pub(super) fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Everything before this offset is in the file.
    pub(super) fn written_end(&self) -> u64 {
        let in_flight = self.in_flight.iter().map(|write| write.start);
        in_flight.min().unwrap_or(self.start)
    }

    pub(super) fn failure(&self) -> Option<&FirstFailure> {
        self.failure.as_ref()
    }

    /// Records a failure. Only the first one counts.
    pub(super) fn fail(&mut self, failure: FirstFailure) {
        self.failure.get_or_insert(failure);
    }

    /// Copies a record to the end of the buffer, if there is room.
    #[inline]
    pub(super) fn append(&mut self, record: &[u8]) -> Option<UndoPosition> {
        // The buffer never grows beyond that, so the difference is not negative.
        if record.len() > BUFFER_BYTES - self.buffer.len() {
            return None;
        }
        let position = UndoPosition {
            offset: self.end(),
            length: record.len() as u32,
        };
        self.buffer.extend_from_slice(record);
        Some(position)
    }

    /// Swaps the full buffer for an empty one, and appends a record of this length to the empty
    /// one. A record larger than a buffer gets the offset at the end of the full buffer.
    pub(super) fn append_after_full<'a>(&mut self, record: &'a [u8], length: u32) -> (UndoPosition, FullBuffer<'a>) {
        let full = self.swap();
        if let Some(position) = self.append(record) {
            return (position, full);
        }
        let offset = self.start;
        // The record is written from the caller's memory, and never in a buffer.
        self.start += u64::from(length);
        let full = FullBuffer {
            large_record: record,
            ..full
        };
        (UndoPosition { offset, length }, full)
    }

    /// Takes the buffer as it is, unless it is empty.
    pub(super) fn take_buffer(&mut self) -> Option<FullBuffer<'static>> {
        (!self.buffer.is_empty()).then(|| self.swap())
    }

    /// The caller holds a permit.
    fn swap(&mut self) -> FullBuffer<'static> {
        // There is one for each permit, so the default is never taken.
        let empty = self.spare.pop().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.buffer, empty);
        let write = Arc::new(Write {
            start: self.start,
            ended: ManualResetEvent::new(),
        });
        self.start += bytes.len() as u64;
        self.in_flight.push(Arc::clone(&write));
        FullBuffer {
            write,
            bytes,
            large_record: &[],
        }
    }

    /// Reclaims the buffer of a write that has ended. A failed write stays in flight, so that
    /// nothing after it counts as written.
    pub(super) fn end_write(&mut self, ended: &Arc<Write>, mut buffer: Vec<u8>, failure: Option<FirstFailure>) {
        match failure {
            None => self.in_flight.retain(|write| !Arc::ptr_eq(write, ended)),
            Some(failure) => self.fail(failure),
        }
        // Its memory is kept for the next.
        buffer.clear();
        self.spare.push(buffer);
    }

    /// A write in flight that begins before an offset.
    pub(super) fn write_before(&self, end: u64) -> Option<Arc<Write>> {
        self.in_flight.iter().find(|write| write.start < end).cloned()
    }

    /// What a thread does next that wants everything before `wanted` to be durable.
    pub(super) fn sync_turn(&mut self, wanted: u64) -> SyncTurn {
        if self.durable >= wanted {
            return SyncTurn::Durable;
        }
        match &self.sync {
            Some(ended) => SyncTurn::Wait(Arc::clone(ended)),
            None => SyncTurn::Lead(Arc::clone(self.sync.insert(Arc::default()))),
        }
    }

    /// Ends the sync in progress. `durable` is the offset before which everything is durable; none
    /// after a failure.
    pub(super) fn end_sync(&mut self, durable: Option<u64>) {
        self.sync = None;
        self.durable = durable.unwrap_or(self.durable);
    }

    /// Forgets everything from `end` on. Nothing may be in flight.
    pub(super) fn cut_back(&mut self, end: u64) {
        let kept = end.saturating_sub(self.start).min(self.buffer.len() as u64);
        self.buffer.truncate(kept as usize);
        self.start = self.start.min(end);
        self.durable = self.durable.min(end);
    }
}

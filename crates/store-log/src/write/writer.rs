//! The writer: what only commits use.

use super::checkpoint::CheckpointWriter;
use super::commit::Commit;
use super::frame::{Frame, LogTail};
use super::garbage::Garbage;
use crate::format::label::Label;
use crate::index::state::LogState;
use blockmill_coins::{Changes, StoreError, Tip};
use std::io::ErrorKind;

/// A clean end writes a checkpoint if the changes since the last are this part of those that make
/// one due.
const CLEAN_END_SHARE: u64 = 16;

/// Where the log ends, and what goes on beside the commits.
pub(crate) struct LogWriter {
    /// Random, in each page of this opening.
    pub(crate) epoch: u64,
    pub(crate) tail: LogTail,
    /// The checksum of the last trailer.
    pub(crate) trailer: u32,
    /// Whether a commit has failed. Then nobody knows what the files have after the last frame.
    pub(crate) failed: bool,
    pub(crate) garbage: Garbage,
    /// Changes since the last checkpoint began.
    pub(crate) changes: u64,
    pub(crate) checkpoint: Option<CheckpointWriter>,
    /// The segment with the last frame of the checkpoint that is there. Without it nobody knows
    /// that the checkpoint is of this log.
    pub(crate) label_segment: Option<u32>,
}

impl LogWriter {
    /// One commit. See [`Commit`].
    pub(crate) fn commit(&mut self, log: &LogState, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        if log.disk.is_none() {
            return Err(StoreError::Backend("the store was opened to read".to_owned()));
        }
        if self.failed {
            return Err(StoreError::Backend(format!(
                "{}: an earlier write has failed, so nothing is written any more",
                log.directory.display()
            )));
        }
        // Also if the changes panic.
        self.failed = true;
        let Some(flush) = log.ledger().flush.checked_add(1) else {
            return Err(StoreError::Corrupt(
                "the last frame has the last number of all".to_owned(),
            ));
        };
        let label = self.checkpoint.as_ref().map(CheckpointWriter::label_segment);
        // Without the frame of its label a checkpoint would not be recognised.
        let kept: Vec<u32> = self.label_segment.into_iter().chain(label).collect();
        // Nothing lives in their segments, and their files go after this commit.
        let going = self.garbage.emptied.len();
        let frame = Frame::new(log, flush, self.epoch, self.tail);
        let committed = Commit::new(log, changes, frame).run(&mut self.garbage, &kept, self.trailer, tip)?;
        self.tail = committed.tail;
        self.trailer = committed.trailer_checksum;
        self.changes += changes.len() as u64;
        self.failed = false;
        self.checkpoint(log, false);
        // Those of earlier frames only: the last frame can be undone, if a page of it rots.
        let later = self.garbage.emptied.split_off(going);
        self.remove_emptied(log);
        self.garbage.emptied.extend(later);
        Ok(())
    }

    /// Removes the files in which nothing lives. If a file cannot be removed the commit has
    /// succeeded all the same, but no other follows.
    pub(crate) fn remove_emptied(&mut self, log: &LogState) {
        let Some(disk) = &log.disk else {
            return;
        };
        while let Some(slot) = self.garbage.emptied.pop() {
            let table = log.segments.load();
            let Some(segment) = table.get(slot) else {
                continue;
            };
            // Readers that hold the table keep the file open, and read on.
            log.segments.remove(slot);
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.note_removed(slot, segment.number);
            }
            if let Some(ledger) = log.ledger_mut().segments.get_mut(slot) {
                *ledger = None;
            }
            // Removals for this segment are dropped from now on, so its name must not come back.
            let removed = match disk.remove(&segment.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => disk.sync_name(&segment.path),
            };
            if removed.is_err() {
                self.failed = true;
                return;
            }
        }
    }

    /// Goes on with a checkpoint, or begins one if it is due. `finish` writes all of it, for a
    /// clean end. A checkpoint that cannot be written is given up: the log has everything.
    pub(crate) fn checkpoint(&mut self, log: &LogState, finish: bool) {
        let Some(disk) = &log.disk else {
            return;
        };
        if finish && self.is_checkpoint_due(log, finish) {
            // Much has come since the one under way was begun, and the next opening would read it.
            self.checkpoint = None;
        }
        if self.checkpoint.is_none() && self.is_checkpoint_due(log, finish) {
            let ledger = log.ledger();
            if let Some(tip) = ledger.tip {
                let label = Label {
                    flush: ledger.flush,
                    tail: self.tail.position,
                    trailer: self.trailer,
                    tip,
                    coins: ledger.coins,
                    digest: ledger.digest,
                };
                // `begin` locks it, too.
                drop(ledger);
                // Later changes count for the next checkpoint.
                self.changes = 0;
                // One that cannot be begun is tried again after as many changes.
                self.checkpoint = CheckpointWriter::begin(log, &**disk, label, self.epoch).ok();
                log.segments.keep_slots(self.checkpoint.is_some());
            }
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            match checkpoint.step(log, &**disk, finish) {
                Ok(false) => return,
                Ok(true) => self.label_segment = self.checkpoint.take().map(|written| written.label_segment()),
                Err(_) => self.checkpoint = None,
            }
            log.segments.keep_slots(false);
        }
    }

    fn is_checkpoint_due(&self, log: &LogState, finish: bool) -> bool {
        let due = log.options.checkpoint_changes.max(log.ledger().coins / 4);
        self.changes > 0 && self.changes >= if finish { due / CLEAN_END_SHARE } else { due }
    }
}

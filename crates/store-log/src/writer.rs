//! The writer: what only commits use.

use crate::checkpoint::{CheckpointWriter, Label};
use crate::commit::Commit;
use crate::frame::{Frame, Tail};
use crate::garbage::Garbage;
use crate::store::{LogStore, Shared};
use blockmill_coins::{Changes, StoreError, Tip};
use std::io::ErrorKind;
use std::sync::PoisonError;

/// A clean end writes a checkpoint if the changes since the last are this part of those that make
/// one due.
const CLEAN_END_SHARE: u64 = 16;

/// Where the log ends, and what goes on beside the commits.
pub(crate) struct Writer {
    /// Random, in each page of this opening.
    pub(crate) epoch: u64,
    pub(crate) tail: Tail,
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
    /// Whether the file of the checkpoint, if there is one, does not fit the log.
    pub(crate) has_stale_checkpoint: bool,
}

impl Writer {
    /// One commit. See [`Commit`].
    pub(crate) fn commit(&mut self, shared: &Shared, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        if shared.disk.is_none() {
            return Err(StoreError::Backend("the store was opened to read".to_owned()));
        }
        if self.failed {
            return Err(StoreError::Backend(format!(
                "{}: an earlier write has failed, so nothing is written any more",
                shared.directory.display()
            )));
        }
        // Also if the changes panic.
        self.failed = true;
        let Some(flush) = shared.ledger().flush.checked_add(1) else {
            return Err(StoreError::Corrupt(
                "the last frame has the last number of all".to_owned(),
            ));
        };
        let label = self.checkpoint.as_ref().map(CheckpointWriter::label_segment);
        let kept: Vec<u32> = self.label_segment.into_iter().chain(label).collect();
        // Nothing lives in their segments, and their files go after this commit.
        let going = self.garbage.emptied.len();
        let frame = Frame::new(shared, flush, self.epoch, self.tail);
        let committed = Commit::new(shared, changes, frame).run(&mut self.garbage, &kept, self.trailer, tip)?;
        self.tail = committed.tail;
        self.trailer = committed.trailer_checksum;
        self.changes += changes.len() as u64;
        self.failed = false;
        self.checkpoint(shared, false);
        // Those of earlier frames only: the last frame can be undone, if a page of it rots.
        let later = self.garbage.emptied.split_off(going);
        self.remove_emptied(shared);
        self.garbage.emptied.extend(later);
        Ok(())
    }

    /// Removes the files in which nothing lives. If a file cannot be removed the commit has
    /// succeeded all the same, but no other follows.
    fn remove_emptied(&mut self, shared: &Shared) {
        let Some(disk) = &shared.disk else {
            return;
        };
        while let Some(slot) = self.garbage.emptied.pop() {
            let table = shared.segments.load();
            let Some(segment) = table.get(slot) else {
                continue;
            };
            shared.segments.remove(slot);
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.note_removed(slot, segment.number);
            }
            if let Some(ledger) = shared.ledger_mut().segments.get_mut(slot) {
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
    pub(crate) fn checkpoint(&mut self, shared: &Shared, finish: bool) {
        let Some(disk) = &shared.disk else {
            return;
        };
        if finish && self.is_checkpoint_due(shared, finish) {
            // Much has come since the one under way was begun, and the next opening would read it.
            self.checkpoint = None;
        }
        if self.checkpoint.is_none() && self.is_checkpoint_due(shared, finish) {
            let ledger = shared.ledger();
            if let Some(tip) = ledger.tip {
                let label = Label {
                    flush: ledger.flush,
                    tail: self.tail.position,
                    trailer: self.trailer,
                    tip,
                    coins: ledger.coins,
                    digest: ledger.digest,
                };
                drop(ledger);
                self.changes = 0;
                self.checkpoint = CheckpointWriter::begin(shared, &**disk, label, self.epoch).ok();
                shared.segments.keep_slots(self.checkpoint.is_some());
            }
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            match checkpoint.step(shared, &**disk, finish) {
                Ok(false) => return,
                Ok(true) => self.label_segment = self.checkpoint.take().map(|written| written.label_segment()),
                Err(_) => self.checkpoint = None,
            }
            shared.segments.keep_slots(false);
        }
    }

    fn is_checkpoint_due(&self, shared: &Shared, finish: bool) -> bool {
        let due = shared.options.checkpoint_changes.max(shared.ledger().coins / 4);
        self.changes > 0 && self.changes >= if finish { due / CLEAN_END_SHARE } else { due }
    }
}

impl Drop for LogStore {
    /// A clean end leaves a checkpoint, so that the next opening is fast, and no file in which
    /// nothing lives.
    fn drop(&mut self) {
        let shared = &self.shared;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !writer.failed && !std::thread::panicking() {
            writer.checkpoint(shared, true);
            if writer.changes == 0 {
                // The checkpoint has the last frame.
                writer.remove_emptied(shared);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::SEGMENT_PAGES_MAX;
    use crate::page::Position;
    use crate::store::Options;
    use blockmill_block::BlockHash;
    use blockmill_coins::{CoinStore, OwnedChange};

    /// Files may name any numbers, and the last ones have no next.
    #[test]
    fn the_last_numbers_are_refused() {
        let change_nothing = |store: &LogStore| {
            let changes: &[OwnedChange] = &[];
            let tip = Tip {
                hash: BlockHash([1; 32]),
                height: 1,
            };
            store.commit(&changes, &tip)
        };
        let open = |name: &str| {
            let directory = tempfile::tempdir().unwrap();
            let store = LogStore::open(&directory.path().join(name), "regtest", Options::default()).unwrap();
            change_nothing(&store).unwrap();
            (directory, store)
        };
        let (_directory, store) = open("flush");
        store.shared.ledger_mut().flush = u64::MAX;
        assert!(matches!(change_nothing(&store), Err(StoreError::Corrupt(_))));

        let (_directory, store) = open("segment");
        store.writer.lock().unwrap().tail.position = Position {
            segment: u32::MAX,
            page: SEGMENT_PAGES_MAX,
        };
        assert!(matches!(change_nothing(&store), Err(StoreError::Backend(_))));
    }
}

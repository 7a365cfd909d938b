//! The state at the last commit: from a checkpoint and the frames after it, or from the whole log.

use super::checkpoint::{self, Checkpoint};
use super::replay::{Replayed, replay};
use crate::format::label::Label;
use crate::format::location::SEGMENTS_MAX;
use crate::format::page::{PAGE_BYTES, Page, PageKind, PagePosition, checksum_of};
use crate::format::segment::{Identity, Segment, SegmentTable, segment_path};
use crate::index::ledger::Ledger;
use blockmill_coins::StoreError;
use std::path::Path;
use std::sync::Arc;

/// The state at the last commit, without the index.
pub(crate) struct Recovered {
    pub(crate) table: SegmentTable,
    pub(crate) ledger: Ledger,
    pub(crate) replayed: Replayed,
    /// Where the next frame goes.
    pub(crate) tail: PagePosition,
    /// The checksum of the last trailer.
    pub(crate) trailer: u32,
    /// Whether words of the checkpoint may be of records that are dead.
    pub(crate) has_dead_words: bool,
    /// The segment with the last frame of the checkpoint.
    pub(crate) label_segment: Option<u32>,
}

/// What the caller of [`recover`] makes of a state and of the checkpoint that led to it. None if
/// they do not fit.
type Use<'a, T> = dyn FnMut(&Recovered, Option<Checkpoint>) -> Result<Option<T>, StoreError> + 'a;

/// Finds the state at the last commit, from the checkpoint if it leads there, else from the whole
/// log.
pub(crate) fn recover<T>(
    directory: &Path,
    identity: &Identity,
    segments: &[Arc<Segment>],
    make: &mut Use<'_, T>,
) -> Result<(Recovered, T), StoreError> {
    let mut gone = Vec::new();
    if let Some(checkpoint) = checkpoint::find(directory, identity)? {
        let found = after_checkpoint(checkpoint, segments, &mut gone).and_then(|recovered| {
            let Some((recovered, checkpoint)) = recovered else {
                return Ok(None);
            };
            Ok(make(&recovered, Some(checkpoint))?.map(|made| (recovered, made)))
        });
        match found {
            // What the checkpoint leads to is damaged. The whole log has the last word.
            Ok(None) | Err(StoreError::Corrupt(_)) => {}
            Ok(Some(found)) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
    let recovered = whole_log(segments).map_err(|error| with_gone(directory, &gone, error))?;
    match make(&recovered, None)? {
        Some(made) if recovered.ledger.live() == recovered.ledger.coins => Ok((recovered, made)),
        _ => {
            let lost = StoreError::Corrupt(format!(
                "{}: {} coins are live, and the last trailer has {}: coins were lost or doubled",
                directory.display(),
                recovered.ledger.live(),
                recovered.ledger.coins
            ));
            Err(with_gone(directory, &gone, lost))
        }
    }
}

/// Names the files that a checkpoint knew and that are gone.
fn with_gone(directory: &Path, gone: &[u32], error: StoreError) -> StoreError {
    match (gone.first(), error) {
        (Some(&number), StoreError::Corrupt(text)) => {
            let path = segment_path(directory, number);
            StoreError::Corrupt(format!("{}: the file is gone; {text}", path.display()))
        }
        (_, error) => error,
    }
}

/// Whether the last frame before a checkpoint's label is the one that the label names.
fn is_of_this_log(table: &SegmentTable, label: &Label) -> bool {
    let Some(segment) = table.slot_of(label.tail.segment).and_then(|slot| table.get(slot)) else {
        return false;
    };
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    // The trailer is the page before the tail.
    let Some(number) = label.tail.page.checked_sub(1) else {
        return false;
    };
    segment.read_page(number, &mut page).is_ok_and(|head| {
        head.kind == PageKind::Trailer && head.flush == label.flush && checksum_of(&page) == label.trailer
    })
}

/// The state to which a checkpoint leads. None if it does not fit the log. `gone` gets the segments
/// that it names and that are not there.
fn after_checkpoint(
    mut checkpoint: Checkpoint,
    segments: &[Arc<Segment>],
    gone: &mut Vec<u32>,
) -> Result<Option<(Recovered, Checkpoint)>, StoreError> {
    let label = checkpoint.label;
    let mut ledger = std::mem::take(&mut checkpoint.ledger);
    let numbers = std::mem::take(&mut checkpoint.slots);
    let mut slots: Vec<Option<Arc<Segment>>> = numbers
        .iter()
        .map(|&number| segments.iter().find(|segment| segment.number == number).cloned())
        .collect();
    for segment in segments.iter().filter(|segment| !numbers.contains(&segment.number)) {
        // Segments before the label that it does not name have nothing that lives.
        if segment.number > label.tail.segment {
            // A slot that was free when the checkpoint was begun has no words there.
            let free = (0..slots.len()).find(|&slot| numbers.get(slot) == Some(&0) && slots[slot].is_none());
            match free {
                Some(slot) => slots[slot] = Some(Arc::clone(segment)),
                None => slots.push(Some(Arc::clone(segment))),
            }
        }
    }
    let table = SegmentTable::of(slots);
    if table.slots.len() > SEGMENTS_MAX || !is_of_this_log(&table, &label) {
        return Ok(None);
    }
    // A segment that was collected since: what lived in it lives elsewhere, or not any more.
    for (slot, &number) in numbers.iter().enumerate() {
        if number > 0 && table.get(slot).is_none() {
            gone.push(number);
            ledger.segments[slot] = None;
        }
    }
    // The frames after the label bring the ledger to the last commit.
    let replayed = replay(&table, &mut ledger, label.tail, Some((label.flush, label.trailer)))?;
    // Without a frame after it the label is the last commit.
    (ledger.tip, ledger.flush) = (Some(label.tip), label.flush);
    (ledger.coins, ledger.digest) = (label.coins, label.digest);
    set_last(&mut ledger, &replayed);
    // Masks of later flushes agree with the frames, unless one of both is damaged.
    let is_right = ledger.live() == ledger.coins;
    let recovered = Recovered {
        table,
        ledger,
        tail: replayed.tail.unwrap_or(label.tail),
        trailer: replayed.last.map_or(label.trailer, |last| last.checksum),
        // Only frames after the label and removed segments leave words of dead records.
        has_dead_words: replayed.last.is_some() || !gone.is_empty(),
        replayed,
        label_segment: Some(label.tail.segment),
    };
    Ok(is_right.then_some((recovered, checkpoint)))
}

/// The state that the log alone leads to.
fn whole_log(segments: &[Arc<Segment>]) -> Result<Recovered, StoreError> {
    let table = SegmentTable::of(segments.iter().cloned().map(Some).collect());
    let start = PagePosition {
        segment: segments.first().map_or(1, |segment| segment.number),
        // Page 0 names the segment, and is part of no frame.
        page: 1,
    };
    let mut ledger = Ledger::default();
    let replayed = replay(&table, &mut ledger, start, None)?;
    set_last(&mut ledger, &replayed);
    Ok(Recovered {
        table,
        ledger,
        tail: replayed.tail.unwrap_or(start),
        trailer: replayed.last.map_or(0, |last| last.checksum),
        has_dead_words: false,
        replayed,
        label_segment: None,
    })
}

fn set_last(ledger: &mut Ledger, replayed: &Replayed) {
    if let Some(last) = &replayed.last {
        ledger.tip = Some(last.trailer.tip);
        ledger.flush = last.flush;
        ledger.coins = last.trailer.coins;
        ledger.digest = last.trailer.digest;
    }
}

//! Blocks that the data directory retains for a while, since the node may not have them any more.
//! It prunes old files, and after a kill it forgets its last blocks and writes others over them.
//!
//! To disconnect a block, its content is needed. So the last blocks of the chain are retained as
//! they are connected, once the end of the best chain is near: an initial sync writes them once, at
//! its end. What another run has connected and not retained is copied from the block files.

use crate::pipeline::error::ConnectError;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::load::{Content, LoadRequest};
use crate::pipeline::state::{Pipeline, Run};
use blockmill_block::Block;
use blockmill_blockfiles::is_there;
use blockmill_chain::index::BlockId;
use blockmill_coins::UndoPosition;
use blockmill_rules::ScriptVerifier;
use std::sync::atomic::Ordering;

/// Blocks of the chain that are retained: as many as a node that prunes has (Core's
/// `MIN_BLOCKS_TO_KEEP`).
const OF_CHAIN: u32 = 288;

/// As many blocks must be above one that left the chain before it is dropped.
const ABOVE_OTHERS: u32 = 1_000;

/// Whether the data directory has a block itself.
fn is_own(run: &Run<'_>, id: BlockId) -> bool {
    let files = run.chain.files().read();
    let mut positions = run.chain.index().positions(id);
    positions.any(|position| run.data.is_own(files.path(position.file)))
}

/// The lowest block that is retained of a chain that ends at a height, or at the limit below it.
pub(crate) fn first_kept(best_height: u32, height_max: Option<u32>) -> u32 {
    let end = height_max.unwrap_or(best_height).min(best_height);
    (end + 1).saturating_sub(OF_CHAIN)
}

/// Writes what disconnecting the next block of the chain needs: the block itself, from the height
/// `first_kept` on, and its undo data.
pub(crate) fn keep_and_write_undo<V: ScriptVerifier + 'static>(
    run: &mut Run<'_>,
    next: &InFlight<V>,
    first_kept: u32,
) -> Result<UndoPosition, ConnectError> {
    if run.chain.height() >= first_kept.saturating_sub(1) {
        keep(run, next.id, &next.block)?;
    }
    let header = next.block.header();
    Ok(run.data.log.append_record(header, &next.record)?)
}

/// Keeps a block, if the data directory does not have it.
pub(crate) fn keep(run: &mut Run<'_>, id: BlockId, block: &Block) -> Result<(), ConnectError> {
    if !is_own(run, id) {
        let position = run.data.keep(block, run.chain.files())?;
        run.chain.note_copy(id, position);
    }
    Ok(())
}

/// Keeps the last blocks of the chain, as far as they can be disconnected and read.
pub(crate) fn keep_last<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
) -> Result<(), ConnectError> {
    let last = first_kept(run.chain.height(), pipeline.settings.options.stop_at_height)..=run.chain.height();
    let ids = last.filter_map(|height| run.chain.active_at(height as usize));
    let is_new = |&id: &BlockId| {
        let entry = run.chain.index().entry(id);
        entry.undo().is_some() && entry.has_content() && !is_own(run, id) && !pipeline.not_kept.contains(&id)
    };
    // In the order of the chain, so that files grow old as a whole.
    let new: Vec<_> = ids.filter(is_new).collect();
    if new.len() > 1 {
        // What took long is durable first.
        pipeline.flush(run)?;
    }
    for id in new {
        if pipeline.stop().load(Ordering::Relaxed) {
            break;
        }
        let loaded = pipeline.loader.load(LoadRequest::new(run.chain.index(), id));
        match loaded.content {
            Content::Sound(sound) => keep(run, id, &sound.block)?,
            Content::Rejected(..) | Content::Unreadable(_) => {
                pipeline.not_kept.insert(id);
            }
        }
    }
    Ok(())
}

/// Removes the files all of whose blocks are old, once a new one has begun. The last file stays,
/// which grows. What was flushed is at the tip, or else these blocks may be needed.
pub(crate) fn remove_old(run: &mut Run<'_>) -> Result<(), ConnectError> {
    if !run.data.has_begun_kept_file() {
        return Ok(());
    }
    let files = run.chain.files().read();
    let mut kept = Vec::new();
    for file in 0..files.len() as u32 {
        let path = files.path(file);
        if run.data.is_kept(path) && is_there(path)? {
            kept.push(file);
        }
    }
    kept.pop();
    if kept.is_empty() {
        return Ok(());
    }
    let tip = run.chain.height();
    for (id, file) in run.chain.index().blocks_in(&kept) {
        let height = run.chain.index().entry(id).height;
        let above = if run.chain.is_active(id) {
            OF_CHAIN
        } else {
            ABOVE_OTHERS
        };
        if height + above > tip {
            kept.retain(|&old| old != file);
        }
    }
    // The next look at files notes that they are gone.
    for file in kept {
        run.data.remove_kept(files.path(file))?;
    }
    Ok(())
}

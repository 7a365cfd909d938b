//! Blocks that the data directory keeps for a while, since nobody else may have them: a node
//! removes its files, and one that was killed forgets its last blocks, and writes others over them.

use crate::pipeline::error::ConnectError;
use crate::pipeline::load::Content;
use crate::pipeline::state::{Pipeline, Run};
use blockmill_block::Block;
use blockmill_blockfiles::is_there;
use blockmill_chain::index::BlockId;
use blockmill_rules::ScriptVerifier;

/// Blocks of the chain that an engine beside a node keeps: as many as a node that prunes (Core's
/// `MIN_BLOCKS_TO_KEEP`).
const OF_CHAIN: u32 = 288;

/// Blocks above one that left the chain, until it is not kept any more.
const ABOVE_OTHERS: u32 = 1_000;

/// Whether the data directory has a block itself.
fn is_own(run: &Run<'_>, id: BlockId) -> bool {
    let files = run.chain.files().read();
    let mut positions = run.chain.index().positions(id);
    positions.any(|position| run.data.is_own(files.path(position.file)))
}

/// Keeps a block, if the data directory does not have it.
pub(crate) fn keep(run: &mut Run<'_>, id: BlockId, block: &Block) -> Result<(), ConnectError> {
    if !is_own(run, id) {
        let position = run.data.keep(block, run.chain.files())?;
        run.chain.receive(id, position, run.reporter.observer);
    }
    Ok(())
}

/// Keeps the last blocks of the chain as far as they can be read, and removes files of blocks that
/// need not be kept any more.
pub(crate) fn keep_last<V: ScriptVerifier + 'static>(
    pipeline: &Pipeline<V>,
    run: &mut Run<'_>,
) -> Result<(), ConnectError> {
    let mut new = Vec::new();
    let mut id = run.chain.tip_id();
    // Below one that is kept, all are.
    while new.len() < OF_CHAIN as usize && !is_own(run, id) {
        let entry = run.chain.index().entry(id);
        let Some(parent) = entry.parent else {
            break;
        };
        new.push(id);
        id = parent;
    }
    let is_any_new = !new.is_empty();
    // From below, so that this holds after a kill, too.
    for id in new.into_iter().rev() {
        if run.chain.index().entry(id).has_content()
            && let Content::Sound(sound) = pipeline.load_now(run.chain, id, run.reporter.telemetry)
        {
            keep(run, id, &sound.block)?;
        }
    }
    if is_any_new {
        remove_old(run)?;
    }
    Ok(())
}

/// Removes the files all of whose blocks are old. The last file stays, which grows.
fn remove_old(run: &mut Run<'_>) -> Result<(), ConnectError> {
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

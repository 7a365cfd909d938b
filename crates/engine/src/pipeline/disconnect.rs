//! The tip is disconnected, for a branch with more work.

use crate::pipeline::error::ConnectError;
use crate::pipeline::keep::keep;
use crate::pipeline::load::Content;
use crate::pipeline::shards;
use crate::pipeline::state::{Pipeline, Run};
use blockmill_chain::report::events::BlockChange;
use blockmill_coins::UndoLogError;
use blockmill_rules::ScriptVerifier;

/// Disconnects the tip, with its undo data.
pub(crate) fn disconnect_tip<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
) -> Result<(), ConnectError> {
    let id = run.chain.tip_id();
    let entry = run.chain.index().entry(id).clone();
    let missing = |detail: String| ConnectError::CannotDisconnect {
        hash: entry.hash,
        height: entry.height,
        detail,
    };
    let position = entry
        .undo()
        .ok_or_else(|| missing("it has no undo data, since it came with a snapshot".to_owned()))?;
    let sound = match pipeline.load_active(run.chain, id, run.reporter.telemetry) {
        Content::Sound(sound) => sound,
        Content::Rejected(reject, _) => return Err(missing(reject.to_string())),
        Content::Unreadable(unreadable) => return Err(missing(unreadable.detail)),
    };
    let read = run.data.log.read(&run.chain.index().header(id), &position);
    let undo = read.map_err(|error| match error {
        UndoLogError::Record(error) => ConnectError::Undo {
            hash: entry.hash,
            error,
        },
        other => other.into(),
    })?;
    let block = sound.block;
    if !undo.fits(&block) {
        return Err(missing("its undo data is another block's".to_owned()));
    }
    // A consumer of the feed that has handled the block must be able to undo that.
    keep(run, id, &block)?;
    // All errors up to here leave the cache as it was.
    let disconnected = pipeline.change_coins(|cache| shards::disconnect(&block, &sound.outline, &undo, cache))?;
    let overwritten = run.chain.index().params().bip30_overwritten;
    // As in Core, the blocks whose coinbase a later block has overwritten may lack outputs.
    if !disconnected && !overwritten.contains(&(entry.height, entry.hash)) {
        pipeline.flusher.note_broken();
        return Err(missing("the UTXO set does not have its outputs".to_owned()));
    }
    run.chain.disconnect_tip();
    pipeline.flusher.note_tip_moved();
    run.reporter.disconnected(&BlockChange {
        height: entry.height,
        block: &block,
        undo: &undo,
    });
    Ok(())
}

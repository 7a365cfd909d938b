//! Blocks that the data directory keeps for a while, since the node may not have them any more. It
//! removes old files. After a kill it forgets its last blocks, and writes others over them.

use crate::pipeline::error::ConnectError;
use crate::pipeline::load::{Content, LoadRequest};
use crate::pipeline::state::{Pipeline, Run};
use blockmill_block::Block;
use blockmill_blockfiles::{RECORD_HEAD, is_there};
use blockmill_chain::index::BlockId;
use blockmill_rules::ScriptVerifier;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Blocks of the chain that an engine beside a node keeps: as many as a node that prunes (Core's
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

/// Keeps a block, if the data directory does not have it. Returns whether a file begins with it.
pub(crate) fn keep(run: &mut Run<'_>, id: BlockId, block: &Block) -> Result<bool, ConnectError> {
    if is_own(run, id) {
        return Ok(false);
    }
    let position = run.data.keep(block, run.chain.files())?;
    run.chain.receive(id, position, run.reporter.observer);
    Ok(position.offset == RECORD_HEAD)
}

/// Keeps the last blocks of the chain.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// Those that could not be read: they are not tried again.
    unreadable: HashSet<BlockId>,
    /// Whether a file has begun since old ones were removed.
    has_begun: bool,
}

impl Keeper {
    /// Keeps the last blocks of the chain as far as they can be read.
    pub(crate) fn keep_last<V: ScriptVerifier + 'static>(
        &mut self,
        pipeline: &Pipeline<V>,
        run: &mut Run<'_>,
    ) -> Result<(), ConnectError> {
        let mut new = Vec::new();
        let mut id = run.chain.tip_id();
        for _ in 0..OF_CHAIN {
            let entry = run.chain.index().entry(id);
            // The first block is everybody's.
            let Some(parent) = entry.parent else {
                break;
            };
            if entry.has_content() && !is_own(run, id) && !self.unreadable.contains(&id) {
                new.push(id);
            }
            id = parent;
        }
        // In the order of the chain, so that files grow old as a whole.
        for id in new.into_iter().rev() {
            if pipeline.stop().load(Ordering::Relaxed) {
                break;
            }
            let loaded = pipeline.loader().load(LoadRequest::new(run.chain.index(), id));
            match loaded.content {
                Content::Sound(sound) => self.has_begun |= keep(run, id, &sound.block)?,
                Content::Rejected(..) | Content::Unreadable(_) => {
                    self.unreadable.insert(id);
                }
            }
        }
        Ok(())
    }

    /// Removes the files all of whose blocks are old, once a new one has begun. The last file
    /// stays, which grows. What was flushed is at the tip, or else these blocks may be needed.
    pub(crate) fn remove_old(&mut self, run: &Run<'_>) -> Result<(), ConnectError> {
        if !std::mem::take(&mut self.has_begun) {
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
}

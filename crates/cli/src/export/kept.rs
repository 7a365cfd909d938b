//! What of a table that is there is still true of its chain.

use crate::advice;
use crate::export::manifest::{Manifest, Partition};
use crate::failure::Failure;
use blockmill_chain::ChainBlocks;
use std::path::Path;

/// Blocks that a reorganisation takes off a chain, at most: as many as a node that prunes keeps
/// (Core's `MIN_BLOCKS_TO_KEEP`).
pub(crate) const DEPTH_MAX: u32 = 288;

/// The partitions of a table that is there.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Those whose last block is on the chain.
    pub(crate) on_chain: Vec<Partition>,
    /// The others, all of which are above.
    pub(crate) off_chain: Vec<Partition>,
}

impl Kept {
    /// Of a table that is to end at height `last` of a chain. Messages name `path`, which has its
    /// manifest, and how it is made anew.
    ///
    /// # Errors
    /// That it would lose what no reorganisation takes away.
    pub(crate) fn of(
        found: Manifest,
        (path, anew): (&Path, &str),
        blocks: &ChainBlocks,
        last: u32,
    ) -> Result<Self, Failure> {
        let is_on_chain = |partition: &Partition| {
            let hash = blocks.hash(partition.to);
            hash.is_ok_and(|hash| hash.to_string() == partition.hash)
        };
        let (on_chain, off_chain): (Vec<_>, Vec<_>) = found.partitions.into_iter().partition(is_on_chain);
        if let Some(above) = on_chain.iter().find(|partition| partition.to > last) {
            return Err(Failure::Usage(format!(
                "{}: the table there goes to height {} or above, and this export would end at height {last}",
                path.display(),
                above.to
            )));
        }
        let tip = blocks.height();
        // What stays is not read, so what the records of its blocks hide does not show.
        if let Some(above) = off_chain.last().filter(|last| last.to > tip)
            && !blocks.is_connected()
        {
            return Err(Failure::Corrupt(advice::with_advice(
                format!(
                    "{}: the table there goes to height {}, and the chain that the block files show ends at height \
                     {tip}: records may hide blocks",
                    path.display(),
                    above.to
                ),
                Some(advice::OF_HIDDEN),
            )));
        }
        let kept = Self { on_chain, off_chain };
        kept.check_depth((path, anew), tip)?;
        Ok(kept)
    }

    /// Refuses to remove what no reorganisation takes away: the table is that of another chain, or
    /// this one lacks its last blocks.
    fn check_depth(&self, (path, anew): (&Path, &str), tip: u32) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (self.off_chain.first(), self.off_chain.last()) else {
            return Ok(());
        };
        // The last block of the first one is off the chain, too.
        let depth = (last.to - first.to).saturating_add(1).max(last.to.saturating_sub(tip));
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let common = self.on_chain.last().map_or_else(
            || "has no block of it at the end of a file".to_owned(),
            |common| format!("has its block at height {}, and then others or none", common.to),
        );
        Err(Failure::Usage(format!(
            "{}: the table there goes to height {}, and the chain, which ends at height {tip}, {common}: that is no \
             reorganisation; nothing was removed; connect first if the directory is behind, else {}",
            path.display(),
            last.to,
            anew
        )))
    }
}

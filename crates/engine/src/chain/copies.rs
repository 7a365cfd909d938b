//! Chains of equal work are told apart by their sound copies, before any block is connected.

use crate::chain::index::{BlockId, HeaderIndex};
use blockmill_block::Block;
use blockmill_blockfiles::{BlockFiles, Position};
use blockmill_rules::block::{BLOCK_RULES, BlockContext, BlockOptions, LoneBlock, check_block_context};
use blockmill_rules::{Reject, RejectKind};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rules that a header does not answer for. Its work was checked when it was inserted.
const CONTENT: BlockOptions = BlockOptions { proof_of_work: false };

/// If several chains have the most work, finds where the blocks of the best one lie, as far as they
/// have several copies, until the best one is known. A block without a sound copy is left as it is:
/// who reads it says so. Ends early when `stop` is set.
pub(crate) fn settle_ties(index: &mut HeaderIndex, files: &BlockFiles, stop: &AtomicBool) {
    let mut settled = HashSet::new();
    while index.is_tied() {
        let best = index.best_header();
        let mut next = Some(best).filter(|id| settled.insert(*id));
        while let Some(id) = next {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if let Some(position) = find_content(index, files, id) {
                index.found_at(id, position);
            }
            next = index.entry(id).parent.filter(|parent| settled.insert(*parent));
        }
        index.settle_order();
        if index.best_header() == best {
            return;
        }
    }
}

/// Where the content of a block lies that has several copies.
fn find_content(index: &HeaderIndex, files: &BlockFiles, id: BlockId) -> Option<Position> {
    let mut positions = index.positions(id).filter(|_| index.has_copies(id));
    positions.find(|&position| is_sound(index, files, id, position))
}

/// Whether the content of a block lies at a position. The block may be invalid all the same.
fn is_sound(index: &HeaderIndex, files: &BlockFiles, id: BlockId, position: Position) -> bool {
    let Ok(Ok(block)) = files.read(&position).map(Block::decode) else {
        return false;
    };
    let verdict = |block: &Block| -> Result<(), Reject> {
        let (params, entry) = (index.params(), index.entry(id));
        let signed = || Ok(());
        let lone = LoneBlock::new(block, params, CONTENT, &signed);
        let mut rules = BLOCK_RULES.iter().filter(|rule| rule.activation.holds(params, 0));
        rules.try_for_each(|rule| (rule.check)(&lone))?;
        let parent = entry.parent.map_or(entry, |parent| index.entry(parent));
        let context = BlockContext {
            params,
            height: entry.height,
            parent_median_time_past: parent.median_time_past,
        };
        check_block_context(block, &context)
    };
    block.hash() == index.entry(id).hash
        && !matches!(verdict(&block), Err(reject) if reject.kind == RejectKind::Mutated)
}

//! An observer that keeps the rejected blocks.

use blockmill_block::BlockHash;
use blockmill_engine::{Event, Observer, Rejected};
use blockmill_rules::Reject;

/// The rejected blocks that an engine reports while it runs, in order.
#[derive(Default)]
pub(crate) struct Rejections(pub(crate) Vec<Rejected>);

impl Rejections {
    /// Hash and reason of each block. Engines with different directories have these in common.
    pub(crate) fn reasons(&self) -> Vec<(BlockHash, &Reject)> {
        self.0.iter().map(|block| (block.hash, &block.reject)).collect()
    }
}

impl Observer for Rejections {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Rejected(rejected) = event {
            self.0.push((*rejected).clone());
        }
    }
}

//! Short chains of empty blocks.

use blockmill_chaingen::bitcoin::{self, Block, constants::genesis_block};
use blockmill_chaingen::builder::BlockBuilder;

/// Blocks on a parent, the first at `height`; the one at `bad` pays too much to its miner.
pub(crate) fn branch(parent: &Block, height: u32, count: u32, time_more: u32, bad: Option<u32>) -> Vec<Block> {
    let mut blocks = vec![parent.clone()];
    for height in height..height + count {
        let parent = blocks.last().unwrap();
        let builder = BlockBuilder::new(parent.block_hash(), height, parent.header.time + 600 + time_more);
        blocks.push(builder.fees(u64::from(bad == Some(height))).build());
    }
    blocks.split_off(1)
}

pub(crate) fn genesis() -> Block {
    genesis_block(bitcoin::Network::Regtest)
}

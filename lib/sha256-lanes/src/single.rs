//! One lane, by the crate `sha2`.

use crate::lanes::{Lanes, START, States};
use crate::message::{Block, digest, digest_block};
use sha2::block_api::compress256;

/// One lane, on any machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single;

impl Lanes<1> for Single {
    fn compress(self, states: &mut States<1>, [block]: &[&Block; 1]) {
        let mut state = states.lane(0);
        compress256(&mut state, &[**block]);
        states.0 = state.map(|word| [word]);
    }
}

/// Finishes a message whose first blocks are in `state`: `blocks` are the others.
pub(crate) fn finish(mut state: [u32; 8], blocks: [&[Block]; 2]) -> [u8; 32] {
    for blocks in blocks {
        compress256(&mut state, blocks);
    }
    finish_second(START, &digest_block(&state))
}

/// Finishes the second hash of a message.
pub(crate) fn finish_second(mut state: [u32; 8], block: &Block) -> [u8; 32] {
    compress256(&mut state, &[*block]);
    digest(&state)
}

//! Two lanes with the SHA2 instructions of ARMv8.

#![expect(
    unsafe_code,
    reason = "functions need their instructions, loads and stores a pointer"
)]

use crate::lanes::{ROUNDS, ROUNDS_OF_PADDING, START, States, define_lanes};
use crate::message::Block;
use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

define_lanes!(
    /// Two lanes. Only [`detect`](Self::detect) makes one, so its instructions are there.
    Sha,
    2,
    is_aarch64_feature_detected!("sha2")
);

type Vector = uint32x4_t;

define_two_lanes!("neon,sha2");

/// The state of a lane: the words from a to d, and from e to h.
#[derive(Clone, Copy)]
struct State([Vector; 2]);

#[inline]
#[target_feature(enable = "neon")]
fn of_words([a, b, c, d]: [u32; 4]) -> Vector {
    let pair = |low: u32, high: u32| vcreate_u32(u64::from(high) << 32 | u64::from(low));
    vcombine_u32(pair(a, b), pair(c, d))
}

#[inline]
#[target_feature(enable = "neon")]
fn add(a: Vector, b: Vector) -> Vector {
    vaddq_u32(a, b)
}

/// Four rounds of each lane. `words` have their constants added.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn four_rounds(states: &mut [State; LANES], words: [Vector; LANES]) {
    for (State([abcd, efgh]), words) in states.iter_mut().zip(words) {
        // Both instructions take the state before the rounds.
        let before = *abcd;
        *abcd = vsha256hq_u32(before, *efgh, words);
        *efgh = vsha256h2q_u32(*efgh, before, words);
    }
}

/// The next four words of a block, from the last sixteen.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn schedule([first, second, third, last]: Words) -> Vector {
    vsha256su1q_u32(vsha256su0q_u32(first, second), third, last)
}

/// The words of a state in their order.
#[inline]
#[target_feature(enable = "neon")]
fn digest_words(State(words): State) -> [Vector; 2] {
    words
}

#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &Block) -> Words {
    let mut words = [vdupq_n_u32(0); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: these are 16 bytes that can be read; the load asks for no alignment.
        let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
        // A block has its words in big endian.
        *words = vreinterpretq_u32_u8(vrev32q_u8(bytes));
    }
    words
}

#[inline]
#[target_feature(enable = "neon")]
fn store_digest(state: State) -> [u8; 32] {
    let mut digest = [0; 32];
    for (bytes, words) in digest.as_chunks_mut::<16>().0.iter_mut().zip(digest_words(state)) {
        let words = vrev32q_u8(vreinterpretq_u8_u32(words));
        // SAFETY: these are 16 bytes that can be written; the store asks for no alignment.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), words) };
    }
    digest
}

#[inline]
#[target_feature(enable = "neon")]
fn load_states(words: &[[u32; LANES]; 8]) -> [State; LANES] {
    let [low, high] = [&words[..4], &words[4..]].map(|words| {
        // SAFETY: these are 32 bytes that can be read; the load asks for no alignment. It takes
        // apart what is interleaved.
        unsafe { vld2q_u32(words.as_flattened().as_ptr()) }
    });
    [State([low.0, high.0]), State([low.1, high.1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn store_states(words: &mut [[u32; LANES]; 8], [first, second]: [State; LANES]) {
    let (low, high) = words.as_flattened_mut().split_at_mut(8);
    for (half, words) in [low, high].into_iter().enumerate() {
        let both = uint32x4x2_t(first.0[half], second.0[half]);
        // SAFETY: these are 32 bytes that can be written; the store asks for no alignment. It
        // interleaves again.
        unsafe { vst2q_u32(words.as_mut_ptr(), both) };
    }
}

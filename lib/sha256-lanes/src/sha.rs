//! Two lanes with the SHA instructions of x86-64.

#![expect(
    unsafe_code,
    reason = "functions need their instructions, loads and stores a pointer"
)]

use crate::lanes::{ROUNDS, ROUNDS_OF_PADDING, START, States, define_lanes};
use crate::message::Block;
use std::arch::x86_64::*;

define_lanes!(
    /// Two lanes. Only [`detect`](Self::detect) makes one, so its instructions are there.
    Sha,
    2,
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("ssse3")
);

type Vector = __m128i;

define_two_lanes!("sha,sse2,ssse3");

/// The state of a lane as the instructions want it: the words a, b, e, f and c, d, g, h, the first
/// one highest.
#[derive(Clone, Copy)]
struct State([Vector; 2]);

#[inline]
#[target_feature(enable = "sse2")]
fn of_words([a, b, c, d]: [u32; 4]) -> Vector {
    _mm_set_epi32(d.cast_signed(), c.cast_signed(), b.cast_signed(), a.cast_signed())
}

#[inline]
#[target_feature(enable = "sse2")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm_add_epi32(a, b)
}

/// Four rounds of each lane. `words` have their constants added.
#[inline]
#[target_feature(enable = "sha,sse2")]
fn four_rounds(states: &mut [State; LANES], words: [Vector; LANES]) {
    for (State([abef, cdgh]), words) in states.iter_mut().zip(words) {
        // Two rounds turn the words a, b, e, f into the next c, d, g, h. So the halves change
        // roles, and nothing is moved.
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, words);
        *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32::<0x0e>(words));
    }
}

/// The next four words of a block, from the last sixteen.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3")]
fn schedule([first, second, third, last]: Words) -> Vector {
    let across = _mm_alignr_epi8::<4>(last, third);
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), across);
    _mm_sha256msg2_epu32(sum, last)
}

/// The words of a state in their order.
#[inline]
#[target_feature(enable = "sse2")]
fn digest_words(State([abef, cdgh]): State) -> [Vector; 2] {
    // From the lowest on these have f, e, b, a and h, g, d, c.
    let (ab, cd) = (
        _mm_shuffle_epi32::<0b00_01_10_11>(abef),
        _mm_shuffle_epi32::<0b00_01_10_11>(cdgh),
    );
    [_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd)]
}

#[inline]
#[target_feature(enable = "ssse3")]
fn swap_bytes(words: Vector) -> Vector {
    _mm_shuffle_epi8(words, _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203))
}

#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn load_block(block: &Block) -> Words {
    let mut words = [_mm_setzero_si128(); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: these are 16 bytes that can be read; the load asks for no alignment.
        *words = swap_bytes(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
    }
    words
}

#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn store_digest(state: State) -> [u8; 32] {
    let mut digest = [0; 32];
    for (bytes, words) in digest.as_chunks_mut::<16>().0.iter_mut().zip(digest_words(state)) {
        // SAFETY: these are 16 bytes that can be written; the store asks for no alignment.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), swap_bytes(words)) };
    }
    digest
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_states(words: &[[u32; LANES]; 8]) -> [State; LANES] {
    // Two words of both lanes in each: a and b, c and d, e and f, g and h.
    let mut pairs = [_mm_setzero_ps(); 4];
    for (pair, words) in pairs.iter_mut().zip(words.as_chunks::<2>().0) {
        // SAFETY: these are 16 bytes that can be read; the load asks for no alignment.
        *pair = _mm_castsi128_ps(unsafe { _mm_loadu_si128(words.as_ptr().cast()) });
    }
    let [ab, cd, ef, gh] = pairs;
    const FIRST: i32 = 0b00_10_00_10;
    const SECOND: i32 = 0b01_11_01_11;
    let first = [_mm_shuffle_ps::<FIRST>(ef, ab), _mm_shuffle_ps::<FIRST>(gh, cd)];
    let second = [_mm_shuffle_ps::<SECOND>(ef, ab), _mm_shuffle_ps::<SECOND>(gh, cd)];
    [
        State([_mm_castps_si128(first[0]), _mm_castps_si128(first[1])]),
        State([_mm_castps_si128(second[0]), _mm_castps_si128(second[1])]),
    ]
}

#[inline]
#[target_feature(enable = "sse2")]
fn store_states(words: &mut [[u32; LANES]; 8], [first, second]: [State; LANES]) {
    const SWAPPED: i32 = 0b01_00_11_10;
    let [abef, cdgh] = [[first.0[0], second.0[0]], [first.0[1], second.0[1]]];
    let pairs = [
        _mm_unpackhi_epi32(abef[0], abef[1]),
        _mm_unpackhi_epi32(cdgh[0], cdgh[1]),
        _mm_unpacklo_epi32(abef[0], abef[1]),
        _mm_unpacklo_epi32(cdgh[0], cdgh[1]),
    ];
    for (words, pair) in words.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
        // SAFETY: these are 16 bytes that can be written; the store asks for no alignment.
        unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), _mm_shuffle_epi32::<SWAPPED>(pair)) };
    }
}

//! Eight lanes of AVX2.

#![expect(
    unsafe_code,
    reason = "functions need their instructions, loads and stores a pointer"
)]

use crate::lanes::{ROUNDS, ROUNDS_OF_PADDING, START, States, define_lanes};
use crate::message::Block;
use std::arch::x86_64::*;

define_lanes!(
    /// Eight lanes. Only [`detect`](Self::detect) makes one, so its instructions are there.
    Avx2,
    8,
    is_x86_feature_detected!("avx2")
);

type Vector = __m256i;

define_rounds!("avx2", _mm256_loadu_si256, _mm256_storeu_si256);

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u32) -> Vector {
    _mm256_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm256_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate<const BITS: i32>(word: Vector) -> Vector {
    let left = _mm256_sllv_epi32(word, splat(32 - BITS.cast_unsigned()));
    _mm256_or_si256(_mm256_srli_epi32::<BITS>(word), left)
}

#[inline]
#[target_feature(enable = "avx2")]
fn shift<const BITS: i32>(word: Vector) -> Vector {
    _mm256_srli_epi32::<BITS>(word)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm256_xor_si256(_mm256_xor_si256(a, b), c)
}

/// The bits of `yes` where those of `mask` are set, those of `no` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(mask: Vector, yes: Vector, no: Vector) -> Vector {
    _mm256_xor_si256(no, _mm256_and_si256(mask, _mm256_xor_si256(yes, no)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn majority(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, _mm256_or_si256(a, b)))
}

/// Reverses the bytes of each word.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bytes(words: Vector) -> Vector {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(order))
}

/// The words of all lanes' blocks.
#[inline]
#[target_feature(enable = "avx2")]
fn load_blocks(blocks: &[&Block; LANES]) -> [Vector; 16] {
    let mut words = [splat(0); 16];
    for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut rows = [splat(0); 8];
        for (row, block) in rows.iter_mut().zip(blocks) {
            let bytes = &block.as_chunks::<32>().0[half];
            // SAFETY: half of the block is 32 bytes that can be read; the load asks for no
            // alignment.
            *row = swap_bytes(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
        }
        *words = transpose(rows);
    }
    words
}

/// The digests of all lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn store_digests(state: [Vector; 8]) -> [[u8; 32]; LANES] {
    let mut digests = [[0; 32]; LANES];
    for (digest, row) in digests.iter_mut().zip(transpose(state)) {
        // SAFETY: the digest is 32 bytes that can be written; the store asks for no alignment.
        unsafe { _mm256_storeu_si256(digest.as_mut_ptr().cast(), swap_bytes(row)) };
    }
    digests
}

/// Rows become columns: the word `i` of row `j` becomes the word `j` of row `i`.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [Vector; 8]) -> [Vector; 8] {
    // For each four rows, and each position in a half, the words there, in both halves.
    let mut fours = [[splat(0); 4]; 2];
    for (four, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
        let low = [
            _mm256_unpacklo_epi32(rows[0], rows[1]),
            _mm256_unpacklo_epi32(rows[2], rows[3]),
        ];
        let high = [
            _mm256_unpackhi_epi32(rows[0], rows[1]),
            _mm256_unpackhi_epi32(rows[2], rows[3]),
        ];
        *four = [
            _mm256_unpacklo_epi64(low[0], low[1]),
            _mm256_unpackhi_epi64(low[0], low[1]),
            _mm256_unpacklo_epi64(high[0], high[1]),
            _mm256_unpackhi_epi64(high[0], high[1]),
        ];
    }
    let mut columns = [splat(0); 8];
    for position in 0..4 {
        columns[position] = _mm256_permute2x128_si256::<0x20>(fours[0][position], fours[1][position]);
        columns[4 + position] = _mm256_permute2x128_si256::<0x31>(fours[0][position], fours[1][position]);
    }
    columns
}

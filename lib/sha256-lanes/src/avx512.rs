//! Sixteen lanes of AVX-512.

#![expect(
    unsafe_code,
    reason = "functions need their instructions, loads and stores a pointer"
)]

use crate::lanes::{ROUNDS, ROUNDS_OF_PADDING, START, States, define_lanes};
use crate::message::Block;
use std::arch::x86_64::*;

define_lanes!(
    /// Sixteen lanes. Only [`detect`](Self::detect) makes one, so its instructions are there.
    Avx512,
    16,
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
);

type Vector = __m512i;

define_rounds!("avx512f,avx512bw", _mm512_loadu_si512, _mm512_storeu_si512);

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> Vector {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate<const BITS: i32>(word: Vector) -> Vector {
    _mm512_ror_epi32::<BITS>(word)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn shift<const BITS: u32>(word: Vector) -> Vector {
    _mm512_srli_epi32::<BITS>(word)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// The bits of `yes` where those of `mask` are set, those of `no` elsewhere.
#[inline]
#[target_feature(enable = "avx512f")]
fn choose(mask: Vector, yes: Vector, no: Vector) -> Vector {
    _mm512_ternarylogic_epi32::<0xca>(mask, yes, no)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn majority(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm512_ternarylogic_epi32::<0xe8>(a, b, c)
}

/// Reverses the bytes of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn swap_bytes(words: Vector) -> Vector {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order))
}

/// The words of all lanes' blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_blocks(blocks: &[&Block; LANES]) -> [Vector; 16] {
    let mut rows = [splat(0); 16];
    for (row, block) in rows.iter_mut().zip(blocks) {
        // SAFETY: the block is 64 bytes that can be read; the load asks for no alignment.
        *row = swap_bytes(unsafe { _mm512_loadu_si512(block.as_ptr().cast()) });
    }
    transpose(rows)
}

/// The digests of all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_digests(state: [Vector; 8]) -> [[u8; 32]; LANES] {
    let mut words = [splat(0); 16];
    words[..8].copy_from_slice(&state);
    let mut digests = [[0; 32]; LANES];
    for (digest, row) in digests.iter_mut().zip(transpose(words)) {
        let half = _mm512_castsi512_si256(swap_bytes(row));
        // SAFETY: the digest is 32 bytes that can be written; the store asks for no alignment.
        unsafe { _mm256_storeu_si256(digest.as_mut_ptr().cast(), half) };
    }
    digests
}

/// Rows become columns: the word `i` of row `j` becomes the word `j` of row `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [Vector; 16]) -> [Vector; 16] {
    // For each four rows, and each position in a quarter, the words there, in all quarters.
    let mut fours = [[splat(0); 4]; 4];
    for (four, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
        let low = [
            _mm512_unpacklo_epi32(rows[0], rows[1]),
            _mm512_unpacklo_epi32(rows[2], rows[3]),
        ];
        let high = [
            _mm512_unpackhi_epi32(rows[0], rows[1]),
            _mm512_unpackhi_epi32(rows[2], rows[3]),
        ];
        *four = [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ];
    }
    // The even quarters of two, and the odd ones.
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let mut columns = [splat(0); 16];
    for position in 0..4 {
        let [a, b, c, d] = [
            fours[0][position],
            fours[1][position],
            fours[2][position],
            fours[3][position],
        ];
        let even = [_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<EVEN>(c, d)];
        let odd = [_mm512_shuffle_i32x4::<ODD>(a, b), _mm512_shuffle_i32x4::<ODD>(c, d)];
        columns[position] = _mm512_shuffle_i32x4::<EVEN>(even[0], even[1]);
        columns[4 + position] = _mm512_shuffle_i32x4::<EVEN>(odd[0], odd[1]);
        columns[8 + position] = _mm512_shuffle_i32x4::<ODD>(even[0], even[1]);
        columns[12 + position] = _mm512_shuffle_i32x4::<ODD>(odd[0], odd[1]);
    }
    columns
}

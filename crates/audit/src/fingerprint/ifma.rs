//! Eight factors at a time, in lanes of AVX-512 with IFMA.
//!
//! A number is in four limbs of 52 bits, each a vector with one coin a lane. That is what the
//! multiply-add instructions multiply. They read the low 52 bits of each lane, so every limb that
//! is multiplied is below 2^52.
//!
//! Other lanes were tried and are no gain. On an AMD EPYC (Zen 4) a coin takes 11 ns here, and 21
//! ns in plain integers. In limbs of 28 bits it takes 26 ns in four lanes of AVX2 and 21 ns in
//! eight of AVX-512 without IFMA: the carries of seven limbs cost as much as their products. Two
//! lanes of NEON would be as many instructions for each coin as plain integers are.

#![expect(
    unsafe_code,
    reason = "functions need their instructions, loads and stores a pointer"
)]

use super::{Element, WORDS_SHORT};
use secp256k1_lanes::Backend;
use std::arch::x86_64::*;

/// Coins that are multiplied at a time.
pub(super) const LANES: usize = 8;

/// Limbs of 64 bits of a number.
const LIMBS_64: usize = 3;

/// Limbs of 52 bits of a number.
const LIMBS: usize = 4;

const LIMB_BITS: u32 = 52;
const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;

/// Bits of the last limb of a number below 2^191.
const LAST_BITS: u32 = 191 - 3 * LIMB_BITS;
const LAST_MASK: u64 = (1 << LAST_BITS) - 1;

/// What 2^191 is modulo the prime.
const FOLD: u64 = 19;

/// What 2^208, which follows the last limb, is modulo the prime.
const FOLD_LIMBS: u64 = FOLD << (4 * LIMB_BITS - 191);

/// The instructions. Only [`detect`](Self::detect) makes one, so they are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ifma(());

impl Ifma {
    /// The instructions, if the processor has them and the environment variable `BLOCKMILL_BACKEND`
    /// names no other lanes for signatures, which these instructions were made for.
    pub(super) fn detect() -> Option<Self> {
        let available = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        let wanted = Backend::named().is_none_or(|named| named == Backend::Avx512);
        (available && wanted).then_some(Self(()))
    }

    /// Multiplies each product by the factor of its coin. `point` has the offset, and then the
    /// powers for the words of a short coin.
    #[inline]
    pub(super) fn multiply(self, coins: &Coins, point: &Point, products: &mut Products) {
        // SAFETY: `detect` has seen the instructions.
        unsafe { multiply(coins, point, products) }
    }
}

/// The words of eight coins: for each limb of each word those of all coins.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Coins([[[u64; LANES]; LIMBS_64]; WORDS_SHORT]);

impl Coins {
    pub(super) const NONE: Self = Self([[[0; LANES]; LIMBS_64]; WORDS_SHORT]);

    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, words: &[Element; WORDS_SHORT]) {
        // Written out: loops are not always unrolled, and take twice the time of a coin.
        let Self([first, second, third, fourth]) = self;
        let set = |[a, b, c]: &mut [[u64; LANES]; LIMBS_64], word: &Element| {
            (a[lane], b[lane], c[lane]) = (word.0[0], word.0[1], word.0[2]);
        };
        set(first, &words[0]);
        set(second, &words[1]);
        set(third, &words[2]);
        set(fourth, &words[3]);
    }

    pub(super) fn get(&self, lane: usize) -> [Element; WORDS_SHORT] {
        self.0.map(|word| Element(word.map(|limb| limb[lane])))
    }
}

/// The offset and the powers of the key's second point, in limbs of 52 bits.
#[derive(Clone)]
pub(super) struct Point([[u64; LIMBS]; 1 + WORDS_SHORT]);

impl Point {
    pub(super) fn new(offset: Element, powers: &[Element; WORDS_SHORT]) -> Self {
        let mut point = [[0; LIMBS]; 1 + WORDS_SHORT];
        point[0] = split(offset.canonical());
        for (to, from) in point[1..].iter_mut().zip(powers) {
            *to = split(from.canonical());
        }
        Self(point)
    }
}

/// Eight products.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Products([[u64; LANES]; LIMBS]);

impl Products {
    pub(super) const ONES: Self = Self([[1; LANES], [0; LANES], [0; LANES], [0; LANES]]);

    /// The product of all of them.
    pub(super) fn product(&self) -> Element {
        (0..LANES).fold(Element::ONE, |product, lane| {
            let [a, b, c, d] = self.0.map(|limb| limb[lane]);
            // All limbs are below 2^52, and the last one below 2^36.
            product.multiply(Element([a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28]))
        })
    }
}

/// The limbs of a number.
fn split(Element([a, b, c]): Element) -> [u64; LIMBS] {
    [
        a & LIMB_MASK,
        (a >> 52 | b << 12) & LIMB_MASK,
        (b >> 40 | c << 24) & LIMB_MASK,
        c >> 28,
    ]
}

type Vector = __m512i;

/// A number in each lane.
type Number = [Vector; LIMBS];

/// The columns of a product.
type Columns = [Vector; 2 * LIMBS];

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply(coins: &Coins, Point([offset, powers @ ..]): &Point, products: &mut Products) {
    let zero = _mm512_setzero_si512();
    let mut columns: Columns = [zero; 2 * LIMBS];
    for (column, &limb) in columns.iter_mut().zip(offset) {
        *column = splat(limb);
    }
    let (pairs, _) = coins.0.as_chunks::<2>();
    for (words, powers) in pairs.iter().zip(powers.as_chunks::<2>().0) {
        let (first, second) = (sum(&words[0], &powers[0]), sum(&words[1], &powers[1]));
        add_product(&mut columns, &first, &second);
    }
    let factor = reduce(columns);
    let mut product: Number = [zero; LIMBS];
    for (vector, limb) in product.iter_mut().zip(&products.0) {
        *vector = load(limb);
    }
    let mut columns: Columns = [zero; 2 * LIMBS];
    add_product(&mut columns, &product, &factor);
    for (limb, vector) in products.0.iter_mut().zip(reduce(columns)) {
        // SAFETY: the array is 64 bytes that can be written; the store asks for no alignment.
        unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), vector) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(value: u64) -> Vector {
    _mm512_set1_epi64(value.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u64; LANES]) -> Vector {
    // SAFETY: the array is 64 bytes that can be read; the load asks for no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

/// A word of each coin plus a power, both below 2^191.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum(word: &[[u64; LANES]; LIMBS_64], power: &[u64; LIMBS]) -> Number {
    let (a, b, c) = (load(&word[0]), load(&word[1]), load(&word[2]));
    let mask = splat(LIMB_MASK);
    let limbs = [
        _mm512_and_si512(a, mask),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<52>(a), _mm512_slli_epi64::<12>(b)),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<40>(b), _mm512_slli_epi64::<24>(c)),
            mask,
        ),
        _mm512_srli_epi64::<28>(c),
    ];
    let mut sum = limbs;
    for (limb, &power) in sum.iter_mut().zip(power) {
        *limb = _mm512_add_epi64(*limb, splat(power));
    }
    carry(sum)
}

/// Moves what is above 52 bits of a limb to the next one. The last one keeps it.
#[inline]
#[target_feature(enable = "avx512f")]
fn carry<const N: usize>(mut limbs: [Vector; N]) -> [Vector; N] {
    let mask = splat(LIMB_MASK);
    for index in 1..N {
        let above = _mm512_srli_epi64::<LIMB_BITS>(limbs[index - 1]);
        limbs[index - 1] = _mm512_and_si512(limbs[index - 1], mask);
        limbs[index] = _mm512_add_epi64(limbs[index], above);
    }
    limbs
}

/// Adds a product to its columns. Each gets at most eight terms below 2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn add_product(columns: &mut Columns, a: &Number, b: &Number) {
    for i in 0..LIMBS {
        for j in 0..LIMBS {
            columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], a[i], b[j]);
            columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], a[i], b[j]);
        }
    }
}

/// The number of these columns modulo the prime: all limbs below 2^52, the last one below 2^36. The
/// columns are those of at most two products of numbers below 2^192, and an offset.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce(columns: Columns) -> Number {
    // The sum is below 2^386, so the last column is below 2^22, and its multiple below 2^44.
    let [mut a, mut b, mut c, mut d, e, f, g, h] = carry(columns);
    let fold = splat(FOLD_LIMBS);
    a = _mm512_madd52lo_epu64(a, e, fold);
    b = _mm512_madd52hi_epu64(b, e, fold);
    b = _mm512_madd52lo_epu64(b, f, fold);
    c = _mm512_madd52hi_epu64(c, f, fold);
    c = _mm512_madd52lo_epu64(c, g, fold);
    d = _mm512_madd52hi_epu64(d, g, fold);
    d = _mm512_madd52lo_epu64(d, h, fold);
    let [mut a, b, c, mut d] = carry([a, b, c, d]);
    // The last limb is below 2^54, and what is above 2^191 below 2^19.
    let above = _mm512_srli_epi64::<LAST_BITS>(d);
    d = _mm512_and_si512(d, splat(LAST_MASK));
    a = _mm512_madd52lo_epu64(a, above, splat(FOLD));
    carry([a, b, c, d])
}

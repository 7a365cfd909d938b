//! Arithmetic modulo n, the order of the group, and the splitting of scalars.
//!
//! Products are Montgomery's with R = 2^260. A [`Scalar`] is below 2^257, with limbs below 2^52;
//! its highest limb is below 2^49, which is what keeps a product in the same form.
//!
//! **Splitting.** The curve has a cheap endomorphism: lambda times (x, y) is (beta x, y). So u P is
//! u1 P + u2 (lambda P), for any u1 + u2 lambda = u modulo n; the two halves have half the length
//! (Gallant, Lambert and Vanstone, "Faster point multiplication on elliptic curves with efficient
//! endomorphisms", 2001). The pairs (u1, u2) for one u differ by the vectors of a lattice, of which
//! (A1, -B1) and (A2, A1) are a basis. The pair is reduced by the multiples of both that come
//! nearest, up to an error of two at most, and then made odd in both halves: adding (A1, -B1)
//! changes the parity of both (A1 and B1 are odd), adding (A2, A1) that of the second alone (A2 is
//! even).
//!
//! **Digits.** An odd half k with |k| < 2^130 is, for a width w that divides 130, the sum of
//! (2 c_i - (2^w - 1)) 2^(w i), where the c_i are the digits of K = (k + 2^130 - 1) / 2 to the base
//! 2^w. So every digit is odd, none is zero, and all lanes have the same schedule. Whether K is in
//! its range is not left to the bounds of the lattice: [`Half`] has a mask for it.

use crate::fault::{Fault, is_planted};
use crate::field::Fe;
use crate::inverse::Modulus;
use crate::number::{self, N, Number, limbs, power_of_two_modulo_n};
use crate::word::{LIMB_BITS, LIMB_MASK, Mask, Word, add_product_by_rows, is_odd};

/// Bits of a half.
pub(crate) const HALF_BITS: usize = 130;

const N_LIMBS: [u64; 5] = limbs(&N);
const MODULUS: Modulus = Modulus::new(&N);

/// -1/n modulo 2^52.
const N_NEGATED_INVERSE: u64 = {
    // Newton's iteration. An odd number is its own inverse modulo 8, and each round doubles the
    // bits that are right: from 3 to 96.
    let mut inverse = N[0];
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(N[0].wrapping_mul(inverse)));
        round += 1;
    }
    inverse.wrapping_neg() & LIMB_MASK
};

/// R modulo n.
const R: [u64; 5] = limbs(&power_of_two_modulo_n(260));
/// R^2 modulo n.
const R_SQUARED: [u64; 5] = limbs(&power_of_two_modulo_n(520));

/// The lattice of the endomorphism, and 2^384 times A1 and B1 over n.
const A1: [u64; 5] = limbs(&[0xE86C_90E4_9284_EB15, 0x3086_D221_A7D4_6BCD, 0, 0]);
const A2: [u64; 5] = limbs(&[0x57C1_108D_9D44_CFD8, 0x14CA_50F7_A8E2_F3F6, 1, 0]);
const B1: [u64; 5] = limbs(&[0x6F54_7FA9_0ABF_E4C3, 0xE443_7ED6_010E_8828, 0, 0]);
const A1_OVER_N: [u64; 5] = limbs(&[
    0xE893_209A_45DB_B031,
    0x3DAA_8A14_71E8_CA7F,
    0xE86C_90E4_9284_EB15,
    0x3086_D221_A7D4_6BCD,
]);
const B1_OVER_N: [u64; 5] = limbs(&[
    0x1571_B4AE_8AC4_7F71,
    0x2212_08AC_9DF5_06C6,
    0x6F54_7FA9_0ABF_E4C4,
    0xE443_7ED6_010E_8828,
]);

/// A number modulo n.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scalar<W>(pub(crate) [W; 5]);

/// Half of a scalar: the digits K in three limbs, the highest with 26 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half<W>([W; 3]);

#[inline(always)]
fn splat<W: Word, const N: usize>(limbs: &[u64]) -> [W; N] {
    let mut words = [W::splat(0); N];
    for (word, limb) in words.iter_mut().zip(limbs) {
        *word = W::splat(*limb);
    }
    words
}

impl<W: Word> Scalar<W> {
    #[inline(always)]
    pub(crate) fn from_numbers(numbers: &[Number; 8]) -> Self {
        Self(Fe::from_numbers(numbers).0)
    }

    #[inline(always)]
    pub(crate) fn small(value: u64) -> Self {
        Self(splat(&[value]))
    }

    /// The Montgomery form of 1.
    #[inline(always)]
    fn one() -> Self {
        Self(splat(&R))
    }

    /// Montgomery's product, `self` times `other` over R.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        W::apart(
            #[inline(always)]
            || self.montgomery_product(other),
        )
    }

    #[inline(always)]
    fn montgomery_product(&self, other: &Self) -> Self {
        // Exact: what is 0 modulo p is not 0 here.
        let mut c = [W::splat(0); 10];
        add_product_by_rows(&mut c, &self.0, &other.0);
        let n: [W; 5] = splat(&N_LIMBS);
        for i in 0..5 {
            let times = W::splat(0).add_product_low(c[i], W::splat(N_NEGATED_INVERSE));
            for j in 0..5 {
                c[i + j] = c[i + j].add_product_low(times, n[j]);
            }
            for j in 0..5 {
                c[i + j + 1] = c[i + j + 1].add_product_high(times, n[j]);
            }
            // The low 52 bits are 0 now.
            if !is_planted::<W>(Fault::ScalarCarry(i)) {
                c[i + 1] = c[i + 1].add(c[i].shift_right::<LIMB_BITS>());
            }
        }
        // The columns below are cleared: dropping them is the division by R.
        let mask = W::splat(LIMB_MASK);
        let mut high = [c[5], c[6], c[7], c[8], c[9]];
        for k in 0..4 {
            if !is_planted::<W>(Fault::ScalarResultCarry(k)) {
                high[k + 1] = high[k + 1].add(high[k].shift_right::<LIMB_BITS>());
            }
            high[k] = high[k].and(mask);
        }
        high[4].promise_below::<49>();
        Self(high)
    }

    /// To Montgomery's form.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Self {
        self.mul(&Self(splat(&R_SQUARED)))
    }

    /// The number of a lane of a product: from 0 to n - 1.
    fn number(&self, lane: usize) -> Number {
        // A product is below (2^514 + 2^260 n) / 2^260, so it has one n too much at most, and 257
        // bits.
        let limbs = self.0.map(|limb| limb.to_lanes()[lane]);
        let number = [
            limbs[0] | limbs[1] << 52,
            limbs[1] >> 12 | limbs[2] << 40,
            limbs[2] >> 24 | limbs[3] << 28,
            limbs[3] >> 36 | limbs[4] << 16,
        ];
        let carry = limbs[4] >> 48 != 0;
        if carry || !number::is_below(&number, &N) {
            number::subtract(&number, &N)
        } else {
            number
        }
    }

    /// The number of a lane, of one in Montgomery's form.
    fn leave(&self, lane: usize) -> Number {
        self.mul(&Self::small(1)).number(lane)
    }

    /// The two halves, and the lanes in which they are in their range: all, by the bounds of the
    /// lattice.
    #[inline(always)]
    pub(crate) fn split(&self) -> ([Half<W>; 2], W::Mask) {
        let k = &self.0;
        let a1: [W; 3] = splat(&A1);
        let a2: [W; 3] = splat(&A2);
        let b1: [W; 3] = splat(&B1);
        let times_first = high_product(k, &A1_OVER_N);
        let times_second = high_product(k, &B1_OVER_N);
        // All modulo 2^156.
        let zero = [W::splat(0); 3];
        let subtrahend = low_product(low_product(zero, &times_first, &a1), &times_second, &a2);
        let mut first = difference(&[k[0], k[1], k[2]], &subtrahend);
        let mut second = difference(
            &low_product(zero, &times_first, &b1),
            &low_product(zero, &times_second, &a1),
        );
        let even = is_odd(first[0]).not();
        for i in 0..3 {
            if is_planted::<W>(Fault::Odd(0)) {
                continue;
            }
            first[i] = W::select(even, first[i].add(a1[i]), first[i]);
            second[i] = W::select(even, second[i].sub(b1[i]), second[i]);
        }
        let even = is_odd(second[0]).not();
        for i in 0..3 {
            if is_planted::<W>(Fault::Odd(1)) {
                continue;
            }
            first[i] = W::select(even, first[i].add(a2[i]), first[i]);
            second[i] = W::select(even, second[i].add(a1[i]), second[i]);
        }
        let (first, first_fits) = Half::new(first);
        let (second, second_fits) = Half::new(second);
        ([first, second], first_fits.and(second_fits))
    }
}

#[inline(always)]
fn difference<W: Word>(a: &[W; 3], b: &[W; 3]) -> [W; 3] {
    [a[0].sub(b[0]), a[1].sub(b[1]), a[2].sub(b[2])]
}

/// `k` times `factor` over 2^384, or a little less: the columns below 2^364 are left out, which
/// come to less than 2^369.
#[inline(always)]
fn high_product<W: Word>(k: &[W; 5], factor: &[u64; 5]) -> [W; 3] {
    let factor: [W; 5] = splat(factor);
    let mut c = [W::splat(0); 3];
    for i in 0..5 {
        for j in 0..5 {
            if i + j >= 7 {
                c[i + j - 7] = c[i + j - 7].add_product_low(k[i], factor[j]);
            }
            if i + j >= 6 {
                c[i + j - 6] = c[i + j - 6].add_product_high(k[i], factor[j]);
            }
        }
    }
    for i in 0..2 {
        if !is_planted::<W>(Fault::QuotientCarry(i)) {
            c[i + 1] = c[i + 1].add(c[i].shift_right::<LIMB_BITS>());
        }
    }
    let mask = W::splat(LIMB_MASK);
    let [low, middle, high] = [c[0].and(mask), c[1].and(mask), c[2]];
    // From bit 384 on, which is bit 20 of the lowest of these columns.
    [
        low.shift_right::<20>().or(middle.shift_left_wrapping::<32>()).and(mask),
        middle
            .shift_right::<20>()
            .or(high.shift_left_wrapping::<32>())
            .and(mask),
        high.shift_right::<20>(),
    ]
}

/// `sum` plus the product of two numbers of three limbs, modulo 2^156; carries stay in the limbs.
#[inline(always)]
fn low_product<W: Word>(mut sum: [W; 3], a: &[W; 3], b: &[W; 3]) -> [W; 3] {
    for i in 0..3 {
        for j in 0..3 - i {
            sum[i + j] = sum[i + j].add_product_low(a[i], b[j]);
            if i + j < 2 {
                sum[i + j + 1] = sum[i + j + 1].add_product_high(a[i], b[j]);
            }
        }
    }
    sum
}

impl<W: Word> Half<W> {
    /// From an odd number with a sign, modulo 2^156, whose limbs are not carried. The mask has the
    /// lanes in which it is between -2^130 and 2^130.
    #[inline(always)]
    fn new(mut k: [W; 3]) -> (Self, W::Mask) {
        let mask = W::splat(LIMB_MASK);
        for i in 0..2 {
            if !is_planted::<W>(Fault::HalfCarry(i)) {
                k[i + 1] = k[i + 1].add(k[i].shift_right_signed::<LIMB_BITS>());
            }
            k[i] = k[i].and(mask);
        }
        // The sign is bit 51 of the highest limb.
        let top = k[2].shift_left_wrapping::<12>().shift_right_signed::<12>();
        // Half of k + 2^130 - 1: k is odd, so that takes its lowest bit away.
        let one = W::splat(1);
        let high = top.shift_right_signed::<1>().add(W::splat(1 << 25));
        // Below 0 there are bits from the sign, and from 2^26 on there are others.
        let fits = high.shift_right_signed::<26>().is_zero();
        let digits = [
            k[0].shift_right::<1>().or(k[1].and(one).shift_left::<51>()),
            k[1].shift_right::<1>().or(top.and(one).shift_left::<51>()),
            high.and(W::splat((1 << 26) - 1)),
        ];
        if is_planted::<W>(Fault::HalfRange) {
            return (Self(digits), W::Mask::from_bits(u8::MAX));
        }
        (Self(digits), fits)
    }

    /// The digit of `width` bits at bit `offset`.
    #[inline(always)]
    pub(crate) fn digit(&self, offset: usize, width: usize) -> W {
        let (limb, shift) = (offset / LIMB_BITS as usize, (offset % LIMB_BITS as usize) as u32);
        // All lanes have the same offset. So the branch below is one of the loop, not of the data.
        let mut digit = self.0[limb].shift_right_by(shift);
        if shift as usize + width > LIMB_BITS as usize && limb < 2 {
            digit = digit.or(self.0[limb + 1].shift_left_by(LIMB_BITS - shift));
        }
        digit.and(W::splat((1 << width) - 1))
    }

    /// The half with these digits; for tests with groups of their own.
    #[cfg(test)]
    pub(crate) fn from_numbers(numbers: &[u128; 8]) -> Self {
        let word = |shift: u32| W::from_lanes(&numbers.map(|number| (number >> shift) as u64 & LIMB_MASK));
        Self([word(0), word(52), word(104)])
    }

    #[cfg(test)]
    pub(crate) fn limbs(&self) -> &[W; 3] {
        &self.0
    }
}

/// Replaces scalars in Montgomery's form by their inverses in the same form. None may be 0.
#[inline(always)]
pub(crate) fn invert_all<W: Word>(scalars: &mut [Scalar<W>], before: &mut Vec<Scalar<W>>) {
    // Two chains of products hide latency.
    const CHAINS: usize = 2;
    before.clear();
    let mut products = [Scalar::one(); CHAINS];
    for (index, scalar) in scalars.iter().enumerate() {
        let product = &mut products[index % CHAINS];
        before.push(*product);
        *product = product.mul(scalar);
    }
    // The product of all chains, in each lane; then the inverse of each lane's, by one inversion
    // for all lanes.
    let [first, second] = products;
    let all = first.mul(&second);
    let inverse = invert_lanes(&all);
    let mut inverses = [inverse.mul(&second), inverse.mul(&first)];
    for (index, scalar) in scalars.iter_mut().enumerate().rev() {
        let inverse = &mut inverses[index % CHAINS];
        let own = inverse.mul(&before[index]);
        *inverse = inverse.mul(scalar);
        *scalar = own;
    }
}

/// The inverse of every lane; all in Montgomery's form.
#[inline(always)]
fn invert_lanes<W: Word>(scalar: &Scalar<W>) -> Scalar<W> {
    // One lane at a time, as words of a single lane.
    let lanes = scalar.0.map(|limb| limb.to_lanes());
    let one: Scalar<u64> = Scalar::one();
    let mut before = [one; 8];
    let mut product = one;
    let lane_of = |lane: usize| Scalar::<u64>(lanes.map(|limb| limb[lane]));
    for (lane, before) in before.iter_mut().enumerate().take(W::LANES) {
        *before = product;
        product = product.mul(&lane_of(lane));
    }
    let plain = MODULUS.invert(&product.leave(0));
    let mut inverse = Scalar::<u64>(limbs(&plain)).enter();
    let mut inverses = [[0; 4]; 8];
    for lane in (0..W::LANES).rev() {
        inverses[lane] = inverse.mul(&before[lane]).number(0);
        inverse = inverse.mul(&lane_of(lane));
    }
    Scalar::from_numbers(&inverses)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A half from -2^130 to 2^130 has digits, others are told.
    pub(crate) fn ranges_of_halves() {
        let two = |exponent: u32| 1_i128 << (exponent - 104);
        // The highest limb, with the lowest limb odd.
        let fits = |top: i128| Half::<u64>::new([1, 0, top as u64 & LIMB_MASK]).1;
        for (top, expected) in [
            (0, true),
            (two(130) - 1, true),
            (two(130), false),
            (-two(130), true),
            (-two(130) - 1, false),
            (two(140), false),
            (-two(140), false),
            (two(155) - 1, false),
            (-two(155), false),
        ] {
            assert_eq!(fits(top), expected, "{top:x}");
        }
    }

    #[test]
    fn ranges() {
        ranges_of_halves();
    }
}

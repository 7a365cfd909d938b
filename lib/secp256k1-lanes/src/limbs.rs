//! Numbers of five limbs of 52 bits, and multiples of p to subtract them from.

use crate::fault::{Fault, is_planted};
use crate::word::{FOLD_256, LIMB_BITS, LIMB_MASK, Word};

/// Bits of the highest limb of a number below 2^256.
pub(crate) const TOP_BITS: u32 = 48;

/// The bits of the highest limb of a number below 2^256.
pub(crate) const TOP_MASK: u64 = (1 << TOP_BITS) - 1;

/// The limbs of p.
const P: [u64; 5] = [LIMB_MASK - FOLD_256 + 1, LIMB_MASK, LIMB_MASK, LIMB_MASK, TOP_MASK];

/// `factor` times p, with limbs that are lifted by 2^`lift`: smaller limbs can be subtracted from
/// them without a borrow.
pub(crate) const fn lifted(factor: u64, lift: u32) -> [u64; 5] {
    let mut limbs = [0; 5];
    let mut carry = 0;
    let mut k = 0;
    while k < 5 {
        let sum = P[k] as u128 * factor as u128 + carry;
        limbs[k] = if k < 4 { sum as u64 & LIMB_MASK } else { sum as u64 };
        carry = sum >> LIMB_BITS;
        k += 1;
    }
    // The value stays the same, so the result is still a multiple of p.
    // What a limb gains the next one loses.
    let mut k = 0;
    while k < 4 {
        limbs[k] += 1 << lift;
        limbs[k + 1] -= 1 << (lift - LIMB_BITS);
        k += 1;
    }
    limbs
}

/// A multiple of p to subtract sums of few numbers from.
pub(crate) const LIFTED_SMALL: [u64; 5] = lifted(4, 58);

/// A multiple of p to subtract [`Lazy`] numbers from.
const LIFTED_LARGE: [u64; 5] = lifted(64, 61);

#[inline(always)]
pub(crate) fn each<W: Word>(a: &[W; 5], work: impl Fn(W) -> W) -> [W; 5] {
    [work(a[0]), work(a[1]), work(a[2]), work(a[3]), work(a[4])]
}

#[inline(always)]
pub(crate) fn zip<W: Word>(a: &[W; 5], b: &[W; 5], work: impl Fn(W, W) -> W) -> [W; 5] {
    [
        work(a[0], b[0]),
        work(a[1], b[1]),
        work(a[2], b[2]),
        work(a[3], b[3]),
        work(a[4], b[4]),
    ]
}

#[inline(always)]
pub(crate) fn splat<W: Word>(limbs: &[u64; 5]) -> [W; 5] {
    [
        W::splat(limbs[0]),
        W::splat(limbs[1]),
        W::splat(limbs[2]),
        W::splat(limbs[3]),
        W::splat(limbs[4]),
    ]
}

/// A multiple of p minus a number of any form, limb by limb. No limb is negative.
#[inline(always)]
pub(crate) fn negative<W: Word>(lazy: &[W; 5]) -> [W; 5] {
    zip(&splat(&LIFTED_LARGE), lazy, W::sub)
}

/// The bits above 52 of each limb go to the next one. They stay where they were, too.
#[inline(always)]
pub(crate) fn carry<W: Word>(mut limbs: [W; 5]) -> [W; 5] {
    for k in 0..4 {
        if !is_planted::<W>(Fault::Carry(k)) {
            limbs[k + 1] = limbs[k + 1].add(limbs[k].shift_right::<LIMB_BITS>());
        }
    }
    limbs[4].promise_below::<LIMB_BITS>();
    limbs
}

#[inline(always)]
pub(crate) fn clear<W: Word>(limbs: &[W; 5]) -> [W; 5] {
    let mask = W::splat(LIMB_MASK);
    let [a, b, c, d, e] = *limbs;
    [a.and(mask), b.and(mask), c.and(mask), d.and(mask), e]
}

/// The bits above 52 of each limb go to the next one.
#[inline(always)]
pub(crate) fn carry_and_clear<W: Word>(limbs: [W; 5]) -> [W; 5] {
    clear(&carry(limbs))
}

//! Arithmetic modulo p = 2^256 - 2^32 - 977, in five limbs of 52 bits.
//!
//! Three forms of a number keep carries from being propagated more often than they must be. All of
//! them stand for a residue modulo p, none is unique.
//!
//! | type | limbs | what it may be used for |
//! |---|---|---|
//! | [`Fe`] | below 2^52 | everything |
//! | [`Factor`] | carried, the carried bits still in the limb below | a factor: 52 bits are read |
//! | [`Lazy`] | about 2^58 at most, perhaps negative | to be subtracted from a product |
//!
//! The tests run every formula over intervals: no limb overflows for any input of these forms
//! (`intervals.rs`).

use crate::fault::{Fault, is_planted};
use crate::word::{FOLD_256, FOLD_260, LIMB_BITS, LIMB_MASK, Word};

/// Bits of the highest limb of a number below 2^256.
const TOP_BITS: u32 = 48;

/// The bits of the highest limb of a number below 2^256.
const TOP_MASK: u64 = (1 << TOP_BITS) - 1;

/// The limbs of p.
const P: [u64; 5] = [LIMB_MASK - FOLD_256 + 1, LIMB_MASK, LIMB_MASK, LIMB_MASK, TOP_MASK];

/// `factor` times p, with limbs that are lifted by 2^`lift`: smaller limbs can be subtracted from
/// them without a borrow.
const fn lifted(factor: u64, lift: u32) -> [u64; 5] {
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
const LIFTED_SMALL: [u64; 5] = lifted(4, 58);

/// A multiple of p to subtract [`Lazy`] numbers from.
const LIFTED_LARGE: [u64; 5] = lifted(64, 61);

/// A multiple of p in ten columns, 4p times 2^260, lifted by 2^60: columns of a product, scaled by
/// up to 8, can be subtracted from them without a borrow.
const LIFTED_WIDE: [u64; 10] = {
    const LIFT: u64 = 1 << 60;
    let four_p = lifted(4, LIMB_BITS);
    let mut columns = [0; 10];
    let mut k = 0;
    while k < 10 {
        // What a column gains the next one loses.
        let gain = if k < 9 { LIFT } else { 0 };
        let loss = if k > 0 { LIFT >> LIMB_BITS } else { 0 };
        let digit = if k < 5 { 0 } else { four_p[k - 5] };
        columns[k] = digit + gain - loss;
        k += 1;
    }
    columns
};

/// A number with limbs below 2^52.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fe<W>(pub(crate) [W; 5]);

/// A number whose carries are propagated and not cleared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor<W>(pub(crate) [W; 5]);

/// A number whose carries are not propagated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lazy<W>(pub(crate) [W; 5]);

/// What can be multiplied.
pub(crate) trait Multiplicand<W: Word>: Copy {
    fn limbs(&self) -> &[W; 5];

    #[inline(always)]
    fn times(&self, other: &impl Multiplicand<W>) -> Product<W> {
        Product::new(self.limbs(), other.limbs())
    }

    #[inline(always)]
    fn squared(&self) -> Product<W> {
        Product::square(self.limbs())
    }
}

impl<W: Word> Multiplicand<W> for Fe<W> {
    #[inline(always)]
    fn limbs(&self) -> &[W; 5] {
        &self.0
    }
}

impl<W: Word> Multiplicand<W> for Factor<W> {
    #[inline(always)]
    fn limbs(&self) -> &[W; 5] {
        &self.0
    }
}

/// A product before its reduction: ten columns, the sum of which, each times 2^52 of the one before
/// it, is the product.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct Product<W>([W; 10]);

#[inline(always)]
fn each<W: Word>(a: &[W; 5], work: impl Fn(W) -> W) -> [W; 5] {
    [work(a[0]), work(a[1]), work(a[2]), work(a[3]), work(a[4])]
}

#[inline(always)]
fn zip<W: Word>(a: &[W; 5], b: &[W; 5], work: impl Fn(W, W) -> W) -> [W; 5] {
    [
        work(a[0], b[0]),
        work(a[1], b[1]),
        work(a[2], b[2]),
        work(a[3], b[3]),
        work(a[4], b[4]),
    ]
}

#[inline(always)]
fn splat<W: Word>(limbs: &[u64; 5]) -> [W; 5] {
    [
        W::splat(limbs[0]),
        W::splat(limbs[1]),
        W::splat(limbs[2]),
        W::splat(limbs[3]),
        W::splat(limbs[4]),
    ]
}

/// The bits above 52 of each limb go to the next one. They stay where they were, too.
#[inline(always)]
fn carry<W: Word>(mut limbs: [W; 5]) -> [W; 5] {
    for k in 0..4 {
        if !is_planted::<W>(Fault::Carry(k)) {
            limbs[k + 1] = limbs[k + 1].add(limbs[k].shift_right::<LIMB_BITS>());
        }
    }
    limbs[4].promise_below::<LIMB_BITS>();
    limbs
}

/// The bits above 52 of each limb go to the next one.
#[inline(always)]
fn carry_and_clear<W: Word>(limbs: [W; 5]) -> Fe<W> {
    Factor(carry(limbs)).clear()
}

impl<W: Word> Product<W> {
    #[inline(always)]
    fn new(a: &[W; 5], b: &[W; 5]) -> Self {
        a[4].promise_below::<LIMB_BITS>();
        b[4].promise_below::<LIMB_BITS>();
        Self(W::product(a, b))
    }

    #[inline(always)]
    fn square(a: &[W; 5]) -> Self {
        a[4].promise_below::<LIMB_BITS>();
        Self(W::square(a))
    }

    #[inline(always)]
    pub(crate) fn add_product(mut self, a: &impl Multiplicand<W>, b: &impl Multiplicand<W>) -> Self {
        a.limbs()[4].promise_below::<LIMB_BITS>();
        b.limbs()[4].promise_below::<LIMB_BITS>();
        W::add_product(&mut self.0, a.limbs(), b.limbs());
        self
    }

    /// Minus a number of any form.
    #[inline(always)]
    pub(crate) fn subtract(mut self, lazy: &Lazy<W>) -> Self {
        let lifted = splat(&LIFTED_LARGE);
        // First the lifted limbs, so that no lane goes below zero on the way.
        let difference = zip(&lifted, &lazy.0, W::sub);
        for (column, difference) in self.0.iter_mut().zip(difference) {
            *column = column.add(difference);
        }
        self
    }

    /// Minus 2^`BITS` times another product; 3 bits at most.
    #[inline(always)]
    pub(crate) fn subtract_scaled<const BITS: u32>(mut self, other: &Self) -> Self {
        for ((column, lifted), other) in self.0.iter_mut().zip(LIFTED_WIDE).zip(other.0) {
            // As in `subtract`: the parenthesis is not negative, whatever the column of the other
            // product is.
            *column = column.add(W::splat(lifted).sub(other.shift_left::<BITS>()));
        }
        self
    }

    /// The five upper columns folded into the lower ones, and what is left above 2^260.
    #[inline(always)]
    fn fold_upper(self) -> ([W; 5], W) {
        let Self(mut c) = self;
        // A multiply-add reads 52 bits of a factor. So the upper columns are carried before they
        // are multiplied by the fold. The lower ones only get sums, and are carried later.
        for k in 5..9 {
            if !is_planted::<W>(Fault::UpperCarry(k)) {
                c[k + 1] = c[k + 1].add(c[k].shift_right::<LIMB_BITS>());
            }
        }
        c[9].promise_below::<LIMB_BITS>();
        let mut folded = [c[0], c[1], c[2], c[3], c[4], W::splat(0)];
        W::add_multiple(&mut folded, &[c[5], c[6], c[7], c[8], c[9]], FOLD_260);
        let [a, b, c, d, e, above] = folded;
        (
            [a, b, c, d, e],
            if is_planted::<W>(Fault::AboveFold) {
                W::splat(0)
            } else {
                above
            },
        )
    }

    /// What is above 2^256 folded into the lowest limbs.
    #[inline(always)]
    fn fold_top(mut low: [W; 5], above: W) -> Lazy<W> {
        // Bit 0 of `above` has the weight 2^260, which is bit 4 above 2^256.
        let top = low[4].shift_right::<TOP_BITS>().add(above.shift_left::<4>());
        top.promise_below::<42>();
        low[4] = low[4].and(W::splat(TOP_MASK));
        let [first, second] = W::add_top([low[0], low[1]], top);
        low[0] = first;
        if !is_planted::<W>(Fault::TopFold) {
            low[1] = second;
        }
        Lazy(low)
    }

    #[inline(always)]
    pub(crate) fn lazy(self) -> Lazy<W> {
        let (low, above) = self.fold_upper();
        Self::fold_top(low, above)
    }

    /// Twice the product.
    #[inline(always)]
    pub(crate) fn lazy_double(self) -> Lazy<W> {
        let (low, above) = self.fold_upper();
        Self::fold_top(
            each(
                &low,
                #[inline(always)]
                |limb| limb.add(limb),
            ),
            above.add(above),
        )
    }

    #[inline(always)]
    pub(crate) fn factor(self) -> Factor<W> {
        self.lazy().factor()
    }

    #[inline(always)]
    pub(crate) fn reduce(self) -> Fe<W> {
        carry_and_clear(self.lazy().0)
    }

    /// Minus the product.
    #[inline(always)]
    pub(crate) fn reduce_negated(self) -> Fe<W> {
        self.lazy().negate()
    }
}

/// A number that is not negative, with limbs of a few bits more than 52.
impl<W: Word> Lazy<W> {
    #[inline(always)]
    pub(crate) fn factor(&self) -> Factor<W> {
        Factor(carry(self.0))
    }

    #[inline(always)]
    pub(crate) fn carried(&self) -> Fe<W> {
        carry_and_clear(self.0)
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        Self(zip(&self.0, &other.0, W::add))
    }

    /// Times 2^`BITS`.
    #[inline(always)]
    pub(crate) fn scale<const BITS: u32>(&self) -> Self {
        Self(each(
            &self.0,
            #[inline(always)]
            |limb| limb.shift_left::<BITS>(),
        ))
    }

    #[inline(always)]
    pub(crate) fn triple(&self) -> Self {
        Self(each(
            &self.0,
            #[inline(always)]
            |limb| limb.add(limb.add(limb)),
        ))
    }

    #[inline(always)]
    pub(crate) fn negate(&self) -> Fe<W> {
        carry_and_clear(zip(&splat(&LIFTED_SMALL), &self.0, W::sub))
    }

    /// Minus a number below 4p.
    #[inline(always)]
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let difference = zip(&splat(&LIFTED_SMALL), &other.0, W::sub);
        Self(zip(&self.0, &difference, W::add))
    }

    /// Minus the number, limb by limb: not a form that can be carried.
    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(zip(&self.0, &other.0, W::sub))
    }
}

impl<W: Word> Factor<W> {
    /// The same number with limbs below 2^52.
    #[inline(always)]
    pub(crate) fn clear(&self) -> Fe<W> {
        let mask = W::splat(LIMB_MASK);
        let [a, b, c, d, e] = self.0;
        Fe([a.and(mask), b.and(mask), c.and(mask), d.and(mask), e])
    }
}

impl<W: Word> Fe<W> {
    #[inline(always)]
    pub(crate) fn small(value: u64) -> Self {
        Self(splat(&[value, 0, 0, 0, 0]))
    }

    #[inline(always)]
    pub(crate) fn lazy(&self) -> Lazy<W> {
        Lazy(self.0)
    }

    #[inline(always)]
    pub(crate) fn as_factor(&self) -> Factor<W> {
        Factor(self.0)
    }

    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        W::apart(
            #[inline(always)]
            || self.times(other).reduce(),
        )
    }

    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        W::apart(
            #[inline(always)]
            || self.squared().reduce(),
        )
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        carry_and_clear(zip(&self.0, &other.0, W::add))
    }

    #[inline(always)]
    pub(crate) fn twice(&self) -> Self {
        self.add(self)
    }

    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        self.sub_lazy(&other.lazy())
    }

    /// Minus a number below 4p, which may be negative.
    #[inline(always)]
    pub(crate) fn sub_lazy(&self, other: &Lazy<W>) -> Self {
        carry_and_clear(self.lazy().subtract(other).0)
    }

    #[inline(always)]
    pub(crate) fn triple(&self) -> Self {
        carry_and_clear(self.lazy().triple().0)
    }

    /// Minus the number where the mask is set.
    #[inline(always)]
    pub(crate) fn negate_lazy_where(&self, mask: W::Mask) -> Lazy<W> {
        Lazy(each(
            &self.0,
            #[inline(always)]
            |limb| W::select(mask, W::splat(0).sub(limb), limb),
        ))
    }

    #[inline(always)]
    pub(crate) fn select(mask: W::Mask, yes: &Self, no: &Self) -> Self {
        Self(zip(
            &yes.0,
            &no.0,
            #[inline(always)]
            |yes, no| W::select(mask, yes, no),
        ))
    }

    /// The number from 0 to p - 1.
    #[inline(always)]
    pub(crate) fn normalize(&self) -> Self {
        let mut limbs = self.0;
        let top = limbs[4].shift_right::<TOP_BITS>();
        limbs[4] = limbs[4].and(W::splat(TOP_MASK));
        if !is_planted::<W>(Fault::NormalFold) {
            limbs[0] = limbs[0].add_product_low(top, W::splat(FOLD_256));
        }
        // Below 2^256 + 2^37 now: at most one p too much.
        // To subtract p is to add 2^256 - p and to drop bit 256. Whether that bit is set says
        // whether the number was p or more.
        let Self(low) = carry_and_clear(limbs);
        let mut plus = low;
        plus[0] = plus[0].add(W::splat(FOLD_256));
        let Self(plus) = carry_and_clear(plus);
        // No branch: lanes differ in this.
        let below = plus[4].shift_right::<TOP_BITS>().is_zero();
        if is_planted::<W>(Fault::NormalSubtraction) {
            return Self(low);
        }
        let mut normal = zip(
            &low,
            &plus,
            #[inline(always)]
            |low, plus| W::select(below, low, plus),
        );
        normal[4] = normal[4].and(W::splat(TOP_MASK));
        Self(normal)
    }

    /// Lanes that are 0 modulo p.
    #[inline(always)]
    pub(crate) fn is_zero(&self) -> W::Mask {
        // Without the normal form p itself, which is 0 too, would not be noticed.
        let Self(n) = self.normalize();
        n[0].or(n[1]).or(n[2].or(n[3])).or(n[4]).is_zero()
    }

    /// Four numbers of 64 bits, from one below 2^256.
    #[inline(always)]
    pub(crate) fn pack(&self) -> [W; 4] {
        let x = &self.0;
        [
            x[0].or(x[1].shift_left_wrapping::<52>()),
            x[1].shift_right::<12>().or(x[2].shift_left_wrapping::<40>()),
            x[2].shift_right::<24>().or(x[3].shift_left_wrapping::<28>()),
            x[3].shift_right::<36>().or(x[4].shift_left_wrapping::<16>()),
        ]
    }

    #[inline(always)]
    pub(crate) fn unpack(q: &[W; 4]) -> Self {
        let mask = W::splat(LIMB_MASK);
        Self([
            q[0].and(mask),
            q[0].shift_right::<52>().or(q[1].shift_left_wrapping::<12>()).and(mask),
            q[1].shift_right::<40>().or(q[2].shift_left_wrapping::<24>()).and(mask),
            q[2].shift_right::<28>().or(q[3].shift_left_wrapping::<36>()).and(mask),
            // No mask: 48 bits are left.
            q[3].shift_right::<16>(),
        ])
    }

    /// The same number in all lanes.
    #[inline(always)]
    pub(crate) fn broadcast(number: &[u64; 4]) -> Self {
        Self::unpack(&[
            W::splat(number[0]),
            W::splat(number[1]),
            W::splat(number[2]),
            W::splat(number[3]),
        ])
    }

    /// A number for each lane.
    #[inline(always)]
    pub(crate) fn from_numbers(numbers: &[[u64; 4]; 8]) -> Self {
        let lanes = |k: usize| std::array::from_fn(|lane| numbers[lane][k]);
        Self::unpack(&[
            W::from_lanes(&lanes(0)),
            W::from_lanes(&lanes(1)),
            W::from_lanes(&lanes(2)),
            W::from_lanes(&lanes(3)),
        ])
    }

    /// The number of a lane, from 0 to p - 1.
    #[inline(always)]
    pub(crate) fn number(&self, lane: usize) -> [u64; 4] {
        let q = self.normalize().pack();
        [
            q[0].to_lanes()[lane],
            q[1].to_lanes()[lane],
            q[2].to_lanes()[lane],
            q[3].to_lanes()[lane],
        ]
    }
}

/// A root, if there is one: the power (p + 1) / 4.
#[inline(always)]
pub(crate) fn square_root<W: Word>(number: &Fe<W>) -> Fe<W> {
    // `x[k]` is the power 2^k - 1. A step squares so often, multiplies by an earlier power, and
    // keeps the product. The exponent is a run of 223 ones, a zero, 22 ones, four zeros, two ones
    // and two zeros, in binary.
    struct Step {
        squarings: u32,
        factor: usize,
        keep: usize,
    }
    const fn step(squarings: u32, factor: usize, keep: usize) -> Step {
        Step {
            squarings,
            factor,
            keep,
        }
    }
    // Powers: 0 x1, 1 x2, 2 x3, 3 x22, 4 x44, 5 x88, 6 what need not be kept.
    const STEPS: [Step; 14] = [
        step(1, 0, 1),  // x2
        step(1, 0, 2),  // x3
        step(3, 2, 6),  // x6
        step(3, 2, 6),  // x9
        step(2, 1, 3),  // x11, over x22
        step(11, 3, 3), // x22
        step(22, 3, 4), // x44
        step(44, 4, 5), // x88
        step(88, 5, 6), // x176
        step(44, 4, 6), // x220
        step(3, 2, 6),  // x223
        step(23, 3, 6),
        step(6, 1, 6),
        step(2, 7, 6),
    ];
    let mut kept = [*number; 7];
    let mut power = *number;
    for step in &STEPS {
        for _ in 0..step.squarings {
            power = power.square();
        }
        // The last step multiplies by nothing.
        if let Some(factor) = kept.get(step.factor) {
            power = power.mul(factor);
        }
        kept[step.keep] = power;
    }
    power
}

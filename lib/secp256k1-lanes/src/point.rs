//! Points of the curve y^2 = x^3 + b.
//!
//! No formula here asks whether its case is the general one. Where it is not, the formula's
//! denominator is 0: the difference of two x coordinates for a sum, twice y for a double. The
//! callers see to that:
//! - affine sums take an inverse of their denominator, and [`invert_all`] reports the lanes in
//!   which that was 0;
//! - Jacobian sums and doubles multiply the denominator into Z. So Z is 0 from the first special
//!   case on, whatever follows: each formula's Z is a multiple of the one before it. A Z that is
//!   not 0 at the end means that no step met a special case.

use crate::fault::{Fault, is_planted};
use crate::field::{Factor, Fe, Lazy, Multiplicand};
use crate::inverse::Modulus;
use crate::number::{P, limbs};
use crate::word::{Mask, Word};

const MODULUS: Modulus = Modulus::new(&P);

/// A point that is not infinity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine<W> {
    pub(crate) x: Fe<W>,
    pub(crate) y: Fe<W>,
}

/// A point with a y coordinate that was perhaps negated, and not carried since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<W> {
    pub(crate) x: Fe<W>,
    pub(crate) y: Lazy<W>,
}

/// The point (x / z^2, y / z^3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jacobian<W> {
    pub(crate) x: Fe<W>,
    pub(crate) y: Fe<W>,
    /// Only ever multiplied.
    pub(crate) z: Factor<W>,
}

/// The third point on a line through `a` and a point with the x coordinate `other_x`, mirrored.
#[inline(always)]
fn third_point<W: Word>(slope: &Fe<W>, x: &Fe<W>, y: &Lazy<W>, other_x: &Fe<W>) -> Affine<W> {
    let third = W::apart(
        #[inline(always)]
        || slope.squared().subtract(&x.lazy().add(&other_x.lazy())).reduce(),
    );
    let y = W::apart(
        #[inline(always)]
        || slope.times(&x.sub(&third)).subtract(y).reduce(),
    );
    Affine { x: third, y }
}

impl<W: Word> Affine<W> {
    #[inline(always)]
    pub(crate) fn signed(&self) -> Signed<W> {
        Signed {
            x: self.x,
            y: self.y.lazy(),
        }
    }

    /// The sum with another point; `inverse` is 1 over (x of the other minus x of this).
    #[inline(always)]
    pub(crate) fn add(&self, other: &Self, inverse: &Fe<W>) -> Self {
        self.signed().add(&other.signed(), inverse)
    }

    /// The sum and the difference with another point; `inverse` as for [`add`](Self::add).
    #[inline(always)]
    pub(crate) fn sum_and_difference(&self, other: &Self, inverse: &Fe<W>) -> (Self, Self) {
        // Minus the other point has minus its y. So the slope is -(y1 + y2) over the same
        // denominator.
        let difference_slope = W::apart(
            #[inline(always)]
            || other.y.add(&self.y).times(inverse).reduce_negated(),
        );
        let difference = third_point(&difference_slope, &self.x, &self.y.lazy(), &other.x);
        (self.add(other, inverse), difference)
    }

    /// Twice the point; `inverse` is 1 over 2 y.
    #[inline(always)]
    pub(crate) fn double(&self, inverse: &Fe<W>) -> Self {
        let slope = self.x.square().triple().mul(inverse);
        // A tangent meets the point twice, so its x is subtracted twice.
        third_point(&slope, &self.x, &self.y.lazy(), &self.x)
    }

    #[inline(always)]
    pub(crate) fn jacobian(&self) -> Jacobian<W> {
        Jacobian {
            x: self.x,
            y: self.y,
            z: Fe::small(1).as_factor(),
        }
    }
}

impl<W: Word> Signed<W> {
    /// As [`Affine::add`].
    #[inline(always)]
    pub(crate) fn add(&self, other: &Self, inverse: &Fe<W>) -> Affine<W> {
        let slope = other.y.subtract(&self.y).carried().mul(inverse);
        third_point(&slope, &self.x, &self.y, &other.x)
    }
}

/// Points that go side by side, and memory for what a step computes on the way.
///
/// A step computes one value of all points before the next value, so that their products overlap.
/// Each value is written where it is read: a returned one would be copied.
#[derive(Debug)]
pub(crate) struct SideBySide<W, const N: usize> {
    pub(crate) points: [Jacobian<W>; N],
    factors: [[Factor<W>; N]; 2],
    lazy: [Lazy<W>; N],
    numbers: [[Fe<W>; N]; 4],
}

/// Writes a value in a function of its own ([`Word::apart`]).
#[inline(always)]
fn put<W: Word, T>(to: &mut T, value: impl FnOnce() -> T) {
    W::apart(
        #[inline(always)]
        move || *to = value(),
    );
}

impl<W: Word, const N: usize> SideBySide<W, N> {
    #[inline(always)]
    pub(crate) fn new(points: [Jacobian<W>; N]) -> Self {
        let zero = Fe::small(0);
        Self {
            points,
            factors: [[zero.as_factor(); N]; 2],
            lazy: [zero.lazy(); N],
            numbers: [[zero; N]; 4],
        }
    }

    /// Doubles each point: Z is multiplied by 2 Y.
    #[inline(always)]
    pub(crate) fn double(&mut self) {
        // With B = Y^2, D = 2 X B, E = 3 X^2:
        // X' = E^2 - 4 D, Y' = E (2 D - X') - 8 B^2, Z' = 2 Y Z.
        let (points, [b, e], d) = (&mut self.points, &mut self.factors, &mut self.lazy);
        for (b, point) in b.iter_mut().zip(&*points) {
            put::<W, _>(
                b,
                #[inline(always)]
                || point.y.squared().factor(),
            );
        }
        for (e, point) in e.iter_mut().zip(&*points) {
            put::<W, _>(
                e,
                #[inline(always)]
                || point.x.squared().lazy().triple().factor(),
            );
        }
        for (j, d) in d.iter_mut().enumerate() {
            let (point, b) = (&points[j], &b[j]);
            put::<W, _>(
                d,
                #[inline(always)]
                || point.x.times(b).lazy_double(),
            );
        }
        // Before y changes below, of which z is computed.
        for point in &mut *points {
            let Jacobian { y, z, .. } = point;
            W::apart(
                #[inline(always)]
                || *z = y.times(z).lazy_double().factor(),
            );
        }
        for (j, point) in points.iter_mut().enumerate() {
            let (d, e) = (&d[j], &e[j]);
            put::<W, _>(
                &mut point.x,
                #[inline(always)]
                || e.squared().subtract(&d.scale::<2>()).reduce(),
            );
        }
        for (j, point) in points.iter_mut().enumerate() {
            let (Jacobian { x, y, .. }, b, d, e) = (point, &b[j], &d[j], &e[j]);
            put::<W, _>(
                y,
                #[inline(always)]
                || {
                    let distance = d.scale::<1>().subtract(&x.lazy()).factor();
                    e.times(&distance).subtract_scaled::<3>(&b.squared()).reduce()
                },
            );
        }
    }

    /// Adds an affine point to each: Z is multiplied by x Z^2 - X.
    #[inline(always)]
    pub(crate) fn add(&mut self, others: [&Affine<W>; N]) {
        // With H = x Z^2 - X, R = y Z^3 - Y, V = X H^2:
        // X' = R^2 - H^3 - 2 V, Y' = R (V - X') - Y H^3, Z' = Z H.
        let (points, [power, h, r, minus_hhh]) = (&mut self.points, &mut self.numbers);
        // Z^2
        for (power, point) in power.iter_mut().zip(&*points) {
            put::<W, _>(
                power,
                #[inline(always)]
                || point.z.squared().reduce(),
            );
        }
        for (j, h) in h.iter_mut().enumerate() {
            let (point, other, zz) = (&points[j], others[j], &power[j]);
            put::<W, _>(
                h,
                #[inline(always)]
                || other.x.times(zz).subtract(&point.x.lazy()).reduce(),
            );
        }
        // Z^3
        for (power, point) in power.iter_mut().zip(&*points) {
            W::apart(
                #[inline(always)]
                || *power = power.times(&point.z).reduce(),
            );
        }
        for (j, r) in r.iter_mut().enumerate() {
            let (point, other, zzz) = (&points[j], others[j], &power[j]);
            put::<W, _>(
                r,
                #[inline(always)]
                || other.y.times(zzz).subtract(&point.y.lazy()).reduce(),
            );
        }
        // H^2
        for (power, h) in power.iter_mut().zip(&*h) {
            put::<W, _>(
                power,
                #[inline(always)]
                || h.squared().reduce(),
            );
        }
        for (j, minus_hhh) in minus_hhh.iter_mut().enumerate() {
            let (h, hh) = (&h[j], &power[j]);
            put::<W, _>(
                minus_hhh,
                #[inline(always)]
                || hh.times(h).reduce_negated(),
            );
        }
        let v = power;
        for (v, point) in v.iter_mut().zip(&*points) {
            W::apart(
                #[inline(always)]
                || *v = v.times(&point.x).reduce(),
            );
        }
        for (point, h) in points.iter_mut().zip(&*h) {
            W::apart(
                #[inline(always)]
                || point.z = point.z.times(h).factor(),
            );
        }
        for (j, point) in points.iter_mut().enumerate() {
            let (r, v, minus_hhh) = (&r[j], &v[j], &minus_hhh[j]);
            put::<W, _>(
                &mut point.x,
                #[inline(always)]
                || {
                    // Perhaps negative, but never carried: it is only subtracted from a product.
                    let subtrahend = v.lazy().scale::<1>().minus(&minus_hhh.lazy());
                    r.squared().subtract(&subtrahend).reduce()
                },
            );
        }
        for (j, point) in points.iter_mut().enumerate() {
            let (Jacobian { x, y, .. }, r, v, minus_hhh) = (point, &r[j], &v[j], &minus_hhh[j]);
            W::apart(
                #[inline(always)]
                || {
                    let distance = v.sub(x);
                    *y = r.times(&distance).add_product(y, minus_hhh).reduce();
                },
            );
        }
    }
}

/// Replaces numbers by their inverses, with one inversion for all. Where numbers are 0, `zero` is
/// reported with their indexes and lanes, and their inverses are 1; all others are right.
///
/// A dozen functions call it; it is compiled once.
#[inline(never)]
pub(crate) fn invert_all<W: Word>(
    numbers: &mut [Fe<W>],
    before: &mut Vec<Fe<W>>,
    zero: &mut dyn FnMut(usize, W::Mask),
) {
    W::vectorize(
        #[inline(always)]
        || {
            let mut product = multiply_up(numbers, before);
            // One zero makes the product of its lane 0, and with it the inverses of all numbers
            // there. So the total tells whether there is any.
            if whole(&product).is_zero().bits() != 0 {
                // It happens by accident once in 2^250; what happens here is made to happen.
                replace_zeros(numbers, zero);
                product = multiply_up(numbers, before);
            }
            multiply_down(numbers, before, product);
        },
    );
}

/// Replaces each 0 by 1.
#[inline(always)]
fn replace_zeros<W: Word>(numbers: &mut [Fe<W>], zero: &mut dyn FnMut(usize, W::Mask)) {
    let one = Fe::small(1);
    for (index, number) in numbers.iter_mut().enumerate() {
        let is_zero = number.is_zero();
        if is_zero.bits() != 0 {
            if !is_planted::<W>(Fault::ZeroDenominator) {
                zero(index, is_zero);
            }
            if !is_planted::<W>(Fault::ZeroReplaced) {
                *number = Fe::select(is_zero, &one, number);
            }
        }
    }
}

/// Chains of products that are computed side by side, which hides latency.
const CHAINS: usize = 4;

/// Products of all numbers of each chain; `before` gets the product of those before each number.
#[inline(always)]
fn multiply_up<W: Word>(numbers: &[Fe<W>], before: &mut Vec<Fe<W>>) -> [Fe<W>; CHAINS] {
    let mut product = [Fe::small(1); CHAINS];
    before.clear();
    before.reserve(numbers.len());
    // A product waits for the one before it in its chain. Four chains keep the multipliers busy.
    let mut groups = numbers.chunks_exact(CHAINS);
    for group in &mut groups {
        before.extend_from_slice(&product);
        for (product, number) in product.iter_mut().zip(group) {
            *product = product.mul(number);
        }
    }
    for (product, number) in product.iter_mut().zip(groups.remainder()) {
        before.push(*product);
        *product = product.mul(number);
    }
    product
}

/// The product of all chains.
#[inline(always)]
fn whole<W: Word>(product: &[Fe<W>; CHAINS]) -> Fe<W> {
    let [a, b, c, d] = product;
    a.mul(b).mul(&c.mul(d))
}

#[inline(always)]
fn multiply_down<W: Word>(numbers: &mut [Fe<W>], before: &[Fe<W>], product: [Fe<W>; CHAINS]) {
    let inverse = invert_lanes(&whole(&product));
    let [a, b, c, d] = product;
    // 1 / (a b c d), times the three others, is the inverse of each chain's product. The products
    // of two are shared.
    let (first, second) = (inverse.mul(&c.mul(&d)), inverse.mul(&a.mul(&b)));
    let mut inverse = [first.mul(&b), first.mul(&a), second.mul(&d), second.mul(&c)];
    let whole_groups = numbers.len() / CHAINS * CHAINS;
    let (groups, rest) = numbers.split_at_mut(whole_groups);
    let (groups_before, rest_before) = before.split_at(whole_groups);
    // Backwards, so the last numbers come first.
    multiply_back(&mut inverse, rest, rest_before);
    for (numbers, before) in groups
        .chunks_exact_mut(CHAINS)
        .rev()
        .zip(groups_before.chunks_exact(CHAINS).rev())
    {
        multiply_back(&mut inverse, numbers, before);
    }
}

/// The inverse of each chain's next number; what is left of `inverse` is that of the numbers before
/// it.
#[inline(always)]
fn multiply_back<W: Word>(inverse: &mut [Fe<W>; CHAINS], numbers: &mut [Fe<W>], before: &[Fe<W>]) {
    for ((inverse, number), before) in inverse.iter_mut().zip(numbers).zip(before) {
        let own = inverse.mul(before);
        *inverse = inverse.mul(number);
        *number = own;
    }
}

/// The inverse of every lane, by one inversion. None may be 0.
#[inline(always)]
fn invert_lanes<W: Word>(number: &Fe<W>) -> Fe<W> {
    // The same trick across the lanes, on plain integers: one inversion for eight lanes.
    let lanes = number.0.map(|limb| limb.to_lanes());
    let lane_of = |lane: usize| Fe::<u64>(lanes.map(|limb| limb[lane]));
    let mut before = [Fe::<u64>::small(1); 8];
    let mut product = Fe::<u64>::small(1);
    for (lane, before) in before.iter_mut().enumerate().take(W::LANES) {
        *before = product;
        product = product.mul(&lane_of(lane));
    }
    let mut inverse = Fe::<u64>(limbs(&MODULUS.invert(&product.number(0))));
    let mut inverses = [[0; 4]; 8];
    for lane in (0..W::LANES).rev() {
        inverses[lane] = inverse.mul(&before[lane]).number(0);
        inverse = inverse.mul(&lane_of(lane));
    }
    Fe::from_numbers(&inverses)
}

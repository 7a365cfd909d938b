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
use crate::word::{Mask, Word, side_by_side, side_by_side_apart};

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

/// Doubles each point: Z is multiplied by 2 Y.
#[inline(always)]
pub(crate) fn double_each<W: Word, const N: usize>(points: &mut [Jacobian<W>; N]) {
    // With B = Y^2, D = 2 X B, E = 3 X^2:
    // X' = E^2 - 4 D, Y' = E (2 D - X') - 8 B^2, Z' = 2 Y Z.
    let b = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| points[j].y.squared().factor(),
    );
    let e = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| points[j].x.squared().lazy().triple().factor(),
    );
    let d = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| points[j].x.times(&b[j]).lazy_double(),
    );
    // Before y changes below, of which z is computed.
    for point in points.iter_mut() {
        point.z = W::apart(
            #[inline(always)]
            || point.y.times(&point.z).lazy_double().factor(),
        );
    }
    for (j, point) in points.iter_mut().enumerate() {
        point.x = W::apart(
            #[inline(always)]
            || e[j].squared().subtract(&d[j].scale::<2>()).reduce(),
        );
    }
    for (j, point) in points.iter_mut().enumerate() {
        let distance = d[j].scale::<1>().subtract(&point.x.lazy()).factor();
        point.y = W::apart(
            #[inline(always)]
            || e[j].times(&distance).subtract_scaled::<3>(&b[j].squared()).reduce(),
        );
    }
}

/// Adds an affine point to each: Z is multiplied by x Z^2 - X.
#[inline(always)]
pub(crate) fn add_each<W: Word, const N: usize>(points: &mut [Jacobian<W>; N], others: [&Affine<W>; N]) {
    // With H = x Z^2 - X, R = y Z^3 - Y, V = X H^2:
    // X' = R^2 - H^3 - 2 V, Y' = R (V - X') - Y H^3, Z' = Z H.
    let zz = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| points[j].z.squared().reduce(),
    );
    let h = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| others[j].x.times(&zz[j]).subtract(&points[j].x.lazy()).reduce(),
    );
    let zzz = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| zz[j].times(&points[j].z).reduce(),
    );
    let hh: [_; N] = side_by_side(
        #[inline(always)]
        |j| h[j].square(),
    );
    let r = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| others[j].y.times(&zzz[j]).subtract(&points[j].y.lazy()).reduce(),
    );
    let minus_hhh = side_by_side_apart::<W, _, N>(
        #[inline(always)]
        |j| hh[j].times(&h[j]).reduce_negated(),
    );
    let v: [_; N] = side_by_side(
        #[inline(always)]
        |j| hh[j].mul(&points[j].x),
    );
    for (j, point) in points.iter_mut().enumerate() {
        point.z = W::apart(
            #[inline(always)]
            || point.z.times(&h[j]).factor(),
        );
    }
    for (j, point) in points.iter_mut().enumerate() {
        // Perhaps negative, but never carried: it is only subtracted from a product.
        let subtrahend = v[j].lazy().scale::<1>().minus(&minus_hhh[j].lazy());
        point.x = W::apart(
            #[inline(always)]
            || r[j].squared().subtract(&subtrahend).reduce(),
        );
    }
    for (j, point) in points.iter_mut().enumerate() {
        let distance = v[j].sub(&point.x);
        point.y = W::apart(
            #[inline(always)]
            || r[j].times(&distance).add_product(&point.y, &minus_hhh[j]).reduce(),
        );
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

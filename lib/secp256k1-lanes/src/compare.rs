//! Whether u1 G + u2 P is the point that a check asks for, without a square root.
//!
//! A key has the x coordinate of P, and says whether its y is odd. Its y would be the root of
//! c = x^3 + b. Instead, y is what the result says that it must be, and is compared with c:
//!
//! - The map (X, Y) -> (c X, c y Y) leads from y^2 = x^3 + b to the curve y^2 = x^3 + b c^3, and P
//!   to (c x, c^2). So u2 P is computed there, from coordinates that are known. Formulas read no b.
//!   libsecp256k1 multiplies points of which it has x alone in the same way.
//! - Back on the first curve, (X, Y, Z) stands for B = (X / W, Y y / (Z^3 c^2)), where W = c Z^2.
//! - With A = u1 G, the sum A + B has the wanted x coordinate r if and only if
//!   (r + xa + xb) (xb - xa)^2 = (yb - ya)^2. The left side is known, and so is yb^2, as Y^2 / W^3.
//!   What is left is 2 ya yb, linear in y. So there is one y for which the equation holds:
//!
//!   y = N / (2 ya Y Z W), where N = Y^2 + ya^2 W^3 - (r W + xa W + X) D^2, D = X - xa W.
//! - The check holds if and only if that y is a root of c, and is odd or even as the key says. A
//!   key that is no point has no such root.
//! - Some kinds ask for the parity of the result's y, too. That y is
//!   ((yb - ya) W / D) (xa - r) - ya, where yb = N / (2 ya W^3).
//!
//! All denominators of a word are one product, 2 ya Y Z W^2 D. It is 0 where the walk met a special
//! case (Z is 0), and where A and B are equal or opposite (D is 0): there the check is unsure. c,
//! ya and Y are never 0, since no point has the order 2.

use crate::fault::{Fault, is_planted};
use crate::field::Fe;
use crate::keys::right_side;
use crate::point::{Affine, Jacobian, invert_all};
use crate::word::{Mask, Word, is_odd};

/// What the checks of a word ask for.
#[derive(Debug)]
pub(crate) struct Asked<W: Word> {
    /// The key: its x, and whether its y is odd.
    pub(crate) key_x: Fe<W>,
    pub(crate) key_odd: W::Mask,
    /// The result: its x, and where the parity of its y counts, whether it is odd.
    pub(crate) x: Fe<W>,
    pub(crate) odd: W::Mask,
    pub(crate) parity_counts: W::Mask,
}

/// What is multiplied with the inverse of a word's denominator.
#[derive(Debug)]
struct Numerators<W> {
    /// y^2 of the key.
    square: Fe<W>,
    /// Of y of the key: N, and W D.
    key: [Fe<W>; 2],
    /// Of y of the result plus ya: (N - 2 ya^2 W^3) (xa - r), and Y Z.
    result: [Fe<W>; 2],
}

/// Memory that is used again.
#[derive(Debug)]
pub(crate) struct Comparison<W: Word> {
    numerators: Vec<Numerators<W>>,
    denominators: Vec<Fe<W>>,
    before: Vec<Fe<W>>,
    /// Lanes whose check holds, if it is not unsure.
    pub(crate) right: Vec<W::Mask>,
}

impl<W: Word> Default for Comparison<W> {
    fn default() -> Self {
        Self {
            numerators: Vec::new(),
            denominators: Vec::new(),
            before: Vec::new(),
            right: Vec::new(),
        }
    }
}

impl<W: Word> Comparison<W> {
    /// Compares u1 G (`generator`) and u2 P (`points`, each on the curve of its key) with what is
    /// asked, on the curve y^2 = x^3 + `b`. A lane of `unsure` is set where a special case was met.
    #[inline(always)]
    pub(crate) fn compare(
        &mut self,
        b: u64,
        asked: &[Asked<W>],
        generator: &[Affine<W>],
        points: &[Jacobian<W>],
        unsure: &mut [W::Mask],
    ) {
        assert_eq!((generator.len(), points.len()), (asked.len(), asked.len()));
        assert_eq!(unsure.len(), asked.len());
        self.numerators.clear();
        self.denominators.clear();
        for (((asked, a), point), unsure) in asked.iter().zip(generator).zip(points).zip(unsure.iter_mut()) {
            let (denominator, numerators, on_curve) = terms(b, asked, a, point);
            self.denominators.push(denominator);
            self.numerators.push(numerators);
            *unsure = unsure.or(on_curve.not());
        }
        invert_all(&mut self.denominators, &mut self.before, &mut |word, zero| {
            if !is_planted::<W>(Fault::ComparisonZero) {
                unsure[word] = unsure[word].or(zero);
            }
        });
        self.right.clear();
        let no_parity_counts = asked.iter().all(|asked| asked.parity_counts.bits() == 0);
        for (((asked, a), numerators), inverse) in asked
            .iter()
            .zip(generator)
            .zip(&self.numerators)
            .zip(&self.denominators)
        {
            let [n, wd] = &numerators.key;
            let y = n.mul(&wd.mul(inverse)).normalize();
            let mut right = y.square().sub(&numerators.square).is_zero();
            if is_planted::<W>(Fault::Root) {
                right = W::Mask::from_bits(u8::MAX);
            }
            if !is_planted::<W>(Fault::KeyParity) {
                right = right.and(is_odd(y.0[0]).xor(asked.key_odd).not());
            }
            if !no_parity_counts && !is_planted::<W>(Fault::ResultParity) {
                let [first, yz] = &numerators.result;
                let y = first.mul(&yz.mul(inverse)).sub(&a.y).normalize();
                let parity_is_right = is_odd(y.0[0]).xor(asked.odd).not();
                right = right.and(parity_is_right.or(asked.parity_counts.not()));
            }
            self.right.push(right);
        }
    }
}

/// The denominator and the numerators of a word, and the lanes in which both points are on their
/// curves: all, or something has gone wrong.
#[inline(always)]
fn terms<W: Word>(b: u64, asked: &Asked<W>, a: &Affine<W>, point: &Jacobian<W>) -> (Fe<W>, Numerators<W>, W::Mask) {
    let z = point.z.clear();
    let square = right_side(b, &asked.key_x);
    // W and its powers, D and its square.
    let w = z.square().mul(&square);
    let w2 = w.square();
    let w3 = w2.mul(&w);
    let xa_w = a.x.mul(&w);
    let d = point.x.sub(&xa_w);
    let yy = point.y.square();
    let ya2 = a.y.square();
    let ya2_w3 = ya2.mul(&w3);
    let distance = asked.x.mul(&w).add(&xa_w).add(&point.x);
    let n = yy.add(&ya2_w3).sub(&distance.mul(&d.square()));

    let yz = point.y.mul(&z);
    let wd = w.mul(&d);
    let denominator = a.y.twice().mul(&yz).mul(&w.mul(&wd));
    let result = n.sub(&ya2_w3.twice()).mul(&a.x.sub(&asked.x));

    // Y^2 = X^3 + b W^3, and ya^2 = xa^3 + b.
    let x3 = point.x.square().mul(&point.x);
    let mut is_on = yy.sub(&x3.add(&w3.mul(&Fe::small(b)))).is_zero();
    if is_planted::<W>(Fault::OffCurve(0)) {
        is_on = W::Mask::from_bits(u8::MAX);
    }
    if !is_planted::<W>(Fault::OffCurve(1)) {
        is_on = is_on.and(ya2.sub(&right_side(b, &a.x)).is_zero());
    }
    let numerators = Numerators {
        square,
        key: [n, wd],
        result: [result, yz],
    };
    (denominator, numerators, is_on)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::curve::Curve;
    use crate::field::square_root;
    use crate::keys::on_own_curve;

    /// Points that special cases leave, and points that are not on their curves.
    pub(crate) fn results_that_are_none() {
        let number = Fe::<u64>::small;
        let [a, b, c, d, e, f, g, h] = Curve::secp256k1().generator[0].0;
        let generator = Affine {
            x: Fe::broadcast(&[a, b, c, d]),
            y: Fe::broadcast(&[e, f, g, h]),
        };
        // The key with x = 1, and its multiple by 1.
        let key = on_own_curve(7, &number(1)).jacobian();
        let root = square_root(&number(8));
        let equal = Affine { x: number(1), y: root };
        let opposite = Affine {
            y: number(0).sub(&root),
            ..equal
        };
        let point = |x: u64, y: u64, z: u64| Jacobian {
            x: number(x),
            y: number(y),
            z: number(z).as_factor(),
        };
        for (a, point, is_unsure) in [
            (generator, key, false),
            // What a sum of two equal points leaves, and a Z of 0 alone.
            (generator, point(0, 0, 0), true),
            (generator, point(1, 1, 0), true),
            (equal, key, true),
            (opposite, key, true),
            (generator, point(8, 65, 1), true),
            (
                Affine {
                    x: number(2),
                    ..generator
                },
                key,
                true,
            ),
        ] {
            for parity_counts in [false, true] {
                let asked = Asked {
                    key_x: number(1),
                    key_odd: false,
                    x: number(1),
                    odd: false,
                    parity_counts,
                };
                let mut unsure = [false];
                let mut comparison = Comparison::default();
                comparison.compare(7, &[asked], &[a], &[point], &mut unsure);
                assert_eq!(unsure, [is_unsure], "{a:?} {point:?}");
                // None of them has a result with the x coordinate 1.
                assert_eq!(comparison.right, [false], "{a:?} {point:?}");
            }
        }
    }

    #[test]
    fn special_results() {
        results_that_are_none();
    }
}

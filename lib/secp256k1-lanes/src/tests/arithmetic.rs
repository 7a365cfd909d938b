//! Field and scalars against numbers of any size.

use super::{Rng, big, n, number, p, value};
use crate::field::{Fe, Lazy, Multiplicand, square_root};
use crate::inverse::Modulus;
use crate::model::Products;
use crate::number::{N, P};
use crate::scalar::{HALF_BITS, Scalar, invert_all};
use crate::word::{LIMB_MASK, Mask, Word};
use num_bigint::BigUint;

/// Calls a generic test with every lane type that this machine has.
macro_rules! on_all_lanes {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            let _ = on_lane_types!(|W| generic::$name::<W>(1));
        }
    )*};
}

on_all_lanes!(
    field_operations,
    field_is_normalized,
    roots,
    scalar_products,
    scalars_are_split,
    scalars_are_inverted,
    field_inverses,
);

/// Limbs below 2^52 that are often at an end of their range.
fn limbs(dice: &mut Rng, top: u64) -> [u64; 5] {
    let mut limbs = [0; 5];
    for (k, limb) in limbs.iter_mut().enumerate() {
        let most = if k == 4 { top } else { LIMB_MASK };
        *limb = match dice.below(6) {
            0 => 0,
            1 => most,
            2 => most - dice.below(4),
            3 => dice.below(4),
            _ => dice.below(most + 1),
        };
    }
    limbs
}

fn words<W: Word>(dice: &mut Rng, top: u64) -> [W; 5] {
    let lanes: [[u64; 5]; 8] = std::array::from_fn(|_| limbs(dice, top));
    std::array::from_fn(|k| W::from_lanes(&lanes.map(|limbs| limbs[k])))
}

/// The highest limb of a number that came out of a reduction.
const REDUCED: u64 = 1 << 49;

pub(super) mod generic {
    use super::*;

    pub(in crate::tests) fn field_operations<W: Word>(fewer: u32) {
        let mut dice = Rng(1);
        let p = p();
        let multiple: BigUint = &p << 64;
        for _ in 0..20_000 / fewer {
            let [a, b, c, d] = std::array::from_fn(|_| Fe::<W>(words(&mut dice, REDUCED)));
            let results = [
                a.mul(&b),
                a.square(),
                a.times(&b).lazy_double().carried(),
                a.times(&b).reduce_negated(),
                a.times(&b).subtract(&c.lazy()).reduce(),
                a.squared().subtract(&c.lazy().scale::<2>()).reduce(),
                a.add(&b),
                a.sub(&b),
                a.triple(),
                a.lazy().negate(),
                a.times(&b).add_product(&c, &d).reduce(),
                a.times(&b.squared().factor()).reduce(),
                a.squared().lazy().triple().factor().squared().reduce(),
                a.times(&b)
                    .lazy_double()
                    .scale::<1>()
                    .subtract(&c.lazy())
                    .factor()
                    .times(&d)
                    .reduce(),
                a.times(&b).subtract(&c.lazy().minus(&d.lazy())).reduce(),
                a.times(&b).subtract_scaled::<3>(&c.squared()).reduce(),
            ];
            for lane in 0..W::LANES {
                let [a, b, c, d] = [&a, &b, &c, &d].map(|fe| value(&fe.0, lane));
                let expected = [
                    &a * &b,
                    &a * &a,
                    &a * &b * 2_u32,
                    &multiple * &multiple - &a * &b,
                    &a * &b + &multiple - &c,
                    &a * &a + &multiple - &c * 4_u32,
                    &a + &b,
                    &a + &multiple - &b,
                    &a * 3_u32,
                    &multiple - &a,
                    &a * &b + &c * &d,
                    &a * &b * &b,
                    (&a * &a * 3_u32).pow(2),
                    (&a * &b * 4_u32 + &multiple - &c) * &d,
                    &a * &b + &multiple + &d - &c,
                    &multiple * &multiple + &a * &b - &c * &c * 8_u32,
                ];
                for (index, (result, expected)) in results.iter().zip(expected).enumerate() {
                    let result_value = value(&result.0, lane);
                    assert_eq!(
                        &result_value % &p,
                        expected % &p,
                        "operation {index}: {a:x} {b:x} {c:x} {d:x}"
                    );
                    assert!(result.0.iter().all(|limb| limb.to_lanes()[lane] <= LIMB_MASK));
                }
            }
        }
    }

    pub(in crate::tests) fn field_is_normalized<W: Word>(fewer: u32) {
        let mut dice = Rng(2);
        let p = p();
        for round in 0..20_000 / fewer {
            // Any limbs, and numbers about the multiples of p.
            let mut fe = Fe::<W>(words(&mut dice, LIMB_MASK));
            if round % 2 == 0 {
                let lanes: [[u64; 5]; 8] = std::array::from_fn(|_| {
                    let about: BigUint = &p * dice.below(15) + dice.below(5);
                    let about = if about > BigUint::from(2_u32) {
                        about - 2_u32
                    } else {
                        about
                    };
                    std::array::from_fn(|k| (&about >> (52 * k)).iter_u64_digits().next().unwrap_or(0) & LIMB_MASK)
                });
                fe = Fe(std::array::from_fn(|k| W::from_lanes(&lanes.map(|limbs| limbs[k]))));
            }
            let normal = fe.normalize();
            let packed = normal.pack();
            let back = Fe::unpack(&packed);
            let negated = Lazy(fe.negate_lazy_where(W::Mask::from_bits(0x55)).0);
            for lane in 0..W::LANES {
                let expected = value(&fe.0, lane) % &p;
                assert_eq!(value(&normal.0, lane), expected);
                assert_eq!(value(&back.0, lane), expected);
                assert_eq!(big(&fe.number(lane)), expected);
                assert_eq!(fe.is_zero().bits() >> lane & 1 == 1, expected == BigUint::ZERO);
                if round % 2 == 1 {
                    continue;
                }
                let sum = Fe::small(5).times(&Fe::small(1)).subtract(&negated).reduce();
                let sign_changed = lane % 2 == 0;
                let five: BigUint = &p + 5_u32;
                let expected = if sign_changed {
                    five + &expected
                } else {
                    five - &expected
                };
                assert_eq!(value(&sum.0, lane) % &p, expected % &p);
            }
        }
    }

    pub(in crate::tests) fn roots<W: Word>(fewer: u32) {
        let mut dice = Rng(3);
        let p = p();
        let exponent: BigUint = (&p + 1_u32) >> 2;
        for _ in 0..(100 / fewer).max(1) {
            let number = Fe::<W>(words(&mut dice, REDUCED));
            let root = square_root(&number);
            for lane in 0..W::LANES {
                assert_eq!(value(&root.0, lane) % &p, value(&number.0, lane).modpow(&exponent, &p));
            }
        }
    }

    pub(in crate::tests) fn scalar_products<W: Word>(fewer: u32) {
        let mut dice = Rng(4);
        let n = n();
        let r: BigUint = BigUint::from(1_u32) << 260;
        let r_inverse = r.modinv(&n).unwrap();
        for _ in 0..20_000 / fewer {
            let [a, b] = std::array::from_fn(|_| Scalar::<W>(words(&mut dice, (1 << 49) - 1)));
            let product = a.mul(&b);
            let entered = a.enter();
            for lane in 0..W::LANES {
                let [a, b] = [&a, &b].map(|scalar| value(&scalar.0, lane));
                assert_eq!(value(&product.0, lane) % &n, &a * b * &r_inverse % &n);
                assert_eq!(value(&entered.0, lane) % &n, (a << 260) % &n);
            }
        }
    }

    pub(in crate::tests) fn scalars_are_split<W: Word>(fewer: u32) {
        let mut dice = Rng(5);
        let n = n();
        let lambda =
            BigUint::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16).unwrap();
        let shift: BigUint = (BigUint::from(1_u32) << HALF_BITS) - 1_u32;
        for round in 0..20_000 / u64::from(fewer) {
            // Up to 2^257; near 0 and near n at first.
            let mut scalar = Scalar::<W>(words(&mut dice, (1 << 49) - 1));
            if round < 100 {
                let lanes: [_; 8] = std::array::from_fn(|lane| {
                    let small = round / 2 * 8 + lane as u64;
                    if round % 2 == 0 {
                        [small, 0, 0, 0]
                    } else {
                        number(&(&n - small - 1_u32))
                    }
                });
                scalar = Scalar::from_numbers(&lanes);
            }
            let (halves, fit) = scalar.split();
            for lane in 0..W::LANES {
                assert!(fit.bits() >> lane & 1 == 1);
                // The digits stand for twice their number minus 2^130 - 1.
                let [first, second] = halves.each_ref().map(|half| {
                    let mut whole = BigUint::ZERO;
                    for index in (0..13).rev() {
                        whole = (whole << 10) + half.digit(10 * index, 10).to_lanes()[lane];
                    }
                    let mut again = BigUint::ZERO;
                    for index in (0..26).rev() {
                        again = (again << 5) + half.digit(5 * index, 5).to_lanes()[lane];
                    }
                    assert_eq!(whole, again);
                    assert_eq!(whole, value(half.limbs(), lane));
                    (whole * 2_u32 + &n * 4_u32 - &shift) % &n
                });
                assert_eq!((first + second * &lambda) % &n, value(&scalar.0, lane) % &n);
            }
        }
    }

    pub(in crate::tests) fn scalars_are_inverted<W: Word>(fewer: u32) {
        let _ = fewer;
        let mut dice = Rng(6);
        let n = n();
        for count in [1, 2, 3, 4, 7, 32] {
            let lanes: Vec<[[u64; 4]; 8]> = (0..count)
                .map(|_| std::array::from_fn(|_| std::array::from_fn(|_| 1 + dice.next() / 2)))
                .collect();
            let mut scalars: Vec<Scalar<W>> = lanes.iter().map(|lanes| Scalar::from_numbers(lanes).enter()).collect();
            invert_all(&mut scalars, &mut Vec::new());
            for (scalar, lanes) in scalars.iter().zip(&lanes) {
                let plain = scalar.mul(&Scalar::small(1));
                for (lane, number) in lanes.iter().enumerate().take(W::LANES) {
                    assert_eq!(value(&plain.0, lane) % &n, big(number).modinv(&n).unwrap());
                }
            }
        }
    }

    pub(in crate::tests) fn field_inverses<W: Word>(fewer: u32) {
        let _ = fewer;
        let mut dice = Rng(7);
        let p = p();
        for count in [1, 2, 3, 4, 5, 11, 64] {
            for zeros in [0_u32, 1, 3] {
                let mut numbers: Vec<Fe<W>> = (0..count).map(|_| Fe(words(&mut dice, REDUCED))).collect();
                // A zero in some lanes of some numbers, in several forms.
                for zero in 0..zeros {
                    let index = dice.below(count) as usize;
                    let multiple = number_limbs(&(&p * zero));
                    let mask = W::Mask::from_bits(dice.next() as u8);
                    numbers[index] = Fe::select(mask, &Fe(multiple.map(W::splat)), &numbers[index]);
                }
                let expected: Vec<_> = numbers.iter().map(Fe::is_zero).map(Mask::bits).collect();
                let mut found = vec![0; numbers.len()];
                let mut inverses = numbers.clone();
                crate::point::invert_all(&mut inverses, &mut Vec::new(), &mut |index, zero| {
                    found[index] |= zero.bits()
                });
                assert_eq!(found, expected);
                for ((number, inverse), zero) in numbers.iter().zip(&inverses).zip(expected) {
                    for lane in 0..W::LANES {
                        let product = value(&number.0, lane) * value(&inverse.0, lane) % &p;
                        assert_eq!(product, BigUint::from(u32::from(zero >> lane & 1 == 0)));
                    }
                }
            }
        }
    }
}

/// What a round computes: sums, differences and factors of all forms.
fn mixed([a, b, c, d]: &[Fe<u64>; 4]) -> [Fe<u64>; 6] {
    let difference = a.times(b).lazy_double().scale::<1>().subtract(&c.lazy());
    [
        a.times(b).reduce(),
        a.square(),
        a.times(b).add_product(c, d).reduce(),
        a.times(b).subtract_scaled::<3>(&c.squared()).reduce(),
        a.squared().lazy().triple().factor().squared().reduce(),
        difference.factor().times(&d.squared().factor()).reduce(),
    ]
}

/// All kinds of products come to the same numbers modulo p: the columns of whole products and those
/// of halves have little in common. `BLOCKMILL_TEST_LANES_PRODUCTS` sets the number of rounds.
#[test]
fn kinds_of_products_agree() {
    let rounds = std::env::var("BLOCKMILL_TEST_LANES_PRODUCTS");
    let rounds = rounds.map_or(50_000, |rounds| rounds.replace('_', "").parse().unwrap());
    let mut dice = Rng(9);
    for round in 0..rounds {
        let numbers: [Fe<u64>; 4] = std::array::from_fn(|_| Fe(limbs(&mut dice, REDUCED)));
        let [halves, others @ ..] = Products::ALL.map(|products| {
            products
                .with(|| mixed(&numbers))
                .map(|number| number.normalize().pack())
        });
        for other in others {
            assert_eq!(halves, other, "round {round}: {numbers:x?}");
        }
    }
}

fn number_limbs(big: &BigUint) -> [u64; 5] {
    std::array::from_fn(|k| (big >> (52 * k)).iter_u64_digits().next().unwrap_or(0) & LIMB_MASK)
}

#[test]
fn one_number_is_inverted() {
    let mut dice = Rng(8);
    for modulus in [P, N] {
        let inverter = Modulus::new(&modulus);
        let modulus = big(&modulus);
        assert_eq!(inverter.invert(&[0; 4]), [0; 4]);
        for round in 0..100_000_u64 {
            let number: [u64; 4] = match round {
                0..100 => [round + 1, 0, 0, 0],
                100..200 => number(&(&modulus - (round - 99))),
                200..456 => number(&((BigUint::from(1_u32) << (round - 200)) % &modulus)),
                _ => std::array::from_fn(|_| {
                    if dice.below(4) == 0 {
                        u64::MAX * dice.below(2)
                    } else {
                        dice.next()
                    }
                }),
            };
            if big(&number) >= modulus || number == [0; 4] {
                continue;
            }
            let inverse = inverter.invert(&number);
            assert!(big(&inverse) < modulus);
            assert_eq!(
                big(&number) * big(&inverse) % &modulus,
                BigUint::from(1_u32),
                "{number:x?}"
            );
        }
    }
}

//! Checks with structure, against libsecp256k1: special points, numbers at the ends of their
//! ranges, and scalars that lead the lanes into their special cases. Each check is verified alone,
//! and among random ones, whose verdicts it must not touch.

mod comparison;
mod special;

use crate::common::known::{Point, key};
use crate::common::model::{
    BLOCK_BITS, BLOCK_POSITIONS, BLOCKS, HALF_BITS, Halves, POINT_WIDTH, POSITIONS, Road, power_of_two,
};
use crate::common::scalar::Scalar;
use crate::common::{FEW_MULTIPLES, Rng, backends, broken, challenge, hex, multiply};
use comparison::{Comparison, alone, among_others};
use num_bigint::{BigInt, BigUint};
use secp256k1::{PublicKey, Secp256k1};
use secp256k1_lanes::{Check, Kind, Verdict, Verifier};
use special::{special_keys, u1_of_zero};
use std::collections::HashMap;

const N: &str = "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141";
const P: &str = "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F";

const SEED: u64 = 41;

fn big(digits: &str) -> BigUint {
    BigUint::from_bytes_be(&hex::<32>(digits))
}

fn bytes(number: &BigUint) -> [u8; 32] {
    let digits = number.to_bytes_be();
    let mut bytes = [0; 32];
    bytes[32 - digits.len()..].copy_from_slice(&digits);
    bytes
}

/// The ends of the ranges of r, s, tweaks, messages and coordinates, and what is beside them.
fn ends() -> Vec<[u8; 32]> {
    let (n, p) = (big(N), big(P));
    let half: BigUint = &n >> 1;
    let all = BigUint::from(1_u8) << 256;
    let difference = &p - &n;
    let ends = [
        BigUint::from(0_u8),
        BigUint::from(1_u8),
        BigUint::from(2_u8),
        &difference - 1_u8,
        difference.clone(),
        &half - 1_u8,
        half.clone(),
        half + 1_u8,
        &n - 1_u8,
        n.clone(),
        n + 1_u8,
        &p - 1_u8,
        p.clone(),
        p + 1_u8,
        all - 1_u8,
    ];
    ends.iter().map(bytes).collect()
}

/// Points with known discrete logarithms.
#[derive(Default)]
struct Points {
    points: HashMap<Scalar, Point>,
    logs: HashMap<[u8; 33], Scalar>,
}

impl Points {
    /// `log` times G. Not for 0.
    fn point(&mut self, log: Scalar) -> Point {
        let point = *self.points.entry(log).or_insert_with(|| Point::new(log));
        self.logs.insert(key(2, &point.x), point.even());
        self.logs.insert(key(3, &point.x), -point.even());
        point
    }
}

#[derive(Default)]
struct Cases {
    points: Points,
    checks: Vec<Check>,
    /// Checks that must meet a special case.
    special: Vec<Check>,
}

impl Cases {
    /// An ECDSA signature with the key d G and the nonce k G.
    fn sign(&mut self, d: Scalar, k: Scalar, message: [u8; 32]) -> Check {
        let (key, nonce) = (self.points.point(d), self.points.point(k));
        let r = Scalar::from_bytes(&nonce.x);
        let s = (Scalar::from_bytes(&message) + r * d) * k.invert();
        ecdsa(key.compressed(), r, s, message)
    }

    /// An ECDSA signature with these u1 and u2, or their negatives, if that makes s low. Not for a
    /// u2 of 0.
    fn built(&mut self, u1: Scalar, u2: Scalar, d: Scalar, dice: &mut Rng) -> Check {
        let key = self.points.point(d).compressed();
        let k = u1 + u2 * d;
        // No r is right for a result at infinity.
        let r = if k.is_zero() {
            dice.scalar()
        } else {
            Scalar::from_bytes(&self.points.point(k).x)
        };
        let s = r * u2.invert();
        ecdsa(key, r, s, (u1 * s).bytes())
    }

    /// A signature of BIP340.
    fn sign_schnorr(&mut self, d: Scalar, k: Scalar, message: [u8; 32]) -> Check {
        let (public, nonce) = (self.points.point(d), self.points.point(k));
        let s = nonce.even() + challenge(&nonce.x, &public.x, &message) * public.even();
        Check {
            kind: Kind::Schnorr,
            key: key(2, &public.x),
            r: nonce.x,
            s: s.bytes(),
            message,
        }
    }

    /// A tweak of d G, or of -d G if that has the even y.
    fn tweak(&mut self, d: Scalar, tweak: Scalar, dice: &mut Rng) -> Check {
        let internal = self.points.point(d);
        let log = internal.even() + tweak;
        // No r is right for a result at infinity.
        let output = if log.is_zero() {
            self.points.point(dice.scalar())
        } else {
            self.points.point(log)
        };
        tweaked(&internal.x, tweak, &output.x, output.is_odd)
    }

    fn add(&mut self, check: Check) {
        self.checks.push(check);
    }
}

fn ecdsa(key: [u8; 33], r: Scalar, s: Scalar, message: [u8; 32]) -> Check {
    Check {
        kind: Kind::Ecdsa,
        key,
        r: r.bytes(),
        s: s.low().bytes(),
        message,
    }
}

fn tweaked(internal: &[u8; 32], tweak: Scalar, output: &[u8; 32], is_odd: bool) -> Check {
    let mut message = [0; 32];
    message[0] = u8::from(is_odd);
    Check {
        kind: Kind::Tweak,
        key: key(2, internal),
        r: *output,
        s: tweak.bytes(),
        message,
    }
}

/// G and -G times 2 to the distance of each block of the comb, and between those, and lambda times
/// the same.
fn blocks() -> Vec<Scalar> {
    let blocks = (1..2 * BLOCKS).map(|halves| power_of_two(halves * BLOCK_BITS / 2));
    let turned = blocks.flat_map(|d| [d, d * Scalar::LAMBDA]);
    turned.flat_map(|d| [d, -d]).collect()
}

/// Keys that are small multiples of G, of -G, and of lambda G, or multiples by the distances of
/// blocks.
fn small_keys(cases: &mut Cases, dice: &mut Rng) {
    let small = (1..=24).flat_map(|d| [d, -d]).map(Scalar::small);
    let turned = (1..=4).flat_map(|d| [d, -d]).map(|d| Scalar::small(d) * Scalar::LAMBDA);
    for d in small.chain(turned).chain(blocks()) {
        for message in ends().into_iter().chain([dice.bytes()]) {
            for check in [
                cases.sign(d, dice.scalar(), message),
                cases.sign_schnorr(d, dice.scalar(), message),
            ] {
                cases.add(check);
                cases.add(broken(&check, dice));
            }
            let tweak = Scalar::from_bytes(&message);
            let check = cases.tweak(d, tweak, dice);
            cases.add(check);
            cases.add(broken(&check, dice));
        }
    }
}

/// Scalars and keys that are related: small, or with a small factor, or equal.
fn built(cases: &mut Cases, dice: &mut Rng) {
    let mut scalars: Vec<Scalar> = [1, 2, 3, 16, 31, 1023].map(Scalar::small).into();
    scalars.extend([Scalar::LAMBDA, Scalar::small(2).invert(), Scalar::small(3).invert()]);
    // Twice what its lowest digits stand for, as one pair of its halves has them: the walk ends
    // with a sum of equal points.
    scalars.push(Scalar::small(2) * (Scalar::small(11) - Scalar::small(29) * Scalar::LAMBDA));
    scalars.extend(scalars.clone().into_iter().map(|scalar| -scalar));
    for &d in &scalars {
        for &u1 in scalars.iter().chain([&Scalar::ZERO]) {
            for &u2 in &scalars {
                let check = cases.built(u1, u2, d, dice);
                cases.add(check);
                if dice.once_in(8) {
                    cases.add(broken(&check, dice));
                }
            }
            let check = cases.tweak(d, u1, dice);
            cases.add(check);
        }
        // Only one of u1 and u2 is free if the result is to be small, too.
        for &k in &scalars {
            let u2 = dice.scalar();
            let check = cases.built(k - u2 * d, u2, d, dice);
            cases.add(check);
            let check = cases.sign_schnorr(d, k, dice.bytes());
            cases.add(check);
            let check = cases.tweak(d, k - d, dice);
            cases.add(check);
        }
    }
}

/// A scalar whose digits are equal within each block: the lowest there are, or the highest.
fn patterned(dice: &mut Rng) -> Scalar {
    let mut half = || {
        let mut digit = BigInt::from(0);
        (0..POSITIONS).fold(BigInt::from(0), |sum, position| {
            if position.is_multiple_of(BLOCK_POSITIONS) {
                digit = BigInt::from([-31, -1, 1, 31][dice.below(4)]);
            }
            sum + (&digit << (position * POINT_WIDTH))
        })
    };
    Halves([half(), half()]).scalar()
}

/// Scalars whose blocks have equal digits, or only zeros, and keys for which blocks of G are blocks
/// of P.
fn equal_digits(cases: &mut Cases, dice: &mut Rng) {
    let keys = [Scalar::ONE, -Scalar::ONE, Scalar::LAMBDA, dice.scalar()];
    for d in keys.into_iter().chain(blocks()) {
        for case in 0..24 {
            let zeros = |scalar: Scalar, dice: &mut Rng| {
                let from = dice.below(HALF_BITS / 8);
                let mut bytes = scalar.bytes();
                bytes[from..(from + BLOCK_BITS / 8).min(32)].fill(0);
                Scalar::from_bytes(&bytes)
            };
            let (u1, u2) = match case % 4 {
                0 => (patterned(dice), patterned(dice)),
                1 => (dice.scalar(), patterned(dice)),
                2 => (zeros(dice.scalar(), dice), zeros(dice.scalar(), dice)),
                _ => {
                    let u2 = patterned(dice);
                    ([u2, -u2][dice.below(2)], u2)
                }
            };
            let check = cases.built(u1, u2, d, dice);
            cases.add(check);
            let check = cases.tweak(d, u1, dice);
            cases.add(check);
        }
    }
}

/// Results at infinity, with keys that are not special otherwise.
fn infinity(cases: &mut Cases, dice: &mut Rng) {
    for _ in 0..20 {
        let (d, u2) = (dice.scalar(), dice.scalar());
        let check = cases.built(-u2 * d, u2, d, dice);
        cases.add(check);
        let mut check = cases.sign_schnorr(d, dice.scalar(), dice.bytes());
        let public = cases.points.point(d);
        for r in [check.r, [0; 32], bytes(&BigUint::from(1_u8)), dice.bytes()] {
            check.r = r;
            check.s = (challenge(&r, &public.x, &check.message) * public.even()).bytes();
            cases.add(check);
        }
        let check = cases.tweak(d, -public.even(), dice);
        for r in [check.r, [0; 32], bytes(&BigUint::from(1_u8)), public.x] {
            cases.add(Check { r, ..check });
        }
        // To -P, and to 2 P.
        for tweak in [-public.even() - public.even(), public.even()] {
            let check = cases.tweak(d, tweak, dice);
            cases.add(check);
        }
    }
}

/// Numbers at the ends of their ranges.
fn numbers_at_ends(cases: &mut Cases, dice: &mut Rng) {
    let (d, k) = (dice.scalar(), dice.scalar());
    let bases = [
        cases.sign(d, k, dice.bytes()),
        cases.sign_schnorr(d, k, dice.bytes()),
        cases.tweak(d, k, dice),
    ];
    for base in bases {
        for r in ends() {
            cases.add(Check { r, ..base });
            for s in ends() {
                cases.add(Check { r, s, ..base });
            }
        }
        for end in ends() {
            cases.add(Check { s: end, ..base });
            cases.add(Check { message: end, ..base });
            for prefix in 0..8 {
                cases.add(Check {
                    key: key(prefix, &end),
                    ..base
                });
            }
        }
        for prefix in 0..=u8::MAX {
            cases.add(Check {
                key: key(prefix, base.key.last_chunk().unwrap()),
                ..base
            });
        }
    }
    // Valid signatures with an s at an end: m = s k - r d.
    let r = Scalar::from_bytes(&cases.points.point(k).x);
    let public = cases.points.point(d).compressed();
    for s in ends() {
        let message = (Scalar::from_bytes(&s) * k - r * d).bytes();
        cases.add(Check {
            kind: Kind::Ecdsa,
            key: public,
            r: r.bytes(),
            s,
            message,
        });
    }
    // Valid tweaks at an end, and the same outputs with another parity.
    for tweak in ends() {
        let mut check = cases.tweak(d, Scalar::from_bytes(&tweak), dice);
        check.s = tweak;
        for byte in 0..=u8::MAX {
            check.message[0] = byte;
            cases.add(check);
        }
    }
}

/// Points whose x coordinate is at an end, or beside it.
fn points_at_ends() -> Vec<PublicKey> {
    let p = big(P);
    let lift = |x: &BigUint| PublicKey::from_slice(&key(2, &bytes(x))).ok();
    let mut points = Vec::new();
    for end in ends() {
        let end = BigUint::from_bytes_be(&end);
        let above = (0_u8..40).map(|step| &end + step).filter(|x| *x < p);
        points.extend(above.filter_map(|x| lift(&x)).take(3));
        let below = (1_u8..40)
            .filter(|step| end >= BigUint::from(*step))
            .map(|step| &end - step);
        points.extend(below.filter(|x| *x < p).filter_map(|x| lift(&x)).take(3));
    }
    points
}

/// Keys and results whose x coordinate is at an end, valid and not.
fn coordinates_at_ends(cases: &mut Cases, dice: &mut Rng) {
    let secp = Secp256k1::new();
    let p = big(P);
    let x_of = |point: &PublicKey| -> [u8; 32] { point.serialize()[1..].try_into().unwrap() };
    let is_odd = |point: &PublicKey| point.serialize()[0] == 3;
    for point in points_at_ends() {
        let x = x_of(&point);
        for point in [point, point.negate(&secp)] {
            let (u1, u2) = (dice.scalar(), dice.scalar());
            // The point as a key.
            let result = multiply(u1, u2, &point).unwrap();
            let r = Scalar::from_bytes(&x_of(&result));
            let s = r * u2.invert();
            cases.add(ecdsa(point.serialize(), r, s, (u1 * s).bytes()));
            // The point as a result: the key is (R - u1 G) / u2.
            let inverse = u2.invert();
            let public = multiply(-u1 * inverse, inverse, &point).unwrap();
            let r = Scalar::from_bytes(&x);
            let s = r * inverse;
            let check = ecdsa(public.serialize(), r, s, (u1 * s).bytes());
            cases.add(check);
            // The coordinate itself as r; for one from n on, that is out of the range.
            cases.add(Check { r: x, ..check });
            let other_s = Scalar::from_bytes(&x) * inverse;
            cases.add(Check {
                s: (-other_s).bytes(),
                ..check
            });
            // The point as the result of a tweak: the internal key is O - t G, and has an even y.
            let internal = multiply(-u1, Scalar::ONE, &point).unwrap();
            let (tweak, output) = if is_odd(&internal) {
                (-u1, point.negate(&secp))
            } else {
                (u1, point)
            };
            let check = tweaked(&x_of(&internal), tweak, &x, is_odd(&output));
            cases.add(check);
            cases.add(tweaked(&x_of(&internal), tweak, &x, !is_odd(&output)));
            let beyond = BigUint::from_bytes_be(&x) + &p;
            if beyond.bits() <= 256 {
                cases.add(Check {
                    r: bytes(&beyond),
                    ..check
                });
            }
        }
        // The point as an internal key.
        let tweak = dice.scalar();
        let output = multiply(tweak, Scalar::ONE, &point).unwrap();
        let check = tweaked(&x, tweak, &x_of(&output), is_odd(&output));
        cases.add(check);
        // The point as a key of BIP340. Nobody can sign with it.
        let mut signature = cases.sign_schnorr(dice.scalar(), dice.scalar(), dice.bytes());
        signature.key = key(2, &x);
        cases.add(signature);
        let beyond = BigUint::from_bytes_be(&x) + &p;
        if beyond.bits() <= 256 {
            cases.add(Check {
                key: key(2, &bytes(&beyond)),
                ..check
            });
            cases.add(Check {
                key: key(2, &bytes(&beyond)),
                ..signature
            });
        }
    }
}

/// Verifies the checks of `make` on all backends.
fn compare(title: &str, make: impl Fn(&mut Cases, &mut Rng)) {
    let mut cases = Cases::default();
    make(&mut cases, &mut Rng(SEED));
    let Cases {
        points,
        checks,
        special,
    } = cases;
    let mut comparison = Comparison::new(points);
    for backend in backends() {
        // Few lanes take longer, so they get a share.
        let share = if backend.is_fast() { 1 } else { 2 };
        let together = if backend.is_fast() { 16 } else { 64 };
        let checks: Vec<Check> = checks.iter().copied().step_by(share).collect();
        let verdicts = alone(backend, &checks, &mut comparison);
        let [left, all] = comparison.print(&format!("{title}, {backend:?}"));
        assert_eq!(all, checks.len());
        assert!(left <= all / 20, "{title}: lanes leave {left} of {all} to others");
        among_others(backend, &checks, &verdicts, together, &comparison);

        if special.is_empty() {
            continue;
        }
        let checks: Vec<Check> = special.iter().copied().step_by(share).collect();
        let verdicts = alone(backend, &checks, &mut comparison);
        for (check, verdict) in checks.iter().zip(&verdicts) {
            assert_eq!(*verdict, Verdict::CannotTell, "{backend:?}: {check:?}");
        }
        comparison.print(&format!("{title}, {backend:?}, special"));
        // One at a time, then many in one batch.
        among_others(backend, &checks, &verdicts, 1, &comparison);
        among_others(backend, &checks, &verdicts, 64, &comparison);
    }
}

#[test]
fn keys_that_are_small_multiples() {
    compare("small keys", small_keys);
}

#[test]
fn scalars_that_are_related() {
    compare("built", built);
}

#[test]
fn blocks_of_equal_digits() {
    compare("equal digits", equal_digits);
}

#[test]
fn results_at_infinity() {
    compare("infinity", infinity);
}

#[test]
fn numbers_at_the_ends_of_their_ranges() {
    compare("numbers at ends", numbers_at_ends);
}

#[test]
fn coordinates_at_the_ends_of_their_ranges() {
    compare("coordinates at ends", coordinates_at_ends);
}

#[test]
fn steps_that_add_equal_or_opposite_points() {
    compare("special keys", special_keys);
    compare("u1 of zero", u1_of_zero);
}

/// The same for keys that repeat: all checks of a batch have one key, and take the comb.
#[test]
fn equal_or_opposite_multiples_of_keys_that_repeat() {
    // Whole groups on each backend.
    const TOGETHER: usize = 64;
    let (mut cases, mut dice) = (Cases::default(), Rng(SEED));
    special_keys(&mut cases, &mut dice);
    let mut special = std::mem::take(&mut cases.special);
    special.retain(|check| check.kind != Kind::Tweak);
    let other = |check: &Check| {
        let d = cases.points.logs[&check.key];
        cases.built(dice.scalar(), dice.scalar(), d, &mut dice)
    };
    let others: Vec<Check> = special.iter().map(other).collect();
    let comparison = Comparison::new(cases.points);
    let mut verdicts = Vec::new();
    for backend in backends() {
        let share = if backend.is_fast() { 1 } else { 2 };
        let mut verifier = Verifier::with_backend(backend);
        for (special, other) in special.iter().zip(&others).step_by(share) {
            let mut checks = [*special; TOGETHER];
            (checks[7], checks[40]) = (*other, *other);
            verifier.verify(&checks, &mut verdicts);
            for (check, verdict) in checks.iter().zip(&verdicts) {
                comparison.compare(backend, check, Road::Comb, *verdict);
                assert_eq!(
                    *verdict == Verdict::CannotTell,
                    check == special,
                    "{backend:?}: {check:?}"
                );
            }
        }
    }
}

/// Keys that are no points and have few multiples, alone, and so often that they take the comb,
/// among others: none is valid, and no other verdict changes.
#[test]
fn keys_with_few_multiples() {
    compare("few multiples", |cases, dice| {
        let valid = |cases: &mut Cases, kind: usize, dice: &mut Rng| match kind {
            0 => cases.sign(dice.scalar(), dice.scalar(), dice.bytes()),
            1 => cases.sign_schnorr(dice.scalar(), dice.scalar(), dice.bytes()),
            _ => cases.tweak(dice.scalar(), dice.scalar(), dice),
        };
        for x in FEW_MULTIPLES {
            for kind in 0..3 {
                for prefix in [2, 3] {
                    let check = valid(cases, kind, dice);
                    let check = Check {
                        key: key(prefix, &hex(x)),
                        ..check
                    };
                    cases.checks.extend([check; 16]);
                    // Others, so that the checks that are left to libsecp256k1 are few.
                    for _ in 0..16 {
                        let check = valid(cases, kind, dice);
                        cases.add(check);
                    }
                }
            }
        }
    });
}

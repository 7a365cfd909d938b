//! Checks whose verdict is known by construction, made without arithmetic on points.
//!
//! [`Tables`] hold keys Q = d G and nonces R = k G whose d and k are random. A signature with one
//! of the keys and one of the nonces is then a matter of scalars: s = (m + r d) / k for ECDSA, s =
//! k + e d for BIP340. A tweak leads from a key to a nonce: t = k - d.
//!
//! A broken check differs from a valid one in one part. Another part makes the result a point a G +
//! b Q with other scalars than the right ones. It would have to be R or -R, or have the same r, for
//! random d and k: the probability is below 2^-128 for each check, so "invalid" is certain for all
//! purposes.

use super::scalar::{N, Scalar};
use super::{Rng, challenge, has_small_r, hex, is_degenerate};
use num_bigint::BigUint;
use secp256k1::Secp256k1;
use secp256k1_lanes::{Check, Kind, Verdict};

/// Keys, and nonces, of each [`Tables`].
pub(crate) const POINTS: usize = 512;

/// Scalars with structure, and their inverses, of each [`Tables`].
const ROUGH: usize = 256;

/// A point, and its discrete logarithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) scalar: Scalar,
    pub(crate) x: [u8; 32],
    pub(crate) is_odd: bool,
    /// beta x, the x coordinate of lambda times the point.
    turned_x: [u8; 32],
}

impl Point {
    /// `scalar` times the generator. Not for 0.
    pub(crate) fn new(scalar: Scalar) -> Self {
        let [beta, p] = [
            "7AE96A2B657C07106E64479EAC3434E99CF0497512F58995C1396C28719501EE",
            "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F",
        ]
        .map(|digits| BigUint::from_bytes_be(&hex::<32>(digits)));
        let bytes = scalar.secret().public_key(&Secp256k1::signing_only()).serialize();
        let x: [u8; 32] = bytes[1..].try_into().unwrap();
        let turned = (BigUint::from_bytes_be(&x) * beta % p).to_bytes_be();
        let mut turned_x = [0; 32];
        turned_x[32 - turned.len()..].copy_from_slice(&turned);
        Self {
            scalar,
            x,
            is_odd: bytes[0] == 3,
            turned_x,
        }
    }

    /// The compressed form.
    pub(crate) fn compressed(&self) -> [u8; 33] {
        key(2 + u8::from(self.is_odd), &self.x)
    }

    /// The discrete logarithm of the point with the same x and an even y.
    pub(crate) fn even(&self) -> Scalar {
        if self.is_odd { -self.scalar } else { self.scalar }
    }
}

/// A prefix and an x coordinate.
pub(crate) fn key(prefix: u8, x: &[u8; 32]) -> [u8; 33] {
    let mut key = [prefix; 33];
    key[1..].copy_from_slice(x);
    key
}

/// What lanes may say of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Expected {
    Valid,
    Invalid,
    /// An r below p - n, which lanes leave to others. The check is invalid.
    SmallR,
    /// A result at infinity, or another special case, which lanes leave to others. The check is
    /// invalid.
    Special,
}

impl Expected {
    pub(crate) fn allows(self, verdict: Verdict) -> bool {
        match self {
            Self::Valid => verdict == Verdict::Valid,
            Self::Invalid => verdict == Verdict::Invalid,
            Self::SmallR | Self::Special => verdict != Verdict::Valid,
        }
    }
}

/// A check, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) check: Check,
    pub(crate) expected: Expected,
    /// What was changed.
    pub(crate) change: &'static str,
}

struct Nonce {
    point: Point,
    inverse: Scalar,
}

/// Points with known discrete logarithms.
pub(crate) struct Tables {
    keys: Vec<Point>,
    nonces: Vec<Nonce>,
    /// Scalars with structure, and their inverses.
    rough: Vec<[Scalar; 2]>,
}

/// A valid check, and of what it was made.
struct Made {
    check: Check,
    key: usize,
    nonce: usize,
}

impl Tables {
    /// Random tables. Making them takes about as long as verifying 10,000 checks.
    pub(crate) fn new(dice: &mut Rng) -> Self {
        let nonce = |scalar: Scalar| Nonce {
            point: Point::new(scalar),
            inverse: scalar.invert(),
        };
        Self {
            keys: (0..POINTS).map(|_| Point::new(dice.scalar())).collect(),
            nonces: (0..POINTS).map(|_| nonce(dice.scalar())).collect(),
            rough: (0..ROUGH)
                .map(|_| dice.rough())
                .map(|scalar| [scalar, scalar.invert()])
                .collect(),
        }
    }

    /// A check, valid or broken with equal probability.
    pub(crate) fn known(&self, dice: &mut Rng) -> Known {
        self.known_of(POINTS, dice)
    }

    /// The same with one of the first `keys` keys.
    pub(crate) fn known_of(&self, keys: usize, dice: &mut Rng) -> Known {
        let made = self.make(super::kind(dice), keys, dice);
        if dice.once_in(2) {
            self.broken(made, dice)
        } else {
            Known {
                check: made.check,
                expected: Expected::Valid,
                change: "none",
            }
        }
    }

    fn make(&self, kind: Kind, keys: usize, dice: &mut Rng) -> Made {
        let [key, nonce] = [dice.below(keys), dice.below(POINTS)];
        let check = match kind {
            Kind::Ecdsa => self.ecdsa(&self.keys[key], &self.nonces[nonce], dice),
            Kind::Schnorr => {
                let message = if dice.once_in(4) {
                    dice.rough_bytes()
                } else {
                    dice.bytes()
                };
                let (key, nonce) = (&self.keys[key], &self.nonces[nonce].point);
                schnorr(key, nonce, key.even(), nonce.even(), message, dice)
            }
            Kind::Tweak => tweak(&self.keys[key], &self.nonces[nonce].point, dice),
        };
        Made { check, key, nonce }
    }

    fn ecdsa(&self, key: &Point, nonce: &Nonce, dice: &mut Rng) -> Check {
        let (d, k, r) = (key.scalar, nonce.point.scalar, Scalar::from_bytes(&nonce.point.x));
        // Whatever s is, m = s k - r d makes the signature valid. -s belongs to -k, and is valid
        // too.
        let with_s = |s: Scalar| (s, (s * k - r * d).bytes());
        let (s, message) = match dice.below(64) {
            // u1 = m / s has structure.
            0 => with_s(r * d * (k - dice.rough()).invert()),
            // u2 = r / s has structure.
            1..16 => with_s(r * self.rough[dice.below(ROUGH)][1]),
            // s has structure.
            16..32 => with_s(dice.rough()),
            style => {
                let mut message = if style < 48 { dice.rough_bytes() } else { dice.bytes() };
                // A message of 0 would be valid for the negated key too.
                if Scalar::from_bytes(&message).is_zero() {
                    message = dice.bytes();
                }
                ((Scalar::from_bytes(&message) + r * d) * nonce.inverse, message)
            }
        };
        Check {
            kind: Kind::Ecdsa,
            key: key.compressed(),
            r: r.bytes(),
            s: s.low().bytes(),
            message,
        }
    }

    /// `made` with one part broken.
    fn broken(&self, made: Made, dice: &mut Rng) -> Known {
        let Made { mut check, key, nonce } = made;
        let mut expected = Expected::Invalid;
        let (key_index, nonce_index) = (key, nonce);
        let (key, nonce) = (&self.keys[key_index], &self.nonces[nonce_index].point);
        // Any other part.
        let mut other = |index: usize| (index + 1 + dice.below(POINTS - 1)) % POINTS;
        let (other_key, other_nonce) = (&self.keys[other(key_index)], &self.nonces[other(nonce_index)].point);
        let s = Scalar::from_bytes(&check.s);
        let change = match dice.below(32) {
            0..3 => {
                flip(&mut check.r, dice);
                "a bit of r"
            }
            3..6 => {
                flip(&mut check.s, dice);
                "a bit of s"
            }
            6..9 => {
                if check.kind == Kind::Tweak {
                    check.message[0] ^= 1 << dice.below(8);
                } else {
                    flip(&mut check.message, dice);
                }
                "a bit of the message"
            }
            9..12 => {
                flip(check.key.last_chunk_mut::<32>().unwrap(), dice);
                "a bit of the key"
            }
            12 => {
                check.r = other_nonce.x;
                "another r"
            }
            13 => {
                check.key = self::key(check.key[0], &other_key.x);
                "another key"
            }
            14 => {
                check.s = dice.scalar().low().bytes();
                "another s"
            }
            15 => {
                (check.r, check.s) = (check.s, check.r);
                "r and s swapped"
            }
            16 | 17 => {
                check.key = self::key(check.key[0], &key.turned_x);
                "lambda times the key"
            }
            18 | 19 => {
                check.r = nonce.turned_x;
                "lambda times the result"
            }
            20 => {
                check.s = (-s).bytes();
                "s negated"
            }
            21 => {
                let difference = Scalar::small([1, -1, 2, -2][dice.below(4)]);
                check.s = (s + difference).bytes();
                "s off by one or two"
            }
            22 | 23 => {
                let number = out_of_range(check.kind, dice);
                let part = if dice.once_in(2) { &mut check.r } else { &mut check.s };
                *part = number;
                "a number out of its range"
            }
            24 | 25 => {
                match check.kind {
                    Kind::Ecdsa => check.key[0] = [0, 1, 4, 5, 6, 7, 0x82, 0xff][dice.below(8)],
                    Kind::Schnorr => {
                        check = schnorr(key, nonce, key.even(), -nonce.even(), check.message, dice);
                    }
                    Kind::Tweak => check.message[0] ^= 1,
                }
                "the prefix, or the result's parity"
            }
            26 | 27 => {
                match check.kind {
                    Kind::Ecdsa => check.key[0] ^= 1,
                    Kind::Schnorr => {
                        check = schnorr(key, nonce, -key.even(), nonce.even(), check.message, dice);
                    }
                    // From the negated key to the same point.
                    Kind::Tweak => check.s = (s + key.even() + key.even()).bytes(),
                }
                "the key's parity"
            }
            28 | 29 => {
                match check.kind {
                    Kind::Ecdsa => check.message = (-Scalar::from_bytes(&check.message)).bytes(),
                    Kind::Schnorr => check.message = check.message.map(|byte| !byte),
                    // To the negated point.
                    Kind::Tweak => check.s = (-(s + key.even() + key.even())).bytes(),
                }
                "the message negated, or the tweak to the negated point"
            }
            30 => {
                expected = Expected::Special;
                match check.kind {
                    // u1 = -u2 d.
                    Kind::Ecdsa => check.message = (-(Scalar::from_bytes(&check.r) * key.scalar)).bytes(),
                    Kind::Schnorr => check.s = (challenge(&check.r, &key.x, &check.message) * key.even()).bytes(),
                    Kind::Tweak => check.s = (-key.even()).bytes(),
                }
                "a result at infinity"
            }
            _ => {
                check.r = [0; 32];
                let length = 1 + dice.below(15);
                check.r[32 - length..].copy_from_slice(&dice.bytes()[..length]);
                check.r[31] |= 1;
                "a small r"
            }
        };
        if expected == Expected::Invalid && has_small_r(&check) {
            expected = Expected::SmallR;
        }
        if expected == Expected::Invalid && is_degenerate(&check) {
            expected = Expected::Special;
        }
        Known {
            check,
            expected,
            change,
        }
    }
}

fn flip(number: &mut [u8; 32], dice: &mut Rng) {
    number[dice.below(32)] ^= 1 << dice.below(8);
}

/// A number that neither r nor s may be.
fn out_of_range(kind: Kind, dice: &mut Rng) -> [u8; 32] {
    let p = hex("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F");
    let mut n = [0; 32];
    for (bytes, limb) in n.chunks_exact_mut(8).zip(N.iter().rev()) {
        bytes.copy_from_slice(&limb.to_be_bytes());
    }
    // An r of BIP340 from n to p - 1 is in its range, but differs from the nonce's. No point has
    // the x coordinate 0, and an s of 0 is wrong.
    let near = if kind == Kind::Ecdsa { n } else { [n, p][dice.below(2)] };
    match dice.below(4) {
        0 => [0; 32],
        1 => [0xff; 32],
        2 => near,
        _ => {
            let mut above = near;
            above[31] += 1 + dice.below(8) as u8;
            above
        }
    }
}

/// A signature of BIP340 with the scalars `d` and `k` for the points of `key` and `nonce`.
fn schnorr(key: &Point, nonce: &Point, d: Scalar, k: Scalar, message: [u8; 32], dice: &mut Rng) -> Check {
    let s = k + challenge(&nonce.x, &key.x, &message) * d;
    Check {
        kind: Kind::Schnorr,
        // The prefix means nothing.
        key: self::key(dice.next() as u8, &key.x),
        r: nonce.x,
        s: s.bytes(),
        message,
    }
}

/// The tweak from `key` to `output` or to the negated `output`.
fn tweak(key: &Point, output: &Point, dice: &mut Rng) -> Check {
    let is_negated = dice.once_in(2);
    let to = if is_negated { -output.scalar } else { output.scalar };
    // Only the first byte of the message counts.
    let mut message = if dice.once_in(2) { [0; 32] } else { dice.bytes() };
    message[0] = u8::from(output.is_odd != is_negated);
    Check {
        kind: Kind::Tweak,
        key: self::key(dice.next() as u8, &key.x),
        r: output.x,
        s: (to - key.even()).bytes(),
        message,
    }
}

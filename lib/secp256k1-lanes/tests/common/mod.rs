//! Checks to verify, and libsecp256k1's verdict on them.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod dice;
pub(crate) mod known;
pub(crate) mod model;
pub(crate) mod scalar;

pub(crate) use dice::Rng;
use scalar::Scalar;
use secp256k1::{
    All, Keypair, Message, Parity, PublicKey, Scalar as Tweak, Secp256k1, SecretKey, VerifyOnly, XOnlyPublicKey, ecdsa,
    schnorr,
};
use secp256k1_lanes::{Backend, Check, Kind};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

impl Rng {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        bytes
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn scalar(&mut self) -> Scalar {
        Scalar::from_bytes(&self.bytes())
    }

    /// A number with structure: long runs of equal bits, or near one of the ends.
    pub(crate) fn rough_bytes(&mut self) -> [u8; 32] {
        let mut bytes = [[0; 32], [0xff; 32]][self.below(2)];
        match self.below(4) {
            0 => bytes[24..].copy_from_slice(&self.next().to_be_bytes()),
            1 => bytes[16..].copy_from_slice(&self.bytes()[16..]),
            _ => {
                let (mut index, mut is_set) = (0, false);
                while index < 256 {
                    let longest = [4, 32, 128][self.below(3)];
                    let end = (index + 1 + self.below(longest)).min(256);
                    for bit in index..end {
                        let mask = 0x80 >> (bit % 8);
                        bytes[bit / 8] = if is_set {
                            bytes[bit / 8] | mask
                        } else {
                            bytes[bit / 8] & !mask
                        };
                    }
                    (index, is_set) = (end, !is_set);
                }
            }
        }
        bytes
    }

    /// A scalar with structure, as [`rough_bytes`](Self::rough_bytes); not 0.
    pub(crate) fn rough(&mut self) -> Scalar {
        loop {
            let scalar = Scalar::from_bytes(&self.rough_bytes());
            if !scalar.is_zero() {
                return [scalar, scalar * Scalar::LAMBDA][self.below(2)];
            }
        }
    }

    pub(crate) fn secret(&mut self) -> SecretKey {
        loop {
            if let Ok(key) = SecretKey::from_slice(&self.bytes()) {
                return key;
            }
        }
    }
}

fn halves(signature: &[u8; 64]) -> [[u8; 32]; 2] {
    let (r, s) = signature.split_at(32);
    [r.try_into().unwrap(), s.try_into().unwrap()]
}

/// A check that holds.
pub(crate) fn valid(kind: Kind, dice: &mut Rng) -> Check {
    let secret = dice.secret();
    valid_of(kind, &secret, dice)
}

/// A check that holds, of this key.
pub(crate) fn valid_of(kind: Kind, secret: &SecretKey, dice: &mut Rng) -> Check {
    let secp = Secp256k1::new();
    let message = dice.bytes();
    let digest = Message::from_digest(message);
    match kind {
        Kind::Ecdsa => {
            let signature = secp.sign_ecdsa(&digest, secret).serialize_compact();
            let [r, s] = halves(&signature);
            let key = secret.public_key(&secp).serialize();
            Check {
                kind,
                key,
                r,
                s,
                message,
            }
        }
        Kind::Schnorr => {
            let pair = Keypair::from_secret_key(&secp, secret);
            let [r, s] = halves(&secp.sign_schnorr_no_aux_rand(&digest, &pair).serialize());
            let key = with_prefix(&pair.x_only_public_key().0);
            Check {
                kind,
                key,
                r,
                s,
                message,
            }
        }
        Kind::Tweak => {
            let internal = Keypair::from_secret_key(&secp, secret).x_only_public_key().0;
            let tweak = dice.secret();
            let (output, parity) = internal.add_tweak(&secp, &Tweak::from(tweak)).unwrap();
            let mut message = [0; 32];
            message[0] = u8::from(parity == Parity::Odd);
            Check {
                kind,
                key: with_prefix(&internal),
                r: output.serialize(),
                s: tweak.secret_bytes(),
                message,
            }
        }
    }
}

fn with_prefix(key: &XOnlyPublicKey) -> [u8; 33] {
    let mut bytes = [2; 33];
    bytes[1..].copy_from_slice(&key.serialize());
    bytes
}

pub(crate) fn kind(dice: &mut Rng) -> Kind {
    [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak][dice.below(3)]
}

/// A check with one part broken in some way.
pub(crate) fn broken(check: &Check, dice: &mut Rng) -> Check {
    let mut check = *check;
    let part = dice.below(4);
    let number: &mut [u8] = match part {
        0 => &mut check.r,
        1 => &mut check.s,
        2 => &mut check.message,
        _ => &mut check.key[1..],
    };
    match dice.below(8) {
        0 => number.copy_from_slice(&dice.bytes()),
        1 => number.fill(0),
        2 => number.fill(0xff),
        3 => {
            let add = 1 + dice.below(3) as u8;
            number[31] = number[31].wrapping_add(add);
        }
        4 => number.reverse(),
        _ => number[dice.below(32)] ^= 1 << dice.below(8),
    }
    if dice.below(16) == 0 {
        check.key[0] = [2, 3, 0, 4, 6, 7][dice.below(6)];
    }
    if dice.below(8) == 0 {
        check.message[0] ^= 1;
    }
    check
}

/// libsecp256k1's verdict.
pub(crate) fn reference(secp: &Secp256k1<VerifyOnly>, check: &Check) -> bool {
    let signature = [check.r, check.s].concat();
    match check.kind {
        Kind::Ecdsa => {
            let Ok(key) = PublicKey::from_slice(&check.key) else {
                return false;
            };
            let Ok(signature) = ecdsa::Signature::from_compact(&signature) else {
                return false;
            };
            secp.verify_ecdsa(&Message::from_digest(check.message), &signature, &key)
                .is_ok()
        }
        Kind::Schnorr => {
            let Ok(key) = XOnlyPublicKey::from_slice(&check.key[1..]) else {
                return false;
            };
            let signature = schnorr::Signature::from_slice(&signature).unwrap();
            secp.verify_schnorr(&signature, &Message::from_digest(check.message), &key)
                .is_ok()
        }
        Kind::Tweak => {
            let (Ok(key), Ok(tweak), Ok(parity)) = (
                XOnlyPublicKey::from_slice(&check.key[1..]),
                Tweak::from_be_bytes(check.s),
                Parity::from_u8(check.message[0]),
            ) else {
                return false;
            };
            let Ok(output) = XOnlyPublicKey::from_slice(&check.r) else {
                return false;
            };
            key.tweak_add_check(secp, &output, parity, tweak)
        }
    }
}

/// The backends of this machine.
pub(crate) fn backends() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| {
        if !backend.is_available() {
            eprintln!("short: this machine has no {backend:?}");
        }
        backend.is_available()
    })
}

/// The bytes written as hexadecimal digits.
pub(crate) fn hex<const LENGTH: usize>(digits: &str) -> [u8; LENGTH] {
    assert_eq!(digits.len(), 2 * LENGTH);
    std::array::from_fn(|index| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).unwrap())
}

/// The challenge of BIP340.
pub(crate) fn challenge(r: &[u8; 32], key_x: &[u8; 32], message: &[u8; 32]) -> Scalar {
    static TAGGED: LazyLock<Sha256> = LazyLock::new(|| {
        let tag = Sha256::digest(b"BIP0340/challenge");
        Sha256::new().chain_update(tag).chain_update(tag)
    });
    let hash = TAGGED
        .clone()
        .chain_update(r)
        .chain_update(key_x)
        .chain_update(message)
        .finalize();
    Scalar::from_bytes(&hash.into())
}

/// Whether the r of an ECDSA signature is in its range and below p - n. Two x coordinates have such
/// an r.
pub(crate) fn has_small_r(check: &Check) -> bool {
    let p_minus_n = hex("000000000000000000000000000000014551231950B75FC4402DA1722FC9BAEE");
    check.kind == Kind::Ecdsa && check.r != [0; 32] && check.r < p_minus_n
}

/// What is asked of u1 G + u2 P for a check: the scalars and the point. None if a number is out of
/// its range, or if the key is no point.
pub(crate) fn parts(check: &Check) -> Option<(Scalar, Scalar, PublicKey)> {
    let [r, s, message] = [&check.r, &check.s, &check.message].map(Scalar::from_bytes);
    let key_x = check.key.last_chunk::<32>()?;
    let even = PublicKey::from_slice(&known::key(2, key_x)).ok()?;
    match check.kind {
        Kind::Ecdsa => {
            let in_range =
                [r, s].iter().all(|number| !number.is_zero()) && (r.bytes(), s.bytes()) == (check.r, check.s);
            let key = PublicKey::from_slice(&check.key).ok()?;
            in_range.then(|| (message * s.invert(), r * s.invert(), key))
        }
        Kind::Schnorr => Some((s, -challenge(&check.r, key_x, &check.message), even)),
        Kind::Tweak => Some((s, Scalar::ONE, even)),
    }
}

/// u1 G + u2 P; none if that is infinity.
pub(crate) fn multiply(u1: Scalar, u2: Scalar, point: &PublicKey) -> Option<PublicKey> {
    static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);
    let of_generator = (!u1.is_zero()).then(|| u1.secret().public_key(&SECP));
    let of_point = (!u2.is_zero()).then(|| point.mul_tweak(&SECP, &Tweak::from(u2.secret())).unwrap());
    match (of_generator, of_point) {
        (Some(a), Some(b)) => a.combine(&b).ok(),
        (a, b) => a.or(b),
    }
}

/// x coordinates that are no points, and have the orders 3, 3, 13, 3319 and 22639 on the curves
/// where lanes multiply keys.
pub(crate) const FEW_MULTIPLES: [&str; 5] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "693A3412A8E4A67FFF3AF395B95FDE68F04BCE4B20AC542C30090C36D7832F52",
    "EB1F7200AECAA86682376FB1C13CD12B732221E774F553B0A0857F88FA20F86D",
    "C239D83B03258D284B642DD749022D51D71241A4773B948F129C134980CB2FDF",
    "48F1B8DD117BF3FF4BF5BE49B01B096B51069F811A178E1CA235CF2E5F967B5D",
];

/// Whether u1 is 0, or the key is no point and has few multiples: lanes may meet infinity on the
/// way.
pub(crate) fn is_degenerate(check: &Check) -> bool {
    let u1 = match check.kind {
        Kind::Ecdsa => &check.message,
        Kind::Schnorr | Kind::Tweak => &check.s,
    };
    FEW_MULTIPLES.iter().any(|x| check.key[1..] == hex::<32>(x)) || Scalar::from_bytes(u1).is_zero()
}

/// Whether the check's numbers are in their ranges, and u1 G and u2 P are no points, or are equal
/// or opposite points.
pub(crate) fn sum_is_special(check: &Check) -> bool {
    parts(check).is_some_and(|(u1, u2, point)| {
        let points = [multiply(u1, Scalar::ZERO, &point), multiply(Scalar::ZERO, u2, &point)];
        let [Some(a), Some(b)] = points else { return true };
        a.x_only_public_key().0 == b.x_only_public_key().0
    })
}

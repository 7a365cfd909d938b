//! Checks to verify, and libsecp256k1's verdict on them.

#![allow(dead_code, reason = "each test uses a part")]

use secp256k1::{Keypair, Message, Parity, PublicKey, Scalar, Secp256k1, SecretKey, VerifyOnly, XOnlyPublicKey, ecdsa, schnorr};
use secp256k1_lanes::{Check, Kind};

/// A generator of numbers that look random.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        bytes
    }

    pub fn secret(&mut self) -> SecretKey {
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
pub fn valid(kind: Kind, dice: &mut Dice) -> Check {
    let secp = Secp256k1::new();
    let (secret, message) = (dice.secret(), dice.bytes());
    let digest = Message::from_digest(message);
    match kind {
        Kind::Ecdsa => {
            let signature = secp.sign_ecdsa(&digest, &secret).serialize_compact();
            let [r, s] = halves(&signature);
            let key = secret.public_key(&secp).serialize();
            Check { kind, key, r, s, message }
        }
        Kind::Schnorr => {
            let pair = Keypair::from_secret_key(&secp, &secret);
            let [r, s] = halves(&secp.sign_schnorr_no_aux_rand(&digest, &pair).serialize());
            let key = with_prefix(&pair.x_only_public_key().0);
            Check { kind, key, r, s, message }
        }
        Kind::Tweak => {
            let internal = Keypair::from_secret_key(&secp, &secret).x_only_public_key().0;
            let tweak = dice.secret();
            let (output, parity) = internal.add_tweak(&secp, &Scalar::from(tweak)).unwrap();
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

pub fn kind(dice: &mut Dice) -> Kind {
    [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak][dice.below(3)]
}

/// A check with one part broken in some way.
pub fn broken(check: &Check, dice: &mut Dice) -> Check {
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
pub fn reference(secp: &Secp256k1<VerifyOnly>, check: &Check) -> bool {
    let signature = [check.r, check.s].concat();
    match check.kind {
        Kind::Ecdsa => {
            let Ok(key) = PublicKey::from_slice(&check.key) else {
                return false;
            };
            let Ok(signature) = ecdsa::Signature::from_compact(&signature) else {
                return false;
            };
            secp.verify_ecdsa(&Message::from_digest(check.message), &signature, &key).is_ok()
        }
        Kind::Schnorr => {
            let Ok(key) = XOnlyPublicKey::from_slice(&check.key[1..]) else {
                return false;
            };
            let signature = schnorr::Signature::from_slice(&signature).unwrap();
            secp.verify_schnorr(&signature, &Message::from_digest(check.message), &key).is_ok()
        }
        Kind::Tweak => {
            let (Ok(key), Ok(tweak)) = (XOnlyPublicKey::from_slice(&check.key[1..]), Scalar::from_be_bytes(check.s)) else {
                return false;
            };
            let parity = if check.message[0] & 1 == 1 { Parity::Odd } else { Parity::Even };
            let Ok(output) = XOnlyPublicKey::from_slice(&check.r) else {
                return false;
            };
            key.tweak_add_check(secp, &output, parity, tweak)
        }
    }
}

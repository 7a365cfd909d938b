//! Signature checks for the lanes, made from a seed.

use blockmill_chaingen::bitcoin::hashes::{Hash, sha256};
use blockmill_chaingen::bitcoin::key::{Keypair, Parity, Secp256k1};
use blockmill_chaingen::bitcoin::secp256k1::{All, Message, Scalar, SecretKey};
use secp256k1_lanes::{Check, Kind};

/// The kinds of checks, with their names in the rows.
pub(super) const KINDS: [(Kind, &str); 3] = [
    (Kind::Ecdsa, "ecdsa"),
    (Kind::Schnorr, "bip340"),
    (Kind::Tweak, "tweak"),
];

/// 32 bytes made from a name and a number.
pub(super) fn bytes(name: &str, number: usize) -> [u8; 32] {
    sha256::Hash::hash(format!("blockmill-bench {name} {number}").as_bytes()).to_byte_array()
}

/// A secret key. A hash fails to be a key with a probability of 2^-127.
pub(super) fn secret(number: usize) -> SecretKey {
    SecretKey::from_slice(&bytes("key", number)).expect("a hash is below the order of the group")
}

/// `count` valid checks of a kind.
pub(super) fn valid(kind: Kind, count: usize) -> Vec<Check> {
    let secp = Secp256k1::new();
    (0..count).map(|number| make(&secp, kind, number)).collect()
}

/// Changes a bit of every second check.
pub(super) fn half_broken(mut checks: Vec<Check>) -> Vec<Check> {
    for (number, check) in checks.iter_mut().enumerate().filter(|(number, _)| !is_valid(*number)) {
        let bit = 1 << (number / 8 % 8);
        let byte = number * 7 % 32;
        match number / 2 % 4 {
            0 => check.s[byte] ^= bit,
            1 => check.r[byte] ^= bit,
            2 => check.key[1 + byte] ^= bit,
            // The message of a tweak is only a parity.
            _ if check.kind == Kind::Tweak => check.message[0] ^= 1,
            _ => check.message[byte] ^= bit,
        }
    }
    checks
}

/// Whether a check of [`half_broken`] is valid.
pub(super) fn is_valid(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn make(secp: &Secp256k1<All>, kind: Kind, number: usize) -> Check {
    let keypair = Keypair::from_secret_key(secp, &secret(number));
    let message = bytes("message", number);
    let digest = Message::from_digest(message);
    let (r, s) = match kind {
        Kind::Ecdsa => halves(&secp.sign_ecdsa(&digest, &keypair.secret_key()).serialize_compact()),
        Kind::Schnorr => halves(&secp.sign_schnorr_no_aux_rand(&digest, &keypair).serialize()),
        Kind::Tweak => return make_tweak(secp, &keypair, message),
    };
    Check {
        kind,
        key: keypair.public_key().serialize(),
        r,
        s,
        message,
    }
}

fn make_tweak(secp: &Secp256k1<All>, keypair: &Keypair, tweak: [u8; 32]) -> Check {
    let (internal, _) = keypair.x_only_public_key();
    let scalar = Scalar::from_be_bytes(tweak).expect("a hash is below the order of the group");
    let (tweaked, parity) = internal
        .add_tweak(secp, &scalar)
        .expect("a hash is not the negative of a key");
    let mut message = [0; 32];
    message[0] = u8::from(parity == Parity::Odd);
    Check {
        kind: Kind::Tweak,
        key: keypair.public_key().serialize(),
        r: tweaked.serialize(),
        s: tweak,
        message,
    }
}

/// The two numbers of a signature.
fn halves(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let (r, s) = signature.split_at(32);
    (r.try_into().expect("32 bytes"), s.try_into().expect("32 bytes"))
}

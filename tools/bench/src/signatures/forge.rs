//! Transactions of bare legacy scripts, with valid, wrong and special signatures.

use super::work::Transaction;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::{Hash, sha256};
use blockmill_chaingen::bitcoin::key::Secp256k1;
use blockmill_chaingen::bitcoin::secp256k1::{All, Message, PublicKey, Scalar, SecretKey, ecdsa};
use blockmill_chaingen::bitcoin::sighash::SighashCache;
use blockmill_chaingen::bitcoin::{
    self, Amount, OutPoint, ScriptBuf, Sequence, TxIn, TxOut, Txid, Witness, absolute, transaction,
};
use blockmill_rules::ScriptFlags;

/// `SIGHASH_ALL`, the only hash type here.
const ALL: u8 = 1;

/// Half of the group's order plus one. Its inverse is 2.
const HALF: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x5d, 0x57, 0x6e,
    0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa1,
];

/// The number one.
const ONE: [u8; 32] = {
    let mut one = [0; 32];
    one[31] = 1;
    one
};

/// Makes keys and signatures, each from the next number.
pub(super) struct Forge {
    secp: Secp256k1<All>,
    next: usize,
}

/// A signature with its hash type, and a key.
pub(super) struct Signed {
    pub(super) signature: Vec<u8>,
    pub(super) key: [u8; 33],
}

/// Makes the unlocking script of an input. The arguments are the forge, the input, and a function
/// for the hash that `SIGHASH_ALL` signs.
pub(super) type Unlock<'a> = dyn FnMut(&mut Forge, usize, &dyn Fn() -> [u8; 32]) -> Vec<u8> + 'a;

/// 32 bytes made from a name and a number.
fn bytes(name: &str, number: usize) -> [u8; 32] {
    sha256::Hash::hash(format!("blockmill-bench {name} {number}").as_bytes()).to_byte_array()
}

impl Forge {
    pub(super) fn new() -> Self {
        Self {
            secp: Secp256k1::new(),
            next: 0,
        }
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// A new secret key.
    pub(super) fn secret(&mut self) -> SecretKey {
        scalar_key(bytes("key", self.number()))
    }

    /// The public key of a secret one.
    pub(super) fn key(&self, secret: &SecretKey) -> [u8; 33] {
        secret.public_key(&self.secp).serialize()
    }

    /// The signature of `hash` with a secret key.
    pub(super) fn sign(&self, secret: &SecretKey, hash: [u8; 32]) -> Signed {
        let signature = self.secp.sign_ecdsa(&Message::from_digest(hash), secret);
        signed(&signature, &secret.public_key(&self.secp))
    }

    /// The signature of `hash` with a new key.
    pub(super) fn valid(&mut self, hash: [u8; 32]) -> Signed {
        let secret = self.secret();
        self.sign(&secret, hash)
    }

    /// A signature of another hash.
    pub(super) fn wrong(&mut self) -> Signed {
        let other = bytes("something else", self.next);
        self.valid(other)
    }

    /// A valid signature with r = 1. That is below p - n, so R has one of two possible x
    /// coordinates. The key is recovered from the signature: s R less the generator times the hash.
    pub(super) fn small_r(&mut self, hash: [u8; 32]) -> Signed {
        let s = self.low_number();
        let point = PublicKey::from_slice(&[&[2], &ONE[..]].concat()).expect("a point has 1 as its x coordinate");
        let minus = scalar_key(hash).negate().public_key(&self.secp);
        let scaled = point.mul_tweak(&self.secp, &scalar(s)).expect("s is not 0");
        let key = scaled.combine(&minus).expect("the sum is not infinity");
        signed(&compact(ONE, s), &key)
    }

    /// An invalid signature for which a verifier's sum is the point at infinity. The key is the
    /// generator times the hash times -1/r.
    pub(super) fn infinity(&mut self, hash: [u8; 32]) -> Signed {
        let mut two = ONE;
        // 1 / HALF is 2.
        two[31] = 2;
        let doubled = scalar_key(hash).mul_tweak(&scalar(two)).expect("2 is not 0");
        signed(
            &compact(HALF, self.low_number()),
            &doubled.negate().public_key(&self.secp),
        )
    }

    /// A number of at most half the order of the group.
    fn low_number(&mut self) -> [u8; 32] {
        let mut number = bytes("number", self.number());
        // Below a quarter of 2^256, and so below half of the order.
        number[0] &= 0x3f;
        number
    }

    /// A transaction that spends outputs with these locking scripts. `unlock` makes the unlocking
    /// script of each input. A padding output has `padding` bytes.
    pub(super) fn spend(&mut self, locks: Vec<Vec<u8>>, padding: usize, unlock: &mut Unlock<'_>) -> Transaction {
        let inputs = locks.len();
        let previous = Txid::from_byte_array(bytes("previous", self.number()));
        let input = |vout| TxIn {
            previous_output: OutPoint::new(previous, vout),
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        };
        let mut spending = bitcoin::Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: (0..inputs as u32).map(input).collect(),
            output: vec![TxOut {
                value: Amount::from_sat(1),
                script_pubkey: ScriptBuf::from_bytes(vec![0x6a; 1 + padding]),
            }],
        };
        let unsigned = spending.clone();
        let cache = SighashCache::new(&unsigned);
        for (index, (input, lock)) in spending.input.iter_mut().zip(&locks).enumerate() {
            let hash = || {
                let script = ScriptBuf::from_bytes(lock.clone());
                let hash = cache.legacy_signature_hash(index, &script, u32::from(ALL));
                hash.expect("the input is there").to_byte_array()
            };
            input.script_sig = ScriptBuf::from_bytes(unlock(self, index, &hash));
        }
        Transaction {
            bytes: serialize(&spending),
            spent: locks.into_iter().map(|lock| (1, lock.into())).collect(),
            inputs: (0..inputs).collect(),
            flags: ScriptFlags::ALL,
        }
    }
}

impl Signed {
    /// The script that pushes the signature, then the key.
    pub(super) fn pushed(&self) -> Vec<u8> {
        [push(&self.signature), push(&self.key)].concat()
    }
}

/// The script that pushes 1 to 75 bytes.
pub(super) fn push(data: &[u8]) -> Vec<u8> {
    debug_assert!((1..=75).contains(&data.len()));
    [&[data.len() as u8], data].concat()
}

fn signed(signature: &ecdsa::Signature, key: &PublicKey) -> Signed {
    Signed {
        signature: [&signature.serialize_der()[..], &[ALL]].concat(),
        key: key.serialize(),
    }
}

fn compact(r: [u8; 32], s: [u8; 32]) -> ecdsa::Signature {
    ecdsa::Signature::from_compact(&[r, s].concat()).expect("both numbers are below the order of the group")
}

fn scalar(number: [u8; 32]) -> Scalar {
    Scalar::from_be_bytes(number).expect("the number is below the order of the group")
}

fn scalar_key(hash: [u8; 32]) -> SecretKey {
    SecretKey::from_slice(&hash).expect("a hash is below the order of the group")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verifier's sum: the hash times the generator plus r times the key, divided by s.
    fn sum(forge: &Forge, signed: &Signed, hash: [u8; 32], r: [u8; 32]) -> Option<PublicKey> {
        let key = PublicKey::from_slice(&signed.key).unwrap();
        let scaled = key.mul_tweak(&forge.secp, &scalar(r)).unwrap();
        scaled.combine(&scalar_key(hash).public_key(&forge.secp)).ok()
    }

    #[test]
    fn signatures_are_what_they_are_called() {
        let mut forge = Forge::new();
        for number in 0..8 {
            let hash = bytes("hash", number);
            let small = forge.small_r(hash);
            let signature = ecdsa::Signature::from_der(&small.signature[..small.signature.len() - 1]).unwrap();
            assert_eq!(signature.serialize_compact()[..32], ONE);
            assert!(sum(&forge, &small, hash, ONE).is_some());
            let key = PublicKey::from_slice(&small.key).unwrap();
            let message = Message::from_digest(hash);
            assert!(forge.secp.verify_ecdsa(&message, &signature, &key).is_ok());
            let infinity = forge.infinity(hash);
            assert_eq!(sum(&forge, &infinity, hash, HALF), None);
        }
    }
}

//! Coins that are locked by keys, in all the common ways, and signatures that spend them.

use bitcoin::hashes::Hash;
use bitcoin::key::{Secp256k1, TweakedPublicKey};
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_CHECKSIG, OP_CHECKSIGADD, OP_NUMEQUAL, OP_PUSHNUM_2, OP_PUSHNUM_3};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{All, Keypair, Message, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TapLeafHash, TaprootBuilder, TaprootSpendInfo};
use bitcoin::{CompressedPublicKey, PublicKey, ScriptBuf, Transaction, TxOut, Witness};
use std::ops::Range;
use std::sync::OnceLock;

/// Which keys lock a coin, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// A public key of 65 bytes.
    Key,
    KeyHash,
    /// Two of three keys, under a hash of the script.
    ScriptMultisig,
    WitnessKeyHash,
    NestedWitnessKeyHash,
    /// Two of three keys, in a witness.
    WitnessMultisig,
    TaprootKey,
    /// Two of two keys, by OP_CHECKSIGADD in a leaf.
    TaprootScript,
}

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    /// The keys that the coin is locked by.
    Owner,
    /// Other keys.
    Stranger,
}

struct Keys {
    secp: Secp256k1<All>,
    pairs: Vec<Keypair>,
    /// Two of the three owners.
    multisig: ScriptBuf,
    taproot: TaprootSpendInfo,
}

/// Number of keys that lock coins. As many keys follow that lock none.
const OWNERS: usize = 3;

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let secp = Secp256k1::new();
        let secret = |number: usize| SecretKey::from_slice(&[0x41 + number as u8; 32]).unwrap();
        let pairs = (0..2 * OWNERS).map(|number| Keypair::from_secret_key(&secp, &secret(number)));
        let pairs: Vec<_> = pairs.collect();
        let start = Builder::new().push_opcode(OP_PUSHNUM_2);
        let middle = pairs[..OWNERS].iter().fold(start, |builder, pair| {
            builder.push_key(&PublicKey::new(pair.public_key()))
        });
        let multisig = middle
            .push_opcode(OP_PUSHNUM_3)
            .push_opcode(OP_CHECKMULTISIG)
            .into_script();
        let leaf = Builder::new()
            .push_x_only_key(&pairs[0].x_only_public_key().0)
            .push_opcode(OP_CHECKSIG)
            .push_x_only_key(&pairs[1].x_only_public_key().0)
            .push_opcode(OP_CHECKSIGADD)
            .push_opcode(OP_PUSHNUM_2)
            .push_opcode(OP_NUMEQUAL)
            .into_script();
        let tree = TaprootBuilder::new().add_leaf(0, leaf).unwrap();
        let taproot = tree.finalize(&secp, pairs[2].x_only_public_key().0).unwrap();
        Keys {
            secp,
            pairs,
            multisig,
            taproot,
        }
    })
}

impl Keys {
    /// The key of most locks.
    fn public(&self) -> CompressedPublicKey {
        CompressedPublicKey(self.pairs[0].public_key())
    }
}

impl Lock {
    pub(crate) const ALL: [Self; 8] = [
        Self::Key,
        Self::KeyHash,
        Self::ScriptMultisig,
        Self::WitnessKeyHash,
        Self::NestedWitnessKeyHash,
        Self::WitnessMultisig,
        Self::TaprootKey,
        Self::TaprootScript,
    ];

    pub(crate) fn script_pubkey(self) -> ScriptBuf {
        let keys = keys();
        match self {
            Self::Key => ScriptBuf::new_p2pk(&PublicKey::new_uncompressed(keys.public().0)),
            Self::KeyHash => ScriptBuf::new_p2pkh(&keys.public().pubkey_hash()),
            Self::ScriptMultisig => keys.multisig.to_p2sh(),
            Self::WitnessKeyHash => ScriptBuf::new_p2wpkh(&keys.public().wpubkey_hash()),
            Self::NestedWitnessKeyHash => Self::WitnessKeyHash.script_pubkey().to_p2sh(),
            Self::WitnessMultisig => keys.multisig.to_p2wsh(),
            // The output key is the key itself: nothing is committed to.
            Self::TaprootKey => {
                let (key, _) = keys.pairs[0].x_only_public_key();
                ScriptBuf::new_p2tr_tweaked(TweakedPublicKey::dangerous_assume_tweaked(key))
            }
            Self::TaprootScript => ScriptBuf::new_p2tr_tweaked(keys.taproot.output_key()),
        }
    }

    /// The lock that has this script.
    pub(crate) fn of(script: &ScriptBuf) -> Option<Self> {
        static SCRIPTS: OnceLock<Vec<(Lock, ScriptBuf)>> = OnceLock::new();
        let scripts = SCRIPTS.get_or_init(|| Self::ALL.map(|lock| (lock, lock.script_pubkey())).to_vec());
        scripts.iter().find(|entry| entry.1 == *script).map(|entry| entry.0)
    }

    /// Whether the script of the input has the elements that unlock the coin, and not the witness.
    fn is_legacy(self) -> bool {
        matches!(self, Self::Key | Self::KeyHash | Self::ScriptMultisig)
    }

    /// The elements of an input that unlock a coin; none if they are not pushed as they should be.
    pub(crate) fn elements(self, transaction: &Transaction, input: usize) -> Vec<Vec<u8>> {
        let input = &transaction.input[input];
        if !self.is_legacy() {
            return input.witness.to_vec();
        }
        let pushes = input.script_sig.instructions().map(|instruction| {
            let pushed = instruction.ok()?;
            Some(pushed.push_bytes()?.as_bytes().to_vec())
        });
        pushes.collect::<Option<_>>().unwrap_or_default()
    }

    pub(crate) fn set_elements(self, transaction: &mut Transaction, input: usize, elements: &[Vec<u8>]) {
        let input = &mut transaction.input[input];
        let push =
            |builder: Builder, element: &Vec<u8>| builder.push_slice(PushBytesBuf::try_from(element.clone()).unwrap());
        if self.is_legacy() {
            input.script_sig = elements.iter().fold(Builder::new(), push).into_script();
            return;
        }
        input.witness = Witness::from_slice(elements);
        if self == Self::NestedWitnessKeyHash {
            let redeem = Self::WitnessKeyHash.script_pubkey();
            input.script_sig = push(Builder::new(), &redeem.into_bytes()).into_script();
        }
    }

    /// Which elements are signatures.
    pub(crate) fn signatures(self) -> Range<usize> {
        match self {
            Self::ScriptMultisig | Self::WitnessMultisig => 1..3,
            Self::TaprootScript => 0..2,
            _ => 0..1,
        }
    }

    pub(crate) fn is_schnorr(self) -> bool {
        matches!(self, Self::TaprootKey | Self::TaprootScript)
    }
}

/// Signs the inputs whose coins have a lock. `spent` has the coins of all inputs.
pub(crate) fn sign(transaction: &mut Transaction, spent: &[TxOut], signer: Signer) {
    let keys = keys();
    let unsigned = transaction.clone();
    let mut cache = SighashCache::new(&unsigned);
    let first = if signer == Signer::Owner { 0 } else { OWNERS };
    for (input, output) in spent.iter().enumerate() {
        let Some(lock) = Lock::of(&output.script_pubkey) else {
            continue;
        };
        let ecdsa = |hash: [u8; 32], number: usize| {
            let signature = keys
                .secp
                .sign_ecdsa(&Message::from_digest(hash), &keys.pairs[first + number].secret_key());
            bitcoin::ecdsa::Signature::sighash_all(signature).to_vec()
        };
        let schnorr = |hash: [u8; 32], number: usize| {
            let pair = &keys.pairs[first + number];
            let signature = keys.secp.sign_schnorr_no_aux_rand(&Message::from_digest(hash), pair);
            signature.serialize().to_vec()
        };
        let legacy = |script: &ScriptBuf| {
            let hash = cache.legacy_signature_hash(input, script, EcdsaSighashType::All.to_u32());
            hash.unwrap().to_byte_array()
        };
        let key = keys.public().to_bytes().to_vec();
        let elements = match lock {
            Lock::Key => vec![ecdsa(legacy(&output.script_pubkey), 0)],
            Lock::KeyHash => vec![ecdsa(legacy(&output.script_pubkey), 0), key],
            Lock::ScriptMultisig => {
                let script = &keys.multisig;
                let hash = legacy(script);
                vec![Vec::new(), ecdsa(hash, 0), ecdsa(hash, 2), script.to_bytes()]
            }
            Lock::WitnessKeyHash | Lock::NestedWitnessKeyHash => {
                let script = Lock::WitnessKeyHash.script_pubkey();
                let hash = cache.p2wpkh_signature_hash(input, &script, output.value, EcdsaSighashType::All);
                vec![ecdsa(hash.unwrap().to_byte_array(), 0), key]
            }
            Lock::WitnessMultisig => {
                let script = &keys.multisig;
                let hash = cache.p2wsh_signature_hash(input, script, output.value, EcdsaSighashType::All);
                let hash = hash.unwrap().to_byte_array();
                vec![Vec::new(), ecdsa(hash, 0), ecdsa(hash, 2), script.to_bytes()]
            }
            Lock::TaprootKey => {
                let hash =
                    cache.taproot_key_spend_signature_hash(input, &Prevouts::All(spent), TapSighashType::Default);
                vec![schnorr(hash.unwrap().to_byte_array(), 0)]
            }
            Lock::TaprootScript => {
                let (leaf, control) = {
                    let script = keys.taproot.script_map().keys().next().unwrap().clone();
                    let control = keys.taproot.control_block(&script).unwrap().serialize();
                    (script.0, control)
                };
                let hash = cache.taproot_script_spend_signature_hash(
                    input,
                    &Prevouts::All(spent),
                    TapLeafHash::from_script(&leaf, LeafVersion::TapScript),
                    TapSighashType::Default,
                );
                let hash = hash.unwrap().to_byte_array();
                vec![schnorr(hash, 1), schnorr(hash, 0), leaf.into_bytes(), control]
            }
        };
        lock.set_elements(transaction, input, &elements);
    }
}

/// A change of a signature or of its message. Some changes leave the signature valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoil {
    /// A bit of r.
    R,
    /// A bit of s.
    S,
    /// r of another length, with a right or a wrong length in its head.
    Encoding,
    /// Another type of hash, and so another message.
    HashType,
    /// No signature.
    Empty,
    /// The order of two signatures, or of signature and key.
    Order,
    /// The element after the signature: a key, or another signature, or a script.
    Next,
    /// The group's order less s, which is valid for ECDSA too.
    Negated,
}

impl Spoil {
    pub(crate) const ALL: [Self; 8] = [
        Self::R,
        Self::S,
        Self::Encoding,
        Self::HashType,
        Self::Empty,
        Self::Order,
        Self::Next,
        Self::Negated,
    ];

    /// Spoils the elements that unlock a coin, at the signature `index`. Returns false where there
    /// is nothing to spoil.
    pub(crate) fn apply(self, lock: Lock, elements: &mut [Vec<u8>], index: usize, bit: usize) -> bool {
        let Some(signature) = elements.get_mut(index).filter(|element| element.len() >= 64) else {
            return false;
        };
        let numbers = if lock.is_schnorr() {
            Some((0..32, 32..64))
        } else {
            der(signature)
        };
        let flip = |bytes: &mut [u8]| bytes[bit / 8 % bytes.len()] ^= 1 << (bit % 8);
        match (self, numbers) {
            (Self::R, Some((r, _))) => flip(&mut signature[r]),
            (Self::S, Some((_, s))) => flip(&mut signature[s]),
            (Self::Encoding, _) if lock.is_schnorr() => {
                signature.pop();
            }
            (Self::Encoding, _) => {
                signature.insert(4, 0);
                signature[1] += 1;
                signature[3] += 1;
            }
            (Self::HashType, _) if lock.is_schnorr() => signature.push(1),
            (Self::HashType, _) => *signature.last_mut().unwrap() ^= 3,
            (Self::Empty, _) => signature.clear(),
            (Self::Order, _) => {
                if index + 1 == elements.len() {
                    return false;
                }
                elements.swap(index, index + 1);
            }
            (Self::Next, _) => match elements.get_mut(index + 1) {
                Some(next) if !next.is_empty() => flip(next),
                _ => return false,
            },
            (Self::Negated, Some((_, s))) if lock.is_schnorr() => {
                let other = negated(&signature[s.clone()]);
                signature.splice(s, other);
            }
            (Self::Negated, Some((r, s))) => {
                let mut other = negated(&signature[s.clone()]);
                if other[0] >= 0x80 {
                    other.insert(0, 0);
                }
                let hash_type = *signature.last().unwrap();
                let body = [&[2, r.len() as u8][..], &signature[r], &[2, other.len() as u8], &other].concat();
                *signature = [&[0x30, body.len() as u8][..], &body, &[hash_type]].concat();
            }
            (_, None) => return false,
        }
        true
    }
}

/// The numbers of an ECDSA signature in DER: 48, length, 2, length of R, R, 2, length of S, S, and
/// the type after it.
fn der(bytes: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let r = 4..4 + usize::from(*bytes.get(3)?);
    let s = r.end + 2..r.end + 2 + usize::from(*bytes.get(r.end + 1)?);
    (bytes[0] == 0x30 && !r.is_empty() && !s.is_empty() && s.end + 1 == bytes.len()).then_some((r, s))
}

/// The order of the group less a number, in big endian, without zeros in front.
fn negated(number: &[u8]) -> Vec<u8> {
    let mut other = bitcoin::secp256k1::constants::CURVE_ORDER;
    let mut padded = [0; 32];
    let number = &number[number.len().saturating_sub(32)..];
    padded[32 - number.len()..].copy_from_slice(number);
    let mut borrow = 0;
    for (left, right) in other.iter_mut().zip(padded).rev() {
        let difference = i32::from(*left) - i32::from(right) - borrow;
        borrow = i32::from(difference < 0);
        *left = difference.rem_euclid(256) as u8;
    }
    let zeros = other.iter().take_while(|&&byte| byte == 0).count();
    other[zeros.min(31)..].to_vec()
}

//! Every input of a mixed chain, checked with the `bitcoin` crate's sighashes and with secp256k1:
//! the right key of each script has signed the right message. (The script verifier itself is on a
//! higher floor than this crate.)

use std::collections::BTreeMap;

use crate::common::{Connected, check};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::script::Instruction;
use blockmill_chaingen::bitcoin::secp256k1::{Message, Secp256k1, VerifyOnly, schnorr};
use blockmill_chaingen::bitcoin::sighash::{Prevouts, SighashCache};
use blockmill_chaingen::bitcoin::taproot::{ControlBlock, LeafVersion, TapLeafHash};
use blockmill_chaingen::bitcoin::{
    EcdsaSighashType, PublicKey, Script, ScriptBuf, Transaction, TxOut, XOnlyPublicKey, ecdsa, taproot,
};
use blockmill_chaingen::{ChainSpec, Profile};

struct Verifier<'a> {
    secp: &'a Secp256k1<VerifyOnly>,
    tx: &'a Transaction,
    cache: SighashCache<&'a Transaction>,
    spent: Vec<TxOut>,
}

/// The digest that a signature of a type signs, under a script.
type Digest<'d> = &'d mut dyn FnMut(EcdsaSighashType) -> [u8; 32];

impl Verifier<'_> {
    /// Checks one input; the name of its kind.
    fn verify(&mut self, index: usize) -> &'static str {
        let input = self.tx.input[index].clone();
        let output = self.spent[index].clone();
        let script = &output.script_pubkey;
        let pushes = pushes(&input.script_sig);
        let witness = input.witness.to_vec();
        if script.is_p2tr() {
            return self.taproot(index, script, &witness);
        }
        if script.is_p2sh() {
            let redeem = ScriptBuf::from_bytes(pushes.last().unwrap().clone());
            assert_eq!(redeem.to_p2sh(), *script);
            if redeem.is_p2wpkh() {
                assert_eq!(pushes.len(), 1);
                self.segwit_key(index, &redeem, &witness);
                return "p2sh-p2wpkh";
            }
            assert!(witness.is_empty());
            self.multisig(&redeem, &pushes, &mut |kind| self.legacy(index, &redeem, kind));
            return "p2sh multisig";
        }
        if script.is_p2wpkh() {
            assert!(pushes.is_empty());
            self.segwit_key(index, script, &witness);
            return "p2wpkh";
        }
        if script.is_p2wsh() {
            let inner = ScriptBuf::from_bytes(witness.last().unwrap().clone());
            assert_eq!(inner.to_p2wsh(), *script);
            let spent = output.value;
            let mut cache = SighashCache::new(self.tx);
            let mut digest = |kind| {
                cache
                    .p2wsh_signature_hash(index, &inner, spent, kind)
                    .unwrap()
                    .to_byte_array()
            };
            self.multisig(&inner, &witness, &mut digest);
            return "p2wsh multisig";
        }
        assert!(witness.is_empty());
        let mut digest = |kind| self.legacy(index, script, kind);
        if script.is_p2pkh() {
            let key = PublicKey::from_slice(&pushes[1]).unwrap();
            assert_eq!(ScriptBuf::new_p2pkh(&key.pubkey_hash()), *script);
            assert!(self.ecdsa(&pushes[0], &key, &mut digest));
            return "p2pkh";
        }
        let key = script.p2pk_public_key().unwrap();
        assert!(self.ecdsa(&pushes[0], &key, &mut digest));
        if key.compressed { "p2pk" } else { "p2pk uncompressed" }
    }

    fn legacy(&self, index: usize, script: &Script, kind: EcdsaSighashType) -> [u8; 32] {
        self.cache
            .legacy_signature_hash(index, script, kind.to_u32())
            .unwrap()
            .to_byte_array()
    }

    fn segwit_key(&mut self, index: usize, program: &Script, witness: &[Vec<u8>]) {
        let key = PublicKey::from_slice(&witness[1]).unwrap();
        assert_eq!(ScriptBuf::new_p2wpkh(&key.wpubkey_hash().unwrap()), *program);
        assert_eq!(witness.len(), 2);
        let value = self.spent[index].value;
        let mut cache = SighashCache::new(self.tx);
        let mut digest = |kind| {
            cache
                .p2wpkh_signature_hash(index, program, value, kind)
                .unwrap()
                .to_byte_array()
        };
        assert!(self.ecdsa(&witness[0], &key, &mut digest));
    }

    /// Checks two of three as OP_CHECKMULTISIG does: an empty element, then signatures in the order
    /// of the keys.
    fn multisig(&self, script: &Script, stack: &[Vec<u8>], digest: Digest<'_>) {
        assert_eq!(stack.len(), 4);
        assert!(stack[0].is_empty());
        let keys: Vec<PublicKey> = script
            .instructions()
            .filter_map(|instruction| match instruction.unwrap() {
                Instruction::PushBytes(bytes) => PublicKey::from_slice(bytes.as_bytes()).ok(),
                Instruction::Op(_) => None,
            })
            .collect();
        assert_eq!(keys.len(), 3);
        let mut keys = keys.iter();
        for signature in &stack[1..3] {
            assert!(keys.any(|key| self.ecdsa(signature, key, digest)));
        }
    }

    fn ecdsa(&self, signature: &[u8], key: &PublicKey, digest: Digest<'_>) -> bool {
        let signature = ecdsa::Signature::from_slice(signature).unwrap();
        let mut low = signature.signature;
        low.normalize_s();
        assert_eq!(low, signature.signature);
        let message = Message::from_digest(digest(signature.sighash_type));
        self.secp
            .verify_ecdsa(&message, &signature.signature, &key.inner)
            .is_ok()
    }

    fn taproot(&mut self, index: usize, script: &Script, witness: &[Vec<u8>]) -> &'static str {
        let output_key = XOnlyPublicKey::from_slice(&script.as_bytes()[2..]).unwrap();
        let signature = taproot::Signature::from_slice(&witness[0]).unwrap();
        let prevouts = Prevouts::All(&self.spent);
        let kind = signature.sighash_type;
        if witness.len() == 1 {
            let sighash = self
                .cache
                .taproot_key_spend_signature_hash(index, &prevouts, kind)
                .unwrap();
            self.schnorr(&signature.signature, sighash.to_byte_array(), &output_key);
            return "p2tr key";
        }
        let leaf = ScriptBuf::from_bytes(witness[1].clone());
        let control = ControlBlock::decode(&witness[2]).unwrap();
        assert!(control.verify_taproot_commitment(self.secp, output_key, &leaf));
        let hash = TapLeafHash::from_script(&leaf, LeafVersion::TapScript);
        let sighash = self
            .cache
            .taproot_script_spend_signature_hash(index, &prevouts, hash, kind)
            .unwrap();
        let key = XOnlyPublicKey::from_slice(&leaf.as_bytes()[1..33]).unwrap();
        assert_eq!(leaf.as_bytes()[33], 0xac);
        self.schnorr(&signature.signature, sighash.to_byte_array(), &key);
        "p2tr script"
    }

    fn schnorr(&self, signature: &schnorr::Signature, digest: [u8; 32], key: &XOnlyPublicKey) {
        self.secp
            .verify_schnorr(signature, &Message::from_digest(digest), key)
            .unwrap();
    }
}

fn pushes(script: &Script) -> Vec<Vec<u8>> {
    script
        .instructions_minimal()
        .map(|instruction| instruction.unwrap().push_bytes().unwrap().as_bytes().to_vec())
        .collect()
}

#[test]
fn every_input_of_every_kind_is_signed() {
    let secp = Secp256k1::verification_only();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut visit = |connected: &Connected<'_>| {
        assert!(connected.height > 100, "no coinbase is mature");
        let spent = connected.spent.iter().map(|live| live.output.clone()).collect();
        let mut verifier = Verifier {
            secp: &secp,
            tx: connected.tx,
            cache: SighashCache::new(connected.tx),
            spent,
        };
        for index in 0..connected.tx.input.len() {
            *kinds.entry(verifier.verify(index)).or_default() += 1;
        }
    };
    check(
        &ChainSpec {
            inputs: 10_000,
            ..ChainSpec::new(Profile::Mixed, 130, 4)
        },
        &mut visit,
    );
    assert_eq!(kinds.len(), 9, "{kinds:?}");
    assert!(kinds.values().all(|&count| count > 100), "{kinds:?}");
}

#[test]
fn every_open_input_shows_its_script() {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut visit = |connected: &Connected<'_>| {
        for (input, live) in connected.tx.input.iter().zip(connected.spent) {
            let script = &live.output.script_pubkey;
            let witness = input.witness.to_vec();
            let kind = if script.is_p2sh() {
                let [redeem] = &pushes(&input.script_sig)[..] else {
                    panic!("one push")
                };
                assert_eq!(ScriptBuf::from_bytes(redeem.clone()).to_p2sh(), *script);
                assert!(redeem.ends_with(&[0x75, 0x51]) && witness.is_empty());
                "p2sh"
            } else if script.is_p2wsh() {
                let [inner] = &witness[..] else { panic!("one element") };
                assert_eq!(ScriptBuf::from_bytes(inner.clone()).to_p2wsh(), *script);
                assert!(inner.ends_with(&[0x75, 0x51]) && input.script_sig.is_empty());
                "p2wsh"
            } else {
                assert!(input.script_sig.is_empty() && witness.is_empty());
                match script.as_bytes() {
                    [0x51] => "true",
                    [0x51, 0x02, 0x4e, 0x73] => "anchor",
                    [0x02, _, _, 0x75, 0x51] => "short drop",
                    [0x20, rest @ .., 0x75, 0x51] if rest.len() == 32 => "long drop",
                    other => panic!("{other:x?}"),
                }
            };
            *kinds.entry(kind).or_default() += 1;
        }
    };
    check(
        &ChainSpec {
            inputs: 10_000,
            ..ChainSpec::new(Profile::Utxo, 130, 4)
        },
        &mut visit,
    );
    assert_eq!(kinds.len(), 6, "{kinds:?}");
}

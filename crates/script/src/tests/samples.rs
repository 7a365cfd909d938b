//! Transactions with the outputs they spend: of real blocks, of a generated chain, and with scripts
//! that are seldom seen.

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::key::Secp256k1;
use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{Message, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, SighashCache};
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute, transaction};
use blockmill_block::BlockHash;
use blockmill_chaingen::{ChainSpec, Profile, generate};
use blockmill_realdata::SingleBlock;
use blockmill_rules::{Params, ScriptFlags, SpentOutput, flags::block_script_flags};
use std::collections::HashMap;

/// A transaction, what it spends, and the flags of its block.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) transaction: Transaction,
    pub(crate) spent: Vec<TxOut>,
    pub(crate) flags: ScriptFlags,
}

impl Sample {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serialize(&self.transaction)
    }

    pub(crate) fn spent(&self) -> Vec<SpentOutput<'_>> {
        let spent = self.spent.iter().map(|output| SpentOutput {
            value: output.value.to_sat().cast_signed(),
            script_pubkey: output.script_pubkey.as_bytes(),
        });
        spent.collect()
    }
}

/// A block of the samples.
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) transactions: Vec<Sample>,
}

/// The real blocks; none, with words about it, where they are not there.
pub(crate) fn real_blocks() -> Vec<Block> {
    let blocks = blockmill_realdata::real_blocks();
    blocks.into_iter().map(real_block).collect()
}

fn real_block(real: SingleBlock) -> Block {
    let block: bitcoin::Block = deserialize(real.block.bytes()).unwrap();
    // None of the blocks is one of the exceptions.
    let flags = block_script_flags(&Params::new(real.network, None), real.height, &BlockHash::ZERO);
    let transactions = block
        .txdata
        .into_iter()
        .skip(1)
        .enumerate()
        .map(|(index, transaction)| {
            let spent = real.undo.transaction(index).iter().map(|coin| TxOut {
                value: Amount::from_sat(coin.value.cast_unsigned()),
                script_pubkey: ScriptBuf::from_bytes(coin.script_pubkey.to_vec()),
            });
            Sample {
                transaction,
                spent: spent.collect(),
                flags,
            }
        });
    let transactions = transactions.collect();
    Block {
        name: real.name,
        transactions,
    }
}

/// The transactions of a generated chain with all common kinds of scripts.
pub(crate) fn generated() -> Vec<Sample> {
    let spec = ChainSpec {
        inputs: 1_000,
        ..ChainSpec::new(Profile::Mixed, 108, 7)
    };
    let mut outputs: HashMap<OutPoint, TxOut> = HashMap::new();
    let mut samples = Vec::new();
    let mut take = |_height: u32, bytes: &[u8]| {
        let block: bitcoin::Block = deserialize(bytes).unwrap();
        for (index, transaction) in block.txdata.into_iter().enumerate() {
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                outputs.insert(OutPoint { txid, vout }, output.clone());
            }
            if index > 0 {
                let spent = transaction
                    .input
                    .iter()
                    .map(|input| outputs[&input.previous_output].clone());
                samples.push(Sample {
                    spent: spent.collect(),
                    transaction,
                    flags: ScriptFlags::ALL,
                });
            }
        }
        Ok(())
    };
    generate(&spec, &mut take, &mut |_| ()).unwrap();
    samples
}

/// How a script is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Bare,
    ScriptHash,
    Witness,
}

const VALUE: Amount = Amount::from_sat(70_000);

/// A transaction with one input that spends nothing yet, and outputs with so many bytes of scripts.
pub(crate) fn spending(outputs: usize) -> Transaction {
    let mut transaction = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![empty_input(1)],
        output: Vec::new(),
    };
    let mut left = outputs;
    while left > 0 || transaction.output.is_empty() {
        let length = left.min(9_000);
        left -= length;
        transaction.output.push(TxOut {
            value: Amount::from_sat(1),
            script_pubkey: ScriptBuf::from_bytes(vec![0x6a; length]),
        });
    }
    transaction
}

pub(crate) fn empty_input(number: u8) -> TxIn {
    TxIn {
        previous_output: OutPoint::new(Txid::from_byte_array([number; 32]), 0),
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    }
}

pub(crate) fn secret(number: u8) -> SecretKey {
    SecretKey::from_slice(&[number; 32]).unwrap()
}

pub(crate) fn public(number: u8) -> [u8; 33] {
    secret(number).public_key(&Secp256k1::new()).serialize()
}

/// The other s of an ECDSA signature in DER: as valid as the first one.
pub(crate) fn other_s(signature: &[u8]) -> Option<Vec<u8>> {
    let (hash_type, der) = signature.split_last()?;
    let compact = bitcoin::secp256k1::ecdsa::Signature::from_der(der)
        .ok()?
        .serialize_compact();
    let s = SecretKey::from_slice(&compact[32..]).ok()?.negate();
    let number = |bytes: &[u8]| {
        let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(31);
        let sign = if bytes[start] & 0x80 != 0 { &[0][..] } else { &[] };
        let digits = [sign, &bytes[start..]].concat();
        [&[2, digits.len() as u8][..], &digits].concat()
    };
    let both = [number(&compact[..32]), number(&s.secret_bytes())].concat();
    Some([&[0x30, both.len() as u8][..], &both, &[*hash_type]].concat())
}

/// What is pushed for a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// A valid signature with key number so and so.
    Signed(u8),
    /// The same with the other, higher s.
    HighS(u8),
    /// A signature for another message with that key.
    Wrong(u8),
    Empty,
}

/// A transaction that spends `script` with these pushes.
pub(crate) fn spend(form: Form, script: &ScriptBuf, pushes: &[Push]) -> Sample {
    let mut transaction = spending(30);
    let mut cache = SighashCache::new(&transaction);
    let hash = match form {
        Form::Witness => cache
            .p2wsh_signature_hash(0, script, VALUE, EcdsaSighashType::All)
            .unwrap()
            .to_byte_array(),
        _ => cache
            .legacy_signature_hash(0, script, EcdsaSighashType::All.to_u32())
            .unwrap()
            .to_byte_array(),
    };
    let sign = |number: u8, hash: [u8; 32]| {
        let signature = Secp256k1::new().sign_ecdsa(&Message::from_digest(hash), &secret(number));
        bitcoin::ecdsa::Signature::sighash_all(signature).to_vec()
    };
    let elements = pushes.iter().map(|push| match push {
        Push::Signed(number) => sign(*number, hash),
        Push::HighS(number) => other_s(&sign(*number, hash)).unwrap(),
        Push::Wrong(number) => sign(*number, [9; 32]),
        Push::Empty => Vec::new(),
    });
    let mut elements: Vec<Vec<u8>> = elements.collect();
    let script_pubkey = match form {
        Form::Bare => script.clone(),
        Form::ScriptHash => script.to_p2sh(),
        Form::Witness => script.to_p2wsh(),
    };
    if form != Form::Bare {
        elements.push(script.to_bytes());
    }
    if form == Form::Witness {
        transaction.input[0].witness = Witness::from_slice(&elements);
    } else {
        let pushed = elements.iter().fold(Builder::new(), |builder, element| {
            builder.push_slice(PushBytesBuf::try_from(element.clone()).unwrap())
        });
        transaction.input[0].script_sig = pushed.into_script();
    }
    Sample {
        transaction,
        spent: vec![TxOut {
            value: VALUE,
            script_pubkey,
        }],
        flags: ScriptFlags::ALL,
    }
}

/// `<key 1> CHECKSIG SWAP <key 2> CHECKSIG EQUAL`: it passes if both signatures are valid or
/// neither is.
pub(crate) fn both_or_neither() -> ScriptBuf {
    Builder::new()
        .push_slice(public(1))
        .push_opcode(op::OP_CHECKSIG)
        .push_opcode(op::OP_SWAP)
        .push_slice(public(2))
        .push_opcode(op::OP_CHECKSIG)
        .push_opcode(op::OP_EQUAL)
        .into_script()
}

/// The signatures of [`both_or_neither`], and whether they pass.
pub(crate) const BOTH_OR_NEITHER: [([Push; 2], bool); 6] = [
    ([Push::Signed(2), Push::Signed(1)], true),
    ([Push::Signed(2), Push::Wrong(1)], false),
    ([Push::Wrong(2), Push::Signed(1)], false),
    ([Push::Wrong(2), Push::Wrong(1)], true),
    ([Push::Empty, Push::Empty], true),
    ([Push::Signed(2), Push::Empty], false),
];

/// `needed key ... key n CHECKMULTISIG`.
pub(crate) fn multisig(needed: i64, keys: &[u8]) -> Builder {
    let keys_pushed = keys.iter().fold(Builder::new().push_int(needed), |builder, &key| {
        builder.push_slice(public(key))
    });
    keys_pushed
        .push_int(keys.len() as i64)
        .push_opcode(op::OP_CHECKMULTISIG)
}

/// Scripts in which an invalid signature does not end it, and multisig with signatures at all
/// indices.
pub(crate) fn unusual() -> Vec<Sample> {
    let mut samples = Vec::new();
    for form in [Form::Bare, Form::ScriptHash, Form::Witness] {
        for (pushes, _) in &BOTH_OR_NEITHER {
            samples.push(spend(form, &both_or_neither(), pushes));
        }
        for signer in 1..=3 {
            let not = Builder::new()
                .push_slice(public(1))
                .push_opcode(op::OP_CHECKSIG)
                .push_opcode(op::OP_NOT);
            samples.push(spend(form, &not.into_script(), &[Push::Signed(signer)]));
            let one = [Push::Empty, Push::Signed(signer)];
            samples.push(spend(form, &multisig(1, &[1, 2, 3]).into_script(), &one));
            samples.push(spend(
                form,
                &multisig(1, &[1, 2]).push_opcode(op::OP_NOT).into_script(),
                &one,
            ));
            for second in 1..=4 {
                let two = [Push::Empty, Push::Signed(signer), Push::Signed(second)];
                samples.push(spend(form, &multisig(2, &[1, 2, 3]).into_script(), &two));
            }
        }
        let branches = Builder::new()
            .push_slice(public(1))
            .push_opcode(op::OP_CHECKSIG)
            .push_opcode(op::OP_IF)
            .push_slice(public(2))
            .push_opcode(op::OP_ELSE)
            .push_slice(public(3))
            .push_opcode(op::OP_ENDIF)
            .push_opcode(op::OP_CHECKSIG)
            .into_script();
        for second in 2..=3 {
            for first in [Push::Signed(1), Push::Wrong(1), Push::Empty] {
                samples.push(spend(form, &branches, &[Push::Signed(second), first]));
            }
        }
    }
    samples
}

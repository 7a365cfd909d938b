//! Where the signatures stand in the inputs of a transaction, for the kinds of script in which
//! every one of them is needed.

use bitcoin::script::Instruction;
use bitcoin::{Script, ScriptBuf, Transaction, TxIn, Witness};
use std::ops::Range;

/// In which part of an input a signature stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    ScriptSig,
    /// An element of the witness.
    Witness(usize),
}

/// A signature of an input.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// The kind of script that is spent.
    pub(crate) kind: &'static str,
    part: Part,
    /// Bytes of the numbers R and S in that part.
    r: Range<usize>,
    s: Range<usize>,
}

/// One of the two numbers of a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    R,
    S,
}

impl Signature {
    /// Changes a bit in the middle of a number, so that the form of the signature stays what it
    /// was.
    pub(crate) fn spoil(&self, transaction: &mut Transaction, input: usize, number: Number) {
        let range = match number {
            Number::R => &self.r,
            Number::S => &self.s,
        };
        let middle = (range.start + range.end) / 2;
        let input = &mut transaction.input[input];
        match self.part {
            Part::ScriptSig => {
                let mut bytes = input.script_sig.to_bytes();
                bytes[middle] ^= 1;
                input.script_sig = ScriptBuf::from_bytes(bytes);
            }
            Part::Witness(element) => {
                let mut elements = input.witness.to_vec();
                elements[element][middle] ^= 1;
                input.witness = Witness::from_slice(&elements);
            }
        }
    }
}

/// The signatures of an input that spends `script`; none where it is of another kind.
pub(crate) fn signatures(input: &TxIn, script: &Script) -> Vec<Signature> {
    let pushes = pushes(&input.script_sig);
    if script.is_p2tr() {
        return taproot(&input.witness);
    }
    let redeem = match pushes.last() {
        Some((_, bytes)) if script.is_p2sh() => Script::from_bytes(bytes),
        _ => script,
    };
    let nested = script.is_p2sh();
    if redeem.is_p2wpkh() {
        let kind = if nested { "p2sh-p2wpkh" } else { "p2wpkh" };
        return in_witness(kind, &input.witness, 1);
    }
    if redeem.is_p2wsh() {
        let multisig = input
            .witness
            .last()
            .is_some_and(|script| Script::from_bytes(script).is_multisig());
        let kind = if nested {
            "p2sh-p2wsh multisig"
        } else {
            "p2wsh multisig"
        };
        return if multisig {
            in_witness(kind, &input.witness, input.witness.len() - 1)
        } else {
            Vec::new()
        };
    }
    let (kind, elements) = match redeem {
        script if script.is_p2pkh() && !nested => ("p2pkh", 1),
        script if script.is_p2pk() && !nested => ("p2pk", 1),
        script if script.is_multisig() && nested => ("p2sh multisig", pushes.len() - 1),
        script if script.is_multisig() => ("multisig", pushes.len()),
        _ => return Vec::new(),
    };
    let found = pushes.iter().take(elements).filter_map(|(start, bytes)| {
        let (r, s) = der(bytes)?;
        Some(Signature {
            kind,
            part: Part::ScriptSig,
            r: start + r.start..start + r.end,
            s: start + s.start..start + s.end,
        })
    });
    found.collect()
}

/// The elements that a script pushes, and where each begins in it.
fn pushes(script: &Script) -> Vec<(usize, Vec<u8>)> {
    let mut start = 0;
    let mut found = Vec::new();
    for instruction in script.instructions() {
        match instruction {
            Ok(Instruction::PushBytes(bytes)) => {
                // One byte of opcode, and a length of its own for more than 75 bytes.
                let head = match bytes.len() {
                    0..=75 => 1,
                    76..=255 => 2,
                    _ => 3,
                };
                found.push((start + head, bytes.as_bytes().to_vec()));
                start += head + bytes.len();
            }
            // These kinds of script have no other opcodes.
            _ => return Vec::new(),
        }
    }
    let written: usize = start;
    if written == script.len() { found } else { Vec::new() }
}

/// Signatures among the first elements of a witness.
fn in_witness(kind: &'static str, witness: &Witness, elements: usize) -> Vec<Signature> {
    let found = witness
        .iter()
        .take(elements)
        .enumerate()
        .filter_map(|(element, bytes)| {
            let (r, s) = der(bytes)?;
            Some(Signature {
                kind,
                part: Part::Witness(element),
                r,
                s,
            })
        });
    found.collect()
}

/// The numbers of an ECDSA signature in DER: 48, length, 2, length of R, R, 2, length of S, S, and
/// the type after it.
fn der(bytes: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let r = 4..4 + usize::from(*bytes.get(3)?);
    let s = r.end + 2..r.end + 2 + usize::from(*bytes.get(r.end + 1)?);
    let whole = bytes[0] == 0x30 && bytes[2] == 2 && bytes[r.end] == 2;
    let lengths = usize::from(bytes[1]) + 3 == bytes.len() && s.end + 1 == bytes.len();
    (whole && lengths && r.len() > 20 && s.len() > 20).then_some((r, s))
}

/// The signature of a taproot input: for the key, or for a leaf that begins with a key and
/// OP_CHECKSIG.
fn taproot(witness: &Witness) -> Vec<Signature> {
    let annex = witness.len() > 1 && witness.last().is_some_and(|last| last.first() == Some(&0x50));
    let elements = witness.len() - usize::from(annex);
    let kind = match elements {
        1 => "p2tr key",
        3 if is_key_leaf(witness.nth(1).unwrap_or_default()) => "p2tr script",
        _ => return Vec::new(),
    };
    let length = witness.nth(0).map_or(0, <[u8]>::len);
    assert!((64..=65).contains(&length), "a taproot signature of {length} bytes");
    vec![Signature {
        kind,
        part: Part::Witness(0),
        r: 0..32,
        s: 32..64,
    }]
}

fn is_key_leaf(script: &[u8]) -> bool {
    script.len() >= 34 && script[0] == 32 && script[33] == 0xac
}

//! The trait of `blockmill-rules` for script verifiers, over the interface of Bitcoin Core's kernel
//! library.
//!
//! Every script goes to the library: there are no short cuts for scripts that look easy.

use bitcoinkernel::core::TxOutRef;
use bitcoinkernel::core::{TransactionExt, TxOutExt};
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, ScriptVerifyError, Transaction, TxOut, verify,
};
use blockmill_block::reader::write_compact_size;
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};

/// The script interpreter of Bitcoin Core.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelVerifier;

/// A transaction in the library's form, with the outputs that it spends and what the signature
/// hashes of all its inputs have in common.
pub struct KernelTransaction {
    transaction: Transaction,
    spent: Spent,
    /// For inputs that spend no Taproot output; none if all do.
    plain: Option<PrecomputedTransactionData>,
    /// For those that do; none if none does.
    taproot: Option<Taproot>,
}

/// What inputs that spend Taproot outputs need: with all spent outputs, which the library copies
/// for every input that it verifies.
struct Taproot {
    precomputed: PrecomputedTransactionData,
    /// Which inputs they are.
    inputs: Vec<bool>,
}

/// Whether a locking script is a native witness program of version 1 and 32 bytes. With any other
/// the library never looks at the flag for Taproot (`VerifyWitnessProgram` of
/// script/interpreter.cpp is the one function that does), nor at the outputs that other inputs
/// spend.
fn is_taproot(script_pubkey: &[u8]) -> bool {
    matches!(script_pubkey, [0x51, 0x20, program @ ..] if program.len() == 32)
}

/// Most outputs that are made one by one.
const ONE_BY_ONE: usize = 3;

/// What a transaction spends.
enum Spent {
    /// Few outputs, made one by one.
    Single(Vec<TxOut>),
    /// Many, as the outputs of one transaction: made in one call, where single outputs take two
    /// each. But the library hashes a transaction.
    Together(Transaction),
}

impl Spent {
    fn new(outputs: &[SpentOutput<'_>]) -> Result<Self, KernelError> {
        if outputs.len() > ONE_BY_ONE {
            return Ok(Self::Together(Transaction::new(&with_outputs(outputs))?));
        }
        let single = |output: &SpentOutput<'_>| Ok(TxOut::new(&ScriptPubkey::new(output.script_pubkey)?, output.value));
        Ok(Self::Single(
            outputs.iter().map(single).collect::<Result<_, KernelError>>()?,
        ))
    }

    fn output(&self, input: usize) -> Result<TxOutRef<'_>, KernelError> {
        match self {
            Self::Single(outputs) => outputs.get(input).map(TxOut::as_ref).ok_or(KernelError::OutOfBounds),
            Self::Together(transaction) => transaction.output(input),
        }
    }

    fn precompute(&self, transaction: &Transaction) -> Result<PrecomputedTransactionData, KernelError> {
        match self {
            Self::Single(outputs) => PrecomputedTransactionData::new(transaction, outputs),
            Self::Together(together) => {
                let outputs: Vec<_> = together.outputs().collect();
                PrecomputedTransactionData::new(transaction, &outputs)
            }
        }
    }
}

/// The serialization of a transaction that has these outputs, and an input without meaning: one
/// without inputs would be read as one with witnesses.
fn with_outputs(outputs: &[SpentOutput<'_>]) -> Vec<u8> {
    const INPUT: [u8; 41] = [0; 41];
    let scripts: usize = outputs.iter().map(|output| output.script_pubkey.len()).sum();
    // An output has 8 bytes of its amount, and hardly ever more than 3 of a length.
    let mut bytes = Vec::with_capacity(64 + scripts + outputs.len() * 11);
    // Version 1, and one input.
    bytes.extend([1, 0, 0, 0, 1]);
    bytes.extend(INPUT);
    write_compact_size(outputs.len() as u64, &mut bytes);
    for output in outputs {
        bytes.extend(output.value.to_le_bytes());
        write_compact_size(output.script_pubkey.len() as u64, &mut bytes);
        bytes.extend(output.script_pubkey);
    }
    // The lock time.
    bytes.extend([0; 4]);
    bytes
}

fn verifier_error(error: KernelError) -> VerifyError {
    VerifyError::Verifier(error.to_string())
}

impl ScriptVerifier for KernelVerifier {
    type Prepared = KernelTransaction;
    type Deferred<T: Send> = ();

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<KernelTransaction, VerifyError> {
        let transaction = Transaction::new(transaction).map_err(verifier_error)?;
        if transaction.input_count() != spent.len() {
            return Err(verifier_error(KernelError::MismatchedOutputsSize));
        }
        let inputs: Vec<bool> = spent.iter().map(|output| is_taproot(output.script_pubkey)).collect();
        let spent = Spent::new(spent).map_err(verifier_error)?;
        // Without spent outputs it costs less to make, and to verify with.
        let plain = if inputs.iter().all(|&taproot| taproot) {
            None
        } else {
            let none: &[TxOut] = &[];
            Some(PrecomputedTransactionData::new(&transaction, none).map_err(verifier_error)?)
        };
        let taproot = if inputs.iter().any(|&taproot| taproot) {
            let precomputed = spent.precompute(&transaction).map_err(verifier_error)?;
            Some(Taproot { precomputed, inputs })
        } else {
            None
        };
        Ok(KernelTransaction {
            transaction,
            spent,
            plain,
            taproot,
        })
    }

    fn verify(&self, prepared: &KernelTransaction, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        let output = prepared.spent.output(input).map_err(verifier_error)?;
        let taproot = prepared
            .taproot
            .as_ref()
            .filter(|taproot| taproot.inputs.get(input) == Some(&true));
        let (precomputed, flags) = match (taproot, &prepared.plain) {
            (Some(taproot), _) => (&taproot.precomputed, flags),
            (None, Some(plain)) => (plain, flags.without(ScriptFlags::TAPROOT)),
            (None, None) => return Err(verifier_error(KernelError::OutOfBounds)),
        };
        let result = verify(
            &output.script_pubkey(),
            Some(output.value()),
            &prepared.transaction,
            input,
            Some(flags.0),
            precomputed,
        );
        match result {
            Ok(()) => Ok(()),
            Err(KernelError::ScriptVerify(ScriptVerifyError::Invalid)) => Err(VerifyError::Invalid),
            Err(error) => Err(verifier_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::Hash;
    use bitcoin::key::Secp256k1;
    use bitcoin::secp256k1::{Message, SecretKey};
    use bitcoin::sighash::{EcdsaSighashType, SighashCache};
    use bitcoin::{
        Amount, CompressedPublicKey, OutPoint, ScriptBuf, Sequence, TxIn, TxOut as BitcoinTxOut, Txid, Witness,
        absolute, transaction,
    };

    const VALUE: i64 = 50_000;
    const ALL: ScriptFlags = ScriptFlags::P2SH.with(ScriptFlags::WITNESS).with(ScriptFlags::TAPROOT);

    /// A transaction that spends a P2WPKH output of [`VALUE`] and one that anyone can spend, and
    /// their scripts.
    fn signed() -> (bitcoin::Transaction, [ScriptBuf; 2]) {
        let secp = Secp256k1::new();
        let key = SecretKey::from_slice(&[7; 32]).unwrap();
        let public = CompressedPublicKey(key.public_key(&secp));
        let script = ScriptBuf::new_p2wpkh(&public.wpubkey_hash());
        let input = |number: u8| TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array([number; 32]), 0),
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        };
        let mut transaction = bitcoin::Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![input(1), input(2)],
            output: vec![BitcoinTxOut {
                value: Amount::from_sat(1000),
                script_pubkey: script.clone(),
            }],
        };
        let hash = SighashCache::new(&transaction)
            .p2wpkh_signature_hash(0, &script, Amount::from_sat(VALUE as u64), EcdsaSighashType::All)
            .unwrap();
        let signature = secp.sign_ecdsa(&Message::from_digest(hash.to_byte_array()), &key);
        let signature = bitcoin::ecdsa::Signature::sighash_all(signature);
        transaction.input[0].witness = Witness::p2wpkh(&signature, &public.0);
        (transaction, [script, ScriptBuf::from_bytes(vec![0x51])])
    }

    fn check(value: i64, second_script: &[u8], input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        let (transaction, [script, _]) = signed();
        let spent = [
            SpentOutput {
                value,
                script_pubkey: script.as_bytes(),
            },
            SpentOutput {
                value: 1,
                script_pubkey: second_script,
            },
        ];
        let prepared = KernelVerifier.prepare(&bitcoin::consensus::serialize(&transaction), &spent)?;
        KernelVerifier.verify(&prepared, input, flags)
    }

    #[test]
    fn scripts_are_run() {
        let (_, [_, anyone]) = signed();
        assert_eq!(check(VALUE, anyone.as_bytes(), 0, ALL), Ok(()));
        assert_eq!(check(VALUE, anyone.as_bytes(), 1, ALL), Ok(()));
        // The amount is signed, and the flags count.
        assert_eq!(check(VALUE + 1, anyone.as_bytes(), 0, ALL), Err(VerifyError::Invalid));
        assert_eq!(check(VALUE + 1, anyone.as_bytes(), 0, ScriptFlags::NONE), Ok(()));
        assert_eq!(check(VALUE, &[0x00], 1, ALL), Err(VerifyError::Invalid));
        assert_eq!(check(VALUE, &[0x6a], 1, ALL), Err(VerifyError::Invalid));
    }

    /// What the library says with all spent outputs and all flags, for every input.
    fn reference(transaction: &[u8], spent: &[SpentOutput<'_>], input: usize, flags: ScriptFlags) -> bool {
        let transaction = Transaction::new(transaction).unwrap();
        let all = Spent::new(spent).unwrap();
        let precomputed = all.precompute(&transaction).unwrap();
        let output = all.output(input).unwrap();
        let (script, value) = (output.script_pubkey(), Some(output.value()));
        verify(&script, value, &transaction, input, Some(flags.0), &precomputed).is_ok()
    }

    #[test]
    fn the_flag_for_taproot_says_nothing_of_other_scripts() {
        let program = |version: u8, length: usize| {
            let mut script = vec![version, length as u8];
            script.extend(vec![7; length]);
            script
        };
        let mut nested = ScriptBuf::from_bytes(program(0x51, 32)).to_p2sh().into_bytes();
        let redeem = program(0x51, 32);
        let mut scripts = vec![vec![0x51], vec![], vec![0x00], program(0x51, 32)];
        scripts.extend([2, 31, 33, 40].map(|length| program(0x51, length)));
        scripts.extend([0x52, 0x60].map(|version| program(version, 32)));
        scripts.push(std::mem::take(&mut nested));
        // 34 bytes that begin like a Taproot output, and are none.
        scripts.push([&[0x51, 0x1f][..], &[7; 32]].concat());
        scripts.push([&[0x51, 0x61][..], &[0x61; 32]].concat());
        let mut seen = [0, 0];
        for script in &scripts {
            for witness in [&[][..], &[vec![1]], &[vec![0x51], vec![0xc0; 33]]] {
                for script_sig in [vec![], [&[34][..], &redeem].concat()] {
                    let (mut transaction, [p2wpkh, anyone]) = signed();
                    transaction.input[1].witness = Witness::from_slice(witness);
                    transaction.input[1].script_sig = ScriptBuf::from_bytes(script_sig);
                    let bytes = bitcoin::consensus::serialize(&transaction);
                    for other in [p2wpkh.as_bytes(), anyone.as_bytes(), &program(0x51, 32)] {
                        let spent = [other, script].map(|script_pubkey| SpentOutput {
                            value: VALUE,
                            script_pubkey,
                        });
                        let prepared = KernelVerifier.prepare(&bytes, &spent).unwrap();
                        for flags in [ALL, ScriptFlags::P2SH | ScriptFlags::WITNESS, ScriptFlags::P2SH] {
                            for input in [0, 1] {
                                let expected = reference(&bytes, &spent, input, flags);
                                let found = KernelVerifier.verify(&prepared, input, flags);
                                assert_eq!(found.is_ok(), expected, "{script:x?} {witness:x?} {input} {flags:?}");
                                assert!(found.is_ok() || found == Err(VerifyError::Invalid));
                                seen[usize::from(expected)] += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }

    #[test]
    fn what_is_not_the_scripts_fault_is_no_verdict() {
        assert!(matches!(check(VALUE, &[0x51], 2, ALL), Err(VerifyError::Verifier(_))));
        assert!(matches!(
            KernelVerifier.prepare(&[1, 2, 3], &[]),
            Err(VerifyError::Verifier(_))
        ));
        let (transaction, [script, _]) = signed();
        let one = SpentOutput {
            value: VALUE,
            script_pubkey: script.as_bytes(),
        };
        assert!(matches!(
            KernelVerifier.prepare(&bitcoin::consensus::serialize(&transaction), &[one]),
            Err(VerifyError::Verifier(_))
        ));
    }
}

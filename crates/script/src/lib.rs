//! Script verification by Bitcoin Core's kernel library, behind the trait of `blockmill-rules`.
//!
//! Every script goes to the kernel: there are no short cuts for scripts that look easy.

use bitcoinkernel::core::TxOutExt;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, ScriptVerifyError, Transaction, TxOut, verify,
};
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};

/// The script interpreter of Bitcoin Core.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelVerifier;

/// A transaction in the kernel's form, with the outputs that it spends and what the signature hashes of all its
/// inputs have in common.
pub struct KernelTransaction {
    transaction: Transaction,
    spent: Vec<TxOut>,
    precomputed: PrecomputedTransactionData,
}

fn verifier_error(error: KernelError) -> VerifyError {
    VerifyError::Verifier(error.to_string())
}

impl ScriptVerifier for KernelVerifier {
    type Prepared = KernelTransaction;

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<KernelTransaction, VerifyError> {
        let transaction = Transaction::new(transaction).map_err(verifier_error)?;
        let spent = spent
            .iter()
            .map(|output| Ok(TxOut::new(&ScriptPubkey::new(output.script_pubkey)?, output.value)))
            .collect::<Result<Vec<_>, KernelError>>()
            .map_err(verifier_error)?;
        let precomputed = PrecomputedTransactionData::new(&transaction, &spent).map_err(verifier_error)?;
        Ok(KernelTransaction {
            transaction,
            spent,
            precomputed,
        })
    }

    fn verify(&self, prepared: &KernelTransaction, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        let Some(output) = prepared.spent.get(input) else {
            return Err(VerifyError::Verifier(format!("input {input} has no spent output")));
        };
        let result = verify(
            &output.script_pubkey(),
            Some(output.value()),
            &prepared.transaction,
            input,
            Some(flags.0),
            &prepared.precomputed,
        );
        match result {
            Ok(()) => Ok(()),
            Err(KernelError::ScriptVerify(ScriptVerifyError::Invalid)) => Err(VerifyError::Invalid),
            Err(error) => Err(verifier_error(error)),
        }
    }
}

//! The input is a stream of lines, one line as `blockmill submit` reads it, or a block for a line.
//!
//! Checked: the reader cuts a stream into its lines, and keeps no more of a line than the limit. A
//! line becomes bytes or is refused. A block's line becomes the block's bytes, with digits of
//! either case and white space around them. All rules that need no coins are tried on the block, on
//! any network and at any height, with and without proof of work and the right merkle root. No rule
//! panics, and a signet verifier only gets transactions that decode.

#![no_main]

use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{Block, hex};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::parts::fix_merkle_root;
use blockmill_fuzz::submitted::{check_stream, decode_one};
use blockmill_rules::block::{BlockContext, BlockOptions, check_block, check_block_context};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, ScriptFlags, ScriptVerifier, SpentOutput, VerifyError, header, signet, sigops};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The parameters of all networks.
static PARAMS: LazyLock<Vec<Params>> = LazyLock::new(|| {
    blockmill_block::Network::ALL
        .into_iter()
        .map(|network| Params::new(network, None))
        .collect()
});

/// Verifies signet solutions: decodes the transaction, and accepts or refuses by a byte of its id.
struct SignetVerifier;

impl ScriptVerifier for SignetVerifier {
    type Prepared = OwnedTransaction;
    type Deferred<T: Send> = ();

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<OwnedTransaction, VerifyError> {
        let decoded = OwnedTransaction::decode(transaction.to_vec()).expect("a made-up transaction decodes");
        assert_eq!(decoded.view().input_count(), spent.len());
        Ok(decoded)
    }

    fn verify(&self, prepared: &OwnedTransaction, input: usize, _flags: ScriptFlags) -> Result<(), VerifyError> {
        let transaction = prepared.view();
        let _ = transaction.input(input).script_sig();
        if transaction.txid().0[0].is_multiple_of(2) {
            Ok(())
        } else {
            Err(VerifyError::Invalid)
        }
    }
}

/// A line of hex for these bytes; the flags choose the case of digits and the white space.
fn line_of(bytes: &[u8], flags: u8) -> Vec<u8> {
    let mut text = hex::encode(bytes);
    if flags & 0x10 != 0 {
        text = text.to_uppercase();
    }
    if flags & 0x20 != 0 {
        text = format!(" \t{text}\r");
    }
    text.into_bytes()
}

fn validate(block: &Block, params: &Params, height: u32, parent_median_time_past: u32) {
    let context = BlockContext {
        params,
        height,
        parent_median_time_past,
    };
    let _ = block_script_flags(params, height, &block.hash());
    let _ = header::check_proof_of_work(&block.hash(), block.header().bits, params);
    let _ = signet::check_solution(block, params, &SignetVerifier);
    let alone = check_block(block, params, &SignetVerifier, BlockOptions { proof_of_work: false });
    let with_work = check_block(block, params, &SignetVerifier, BlockOptions { proof_of_work: true });
    // Proof of work is one more rule, before the others.
    assert!(alone.is_ok() || with_work.is_err());
    match alone {
        Ok(facts) => {
            let counts = block
                .transactions()
                .map(|transaction| sigops::legacy_count(&transaction));
            assert!(counts.eq(facts.legacy_sigops.iter().copied()));
            if let Err(reject) = check_block_context(block, &context) {
                drop(reject.to_string());
            }
        }
        Err(reject) => drop(reject.to_string()),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.u8();
    let params = &PARAMS[usize::from(flags & 7) % PARAMS.len()];
    if flags & 0x80 != 0 {
        let (piece, length_max) = (1 + usize::from(input.u8()), usize::from(input.u8()));
        return check_stream(input.rest(), piece, length_max);
    }
    let (height, parent_median_time_past) = (input.u32() & i32::MAX.cast_unsigned(), input.u32());
    let bytes = if flags & 0x40 == 0 {
        let Some(bytes) = decode_one(input.rest()) else {
            return;
        };
        bytes
    } else {
        let mut bytes = input.rest().to_vec();
        if flags & 8 != 0 {
            fix_merkle_root(&mut bytes);
        }
        assert_eq!(decode_one(&line_of(&bytes, flags)).as_ref(), Some(&bytes));
        bytes
    };
    if let Ok(block) = Block::decode(bytes) {
        validate(&block, params, height, parent_median_time_past);
    }
});

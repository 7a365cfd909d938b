//! The input is a call of the C library: a block with undo data and a context, a transaction with
//! its coins, or signatures.
//!
//! Checked: no call ends with a fault of the library, whatever the bytes. libsecp256k1 one by one
//! and lanes have the same status and verdict, and so have undo data and the same coins in block
//! order. What is valid with them is valid with the coins by outpoint. A verdict has a reason if
//! and only if it is a refusal, and names a transaction and an input that are there.

#![no_main]
#![expect(unsafe_code, reason = "the functions that C calls take pointers")]

use blockmill::border::*;
use blockmill::handles::{CHECK_LENGTH, CoinsHandle, ContextHandle, ValidatorHandle, VerdictHandle};
use blockmill::status::{FAULT, INVALID, OK, SIGNATURES_LANES, SIGNATURES_ONE_BY_ONE, UNKNOWN_TIME};
use blockmill_block::{Block, BlockUndo};
use blockmill_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use std::ffi::{CStr, CString};

thread_local! {
    /// One by one, and lanes.
    static VALIDATORS: [Option<Box<ValidatorHandle>>; 2] =
        [SIGNATURES_ONE_BY_ONE, SIGNATURES_LANES].map(|way| blockmill_validator_new(1, way));
}

/// The status of a call, and what its verdict says: reason, kind, transaction, input, fees.
type Answer = (i32, String, i32, i64, i64, i64);

fn answer(status: i32, verdict: &VerdictHandle) -> Answer {
    assert_ne!(status, FAULT);
    let verdict = Some(verdict);
    // SAFETY: the text lives as long as the verdict.
    let reason = unsafe { CStr::from_ptr(blockmill_verdict_reason(verdict)) };
    let reason = reason.to_string_lossy().into_owned();
    assert_eq!(blockmill_verdict_is_valid(verdict) == 1, status == OK);
    assert_eq!(reason.is_empty(), status != INVALID);
    assert_eq!(blockmill_verdict_kind(verdict) == 0, status != INVALID);
    (
        status,
        reason,
        blockmill_verdict_kind(verdict),
        blockmill_verdict_transaction(verdict),
        blockmill_verdict_input(verdict),
        blockmill_verdict_fees(verdict),
    )
}

/// The answer of both validators, which is the same.
fn both(call: impl Fn(Option<&ValidatorHandle>, Option<&mut VerdictHandle>) -> i32) -> Answer {
    VALIDATORS.with(|validators| {
        let [one_by_one, lanes] = validators.each_ref().map(|validator| {
            let mut verdict = blockmill_verdict_new().expect("a verdict");
            let status = call(validator.as_deref(), Some(&mut verdict));
            answer(status, &verdict)
        });
        assert_eq!(one_by_one, lanes);
        lanes
    })
}

fn undo_coins(bytes: &[u8]) -> Option<Box<CoinsHandle>> {
    // SAFETY: a slice has its length.
    unsafe { blockmill_coins_from_undo(bytes.as_ptr(), bytes.len()) }
}

/// The coins of undo data, in block order.
fn coins_in_order(undo: &BlockUndo) -> Option<Box<CoinsHandle>> {
    let mut coins = blockmill_coins_new_in_order();
    for coin in undo.coins().iter() {
        let (script, is_coinbase) = (coin.script_pubkey, coin.is_coinbase.into());
        let (value, height) = (coin.value, coin.height);
        // SAFETY: a slice has its length.
        let status = unsafe {
            blockmill_coins_push(
                coins.as_deref_mut(),
                value,
                height,
                is_coinbase,
                script.as_ptr(),
                script.len(),
            )
        };
        assert_eq!(status, OK);
    }
    assert_eq!(blockmill_coins_count(coins.as_deref()), undo.coins().len());
    coins
}

/// The coins of undo data that fits a block, by outpoint.
fn coins_by_outpoint(block: &Block<&[u8]>, undo: &BlockUndo) -> Option<Box<CoinsHandle>> {
    let mut coins = blockmill_coins_new();
    for (index, transaction) in block.transactions().enumerate().skip(1) {
        for (input, coin) in transaction.inputs().zip(undo.transaction(index - 1).iter()) {
            let (outpoint, script) = (input.previous_output(), coin.script_pubkey);
            // A coin without a height counts as mature in block order alone.
            let is_coinbase = i32::from(coin.is_coinbase && coin.height > 0);
            // SAFETY: a slice has its length.
            let status = unsafe {
                blockmill_coins_add(
                    coins.as_deref_mut(),
                    Some(&outpoint.txid.0),
                    outpoint.vout,
                    coin.value,
                    coin.height,
                    is_coinbase,
                    script.as_ptr(),
                    script.len(),
                )
            };
            assert_eq!(status, OK);
        }
    }
    coins
}

fn context(input: &mut Input<'_>) -> Option<Box<ContextHandle>> {
    let network = CString::new(input.network().name()).expect("a name");
    // SAFETY: the text ends with a zero byte.
    let mut context = unsafe { blockmill_context_new(network.as_ptr(), input.u32()) }?;
    let set = input.u8();
    let context_again = &mut context;
    let mut is_set = |bit: u8, call: &mut dyn FnMut(Option<&mut ContextHandle>) -> i32| {
        if set & (1 << bit) != 0 {
            let _ = call(Some(context_again));
        }
    };
    is_set(0, &mut |context| blockmill_context_set_proof_of_work(context, 0));
    is_set(1, &mut |context| blockmill_context_set_bits(context, input.u32()));
    is_set(2, &mut |context| {
        blockmill_context_set_parent_time(context, input.u32())
    });
    is_set(3, &mut |context| {
        blockmill_context_set_median_time_past(context, input.u32())
    });
    is_set(4, &mut |context| blockmill_context_set_clock(context, input.i64()));
    is_set(5, &mut |context| {
        blockmill_context_set_median_time_at(context, input.u32(), input.u32())
    });
    is_set(6, &mut |context| {
        blockmill_context_set_script_flags(context, input.u32())
    });
    is_set(7, &mut |context| blockmill_context_set_bip30(context, 1));
    Some(context)
}

fn check_block(input: &mut Input<'_>) {
    let Some(mut context) = context(input) else { return };
    let length = input.u16();
    let undo_bytes = input.take(length.into());
    let bytes = input.rest();
    let validate = |coins: Option<&CoinsHandle>, context: &ContextHandle| {
        both(|validator, verdict| {
            // SAFETY: a slice has its length.
            unsafe { blockmill_validate_block(validator, bytes.as_ptr(), bytes.len(), coins, Some(context), verdict) }
        })
    };
    let undo = undo_coins(undo_bytes);
    let found = validate(undo.as_deref(), &context);
    let (Ok(block), Ok(undo)) = (Block::decode(bytes), BlockUndo::decode(undo_bytes)) else {
        assert!(found.0 < 0, "{found:?}");
        return;
    };
    if found.0 == INVALID && found.3 >= 0 {
        let transaction = block.transaction(found.3 as usize);
        assert!(found.4 < transaction.input_count() as i64);
    }
    if !undo.fits(&block) {
        return;
    }
    assert_eq!(validate(coins_in_order(&undo).as_deref(), &context), found);
    blockmill_context_set_bip30(Some(&mut context), 0);
    let by_outpoint = validate(coins_by_outpoint(&block, &undo).as_deref(), &context);
    if found.0 == OK || found.0 == UNKNOWN_TIME {
        assert_eq!(by_outpoint, found);
    }
}

fn check_transaction(input: &mut Input<'_>) {
    let flags = input.u32();
    let length = input.u16();
    let undo = undo_coins(input.take(length.into()));
    let bytes = input.rest();
    let found = both(|validator, verdict| {
        let coins = undo.as_deref();
        // SAFETY: a slice has its length.
        unsafe { blockmill_verify_transaction(validator, bytes.as_ptr(), bytes.len(), coins, flags, verdict) }
    });
    assert_eq!(found.3, -1);
}

fn check_signatures(input: &mut Input<'_>) {
    let (checks, _) = input.rest().as_chunks::<CHECK_LENGTH>();
    let answers = VALIDATORS.with(|validators| {
        validators.each_ref().map(|validator| {
            let mut holds = vec![9; checks.len()];
            let (from, into) = (checks.as_ptr(), holds.as_mut_ptr());
            // SAFETY: there is room for as many answers as there are checks.
            let status = unsafe { blockmill_verify_signatures(validator.as_deref(), from, checks.len(), into) };
            let answer = if status == OK { 0..=1 } else { 9..=9 };
            assert!(holds.iter().all(|hold| answer.contains(hold)), "{status}: {holds:?}");
            (status, holds)
        })
    });
    assert_eq!(answers[0], answers[1]);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    match input.u8() % 4 {
        0 | 1 => check_block(&mut input),
        2 => check_transaction(&mut input),
        _ => check_signatures(&mut input),
    }
});

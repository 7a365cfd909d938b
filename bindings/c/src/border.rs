//! The functions that C calls. All unsafe code is here: their names are taken as they are, and
//! pointers with lengths become slices.
//!
//! A handle is a `Box`. A pointer to one that may be NULL has the layout of an `Option` of a
//! reference. That such a pointer leads to a living handle, and that nothing else changes what is
//! behind it meanwhile, is what the header asks of its callers.

#![expect(unsafe_code, reason = "names for the linker, and slices from pointers with lengths")]

use crate::handles::{CHECK_LENGTH, CoinsHandle, ContextHandle, ValidatorHandle, VerdictHandle};
use crate::status::{self, Failed, INTERFACE, OK, made, status};
use blockmill_block::{CoinRef, OutPoint, Txid};
use blockmill_rules::connect::Overwriting;
use std::ffi::{CStr, c_char, c_int};
use std::slice;

/// A handle behind a pointer. Where the call that was to make it has failed, its words are the
/// last.
fn given<T>(pointer: Option<T>, what: &str) -> Result<T, Failed> {
    pointer.ok_or_else(|| match status::last_words() {
        words if words.is_empty() => Failed::argument(format!("NULL in place of {what}")),
        words => Failed::argument(format!("NULL in place of {what}; the last error was: {words}")),
    })
}

/// A verdict to fill. Whatever comes, it says nothing of an earlier call.
fn cleared(verdict: Option<&mut VerdictHandle>) -> Result<&mut VerdictHandle, Failed> {
    let verdict = given(verdict, "the verdict")?;
    *verdict = VerdictHandle::default();
    Ok(verdict)
}

/// Things in C's memory.
///
/// # Safety
/// `pointer` leads to `count` things that nobody changes during `'a`, or `count` is 0.
unsafe fn things<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failed> {
    if count == 0 {
        return Ok(&[]);
    }
    let is_possible = count
        .checked_mul(size_of::<T>())
        .is_some_and(|bytes| bytes <= isize::MAX as usize);
    if pointer.is_null() || !is_possible {
        return Err(Failed::argument(format!(
            "NULL in place of {what}, or an impossible length"
        )));
    }
    // SAFETY: it is not NULL, of a possible length, and the rest is the caller's duty.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($context:ident, $($argument:ident: $type:ty),*) $work:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(context: Option<&mut ContextHandle>, $($argument: $type),*) -> c_int {
            status(|| {
                let $context = given(context, "the context")?;
                $work;
                Ok(OK)
            })
        }
    )*};
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $type:ty, $else:expr, $verdict:ident => $work:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(verdict: Option<&VerdictHandle>) -> $type {
            verdict.map_or($else, |$verdict| $work)
        }
    )*};
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_interface() -> u32 {
    INTERFACE
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    CStr::from_bytes_with_nul(VERSION.as_bytes()).map_or(c"".as_ptr(), CStr::as_ptr)
}

/// The text of the last error on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_last_error() -> *const c_char {
    status::last_error()
}

/// A validator.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_validator_new(threads: usize, signatures: c_int) -> Option<Box<ValidatorHandle>> {
    made(|| ValidatorHandle::new(threads, signatures))
}

/// Ends a validator.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_validator_free(validator: Option<Box<ValidatorHandle>>) {
    status(|| {
        drop(validator);
        Ok(OK)
    });
}

/// Coins by outpoint.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_coins_new() -> Option<Box<CoinsHandle>> {
    made(|| Ok(CoinsHandle::by_outpoint()))
}

/// Coins in block order.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_coins_new_in_order() -> Option<Box<CoinsHandle>> {
    made(|| Ok(CoinsHandle::in_order()))
}

/// Coins from undo data.
///
/// # Safety
/// `undo` leads to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_coins_from_undo(undo: *const u8, length: usize) -> Option<Box<CoinsHandle>> {
    made(|| {
        // SAFETY: the caller's duty.
        CoinsHandle::from_undo(unsafe { things(undo, length, "the undo data") }?)
    })
}

/// Adds a coin by outpoint.
///
/// # Safety
/// `txid` is NULL or leads to 32 bytes, `script` to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_coins_add(
    coins: Option<&mut CoinsHandle>,
    txid: Option<&[u8; 32]>,
    vout: u32,
    value: i64,
    height: u32,
    is_coinbase: c_int,
    script: *const u8,
    length: usize,
) -> c_int {
    status(|| {
        let txid = Txid(*given(txid, "the transaction's id")?);
        let coin = CoinRef {
            value,
            height,
            is_coinbase: is_coinbase != 0,
            // SAFETY: the caller's duty.
            script_pubkey: unsafe { things(script, length, "the script") }?,
        };
        given(coins, "the coins")?.add(OutPoint { txid, vout }, coin)
    })
}

/// Adds the coin of the next input in block order.
///
/// # Safety
/// `script` leads to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_coins_push(
    coins: Option<&mut CoinsHandle>,
    value: i64,
    height: u32,
    is_coinbase: c_int,
    script: *const u8,
    length: usize,
) -> c_int {
    status(|| {
        let coin = CoinRef {
            value,
            height,
            is_coinbase: is_coinbase != 0,
            // SAFETY: the caller's duty.
            script_pubkey: unsafe { things(script, length, "the script") }?,
        };
        given(coins, "the coins")?.push(coin)
    })
}

/// Number of coins.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_coins_count(coins: Option<&CoinsHandle>) -> usize {
    coins.map_or(0, CoinsHandle::count)
}

/// Frees coins.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_coins_free(coins: Option<Box<CoinsHandle>>) {
    drop(coins);
}

/// Where a block stands.
///
/// # Safety
/// `network` is NULL or leads to a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_context_new(network: *const c_char, height: u32) -> Option<Box<ContextHandle>> {
    made(|| {
        if network.is_null() {
            return Err(Failed::argument("NULL in place of the network"));
        }
        // SAFETY: it is not NULL, and the rest is the caller's duty.
        let network = unsafe { CStr::from_ptr(network) };
        ContextHandle::new(&network.to_string_lossy(), height)
    })
}

/// Sets the challenge of a signet.
///
/// # Safety
/// `script` leads to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_context_set_signet_challenge(
    context: Option<&mut ContextHandle>,
    script: *const u8,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's duty.
        let script = unsafe { things(script, length, "the challenge") }?;
        given(context, "the context")?.set_signet_challenge(script)
    })
}

setters! {
    /// Sets the target that the header must have.
    blockmill_context_set_bits(context, bits: u32) context.0.facts.bits = Some(bits);
    /// Sets the time in the parent's header.
    blockmill_context_set_parent_time(context, time: u32) context.0.facts.parent_time = Some(time);
    /// Sets the median time past of the parent.
    blockmill_context_set_median_time_past(context, time: u32) context.0.facts.median_time_past = Some(time);
    /// Sets the clock.
    blockmill_context_set_clock(context, now: i64) context.0.facts.now = Some(now);
    /// Sets the median time past of an ancestor.
    blockmill_context_set_median_time_at(context, height: u32, time: u32) context.0.median_times.insert(height, time);
    /// Sets whether coins may be overwritten.
    blockmill_context_set_bip30(context, is_enforced: c_int) context.0.overwriting = Some(match is_enforced {
        0 => Overwriting::Allowed,
        _ => Overwriting::Forbidden,
    });
    /// Sets the flags of the scripts.
    blockmill_context_set_script_flags(context, flags: u32) context.set_script_flags(flags)?;
    /// Sets whether the proof of work is checked.
    blockmill_context_set_proof_of_work(context, is_checked: c_int) context.0.proof_of_work = is_checked != 0;
}

/// Frees a context.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_context_free(context: Option<Box<ContextHandle>>) {
    drop(context);
}

/// A verdict to fill.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_verdict_new() -> Option<Box<VerdictHandle>> {
    made(|| Ok(VerdictHandle::default()))
}

/// An index, or -1.
fn index(index: Option<usize>) -> i64 {
    index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)
}

getters! {
    /// Whether the block or the transaction is valid.
    blockmill_verdict_is_valid -> c_int, 0, verdict => verdict.is_valid.into();
    /// Core's reason.
    blockmill_verdict_reason -> *const c_char, c"".as_ptr(), verdict => verdict.reason.as_ptr();
    /// What it says of the hash.
    blockmill_verdict_kind -> c_int, 0, verdict => verdict.kind;
    /// The transaction at fault.
    blockmill_verdict_transaction -> i64, -1, verdict => index(verdict.transaction);
    /// Its input.
    blockmill_verdict_input -> i64, -1, verdict => index(verdict.input);
    /// Fees.
    blockmill_verdict_fees -> i64, 0, verdict => verdict.verified.map_or(0, |block| block.fees);
    /// Cost of signature operations.
    blockmill_verdict_sigops_cost -> u64, 0, verdict => verdict.verified.map_or(0, |block| block.sigops_cost);
    /// Weight.
    blockmill_verdict_weight -> u64, 0, verdict => verdict.verified.map_or(0, |block| block.weight);
    /// Transactions.
    blockmill_verdict_transactions -> u64, 0, verdict => verdict.verified.map_or(0, |block| block.transactions);
    /// Inputs.
    blockmill_verdict_inputs -> u64, 0, verdict => verdict.verified.map_or(0, |block| block.inputs);
}

/// Frees a verdict.
#[unsafe(no_mangle)]
pub extern "C" fn blockmill_verdict_free(verdict: Option<Box<VerdictHandle>>) {
    drop(verdict);
}

/// Validates a block.
///
/// # Safety
/// `block` leads to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_validate_block(
    validator: Option<&ValidatorHandle>,
    block: *const u8,
    length: usize,
    coins: Option<&CoinsHandle>,
    context: Option<&ContextHandle>,
    verdict: Option<&mut VerdictHandle>,
) -> c_int {
    status(|| {
        let verdict = cleared(verdict)?;
        let validator = given(validator, "the validator")?;
        let (coins, context) = (given(coins, "the coins")?, given(context, "the context")?);
        // SAFETY: the caller's duty.
        let block = unsafe { things(block, length, "the block") }?;
        validator.validate_block(block, coins, context, verdict)
    })
}

/// Runs the scripts of a transaction.
///
/// # Safety
/// `transaction` leads to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_verify_transaction(
    validator: Option<&ValidatorHandle>,
    transaction: *const u8,
    length: usize,
    coins: Option<&CoinsHandle>,
    flags: u32,
    verdict: Option<&mut VerdictHandle>,
) -> c_int {
    status(|| {
        let verdict = cleared(verdict)?;
        let (validator, coins) = (given(validator, "the validator")?, given(coins, "the coins")?);
        // SAFETY: the caller's duty.
        let transaction = unsafe { things(transaction, length, "the transaction") }?;
        validator.verify_transaction(transaction, coins, flags, verdict)
    })
}

/// Verifies signatures.
///
/// # Safety
/// `checks` leads to `count` checks of 130 bytes, `holds` to `count` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blockmill_verify_signatures(
    validator: Option<&ValidatorHandle>,
    checks: *const [u8; CHECK_LENGTH],
    count: usize,
    holds: *mut u8,
) -> c_int {
    status(|| {
        let validator = given(validator, "the validator")?;
        // SAFETY: the caller's duty.
        let checks = unsafe { things(checks, count, "the checks") }?;
        if holds.is_null() && count > 0 {
            return Err(Failed::argument("NULL in place of the room for answers"));
        }
        for (index, holds_one) in validator.verify_signatures(checks)?.into_iter().enumerate() {
            // SAFETY: there are `count` answers, which the caller has room for.
            unsafe { holds.add(index).write(holds_one.into()) };
        }
        Ok(OK)
    })
}

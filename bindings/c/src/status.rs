//! Numbers and texts of errors. Nothing panics across the border.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of the interface.
pub const INTERFACE: u32 = 0;

/// The call has done its work; a block or a transaction is valid.
pub const OK: c_int = 0;
/// The block or the transaction breaks a rule.
pub const INVALID: c_int = 1;
/// An argument cannot be used.
pub const BAD_ARGUMENT: c_int = -1;
/// A block, a transaction or undo data does not decode.
pub const DOES_NOT_DECODE: c_int = -2;
/// A relative lock needs a median time past that is not known.
pub const UNKNOWN_TIME: c_int = -3;
/// The script verifier failed.
pub const VERIFIER_FAILED: c_int = -4;
/// A fault of this library.
pub const FAULT: c_int = -5;

/// Signatures are verified by libsecp256k1, one by one.
pub const SIGNATURES_ONE_BY_ONE: c_int = 0;
/// Many at a time.
pub const SIGNATURES_LANES: c_int = 1;
/// What this library would choose by itself: many at a time.
pub const SIGNATURES_FASTEST: c_int = 2;

/// There is no refusal.
pub const KIND_NONE: c_int = 0;
/// The block is invalid.
pub const KIND_CONSENSUS: c_int = 1;
/// The header is invalid.
pub const KIND_HEADER: c_int = 2;
/// Nobody has mined the header.
pub const KIND_NO_WORK: c_int = 3;
/// Another content may be valid.
pub const KIND_MUTATED: c_int = 4;
/// The time is too far in the future.
pub const KIND_TIME_FUTURE: c_int = 5;

/// An ECDSA signature.
pub const CHECK_ECDSA: u8 = 0;
/// A signature of BIP 340.
pub const CHECK_SCHNORR: u8 = 1;
/// A commitment of BIP 341.
pub const CHECK_TWEAK: u8 = 2;

/// Why a call has not done its work: the status, and the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(pub c_int, pub String);

impl Failed {
    /// An argument cannot be used.
    pub fn argument(why: impl Into<String>) -> Self {
        Self(BAD_ARGUMENT, why.into())
    }

    /// Bytes do not decode.
    pub fn decoding(what: &str, error: impl std::fmt::Display) -> Self {
        Self(DOES_NOT_DECODE, format!("{what} does not decode: {error}"))
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A text for C, which ends at the first zero byte.
pub fn text(words: &str) -> CString {
    let words = words.split('\0').next().unwrap_or_default();
    CString::new(words).unwrap_or_default()
}

/// The text of the last error on this thread.
pub fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(CStr::as_ptr(c""))
}

/// The same, in Rust.
pub fn last_words() -> String {
    LAST.try_with(|last| last.borrow().to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Does the work of a call. A panic is an error.
fn contained<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, c_int> {
    let outcome = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failed(FAULT, "a fault of this library: it has panicked".to_owned())));
    outcome.map_err(|Failed(status, words)| {
        // A thread that ends has no text any more.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text(&words));
        status
    })
}

/// Does the work of a call that returns a status.
pub fn status(work: impl FnOnce() -> Result<c_int, Failed>) -> c_int {
    contained(work).unwrap_or_else(|status| status)
}

/// Does the work of a call that makes a handle.
pub fn made<T>(work: impl FnOnce() -> Result<T, Failed>) -> Option<Box<T>> {
    contained(work).ok().map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_errors_are_statuses() {
        assert_eq!(status(|| Ok(INVALID)), INVALID);
        assert_eq!(status(|| Err(Failed::argument("no"))), BAD_ARGUMENT);
        LAST.with(|last| assert_eq!(last.borrow().to_str(), Ok("no")));
        assert_eq!(status(|| panic!("on purpose")), FAULT);
        LAST.with(|last| assert!(last.borrow().to_str().unwrap().contains("panicked")));
        assert!(made(|| -> Result<(), Failed> { panic!("on purpose") }).is_none());
        assert!(made(|| Ok(1)).is_some());
        assert_eq!(text("one\0two").to_str(), Ok("one"));
    }
}

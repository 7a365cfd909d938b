//! The C interface of the shim (`core/shim.h`), behind safe functions. All unsafe code of the crate
//! is here.

use blockmill_rules::SpentOutput;
use secp256k1_lanes::Check;
use std::ffi::c_void;
use std::ptr::NonNull;

// `BlockmillCheck` has this layout.
const _: () = assert!(size_of::<Check>() == 130 && align_of::<Check>() == 1);

/// What a recording run is told about a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Answer {
    Invalid = 0,
    Valid = 1,
    /// The run ends at once, and says nothing.
    Stop = 2,
}

/// What a recording run may do.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Limits {
    /// Bytes hashed, copied and searched for signature hashes.
    pub(crate) hashed: u64,
    /// Bytes of a transaction, as legacy signature hashes have it, beyond which no legacy check is
    /// deferred.
    pub(crate) legacy: u64,
}

/// The keys of a script `needed key ... key keys CHECKMULTISIG` with which a signature was valid: a
/// bit for each, the first key's the lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Signers {
    pub(crate) needed: u8,
    pub(crate) keys: u8,
    pub(crate) signers: u16,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Report {
    /// Signature checks and taproot commitments.
    pub(crate) asked: u64,
    /// Bytes hashed, copied and searched for signature hashes; an estimate.
    pub(crate) hashed: u64,
    /// Bytes of the scripts and the witness.
    pub(crate) script: u64,
    /// The last multisig script; zero if there was none.
    pub(crate) signers: Signers,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Failed,
    Passed,
    /// It was stopped. Nothing is known of the script.
    Stopped,
    /// The shim met an exception. Nothing is known of the script.
    Error,
}

impl End {
    fn of(code: i32) -> Self {
        match code {
            0 => Self::Failed,
            1 => Self::Passed,
            2 => Self::Stopped,
            _ => Self::Error,
        }
    }
}

#[repr(C)]
struct Spent {
    value: i64,
    script: *const u8,
    length: usize,
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

type Ask = extern "C" fn(context: *mut c_void, check: *const Check) -> i32;
type Guess = extern "C" fn(context: *mut c_void, needed: u8, keys: u8) -> u16;

#[expect(unsafe_code, reason = "declarations of core/shim.h")]
// SAFETY: names, parameters and layouts are those of core/shim.h and core/shim.cpp.
unsafe extern "C" {
    fn blockmill_script_prepare(bytes: *const u8, length: usize, spent: *const Spent, count: usize) -> *mut Opaque;
    fn blockmill_script_free(transaction: *mut Opaque);
    fn blockmill_script_run(transaction: *const Opaque, input: usize, flags: u64, report: *mut Report) -> i32;
    fn blockmill_script_record(
        transaction: *const Opaque,
        input: usize,
        flags: u64,
        limits: *const Limits,
        ask: Ask,
        guess: Guess,
        context: *mut c_void,
        report: *mut Report,
    ) -> i32;
    fn blockmill_script_check(check: *const Check) -> i32;
}

/// Who answers in a recording run.
pub(crate) trait Answers {
    /// The answer to a check. It must not panic: that would end the process.
    fn answer(&mut self, check: &Check) -> Answer;

    /// Which keys probably sign, as in [`Signers`]; 0 for no guess. It must not panic.
    fn expected(&self, needed: u8, keys: u8) -> u16;
}

/// The shim asks about a check.
extern "C" fn ask<A: Answers>(context: *mut c_void, check: *const Check) -> i32 {
    #[expect(unsafe_code, reason = "the shim hands back the pointers of `record`")]
    // SAFETY: the shim calls this only during the call that `context` was given to, on the same
    // thread, with the pointer to an `A` that the caller has exclusively borrowed for that call.
    // `check` points to a check of the shim with one of the three kinds, and lives until this
    // returns.
    let (answers, check) = unsafe { (&mut *context.cast::<A>(), &*check) };
    answers.answer(check) as i32
}

/// The shim asks for a guess.
extern "C" fn guess<A: Answers>(context: *mut c_void, needed: u8, keys: u8) -> u16 {
    #[expect(unsafe_code, reason = "the shim hands back the pointer of `record`")]
    // SAFETY: as in `ask`.
    let answers = unsafe { &*context.cast::<A>() };
    answers.expected(needed, keys)
}

/// A transaction in Core's form, with the outputs that it spends and what the signature hashes of
/// its inputs share.
pub(crate) struct Transaction {
    pointer: NonNull<Opaque>,
    inputs: usize,
}

#[expect(unsafe_code, reason = "an object of C++ that one thread makes and another may free")]
// SAFETY: the shim keeps nothing of a thread in it, and operator delete may be called by any
// thread.
unsafe impl Send for Transaction {}

#[expect(unsafe_code, reason = "an object of C++ that many threads read")]
// SAFETY: after it is made the shim only reads it, through const references, and it has no mutable
// members: the states of hashes that Core keeps are in the checker, which each run makes for
// itself.
unsafe impl Sync for Transaction {}

impl Transaction {
    /// None if the bytes are no transaction with so many inputs.
    pub(crate) fn new(bytes: &[u8], spent: &[SpentOutput<'_>]) -> Option<Self> {
        let outputs: Vec<Spent> = spent
            .iter()
            .map(|output| Spent {
                value: output.value,
                script: output.script_pubkey.as_ptr(),
                length: output.script_pubkey.len(),
            })
            .collect();
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: all pointers and lengths are those of slices that live during the call, and the
        // shim copies what it keeps.
        let pointer = unsafe { blockmill_script_prepare(bytes.as_ptr(), bytes.len(), outputs.as_ptr(), outputs.len()) };
        Some(Self {
            pointer: NonNull::new(pointer)?,
            inputs: spent.len(),
        })
    }

    /// How many inputs it has.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// An ordinary run of an input's scripts.
    ///
    /// # Panics
    /// If there is no such input.
    pub(crate) fn run(&self, input: usize, flags: u32) -> (End, Report) {
        assert!(input < self.inputs, "input {input} of {}", self.inputs);
        let mut report = Report::default();
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: the transaction lives as long as `self`, has that input, and the report is ours.
        let end = unsafe { blockmill_script_run(self.pointer.as_ptr(), input, u64::from(flags), &mut report) };
        (End::of(end), report)
    }

    /// A recording run: `answers` says what each check comes to.
    ///
    /// # Panics
    /// If there is no such input.
    pub(crate) fn record<A: Answers>(
        &self,
        input: usize,
        flags: u32,
        limits: &Limits,
        answers: &mut A,
    ) -> (End, Report) {
        assert!(input < self.inputs, "input {input} of {}", self.inputs);
        let mut report = Report::default();
        let context: *mut A = answers;
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: the transaction lives as long as `self` and has that input. `context` is
        // exclusively borrowed during the call, and `ask` and `guess` have its type. Limits and
        // report are ours.
        let end = unsafe {
            blockmill_script_record(
                self.pointer.as_ptr(),
                input,
                u64::from(flags),
                limits,
                ask::<A>,
                guess::<A>,
                context.cast(),
                &mut report,
            )
        };
        (End::of(end), report)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: the pointer came from `blockmill_script_prepare`, and nobody else has it.
        unsafe {
            blockmill_script_free(self.pointer.as_ptr());
        }
    }
}

/// What libsecp256k1 says of a check.
pub(crate) fn is_valid(check: &Check) -> bool {
    #[expect(unsafe_code, reason = "a call of the shim")]
    // SAFETY: the shim reads the check during the call alone.
    let verdict = unsafe { blockmill_script_check(check) };
    verdict == 1
}

/// `EvalScript` and the writer of hashes alone, for tests.
#[cfg(test)]
pub(crate) mod eval {
    use super::{Answers, Ask, Guess, ask, guess};
    use std::ffi::c_void;

    #[repr(C)]
    #[derive(Default)]
    struct Raw {
        passed: i32,
        error: i32,
        stopped: i32,
        length: usize,
    }

    #[expect(unsafe_code, reason = "the declaration of core/eval.cpp")]
    // SAFETY: name, parameters and layouts are those of core/eval.cpp.
    unsafe extern "C" {
        fn blockmill_script_eval(
            script: *const u8,
            length: usize,
            version: i32,
            flags: u64,
            weight: i64,
            ask: Ask,
            guess: Guess,
            context: *mut c_void,
            stack: *mut u8,
            room: usize,
            result: *mut Raw,
        );
        fn blockmill_script_hash(
            bytes: *const u8,
            pieces: *const usize,
            count: usize,
            twice: *mut [u8; 32],
            once: *mut [u8; 32],
        );
    }

    /// Hashes of bytes that are written in pieces: SHA-256 twice, and once. Each piece is a length,
    /// and whether the writer is copied before.
    pub(crate) fn hashes(bytes: &[u8], pieces: &[(usize, bool)]) -> [[u8; 32]; 2] {
        assert_eq!(pieces.iter().map(|(length, _)| length).sum::<usize>(), bytes.len());
        let pieces: Vec<usize> = pieces
            .iter()
            .map(|&(length, copied)| 2 * length + usize::from(copied))
            .collect();
        let [mut twice, mut once] = [[0; 32]; 2];
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: all pointers are those of slices and arrays that live during the call, and the
        // lengths of the pieces come to that of the bytes.
        unsafe {
            blockmill_script_hash(bytes.as_ptr(), pieces.as_ptr(), pieces.len(), &mut twice, &mut once);
        }
        [twice, once]
    }

    /// What a run of `EvalScript` came to.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Evaluated {
        pub(crate) passed: bool,
        pub(crate) error: i32,
        pub(crate) stopped: bool,
        /// The elements with their lengths.
        pub(crate) stack: Vec<u8>,
    }

    /// Runs a script with an empty stack. `version` is that of `SigVersion`: 0, 1 or 3.
    pub(crate) fn eval<A: Answers>(script: &[u8], version: i32, flags: u32, weight: i64, answers: &mut A) -> Evaluated {
        assert!(matches!(version, 0 | 1 | 3));
        let mut stack = vec![0; 1 << 12];
        let mut raw = Raw::default();
        let context: *mut A = answers;
        #[expect(unsafe_code, reason = "a call of the shim")]
        // SAFETY: all pointers and lengths are those of slices and values that live during the
        // call, and `ask` and `guess` have the type of `context`, which is exclusively borrowed.
        unsafe {
            blockmill_script_eval(
                script.as_ptr(),
                script.len(),
                version,
                u64::from(flags),
                weight,
                ask::<A>,
                guess::<A>,
                context.cast(),
                stack.as_mut_ptr(),
                stack.len(),
                &mut raw,
            );
        }
        assert!(raw.length <= stack.len(), "a stack of {} bytes", raw.length);
        stack.truncate(raw.length);
        Evaluated {
            passed: raw.passed != 0,
            error: raw.error,
            stopped: raw.stopped != 0,
            stack,
        }
    }
}

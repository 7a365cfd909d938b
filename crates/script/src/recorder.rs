//! What answers a script in a recording run: what is known, guesses that a key did not sign, and
//! "valid" to all else, which it keeps.
//!
//! **Why a recording run is exact.** A run is a deterministic function of the answers. A recording
//! run counts only if it passes and all its "valid" answers are true. Its "invalid" answers may be
//! wrong: they are guesses, or verdicts of the lanes. That must do no harm, or `CHECKSIG NOT` could
//! be made to pass. So a recording run has the flag NULLFAIL, which fails every check with a
//! signature that is not empty and an answer that is "invalid". If it passes, then:
//!
//! - no CHECKSIG was answered "invalid", but for those that never asked;
//! - no CHECKMULTISIG with a signature that is not empty came to "invalid". In one that came to
//!   "valid" an answer may be a wrong "invalid". It looks for keys that match the signatures in
//!   order, and takes the first that does. With more valid answers it finds each match at the same
//!   key or an earlier one, looks at no key and no signature that it did not look at before, and
//!   comes to the same;
//! - in tapscript a signature that is invalid ends the script, and so does a wrong commitment.
//!
//! So the ordinary run passes too. If the first run passes and one of its "valid" answers is false,
//! there is a second run, which knows the verdicts. In all other cases the ordinary run decides.
//!
//! **Guesses.** CHECKMULTISIG tries the last key first. A first run takes keys for ones that did
//! not sign if they did not in the scripts before (`guesses.rs`). A second run takes a key for one
//! that did not sign if the signature is known to be that of another.

use crate::ffi::{Answer, Answers};
use crate::guesses::Guesses;
use secp256k1_lanes::{Check, Kind, Verdict};

/// The flag `SCRIPT_VERIFY_NULLFAIL` of Core's interpreter. No rule of blocks has it.
pub(crate) const NULLFAIL: u32 = 1 << 14;

/// Most checks that are deferred for one input in one run. An input of a legacy or version 0 script
/// has 402 at most. A tapscript may have more; then the ordinary run takes it.
pub(crate) const CHECKS_MAX: usize = 1024;

/// Checks of a first run, with their verdicts.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) checks: &'a [Check],
    /// `Valid` or `Invalid`.
    pub(crate) verdicts: &'a [Verdict],
}

impl Known<'_> {
    pub(crate) const NONE: Self = Known {
        checks: &[],
        verdicts: &[],
    };
}

/// Answers a recording run.
pub(crate) struct Recorder<'a> {
    known: Known<'a>,
    /// None in a second run.
    guesses: Option<&'a Guesses>,
    /// Where the next known check is looked for first: they mostly come in the order of the first
    /// run.
    next: usize,
    records: &'a mut Vec<Check>,
    /// Records before this run.
    before: usize,
    /// Room for records is made by this, so that a test can make it fail.
    reserve: fn(&mut Vec<Check>) -> bool,
}

/// Makes room for one more record.
pub(crate) fn reserve(records: &mut Vec<Check>) -> bool {
    records.try_reserve(1).is_ok()
}

impl<'a> Recorder<'a> {
    /// The recorder of a first run.
    pub(crate) fn first(
        guesses: &'a Guesses,
        records: &'a mut Vec<Check>,
        reserve: fn(&mut Vec<Check>) -> bool,
    ) -> Self {
        Self::new(Known::NONE, Some(guesses), records, reserve)
    }

    /// The recorder of a second run.
    pub(crate) fn second(known: Known<'a>, records: &'a mut Vec<Check>, reserve: fn(&mut Vec<Check>) -> bool) -> Self {
        Self::new(known, None, records, reserve)
    }

    fn new(
        known: Known<'a>,
        guesses: Option<&'a Guesses>,
        records: &'a mut Vec<Check>,
        reserve: fn(&mut Vec<Check>) -> bool,
    ) -> Self {
        let before = records.len();
        Self {
            known,
            guesses,
            next: 0,
            records,
            before,
            reserve,
        }
    }

    /// How many checks this run deferred.
    pub(crate) fn recorded(&self) -> usize {
        self.records.len() - self.before
    }

    /// Takes the records of this run back.
    pub(crate) fn discard(self) {
        self.records.truncate(self.before);
    }

    /// Whether the signature is known to be valid with another key.
    fn is_of_another_key(&self, check: &Check) -> bool {
        let known = self.known.checks.iter().zip(self.known.verdicts);
        known.into_iter().any(|(other, &verdict)| {
            verdict == Verdict::Valid
                && (other.r, other.s) == (check.r, check.s)
                && (other.kind, other.message) == (check.kind, check.message)
        })
    }

    fn find(&mut self, check: &Check) -> Option<Verdict> {
        let (earlier, later) = self.known.checks.split_at(self.next);
        let found = match later.iter().position(|known| known == check) {
            Some(index) => self.next + index,
            None => earlier.iter().position(|known| known == check)?,
        };
        self.next = found + 1;
        Some(self.known.verdicts[found])
    }
}

impl Answers for Recorder<'_> {
    fn answer(&mut self, check: &Check) -> Answer {
        match self.find(check) {
            Some(Verdict::Valid) => Answer::Valid,
            Some(Verdict::Invalid) => Answer::Invalid,
            Some(Verdict::CannotTell) => Answer::Stop,
            None if check.kind == Kind::Ecdsa && self.is_of_another_key(check) => Answer::Invalid,
            None => {
                if self.recorded() >= CHECKS_MAX || !(self.reserve)(self.records) {
                    return Answer::Stop;
                }
                self.records.push(*check);
                Answer::Valid
            }
        }
    }

    fn expected(&self, needed: u8, keys: u8) -> u16 {
        self.guesses.map_or(0, |guesses| guesses.expected(needed, keys))
    }
}

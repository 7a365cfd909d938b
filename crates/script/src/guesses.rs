//! Which keys of a multisig script sign, learned from the scripts that passed.
//!
//! Wallets that hold m of n keys mostly sign with the same ones, and Core tries the last key first.
//! A guess that is wrong costs a second run. No verdict depends on a guess.

use crate::ffi::Signers;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most keys that `OP_16` can say.
const KEYS_MAX: usize = 16;

/// So many wrong guesses in a row replace a guess that was always right.
const TRUST_MAX: u32 = 4;

/// A guess for each m and n.
#[derive(Debug)]
pub(crate) struct Guesses([[AtomicU32; KEYS_MAX + 1]; KEYS_MAX + 1]);

/// What is kept for an m and an n: the keys that sign, and how far that is to be trusted.
#[derive(Debug, Clone, Copy)]
struct Entry {
    signers: u16,
    trust: u32,
}

impl Entry {
    fn of(bits: u32) -> Self {
        Self {
            signers: (bits & 0xffff) as u16,
            trust: bits >> 16,
        }
    }

    fn bits(self) -> u32 {
        u32::from(self.signers) | self.trust << 16
    }

    /// Each right guess gains trust, each wrong one loses some. Without any the guess is replaced.
    fn after(self, signers: u16) -> Self {
        match (self.signers == signers, self.trust) {
            (true, trust) => Self {
                trust: (trust + 1).min(TRUST_MAX),
                ..self
            },
            (false, 0) => Self { signers, trust: 1 },
            (false, trust) => Self {
                trust: trust - 1,
                ..self
            },
        }
    }
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU32::new(0))))
    }

    fn entry(&self, needed: u8, keys: u8) -> Option<&AtomicU32> {
        self.0.get(usize::from(needed))?.get(usize::from(keys))
    }

    /// Which keys probably sign, as in [`Signers`]; 0 for no guess.
    pub(crate) fn expected(&self, needed: u8, keys: u8) -> u16 {
        self.entry(needed, keys)
            .map_or(0, |entry| Entry::of(entry.load(Relaxed)).signers)
    }

    /// A script passed with the signatures of these keys.
    pub(crate) fn learn(&self, passed: Signers) {
        // Every key signs if all must. Other numbers come from scripts with several multisigs, or
        // with the same key twice.
        if passed.needed == passed.keys || passed.signers.count_ones() != u32::from(passed.needed) {
            return;
        }
        if let Some(entry) = self.entry(passed.needed, passed.keys) {
            // Another thread may write in between: then what one of the two has learned is lost.
            let after = Entry::of(entry.load(Relaxed)).after(passed.signers);
            entry.store(after.bits(), Relaxed);
        }
    }
}

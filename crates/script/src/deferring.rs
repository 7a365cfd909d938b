//! What a verifier that defers checks has, and how it verifies them together.

use crate::balance::{Balance, LaneCosts, SIGNATURE_NS};
use crate::ffi;
use crate::guesses::Guesses;
use crate::lanes::{Lanes, Pool};
use crate::recorder::reserve;
use blockmill_rules::{SignatureCounts, VerifyError};
use secp256k1_lanes::{Backend, Check, Verdict};
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of so many checks that are valid in lanes one is verified once more by libsecp256k1.
const RECHECKED_ONE_IN: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// What a verifier that defers checks has.
pub(crate) struct Deferring {
    pub(crate) lanes: Pool,
    backend: Backend,
    /// What the lanes cost.
    pub(crate) costs: LaneCosts,
    pub(crate) balance: Balance,
    pub(crate) guesses: Guesses,
    pub(crate) rechecked_one_in: NonZeroU64,
    /// How many checks were valid in lanes so far.
    valid: AtomicU64,
    /// The words about a check that was valid in lanes and is not. From then on there are no
    /// verdicts.
    contradiction: OnceLock<String>,
    /// Makes room for records.
    pub(crate) reserve: fn(&mut Vec<Check>) -> bool,
}

#[derive(Default)]
pub(crate) struct Counts {
    lanes: AtomicU64,
    pub(crate) libsecp256k1: AtomicU64,
    pub(crate) again: AtomicU64,
    cannot_tell: AtomicU64,
    rechecked: AtomicU64,
}

/// The verdicts on checks that were verified together.
pub(crate) struct Verdicts {
    /// `Valid` or `Invalid`.
    pub(crate) verdicts: Vec<Verdict>,
    /// What one check cost.
    pub(crate) check_ns: i64,
}

impl Counts {
    pub(crate) fn get(&self) -> SignatureCounts {
        SignatureCounts {
            lanes: self.lanes.load(Relaxed),
            libsecp256k1: self.libsecp256k1.load(Relaxed),
            again: self.again.load(Relaxed),
            cannot_tell: self.cannot_tell.load(Relaxed),
            rechecked: self.rechecked.load(Relaxed),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, number: usize) {
    if number > 0 {
        counter.fetch_add(number as u64, Relaxed);
    }
}

pub(crate) fn failed(words: impl Into<String>) -> VerifyError {
    VerifyError::Verifier(words.into())
}

/// A check as text, so that it can be verified by hand.
fn in_words(check: &Check) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "{:?} key {} r {} s {} message {}",
        check.kind,
        hex(&check.key),
        hex(&check.r),
        hex(&check.s),
        hex(&check.message)
    )
}

fn verdict_of(valid: bool) -> Verdict {
    if valid { Verdict::Valid } else { Verdict::Invalid }
}

impl Deferring {
    /// The lanes that `make` makes cost as much as those of the backend.
    pub(crate) fn new(backend: Backend, make: impl Fn(Backend) -> Box<dyn Lanes> + Send + Sync + 'static) -> Self {
        Self {
            lanes: Pool::new(make),
            backend,
            costs: LaneCosts::of(backend),
            balance: Balance::new(),
            guesses: Guesses::new(),
            rechecked_one_in: RECHECKED_ONE_IN,
            valid: AtomicU64::new(0),
            contradiction: OnceLock::new(),
            reserve,
        }
    }

    /// The words about a contradiction, if there was one.
    pub(crate) fn contradicted(&self) -> Result<(), VerifyError> {
        self.contradiction.get().map_or(Ok(()), |words| Err(failed(words)))
    }

    /// Verifies checks, in lanes if there are enough of them.
    pub(crate) fn verdicts(&self, checks: &[Check], counts: &Counts) -> Result<Verdicts, VerifyError> {
        self.contradicted()?;
        if !self.costs.take(checks.len()) {
            add(&counts.libsecp256k1, checks.len());
            return Ok(Verdicts {
                verdicts: checks.iter().map(|check| verdict_of(ffi::is_valid(check))).collect(),
                check_ns: SIGNATURE_NS,
            });
        }
        let mut verdicts = self.lanes.verify(self.backend, checks);
        let rechecked = self.recheck(checks, &verdicts);
        add(&counts.rechecked, rechecked);
        // Another thread may have found one.
        self.contradicted()?;
        let mut asked = 0;
        for (check, verdict) in checks.iter().zip(&mut verdicts) {
            if *verdict == Verdict::CannotTell {
                *verdict = verdict_of(ffi::is_valid(check));
                asked += 1;
            }
        }
        add(&counts.cannot_tell, asked);
        add(&counts.lanes, checks.len() - asked);
        // At most twice the checks: no overflow.
        let by_libsecp256k1 = SIGNATURE_NS * (asked + rechecked) as i64 / checks.len() as i64;
        Ok(Verdicts {
            verdicts,
            check_ns: self.costs.check_ns(checks.len()) + by_libsecp256k1,
        })
    }

    /// Verifies one in so many of the valid checks once more, and notes a contradiction. How many
    /// it verified.
    fn recheck(&self, checks: &[Check], verdicts: &[Verdict]) -> usize {
        let valid = || (0..checks.len()).filter(|&index| verdicts[index] == Verdict::Valid);
        let before = self.valid.fetch_add(valid().count() as u64, Relaxed);
        let mut rechecked = 0;
        for (number, index) in (before..).zip(valid()) {
            if !number.is_multiple_of(self.rechecked_one_in.get()) {
                continue;
            }
            rechecked += 1;
            if !ffi::is_valid(&checks[index]) {
                let words = format!(
                    "the lanes call a signature valid that libsecp256k1 refuses: {}",
                    in_words(&checks[index])
                );
                // The first words stay.
                let _ = self.contradiction.set(words);
            }
        }
        rechecked
    }
}

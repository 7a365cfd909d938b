//! How much work may be deferred in vain.
//!
//! A script can be written so that a run with all checks "valid" costs much more than its ordinary
//! run, and is in vain. Bounds on each input are not enough: there may be many inputs. So there is
//! an account, in nanoseconds of a model that knows no clock. For each script that is decided it
//! gains what the ordinary run costs and a little more, and loses what was really done. While it is
//! below zero, scripts are run ordinarily at once, which gains a little. The account is capped. So
//! all work is at most 1.15 times that of ordinary runs, and the cap.
//!
//! Work that is far more than honest scripts make is taken from the account when it is deferred,
//! and given back when it is decided: many hostile scripts may be deferred before the first is
//! decided.
//!
//! No verdict depends on the account.

use crate::ffi::Report;
use secp256k1_lanes::Backend;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// One verification by libsecp256k1.
pub(crate) const SIGNATURE_NS: i64 = 35_000;
/// A run without its checks.
const RUN_NS: i64 = 1_500;
/// All but the bytes of a signature hash, and the record.
const CHECK_NS: i64 = 1_000;
/// A byte that is hashed.
const HASHED_NS: i64 = 1;
/// A transaction that is made ready again, and a byte of it.
const PREPARE_NS: i64 = 1_500;
const PREPARE_BYTE_NS: i64 = 3;
/// A byte of a script in a run that took a way which the ordinary run does not: about what a script
/// of repeated hashes takes.
const SCRIPT_BYTE_NS: i64 = 25;
/// Bytes of a legacy or version 0 script at most. A tapscript in which an answer is false fails,
/// and its block with it.
const SCRIPT_BYTES_MAX: u64 = 10_000;
/// Bytes hashed for each check that no honest script needs to answer for.
const HASHED_FREE: i64 = 16_000;
/// Checks of an input that no honest script needs to answer for.
const CHECKS_FREE: i64 = 16;

/// Most that the account holds.
pub(crate) const CAP_NS: i64 = 25_000_000;

/// A count as nanoseconds, without overflow.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(1 << 40)
}

/// What a run costs without the verification of its checks.
fn run_ns(report: &Report) -> i64 {
    RUN_NS + count(report.asked) * CHECK_NS + count(report.hashed) * HASHED_NS
}

/// What an ordinary run costs.
pub(crate) fn ordinary_ns(report: &Report) -> i64 {
    run_ns(report) + count(report.asked) * SIGNATURE_NS
}

/// What verifications in lanes cost, by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneCosts {
    /// One verification among many.
    full_ns: i64,
    /// Checks that cost so little each. Fewer cost as much as these together: lanes are empty, or
    /// few share an inversion.
    full: i64,
}

impl LaneCosts {
    /// Beside [`SIGNATURE_NS`], from ratios to libsecp256k1 that were measured (the docs of
    /// [`Backend`]), the least of them.
    pub(crate) const fn of(backend: Backend) -> Self {
        let (full_ns, full) = match backend {
            Backend::Avx512 => (6_000, 16),
            Backend::AvxIfma => (10_000, 16),
            Backend::Avx512F => (12_000, 16),
            Backend::Avx2 => (16_000, 16),
            // Not known beforehand: `auto` keeps them only where it has measured that they are
            // faster.
            Backend::Neon => (SIGNATURE_NS, 4),
            Backend::Portable => (32_500, 8),
        };
        Self { full_ns, full }
    }

    /// What one of `together` checks costs that are verified at once.
    pub(crate) fn check_ns(self, together: usize) -> i64 {
        let together = count(together as u64).max(1);
        let lanes = (together + self.full - 1) / self.full * self.full;
        self.full_ns * lanes / together
    }

    /// Whether lanes take a group of `together` checks: where they are faster than libsecp256k1.
    /// Lanes that may be slower take what fills them.
    pub(crate) fn take(self, together: usize) -> bool {
        self.check_ns(together) < SIGNATURE_NS || count(together as u64) >= self.full
    }
}

/// What was done for a script that was deferred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// All that was done.
    pub(crate) spent: i64,
    /// What an ordinary run costs that goes the way of the last run.
    pub(crate) ordinary: i64,
    /// What was taken from the account when it was deferred.
    taken: i64,
    /// What the ways cost that the ordinary run may not have gone.
    astray: i64,
}

impl Cost {
    /// One more recording run.
    pub(crate) fn run(&mut self, report: &Report) {
        self.spent += run_ns(report);
        self.ordinary = ordinary_ns(report);
        self.astray += count(report.script.min(SCRIPT_BYTES_MAX)) * SCRIPT_BYTE_NS;
    }

    /// Its transaction was made ready again.
    pub(crate) fn prepared(&mut self, bytes: usize) {
        self.spent += PREPARE_NS + count(bytes as u64) * PREPARE_BYTE_NS;
    }

    /// The checks showed that its run was not the ordinary one.
    pub(crate) fn went_astray(&mut self) {
        self.spent += std::mem::take(&mut self.astray);
    }

    /// The ordinary run decided.
    pub(crate) fn ended_ordinarily(&mut self, report: &Report) {
        self.ordinary = ordinary_ns(report);
        self.spent += self.ordinary;
    }

    /// What a decided script changes in the account.
    pub(crate) fn change(&self) -> i64 {
        self.taken + self.ordinary + self.ordinary / 100 * 15 - self.spent
    }
}

/// The account.
#[derive(Debug)]
pub(crate) struct Balance {
    nanoseconds: AtomicI64,
}

impl Balance {
    pub(crate) fn new() -> Self {
        Self {
            nanoseconds: AtomicI64::new(CAP_NS),
        }
    }

    /// What is taken for a run that is deferred with `checks` checks.
    fn excess(report: &Report, checks: usize, lanes: LaneCosts) -> i64 {
        let checks = count(checks as u64);
        let hashed = (count(report.hashed) - checks * HASHED_FREE).max(0) * HASHED_NS;
        hashed + (checks - CHECKS_FREE).max(0) * lanes.full_ns
    }

    /// Whether work may be deferred.
    pub(crate) fn allows(&self) -> bool {
        self.nanoseconds.load(Relaxed) >= 0
    }

    /// Takes what is out of the ordinary in a run that was deferred.
    pub(crate) fn defer(&self, cost: &mut Cost, report: &Report, checks: usize, lanes: LaneCosts) {
        let excess = Self::excess(report, checks, lanes);
        if excess > 0 {
            cost.taken += excess;
            self.nanoseconds.fetch_sub(excess, Relaxed);
        }
    }

    /// Adds the change of scripts that are decided.
    pub(crate) fn add(&self, change: i64) {
        let _ = self.nanoseconds.fetch_update(Relaxed, Relaxed, |balance| {
            Some(balance.saturating_add(change).min(CAP_NS))
        });
    }

    /// An ordinary run, because the account is below zero.
    pub(crate) fn ordinary(&self, report: &Report) {
        self.add(ordinary_ns(report) / 100 * 15);
    }

    #[cfg(test)]
    pub(crate) fn nanoseconds(&self) -> i64 {
        self.nanoseconds.load(Relaxed)
    }
}

//! Which way of verifying signatures is the fastest on this machine: measured, not looked up.
//!
//! The first full batch of valid checks of a process is verified by every way in turns, and the
//! fastest one is taken from then on. It costs a few milliseconds, once. What is measured is the
//! CPU time of the thread, and of each way its best turn counts: neither other work nor a slow
//! start makes a fast way look slow.

use crate::ffi;
use rustix::time::{ClockId, clock_gettime};
use secp256k1_lanes::{Backend, Check, Verifier};
use std::hint::black_box;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// A way of verifying signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// In the lanes of this backend.
    Lanes(Backend),
    /// By libsecp256k1, one by one.
    OneByOne,
}

impl Way {
    /// The name of the backend, or `libsecp256k1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lanes(backend) => backend.name(),
            Self::OneByOne => "libsecp256k1",
        }
    }
}

/// How fast a way was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// The way.
    pub way: Way,
    /// CPU time of one check in a batch.
    pub check: Duration,
}

/// How fast the ways were, the fastest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speeds(Vec<Speed>);

/// Checks from which ways are measured.
pub(crate) const FULL: usize = 128;
/// Turns of each way.
const TURNS: usize = 3;
/// Checks of a turn in lanes: enough to share their inversions.
const TURN: usize = 64;
/// Checks of a turn by libsecp256k1, which takes them one by one.
const TURN_ONE_BY_ONE: usize = 12;

impl Speeds {
    /// All ways, the fastest first.
    pub fn ways(&self) -> &[Speed] {
        &self.0
    }

    /// The fastest way.
    pub fn fastest(&self) -> Way {
        self.0[0].way
    }

    /// What this process has measured. None: no full batch has come yet, or there is nothing to
    /// choose.
    pub fn measured() -> Option<&'static Self> {
        MEASURED.get()
    }

    /// Measures with these checks for the process, unless it is done or another thread is at it.
    pub(crate) fn measure_once(checks: &[Check]) {
        static MEASURING: Mutex<()> = Mutex::new(());
        // The others go on: what they would wait for takes longer than their batches.
        if let Ok(_guard) = MEASURING.try_lock() {
            MEASURED.get_or_init(|| Self::measure(checks));
        }
    }

    /// Tries every way that may be the fastest with some of the checks, of which there are at least
    /// [`FULL`].
    pub(crate) fn measure(checks: &[Check]) -> Self {
        let mut lanes: Vec<(Backend, Verifier, Duration)> = Backend::ALL
            .into_iter()
            .filter(|&backend| backend != Backend::Portable && backend.is_available())
            .map(|backend| (backend, Verifier::with_backend(backend), Duration::MAX))
            .collect();
        let mut one_by_one = Duration::MAX;
        let mut verdicts = Vec::new();
        for (_, verifier, _) in &mut lanes {
            // Gets the memory and the tables.
            verifier.verify(&checks[..TURN / 2], &mut verdicts);
        }
        for turn in 0..TURNS {
            for (_, verifier, best) in &mut lanes {
                let checks = &checks[turn * (FULL - TURN) / (TURNS - 1)..][..TURN];
                *best = timed(TURN, || verifier.verify(checks, &mut verdicts)).min(*best);
            }
            let checks = &checks[turn * TURN_ONE_BY_ONE..][..TURN_ONE_BY_ONE];
            let time = timed(TURN_ONE_BY_ONE, || {
                for check in checks {
                    black_box(ffi::is_valid(check));
                }
            });
            one_by_one = time.min(one_by_one);
        }
        let mut speeds: Vec<Speed> = lanes
            .iter()
            .map(|&(backend, _, check)| Speed {
                way: Way::Lanes(backend),
                check,
            })
            .collect();
        speeds.push(Speed {
            way: Way::OneByOne,
            check: one_by_one,
        });
        speeds.sort_by_key(|speed| speed.check);
        Self(speeds)
    }
}

static MEASURED: OnceLock<Speeds> = OnceLock::new();

/// The CPU time of this thread for each of `checks` checks.
fn timed(checks: usize, work: impl FnOnce()) -> Duration {
    let before = thread_time();
    work();
    thread_time().saturating_sub(before) / checks as u32
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock begins with the thread, and is never negative.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

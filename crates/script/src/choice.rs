//! Which way of verifying signatures is the fastest on this machine: measured, not looked up.
//!
//! The first full batch of valid checks of a process is verified by every way in turns, and the
//! fastest one is taken from then on. It costs a few milliseconds, once.

use crate::ffi;
use blockmill_fastest::{Contender, Measured, Speeds};
use secp256k1_lanes::{Backend, Check, Verifier};
use std::hint::black_box;

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

/// Checks from which ways are measured.
pub(crate) const FULL: usize = 128;
/// Turns of each way.
pub(crate) const TURNS: usize = 3;
/// Checks of a turn in lanes: enough to share their inversions. Fewer where lanes are few and slow.
const TURN: usize = 64;
const TURN_OF_FEW_LANES: usize = 24;
/// Checks of a turn by libsecp256k1, which takes them one by one.
const TURN_ONE_BY_ONE: usize = 12;

static MEASURED: Measured<Way> = Measured::new();

/// What this process has measured: the time of one check in a batch, by each way. None: no full
/// batch has come yet, or there is nothing to choose.
pub fn measured() -> Option<&'static Speeds<Way>> {
    MEASURED.get()
}

/// Measures with these checks, of which there are at least [`FULL`], for the process.
pub(crate) fn measure_once(checks: &[Check]) {
    MEASURED.measure_once(TURNS, || ways(checks));
}

/// Every way that may be the fastest, with some of the checks for each turn.
pub(crate) fn ways(checks: &[Check]) -> Vec<Contender<'_, Way>> {
    let available = || Backend::ALL.into_iter().filter(|backend| backend.is_available());
    let vectors_are_fast = available().any(Backend::is_fast);
    let mut ways: Vec<_> = available()
        .filter(|&backend| backend != Backend::Portable || !vectors_are_fast)
        .map(|backend| in_lanes(backend, checks))
        .collect();
    ways.push(Contender::new(Way::OneByOne, TURN_ONE_BY_ONE as u32, |turn| {
        for check in &checks[turn * TURN_ONE_BY_ONE..][..TURN_ONE_BY_ONE] {
            black_box(ffi::is_valid(check));
        }
    }));
    ways
}

fn in_lanes(backend: Backend, checks: &[Check]) -> Contender<'_, Way> {
    let mut verifier = Verifier::with_backend(backend);
    let mut verdicts = Vec::new();
    let together = if backend.is_fast() { TURN } else { TURN_OF_FEW_LANES };
    // Gets the memory and the tables.
    verifier.verify(&checks[..together / 2], &mut verdicts);
    Contender::new(Way::Lanes(backend), together as u32, move |turn| {
        let checks = &checks[turn * (FULL - together) / (TURNS - 1)..][..together];
        verifier.verify(checks, &mut verdicts);
    })
}

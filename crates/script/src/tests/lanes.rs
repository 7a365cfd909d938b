//! Lanes whose verdicts are libsecp256k1's, and lanes that lie.

use super::random::Random;
use crate::lanes::Lanes;
use crate::{CoreVerifier, ffi};
use secp256k1_lanes::{Check, Verdict};

/// Which verdicts are not the true ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Never,
    /// "Cannot tell", of one check in three.
    CannotTell,
    /// "Invalid", of one valid check in three.
    Invalid,
    /// "Invalid", of all valid checks.
    AlwaysInvalid,
    /// "Valid", of all invalid checks.
    Valid,
    /// No verdicts at all.
    Nothing,
}

/// A verifier whose lanes tell this lie.
pub(crate) fn verifier_with(lie: Lie) -> CoreVerifier {
    CoreVerifier::with_lanes(move || TestLanes::boxed(lie))
}

/// A verifier whose lanes are right.
pub(crate) fn honest_verifier() -> CoreVerifier {
    verifier_with(Lie::Never)
}

pub(super) struct TestLanes {
    lie: Lie,
    random: Random,
}

impl TestLanes {
    pub(super) fn boxed(lie: Lie) -> Box<dyn Lanes> {
        Box::new(Self { lie, random: Random(1) })
    }

    fn verdict(&mut self, check: &Check) -> Verdict {
        let valid = ffi::is_valid(check);
        match self.lie {
            Lie::CannotTell if self.random.one_in(3) => Verdict::CannotTell,
            Lie::Invalid if self.random.one_in(3) => Verdict::Invalid,
            Lie::AlwaysInvalid => Verdict::Invalid,
            Lie::Valid => Verdict::Valid,
            _ if valid => Verdict::Valid,
            _ => Verdict::Invalid,
        }
    }
}

impl Lanes for TestLanes {
    fn verify(&mut self, checks: &[Check], verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        if self.lie != Lie::Nothing {
            verdicts.extend(checks.iter().map(|check| self.verdict(check)));
        }
    }
}

//! Verdicts on checks alone and among others.

use super::{Points, SEED};
use crate::common::known::{Expected, Known, Tables};
use crate::common::model::{Road, Schedule};
use crate::common::{Rng, has_small_r, is_degenerate, parts, reference, sum_is_special};
use secp256k1::{Secp256k1, VerifyOnly};
use secp256k1_lanes::{BATCH, Backend, Check, Kind, Verdict, Verifier};
use std::collections::HashMap;

/// Why lanes may leave a check to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    SmallR,
    /// u1 G and u2 P have no sum that the formulas know, or one of the numbers is 0.
    Sum,
    /// Another step of the schedule adds equal or opposite points.
    Special,
}

fn cause(check: &Check, road: Road, points: &Points) -> Option<Cause> {
    if has_small_r(check) {
        return Some(Cause::SmallR);
    }
    if is_degenerate(check) || sum_is_special(check) {
        return Some(Cause::Sum);
    }
    let (u1, u2, point) = parts(check)?;
    let d = points.logs.get(&point.serialize())?;
    Schedule::may_be_special(road, u1, u2, *d).then_some(Cause::Special)
}

/// Verdicts beside those of libsecp256k1, and why lanes have none.
pub(super) struct Comparison {
    secp: Secp256k1<VerifyOnly>,
    points: Points,
    counts: HashMap<(Kind, Verdict, Option<Cause>), usize>,
}

impl Comparison {
    pub(super) fn new(points: Points) -> Self {
        Self {
            secp: Secp256k1::verification_only(),
            points,
            counts: HashMap::new(),
        }
    }

    /// Compares a verdict with that of libsecp256k1, of a check that was computed in this way. Says
    /// why there is none.
    pub(super) fn compare(&self, backend: Backend, check: &Check, road: Road, verdict: Verdict) -> Option<Cause> {
        let holds = reference(&self.secp, check);
        let mut why = None;
        match verdict {
            Verdict::Valid => assert!(holds, "{backend:?}: {check:?}"),
            Verdict::Invalid => assert!(!holds, "{backend:?}: {check:?}"),
            Verdict::CannotTell => {
                why = cause(check, road, &self.points);
                assert!(
                    why.is_some(),
                    "{backend:?} leaves this to others for no known cause: {check:?}"
                );
            }
        }
        why
    }

    /// Compares a verdict, and counts it.
    fn count(&mut self, backend: Backend, check: &Check, verdict: Verdict) {
        let why = self.compare(backend, check, Road::Plain, verdict);
        *self.counts.entry((check.kind, verdict, why)).or_default() += 1;
    }

    /// Prints and clears the counts. Returns the number of special cases, and of all.
    pub(super) fn print(&mut self, title: &str) -> [usize; 2] {
        let is_special = |(_, _, cause): &(_, _, Option<Cause>)| *cause == Some(Cause::Special);
        let special = self
            .counts
            .iter()
            .filter(|(what, _)| is_special(what))
            .map(|(_, count)| count)
            .sum();
        let all = self.counts.values().sum();
        let mut lines: Vec<String> = self
            .counts
            .drain()
            .map(|(what, count)| format!("{what:?}: {count}"))
            .collect();
        lines.sort();
        eprintln!("{title}, seed {SEED}: {}", lines.join(", "));
        [special, all]
    }
}

/// Verdicts of each check alone. Those of batches must be the same.
pub(super) fn alone(backend: Backend, checks: &[Check], comparison: &mut Comparison) -> Vec<Verdict> {
    let mut verifier = Verifier::with_backend(backend);
    assert_eq!(verifier.backend(), backend);
    let mut verdicts = Vec::new();
    let mut one = |check: &Check| {
        verifier.verify(&[*check], &mut verdicts);
        let [verdict] = verdicts[..] else {
            panic!("{} verdicts", verdicts.len())
        };
        comparison.count(backend, check, verdict);
        verdict
    };
    checks.iter().map(&mut one).collect()
}

/// Puts `together` of the checks at a time among random ones. All verdicts must be what they are
/// alone, but for what the comb takes: it has special cases of its own. The lanes must leave none
/// of the random ones to others.
pub(super) fn among_others(
    backend: Backend,
    checks: &[Check],
    verdicts: &[Verdict],
    together: usize,
    comparison: &Comparison,
) {
    let mut dice = Rng(SEED);
    let tables = Tables::new(&mut dice);
    let mut verifier = Verifier::with_backend(backend);
    let mut results = Vec::new();
    for (checks, verdicts) in checks.chunks(together).zip(verdicts.chunks(together)) {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Known { check, expected, .. } = tables.known(&mut dice);
            match expected {
                Expected::Valid => batch.push((check, Verdict::Valid)),
                Expected::Invalid => batch.push((check, Verdict::Invalid)),
                Expected::SmallR | Expected::Special => {}
            }
        }
        // One in each stretch of the batch, so that no check is replaced twice.
        let stretch = BATCH / together;
        for (number, known) in checks.iter().copied().zip(verdicts.iter().copied()).enumerate() {
            batch[number * stretch + dice.below(stretch)] = known;
        }
        let all: Vec<Check> = batch.iter().map(|(check, _)| *check).collect();
        verifier.verify(&all, &mut results);
        assert_eq!(results.len(), batch.len());
        for (index, ((check, expected), verdict)) in batch.iter().zip(&results).enumerate() {
            let is_doubtful = [verdict, expected].contains(&&Verdict::CannotTell);
            if is_doubtful && verdict != expected {
                comparison.compare(backend, check, Road::Comb, *verdict);
            } else {
                assert_eq!(verdict, expected, "{backend:?}, index {index}: {check:?}");
            }
        }
    }
}

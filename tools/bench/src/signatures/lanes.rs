//! Lanes alone, by kind of check and by batch size, beside libsecp256k1.

use super::Plan;
use super::checks::{KINDS, half_broken, is_valid, valid};
use super::rows::{LANES, Row};
use super::sides::{Bundled, OneByOne};
use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use secp256k1_lanes::{Check, Verdict, Verifier};

/// Sizes of batches.
pub(super) const BATCHES: [usize; 6] = [8, 16, 32, 64, 256, 1024];

/// Passes of the lanes over all checks in a run, so that it takes about as long as a run of the
/// peer.
const PASSES: usize = 6;

/// The rows of all kinds and batches.
pub(super) fn rows(plan: Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let (mut verifier, peer) = (Verifier::new(), Bundled::new());
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        let checks = valid(kind, plan.checks);
        let broken = half_broken(checks.clone());
        let mut peer_runs = Vec::new();
        let mut lanes_runs = vec![Vec::new(); BATCHES.len()];
        let mut cannot_tell = [0; BATCHES.len()];
        for _ in 0..plan.lanes_runs {
            peer_runs.push(ask_one_by_one(&peer, name, &checks)?);
            for ((batch, runs), cannot_tell) in BATCHES.into_iter().zip(&mut lanes_runs).zip(&mut cannot_tell) {
                let (elapsed, unknown) = ask_lanes(&mut verifier, name, &checks, batch)?;
                runs.push(elapsed);
                *cannot_tell += unknown;
            }
        }
        for batch in BATCHES {
            check_broken(&mut verifier, name, &broken, batch)?;
        }
        for ((batch, runs), cannot_tell) in BATCHES.into_iter().zip(&lanes_runs).zip(cannot_tell) {
            let row = Row::timed(LANES, name, (checks.len() * PASSES) as u64, runs);
            let mut row = row.beside(checks.len() as u64, &peer_runs);
            if cannot_tell > 0 {
                // Checks that the lanes left open are no fair comparison.
                row = row.without_ratio();
            }
            row.batch = Some(batch);
            row.cannot_tell = Some(cannot_tell);
            rows.push(row);
        }
        progress(&format!(
            "lanes, {name}: {} runs of {} checks",
            plan.lanes_runs,
            checks.len()
        ));
    }
    Ok(rows)
}

/// Asks libsecp256k1 about checks that are all valid.
fn ask_one_by_one(peer: &impl OneByOne, name: &str, checks: &[Check]) -> Result<Elapsed, BenchError> {
    let clock = Stopwatch::start();
    let valid = checks.iter().filter(|check| peer.is_valid(check)).count();
    let elapsed = clock.elapsed();
    if valid != checks.len() {
        return Err(wrong("libsecp256k1", name, valid, checks.len()));
    }
    Ok(elapsed)
}

/// Asks the lanes about checks that are all valid, several times. Also returns the number of checks
/// that they left open.
fn ask_lanes(
    verifier: &mut Verifier,
    name: &str,
    checks: &[Check],
    batch: usize,
) -> Result<(Elapsed, u64), BenchError> {
    let (mut verdicts, mut invalid, mut unknown) = (Vec::with_capacity(batch), 0, 0);
    let clock = Stopwatch::start();
    for _ in 0..PASSES {
        for checks in checks.chunks(batch) {
            verifier.verify(checks, &mut verdicts);
            invalid += verdicts.iter().filter(|&&verdict| verdict == Verdict::Invalid).count();
            unknown += verdicts
                .iter()
                .filter(|&&verdict| verdict == Verdict::CannotTell)
                .count();
        }
    }
    let elapsed = clock.elapsed();
    if invalid > 0 {
        return Err(wrong(
            "lanes",
            name,
            checks.len() * PASSES - invalid,
            checks.len() * PASSES,
        ));
    }
    Ok((elapsed, unknown as u64))
}

/// Asks the lanes about checks, every second one broken.
fn check_broken(verifier: &mut Verifier, name: &str, checks: &[Check], batch: usize) -> Result<(), BenchError> {
    let mut verdicts = Vec::new();
    for (index, chunk) in checks.chunks(batch).enumerate() {
        verifier.verify(chunk, &mut verdicts);
        for (number, verdict) in (index * batch..).zip(&verdicts) {
            let expected = if is_valid(number) {
                Verdict::Valid
            } else {
                Verdict::Invalid
            };
            if *verdict != expected && *verdict != Verdict::CannotTell {
                return Err(BenchError::Mismatch {
                    run: format!("lanes, {name}, batches of {batch}, check {number}"),
                    what: "verdict",
                    found: format!("{verdict:?}"),
                    wanted: format!("{expected:?}"),
                });
            }
        }
    }
    Ok(())
}

fn wrong(who: &str, name: &str, found: usize, wanted: usize) -> BenchError {
    BenchError::Mismatch {
        run: format!("{who}, {name}"),
        what: "number of valid checks",
        found: found.to_string(),
        wanted: wanted.to_string(),
    }
}

//! Lanes alone, by kind of check and by batch size, beside libsecp256k1; and hashes.

use super::checks::{KINDS, half_broken, is_valid, valid};
use super::plan::{HASHES, LANES, Plan};
use blockmill_chaingen::bitcoin::key::{Parity, Secp256k1};
use blockmill_chaingen::bitcoin::secp256k1::{Message, PublicKey, Scalar, VerifyOnly, XOnlyPublicKey, ecdsa, schnorr};
use blockmill_harness::{Clock, Contender, Failure, Progress, Row, Run, Turns, same, timed};
use secp256k1_lanes::{Check, Kind, Verdict, Verifier};
use sha2::{Digest, Sha256};
use sha256_lanes::Hasher;
use std::cell::RefCell;

/// The peer: the copy that the `secp256k1` crate brings.
const PEER: &str = "libsecp256k1";

/// Sizes of batches.
const BATCHES: [usize; 6] = [8, 16, 32, 64, 256, 1024];

/// Passes of the lanes over all checks in a run, so that it takes about as long as a run of the
/// peer.
const PASSES: usize = 6;

/// libsecp256k1, which verifies one check at a time.
struct Bundled(Secp256k1<VerifyOnly>);

impl Bundled {
    fn new() -> Self {
        Self(Secp256k1::verification_only())
    }

    /// Whether a check holds. None: no.
    fn holds(&self, check: &Check) -> Option<()> {
        let signature = [check.r, check.s].concat();
        let x_only = || XOnlyPublicKey::from_slice(&check.key[1..]).ok();
        let message = Message::from_digest(check.message);
        match check.kind {
            Kind::Ecdsa => {
                let key = PublicKey::from_slice(&check.key).ok()?;
                let mut signature = ecdsa::Signature::from_compact(&signature).ok()?;
                signature.normalize_s();
                self.0.verify_ecdsa(&message, &signature, &key).ok()
            }
            Kind::Schnorr => {
                let (key, signature) = (x_only()?, schnorr::Signature::from_slice(&signature).ok()?);
                self.0.verify_schnorr(&signature, &message, &key).ok()
            }
            Kind::Tweak => {
                let (key, tweaked) = (x_only()?, XOnlyPublicKey::from_slice(&check.r).ok()?);
                let tweak = Scalar::from_be_bytes(check.s).ok()?;
                let parity = Parity::from_u8(check.message[0]).ok()?;
                key.tweak_add_check(&self.0, &tweaked, parity, tweak).then_some(())
            }
        }
    }

    /// Asks about checks that are all valid.
    fn run(&self, name: &str, checks: &[Check]) -> Result<Run, Failure> {
        let count = checks.len();
        let (valid, run) = timed(count as u64, || {
            checks.iter().filter(|check| self.holds(check).is_some()).count()
        });
        same(&format!("{PEER}, {name}"), "number of valid checks", valid, count)?;
        Ok(run)
    }
}

/// The rows of all kinds and batches.
pub(super) fn rows(plan: Plan, progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    let (verifier, peer) = (RefCell::new(Verifier::new()), Bundled::new());
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        let checks = valid(kind, plan.checks);
        let row = |who: &str| Row::new(LANES).with("what", name).with("who", who);
        let mut contenders = vec![Contender::new(PEER, row(PEER), || peer.run(name, &checks))];
        for batch in BATCHES {
            let (verifier, checks) = (&verifier, &checks);
            let run = move || ask_lanes(&mut verifier.borrow_mut(), name, checks, batch);
            let row = row("lanes").with("batch", batch);
            contenders.push(Contender::new(&batch.to_string(), row, run).beside_peer(PEER));
        }
        let turns = Turns::new(plan.lanes_runs).by(Clock::Cpu);
        rows.extend(turns.take(&format!("lanes, {name}"), contenders, progress)?);
        // Not timed: every second check is wrong, and lanes may never call it valid.
        let broken = half_broken(checks.clone());
        for batch in BATCHES {
            check_broken(&mut verifier.borrow_mut(), name, &broken, batch)?;
        }
    }
    Ok(rows)
}

/// Asks the lanes about checks that are all valid, several times. The figure counts the checks that
/// they left open.
fn ask_lanes(verifier: &mut Verifier, name: &str, checks: &[Check], batch: usize) -> Result<Run, Failure> {
    let (mut verdicts, mut invalid, mut unknown) = (Vec::with_capacity(batch), 0, 0);
    let ((), run) = timed((checks.len() * PASSES) as u64, || {
        for checks in (0..PASSES).flat_map(|_| checks.chunks(batch)) {
            verifier.verify(checks, &mut verdicts);
            let count = |wanted| verdicts.iter().filter(|&&verdict| verdict == wanted).count();
            invalid += count(Verdict::Invalid);
            unknown += count(Verdict::CannotTell);
        }
    });
    same(&format!("lanes, {name}"), "number of invalid checks", invalid, 0)?;
    Ok(run.with("cannot_tell", unknown as f64))
}

/// Asks the lanes about checks, every second one broken.
fn check_broken(verifier: &mut Verifier, name: &str, checks: &[Check], batch: usize) -> Result<(), Failure> {
    let mut verdicts = Vec::new();
    for (index, chunk) in checks.chunks(batch).enumerate() {
        verifier.verify(chunk, &mut verdicts);
        for (number, verdict) in (index * batch..).zip(&verdicts) {
            let expected = if is_valid(number) {
                Verdict::Valid
            } else {
                Verdict::Invalid
            };
            // A check that is left open goes to libsecp256k1, which is slow and not wrong.
            if *verdict != Verdict::CannotTell {
                let run = format!("lanes, {name}, batches of {batch}, check {number}");
                same(&run, "verdict", *verdict, expected)?;
            }
        }
    }
    Ok(())
}

/// Double SHA-256 of a whole merkle tree, beside the crate `sha2`.
pub(super) fn hash_rows(plan: Plan, progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    let leaves: Vec<[u8; 32]> = (0..(plan.checks * 16).next_power_of_two())
        .map(|number| super::checks::bytes("leaf", number))
        .collect();
    let wanted = RefCell::new(None);
    let check = |root: Vec<[u8; 32]>| {
        let mut wanted = wanted.borrow_mut();
        same("hashes", "merkle root", &root, &*wanted.get_or_insert(root.clone()))
    };
    let row = |who: &str| {
        Row::new(HASHES)
            .with("what", "a pair of a merkle tree")
            .with("who", who)
    };
    let pairs = leaves.len() as u64 - 1;
    let one_by_one = || {
        let (root, run) = timed(pairs, || {
            let mut nodes = leaves.clone();
            while nodes.len() > 1 {
                let pairs = nodes
                    .chunks(2)
                    .map(|pair| Sha256::digest(Sha256::digest(pair.concat())).into());
                nodes = pairs.collect();
            }
            nodes
        });
        check(root).map(|()| run)
    };
    let hasher = Hasher::new();
    let in_lanes = || {
        let (root, run) = timed(pairs, || {
            let mut nodes = leaves.clone();
            while nodes.len() > 1 {
                hasher.halve(&mut nodes);
            }
            nodes
        });
        check(root).map(|()| run)
    };
    let contenders = vec![
        Contender::new("sha2", row("sha2"), one_by_one),
        Contender::new("lanes", row("lanes"), in_lanes).beside_peer("sha2"),
    ];
    Turns::new(plan.lanes_runs)
        .by(Clock::Cpu)
        .take("hashes", contenders, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libsecp256k1_says_which_are_valid() {
        let peer = Bundled::new();
        for (kind, name) in KINDS {
            let checks = valid(kind, 64);
            assert!(checks.iter().all(|check| peer.holds(check).is_some()), "{name}");
            for (number, check) in half_broken(checks).iter().enumerate() {
                assert_eq!(peer.holds(check).is_some(), is_valid(number), "{name} {number}");
            }
        }
    }
}

//! How fast checks are verified, beside libsecp256k1: `cargo run --release --example
//! lanes_beside_libsecp256k1`. It takes the first backend that this processor has, the one that is
//! named, or `all`.

#![allow(clippy::print_stdout, reason = "the numbers are the output")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Rng, reference, valid_of};
use secp256k1::Secp256k1;
use secp256k1_lanes::{Backend, Check, Kind, Verdict, Verifier};
use std::time::Instant;

fn main() {
    let secp = Secp256k1::verification_only();
    let asked = std::env::args().nth(1);
    let is_asked = |backend: &Backend| match &asked {
        Some(name) => name == "all" || *name == format!("{backend:?}"),
        None => true,
    };
    let available = Backend::ALL.into_iter().filter(|backend| backend.is_available());
    let several = if asked.is_some() { Backend::ALL.len() } else { 1 };
    for backend in available.filter(is_asked).take(several) {
        let mut verifier = Verifier::with_backend(backend);
        for kind in [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak] {
            for (batch, of_a_key) in [(8, 1), (32, 1), (256, 1), (256, 4), (256, 32)] {
                let mut dice = Rng(7);
                let mut checks: Vec<Check> = Vec::new();
                while checks.len() < 1024 {
                    let secret = dice.secret();
                    checks.extend((0..of_a_key).map(|_| valid_of(kind, &secret, &mut dice)));
                }
                let mut verdicts = Vec::new();
                let mut ratios = Vec::new();
                // Turns of 256 checks: the least time of each side is that of a processor left
                // alone.
                let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
                for round in 0..60 {
                    let turn = &checks[round % 4 * 256..][..256];
                    let start = Instant::now();
                    for checks in turn.chunks(batch) {
                        verifier.verify(checks, &mut verdicts);
                        assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Valid));
                    }
                    let lanes = start.elapsed().as_secs_f64();
                    let start = Instant::now();
                    assert!(turn.iter().all(|check| reference(&secp, check)));
                    let one_by_one = start.elapsed().as_secs_f64();
                    ratios.push(one_by_one / lanes);
                    ours = ours.min(lanes);
                    theirs = theirs.min(one_by_one);
                }
                ratios.sort_by(f64::total_cmp);
                println!(
                    "{backend:?} {kind:?}, batches of {batch}, {of_a_key} of a key: {:.2} us, libsecp256k1 {:.2} us, ratio {:.2} (turns: median {:.2}, {:.2} to {:.2})",
                    ours * 1e6 / 256.0,
                    theirs * 1e6 / 256.0,
                    theirs / ours,
                    ratios[ratios.len() / 2],
                    ratios[0],
                    ratios[ratios.len() - 1],
                );
            }
        }
    }
}

//! Against libsecp256k1.

mod common;

use common::{Dice, broken, kind, reference, valid};
use secp256k1::Secp256k1;
use secp256k1_lanes::{Backend, Check, Verdict, Verifier};

/// Random checks, half of them broken, in batches of random sizes.
fn compare(backend: Backend, cases: usize, seed: u64) {
    if !backend.is_available() {
        eprintln!("skipped: {backend:?} is not here");
        return;
    }
    let secp = Secp256k1::verification_only();
    let mut dice = Dice(seed);
    let mut verifier = Verifier::with_backend(backend);
    assert_eq!(verifier.backend(), backend);
    let mut verdicts = Vec::new();
    let [mut done, mut held] = [0; 2];
    while done < cases {
        let batch: Vec<Check> = (0..1 + dice.below(300))
            .map(|_| {
                let kind = kind(&mut dice);
                let check = valid(kind, &mut dice);
                if dice.below(2) == 0 {
                    broken(&check, &mut dice)
                } else {
                    check
                }
            })
            .collect();
        verifier.verify(&batch, &mut verdicts);
        assert_eq!(verdicts.len(), batch.len());
        for (check, verdict) in batch.iter().zip(&verdicts) {
            let expected = reference(&secp, check);
            held += usize::from(expected);
            // None of these is a special case but an r that happens to be tiny.
            let expected = if expected { Verdict::Valid } else { Verdict::Invalid };
            let tiny_r = check.r[..15] == [0; 15];
            assert!(
                *verdict == expected || (tiny_r && *verdict == Verdict::CannotTell),
                "seed {seed}: {check:?}: {verdict:?}"
            );
        }
        done += batch.len();
    }
    assert!(held > cases / 3 && held < cases * 2 / 3, "{held} of {done} hold");
}

#[test]
fn eight_lanes_say_what_libsecp256k1_says() {
    compare(Backend::Avx512, 30_000, 1);
}

#[test]
fn four_lanes_of_ifma_say_what_libsecp256k1_says() {
    compare(Backend::AvxIfma, 30_000, 3);
}

#[test]
fn four_lanes_say_what_libsecp256k1_says() {
    compare(Backend::Avx2, 20_000, 4);
}

#[test]
fn one_lane_says_what_libsecp256k1_says() {
    compare(Backend::Portable, 3_000, 2);
}

//! Checks that the lanes cannot tell go to the caller's closure, and its word counts.

use crate::common::{Rng, backends, kind, valid};
use secp256k1_lanes::{BATCH, Check, Kind, Verdict, Verifier};

/// A check with an r that stands for two x coordinates. `number` is in its message.
fn doubtful(number: u8, dice: &mut Rng) -> Check {
    let mut r = [0; 32];
    r[31] = 1 + number % 100;
    Check {
        r,
        message: [number; 32],
        ..valid(Kind::Ecdsa, dice)
    }
}

#[test]
fn the_closure_decides_what_the_lanes_cannot_tell_and_nothing_else() {
    for backend in backends() {
        let mut dice = Rng(41);
        let mut verifier = Verifier::with_backend(backend);
        // Sizes around a batch, with doubt at either end of it.
        for size in [0, 1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 30] {
            let (mut checks, mut expected, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
            for index in 0..size {
                let right = valid(kind(&mut dice), &mut dice);
                let mut wrong = right;
                wrong.s[31] ^= 1;
                let number = (index % 251) as u8;
                let (check, holds) = match index % BATCH % 5 {
                    0 => (doubtful(number, &mut dice), number.is_multiple_of(2)),
                    1 | 2 => (wrong, false),
                    _ => (right, true),
                };
                if (index % BATCH).is_multiple_of(5) {
                    doubts.push(check);
                }
                checks.push(check);
                expected.push(holds);
            }
            let mut asked = Vec::new();
            let mut holds = vec![true; 3];
            verifier.verify_with(&checks, &mut holds, |check| {
                asked.push(*check);
                check.message[0].is_multiple_of(2)
            });
            assert_eq!(asked, doubts, "{backend:?}, {size} checks");
            assert_eq!(holds, expected, "{backend:?}, {size} checks");
            // The verdicts of `verify` are the same.
            let mut verdicts = Vec::new();
            verifier.verify(&checks, &mut verdicts);
            let unsure = verdicts.iter().filter(|&&verdict| verdict == Verdict::CannotTell);
            assert_eq!(unsure.count(), doubts.len());
        }
    }
}

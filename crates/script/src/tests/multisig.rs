//! Guesses about multisig scripts: what they save, and that they decide nothing.

use super::lanes::{Lie, honest_verifier, verifier_with};
use super::random::Random;
use super::samples::{Form, Push, Sample, multisig, spend};
use crate::ffi::Signers;
use crate::guesses::Guesses;
use crate::{CoreVerifier, Deferred};
use bitcoin::opcodes::all as op;
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SignatureCounts, VerifyError};
use std::sync::Arc;

const FORMS: [Form; 3] = [Form::Bare, Form::ScriptHash, Form::Witness];

fn pushes(signers: &[u8]) -> Vec<Push> {
    let signed = signers.iter().map(|&key| Push::Signed(key));
    [Push::Empty].into_iter().chain(signed).collect()
}

/// An input that spends m of n keys with the signatures of some.
fn signed(form: Form, keys: &[u8], signers: &[u8]) -> Sample {
    let script = multisig(signers.len() as i64, keys).into_script();
    spend(form, &script, &pushes(signers))
}

/// The same where the signatures must not do. The script ends as a multisig script does, with one
/// that wants no signature.
fn not_signed(form: Form, keys: &[u8], signers: &[u8]) -> Sample {
    let not = multisig(signers.len() as i64, keys)
        .push_opcode(op::OP_NOT)
        .push_opcode(op::OP_VERIFY)
        .push_int(0);
    let script = [not.into_bytes(), multisig(0, keys).into_bytes()].concat().into();
    spend(form, &script, &pushes(signers))
}

/// The verdict of an input that lies six times in a batch of its own, and what was counted. Fewer
/// checks would not go to the lanes.
fn decide(verifier: &CoreVerifier, sample: &Sample) -> (Result<(), VerifyError>, SignatureCounts) {
    const COPIES: usize = 6;
    let before = verifier.signature_counts();
    let prepared = Arc::new(verifier.prepare(&sample.bytes(), &sample.spent()).unwrap());
    let mut verdicts = Vec::new();
    let mut deferred = Deferred::default();
    for _ in 0..COPIES {
        match verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, (), &mut deferred) {
            Ok(Outcome::Deferred) => {}
            Ok(Outcome::Passed) => verdicts.push(Ok(())),
            Err(error) => verdicts.push(Err(error)),
        }
    }
    while deferred.scripts() > 0 {
        verifier.verify_deferred(
            &mut deferred,
            &mut |()| Ok(Arc::clone(&prepared)),
            &mut |(), verdict| verdicts.push(verdict),
        );
    }
    assert_eq!(verdicts.len(), COPIES);
    assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]));
    let after = verifier.signature_counts();
    let counts = SignatureCounts {
        lanes: after.lanes - before.lanes,
        libsecp256k1: after.libsecp256k1 - before.libsecp256k1,
        again: after.again - before.again,
        ..after
    };
    (verdicts[0].clone(), counts)
}

/// What a wallet did before it does again: then no check is in vain, and nothing is run twice.
#[test]
fn the_keys_that_sign_are_learned() {
    let keys = [1, 2, 3, 4, 5];
    for form in FORMS {
        for (keys, signers) in [
            (&keys[..3], &[1, 2][..]),
            (&keys[..3], &[1, 3]),
            (&keys[..3], &[2, 3]),
            (&keys[..3], &[1]),
            (&keys[..2], &[2]),
            (&keys[..4], &[2, 3]),
            (&keys[..5], &[1, 2, 5]),
            (&keys[..5], &[1, 2, 3, 5]),
        ] {
            let verifier = honest_verifier();
            let sample = signed(form, keys, signers);
            let (first, _) = decide(&verifier, &sample);
            let (second, counts) = decide(&verifier, &sample);
            assert_eq!((first, second), (Ok(()), Ok(())), "{form:?} {signers:?} of {keys:?}");
            assert_eq!(
                (counts.again, counts.libsecp256k1, counts.lanes),
                (0, 0, 6 * signers.len() as u64),
                "{form:?} {signers:?} of {keys:?}"
            );
        }
    }
}

/// Where two of three keys sign, two runs are enough, whatever was guessed.
#[test]
fn a_second_run_sorts_out_two_of_three() {
    let pairs = [[1, 2], [1, 3], [2, 3]];
    for form in FORMS {
        for learned in pairs {
            for signers in pairs {
                let verifier = honest_verifier();
                assert_eq!(decide(&verifier, &signed(form, &[1, 2, 3], &learned)).0, Ok(()));
                let (verdict, counts) = decide(&verifier, &signed(form, &[1, 2, 3], &signers));
                assert_eq!(verdict, Ok(()));
                let again = if learned == signers { 0 } else { 6 };
                assert_eq!(
                    (counts.libsecp256k1, counts.again),
                    (0, again),
                    "{form:?} {learned:?} {signers:?}"
                );
            }
        }
    }
}

/// Random keys sign, lanes lie, and in some scripts the signatures must not do.
#[test]
fn no_verdict_depends_on_a_guess() {
    let random = &mut Random(5);
    let secret = |random: &mut Random| 1 + random.below(5) as u8;
    for lie in [Lie::Never, Lie::Invalid, Lie::CannotTell] {
        let verifier = verifier_with(lie);
        for _ in 0..300 {
            let keys: Vec<u8> = (0..1 + random.below(4)).map(|_| secret(random)).collect();
            let needed = 1 + random.below(keys.len());
            // Mostly in the order of the keys.
            let mut indices: Vec<usize> = (0..keys.len()).collect();
            while indices.len() > needed {
                indices.remove(random.below(indices.len()));
            }
            let mut signers: Vec<u8> = indices.iter().map(|&index| keys[index]).collect();
            if random.one_in(3) {
                signers[random.below(needed)] = secret(random);
            }
            let make = if random.one_in(3) { not_signed } else { signed };
            let sample = make(*random.of(&FORMS), &keys, &signers);
            let prepared = verifier.prepare(&sample.bytes(), &sample.spent()).unwrap();
            let ordinary = verifier.verify(&prepared, 0, ScriptFlags::ALL);
            assert_eq!(decide(&verifier, &sample).0, ordinary, "{signers:?} of {keys:?}");
        }
    }
}

#[test]
fn trust_in_a_guess_comes_and_goes() {
    let guesses = Guesses::new();
    let passed = |signers| Signers {
        needed: 2,
        keys: 3,
        signers,
    };
    assert_eq!(guesses.expected(2, 3), 0);
    for _ in 0..10 {
        guesses.learn(passed(0b101));
        assert_eq!(guesses.expected(2, 3), 0b101);
    }
    for _ in 0..4 {
        guesses.learn(passed(0b011));
        assert_eq!(guesses.expected(2, 3), 0b101);
    }
    guesses.learn(passed(0b011));
    assert_eq!(guesses.expected(2, 3), 0b011);
    // Nothing to learn, and nowhere to keep it.
    guesses.learn(passed(0b111));
    guesses.learn(Signers {
        needed: 2,
        keys: 2,
        signers: 0b11,
    });
    guesses.learn(Signers {
        needed: 1,
        keys: 40,
        signers: 1,
    });
    assert_eq!(
        [(2, 3), (2, 2), (1, 40), (255, 255)].map(|(needed, keys)| guesses.expected(needed, keys)),
        [0b011, 0, 0, 0]
    );
}

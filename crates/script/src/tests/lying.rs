//! Lanes whose verdicts are wrong: what must be found, and what must do no harm.

use super::lanes::{Lie, honest_verifier, verifier_with};
use super::samples::{BOTH_OR_NEITHER, Form, Push, Sample, both_or_neither, generated, public, spend};
use crate::{CoreVerifier, Deferred};
use bitcoin::opcodes::all as op;
use bitcoin::script::Builder;
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, VerifyError};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Runs the first input of all samples, and verifies what is deferred until all are decided. The
/// verdicts.
fn verdicts(verifier: &CoreVerifier, samples: &[Sample]) -> Vec<Result<(), VerifyError>> {
    let mut deferred = Deferred::default();
    let mut verdicts = vec![Err(VerifyError::Verifier("not verified".to_owned())); samples.len()];
    let prepare = |&index: &usize| verifier.prepare(&samples[index].bytes(), &samples[index].spent());
    for (index, sample) in samples.iter().enumerate() {
        let prepared = prepare(&index).unwrap();
        match verifier.verify_deferring(&prepared, 0, sample.flags, index, &mut deferred) {
            Ok(Outcome::Deferred) => {}
            Ok(Outcome::Passed) => verdicts[index] = Ok(()),
            Err(error) => verdicts[index] = Err(error),
        }
    }
    for _ in 0..2 {
        verifier.verify_deferred(
            &mut deferred,
            &mut |index| prepare(index).map(Arc::new),
            &mut |index, verdict| verdicts[index] = verdict,
        );
    }
    assert_eq!(deferred.scripts(), 0);
    verdicts
}

fn check_sig(number: u8) -> bitcoin::ScriptBuf {
    Builder::new()
        .push_slice(public(number))
        .push_opcode(op::OP_CHECKSIG)
        .into_script()
}

/// Nine valid inputs, and one with a signature of another message.
fn one_wrong() -> Vec<Sample> {
    let spend = |number: u8| {
        let push = if number == 4 {
            Push::Wrong(4)
        } else {
            Push::Signed(number)
        };
        spend(Form::Witness, &check_sig(number), &[push])
    };
    (1..=10).map(spend).collect()
}

#[test]
fn a_wrong_valid_is_found_and_ends_everything() {
    let verifier = verifier_with(Lie::Valid).with_rechecked_one_in(NonZeroU64::MIN);
    let samples = one_wrong();
    let found = verdicts(&verifier, &samples);
    let key: String = public(4).iter().map(|byte| format!("{byte:02x}")).collect();
    for verdict in &found {
        let Err(VerifyError::Verifier(words)) = verdict else {
            panic!("{verdict:?}");
        };
        assert!(words.contains(&format!("Ecdsa key {key} r ")), "{words}");
    }
    assert_eq!(verifier.signature_counts().rechecked, 10);
    // There are no more verdicts from it.
    let after = verdicts(&verifier, &samples[..1]);
    assert_eq!(after[0], found[0]);
}

#[test]
fn honest_lanes_are_rechecked_as_often_as_wanted() {
    for (one_in, wanted) in [(1, 90), (3, 30), (1000, 1)] {
        let verifier = honest_verifier().with_rechecked_one_in(NonZeroU64::new(one_in).unwrap());
        for _ in 0..10 {
            let found = verdicts(&verifier, &one_wrong());
            let failed: Vec<usize> = (0..10).filter(|&index| found[index].is_err()).collect();
            assert_eq!(failed, [3]);
            assert_eq!(found[3], Err(VerifyError::Invalid));
        }
        assert_eq!(verifier.signature_counts().rechecked, wanted);
    }
}

/// Where two wrong answers "invalid" come together, a script that wants both or neither must still
/// fail. Without the flag NULLFAIL the second run would let it pass.
#[test]
fn a_wrong_invalid_lets_nothing_pass() {
    for form in [Form::Bare, Form::ScriptHash, Form::Witness] {
        for lie in [Lie::AlwaysInvalid, Lie::Invalid, Lie::Never, Lie::CannotTell] {
            for _ in 0..10 {
                let verifier = verifier_with(lie);
                let samples: Vec<Sample> = BOTH_OR_NEITHER
                    .iter()
                    .map(|(pushes, _)| spend(form, &both_or_neither(), pushes))
                    .collect();
                let found = verdicts(&verifier, &samples);
                for ((pushes, passes), verdict) in BOTH_OR_NEITHER.iter().zip(found) {
                    let expected = if *passes { Ok(()) } else { Err(VerifyError::Invalid) };
                    assert_eq!(verdict, expected, "{form:?} {lie:?} {pushes:?}");
                }
                assert!(verifier.signature_counts().again > 0);
            }
        }
    }
}

/// A taproot script path puts two checks off, the signature and the commitment. A wrong commitment
/// is refused.
#[test]
fn commitments_are_deferred() {
    let verifier = honest_verifier();
    let (mut found, mut refused) = (0, 0);
    for sample in generated() {
        for (input, spent) in sample.spent.iter().enumerate() {
            let witness = &sample.transaction.input[input].witness;
            if !spent.script_pubkey.is_p2tr() || witness.len() < 2 {
                continue;
            }
            let prepared = verifier.prepare(&sample.bytes(), &sample.spent()).unwrap();
            let mut deferred = Deferred::default();
            let outcome = verifier.verify_deferring(&prepared, input, ScriptFlags::ALL, (), &mut deferred);
            assert_eq!(outcome, Ok(Outcome::Deferred));
            assert_eq!(deferred.signatures(), 2);
            found += 1;
            let mut wrong = sample.clone();
            let mut elements = witness.to_vec();
            elements.last_mut().unwrap()[0] ^= 1;
            wrong.transaction.input[input].witness = bitcoin::Witness::from_slice(&elements);
            let prepare = || verifier.prepare(&wrong.bytes(), &wrong.spent());
            let mut deferred = Deferred::default();
            let outcome = verifier.verify_deferring(&prepare().unwrap(), input, ScriptFlags::ALL, (), &mut deferred);
            assert_eq!(outcome, Ok(Outcome::Deferred));
            verifier.verify_deferred(&mut deferred, &mut |()| prepare().map(Arc::new), &mut |(), verdict| {
                assert_eq!(verdict, Err(VerifyError::Invalid));
                refused += 1;
            });
        }
    }
    assert!(found > 10 && refused == found, "{found} {refused}");
}

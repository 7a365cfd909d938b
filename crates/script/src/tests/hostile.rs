//! Scripts made so that deferring checks is in vain and dear. What is counted is work, not time.

use super::lanes::honest_verifier;
use super::samples::{Sample, empty_input, public, spending};
use crate::balance::CAP_NS;
use crate::{CoreVerifier, Deferred};
use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{Amount, ScriptBuf, TxOut};
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier};
use std::sync::Arc;

/// A signature in good form that no key has made.
fn wrong_signature() -> PushBytesBuf {
    let number = [&[2, 32, 1][..], &[0x11; 31]].concat();
    let whole = [&[0x30, 68][..], &number, &number, &[1]].concat();
    PushBytesBuf::try_from(whole).unwrap()
}

/// Pushes so many signatures and keys.
fn pairs(count: usize) -> ScriptBuf {
    let script = (0..count).fold(Builder::new(), |builder, _| {
        builder.push_slice(wrong_signature()).push_slice(public(1))
    });
    script.into_script()
}

/// `CHECKSIG IF checks x (CODESEPARATOR CHECKSIG DROP) ENDIF 1`: one check ordinarily, and many
/// more if the first were valid.
fn trap(checks: usize) -> ScriptBuf {
    let start = Builder::new().push_opcode(op::OP_CHECKSIG).push_opcode(op::OP_IF);
    let middle = (0..checks).fold(start, |builder, _| {
        builder
            .push_opcode(op::OP_CODESEPARATOR)
            .push_opcode(op::OP_CHECKSIG)
            .push_opcode(op::OP_DROP)
    });
    middle.push_opcode(op::OP_ENDIF).push_int(1).into_script()
}

/// A transaction whose inputs all spend `script`, with so many bytes of outputs.
fn transaction(inputs: usize, script: &ScriptBuf, pushes: &ScriptBuf, outputs: usize) -> Sample {
    let mut transaction = spending(outputs);
    transaction.input = (0..inputs).map(|number| empty_input(number as u8)).collect();
    for input in &mut transaction.input {
        input.script_sig = pushes.clone();
    }
    let output = TxOut {
        value: Amount::from_sat(5),
        script_pubkey: script.clone(),
    };
    Sample {
        transaction,
        spent: vec![output; inputs],
        flags: ScriptFlags::ALL,
    }
}

/// What was done for a hostile transaction that came again and again.
#[derive(Debug, Default)]
struct Work {
    deferred: u64,
    records: u64,
    passed: u64,
}

/// Runs all inputs of `sample`, `times` over, and verifies every 256 checks; never, without
/// `verified`.
fn work(verifier: &CoreVerifier, sample: &Sample, times: usize, verified: bool) -> Work {
    let mut work = Work::default();
    let (bytes, spent) = (sample.bytes(), sample.spent());
    let mut deferred = Deferred::default();
    for _ in 0..times {
        let prepared = verifier.prepare(&bytes, &spent).unwrap();
        for input in 0..spent.len() {
            let before = deferred.signatures();
            let outcome = verifier.verify_deferring(&prepared, input, sample.flags, (), &mut deferred);
            match outcome.unwrap() {
                Outcome::Deferred => work.deferred += 1,
                Outcome::Passed => work.passed += 1,
            }
            work.records += (deferred.signatures() - before) as u64;
            while verified && deferred.signatures() >= verifier.signatures_together() {
                let mut prepare = |(): &()| verifier.prepare(&bytes, &spent).map(Arc::new);
                verifier.verify_deferred(&mut deferred, &mut prepare, &mut |(), verdict| {
                    assert_eq!(verdict, Ok(()))
                });
            }
        }
    }
    work
}

#[test]
fn many_small_traps() {
    let verifier = honest_verifier();
    let sample = transaction(10, &trap(64), &pairs(65), 100);
    let inputs = 4_000;
    let work = work(&verifier, &sample, inputs / 10, true);
    assert_eq!(work.deferred + work.passed, inputs as u64);
    assert_eq!(work.records, work.deferred * 65);
    // The cap pays for some fifty. Then it takes about eighty ordinary runs to earn one more.
    assert!(
        work.deferred > 20 && work.deferred < 50 + 4_000 / 60,
        "{work:?} {}",
        verifier.balance()
    );
    // Each was run a second time at most, and then ordinarily.
    let counts = verifier.signature_counts();
    assert!(counts.again <= work.deferred, "{counts:?}");
    assert!(
        counts.libsecp256k1 <= inputs as u64 && counts.libsecp256k1 >= inputs as u64 - 10,
        "{counts:?} {work:?}"
    );
    assert!(verifier.balance() > -CAP_NS / 4, "{}", verifier.balance());
}

#[test]
fn traps_that_hash_much() {
    let verifier = honest_verifier();
    let sample = transaction(10, &trap(64), &pairs(65), 98_000);
    let inputs = 1_000;
    let work = work(&verifier, &sample, inputs / 10, true);
    // The run is stopped at its limit of hashed bytes, and the ordinary run follows at once.
    assert_eq!((work.deferred, work.records), (0, 0));
    assert_eq!(verifier.signature_counts().libsecp256k1, inputs as u64);
    assert_eq!(verifier.signature_counts().again, 0);
    // About 2 ms each, until the account is empty. The ordinary runs, 0.13 ms, earn one more for
    // every hundred.
    assert!(verifier.balance() < CAP_NS / 2, "{}", verifier.balance());
    assert!(verifier.balance() > -3_000_000, "{}", verifier.balance());
}

/// The hash that libstdc++ has for strings, which has no key, and its ways back.
mod unkeyed {
    const SEED: u64 = 0xc70f_6907;
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

    /// It undoes itself.
    fn mix(value: u64) -> u64 {
        value ^ (value >> 47)
    }

    fn times(value: u64) -> u64 {
        value.wrapping_mul(MULTIPLIER)
    }

    fn divided(value: u64) -> u64 {
        // Each round doubles the low bits that are right.
        let inverse = (0..6).fold(MULTIPLIER, |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(times(inverse)))
        });
        value.wrapping_mul(inverse)
    }

    /// What is added to the state for each eight bytes, and for what is left at the end.
    fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(u64::from_le_bytes(last));
        let words = words.iter().map(|word| times(mix(times(u64::from_le_bytes(*word)))));
        words.chain(last).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn hash(bytes: &[u8]) -> u64 {
        let start = SEED ^ times(bytes.len() as u64);
        let state = words(bytes).fold(start, |state, word| times(state ^ word));
        mix(times(mix(state)))
    }

    /// Changes the second eight bytes so that the hash is `wanted`.
    pub(super) fn force(bytes: &mut [u8], wanted: u64) {
        let end = mix(divided(mix(wanted)));
        let after = words(&bytes[16..]).rfold(end, |state, word| divided(state) ^ word);
        let start = SEED ^ times(bytes.len() as u64);
        let before = words(&bytes[..8]).fold(start, |state, word| times(state ^ word));
        let word = divided(mix(divided(divided(after) ^ before)));
        bytes[8..16].copy_from_slice(&word.to_le_bytes());
    }
}

/// As [`trap`], and the script codes of all its checks but the first have one hash, if the hash has
/// no key. Returns the codes, too.
fn trap_of_equal_hashes(checks: usize) -> (ScriptBuf, Vec<Vec<u8>>) {
    let mut code = [op::OP_ENDIF.to_u8(), op::OP_PUSHNUM_1.to_u8()].to_vec();
    let mut codes: Vec<Vec<u8>> = Vec::new();
    for _ in 0..checks {
        let mut start = vec![16];
        start.extend([7; 16]);
        start.extend([op::OP_DROP, op::OP_CHECKSIG, op::OP_DROP].map(|code| code.to_u8()));
        code.splice(0..0, start);
        if let Some(first) = codes.first() {
            unkeyed::force(&mut code, unkeyed::hash(first));
        }
        codes.push(code.clone());
        code.insert(0, op::OP_CODESEPARATOR.to_u8());
    }
    code.splice(0..0, [op::OP_CHECKSIG, op::OP_IF].map(|code| code.to_u8()));
    (ScriptBuf::from_bytes(code), codes)
}

/// Bytes that are hashed for a new script code MUST be counted, whatever the code: a hash without a
/// key would take many codes for one.
#[test]
fn codes_that_a_hash_confuses_are_told_apart() {
    let (script, codes) = trap_of_equal_hashes(40);
    assert!(codes.iter().all(|code| unkeyed::hash(code) == unkeyed::hash(&codes[0])));
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]));
    let verifier = honest_verifier();
    let sample = transaction(10, &script, &pairs(41), 98_000);
    let work = work(&verifier, &sample, 10, true);
    // As with `traps_that_hash_much`: the limit of hashed bytes stops every run.
    assert_eq!((work.deferred, work.records, work.passed), (0, 0, 100));
    assert_eq!(verifier.signature_counts().libsecp256k1, 100);
}

#[test]
fn legacy_inputs_of_large_transactions_are_not_deferred() {
    let verifier = honest_verifier();
    let sample = transaction(3, &trap(64), &pairs(65), 900_000);
    let work = work(&verifier, &sample, 2, true);
    assert_eq!((work.deferred, work.records, work.passed), (0, 0, 6));
    assert_eq!(verifier.signature_counts().libsecp256k1, 6);
    // Nothing was hashed in vain.
    assert!(verifier.balance() >= CAP_NS - 6 * 300_000, "{}", verifier.balance());
}

/// With 18 checks the hashes stay below the limit of an input. What is out of the ordinary is taken
/// from the account at once, so that work does not pile up where nothing is verified.
#[test]
fn work_does_not_pile_up_before_it_is_verified() {
    let verifier = honest_verifier();
    let sample = transaction(5, &trap(18), &pairs(19), 98_000);
    let work = work(&verifier, &sample, 40, false);
    assert!(work.deferred > 5 && work.deferred < 25, "{work:?}");
    assert_eq!(work.deferred + work.passed, 200);
}

/// `66 x (CHECKSIG NOT VERIFY)`: without a bound on runs, one run for each of the checks.
#[test]
fn chains_of_refused_signatures() {
    let verifier = honest_verifier();
    let script = (0..66).fold(Builder::new(), |builder, _| {
        builder
            .push_opcode(op::OP_CHECKSIG)
            .push_opcode(op::OP_NOT)
            .push_opcode(op::OP_VERIFY)
    });
    let script = script.push_int(1).into_script();
    let sample = transaction(4, &script, &pairs(66), 98_000);
    let work = work(&verifier, &sample, 10, true);
    // The first run fails at the first NOT. The second is the ordinary one.
    assert_eq!((work.deferred, work.records, work.passed), (0, 0, 40));
    let counts = verifier.signature_counts();
    assert_eq!((counts.libsecp256k1, counts.again), (40 * 66, 0));
}

/// A wrong signature for the first of `keys` makes the second run defer other checks, and no
/// third run follows.
#[test]
fn never_a_third_run() {
    let verifier = honest_verifier();
    // Five checks that fail one after another: two of two keys each, then a wrong one.
    let script = Builder::new()
        .push_int(1)
        .push_slice(public(1))
        .push_slice(public(2))
        .push_slice(public(3))
        .push_int(3)
        .push_opcode(op::OP_CHECKMULTISIG)
        .push_opcode(op::OP_NOT)
        .push_opcode(op::OP_IF)
        .push_int(1)
        .push_opcode(op::OP_ELSE)
        .push_int(1)
        .push_opcode(op::OP_ENDIF)
        .into_script();
    let pushes = Builder::new().push_int(0).push_slice(wrong_signature()).into_script();
    let sample = transaction(6, &script, &pushes, 100);
    let mut deferred = Deferred::default();
    let prepare = || verifier.prepare(&sample.bytes(), &sample.spent());
    let prepared = prepare().unwrap();
    for input in 0..6 {
        let outcome = verifier.verify_deferring(&prepared, input, sample.flags, input, &mut deferred);
        assert_eq!(outcome, Ok(Outcome::Deferred));
    }
    let mut runs = 0;
    for (left, decided) in [(6, 0), (0, 6)] {
        let mut done = 0;
        let mut prepare = |_: &usize| {
            runs += 1;
            prepare().map(Arc::new)
        };
        verifier.verify_deferred(&mut deferred, &mut prepare, &mut |_, verdict| {
            assert_eq!(verdict, Ok(()));
            done += 1;
        });
        assert_eq!((deferred.scripts(), done), (left, decided));
    }
    // The transaction was made ready again once in each round.
    assert_eq!(runs, 2);
    assert_eq!(verifier.signature_counts().again, 6);
    // Three keys are tried in the ordinary run.
    assert_eq!(verifier.signature_counts().libsecp256k1, 18);
}

//! One program with both interpreters, the kernel library's and the second one: neither stands in
//! for the other.

#[path = "../../src/tests/samples.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod samples;

use bitcoin::{ScriptBuf, Witness};
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{DeferredChecks, Outcome, ScriptVerifier, VerifyError};
use blockmill_script::{CoreVerifier, Deferred, Signatures};
use std::sync::Arc;

#[test]
fn both_run_side_by_side() {
    let verifier = CoreVerifier::new(Signatures::Lanes);
    let (mut passed, mut failed, mut commitments) = (0, 0, 0);
    for (index, mut sample) in samples::generated().into_iter().enumerate() {
        // Every second transaction has an output that nobody signed.
        let spoilt = index % 2 == 1;
        if spoilt {
            sample.transaction.output[0].value += bitcoin::Amount::from_sat(1);
        }
        let (bytes, spent) = (sample.bytes(), sample.spent());
        let by_kernel = KernelVerifier.prepare(&bytes, &spent).unwrap();
        let prepared = verifier.prepare(&bytes, &spent).unwrap();
        for input in 0..spent.len() {
            // In turns: what one has left must not change the other.
            let mut deferred = Deferred::default();
            let outcome = verifier.verify_deferring(&prepared, input, sample.flags, (), &mut deferred);
            let expected = KernelVerifier.verify(&by_kernel, input, sample.flags);
            assert_eq!(verifier.verify(&prepared, input, sample.flags), expected);
            assert_eq!(KernelVerifier.verify(&by_kernel, input, sample.flags), expected);
            match outcome {
                Ok(Outcome::Deferred) => {
                    let script_path = sample.spent[input].script_pubkey.is_p2tr()
                        && sample.transaction.input[input].witness.len() > 1;
                    commitments += usize::from(script_path && deferred.signatures() == 2);
                }
                Ok(Outcome::Passed) => assert_eq!(expected, Ok(())),
                Err(error) => assert_eq!(expected, Err(error)),
            }
            match expected {
                Ok(()) => passed += 1,
                Err(VerifyError::Invalid) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(passed > 300 && failed > 300, "{passed} {failed}");
    // The second interpreter records commitments, which the kernel library's cannot.
    assert!(commitments > 10, "{commitments}");
    // This program has the kernel's interface: the test that another has not would see it.
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let name = [b"btck", &b"_context_create"[..]].concat();
    // Only what is used is kept of it.
    let used = [b"btck", &b"_context_static"[..]].concat();
    let has = |name: &[u8]| program.windows(name.len()).any(|window| window == name);
    assert!(has(&used) || has(&name));
}

/// A script of a witness version that has no meaning yet.
fn unknown_witness_program() -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x52, 2, 7, 7])
}

/// The verdicts of the kernel and of this crate on all inputs, which are the same.
fn verdicts_of_both(verifier: &CoreVerifier, sample: &samples::Sample) -> Vec<bool> {
    let (bytes, spent) = (sample.bytes(), sample.spent());
    let by_kernel = KernelVerifier.prepare(&bytes, &spent).unwrap();
    let prepared = verifier.prepare(&bytes, &spent).unwrap();
    let verdict = |input| {
        let expected = KernelVerifier.verify(&by_kernel, input, sample.flags);
        assert_eq!(verifier.verify(&prepared, input, sample.flags), expected);
        let mut deferred = Deferred::default();
        let outcome = verifier.verify_deferring(&prepared, input, sample.flags, (), &mut deferred);
        let mut decided = outcome.map(|_| ());
        if deferred.scripts() > 0 {
            let mut prepare = |_: &()| Ok(Arc::new(verifier.prepare(&bytes, &spent)?));
            while deferred.scripts() > 0 {
                verifier.verify_deferred(&mut deferred, &mut prepare, &mut |(), verdict| decided = verdict);
            }
        }
        assert_eq!(decided, expected);
        expected.is_ok()
    };
    (0..spent.len()).map(verdict).collect()
}

/// A witness of many items is not read before its input is verified.
#[test]
fn many_items_of_witnesses_change_no_verdict() {
    let verifier = CoreVerifier::new(Signatures::Lanes);
    let (mut passed, mut failed, mut others) = (0, 0, 0);
    let several = samples::generated().into_iter().filter(|sample| sample.spent.len() > 1);
    for (number, sample) in several.enumerate().take(60) {
        let before = verdicts_of_both(&verifier, &sample);
        // Just few enough to be read with the transaction, and more.
        let items = [19_900, 20_100, 25_000][number % 3];
        for script in [
            None,
            Some(unknown_witness_program()),
            Some(ScriptBuf::from_bytes(vec![0x52, 2, 0, 0])),
        ] {
            let mut changed = sample.clone();
            let input = number % sample.spent.len();
            let witness = &mut changed.transaction.input[input].witness;
            let many = std::iter::repeat_n(&[][..], items).chain(witness.iter());
            *witness = Witness::from_slice(&many.collect::<Vec<_>>());
            if let Some(script) = script {
                changed.spent[input].script_pubkey = script;
                changed.transaction.input[input].script_sig = ScriptBuf::new();
            }
            let after = verdicts_of_both(&verifier, &changed);
            match after[input] {
                true => passed += 1,
                false => failed += 1,
            }
            // Signatures of other inputs are as good as before, unless they sign all spent scripts.
            others += (0..before.len())
                .filter(|&other| other != input && after[other])
                .count();
        }
    }
    assert!(
        passed >= 60 && failed >= 100 && others >= 100,
        "{passed} {failed} {others}"
    );
}

#[test]
fn what_is_no_transaction_is_refused_whatever_its_witnesses() {
    let verifier = CoreVerifier::new(Signatures::Lanes);
    let mut sample = samples::generated().pop().unwrap();
    let last = sample.spent.len() - 1;
    sample.transaction.input[last].witness = Witness::from_slice(&[[0u8; 0]; 30_000]);
    let (bytes, spent) = (sample.bytes(), sample.spent());
    verifier.prepare(&bytes, &spent).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        assert!(verifier.prepare(&changed, &spent).is_err());
        assert!(KernelVerifier.prepare(&changed, &spent).is_err());
    };
    for length in [bytes.len() - 1, bytes.len() - 4, bytes.len() - 5, 20_000, 100] {
        changed(&|bytes| bytes.truncate(length));
    }
    // The kernel does not look at what is left.
    assert!(verifier.prepare(&[&bytes[..], &[0]].concat(), &spent).is_err());
    // Another flag, and an item that is longer than what is left.
    changed(&|bytes| bytes[5] = 2);
    changed(&|bytes| {
        let last_item = bytes.len() - 5;
        bytes[last_item] = 0xfc;
    });
    // More inputs than outputs that are spent.
    assert!(verifier.prepare(&bytes, &spent[1..]).is_err());
}

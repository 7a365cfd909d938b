//! One program with both interpreters, the kernel library's and the second one: neither stands in
//! for the other.

#[path = "../../src/tests/samples.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod samples;

use blockmill_kernel::KernelVerifier;
use blockmill_rules::{DeferredChecks, Outcome, ScriptVerifier, VerifyError};
use blockmill_script::{CoreVerifier, Deferred, Signatures};

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

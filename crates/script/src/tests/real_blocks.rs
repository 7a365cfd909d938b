//! Every script of the real blocks passes, whatever verifies the signatures.

use super::lanes::honest_verifier;
use super::samples::{Block, real_blocks};
use crate::{CoreVerifier, Deferred, Signatures};
use blockmill_rules::{DeferredChecks, Outcome, ScriptVerifier, VerifyError};
use std::sync::Arc;
use std::time::Instant;

/// Verifies all inputs of a block, with signature checks verified as often as an engine does. How
/// many inputs it has, and the seconds that preparing and running took.
fn verify(verifier: &CoreVerifier, block: &Block) -> (usize, f64) {
    let mut deferred = Deferred::default();
    let mut passed = 0;
    let mut verify_together = |deferred: &mut Deferred<(usize, usize)>| {
        verifier.verify_deferred(
            deferred,
            &mut |&(index, _)| {
                let sample: &super::samples::Sample = &block.transactions[index];
                verifier.prepare(&sample.bytes(), &sample.spent()).map(Arc::new)
            },
            &mut |name, verdict: Result<(), VerifyError>| {
                assert_eq!(verdict, Ok(()), "{} {name:?}", block.name);
                passed += 1;
            },
        );
    };
    let mut inputs = 0;
    let mut at_once = 0;
    let mut seconds = 0.0;
    for (index, sample) in block.transactions.iter().enumerate() {
        let (bytes, spent) = (sample.bytes(), sample.spent());
        let start = Instant::now();
        let prepared = verifier.prepare(&bytes, &spent).unwrap();
        for input in 0..spent.len() {
            inputs += 1;
            let outcome = verifier.verify_deferring(&prepared, input, sample.flags, (index, input), &mut deferred);
            at_once += usize::from(outcome == Ok(Outcome::Passed));
            assert!(outcome.is_ok(), "{} {index} {input}", block.name);
        }
        seconds += start.elapsed().as_secs_f64();
        if deferred.signatures() >= verifier.signatures_together() {
            verify_together(&mut deferred);
        }
    }
    while deferred.scripts() > 0 {
        verify_together(&mut deferred);
    }
    assert_eq!(at_once + passed, inputs, "{}", block.name);
    (inputs, seconds)
}

#[test]
fn every_script_passes() {
    let mut inputs = 0;
    let one_by_one = CoreVerifier::new(Signatures::OneByOne);
    let truth = honest_verifier();
    let lanes = CoreVerifier::new(Signatures::Lanes);
    for block in real_blocks() {
        let (count, ordinarily) = verify(&one_by_one, &block);
        let (_, recording) = verify(&truth, &block);
        verify(&lanes, &block);
        inputs += count;
        let each = |seconds: f64| 1e6 * seconds / count.max(1) as f64;
        eprintln!(
            "{}: {count} inputs, {:.1} us to prepare and run ordinarily, {:.1} us to prepare and record",
            block.name,
            each(ordinarily),
            each(recording)
        );
    }
    if inputs == 0 {
        return;
    }
    let (ordinary, counts) = (one_by_one.signature_counts(), truth.signature_counts());
    assert!(
        ordinary.libsecp256k1 > inputs as u64 / 2 && ordinary.lanes == 0,
        "{ordinary:?}"
    );
    // Nearly everything is deferred, and seldom run again.
    assert!(counts.lanes > ordinary.libsecp256k1 * 9 / 10, "{counts:?} {ordinary:?}");
    assert!(
        counts.libsecp256k1 < ordinary.libsecp256k1 / 20,
        "{counts:?} {ordinary:?}"
    );
    assert!(counts.again > 0 && counts.again < inputs as u64 / 1000, "{counts:?}");
    assert_eq!(counts.cannot_tell, 0);
    assert!(
        counts.rechecked >= counts.lanes / 1100 && counts.rechecked <= counts.lanes / 1000 + 1,
        "{counts:?}"
    );
    // The real lanes may leave checks to libsecp256k1, but lose none. Not asked are those with keys
    // that did not sign, and that were guessed.
    let real = lanes.signature_counts();
    assert!(
        real.lanes + real.cannot_tell + real.libsecp256k1 >= ordinary.libsecp256k1 * 19 / 20,
        "{real:?} {ordinary:?}"
    );
    eprintln!("ordinary {ordinary:?}\ntruth {counts:?}\nlanes {real:?}");
}

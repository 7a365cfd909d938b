//! The fastest way to verify signatures is measured.

use super::lanes::{Lie, TestLanes, honest_verifier};
use super::parts::{prepare, two_checks};
use crate::Deferred;
use crate::choice::{self, FULL, TURNS, Way};
use crate::deferring::{Counts, Deferring};
use bitcoin::secp256k1::{Message, Secp256k1, SecretKey};
use blockmill_fastest::{Speeds, beside_busy_threads};
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier};
use rustix::time::{ClockId, clock_gettime};
use secp256k1_lanes::{Backend, Check, Kind};

/// Checks that hold, each with a key of its own.
fn valid(count: usize) -> Vec<Check> {
    let secp = Secp256k1::new();
    let sign = |number: usize| {
        let message = [number as u8; 32];
        let secret = SecretKey::from_slice(&[1 + number as u8; 32]).unwrap();
        let signature = secp.sign_ecdsa(&Message::from_digest(message), &secret);
        let compact = signature.serialize_compact();
        let [r, s] = [&compact[..32], &compact[32..]].map(|half| half.try_into().unwrap());
        Check {
            kind: Kind::Ecdsa,
            key: secret.public_key(&secp).serialize(),
            r,
            s,
            message,
        }
    };
    (0..count).map(sign).collect()
}

fn fast_backends() -> impl Iterator<Item = Backend> {
    Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_fast() && backend.is_available())
}

fn thread_milliseconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// More busy threads than cores change nothing.
#[test]
fn the_fastest_way_is_found_each_time() {
    let checks = valid(FULL);
    let (found, milliseconds) = beside_busy_threads(|| {
        let mut milliseconds = f64::MAX;
        let mut found = Vec::new();
        for _ in 0..100 {
            let before = thread_milliseconds();
            found.push(Speeds::measure(TURNS, choice::ways(&checks)));
            // The least: a busy neighbour on the same core makes all work slower.
            milliseconds = milliseconds.min(thread_milliseconds() - before);
        }
        (found, milliseconds)
    });
    // The order of the fast backends is that of their speed on all processors that were measured.
    // Without them ways are close to each other.
    let expected = fast_backends().next().map(Way::Lanes);
    for speeds in &found {
        assert!(expected.is_none_or(|way| way == speeds.fastest()), "{speeds:?}");
        let lanes = match fast_backends().count() {
            0 => 1 + usize::from(Backend::Neon.is_available()),
            fast => fast,
        };
        assert_eq!(speeds.ways().len(), lanes + 1);
        assert!(speeds.ways().is_sorted_by_key(|speed| speed.time));
    }
    assert!(milliseconds < 15.0, "{milliseconds} ms");
}

/// Neither few checks nor invalid ones are measured with.
#[test]
fn a_full_batch_of_valid_checks_is_measured_with() {
    let backend = fast_backends().last().unwrap_or(Backend::Portable);
    let deferring = Deferring::new(backend, true, |_| TestLanes::boxed(Lie::Never));
    let mut checks = valid(FULL);
    let verify = |checks: &[Check]| {
        deferring.verdicts(checks, &Counts::default()).unwrap();
        choice::measured().map(Speeds::fastest)
    };
    assert_eq!(verify(&checks[1..]), None);
    checks[5].message[0] ^= 1;
    assert_eq!(verify(&checks), None);
    assert_eq!(deferring.way(), Way::Lanes(backend));
    checks[5].message[0] ^= 1;
    assert_eq!(verify(&checks), Some(deferring.way()));
    // Asked for, nothing is measured.
    let asked = Deferring::new(backend, false, |_| TestLanes::boxed(Lie::Never));
    asked.verdicts(&checks, &Counts::default()).unwrap();
    assert_eq!(asked.way(), Way::Lanes(backend));
}

/// Where libsecp256k1 is the fastest, nothing more is deferred, and what is deferred is verified.
#[test]
fn libsecp256k1_may_be_the_fastest() {
    let verifier = honest_verifier();
    let transaction = two_checks();
    let prepared = std::sync::Arc::new(prepare(&verifier, &transaction).unwrap());
    let mut deferred = Deferred::default();
    let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, (), &mut deferred);
    assert_eq!((outcome, deferred.scripts()), (Ok(Outcome::Deferred), 1));
    let verifier = verifier.with_fastest(Way::OneByOne);
    assert_eq!(verifier.signatures_together(), 0);
    let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, (), &mut deferred);
    assert_eq!((outcome, deferred.scripts()), (Ok(Outcome::Passed), 1));
    let mut decided = Vec::new();
    verifier.verify_deferred(&mut deferred, &mut |()| Ok(prepared.clone()), &mut |(), verdict| {
        decided.push(verdict);
    });
    assert_eq!(decided, [Ok(())]);
    let counts = verifier.signature_counts();
    assert_eq!((counts.lanes, counts.libsecp256k1), (0, 4));
}

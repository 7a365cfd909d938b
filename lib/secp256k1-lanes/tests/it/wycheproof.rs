//! Wycheproof's vectors of ECDSA on secp256k1: special cases that broke implementations.
//!
//! Lanes take numbers. libsecp256k1's strict parser refuses signatures that are not DER before the
//! lanes see them. The signatures of the P1363 sets are the two numbers, without an encoding.

use crate::common::{backends, has_small_r, reference, sum_is_special};
use secp256k1::{PublicKey, Secp256k1, ecdsa};
use secp256k1_lanes::{Check, Kind, Verdict, Verifier};
use sha2::{Digest, Sha256, Sha512};
use wycheproof::TestResult;
use wycheproof::ecdsa::{Test, TestName, TestSet};

/// What a set wants of s.
#[derive(Clone, Copy, PartialEq)]
enum HighS {
    /// A signature with an s above n / 2 is invalid, as in Bitcoin.
    IsInvalid,
    /// Both s and n - s are valid. Lanes take the low one.
    IsValid,
}

/// How a set writes signatures.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Der,
    P1363,
}

#[derive(Default)]
struct Count {
    refused_before: usize,
    valid: usize,
    invalid: usize,
    cannot_tell: usize,
}

/// The 256 bits of the hash that ECDSA uses.
fn hash(name: TestName, message: &[u8]) -> [u8; 32] {
    match name {
        TestName::EcdsaSecp256k1Sha512 | TestName::EcdsaSecp256k1Sha512P1363 => {
            Sha512::digest(message)[..32].try_into().unwrap()
        }
        _ => Sha256::digest(message).into(),
    }
}

/// The numbers of a signature; none if its encoding is refused.
fn numbers(signature: &[u8], form: Form, high_s: HighS) -> Option<[u8; 64]> {
    let numbers: [u8; 64] = match form {
        Form::Der => ecdsa::Signature::from_der(signature).ok()?.serialize_compact(),
        Form::P1363 => signature.try_into().ok()?,
    };
    if high_s == HighS::IsInvalid {
        return Some(numbers);
    }
    // Numbers out of their range cannot be normalised, and stay as they are.
    let Ok(mut signature) = ecdsa::Signature::from_compact(&numbers) else {
        return Some(numbers);
    };
    signature.normalize_s();
    Some(signature.serialize_compact())
}

fn vectors(name: TestName, form: Form, high_s: HighS) -> (Vec<(Check, Test)>, Vec<Test>) {
    let set = TestSet::load(name).unwrap();
    let (mut checks, mut refused) = (Vec::new(), Vec::new());
    for group in set.test_groups {
        let key = PublicKey::from_slice(&group.key.key).unwrap().serialize();
        for test in group.tests {
            match numbers(&test.sig, form, high_s) {
                Some(numbers) => {
                    let (r, s) = numbers.split_at(32);
                    let (r, s) = (r.try_into().unwrap(), s.try_into().unwrap());
                    let message = hash(name, &test.msg);
                    checks.push((
                        Check {
                            kind: Kind::Ecdsa,
                            key,
                            r,
                            s,
                            message,
                        },
                        test,
                    ));
                }
                None => refused.push(test),
            }
        }
    }
    (checks, refused)
}

/// Compares verdicts with a set's. Lanes are given at least `least` of its vectors.
fn compare(name: TestName, form: Form, high_s: HighS, least: usize) {
    let secp = Secp256k1::verification_only();
    let (vectors, refused) = vectors(name, form, high_s);
    assert!(
        refused.iter().all(|test| test.result == TestResult::Invalid),
        "{name:?}: a valid encoding was refused"
    );
    assert!(
        vectors.len() >= least,
        "{name:?}: lanes were given only {} vectors",
        vectors.len()
    );
    let all: Vec<Check> = vectors.iter().map(|(check, _)| *check).collect();
    for backend in backends() {
        let mut verifier = Verifier::with_backend(backend);
        assert_eq!(verifier.backend(), backend);
        let [mut together, mut alone] = [Vec::new(), Vec::new()];
        verifier.verify(&all, &mut together);
        assert_eq!(together.len(), all.len());
        let mut count = Count {
            refused_before: refused.len(),
            ..Count::default()
        };
        for ((check, test), &verdict) in vectors.iter().zip(&together) {
            let holds = match test.result {
                TestResult::Valid => true,
                TestResult::Invalid => false,
                TestResult::Acceptable => panic!("{name:?} has a vector without a verdict: {test:?}"),
            };
            assert_eq!(reference(&secp, check), holds, "libsecp256k1, {name:?}: {test:?}");
            verifier.verify(&[*check], &mut alone);
            assert_eq!(alone, [verdict], "alone and together, {backend:?}, {name:?}: {test:?}");
            match verdict {
                Verdict::Valid => count.valid += 1,
                Verdict::Invalid => count.invalid += 1,
                Verdict::CannotTell => count.cannot_tell += 1,
            }
            match verdict {
                Verdict::Valid => assert!(holds, "{backend:?}, {name:?}: {test:?}"),
                Verdict::Invalid => assert!(!holds, "{backend:?}, {name:?}: {test:?}"),
                // Wycheproof has no other special case.
                Verdict::CannotTell => assert!(
                    has_small_r(check) || sum_is_special(check),
                    "{backend:?}, {name:?}: {test:?}"
                ),
            }
        }
        eprintln!(
            "{name:?}, {backend:?}: {} refused before, {} valid, {} invalid, {} cannot tell",
            count.refused_before, count.valid, count.invalid, count.cannot_tell
        );
        assert!(
            count.cannot_tell <= 30,
            "{name:?}: lanes left {} to others",
            count.cannot_tell
        );
        assert!(count.valid >= 140 && count.invalid >= 40, "{name:?}");
    }
}

#[test]
fn bitcoin() {
    compare(TestName::EcdsaSecp256k1Sha256Bitcoin, Form::Der, HighS::IsInvalid, 200);
}

#[test]
fn sha256() {
    compare(TestName::EcdsaSecp256k1Sha256, Form::Der, HighS::IsValid, 200);
}

#[test]
fn sha256_p1363() {
    compare(TestName::EcdsaSecp256k1Sha256P1363, Form::P1363, HighS::IsValid, 200);
}

#[test]
fn sha512() {
    compare(TestName::EcdsaSecp256k1Sha512, Form::Der, HighS::IsValid, 200);
}

#[test]
fn sha512_p1363() {
    compare(TestName::EcdsaSecp256k1Sha512P1363, Form::P1363, HighS::IsValid, 200);
}

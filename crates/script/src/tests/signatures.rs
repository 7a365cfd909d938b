//! Signatures alone, without scripts.

use super::lanes::{Lie, verifier_with};
use crate::lanes::Lanes;
use crate::{Check, CoreVerifier, Kind, Signatures};
use bitcoin::hex::FromHex;
use bitcoin::secp256k1::{Keypair, Message, Scalar, Secp256k1, SecretKey};
use blockmill_rules::ScriptVerifier;
use secp256k1_lanes::{Backend, Verifier};
use std::num::NonZeroU64;

/// Signatures of both kinds; every third one is wrong.
fn checks(count: u8) -> (Vec<Check>, Vec<bool>) {
    let secp = Secp256k1::new();
    let check = |number: u8| {
        let pair = Keypair::from_seckey_slice(&secp, &[number + 1; 32]).unwrap();
        let message = Message::from_digest([number; 32]);
        let ecdsa = number.is_multiple_of(2);
        let signature = match ecdsa {
            true => secp.sign_ecdsa(&message, &pair.secret_key()).serialize_compact(),
            false => *secp.sign_schnorr_no_aux_rand(&message, &pair).as_ref(),
        };
        let mut key = pair.public_key().serialize();
        if !ecdsa {
            key[1..].copy_from_slice(&pair.x_only_public_key().0.serialize());
        }
        let holds = !number.is_multiple_of(3);
        let check = Check {
            kind: if ecdsa { Kind::Ecdsa } else { Kind::Schnorr },
            key,
            r: signature[..32].try_into().unwrap(),
            s: signature[32..].try_into().unwrap(),
            message: [number + u8::from(!holds); 32],
        };
        (check, holds)
    };
    (0..count).map(check).unzip()
}

#[test]
fn hold_or_not_whatever_the_way() {
    let (all, holds) = checks(200);
    for verifier in [
        CoreVerifier::new(Signatures::OneByOne),
        CoreVerifier::new(Signatures::Lanes),
        verifier_with(Lie::Never),
        verifier_with(Lie::CannotTell),
    ] {
        for count in [0, 1, 31, 200] {
            let found = verifier.verify_signatures(&all[..count]).unwrap();
            assert_eq!(found, holds[..count]);
        }
    }
}

/// Numbers at the ends of their ranges, and beyond.
fn ends() -> Vec<[u8; 32]> {
    let number = |digits: &str| <[u8; 32]>::from_hex(digits).unwrap();
    let around = [
        "7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0",
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141",
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F",
    ];
    let around = around.into_iter().flat_map(|digits| {
        let middle = number(digits);
        let [mut below, mut above] = [middle; 2];
        below[31] -= 1;
        above[31] += 1;
        [below, middle, above]
    });
    let one = std::array::from_fn(|index| u8::from(index == 31));
    around.chain([[0; 32], one, [0xff; 32]]).collect()
}

/// Valid checks of each kind, with their parts put to what a caller may have by mistake: numbers
/// out of their ranges, prefixes that no key has, bytes that are no parity, a high s.
fn odd_checks() -> Vec<Check> {
    let secp = Secp256k1::new();
    let (of_two_kinds, _) = checks(4);
    let internal = Keypair::from_seckey_slice(&secp, &[9; 32])
        .unwrap()
        .x_only_public_key()
        .0;
    let (output, parity) = internal
        .add_tweak(&secp, &Scalar::from_be_bytes([3; 32]).unwrap())
        .unwrap();
    let mut tweak = Check {
        kind: Kind::Tweak,
        key: [2; 33],
        r: output.serialize(),
        s: [3; 32],
        message: [0; 32],
    };
    tweak.key[1..].copy_from_slice(&internal.serialize());
    tweak.message[0] = parity.to_u8();
    let mut high_s = of_two_kinds[2];
    let negated = SecretKey::from_slice(&high_s.s).unwrap().negate();
    high_s.s = negated.secret_bytes();
    let mut odd = vec![high_s];
    for base in [of_two_kinds[2], of_two_kinds[1], tweak] {
        odd.push(base);
        for byte in 0..=u8::MAX {
            let mut other = base;
            other.message[0] = byte;
            odd.push(other);
            other.message = [byte; 32];
            odd.push(other);
            other = base;
            other.message[31] = byte;
            odd.push(other);
            other = base;
            other.key[0] = byte;
            odd.push(other);
        }
        for end in ends() {
            let mut other = base;
            other.key[1..].copy_from_slice(&end);
            odd.push(other);
            odd.push(Check { message: end, ..base });
            odd.push(Check { s: end, ..base });
            odd.push(Check { r: end, ..base });
            odd.extend(ends().into_iter().map(|s| Check { r: end, s, ..base }));
        }
    }
    odd
}

/// The lanes and libsecp256k1 read every field of a check in the same way, and no check leaves a
/// verifier without verdicts.
#[test]
fn odd_checks_have_one_verdict() {
    let odd = odd_checks();
    let expected = CoreVerifier::new(Signatures::OneByOne).verify_signatures(&odd).unwrap();
    let valid = expected.iter().filter(|&&holds| holds).count();
    assert!(valid > 700 && odd.len() - valid > 1_000, "{valid} of {}", odd.len());
    let (honest, holds) = checks(200);
    for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
        let lanes = move || Box::new(Verifier::with_backend(backend)) as Box<dyn Lanes>;
        let verifier = CoreVerifier::with_lanes(lanes).with_rechecked_one_in(NonZeroU64::MIN);
        for (odd, expected) in odd.chunks(100).zip(expected.chunks(100)) {
            assert_eq!(verifier.verify_signatures(odd).unwrap(), expected, "{backend:?}");
            let before = &honest[..40];
            let mixed = before.iter().flat_map(|honest| [honest, &odd[0]]).copied();
            let mixed: Vec<Check> = mixed.collect();
            let found = verifier.verify_signatures(&mixed).unwrap();
            assert!(found.iter().step_by(2).eq(&holds[..40]) && found[1] == expected[0]);
        }
        assert_eq!(verifier.verify_signatures(&honest).unwrap(), holds);
        assert!(verifier.signature_counts().lanes > odd.len() as u64 / 2);
    }
}

/// A contradiction ends everything.
#[test]
fn lanes_that_lie() {
    let (all, _) = checks(200);
    let verifier = verifier_with(Lie::Valid);
    let found = (0..1_000).find_map(|_| verifier.verify_signatures(&all).err());
    assert!(found.is_some());
    assert!(verifier.verify_signatures(&all[..1]).is_err());
}

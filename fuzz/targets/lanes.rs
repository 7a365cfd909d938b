//! The input describes signature checks, mostly valid ones, and changes to them.
//!
//! Checked: every verdict is libsecp256k1's or "cannot tell", of one lane, the fastest backend of
//! this machine, AVX2 and AVX-512 without IFMA. If no key repeats, all give the same verdicts, and
//! the first check has the same verdict alone and in the batch. If keys repeat, backends differ in
//! which checks take the comb, and its special cases are others. An unchanged check is valid.
//!
//! Scalars may be small, negative or powers of two, so that the lanes meet their special cases.

#![no_main]

use blockmill_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use secp256k1::{Keypair, Message, Parity, PublicKey, SECP256K1, Scalar, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use secp256k1_lanes::{Backend, Check, Kind, Verdict, Verifier};
use std::collections::HashSet;

/// Most checks of an input: groups of all backends, and checks in a group that is not full.
const CHECKS_MAX: usize = 40;

/// How often each check is in the batch in which all keys repeat.
const REPEATS: usize = 4;

/// Numbers at the ends of ranges: n, p, half of n, p - n, and all ones.
const ENDS: [[u64; 4]; 5] = [
    [
        u64::MAX,
        0xffff_ffff_ffff_fffe,
        0xbaae_dce6_af48_a03b,
        0xbfd2_5e8c_d036_4141,
    ],
    [u64::MAX, u64::MAX, u64::MAX, 0xffff_fffe_ffff_fc2f],
    [
        0x7fff_ffff_ffff_ffff,
        u64::MAX,
        0x5d57_6e73_57a4_501d,
        0xdfe9_2f46_681b_20a0,
    ],
    [0, 1, 0x4551_2319_50b7_5fc4, 0x402d_a172_2fc9_baee],
    [u64::MAX; 4],
];

/// The number at an end, plus a few.
fn end(input: &mut Input<'_>) -> [u8; 32] {
    let mut limbs = [[0; 4]]
        .iter()
        .chain(&ENDS)
        .copied()
        .nth(usize::from(input.u8()) % 6)
        .unwrap_or_default();
    let offset = i64::from(input.u8().cast_signed());
    limbs[3] = limbs[3].wrapping_add_signed(offset);
    let mut bytes = [0; 32];
    for (bytes, limb) in bytes.chunks_exact_mut(8).zip(limbs) {
        bytes.copy_from_slice(&limb.to_be_bytes());
    }
    bytes
}

/// A scalar that is not 0.
fn scalar(input: &mut Input<'_>) -> SecretKey {
    let mut bytes = [0; 32];
    let how = input.u8();
    match how % 4 {
        0 => bytes[30..].copy_from_slice(&input.array::<2>()),
        1 => bytes = input.array(),
        2 => {
            let bit = usize::from(input.u8());
            bytes[bit / 8] = 1 << (bit % 8);
        }
        _ => bytes = end(input),
    }
    let mut one = [0; 32];
    one[31] = 1;
    let scalar = SecretKey::from_slice(&bytes).unwrap_or_else(|_| SecretKey::from_slice(&one).expect("1 is a scalar"));
    if how & 4 == 0 { scalar } else { scalar.negate() }
}

fn product(a: SecretKey, b: SecretKey) -> SecretKey {
    a.mul_tweak(&Scalar::from(b)).expect("n is prime")
}

fn halves(signature: &[u8; 64]) -> [[u8; 32]; 2] {
    [0, 32].map(|first| std::array::from_fn(|index| signature[first + index]))
}

fn with_prefix(prefix: u8, x: &[u8]) -> [u8; 33] {
    let mut key = [prefix; 33];
    key[1..].copy_from_slice(x);
    key
}

/// A valid ECDSA signature with the key d G, the nonce k G and u2 = 1 / w: s = r w, and so the
/// message is s k - r d.
fn ecdsa_check(input: &mut Input<'_>) -> Option<Check> {
    let (d, k, w) = (scalar(input), scalar(input), scalar(input));
    let nonce = k.public_key(SECP256K1).serialize();
    // No nonce with an x coordinate of n or more is known.
    let r = SecretKey::from_slice(&nonce[1..]).ok()?;
    let s = product(r, w);
    let message = product(s, k).add_tweak(&Scalar::from(product(r, d).negate()));
    let numbers = [r.secret_bytes(), s.secret_bytes()].concat();
    let mut signature = ecdsa::Signature::from_compact(&numbers).ok()?;
    signature.normalize_s();
    let [r, s] = halves(&signature.serialize_compact());
    Some(Check {
        kind: Kind::Ecdsa,
        key: d.public_key(SECP256K1).serialize(),
        r,
        s,
        // The sum is 0: no message.
        message: message.map_or([0; 32], |message| message.secret_bytes()),
    })
}

fn schnorr_check(input: &mut Input<'_>) -> Check {
    let pair = Keypair::from_secret_key(SECP256K1, &scalar(input));
    let message = input.array();
    let signature = SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(message), &pair);
    let [r, s] = halves(&signature.serialize());
    Check {
        kind: Kind::Schnorr,
        key: with_prefix(2, &pair.x_only_public_key().0.serialize()),
        r,
        s,
        message,
    }
}

fn tweak_check(input: &mut Input<'_>) -> Option<Check> {
    let internal = Keypair::from_secret_key(SECP256K1, &scalar(input))
        .x_only_public_key()
        .0;
    let tweak = scalar(input);
    // The sum is infinity: no check.
    let (output, parity) = internal.add_tweak(SECP256K1, &Scalar::from(tweak)).ok()?;
    let mut message = [0; 32];
    message[0] = u8::from(parity == Parity::Odd);
    Some(Check {
        kind: Kind::Tweak,
        key: with_prefix(2, &internal.serialize()),
        r: output.serialize(),
        s: tweak.secret_bytes(),
        message,
    })
}

/// A check of arbitrary bytes, hardly ever valid.
fn raw_check(kind: Kind, input: &mut Input<'_>) -> Check {
    Check {
        kind,
        key: input.array(),
        r: input.array(),
        s: input.array(),
        message: input.array(),
    }
}

/// Changes a part of a check.
fn change(check: &mut Check, input: &mut Input<'_>) {
    let part = input.u8();
    let number: &mut [u8] = match part % 4 {
        0 => &mut check.r,
        1 => &mut check.s,
        2 => &mut check.message,
        _ => &mut check.key[1..],
    };
    match part / 4 % 4 {
        0 => number.copy_from_slice(&end(input)),
        1 => number.copy_from_slice(&input.array::<32>()),
        _ => {
            let bit = usize::from(input.u8());
            number[bit / 8] ^= 1 << (bit % 8);
        }
    }
    if part & 0x80 != 0 {
        check.key[0] = input.u8();
    }
}

/// A check, and whether it is certainly valid.
fn check(input: &mut Input<'_>) -> (Check, bool) {
    let how = input.u8();
    let kind = [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak][usize::from(how % 3)];
    let made = match kind {
        _ if how & 0x80 != 0 => None,
        Kind::Ecdsa => ecdsa_check(input),
        Kind::Schnorr => Some(schnorr_check(input)),
        Kind::Tweak => tweak_check(input),
    };
    let Some(mut made) = made else {
        return (raw_check(kind, input), false);
    };
    if how & 0x40 == 0 {
        return (made, true);
    }
    change(&mut made, input);
    (made, false)
}

/// The verdict of libsecp256k1.
fn reference(check: &Check) -> bool {
    let numbers = [check.r, check.s].concat();
    let message = Message::from_digest(check.message);
    let x_only = || XOnlyPublicKey::from_slice(&check.key[1..]).ok();
    let holds = || match check.kind {
        Kind::Ecdsa => {
            let key = PublicKey::from_slice(&check.key).ok()?;
            let signature = ecdsa::Signature::from_compact(&numbers).ok()?;
            SECP256K1.verify_ecdsa(&message, &signature, &key).ok()
        }
        Kind::Schnorr => {
            let signature = schnorr::Signature::from_slice(&numbers).ok()?;
            SECP256K1.verify_schnorr(&signature, &message, &x_only()?).ok()
        }
        Kind::Tweak => {
            let output = XOnlyPublicKey::from_slice(&check.r).ok()?;
            let tweak = Scalar::from_be_bytes(check.s).ok()?;
            let parity = Parity::from_u8(check.message[0]).ok()?;
            x_only()?
                .tweak_add_check(SECP256K1, &output, parity, tweak)
                .then_some(())
        }
    };
    holds().is_some()
}

thread_local! {
    /// Verifiers of one lane, of the fastest backend and of those that compute in floats. Backends
    /// that are missing have one lane.
    static VERIFIERS: std::cell::RefCell<[Verifier; 4]> =
        [Backend::Portable, Backend::detect(), Backend::Avx2, Backend::Avx512F].map(Verifier::with_backend).into();
}

fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut checks = Vec::new();
    let mut expected = Vec::new();
    while !input.is_empty() && checks.len() < CHECKS_MAX {
        let (check, is_valid) = check(&mut input);
        let holds = reference(&check);
        assert!(holds || !is_valid, "made valid, and refused by libsecp256k1: {check:?}");
        checks.push(check);
        expected.push(if holds { Verdict::Valid } else { Verdict::Invalid });
    }
    let agree = |backend: Backend, checks: &[Check], verdicts: &[Verdict]| {
        assert_eq!(verdicts.len(), checks.len());
        for ((check, verdict), expected) in checks.iter().zip(verdicts).zip(expected.iter().cycle()) {
            let agrees = [*expected, Verdict::CannotTell].contains(verdict);
            assert!(agrees, "{backend:?}: {verdict:?} instead of {expected:?}: {check:?}");
        }
    };
    let keys: HashSet<&[u8]> = checks.iter().map(|check| &check.key[1..]).collect();
    let are_distinct = keys.len() == checks.len();
    let repeated = checks.repeat(REPEATS);
    VERIFIERS.with_borrow_mut(|[portable, vectors @ ..]| {
        let (mut verdicts, mut others) = (Vec::new(), Vec::new());
        portable.verify(&checks, &mut verdicts);
        agree(portable.backend(), &checks, &verdicts);
        for vector in vectors {
            vector.verify(&checks, &mut others);
            agree(vector.backend(), &checks, &others);
            assert!(
                !are_distinct || verdicts == others,
                "{:?}: {checks:?}",
                vector.backend()
            );
            vector.verify(&repeated, &mut others);
            agree(vector.backend(), &repeated, &others);
        }
        // The first check alone.
        if let [first, _, ..] = &checks[..]
            && are_distinct
        {
            portable.verify(&[*first], &mut others);
            assert_eq!(others, verdicts[..1], "{first:?}");
        }
    });
}

fuzz_target!(|data: &[u8]| run(data));

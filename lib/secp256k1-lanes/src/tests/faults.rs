//! Every carry and every mask is needed: each is left out once, and the tests see it.

use super::arithmetic::generic;
use super::{Rng, big, intervals, n, number};
use crate::batch::Batch;
use crate::batch::tests::{bytes, key, ranges_are_looked_at, tables_of_all_blocks_are_looked_at};
use crate::compare::tests::results_that_are_none;
use crate::curve::Curve;
use crate::fault::{Fault, PLANTED};
use crate::field::Fe;
use crate::model::Products;
use crate::number::{Number, P};
use crate::question::{Check, Kind, Verdict};
use crate::scalar::Scalar;
use crate::scalar::tests::ranges_of_halves;
use num_bigint::{BigInt, BigUint};
use std::panic::catch_unwind;

fn lambda() -> BigUint {
    BigUint::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16).unwrap()
}

fn verdict(check: &Check) -> Verdict {
    let mut verdicts = [Verdict::Invalid];
    Batch::<u64>::default().verify(&[*check], &mut verdicts);
    verdicts[0]
}

/// The generator's x coordinate.
fn generator_x() -> Number {
    let [a, b, c, d, ..] = Curve::secp256k1().generator[0].0;
    [a, b, c, d]
}

/// The ECDSA check with these u1, u2 and r: s is r / u2, and the message u1 s. None if s is high.
fn ecdsa(key: [u8; 33], u1: &BigUint, u2: &BigUint, r: &BigUint) -> Option<Check> {
    let n = n();
    let s = r * u2.modinv(&n).unwrap() % &n;
    (s <= &n >> 1).then(|| Check {
        kind: Kind::Ecdsa,
        key,
        r: bytes(&number(r)),
        s: bytes(&number(&s)),
        message: bytes(&number(&(u1 * s % &n))),
    })
}

/// A multiple of the generator, compressed.
fn multiple(scalar: &BigUint) -> [u8; 33] {
    let secp = secp256k1::Secp256k1::new();
    let secret = secp256k1::SecretKey::from_slice(&bytes(&number(scalar))).unwrap();
    secret.public_key(&secp).serialize()
}

/// Digits from the highest down of a half, as the odd numbers that they stand for.
fn digits(scalar: &BigUint, width: usize, positions: [usize; 2]) -> [[i64; 2]; 2] {
    let (halves, _) = Scalar::<u64>::from_numbers(&[number(scalar); 8]).split();
    halves
        .each_ref()
        .map(|half| positions.map(|position| 2 * half.digit(position * width, width) as i64 - (1 << width) + 1))
}

/// A signature, not valid, for which u1 G and u2 P are equal: without a mask the equation of the
/// comparison would hold for any r.
fn equal_multiples(dice: &mut Rng) -> Check {
    let n = n();
    let mut random = || big(&std::array::from_fn(|_| dice.next())) % &n;
    loop {
        let (u, r) = (random(), random());
        if let Some(check) = ecdsa(key(2, &generator_x()), &u, &u, &r) {
            return check;
        }
    }
}

/// A check for which the last addition of the walk adds a point to itself: u2 is twice what its own
/// lowest digits stand for.
fn walk_doubles(dice: &mut Rng) -> Check {
    let (n, lambda) = (n(), lambda());
    let mut random = || big(&std::array::from_fn(|_| dice.next())) % &n;
    let odd = || (0..32_u32).map(|digit| i64::from(2 * digit) - 31);
    let residue = |digit: i64| (BigInt::from(digit) + BigInt::from(n.clone())).to_biguint().unwrap();
    let u2 = odd()
        .flat_map(|first| odd().map(move |second| [first, second]))
        .find_map(|wanted| {
            let [first, second] = wanted.map(residue);
            let u2 = (first + second * &lambda) * 2_u32 % &n;
            (digits(&u2, 5, [0, 0]).map(|digits| digits[0]) == wanted).then_some(u2)
        });
    let u2 = u2.unwrap();
    loop {
        if let Some(check) = ecdsa(key(2, &generator_x()), &random(), &u2, &random()) {
            return check;
        }
    }
}

/// Checks in which exactly one mask decides, with the verdicts that must be.
fn masks_decide() {
    let mut dice = Rng(11);
    let n = n();
    let mut random = || big(&std::array::from_fn(|_| dice.next())) % &n;
    // The generator's y is even; an odd one is that of its negative. r = x(u1 G + u2 (-G)).
    for (prefix, sign) in [(2, BigUint::from(1_u32)), (3, &n - 1_u32)] {
        let check = loop {
            let (u1, u2) = (random(), random());
            let r = BigUint::from_bytes_be(&multiple(&((&u1 + &u2 * &sign) % &n))[1..]);
            if let Some(check) = ecdsa(key(prefix, &generator_x()), &u1, &u2, &r) {
                break check;
            }
        };
        assert_eq!(verdict(&check), Verdict::Valid);
        let mut other_parity = check;
        other_parity.key[0] ^= 1;
        assert_eq!(verdict(&other_parity), Verdict::Invalid);
        // x = 5 has no point. One of the prefixes fits the y that the result demands: only its
        // square decides.
        for prefix in [2, 3] {
            let no_point = Check {
                key: key(prefix, &[5, 0, 0, 0]),
                ..check
            };
            assert_eq!(verdict(&no_point), Verdict::Invalid);
        }
    }
    // The point with x = 1 written with an x of p + 1: u1 G + u2 P, computed by the lanes' own
    // arithmetic.
    let one = Fe::<u64>::small(1);
    let y = crate::field::square_root(&Fe::<u64>::small(8)).normalize();
    let prefix = if y.0[0] & 1 == 1 { 3 } else { 2 };
    let check = loop {
        let (u1, u2) = (random(), random());
        let r = BigUint::from_bytes_be(&sum_x(&u1, &u2, prefix));
        if let Some(check) = ecdsa(key(prefix, &one.number(0)), &u1, &u2, &r) {
            break check;
        }
    };
    assert_eq!(verdict(&check), Verdict::Valid);
    let mut too_large = check;
    too_large.key = key(prefix, &number(&(big(&P) + 1_u32)));
    assert_eq!(verdict(&too_large), Verdict::Invalid);
    // A tweak of the generator, of one parity and of the other.
    let by = random();
    let [prefix, output @ ..] = multiple(&(&by + 1_u32));
    let tweak = |odd: u8| Check {
        kind: Kind::Tweak,
        key: key(2, &generator_x()),
        r: output,
        s: bytes(&number(&by)),
        message: [odd; 32],
    };
    let verdicts = [prefix, prefix + 1].map(|odd| verdict(&tweak(odd & 1)));
    assert_eq!(verdicts, [Verdict::Valid, Verdict::Invalid]);
    // An r that may be two x coordinates.
    let mut small = check;
    small.r = bytes(&[5, 0, 0, 0]);
    assert_eq!(verdict(&small), Verdict::CannotTell);
    // A sum that is infinity, one of equal points, and a walk that ends with one.
    let infinite = loop {
        let u2 = random();
        if let Some(check) = ecdsa(key(2, &generator_x()), &(&n - &u2), &u2, &random()) {
            break check;
        }
    };
    assert_eq!(verdict(&infinite), Verdict::CannotTell);
    assert_eq!(verdict(&equal_multiples(&mut Rng(12))), Verdict::CannotTell);
    assert_eq!(verdict(&walk_doubles(&mut Rng(12))), Verdict::CannotTell);
}

/// A key that is no point, and has an order of 3,319 on its own curve. Sums of its multiples meet
/// special cases, as no point's do.
fn few_multiples() {
    let x = BigUint::parse_bytes(b"c239d83b03258d284b642dd749022d51d71241a4773b948f129c134980cb2fdf", 16);
    let check = |message: u8, kind: Kind| Check {
        kind,
        key: key(2, &number(x.as_ref().unwrap())),
        r: [7; 32],
        s: [7; 32],
        message: [message; 32],
    };
    let mut batch = Batch::<u64>::default();
    let mut verdicts = [Verdict::Valid; 4];
    let mut met = 0;
    for message in 0..=u8::MAX {
        // Four checks of one key take the comb.
        batch.verify(&[check(message, Kind::Schnorr); 4], &mut verdicts);
        if batch.met_special_cases() {
            assert_eq!(verdicts, [Verdict::CannotTell; 4]);
            met += 1;
        }
        assert!(!verdicts.contains(&Verdict::Valid));
        // Nothing is left for a key without a special case.
        batch.verify(&[check(message & 1, Kind::Tweak); 4], &mut verdicts);
        assert_eq!(verdicts, [Verdict::Invalid; 4]);
    }
    assert!(met > 0);
}

/// Checks of a key that repeats, valid and not, between others: a part of them takes the comb.
fn combs_decide() {
    use secp256k1::{Message, Secp256k1, SecretKey};
    let secp = Secp256k1::signing_only();
    let mut checks = Vec::new();
    let mut expected = Vec::new();
    for (index, key) in [1, 2, 1, 1, 3, 2, 1, 4, 1, 2, 2, 1, 5, 2].into_iter().enumerate() {
        let secret = SecretKey::from_slice(&[key; 32]).unwrap();
        let mut message = [1 + index as u8; 32];
        let signature = secp
            .sign_ecdsa(&Message::from_digest(message), &secret)
            .serialize_compact();
        let is_valid = ![2, 3, 5, 11].contains(&index);
        message[7] ^= u8::from(!is_valid);
        checks.push(Check {
            kind: Kind::Ecdsa,
            key: secret.public_key(&secp).serialize(),
            r: signature[..32].try_into().unwrap(),
            s: signature[32..].try_into().unwrap(),
            message,
        });
        expected.push([Verdict::Invalid, Verdict::Valid][usize::from(is_valid)]);
    }
    let mut verdicts = vec![Verdict::CannotTell; checks.len()];
    Batch::<u64>::default().verify(&checks, &mut verdicts);
    assert_eq!(verdicts, expected);
}

/// x of u1 G + u2 P, for the P with x = 1 and this prefix.
fn sum_x(u1: &BigUint, u2: &BigUint, prefix: u8) -> [u8; 32] {
    use secp256k1::{PublicKey, Scalar, Secp256k1, SecretKey};
    let secp = Secp256k1::new();
    let scalar = |value: &BigUint| bytes(&number(value));
    let point = PublicKey::from_slice(&key(prefix, &[1, 0, 0, 0])).unwrap();
    let second = point
        .mul_tweak(&secp, &Scalar::from_be_bytes(scalar(u2)).unwrap())
        .unwrap();
    let first = SecretKey::from_slice(&scalar(u1)).unwrap().public_key(&secp);
    first.combine(&second).unwrap().serialize()[1..].try_into().unwrap()
}

/// All tests that are to see faults, on one lane, with each kind of products.
fn everything() {
    for products in Products::ALL {
        products.with(with_each_kind_of_products);
    }
}

fn with_each_kind_of_products() {
    intervals::whole_computation();
    ranges_are_looked_at();
    results_that_are_none();
    ranges_of_halves();
    generic::field_is_normalized::<u64>(4);
    generic::field_operations::<u64>(4);
    generic::scalar_products::<u64>(4);
    generic::scalars_are_split::<u64>(4);
    generic::field_inverses::<u64>(1);
    tables_of_all_blocks_are_looked_at();
    masks_decide();
    combs_decide();
    few_multiples();
}

#[test]
fn masks() {
    masks_decide();
}

#[test]
fn keys_with_few_multiples() {
    few_multiples();
}

#[test]
fn every_planted_fault_is_found() {
    let mut faults = vec![
        Fault::AboveFold,
        Fault::TopFold,
        Fault::TopMask,
        Fault::WideTopFold,
        Fault::WideTopMask,
        Fault::NormalFold,
        Fault::NormalSubtraction,
        Fault::HalfRange,
        Fault::KeyRange,
        Fault::RRange,
        Fault::RZero,
        Fault::SRange,
        Fault::SZero,
        Fault::KeyPrefix,
        Fault::ParityRange,
        Fault::SmallR,
        Fault::Root,
        Fault::ZeroDenominator,
        Fault::ZeroReplaced,
        Fault::ComparisonZero,
        Fault::OffCurve(0),
        Fault::OffCurve(1),
        Fault::KeyParity,
        Fault::ResultParity,
        Fault::BlockDoubling,
        Fault::KeyBlock,
        Fault::BlockSum,
        Fault::BlockUnsure,
        Fault::Order,
    ];
    faults.extend((0..10).map(Fault::Start));
    faults.extend((0..10).map(Fault::WideCarry));
    faults.extend((0..4).map(Fault::Carry));
    faults.extend((5..9).map(Fault::UpperCarry));
    faults.extend((0..5).map(Fault::ScalarCarry));
    faults.extend((0..4).map(Fault::ScalarResultCarry));
    faults.extend((0..2).map(Fault::QuotientCarry));
    faults.extend((0..2).map(Fault::HalfCarry));
    faults.extend((0..2).map(Fault::Odd));
    everything();
    // Made before a fault is planted.
    Curve::secp256k1();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Fault> = faults
        .into_iter()
        .filter(|&fault| {
            PLANTED.set(Some(fault));
            let found = catch_unwind(everything).is_err();
            PLANTED.set(None);
            !found
        })
        .collect();
    std::panic::set_hook(hook);
    assert_eq!(missed, []);
}

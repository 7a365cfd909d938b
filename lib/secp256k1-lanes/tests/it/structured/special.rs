//! Checks that meet a special case at a given step.

use super::Cases;
use crate::common::known::key;
use crate::common::model::{GENERATOR_WIDTH, Halves, POINT_WIDTH, Road, STRIDE, Schedule, Step};
use crate::common::scalar::Scalar;
use crate::common::{Rng, challenge, parts};
use num_bigint::BigInt;
use secp256k1_lanes::{Check, Kind};

/// Keys for which a given step of the schedule adds equal or opposite points, for random scalars.
pub(super) fn special_keys(road: Road, cases: &mut Cases, dice: &mut Rng) {
    for step in Step::all(road).filter(|step| step.depends_on_key()) {
        for are_opposite in [false, true] {
            // Until s is low: if not, the lanes see other scalars, -u1 and -u2.
            loop {
                let (u1, u2) = (dice.scalar(), dice.scalar());
                let d = Schedule::new(road, u1, u2).special_log(step, are_opposite);
                let check = cases.built(u1, u2, d, dice);
                let (seen_u1, seen_u2, _) = parts(&check).unwrap();
                if (seen_u1, seen_u2) == (u1, u2) {
                    cases.special.push((check, step));
                    break;
                }
            }
            // Until the key has an even y: if not, the lanes see -d.
            loop {
                let tweak = dice.scalar();
                let d = Schedule::new(road, tweak, Scalar::ONE).special_log(step, are_opposite);
                if cases.points.point(d).even() == d {
                    let check = cases.tweak(d, tweak, dice);
                    cases.special.push((check, step));
                    break;
                }
            }
        }
    }
}

/// Signatures of BIP340 with the key G, for which digits of u1 are those of u2, or their negatives.
pub(super) fn special_digits(cases: &mut Cases, dice: &mut Rng) {
    // Valid ones: other messages are tried until digits meet. G has an even y.
    let (nonce, public) = (cases.points.point(dice.scalar()), cases.points.point(Scalar::ONE));
    for _ in 0..3 {
        let mut message = dice.bytes();
        loop {
            message[..8].copy_from_slice(&dice.next().to_le_bytes());
            let e = challenge(&nonce.x, &public.x, &message);
            let s = nonce.even() + e;
            if let Some(position) = meeting_digits(s, -e) {
                let check = Check {
                    kind: Kind::Schnorr,
                    key: key(2, &public.x),
                    r: nonce.x,
                    s: s.bytes(),
                    message,
                };
                cases.special.push((check, Step::Sum { position }));
                break;
            }
        }
    }
    // Invalid ones: u1 is built of digits.
    for position in 0..12 {
        for sign in [1, -1] {
            loop {
                let (r, message) = (cases.points.point(dice.scalar()).x, dice.bytes());
                let u2 = -challenge(&r, &public.x, &message);
                let wanted = Halves::new(u2).digits(POINT_WIDTH)[position * STRIDE].map(|digit| digit * sign);
                let mut halves = Halves::new(dice.scalar());
                let present = halves.digits(GENERATOR_WIDTH)[position];
                for (half, (wanted, present)) in halves.0.iter_mut().zip(wanted.into_iter().zip(present)) {
                    *half += BigInt::from(wanted - present) << (position * GENERATOR_WIDTH);
                }
                let u1 = halves.scalar();
                if Halves::new(u1) == halves {
                    let check = Check {
                        kind: Kind::Schnorr,
                        key: key(2, &public.x),
                        r,
                        s: u1.bytes(),
                        message,
                    };
                    cases.special.push((
                        check,
                        Step::Sum {
                            position: position * STRIDE,
                        },
                    ));
                    break;
                }
            }
        }
    }
}

/// The position where both digits of u1 are those of u2, or their negatives.
fn meeting_digits(u1: Scalar, u2: Scalar) -> Option<usize> {
    let of_generator = Halves::new(u1).digits(GENERATOR_WIDTH);
    let of_point = Halves::new(u2).digits(POINT_WIDTH);
    let meets = |position: usize| {
        let ([a, b], [c, d]) = (of_generator[position], of_point[position * STRIDE]);
        (a, b) == (c, d) || (a, b) == (-c, -d)
    };
    (0..of_generator.len())
        .find(|position| meets(*position))
        .map(|position| position * STRIDE)
}

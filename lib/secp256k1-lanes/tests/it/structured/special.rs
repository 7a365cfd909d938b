//! Checks that meet a special case.

use super::Cases;
use crate::common::known::key;
use crate::common::scalar::Scalar;
use crate::common::{Rng, challenge};
use secp256k1_lanes::{Check, Kind};

/// Keys for which u1 G and u2 P are equal or opposite, for random scalars.
pub(super) fn special_keys(cases: &mut Cases, dice: &mut Rng) {
    for case in 0..24 {
        let opposite = |scalar: Scalar| if case % 2 == 0 { -scalar } else { scalar };
        let (u1, u2) = (dice.scalar(), dice.scalar());
        let check = cases.built(u1, u2, opposite(u1 * u2.invert()), dice);
        cases.special.push(check);
        // Until the key has an even y: if not, the lanes see -d.
        loop {
            let tweak = dice.scalar();
            let d = opposite(tweak);
            if cases.points.point(d).even() == d {
                let check = cases.tweak(d, tweak, dice);
                cases.special.push(check);
                break;
            }
        }
        // A signature of BIP340 whose s is as much as the challenge, for the key G, which has an
        // even y.
        let (r, message) = (cases.points.point(dice.scalar()).x, dice.bytes());
        let public = cases.points.point(Scalar::ONE);
        let check = Check {
            kind: Kind::Schnorr,
            key: key(2, &public.x),
            r,
            s: opposite(challenge(&r, &public.x, &message)).bytes(),
            message,
        };
        cases.special.push(check);
    }
}

/// Checks with a u1 of 0: the last sum of G's positions is that of opposite points.
pub(super) fn u1_of_zero(cases: &mut Cases, dice: &mut Rng) {
    let (d, k) = (dice.scalar(), dice.scalar());
    let signature = cases.sign(d, k, [0; 32]);
    let tweak = cases.tweak(d, Scalar::ZERO, dice);
    let mut zero = cases.sign_schnorr(d, k, dice.bytes());
    zero.s = [0; 32];
    cases.special.extend([signature, tweak, zero]);
}

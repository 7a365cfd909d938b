//! Points and their multiples.

use super::{n, number};
use crate::curve::{Curve, GENERATOR_ENTRIES};
use crate::field::Fe;
use crate::number::to_bytes;
use crate::point::{Affine, Group, Jacobian};
use crate::positions::{GENERATOR_POSITIONS, GENERATOR_WIDTH};
use num_bigint::BigUint;
use secp256k1::SecretKey;

fn on_curve(p: &Affine<u64>) -> bool {
    let right = p.x.square().mul(&p.x).add(&Fe::small(7));
    p.y.square().sub(&right).is_zero()
}

#[test]
fn table() {
    let curve = Curve::secp256k1();
    for (i, row) in curve.generator.iter().enumerate() {
        let [a, b, c, d, e, f, g, h] = row.0;
        let p = Affine {
            x: Fe::<u64>::broadcast(&[a, b, c, d]),
            y: Fe::broadcast(&[e, f, g, h]),
        };
        assert!(on_curve(&p), "{i}");
    }
}

/// The rows are the multiples that they should be.
#[test]
fn tables_of_all_positions() {
    let secp = secp256k1::Secp256k1::signing_only();
    let lambda = BigUint::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16);
    let turns = [BigUint::from(1_u32), lambda.unwrap()];
    let rows = &Curve::secp256k1().generator;
    assert_eq!(rows.len(), 2 * GENERATOR_POSITIONS * GENERATOR_ENTRIES);
    for (i, row) in rows.iter().enumerate() {
        let (table, entry) = (i / GENERATOR_ENTRIES, i % GENERATOR_ENTRIES);
        let odd = BigUint::from(2 * entry + 1);
        let scalar = ((odd << (table / 2 * GENERATOR_WIDTH)) * &turns[table % 2]) % n();
        let secret = SecretKey::from_slice(&to_bytes(&number(&scalar))).unwrap();
        let point = secret.public_key(&secp).serialize_uncompressed();
        let [a, b, c, d, e, f, g, h] = row.0;
        assert_eq!(to_bytes(&[a, b, c, d]), point[1..33], "{i}");
        assert_eq!(to_bytes(&[e, f, g, h]), point[33..], "{i}");
    }
}

fn on_j(p: &Jacobian<u64>) -> bool {
    let zz = p.z.clear().square();
    let z6 = zz.square().mul(&zz);
    let right = p.x.square().mul(&p.x).add(&z6.mul(&Fe::small(7)));
    p.y.square().sub(&right).is_zero()
}

#[test]
fn steps() {
    let curve = Curve::secp256k1();
    let get = |i: usize| {
        let [a, b, c, d, e, f, g, h] = curve.generator[i].0;
        Affine {
            x: Fe::<u64>::broadcast(&[a, b, c, d]),
            y: Fe::broadcast(&[e, f, g, h]),
        }
    };
    let mut words = Group::new([
        get(0).jacobian(),
        get(1).jacobian(),
        get(2).jacobian(),
        get(3).jacobian(),
    ]);
    words.double();
    assert!(words.points.iter().all(on_j));
    words.double();
    assert!(words.points.iter().all(on_j));
    words.add([&get(6), &get(7), &get(8), &get(9)]);
    assert!(words.points.iter().all(on_j));
}

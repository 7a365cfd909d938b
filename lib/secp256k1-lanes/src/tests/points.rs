//! Points and their multiples.

use super::{n, number};
use crate::curve::{Curve, GENERATOR_ENTRIES};
use crate::field::Fe;
use crate::model::Products;
use crate::number::to_bytes;
use crate::point::{Affine, Jacobian, SideBySide, invert_all};
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

/// The coordinates of multiples of the generator.
fn multiples(scalars: [u8; 4]) -> [Vec<u8>; 4] {
    let secp = secp256k1::Secp256k1::signing_only();
    scalars.map(|scalar| {
        let secret = SecretKey::from_slice(&to_bytes(&[scalar.into(), 0, 0, 0])).unwrap();
        secret.public_key(&secp).serialize_uncompressed()[1..].to_vec()
    })
}

fn coordinates(point: &Jacobian<u64>) -> Vec<u8> {
    let mut inverse = [point.z.clear()];
    invert_all(&mut inverse, &mut Vec::new(), &mut |_, _| panic!("not infinity"));
    let [inverse] = inverse;
    let square = inverse.square();
    let (x, y) = (point.x.mul(&square), point.y.mul(&square.mul(&inverse)));
    [x, y].map(|coordinate| to_bytes(&coordinate.number(0))).concat()
}

/// Doubles and sums of points that go side by side.
#[test]
fn steps() {
    for products in Products::ALL {
        products.with(|| {
            let odd = |i: usize| {
                let [a, b, c, d, e, f, g, h] = Curve::secp256k1().generator[i].0;
                Affine {
                    x: Fe::<u64>::broadcast(&[a, b, c, d]),
                    y: Fe::broadcast(&[e, f, g, h]),
                }
            };
            let mut points = SideBySide::new([0, 1, 2, 3].map(|i| odd(i).jacobian()));
            let found = |points: &SideBySide<u64, 4>| points.points.each_ref().map(coordinates);
            assert_eq!(found(&points), multiples([1, 3, 5, 7]));
            points.double();
            assert_eq!(found(&points), multiples([2, 6, 10, 14]));
            points.double();
            points.add([&odd(6), &odd(7), &odd(8), &odd(9)]);
            assert_eq!(found(&points), multiples([17, 27, 37, 47]));
            points.add([&odd(6), &odd(7), &odd(8), &odd(9)]);
            assert_eq!(found(&points), multiples([30, 42, 54, 66]));
        });
    }
}

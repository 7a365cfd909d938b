//! The curve, its generator and the table of the generator's multiples.

use crate::field::Fe;
use crate::number::Number;
use crate::point::{Affine, invert_all};
use crate::word::Row;
use std::sync::OnceLock;

/// Bits of a digit of the generator's scalar.
pub(crate) const GENERATOR_WIDTH: usize = 10;

/// Entries of each table of the generator: its odd multiples below 2^[`GENERATOR_WIDTH`].
pub(crate) const GENERATOR_ENTRIES: usize = 1 << (GENERATOR_WIDTH - 1);

/// A root of 1 of order 3 modulo p; its counterpart modulo n is lambda.
pub(crate) const BETA: Number = [
    0xC139_6C28_7195_01EE,
    0x9CF0_4975_12F5_8995,
    0x6E64_479E_AC34_34E9,
    0x7AE9_6A2B_657C_0710,
];

const GENERATOR: [Number; 2] = [
    [
        0x59F2_815B_16F8_1798,
        0x029B_FCDB_2DCE_28D9,
        0x55A0_6295_CE87_0B07,
        0x79BE_667E_F9DC_BBAC,
    ],
    [
        0x9C47_D08F_FB10_D4B8,
        0xFD17_B448_A685_5419,
        0x5DA4_FBFC_0E11_08A8,
        0x483A_DA77_26A3_C465,
    ],
];

/// A curve y^2 = x^3 + b modulo p with a generator. Tests have others than secp256k1, with small
/// groups.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) b: u64,
    pub(crate) beta: Number,
    /// A point of the curve, which stands in for keys that are none.
    pub(crate) stand_in: [Number; 2],
    /// Odd multiples of the generator, then lambda times the same.
    pub(crate) generator: Box<[Row]>,
}

fn row(point: &Affine<u64>) -> Row {
    let ([a, b, c, d], [e, f, g, h]) = (point.x.number(0), point.y.number(0));
    Row([a, b, c, d, e, f, g, h])
}

impl Curve {
    pub(crate) fn new(b: u64, beta: Number, generator: [Number; 2]) -> Self {
        let [x, y] = generator.map(|number| Fe::<u64>::broadcast(&number));
        let first = Affine { x, y };
        let double = first.double(&inverse(&first.y.add(&first.y)));
        let mut multiples = vec![first];
        // One inversion for each: the table is made once, and the code stays short.
        while let Some(last) = multiples.last()
            && multiples.len() < GENERATOR_ENTRIES
        {
            let next = last.add(&double, &inverse(&double.x.sub(&last.x)));
            multiples.push(next);
        }
        let beta_words = Fe::broadcast(&beta);
        let turned = |point: &Affine<u64>| Affine {
            x: point.x.mul(&beta_words),
            y: point.y,
        };
        let rows = multiples.iter().map(row);
        let rows = rows.chain(multiples.iter().map(|point| row(&turned(point)))).collect();
        Self {
            b,
            beta,
            stand_in: generator,
            generator: rows,
        }
    }

    /// The curve secp256k1. Its tables are made at the first call, in about a millisecond.
    pub(crate) fn secp256k1() -> &'static Self {
        static CURVE: OnceLock<Curve> = OnceLock::new();
        CURVE.get_or_init(|| Self::new(7, BETA, GENERATOR))
    }
}

fn inverse(number: &Fe<u64>) -> Fe<u64> {
    let mut number = [*number];
    invert_all(&mut number, &mut Vec::new(), &mut |_, _| {});
    number[0]
}

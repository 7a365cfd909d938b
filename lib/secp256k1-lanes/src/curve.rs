//! The curve, its generator and the tables of the generator's multiples.

use crate::field::Fe;
use crate::number::Number;
use crate::point::{Affine, invert_all};
use crate::positions::{GENERATOR_POSITIONS, GENERATOR_WIDTH};
use crate::word::Row;
use std::sync::OnceLock;

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
    /// For each position of digits, the odd multiples of the generator times 2 to the position's
    /// first bit, then lambda times the same. So a multiple of the generator needs no doublings.
    pub(crate) generator: Box<[Row]>,
}

impl Curve {
    pub(crate) fn new(b: u64, beta: Number, generator: [Number; 2]) -> Self {
        let [x, y] = generator.map(|number| Fe::<u64>::broadcast(&number));
        // Times each power of 2 up to the last position's.
        let mut powers = vec![Affine { x, y }];
        for power in 1..GENERATOR_POSITIONS * GENERATOR_WIDTH {
            let last = &powers[power - 1];
            let mut inverse = [last.y.twice()];
            invert_all(&mut inverse, &mut Vec::new(), &mut |_, _| {});
            powers.push(last.double(&inverse[0]));
        }
        let power = |position: usize, power: usize| &powers[position * GENERATOR_WIDTH + power];
        // Entry by entry the multiples of all positions: to the odd ones below a power of 2 that
        // power is added.
        let mut multiples = Vec::with_capacity(GENERATOR_ENTRIES * GENERATOR_POSITIONS);
        multiples.extend((0..GENERATOR_POSITIONS).map(|position| *power(position, 0)));
        let (mut denominators, mut before) = (Vec::new(), Vec::new());
        for exponent in 1..GENERATOR_WIDTH {
            let added = |index: usize| power(index % GENERATOR_POSITIONS, exponent);
            denominators.clear();
            denominators
                .extend((multiples.iter().enumerate()).map(|(index, multiple)| added(index).x.sub(&multiple.x)));
            invert_all(&mut denominators, &mut before, &mut |_, _| {});
            for (index, inverse) in denominators.iter().enumerate() {
                multiples.push(multiples[index].add(added(index), inverse));
            }
        }
        let beta_words = Fe::broadcast(&beta);
        let turned = |point: &Affine<u64>| Affine {
            x: point.x.mul(&beta_words),
            y: point.y,
        };
        let rows = (0..GENERATOR_POSITIONS).flat_map(|position| {
            let points = || multiples.iter().skip(position).step_by(GENERATOR_POSITIONS);
            points().map(row).chain(points().map(move |point| row(&turned(point))))
        });
        Self {
            b,
            beta,
            generator: rows.collect(),
        }
    }

    /// The curve secp256k1. Its tables are made at the first call, in a few milliseconds.
    pub(crate) fn secp256k1() -> &'static Self {
        static CURVE: OnceLock<Curve> = OnceLock::new();
        CURVE.get_or_init(|| Self::new(7, BETA, GENERATOR))
    }
}

fn row(point: &Affine<u64>) -> Row {
    let ([a, b, c, d], [e, f, g, h]) = (point.x.number(0), point.y.number(0));
    Row([a, b, c, d, e, f, g, h])
}

//! The curve, its generator and the tables of the generator's multiples.

use crate::field::Fe;
use crate::number::Number;
use crate::point::{Affine, invert_all};
use crate::positions::{BLOCK_BITS, BLOCKS};
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
    /// For each block of a comb, the odd multiples of the generator times 2 to the block's
    /// distance, then lambda times the same.
    pub(crate) generator: Box<[Row]>,
}

fn row(point: &Affine<u64>) -> Row {
    let ([a, b, c, d], [e, f, g, h]) = (point.x.number(0), point.y.number(0));
    Row([a, b, c, d, e, f, g, h])
}

impl Curve {
    pub(crate) fn new(b: u64, beta: Number, generator: [Number; 2]) -> Self {
        let [x, y] = generator.map(|number| Fe::<u64>::broadcast(&number));
        let double = |point: &Affine<u64>| point.double(&inverses([point.y.twice()])[0]);
        let mut first = [Affine { x, y }; BLOCKS];
        for block in 1..BLOCKS {
            first[block] = (0..BLOCK_BITS).fold(first[block - 1], |point, _| double(&point));
        }
        let doubles = first.each_ref().map(double);
        let mut multiples = vec![first];
        // One inversion for the same entry of all blocks: the tables are made once, and the code
        // stays short.
        while let Some(last) = multiples.last()
            && multiples.len() < GENERATOR_ENTRIES
        {
            let inverses: [_; BLOCKS] = inverses(std::array::from_fn(|block| doubles[block].x.sub(&last[block].x)));
            let next = std::array::from_fn(|block| last[block].add(&doubles[block], &inverses[block]));
            multiples.push(next);
        }
        let beta_words = Fe::broadcast(&beta);
        let turned = |point: Affine<u64>| Affine {
            x: point.x.mul(&beta_words),
            y: point.y,
        };
        let rows = (0..BLOCKS).flat_map(|block| {
            let points = || multiples.iter().map(move |points| points[block]);
            points().chain(points().map(turned)).map(|point| row(&point))
        });
        Self {
            b,
            beta,
            stand_in: generator,
            generator: rows.collect(),
        }
    }

    /// The curve secp256k1. Its tables are made at the first call, in about two milliseconds.
    pub(crate) fn secp256k1() -> &'static Self {
        static CURVE: OnceLock<Curve> = OnceLock::new();
        CURVE.get_or_init(|| Self::new(7, BETA, GENERATOR))
    }
}

fn inverses<const N: usize>(mut numbers: [Fe<u64>; N]) -> [Fe<u64>; N] {
    invert_all(&mut numbers, &mut Vec::new(), &mut |_, _| {});
    numbers
}

//! A model of where the lanes meet special cases.
//!
//! The lanes compute u1 G + u2 P by a fixed schedule of additions. An addition of equal or opposite
//! points is a special case. Where P = d G and d is known, all points of the schedule are known
//! multiples of G, so the model only needs scalars. It follows the description in `src/scalar.rs`
//! and `src/multiply.rs`, and shares no code with them.

use super::hex;
use super::scalar::Scalar;
use num_bigint::{BigInt, Sign};
use std::sync::LazyLock;

/// Bits of a half, of a digit of a half of u2, and of a digit of a half of u1.
pub(crate) const HALF_BITS: usize = 130;
pub(crate) const POINT_WIDTH: usize = 5;
pub(crate) const GENERATOR_WIDTH: usize = 10;

pub(crate) const POSITIONS: usize = HALF_BITS / POINT_WIDTH;
pub(crate) const GENERATOR_POSITIONS: usize = HALF_BITS / GENERATOR_WIDTH;

/// Blocks of the comb for keys that repeat, the positions of one, and its bits.
pub(crate) const BLOCKS: usize = 4;
pub(crate) const BLOCK_POSITIONS: usize = POSITIONS.div_ceil(BLOCKS);
pub(crate) const BLOCK_BITS: usize = BLOCK_POSITIONS * POINT_WIDTH;

/// The two ways in which a check is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    Plain,
    Comb,
}

impl Road {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Comb];

    /// Positions that are walked.
    fn positions(self) -> usize {
        match self {
            Self::Plain => POSITIONS,
            Self::Comb => BLOCK_POSITIONS,
        }
    }
}

/// 2^`exponent`.
pub(crate) fn power_of_two(exponent: usize) -> Scalar {
    (0..exponent).fold(Scalar::ONE, |power, _| power + power)
}

/// The lattice of the endomorphism, and 2^384 times A1 and B1 over n, rounded.
struct Lattice {
    n: BigInt,
    a1: BigInt,
    a2: BigInt,
    b1: BigInt,
    a1_over_n: BigInt,
    b1_over_n: BigInt,
}

static LATTICE: LazyLock<Lattice> = LazyLock::new(|| {
    let number = |digits: &str| BigInt::from_bytes_be(Sign::Plus, &hex::<32>(&format!("{digits:0>64}")));
    let n = number("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141");
    let a1 = number("3086D221A7D46BCDE86C90E49284EB15");
    let b1 = number("E4437ED6010E88286F547FA90ABFE4C3");
    let over_n = |number: &BigInt| ((number << 385) / &n + 1) >> 1;
    let (a1_over_n, b1_over_n) = (over_n(&a1), over_n(&b1));
    Lattice {
        a2: &a1 + &b1,
        n,
        a1,
        b1,
        a1_over_n,
        b1_over_n,
    }
});

fn big(scalar: Scalar) -> BigInt {
    BigInt::from_bytes_be(Sign::Plus, &scalar.bytes())
}

/// Two odd halves h1, h2 with h1 + h2 lambda = u.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Halves(pub(crate) [BigInt; 2]);

impl Halves {
    pub(crate) fn new(u: Scalar) -> Self {
        Self::reduced(u, [0, 0])
    }

    /// All halves that lanes may choose. Scalars near 0 lie on the border between several pairs:
    /// the lanes represent 1 by 1 or by n + 1, and leave out low columns of products. Other scalars
    /// have one pair.
    fn candidates(u: Scalar) -> Vec<Self> {
        let error = BigInt::from(1) << 369;
        let mut all: Vec<Self> = Vec::new();
        for errors in [
            [0, 0],
            [0, -1],
            [0, 1],
            [-1, 0],
            [-1, -1],
            [-1, 1],
            [1, 0],
            [1, -1],
            [1, 1],
        ] {
            let halves = Self::reduced(u, errors.map(|times| &error * times));
            if !all.contains(&halves) {
                all.push(halves);
            }
        }
        all
    }

    /// The halves of u, with errors in the products whose high bits say which vectors of the
    /// lattice are subtracted.
    fn reduced(u: Scalar, errors: [impl Into<BigInt>; 2]) -> Self {
        let Lattice {
            a1,
            a2,
            b1,
            a1_over_n,
            b1_over_n,
            ..
        } = &*LATTICE;
        let u = big(u);
        let [first_error, second_error] = errors.map(Into::into);
        let times: [BigInt; 2] = [
            (&u * a1_over_n + first_error) >> 384,
            (&u * b1_over_n + second_error) >> 384,
        ];
        let mut first = u - &times[0] * a1 - &times[1] * a2;
        let mut second = &times[0] * b1 - &times[1] * a1;
        if !first.bit(0) {
            first += a1;
            second -= b1;
        }
        if !second.bit(0) {
            first += a2;
            second += a1;
        }
        Self([first, second])
    }

    /// h1 + h2 lambda.
    pub(crate) fn scalar(&self) -> Scalar {
        let [first, second] = self.0.each_ref().map(|half| {
            let n = &LATTICE.n;
            let reduced = ((half % n + n) % n).to_bytes_be().1;
            let mut bytes = [0; 32];
            bytes[32 - reduced.len()..].copy_from_slice(&reduced);
            Scalar::from_bytes(&bytes)
        });
        first + second * Scalar::LAMBDA
    }

    /// The odd digits of both halves to the base 2^`width`, the lowest first.
    pub(crate) fn digits(&self, width: usize) -> Vec<[i64; 2]> {
        let both = self.0.each_ref().map(|half| {
            let offset = (BigInt::from(1) << HALF_BITS) - 1;
            let digits: BigInt = (half + offset) >> 1;
            let (sign, limbs) = digits.to_u64_digits();
            assert!(sign != Sign::Minus && limbs.len() <= 3, "a half out of its range");
            let limb = |position: usize| u128::from(limbs.get(position).copied().unwrap_or_default());
            (0..HALF_BITS / width)
                .map(|position| {
                    let (from, shift) = (position * width / 64, position * width % 64);
                    let digit = (limb(from) | limb(from + 1) << 64) >> shift & ((1 << width) - 1);
                    2 * digit as i64 - ((1 << width) - 1)
                })
                .collect::<Vec<i64>>()
        });
        both[0]
            .iter()
            .zip(&both[1])
            .map(|(first, second)| [*first, *second])
            .collect()
    }
}

/// What a pair of digits stands for.
fn value(digits: &[i64; 2]) -> Scalar {
    Scalar::small(digits[0]) + Scalar::small(digits[1]) * Scalar::LAMBDA
}

/// The sums of u1 G and u2 P, and that of both.
pub(crate) struct Schedule {
    road: Road,
    u1: Scalar,
    u2: Scalar,
    /// What each position adds, in multiples of G, and of P. Position 0 is the lowest. Tables of G
    /// belong to a position; those of P belong to a block of the comb. Each has multiples of 2 to
    /// its distance.
    generator: Vec<Scalar>,
    point: Vec<Scalar>,
}

/// Adds up blocks of values in the lowest one, the upper half to the lower half at a time. `sums`
/// gets what is added.
fn add_blocks(values: &mut [Scalar], block: usize, sums: &mut Vec<[Scalar; 2]>) {
    let mut blocks = values.len().div_ceil(block);
    let mut end = values.len();
    while blocks > 1 {
        blocks = blocks.div_ceil(2);
        let offset = blocks * block;
        for upper in offset..end {
            let [a, b] = [values[upper - offset], values[upper]];
            sums.push([a, b]);
            values[upper - offset] = a + b;
        }
        end = offset;
    }
}

impl Schedule {
    fn of_halves(road: Road, u1: &Halves, u2: &Halves) -> Self {
        let values = |halves: &Halves, width: usize| halves.digits(width).iter().map(value).collect();
        let mut generator: Vec<Scalar> = values(u1, GENERATOR_WIDTH);
        for (position, value) in generator.iter_mut().enumerate() {
            *value = *value * power_of_two(position * GENERATOR_WIDTH);
        }
        let mut point: Vec<Scalar> = values(u2, POINT_WIDTH);
        for (position, value) in point.iter_mut().enumerate() {
            let block = position / road.positions();
            *value = *value * power_of_two(block * road.positions() * POINT_WIDTH);
        }
        Self {
            road,
            u1: u1.scalar(),
            u2: u2.scalar(),
            generator,
            point,
        }
    }

    /// Whether u1 G + u2 (d G) meets a special case, by any choice of halves that lanes may make.
    pub(crate) fn may_be_special(road: Road, u1: Scalar, u2: Scalar, d: Scalar) -> bool {
        let (all_u1, all_u2) = (Halves::candidates(u1), Halves::candidates(u2));
        let mut all = all_u1
            .iter()
            .flat_map(|u1| all_u2.iter().map(move |u2| Self::of_halves(road, u1, u2)));
        all.any(|schedule| schedule.is_special(d))
    }

    /// The points that are added if P = d G, pair by pair: each pair as multiples of G, or as
    /// multiples of P.
    fn sums(&self, d: Scalar) -> Vec<[Scalar; 2]> {
        let mut sums = Vec::new();
        add_blocks(&mut self.generator.clone(), 1, &mut sums);
        let mut point = self.point.clone();
        add_blocks(&mut point, self.road.positions(), &mut sums);
        // The walk.
        let mut walked = point[..self.road.positions()].iter().rev();
        let mut sum = *walked.next().unwrap();
        for &value in walked {
            let above = sum * Scalar::small(1 << POINT_WIDTH);
            sums.push([above, value]);
            sum = above + value;
        }
        assert_eq!(sum, self.u2);
        sums.push([self.u1, self.u2 * d]);
        sums
    }

    /// Whether equal or opposite points are added if P = d G.
    fn is_special(&self, d: Scalar) -> bool {
        self.sums(d).iter().any(|&[a, b]| a == b || a == -b)
    }
}

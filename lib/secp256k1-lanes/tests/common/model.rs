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
pub(crate) const STRIDE: usize = GENERATOR_WIDTH / POINT_WIDTH;

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
        let error = BigInt::from(1) << 320;
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

/// The steps of u1 G + u2 P.
pub(crate) struct Schedule {
    road: Road,
    /// What each position adds in multiples of G, and of P. Position 0 is the lowest. On the comb
    /// the tables of a block have multiples of 2 to its distance.
    generator: Vec<Scalar>,
    point: Vec<Scalar>,
}

/// A step of a [`Schedule`] that can be made special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The entries of u1 are added to those of u2.
    Sum { position: usize },
    /// The sum of a position above the lowest block, with those of the blocks that were added to
    /// it, is added to that of a block below.
    Block { position: usize },
    /// The sum of a position is added to 32 times what the positions above it made.
    Walk { position: usize },
}

impl Step {
    pub(crate) fn all(road: Road) -> impl Iterator<Item = Self> {
        let sums = (0..GENERATOR_POSITIONS).map(|position| Self::Sum {
            position: position * STRIDE,
        });
        let blocks = (road.positions()..POSITIONS).map(|position| Self::Block { position });
        let walk = (0..road.positions() - 1).map(|position| Self::Walk { position });
        sums.chain(blocks).chain(walk)
    }

    /// Whether a multiple of G is added to one of P. If not, the points are multiples of P alone,
    /// and equal for no key.
    pub(crate) fn depends_on_key(self) -> bool {
        match self {
            Self::Block { position } => position < 2 * BLOCK_POSITIONS || position.is_multiple_of(STRIDE),
            Self::Sum { .. } | Self::Walk { .. } => true,
        }
    }
}

impl Schedule {
    pub(crate) fn new(road: Road, u1: Scalar, u2: Scalar) -> Self {
        Self::of_halves(road, &Halves::new(u1), &Halves::new(u2))
    }

    fn of_halves(road: Road, u1: &Halves, u2: &Halves) -> Self {
        let mut generator = vec![Scalar::ZERO; POSITIONS];
        for (position, digits) in u1.digits(GENERATOR_WIDTH).iter().enumerate() {
            generator[position * STRIDE] = value(digits);
        }
        let mut point: Vec<Scalar> = u2.digits(POINT_WIDTH).iter().map(value).collect();
        for values in [&mut generator, &mut point] {
            for (position, value) in values.iter_mut().enumerate() {
                let block = position / road.positions();
                *value = *value * power_of_two(block * road.positions() * POINT_WIDTH);
            }
        }
        Self { road, generator, point }
    }

    /// Whether u1 G + u2 (d G) meets a special case, by any choice of halves that lanes may make.
    pub(crate) fn may_be_special(road: Road, u1: Scalar, u2: Scalar, d: Scalar) -> bool {
        let (all_u1, all_u2) = (Halves::candidates(u1), Halves::candidates(u2));
        let mut all = all_u1
            .iter()
            .flat_map(|u1| all_u2.iter().map(move |u2| Self::of_halves(road, u1, u2)));
        all.any(|schedule| schedule.is_special(d))
    }

    /// The two points that a step adds, each as multiples of G and of P.
    fn operands(&self, step: Step) -> [[Scalar; 2]; 2] {
        match step {
            Step::Sum { position } => [
                [self.generator[position], Scalar::ZERO],
                [Scalar::ZERO, self.point[position]],
            ],
            Step::Block { position } => {
                let (block, offset) = (position / BLOCK_POSITIONS, position % BLOCK_POSITIONS);
                // The upper half of four blocks is added to the lower half, then that of two.
                let (blocks, half) = if block < BLOCKS / 2 { (2, 1) } else { (4, 2) };
                [block - half, block].map(|block| {
                    let blocks = (block..BLOCKS).step_by(blocks);
                    self.sums(blocks.map(|block| block * BLOCK_POSITIONS + offset))
                })
            }
            Step::Walk { position } => {
                let times = Scalar::small(1 << POINT_WIDTH);
                let above = (position + 1..self.road.positions()).rev();
                let above = above.fold([Scalar::ZERO; 2], |[g, p], position| {
                    let [other_g, other_p] = self.all_blocks(position);
                    [g * times + other_g, p * times + other_p]
                });
                [above.map(|sum| sum * times), self.all_blocks(position)]
            }
        }
    }

    /// What a position of the lowest block and those of the other blocks add together.
    fn all_blocks(&self, position: usize) -> [Scalar; 2] {
        self.sums((position..POSITIONS).step_by(self.road.positions()))
    }

    /// What these positions add together, of those that there are.
    fn sums(&self, positions: impl Iterator<Item = usize>) -> [Scalar; 2] {
        let positions = positions.filter(|position| *position < POSITIONS);
        positions.fold([Scalar::ZERO; 2], |[g, p], position| {
            [g + self.generator[position], p + self.point[position]]
        })
    }

    /// The d for which a step adds equal points, or opposite ones.
    pub(crate) fn special_log(&self, step: Step, are_opposite: bool) -> Scalar {
        let [[g, p], [other_g, other_p]] = self.operands(step);
        let (g, p) = if are_opposite {
            (g + other_g, p + other_p)
        } else {
            (g - other_g, p - other_p)
        };
        -g * p.invert()
    }

    /// Whether a step adds equal or opposite points if P = d G.
    fn is_special(&self, d: Scalar) -> bool {
        Step::all(self.road).any(|step| {
            let [a, b] = self.operands(step).map(|[g, p]| g + p * d);
            a == b || a == -b
        })
    }
}

//! The whole computation over intervals.
//!
//! An interval stands for every value that a word may have. The pipeline is straight-line code:
//! which instructions run does not depend on the numbers, but for the path of denominators that are
//! 0, which is taken too. So one run over intervals is a proof for all inputs: no sum is too large
//! for its word, no difference is below 0 where it is read as a number without sign, no factor has
//! bits that the multiplier does not read.

use crate::batch::Batch;
use crate::model::{AnyColumns, Products, SignedHalves};
use crate::question::{Check, Kind, Verdict};
use crate::wide::Widen;
use crate::word::{LANES_MAX, LIMB_BITS, LIMB_MASK, Mask, Row, Word};
use std::cell::Cell;

thread_local! {
    /// What masks say when they are asked for bits, which only decides whether a path is taken.
    static BITS: Cell<u8> = const { Cell::new(0) };
}

/// All values from `low` to `high`. A word has such a value modulo 2^64.
#[derive(Debug, Clone, Copy)]
struct Interval {
    low: i128,
    high: i128,
}

/// A mask of which nothing is known.
#[derive(Debug, Clone, Copy)]
struct Unknown;

impl Mask for Unknown {
    fn from_bits(_bits: u8) -> Self {
        Self
    }
    fn bits(self) -> u8 {
        BITS.get()
    }
    fn and(self, _other: Self) -> Self {
        Self
    }
    fn or(self, _other: Self) -> Self {
        Self
    }
    fn xor(self, _other: Self) -> Self {
        Self
    }
    fn not(self) -> Self {
        Self
    }
}

const WORD_MAX: i128 = u64::MAX as i128;

impl Interval {
    const ANY: Self = Self { low: 0, high: WORD_MAX };

    /// Fails if the values cannot be told apart in a word of 64 bits.
    fn new(low: i128, high: i128) -> Self {
        let unsigned = 0 <= low && high <= WORD_MAX;
        let signed = i128::from(i64::MIN) <= low && high <= i128::from(i64::MAX);
        assert!(
            low <= high && (unsigned || signed),
            "a word overflows: {low:#x} to {high:#x}"
        );
        Self { low, high }
    }

    /// Fails if it may be negative.
    fn unsigned(self) -> Self {
        assert!(self.low >= 0, "read as a number without sign: {self:x?}");
        self
    }

    /// What a multiplier reads.
    fn limb(self) -> Self {
        if 0 <= self.low && self.high <= i128::from(LIMB_MASK) {
            self
        } else {
            Self::new(0, LIMB_MASK.into())
        }
    }
}

impl Word for Interval {
    const LANES: usize = 1;

    type Mask = Unknown;

    type Columns = AnyColumns<Self>;

    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    #[inline(never)]
    fn splat(value: u64) -> Self {
        Self::new(value.into(), value.into())
    }
    #[inline(never)]
    fn from_lanes(_lanes: &[u64; LANES_MAX]) -> Self {
        Self::ANY
    }
    #[inline(never)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        self.unsigned();
        [0; LANES_MAX]
    }
    #[inline(never)]
    fn add(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }
    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        Self::new(self.low - other.high, self.high - other.low)
    }
    #[inline(never)]
    fn and(self, other: Self) -> Self {
        // Masks are constants. Of a negative number the low bits are left, as they should be.
        assert!(
            other.low == other.high && (other.low + 1).count_ones() == 1,
            "{other:x?} is no mask"
        );
        if 0 <= self.low && self.high <= other.low {
            self
        } else {
            Self::new(0, other.low)
        }
    }
    #[inline(never)]
    fn or(self, other: Self) -> Self {
        let (a, b) = (self.unsigned(), other.unsigned());
        let bits = 128 - a.high.max(b.high).leading_zeros();
        Self::new(a.low.max(b.low), (1 << bits) - 1)
    }
    #[inline(never)]
    fn shift_left<const BITS: u32>(self) -> Self {
        Self::new(self.low << BITS, self.high << BITS)
    }
    #[inline(never)]
    fn shift_left_wrapping<const BITS: u32>(self) -> Self {
        let fits = 0 <= self.low && self.high << BITS <= WORD_MAX;
        if fits { self.shift_left::<BITS>() } else { Self::ANY }
    }
    #[inline(never)]
    fn shift_right<const BITS: u32>(self) -> Self {
        let Self { low, high } = self.unsigned();
        Self::new(low >> BITS, high >> BITS)
    }
    #[inline(never)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        let (low, high) = if self.high > i64::MAX.into() {
            (i64::MIN.into(), i64::MAX.into())
        } else {
            (self.low, self.high)
        };
        Self::new(low >> BITS, high >> BITS)
    }
    #[inline(never)]
    fn shift_left_by(self, _bits: u32) -> Self {
        Self::ANY
    }
    #[inline(never)]
    fn shift_right_by(self, bits: u32) -> Self {
        let Self { low, high } = self.unsigned();
        Self::new(low >> bits, high >> bits)
    }
    #[inline(never)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        let (a, b) = (a.limb(), b.limb());
        let high = a.high * b.high;
        if high <= LIMB_MASK.into() {
            Self::new(self.low + a.low * b.low, self.high + high)
        } else {
            Self::new(self.low, self.high + i128::from(LIMB_MASK))
        }
    }
    #[inline(never)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        let (a, b) = (a.limb(), b.limb());
        let (low, high) = ((a.low * b.low) >> LIMB_BITS, (a.high * b.high) >> LIMB_BITS);
        Self::new(self.low + low, self.high + high)
    }
    #[inline(never)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    #[inline(never)]
    fn is_zero(self) -> Unknown {
        Unknown
    }
    #[inline(never)]
    fn is_below(self, other: Self) -> Unknown {
        assert!(self.unsigned().high <= i64::MAX.into() && other.unsigned().high <= i64::MAX.into());
        Unknown
    }
    #[inline(never)]
    fn select(_mask: Unknown, yes: Self, no: Self) -> Self {
        Self::new(yes.low.min(no.low), yes.high.max(no.high))
    }
    #[inline(never)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        assert!(
            (index.unsigned().high as usize) < table.len(),
            "{index:x?} of {}",
            table.len()
        );
        [Self::ANY; 8]
    }
    #[inline(never)]
    fn store_rows(_table: &mut [Row], _first: usize, _stride: usize, words: [Self; 8]) {
        for word in words {
            word.unsigned();
        }
    }
    #[inline(never)]
    fn promise_below<const BITS: u32>(self) {
        assert!(self.unsigned().high < 1 << BITS, "not below 2^{BITS}: {self:x?}");
    }
}

impl SignedHalves for Interval {
    fn halves(a: Self, b: Self) -> [Self; 2] {
        const HALF: i128 = 1 << (LIMB_BITS - 1);
        let (a, b) = (a.limb(), b.limb());
        let (least, most) = (a.low * b.low, a.high * b.high);
        let low = if most <= HALF {
            Self::new(least, most)
        } else {
            Self::new(-HALF, HALF)
        };
        // Rounded down where it lies between two, and up.
        let high = Self::new((least + HALF - 1) >> LIMB_BITS, (most + HALF) >> LIMB_BITS);
        [low, high]
    }
}

/// All values of twice the bits of a word, from `low` to `high`; up to 2^127 here.
#[derive(Debug, Clone, Copy)]
struct WideInterval {
    low: i128,
    high: i128,
}

impl Widen for Interval {
    type Wide = WideInterval;

    fn widen(self) -> WideInterval {
        let Self { low, high } = self.unsigned();
        WideInterval { low, high }
    }
    fn times(self, other: Self) -> WideInterval {
        let (a, b) = (self.unsigned(), other.unsigned());
        let times = |a: i128, b: i128| a.checked_mul(b).expect("a product overflows");
        WideInterval {
            low: times(a.low, b.low),
            high: times(a.high, b.high),
        }
    }
    fn sum(a: WideInterval, b: WideInterval) -> WideInterval {
        let sum = |a: i128, b: i128| a.checked_add(b).expect("a column overflows");
        WideInterval {
            low: sum(a.low, b.low),
            high: sum(a.high, b.high),
        }
    }
    fn limb(wide: WideInterval) -> Self {
        if wide.high <= LIMB_MASK.into() {
            Self::narrow(wide)
        } else {
            Self::new(0, LIMB_MASK.into())
        }
    }
    fn above_limb(wide: WideInterval) -> WideInterval {
        WideInterval {
            low: wide.low >> LIMB_BITS,
            high: wide.high >> LIMB_BITS,
        }
    }
    fn words(wide: WideInterval) -> [Self; 2] {
        let low = if wide.high <= WORD_MAX {
            Self::narrow(wide)
        } else {
            Self::ANY
        };
        [low, Self::new(wide.low >> 64, wide.high >> 64)]
    }
    fn narrow(wide: WideInterval) -> Self {
        Self::new(wide.low, wide.high).unsigned()
    }
}

/// One run of everything.
pub(super) fn whole_computation() {
    for bits in [0, u8::MAX] {
        BITS.set(bits);
        for kind in [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak] {
            // What is in a check does not matter: numbers from memory are any numbers. It must be
            // in range.
            let mut key = [3; 33];
            key[0] = 2;
            let check = Check {
                kind,
                key,
                r: [1; 32],
                s: [1; 32],
                message: [1; 32],
            };
            let mut verdicts = [Verdict::Valid; 5];
            Batch::<Interval>::default().verify(&[check; 5], &mut verdicts);
        }
    }
}

#[test]
fn nothing_overflows() {
    for products in Products::ALL {
        products.with(whole_computation);
    }
}

#[test]
fn intervals_see_what_is_wrong() {
    let fails = |work: fn()| assert!(std::panic::catch_unwind(work).is_err());
    let limb = || Interval::new(0, 1 << 52);
    let _ = limb;
    // Too large, below 0 and read, a factor of more than 52 bits at the top, a table that is too
    // short.
    fails(|| {
        Interval::ANY.add(Interval::splat(1));
    });
    fails(|| {
        Interval::splat(1).sub(Interval::new(0, 2)).shift_right::<1>();
    });
    fails(|| {
        let top = crate::field::Fe([Interval::new(0, 1 << 52); 5]);
        Products::Halves.with(|| top.mul(&top));
    });
    fails(|| {
        Interval::load_rows(&[Row::ZERO; 16], Interval::new(0, 16));
    });
    fails(|| Interval::new(0, 1 << 26).promise_below::<26>());
    // Whole products: a factor that may be negative, a product and a sum that are too large, a
    // carry that does not fit a word.
    fails(|| {
        Interval::splat(1).times(Interval::new(-1, 0));
    });
    fails(|| {
        Interval::ANY.times(Interval::ANY);
    });
    fails(|| {
        let half = Interval::ANY.times(Interval::splat(1 << 63));
        Interval::sum(half, half);
    });
    fails(|| {
        Interval::narrow(Interval::ANY.times(Interval::splat(2)));
    });
}

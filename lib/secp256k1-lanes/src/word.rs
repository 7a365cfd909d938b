//! The lane type that all arithmetic is generic over.
//!
//! A [`Word`] is a vector of lanes of 64 bits; every operation acts on all lanes alike. The same
//! source runs on vector registers, on a single `u64`, and, in tests, on intervals, which prove
//! that nothing overflows.

use std::fmt::Debug;

/// Words computed side by side, one for each element of an array. Unlike `std::array::from_fn` it
/// is always part of its caller, which has the instructions of a vector type.
#[inline(always)]
pub(crate) fn side_by_side<T: Copy, const N: usize>(mut work: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = [work(0); N];
    for (index, one) in all.iter_mut().enumerate().skip(1) {
        *one = work(index);
    }
    all
}

/// Checks that are verified together at most; more are verified in several batches. On eight lanes
/// fewer than 16 signatures cost nearly as much as 16.
pub const BATCH: usize = 256;

const _: () = assert!(BATCH.is_power_of_two());

/// Bits of a limb: what the multiply-add instructions of IFMA multiply.
pub(crate) const LIMB_BITS: u32 = 52;

/// The bits of a limb.
pub(crate) const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;

/// 2^256 modulo p.
pub(crate) const FOLD_256: u64 = 0x1_0000_03D1;

/// 2^260 modulo p.
pub(crate) const FOLD_260: u64 = FOLD_256 << 4;

/// Most lanes of a word.
pub(crate) const LANES_MAX: usize = 8;

/// A point in a table: x and y, four numbers of 64 bits each, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(crate) [u64; 8]);

impl Row {
    pub(crate) const ZERO: Self = Self([0; 8]);
}

/// Methods that take another value of the type and return a third one, lane by lane.
macro_rules! lanewise {
    ($($(#[$doc:meta])* $name:ident($this:ident, $other:ident) = $result:expr;)+) => {$(
        $(#[$doc])*
        #[inline(always)]
        fn $name($this, $other: Self) -> Self {
            $result
        }
    )+};
}
pub(crate) use lanewise;

/// One bit for each lane.
pub(crate) trait Mask: Copy + Debug {
    /// The lowest bit is that of lane 0.
    fn from_bits(bits: u8) -> Self;
    fn bits(self) -> u8;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
}

/// Sums of products of numbers of five limbs. Each column is worth 2^52 times the one before it.
pub(crate) trait Columns<W: Word>: Copy + Debug {
    fn product(a: &[W; 5], b: &[W; 5]) -> Self;
    fn square(a: &[W; 5]) -> Self;
    fn add_product(self, a: &[W; 5], b: &[W; 5]) -> Self;
    /// Plus a number, no limb of which is negative.
    fn add(self, limbs: &[W; 5]) -> Self;
    /// Minus 2^`BITS` times another product; 3 bits at most.
    fn subtract_scaled<const BITS: u32>(self, other: &Self) -> Self;
    /// The limbs of the number modulo p, not carried, and not negative.
    fn lazy(self) -> [W; 5];
    /// The same of twice the number.
    fn lazy_double(self) -> [W; 5];
    /// The limbs of the number modulo p, below 2^52.
    fn reduce(self) -> [W; 5];
    /// What a product takes for a number with limbs that are not carried, and not negative.
    fn factor(limbs: [W; 5]) -> [W; 5];
    /// Limbs below 2^52 of what [`factor`](Self::factor) has made.
    fn clear_factor(limbs: &[W; 5]) -> [W; 5];
}

/// A vector of lanes of 64 bits. Additions, subtractions and shifts wrap.
pub(crate) trait Word: Copy + Debug {
    /// Lanes; 8 at most.
    const LANES: usize;

    type Mask: Mask;

    /// What products of field elements are before their reduction.
    type Columns: Columns<Self>;

    /// Runs `work` where the instructions of this type may be used. All other operations must
    /// happen inside it: there they become instructions, and outside they would be calls.
    fn vectorize<R>(work: impl FnOnce() -> R) -> R;

    fn splat(value: u64) -> Self;
    /// Lanes from memory; those beyond [`LANES`](Self::LANES) are ignored.
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self;
    /// Lanes to memory; those beyond [`LANES`](Self::LANES) are 0.
    fn to_lanes(self) -> [u64; LANES_MAX];

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// No bit that is set may be lost.
    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        self.shift_left_by(BITS)
    }
    /// Bits above 2^64 are lost.
    #[inline(always)]
    fn shift_left_wrapping<const BITS: u32>(self) -> Self {
        self.shift_left::<BITS>()
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        self.shift_right_by(BITS)
    }
    /// The sign is copied into the bits that become free.
    fn shift_right_signed<const BITS: u32>(self) -> Self;
    /// Bits above 2^64 are lost.
    fn shift_left_by(self, bits: u32) -> Self;
    fn shift_right_by(self, bits: u32) -> Self;

    /// `self` plus the low 52 bits of the product of the low 52 bits of `a` and of `b`.
    fn add_product_low(self, a: Self, b: Self) -> Self;
    /// `self` plus the bits from 52 to 103 of the same product.
    fn add_product_high(self, a: Self, b: Self) -> Self;

    /// Runs `work` in a function of its own, if the code of this type's products is so long that
    /// copies of it at all call sites would not fit the processor's cache, or would take too long
    /// to build.
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Lanes that are 0.
    fn is_zero(self) -> Self::Mask;
    /// Lanes below those of `other`. Both are below 2^63.
    fn is_below(self, other: Self) -> Self::Mask;
    /// The lanes of `yes` where the mask is set, those of `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Rows of a table by their numbers, transposed: word `j` has the number `j` of each lane's
    /// row.
    fn load_rows(table: &[Row], index: Self) -> [Self; 8];
    /// The reverse, for rows at equal distances: lane `i` goes to row `first + i * stride`.
    fn store_rows(table: &mut [Row], first: usize, stride: usize, words: [Self; 8]);

    /// Says that every lane is below 2^`BITS`. Intervals prove it; other types do nothing.
    #[inline(always)]
    fn promise_below<const BITS: u32>(self) {}
}

/// Adds the product of two numbers of five limbs to its ten columns, as `columns.rs` says.
#[inline(always)]
pub(crate) fn add_product_by_rows<W: Word>(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
    // All low halves of a row, then all high ones: no instruction adds to the column of the one
    // before it, which would wait for that.
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j] = columns[i + j].add_product_low(a[i], b[j]);
        }
        for j in 0..5 {
            columns[i + j + 1] = columns[i + j + 1].add_product_high(a[i], b[j]);
        }
    }
}

/// Lanes whose lowest bit is set.
#[inline(always)]
pub(crate) fn is_odd<W: Word>(word: W) -> W::Mask {
    word.and(W::splat(1)).is_zero().not()
}

//! Plain integers and intervals multiply in every way that other types do: the first show every
//! bit, the second that nothing overflows.

use crate::columns::{HalfColumns, HalfProducts, OfHalves};
use crate::fault::{Fault, is_planted};
use crate::signed::{FOLD_256_LOW, FOLD_256_SHIFT, START};
use crate::wide::{WideColumns, Widen};
use crate::word::{Columns, LIMB_BITS, LIMB_MASK, Word};
use std::cell::Cell;

/// How plain integers and intervals multiply field elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Products {
    Halves,
    SignedHalves,
    Whole,
}

impl Products {
    pub(crate) const ALL: [Self; 3] = [Self::Halves, Self::SignedHalves, Self::Whole];

    /// Those of this thread.
    fn now() -> Self {
        PRODUCTS.get()
    }

    /// Runs `work` with these products.
    pub(crate) fn with<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(Products);
        impl Drop for Restore {
            fn drop(&mut self) {
                PRODUCTS.set(self.0);
            }
        }
        let _restore = Restore(PRODUCTS.replace(self));
        work()
    }
}

thread_local! {
    /// As outside of tests, unless a test says otherwise.
    static PRODUCTS: Cell<Products> = const { Cell::new(Products::Whole) };
}

/// Columns of all kinds of products.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyColumns<W> {
    Halves(HalfColumns<W, WithoutSign>),
    SignedHalves(HalfColumns<W, WithSign>),
    Whole(WideColumns<W>),
}

/// Work on columns, whatever their kind.
macro_rules! on_columns {
    ($columns:expr, |$inner:ident| $work:expr) => {
        match $columns {
            Self::Halves($inner) => $work,
            Self::SignedHalves($inner) => $work,
            Self::Whole($inner) => $work,
        }
    };
}

/// Columns of the kind that this thread has.
macro_rules! new_columns {
    ($work:expr) => {
        match Products::now() {
            Products::Halves => Self::Halves($work),
            Products::SignedHalves => Self::SignedHalves($work),
            Products::Whole => Self::Whole($work),
        }
    };
}

// Never part of their callers: with the planted faults that would take minutes to build.
impl<W: Widen + SignedHalves> Columns<W> for AnyColumns<W> {
    #[inline(never)]
    fn product(a: &[W; 5], b: &[W; 5]) -> Self {
        new_columns!(Columns::product(a, b))
    }
    #[inline(never)]
    fn square(a: &[W; 5]) -> Self {
        new_columns!(Columns::square(a))
    }
    #[inline(never)]
    fn add_product(self, a: &[W; 5], b: &[W; 5]) -> Self {
        match self {
            Self::Halves(columns) => Self::Halves(columns.add_product(a, b)),
            Self::SignedHalves(columns) => Self::SignedHalves(columns.add_product(a, b)),
            Self::Whole(columns) => Self::Whole(columns.add_product(a, b)),
        }
    }
    #[inline(never)]
    fn add(self, limbs: &[W; 5]) -> Self {
        match self {
            Self::Halves(columns) => Self::Halves(columns.add(limbs)),
            Self::SignedHalves(columns) => Self::SignedHalves(columns.add(limbs)),
            Self::Whole(columns) => Self::Whole(columns.add(limbs)),
        }
    }
    #[inline(never)]
    fn subtract_scaled<const BITS: u32>(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Halves(columns), Self::Halves(other)) => Self::Halves(columns.subtract_scaled::<BITS>(other)),
            (Self::SignedHalves(columns), Self::SignedHalves(other)) => {
                Self::SignedHalves(columns.subtract_scaled::<BITS>(other))
            }
            (Self::Whole(columns), Self::Whole(other)) => Self::Whole(columns.subtract_scaled::<BITS>(other)),
            _ => panic!("both are of this thread"),
        }
    }
    #[inline(never)]
    fn lazy(self) -> [W; 5] {
        on_columns!(self, |columns| columns.lazy())
    }
    #[inline(never)]
    fn lazy_double(self) -> [W; 5] {
        on_columns!(self, |columns| columns.lazy_double())
    }
    #[inline(never)]
    fn reduce(self) -> [W; 5] {
        on_columns!(self, |columns| columns.reduce())
    }
    #[inline(never)]
    fn factor(limbs: [W; 5]) -> [W; 5] {
        match Products::now() {
            Products::Whole => WideColumns::factor(limbs),
            Products::Halves | Products::SignedHalves => HalfColumns::<W, WithoutSign>::factor(limbs),
        }
    }
    #[inline(never)]
    fn clear_factor(limbs: &[W; 5]) -> [W; 5] {
        match Products::now() {
            Products::Whole => WideColumns::clear_factor(limbs),
            Products::Halves | Products::SignedHalves => HalfColumns::<W, WithoutSign>::clear_factor(limbs),
        }
    }
}

/// A test that needs others names them.
impl<W: Word> OfHalves<W> for AnyColumns<W> {
    type Products = WithoutSign;
}

/// Halves without a sign.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WithoutSign;

impl<W: Word> HalfProducts<W> for WithoutSign {}

/// A word whose products can be taken in signed halves.
pub(crate) trait SignedHalves: Word {
    /// The low half, from -2^51 to 2^51, and the high one. Of two high halves that are as near,
    /// the even one.
    fn halves(a: Self, b: Self) -> [Self; 2];
}

/// Low halves with a sign.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WithSign;

fn add_at<W: SignedHalves>(columns: &mut [W], column: usize, a: W, b: W) {
    let [low, high] = W::halves(a, b);
    columns[column] = columns[column].add(low);
    columns[column + 1] = columns[column + 1].add(high);
}

impl<W: SignedHalves> HalfProducts<W> for WithSign {
    const SIGNED: bool = true;

    fn add_product(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
        for (k, column) in columns.iter_mut().enumerate() {
            if is_planted::<W>(Fault::Start(k)) {
                continue;
            }
            let start = START[k].cast_signed();
            let size = W::splat(start.unsigned_abs());
            *column = if start < 0 { column.sub(size) } else { column.add(size) };
        }
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                add_at(columns, i + j, *a, *b);
            }
        }
    }
    fn square(a: &[W; 5]) -> [W; 10] {
        Self::product(a, a)
    }
    fn add_multiple(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
        for (k, number) in number.iter().enumerate() {
            add_at(columns, k, *number, W::splat(limb));
        }
    }
    fn add_top(low: [W; 2], top: W) -> [W; 2] {
        let shifted = top.shift_left_wrapping::<FOLD_256_SHIFT>().and(W::splat(LIMB_MASK));
        [
            low[0].add_product_low(top, W::splat(FOLD_256_LOW)).add(shifted),
            low[1].add(top.shift_right::<{ LIMB_BITS - FOLD_256_SHIFT }>()),
        ]
    }
}

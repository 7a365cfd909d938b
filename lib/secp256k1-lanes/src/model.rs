//! Plain integers and intervals multiply in every way that other types do: the first show every
//! bit, the second that nothing overflows.

use crate::columns::HalfColumns;
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

/// Whether plain integers and intervals have signed halves on this thread.
pub(crate) fn is_signed() -> bool {
    Products::now() == Products::SignedHalves
}

/// Columns of all kinds of products.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyColumns<W> {
    Half(HalfColumns<W>),
    Wide(WideColumns<W>),
}

impl<W: Widen> Columns<W> for AnyColumns<W> {
    fn product(a: &[W; 5], b: &[W; 5]) -> Self {
        match Products::now() {
            Products::Whole => Self::Wide(Columns::product(a, b)),
            Products::Halves | Products::SignedHalves => Self::Half(Columns::product(a, b)),
        }
    }
    fn square(a: &[W; 5]) -> Self {
        match Products::now() {
            Products::Whole => Self::Wide(Columns::square(a)),
            Products::Halves | Products::SignedHalves => Self::Half(Columns::square(a)),
        }
    }
    fn add_product(self, a: &[W; 5], b: &[W; 5]) -> Self {
        match self {
            Self::Half(columns) => Self::Half(columns.add_product(a, b)),
            Self::Wide(columns) => Self::Wide(columns.add_product(a, b)),
        }
    }
    fn add(self, limbs: &[W; 5]) -> Self {
        match self {
            Self::Half(columns) => Self::Half(columns.add(limbs)),
            Self::Wide(columns) => Self::Wide(columns.add(limbs)),
        }
    }
    fn subtract_scaled<const BITS: u32>(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Half(columns), Self::Half(other)) => Self::Half(columns.subtract_scaled::<BITS>(other)),
            (Self::Wide(columns), Self::Wide(other)) => Self::Wide(columns.subtract_scaled::<BITS>(other)),
            _ => panic!("both are of this thread"),
        }
    }
    fn lazy(self) -> [W; 5] {
        match self {
            Self::Half(columns) => columns.lazy(),
            Self::Wide(columns) => columns.lazy(),
        }
    }
    fn lazy_double(self) -> [W; 5] {
        match self {
            Self::Half(columns) => columns.lazy_double(),
            Self::Wide(columns) => columns.lazy_double(),
        }
    }
    fn reduce(self) -> [W; 5] {
        match self {
            Self::Half(columns) => columns.reduce(),
            Self::Wide(columns) => columns.reduce(),
        }
    }
    fn factor(limbs: [W; 5]) -> [W; 5] {
        match Products::now() {
            Products::Whole => WideColumns::factor(limbs),
            Products::Halves | Products::SignedHalves => HalfColumns::factor(limbs),
        }
    }
    fn clear_factor(limbs: &[W; 5]) -> [W; 5] {
        match Products::now() {
            Products::Whole => WideColumns::clear_factor(limbs),
            Products::Halves | Products::SignedHalves => HalfColumns::clear_factor(limbs),
        }
    }
}

/// A word whose products can be taken in signed halves.
pub(crate) trait SignedHalves: Word {
    /// The low half, from -2^51 to 2^51, and the high one. Of two high halves that are as near,
    /// the even one.
    fn halves(a: Self, b: Self) -> [Self; 2];
}

fn add_at<W: SignedHalves>(columns: &mut [W], column: usize, a: W, b: W) {
    let [low, high] = W::halves(a, b);
    columns[column] = columns[column].add(low);
    columns[column + 1] = columns[column + 1].add(high);
}

pub(crate) fn add_product<W: SignedHalves>(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
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

pub(crate) fn add_multiple<W: SignedHalves>(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
    for (k, number) in number.iter().enumerate() {
        add_at(columns, k, *number, W::splat(limb));
    }
}

pub(crate) fn add_top<W: SignedHalves>(low: [W; 2], top: W) -> [W; 2] {
    let shifted = top.shift_left_wrapping::<FOLD_256_SHIFT>().and(W::splat(LIMB_MASK));
    [
        low[0].add_product_low(top, W::splat(FOLD_256_LOW)).add(shifted),
        low[1].add(top.shift_right::<{ LIMB_BITS - FOLD_256_SHIFT }>()),
    ]
}

/// The operations of [`Word`] that differ, for a type that has either kind of halves.
macro_rules! either_kind_of_halves {
    () => {
        #[inline(never)]
        fn add_product(columns: &mut [Self; 10], a: &[Self; 5], b: &[Self; 5]) {
            if $crate::model::is_signed() {
                $crate::model::add_product(columns, a, b);
            } else {
                $crate::word::add_product_by_rows(columns, a, b);
            }
        }
        #[inline(never)]
        fn square(a: &[Self; 5]) -> [Self; 10] {
            if $crate::model::is_signed() {
                Self::product(a, a)
            } else {
                $crate::word::square_by_rows(a)
            }
        }
        #[inline(never)]
        fn add_multiple(columns: &mut [Self; 6], number: &[Self; 5], limb: u64) {
            if $crate::model::is_signed() {
                $crate::model::add_multiple(columns, number, limb);
            } else {
                $crate::word::add_multiple_by_halves(columns, number, limb);
            }
        }
        #[inline(never)]
        fn add_top(low: [Self; 2], top: Self) -> [Self; 2] {
            if $crate::model::is_signed() {
                $crate::model::add_top(low, top)
            } else {
                $crate::word::add_top_by_halves(low, top)
            }
        }
    };
}
pub(crate) use either_kind_of_halves;

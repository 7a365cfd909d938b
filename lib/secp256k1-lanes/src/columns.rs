//! Products of limbs in halves, which vectors multiply.

use crate::fault::{Fault, is_planted};
use crate::limbs::{TOP_BITS, TOP_MASK, carry, carry_and_clear, clear, lifted};
use crate::word::{Columns, FOLD_256, FOLD_260, LIMB_BITS, Word, add_product_by_rows};
use std::fmt::Debug;
use std::marker::PhantomData;

/// How products become columns: low halves of the products of limbs in the column of the sum of the
/// limbs' indexes, high halves in the next one.
pub(crate) trait HalfProducts<W: Word>: Copy + Debug {
    /// Whether low halves have a sign (`signed.rs`).
    #[cfg(test)]
    const SIGNED: bool = false;

    /// Adds the product of two numbers to its ten columns.
    #[inline(always)]
    fn add_product(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
        add_product_by_rows(columns, a, b);
    }
    /// The columns of a product.
    #[inline(always)]
    fn product(a: &[W; 5], b: &[W; 5]) -> [W; 10] {
        let mut columns = [W::splat(0); 10];
        Self::add_product(&mut columns, a, b);
        columns
    }
    /// The columns of a square.
    #[inline(always)]
    fn square(a: &[W; 5]) -> [W; 10] {
        let mut columns = [W::splat(0); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                columns[i + j] = columns[i + j].add_product_low(a[i], a[j]);
            }
            for j in i + 1..5 {
                columns[i + j + 1] = columns[i + j + 1].add_product_high(a[i], a[j]);
            }
        }
        // Each product of two different limbs stands for two. Doubling the sums costs less than
        // doubling the factors, which would lose a bit of the 52.
        for column in &mut columns[1..9] {
            *column = column.add(*column);
        }
        for i in 0..5 {
            columns[2 * i] = columns[2 * i].add_product_low(a[i], a[i]);
        }
        for i in 0..5 {
            columns[2 * i + 1] = columns[2 * i + 1].add_product_high(a[i], a[i]);
        }
        columns
    }
    /// Adds the product of a number and a limb to its six columns.
    #[inline(always)]
    fn add_multiple(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
        let limb = W::splat(limb);
        for k in 0..5 {
            columns[k] = columns[k].add_product_low(number[k], limb);
        }
        for k in 0..5 {
            columns[k + 1] = columns[k + 1].add_product_high(number[k], limb);
        }
    }
    /// Adds what is above 2^256, folded, to the two lowest limbs. It is below 2^42.
    #[inline(always)]
    fn add_top(low: [W; 2], top: W) -> [W; 2] {
        let fold = W::splat(FOLD_256);
        [low[0].add_product_low(top, fold), low[1].add_product_high(top, fold)]
    }
}

/// Ten columns of words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfColumns<W, H> {
    columns: [W; 10],
    halves: PhantomData<H>,
}

/// A multiple of p in ten columns, 4p times 2^260, lifted by 2^60: columns of a product, scaled by
/// up to 8, can be subtracted from them without a borrow.
const LIFTED_COLUMNS: [u64; 10] = {
    const LIFT: u64 = 1 << 60;
    let four_p = lifted(4, LIMB_BITS);
    let mut columns = [0; 10];
    let mut k = 0;
    while k < 10 {
        // What a column gains the next one loses.
        let gain = if k < 9 { LIFT } else { 0 };
        let loss = if k > 0 { LIFT >> LIMB_BITS } else { 0 };
        let digit = if k < 5 { 0 } else { four_p[k - 5] };
        columns[k] = digit + gain - loss;
        k += 1;
    }
    columns
};

/// The products that columns are made of.
#[cfg(test)]
pub(crate) trait OfHalves<W: Word> {
    type Products: HalfProducts<W>;
}

#[cfg(test)]
impl<W: Word, H: HalfProducts<W>> OfHalves<W> for HalfColumns<W, H> {
    type Products = H;
}

impl<W: Word, H: HalfProducts<W>> HalfColumns<W, H> {
    #[inline(always)]
    fn new(columns: [W; 10]) -> Self {
        Self {
            columns,
            halves: PhantomData,
        }
    }

    /// The five upper columns folded into the lower ones, and what is left above 2^260.
    #[inline(always)]
    fn fold_upper(self) -> ([W; 5], W) {
        let mut c = self.columns;
        // A multiply-add reads 52 bits of a factor. So the upper columns are carried before they
        // are multiplied by the fold. The lower ones only get sums, and are carried later.
        for k in 5..9 {
            if !is_planted::<W>(Fault::UpperCarry(k)) {
                c[k + 1] = c[k + 1].add(c[k].shift_right::<LIMB_BITS>());
            }
        }
        c[9].promise_below::<LIMB_BITS>();
        let mut folded = [c[0], c[1], c[2], c[3], c[4], W::splat(0)];
        H::add_multiple(&mut folded, &[c[5], c[6], c[7], c[8], c[9]], FOLD_260);
        let [a, b, c, d, e, above] = folded;
        (
            [a, b, c, d, e],
            if is_planted::<W>(Fault::AboveFold) {
                W::splat(0)
            } else {
                above
            },
        )
    }

    /// What is above 2^256 folded into the lowest limbs.
    #[inline(always)]
    fn fold_top(mut low: [W; 5], above: W) -> [W; 5] {
        // Bit 0 of `above` has the weight 2^260, which is bit 4 above 2^256.
        let top = low[4].shift_right::<TOP_BITS>().add(above.shift_left::<4>());
        top.promise_below::<42>();
        if !is_planted::<W>(Fault::TopMask) {
            low[4] = low[4].and(W::splat(TOP_MASK));
        }
        let [first, second] = H::add_top([low[0], low[1]], top);
        low[0] = first;
        if !is_planted::<W>(Fault::TopFold) {
            low[1] = second;
        }
        low
    }
}

impl<W: Word, H: HalfProducts<W>> Columns<W> for HalfColumns<W, H> {
    #[inline(always)]
    fn product(a: &[W; 5], b: &[W; 5]) -> Self {
        a[4].promise_below::<LIMB_BITS>();
        b[4].promise_below::<LIMB_BITS>();
        Self::new(H::product(a, b))
    }

    #[inline(always)]
    fn square(a: &[W; 5]) -> Self {
        a[4].promise_below::<LIMB_BITS>();
        Self::new(H::square(a))
    }

    #[inline(always)]
    fn add_product(mut self, a: &[W; 5], b: &[W; 5]) -> Self {
        a[4].promise_below::<LIMB_BITS>();
        b[4].promise_below::<LIMB_BITS>();
        H::add_product(&mut self.columns, a, b);
        self
    }

    #[inline(always)]
    fn add(mut self, limbs: &[W; 5]) -> Self {
        for (column, limb) in self.columns.iter_mut().zip(limbs) {
            *column = column.add(*limb);
        }
        self
    }

    #[inline(always)]
    fn subtract_scaled<const BITS: u32>(mut self, other: &Self) -> Self {
        for ((column, lifted), other) in self.columns.iter_mut().zip(LIFTED_COLUMNS).zip(other.columns) {
            // The parenthesis first: it is not negative, whatever the column of the other product
            // is.
            *column = column.add(W::splat(lifted).sub(other.shift_left::<BITS>()));
        }
        self
    }

    #[inline(always)]
    fn lazy(self) -> [W; 5] {
        let (low, above) = self.fold_upper();
        Self::fold_top(low, above)
    }

    #[inline(always)]
    fn lazy_double(self) -> [W; 5] {
        let (low, above) = self.fold_upper();
        let [a, b, c, d, e] = low;
        Self::fold_top([a.add(a), b.add(b), c.add(c), d.add(d), e.add(e)], above.add(above))
    }

    #[inline(always)]
    fn reduce(self) -> [W; 5] {
        carry_and_clear(self.lazy())
    }

    /// The carried bits stay in the limb below, too: a product reads 52 bits.
    #[inline(always)]
    fn factor(limbs: [W; 5]) -> [W; 5] {
        carry(limbs)
    }

    #[inline(always)]
    fn clear_factor(limbs: &[W; 5]) -> [W; 5] {
        clear(limbs)
    }
}

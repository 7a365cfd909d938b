//! Products whose low halves have a sign.
//!
//! A product of two limbs is high times 2^52 plus low. Where the low half is taken from -2^51 to
//! 2^51, no borrow is needed, but a column may come below 0. So the columns of a product begin with
//! a number that is 0 modulo p.

use crate::word::{FOLD_256, FOLD_260, LIMB_BITS};

/// 2^256 modulo p is 2^32 plus this.
pub(crate) const FOLD_256_LOW: u64 = FOLD_256 - (1 << FOLD_256_SHIFT);
pub(crate) const FOLD_256_SHIFT: u32 = 32;

/// More than the low halves of any column can be below 0, and a multiple of 2^52.
const BIAS: u64 = 1 << 54;

/// What columns begin with.
///
/// What a column gains the next one loses. The highest column has only high halves and carries: it
/// gets 1 back, and the column that 2^468 folds into loses that.
pub(crate) const START: [u64; 10] = {
    let mut start = [0_u64; 10];
    let mut column = 0;
    while column < 9 {
        start[column] = start[column].wrapping_add(BIAS);
        start[column + 1] = 0_u64.wrapping_sub(BIAS >> LIMB_BITS);
        column += 1;
    }
    start[9] = start[9].wrapping_add(1);
    start[4] -= FOLD_260;
    start
};

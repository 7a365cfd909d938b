//! How scalars are cut: into digits at positions, and into blocks of positions for the comb.

use crate::scalar::HALF_BITS;

/// Bits of a digit of the point's scalar.
pub(crate) const WIDTH: usize = 5;

/// Positions of digits.
pub(crate) const POSITIONS: usize = HALF_BITS / WIDTH;

/// Bits of a digit of the generator's scalar, and positions of its digits.
pub(crate) const GENERATOR_WIDTH: usize = 10;
pub(crate) const GENERATOR_POSITIONS: usize = HALF_BITS / GENERATOR_WIDTH;

/// Words of a group, which walk through the positions side by side, and by one way.
pub(crate) const SIDE_BY_SIDE: usize = 2;

/// Blocks of the positions.
pub(crate) const BLOCKS: usize = 4;

/// Positions of a block; the highest block may have fewer.
pub(crate) const BLOCK_POSITIONS: usize = POSITIONS.div_ceil(BLOCKS);

/// Doublings between the tables of two blocks.
pub(crate) const BLOCK_BITS: usize = BLOCK_POSITIONS * WIDTH;

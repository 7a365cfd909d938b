//! Single keys: points from compressed form, and whether coordinates are those of a point.
//!
//! Plain integers do this, without another library, C code or memory. libsecp256k1 is faster.

use crate::field::{Fe, square_root};
use crate::keys::right_side;
use crate::number::{self, P};

/// The number b of y^2 = x^3 + b.
const B: u64 = 7;

/// A coordinate; none if it is p or more.
fn coordinate(bytes: &[u8; 32]) -> Option<Fe<u64>> {
    let number = number::from_bytes(bytes);
    number::is_below(&number, &P).then(|| Fe::broadcast(&number))
}

/// The y coordinate of a compressed key, in big endian. The x coordinate is in the key.
///
/// None if the first byte is neither 2 nor 3, or no point has that x.
///
/// ```
/// let generator = [
///     0x02, 0x79, 0xBE, 0x66, 0x7E, 0xF9, 0xDC, 0xBB, 0xAC, 0x55, 0xA0, 0x62, 0x95, 0xCE, 0x87,
///     0x0B, 0x07, 0x02, 0x9B, 0xFC, 0xDB, 0x2D, 0xCE, 0x28, 0xD9, 0x59, 0xF2, 0x81, 0x5B, 0x16,
///     0xF8, 0x17, 0x98,
/// ];
/// let y = secp256k1_lanes::decompress(&generator).unwrap();
/// assert_eq!(y[..4], [0x48, 0x3A, 0xDA, 0x77]);
/// assert!(secp256k1_lanes::is_point(generator[1..].try_into().unwrap(), &y));
/// ```
pub fn decompress(key: &[u8; 33]) -> Option<[u8; 32]> {
    let [prefix @ (2 | 3), x @ ..] = key else {
        return None;
    };
    let x = coordinate(x)?;
    let square = right_side(B, &x);
    let root = square_root(&square);
    // Half of all x have no root. The result is some other number then.
    if !root.square().sub(&square).is_zero() {
        return None;
    }
    let y = root.number(0);
    // 0 is the root of no x: the group has no point of order 2.
    let is_other = (y[0] & 1 == 1) != (*prefix == 3);
    let y = if is_other { number::subtract(&P, &y) } else { y };
    Some(number::to_bytes(&y))
}

/// Whether these are the coordinates of a point, in big endian.
pub fn is_point(x: &[u8; 32], y: &[u8; 32]) -> bool {
    let (Some(x), Some(y)) = (coordinate(x), coordinate(y)) else {
        return false;
    };
    y.square().sub(&right_side(B, &x)).is_zero()
}

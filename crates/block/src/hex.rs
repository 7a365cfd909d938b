//! Hexadecimal text.

use thiserror::Error;

/// Why a text is not the hexadecimal form of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HexError {
    /// The number of digits is odd.
    #[error("odd number of hex digits")]
    OddLength,
    /// A character that is not a hex digit.
    #[error("invalid hex digit at position {position}")]
    InvalidDigit {
        /// Index of the character in bytes.
        position: usize,
    },
    /// The text has the wrong number of bytes.
    #[error("expected {expected} bytes of hex, found {found}")]
    WrongLength {
        /// Expected number of bytes.
        expected: usize,
        /// Number of bytes in the text.
        found: usize,
    },
}

/// The digits of each byte.
const DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    all
};

/// Appends lower-case hex of `bytes`, in their order.
pub fn append(bytes: &[u8], text: &mut Vec<u8>) {
    text.extend(bytes.iter().flat_map(|byte| DIGITS[usize::from(*byte)]));
}

/// Lower-case hex of `bytes`, in their order.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    append(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn digit(character: u8, position: usize) -> Result<u8, HexError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(HexError::InvalidDigit { position }),
    }
}

/// Bytes of a hex text. Digits may have either case.
///
/// # Errors
/// [`HexError::OddLength`], [`HexError::InvalidDigit`].
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) {
        return Err(HexError::OddLength);
    }
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for (index, pair) in text.chunks_exact(2).enumerate() {
        bytes.push(digit(pair[0], index * 2)? << 4 | digit(pair[1], index * 2 + 1)?);
    }
    Ok(bytes)
}

/// As [`decode`], for a fixed number of bytes.
///
/// # Errors
/// Those of [`decode`], and [`HexError::WrongLength`].
pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let bytes = decode(text)?;
    let found = bytes.len();
    bytes
        .try_into()
        .map_err(|_| HexError::WrongLength { expected: N, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_errors() {
        assert_eq!(encode(&[0, 0x1f, 0xab]), "001fab");
        assert_eq!(decode("001FaB").unwrap(), vec![0, 0x1f, 0xab]);
        assert_eq!(decode("abc"), Err(HexError::OddLength));
        assert_eq!(decode("abxg"), Err(HexError::InvalidDigit { position: 2 }));
        assert_eq!(
            decode_array::<2>("aa"),
            Err(HexError::WrongLength { expected: 2, found: 1 })
        );
    }
}

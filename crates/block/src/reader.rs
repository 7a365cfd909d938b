//! Bounded reading of the integers and lengths in Bitcoin's formats.

use thiserror::Error;

/// Largest length that a CompactSize may have, in elements or bytes (Core's `MAX_SIZE`).
pub const COMPACT_SIZE_MAX: u64 = 0x0200_0000;

/// Why bytes do not decode. Offsets count bytes from the start of the decoded value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("data ends too early: {wanted} bytes needed at offset {offset}")]
    UnexpectedEnd {
        /// Start of the read.
        offset: usize,
        /// Bytes that the read needs.
        wanted: usize,
    },
    /// A CompactSize that has a shorter form.
    #[error("non-canonical CompactSize at offset {offset}")]
    NonCanonicalSize {
        /// Start of the CompactSize.
        offset: usize,
    },
    /// A length above [`COMPACT_SIZE_MAX`].
    #[error("size {size} at offset {offset} is too large")]
    SizeTooLarge {
        /// Start of the CompactSize.
        offset: usize,
        /// Value of the CompactSize.
        size: u64,
    },
    /// A VARINT above its bound.
    #[error("VARINT at offset {offset} is too large")]
    VarIntTooLarge {
        /// Start of the VARINT.
        offset: usize,
    },
    /// A transaction in the witness form without any witness.
    #[error("superfluous witness record in the transaction at offset {offset}")]
    SuperfluousWitness {
        /// Start of the transaction.
        offset: usize,
    },
    /// Unknown flags in a transaction's extended form.
    #[error("unknown transaction flags {flags:#04x} at offset {offset}")]
    UnknownFlags {
        /// Offset of the flags.
        offset: usize,
        /// The flags.
        flags: u8,
    },
    /// A compressed public key that is not on the curve.
    #[error("compressed script at offset {offset} has a key that is not on the curve")]
    InvalidPoint {
        /// Start of the compressed script.
        offset: usize,
    },
    /// Bytes follow the end.
    #[error("{extra} bytes after the end at offset {offset}")]
    TrailingBytes {
        /// End of the value.
        offset: usize,
        /// Number of bytes after the value.
        extra: usize,
    },
    /// More bytes than an offset of 32 bits can count.
    #[error("{length} bytes are too many to decode")]
    TooLong {
        /// Number of bytes.
        length: usize,
    },
}

/// A cursor over borrowed bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if self.remaining() < count {
            return Err(DecodeError::UnexpectedEnd {
                offset: self.offset,
                wanted: count,
            });
        }
        let taken = &self.bytes[self.offset..self.offset + count];
        self.offset += count;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes, little endian.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little endian.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A CompactSize that states a length: canonical, and at most [`COMPACT_SIZE_MAX`].
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`], [`DecodeError::NonCanonicalSize`],
    /// [`DecodeError::SizeTooLarge`].
    #[inline]
    pub fn compact_size(&mut self) -> Result<usize, DecodeError> {
        let offset = self.offset;
        let (size, least) = match self.u8()? {
            byte @ 0..=252 => return Ok(usize::from(byte)),
            253 => (u64::from(u16::from_le_bytes(self.array()?)), 253),
            254 => (u64::from(self.u32()?), 0x1_0000),
            255 => (u64::from_le_bytes(self.array()?), 0x1_0000_0000),
        };
        if size < least {
            return Err(DecodeError::NonCanonicalSize { offset });
        }
        if size > COMPACT_SIZE_MAX {
            return Err(DecodeError::SizeTooLarge { offset, size });
        }
        // At most 2^25, so it fits every usize.
        Ok(size as usize)
    }

    /// Bytes with a CompactSize length before them.
    ///
    /// # Errors
    /// Those of [`Reader::compact_size`] and [`Reader::take`].
    #[inline]
    pub fn sized_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.compact_size()?;
        self.take(length)
    }

    /// Core's VARINT: base 128, most significant digit first, one added per further byte; at most
    /// `max`.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`], [`DecodeError::VarIntTooLarge`].
    pub fn varint(&mut self, max: u64) -> Result<u64, DecodeError> {
        let offset = self.offset;
        let mut value: u64 = 0;
        loop {
            let byte = self.u8()?;
            // The next shift would lose bits.
            if value > max >> 7 {
                return Err(DecodeError::VarIntTooLarge { offset });
            }
            value = value << 7 | u64::from(byte & 0x7f);
            if value > max {
                return Err(DecodeError::VarIntTooLarge { offset });
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            // The 1 that is added would lead beyond the bound.
            if value == max {
                return Err(DecodeError::VarIntTooLarge { offset });
            }
            value += 1;
        }
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            extra => Err(DecodeError::TrailingBytes {
                offset: self.offset,
                extra,
            }),
        }
    }
}

/// Appends a CompactSize.
pub fn write_compact_size(size: u64, into: &mut Vec<u8>) {
    match size {
        0..=252 => into.push(size as u8),
        253..=0xffff => {
            into.push(253);
            into.extend_from_slice(&(size as u16).to_le_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            into.push(254);
            into.extend_from_slice(&(size as u32).to_le_bytes());
        }
        _ => {
            into.push(255);
            into.extend_from_slice(&size.to_le_bytes());
        }
    }
}

/// Length in bytes of a CompactSize.
pub const fn compact_size_length(size: u64) -> usize {
    match size {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Appends Core's VARINT.
#[inline]
pub fn write_varint(mut value: u64, into: &mut Vec<u8>) {
    if value <= 0x7f {
        return into.push(value as u8);
    }
    // 64 bits make at most ten digits. They are written from the last one, before as many zeros.
    let mut digits = [0u8; 2 * VARINT_LENGTH_MAX];
    let mut start = VARINT_LENGTH_MAX - 1;
    digits[start] = (value & 0x7f) as u8;
    while value > 0x7f {
        value = (value >> 7) - 1;
        start -= 1;
        digits[start] = (value & 0x7f) as u8 | 0x80;
    }
    // A copy of a known length is faster than one of any length.
    let end = into.len() + VARINT_LENGTH_MAX - start;
    if let Some(digits) = digits[start..].first_chunk::<VARINT_LENGTH_MAX>() {
        into.extend_from_slice(digits);
    }
    into.truncate(end);
}

/// Most digits of a variable-length integer of 64 bits.
const VARINT_LENGTH_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compact(bytes: &[u8]) -> Result<usize, DecodeError> {
        Reader::new(bytes).compact_size()
    }

    #[test]
    fn compact_size_is_canonical_and_bounded() {
        assert_eq!(compact(&[252]), Ok(252));
        assert_eq!(compact(&[253, 253, 0]), Ok(253));
        assert_eq!(
            compact(&[253, 252, 0]),
            Err(DecodeError::NonCanonicalSize { offset: 0 })
        );
        assert_eq!(
            compact(&[254, 255, 255, 0, 0]),
            Err(DecodeError::NonCanonicalSize { offset: 0 })
        );
        assert_eq!(compact(&[254, 0, 0, 0, 2]), Ok(0x0200_0000));
        assert_eq!(
            compact(&[254, 1, 0, 0, 2]),
            Err(DecodeError::SizeTooLarge {
                offset: 0,
                size: 0x0200_0001
            })
        );
        assert_eq!(
            compact(&[255, 0, 0, 0, 0, 1, 0, 0, 0]),
            Err(DecodeError::SizeTooLarge {
                offset: 0,
                size: 1 << 32
            })
        );
        assert!(compact(&[253, 1]).is_err());
    }

    #[test]
    fn varint_known_values() {
        // From the comment on VARINT in Core's serialize.h.
        for (value, bytes) in [
            (0u64, &[0x00u8][..]),
            (1, &[0x01]),
            (127, &[0x7f]),
            (128, &[0x80, 0x00]),
            (255, &[0x80, 0x7f]),
            (256, &[0x81, 0x00]),
            (16383, &[0xfe, 0x7f]),
            (16384, &[0xff, 0x00]),
            (16511, &[0xff, 0x7f]),
            (65535, &[0x82, 0xfe, 0x7f]),
            (1 << 32, &[0x8e, 0xfe, 0xfe, 0xff, 0x00]),
        ] {
            let mut written = Vec::new();
            write_varint(value, &mut written);
            assert_eq!(written, bytes, "{value}");
            assert_eq!(Reader::new(bytes).varint(u64::MAX), Ok(value));
        }
        assert!(
            Reader::new(&[0x8e, 0xfe, 0xfe, 0xff, 0x00])
                .varint(u64::from(u32::MAX))
                .is_err()
        );
        assert!(Reader::new(&[0xff; 32]).varint(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn varint_round_trip(value: u64) {
            let mut written = Vec::new();
            write_varint(value, &mut written);
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.varint(u64::MAX), Ok(value));
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn compact_size_round_trip(value in 0..=COMPACT_SIZE_MAX) {
            let mut written = Vec::new();
            write_compact_size(value, &mut written);
            prop_assert_eq!(written.len(), compact_size_length(value));
            prop_assert_eq!(Reader::new(&written).compact_size(), Ok(value as usize));
        }
    }
}

//! SHA-256, double SHA-256, and types for the hashes of blocks and transactions.

use crate::hex::{self, HexError};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of the SHA-256 of `bytes`.
pub fn sha256d(bytes: &[u8]) -> [u8; 32] {
    sha256(&sha256(bytes))
}

/// Double SHA-256 of bytes that come in pieces.
#[derive(Clone, Default)]
pub struct Sha256d(Sha256);

impl Sha256d {
    /// A hash of no bytes so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The double SHA-256 of all bytes.
    pub fn finalize(self) -> [u8; 32] {
        sha256(&self.0.finalize())
    }
}

/// The bytes of 64 hex digits, last byte first.
const fn parse_reversed(text: &[u8]) -> [u8; 32] {
    assert!(text.len() == 64, "a hash has 64 hex digits");
    let mut bytes = [0; 32];
    let mut index = 0;
    while index < 64 {
        let digit = match text[index] {
            character @ b'0'..=b'9' => character - b'0',
            character @ b'a'..=b'f' => character - b'a' + 10,
            // It is a literal in the source, so the build fails.
            _ => panic!("not a lower-case hex digit"),
        };
        // The text has the bytes in reverse, as Core prints hashes.
        bytes[31 - index / 2] = bytes[31 - index / 2] << 4 | digit;
        index += 1;
    }
    bytes
}

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        /// The bytes are in wire order. Text has them in reverse, as in Bitcoin Core.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// 32 zero bytes.
            pub const ZERO: Self = Self([0; 32]);

            /// The hash of a literal in the source. Panics if the text is not 64 lower-case hex
            /// digits.
            pub const fn from_text(text: &str) -> Self {
                Self(parse_reversed(text.as_bytes()))
            }

            /// The 32 bytes, in wire order.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Whether all bytes are zero.
            pub fn is_zero(&self) -> bool {
                self.0 == [0; 32]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut bytes = self.0;
                bytes.reverse();
                f.write_str(&hex::encode(&bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<Self, HexError> {
                let mut bytes = hex::decode_array::<32>(text)?;
                bytes.reverse();
                Ok(Self(bytes))
            }
        }
    };
}

hash_type!(
    /// Hash of a block's header, which identifies the block.
    BlockHash
);
hash_type!(
    /// Hash of a transaction without its witness.
    Txid
);
hash_type!(
    /// Hash of a transaction with its witness.
    Wtxid
);
hash_type!(
    /// Root of a tree of transaction hashes.
    MerkleRoot
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        assert_eq!(
            hex::encode(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let mut pieces = Sha256d::new();
        pieces.update(b"a");
        pieces.update(b"bc");
        assert_eq!(pieces.finalize(), sha256d(b"abc"));
    }

    #[test]
    fn text_is_reversed() {
        let mut bytes = [0; 32];
        bytes[0] = 1;
        let hash = Txid(bytes);
        assert!(hash.to_string().ends_with("01"));
        assert_eq!(hash.to_string().parse::<Txid>().unwrap(), hash);
        assert_eq!(Txid::from_text(&hash.to_string()), hash);
        assert!("00".parse::<Txid>().is_err());
    }
}

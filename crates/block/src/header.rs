//! Block headers.

use crate::hash::{BlockHash, MerkleRoot, sha256d};
use crate::reader::{DecodeError, Reader};

/// A block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version; the rules of BIP 34, 65 and 66 set lower bounds for it.
    pub version: i32,
    /// Hash of the parent's header.
    pub prev_block_hash: BlockHash,
    /// Merkle root of the transaction ids.
    pub merkle_root: MerkleRoot,
    /// The miner's time in seconds since 1970.
    pub time: u32,
    /// Target in compact form.
    pub bits: u32,
    /// The number that the miner varied.
    pub nonce: u32,
}

impl Header {
    /// Length in bytes.
    pub const LENGTH: usize = 80;

    /// Reads a header.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedEnd`].
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::from_bytes(&reader.array()?))
    }

    /// The header in 80 bytes.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut previous = [0; 32];
        previous.copy_from_slice(&bytes[4..36]);
        let mut root = [0; 32];
        root.copy_from_slice(&bytes[36..68]);
        Self {
            version: word(0).cast_signed(),
            prev_block_hash: BlockHash(previous),
            merkle_root: MerkleRoot(root),
            time: word(68),
            bits: word(72),
            nonce: word(76),
        }
    }

    /// The 80 bytes of the header.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(&self.prev_block_hash.0);
        bytes[36..68].copy_from_slice(&self.merkle_root.0);
        bytes[68..72].copy_from_slice(&self.time.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// The block's hash.
    pub fn hash(&self) -> BlockHash {
        BlockHash(sha256d(&self.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_of_mainnet() {
        let header = Header {
            version: 1,
            prev_block_hash: BlockHash::ZERO,
            merkle_root: "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
                .parse()
                .unwrap(),
            time: 1_231_006_505,
            bits: 0x1d00_ffff,
            nonce: 2_083_236_893,
        };
        assert_eq!(
            header.hash().to_string(),
            "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
        );
        assert_eq!(Header::from_bytes(&header.to_bytes()), header);
    }
}

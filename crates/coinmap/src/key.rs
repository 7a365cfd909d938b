//! The key of an outpoint: the 36 bytes that stores sort coins by.

use blockmill_block::{OutPoint, Txid};

/// Length of a key in bytes.
pub const KEY_LENGTH: usize = OutPoint::LENGTH;

/// A key: the transaction id in wire order, then the output index in big endian.
///
/// Keys sort as outpoints do: by the bytes of the id, then by the number of the output.
pub type OutpointKey = [u8; KEY_LENGTH];

/// The key of an outpoint.
#[inline]
pub fn outpoint_key(outpoint: &OutPoint) -> OutpointKey {
    let mut key = [0; KEY_LENGTH];
    key[..32].copy_from_slice(&outpoint.txid.0);
    key[32..].copy_from_slice(&outpoint.vout.to_be_bytes());
    key
}

/// The outpoint of a key.
#[inline]
pub fn outpoint_from_key(key: &OutpointKey) -> OutPoint {
    let mut txid = [0; 32];
    txid.copy_from_slice(&key[..32]);
    OutPoint {
        txid: Txid(txid),
        vout: u32::from_be_bytes([key[32], key[33], key[34], key[35]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_number() {
        let outpoint = |vout| OutPoint {
            txid: Txid([1; 32]),
            vout,
        };
        assert!(outpoint_key(&outpoint(256)) > outpoint_key(&outpoint(255)));
        assert!(outpoint_key(&outpoint(16_512)) > outpoint_key(&outpoint(256)));
        assert_eq!(outpoint_from_key(&outpoint_key(&outpoint(70_000))), outpoint(70_000));
    }
}

//! What all stores share: how they are opened, keys and values.

use blockmill_block::reader::DecodeError;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, OutpointKey, decode_coin, outpoint_from_key, outpoint_key};
use blockmill_coins::{Changes, CoinStore, StoreError, Tip};
use blockmill_store_log::LogStore;

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Memory for the store's own cache of pages or blocks.
    pub(crate) cache_bytes: usize,
    /// Largest number of coins, for a store that must know its size beforehand.
    pub(crate) coins_max: u64,
}

/// A store with the one thing that the trait has no word for.
pub(crate) trait Contestant: CoinStore {
    /// Waits until no work goes on in the background.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    fn wait_until_idle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Contestant for LogStore {}

pub(super) fn backend(error: impl std::fmt::Display) -> StoreError {
    StoreError::Backend(error.to_string())
}

pub(super) fn damaged(what: &str, wanted: usize) -> StoreError {
    StoreError::Damaged {
        what: what.to_owned(),
        error: DecodeError::UnexpectedEnd { offset: 0, wanted },
    }
}

pub(super) fn decode_entry(key: &[u8], value: &[u8]) -> Result<(OutPoint, Coin), StoreError> {
    let outpoint = outpoint_from_key(key.try_into().map_err(|_| damaged("a key", KEY_LENGTH))?);
    Ok((outpoint, decode_coin(&outpoint, value)?))
}

/// Calls `each` with the key of each change, and the value as it is stored or none.
pub(super) fn visit_encoded<E>(
    changes: &dyn Changes,
    mut each: impl FnMut(&OutpointKey, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut value = Vec::new();
    let mut result = Ok(());
    changes.visit_all(&mut |change| {
        if result.is_err() {
            return;
        }
        value.clear();
        let coin = change.coin.map(|coin| {
            coin.write_compressed(&mut value);
            &value[..]
        });
        result = each(&outpoint_key(&change.outpoint), coin);
    });
    result
}

pub(super) fn tip_bytes(tip: &Tip) -> Vec<u8> {
    let mut bytes = tip.hash.0.to_vec();
    bytes.extend(tip.height.to_le_bytes());
    bytes
}

pub(super) fn decode_tip(bytes: &[u8]) -> Result<Tip, StoreError> {
    let bytes: &[u8; 36] = bytes.try_into().map_err(|_| damaged("the tip", 36))?;
    let mut hash = [0; 32];
    hash.copy_from_slice(&bytes[..32]);
    Ok(Tip {
        hash: BlockHash(hash),
        height: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
    })
}

//! The trait of coin stores.

use blockmill_block::reader::{DecodeError, Reader};
use blockmill_block::{BlockHash, Coin, OutPoint};
use thiserror::Error;

pub use blockmill_coinmap::key::{KEY_LENGTH, OutpointKey, outpoint_from_key, outpoint_key};

/// The block at whose end the stored set of coins is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
}

/// Why a store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The backend refused: disk full, no permission.
    #[error("coin store: {0}")]
    Backend(String),
    /// The file is not one that the backend has left so.
    #[error("coin store: {0}")]
    Corrupt(String),
    /// A stored value does not decode.
    #[error("coin store: the value of {what} is damaged: {error}")]
    Damaged {
        /// What the value belongs to.
        what: String,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The store was written by another version, or by something else.
    #[error("coin store: format {found}, this program reads format {wanted}")]
    Format {
        /// Format found.
        found: String,
        /// Format of this program.
        wanted: u32,
    },
    /// The store belongs to another network.
    #[error("coin store: it belongs to {found}, not to {wanted}")]
    Network {
        /// Network found.
        found: String,
        /// Network asked for.
        wanted: String,
    },
}

impl StoreError {
    /// Whether what is stored is not what it should be, as against a store that cannot be read or written.
    pub fn is_corruption(&self) -> bool {
        !matches!(self, Self::Backend(_))
    }
}

/// A change of a coin: its value from now on, or none once it is spent.
pub type Change = (OutPoint, Option<Coin>);

/// The coins of a snapshot in the order of their keys: by transaction id (in wire order), then by output index.
pub type CoinIterator = Box<dyn Iterator<Item = Result<(OutPoint, Coin), StoreError>>>;

/// Something that keeps coins and the tip that they belong to. Reads may come from several threads at once.
pub trait CoinStore: Send + Sync {
    /// The coin of an outpoint.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError>;

    /// The coins of several outpoints, appended to `coins` in the same order.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        for outpoint in outpoints {
            coins.push(self.get(outpoint)?);
        }
        Ok(())
    }

    /// The tip; none before the first commit.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn tip(&self) -> Result<Option<Tip>, StoreError>;

    /// Writes changes, which come in the order of their keys, and the tip that they lead to: all of it durably, or nothing.
    /// Until it returns, reads see what was there before, or what is written.
    ///
    /// # Errors
    /// [`StoreError::Backend`] or [`StoreError::Corrupt`]; the store is then as it was before.
    fn commit(&self, changes: &mut dyn Iterator<Item = Change>, tip: &Tip) -> Result<(), StoreError>;

    /// All coins as they are now, in the order of their keys; later commits do not show.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn coins(&self) -> Result<CoinIterator, StoreError>;

    /// Bytes on disk; 0 for a store in memory.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn disk_size(&self) -> Result<u64, StoreError>;
}

/// Decodes a stored coin.
pub fn decode_coin(outpoint: &OutPoint, value: &[u8]) -> Result<Coin, StoreError> {
    let mut reader = Reader::new(value);
    Coin::read_compressed(&mut reader)
        .and_then(|coin| reader.finish().map(|()| coin))
        .map_err(|error| StoreError::Damaged {
            what: outpoint.to_string(),
            error,
        })
}

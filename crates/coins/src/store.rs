//! The trait of coin stores.
//!
//! A store in a crate of its own needs [`CoinStore`], [`StoreError`], and the helpers of this
//! module: keys that sort as the trait demands, and [`decode_coin`].

use blockmill_block::reader::{DecodeError, Reader};
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_coinmap::CoinRef;
use thiserror::Error;

pub use blockmill_coinmap::key::{KEY_LENGTH, OutpointKey, outpoint_from_key, outpoint_key};

/// The last block of the chain that a stored set belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Height of the block.
    pub height: u32,
}

/// The last commit of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCommit {
    /// The [identity](CoinStore::identity) of the store; zeros if it has none.
    pub store: [u8; 16],
    /// Counts the commits of the store; 0 before the first.
    pub number: u64,
    /// Where the commit ends. What the number means is the store's.
    pub end: u64,
    /// The tip; none before the first commit.
    pub tip: Option<Tip>,
    /// Coins in the set.
    pub coins: u64,
}

/// Why a store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The backend cannot read or write: disk full, no permission.
    #[error("coin store: {0}")]
    Backend(String),
    /// The file is not as the backend left it.
    #[error("coin store: {0}")]
    Corrupt(String),
    /// A stored value does not decode.
    #[error("coin store: the value of {what} is damaged: {error}")]
    Damaged {
        /// The outpoint, or another name of the value.
        what: String,
        /// The error of decoding.
        error: DecodeError,
    },
    /// Another version wrote the store, or another program.
    #[error("coin store: format {found}, this program reads format {wanted}")]
    Format {
        /// The format found.
        found: String,
        /// The format of this program.
        wanted: u32,
    },
    /// The store belongs to another network.
    #[error("coin store: it belongs to network {found}, not {wanted}")]
    Network {
        /// The network found.
        found: String,
        /// The network that the caller wants.
        wanted: String,
    },
}

impl StoreError {
    /// Whether the stored data is wrong, as opposed to a store that cannot be read or written.
    pub fn is_corruption(&self) -> bool {
        !matches!(self, Self::Backend(_))
    }
}

/// A change of a coin.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The outpoint.
    pub outpoint: OutPoint,
    /// The new coin; none if the outpoint is spent.
    pub coin: Option<CoinRef<'a>>,
    /// What the store has under the outpoint before.
    pub before: Before,
}

/// What the store has under the outpoint of a change, as far as the caller knows. A store may
/// rely on it. If it is wrong, the set is wrong afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A coin, for certain.
    Coin,
    /// Nothing, for certain.
    Nothing,
    /// A coin, or nothing.
    Unknown,
}

/// The changes of a commit, in parts that several threads may visit at once. No outpoint has more
/// than one change.
pub trait Changes: Sync {
    /// Number of changes.
    fn len(&self) -> usize;

    /// Whether there are no changes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of parts. All keys of a part are above those of the part before.
    fn parts(&self) -> usize;

    /// Calls `each` with the changes of a part, from the smallest key to the largest.
    ///
    /// # Panics
    /// If `part` is not below [`parts`](Self::parts).
    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>));

    /// Calls `each` with all changes, from the smallest key to the largest.
    fn visit_all(&self, each: &mut dyn FnMut(Change<'_>)) {
        for part in 0..self.parts() {
            self.visit(part, each);
        }
    }
}

/// A change with a coin of its own: the new coin, or none if the outpoint is spent. Lists of them,
/// sorted by key, are [`Changes`] of which nothing is known before.
pub type OwnedChange = (OutPoint, Option<Coin>);

/// Changes in a part of a list.
const LIST_PART: usize = 1 << 13;

impl<T: AsRef<[OwnedChange]> + Sync> Changes for T {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn parts(&self) -> usize {
        self.as_ref().len().div_ceil(LIST_PART)
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        let start = part * LIST_PART;
        let list = self.as_ref();
        for (outpoint, coin) in &list[start..list.len().min(start + LIST_PART)] {
            each(Change {
                outpoint: *outpoint,
                coin: coin.as_ref().map(CoinRef::from),
                before: Before::Unknown,
            });
        }
    }
}

/// The coins of a set, sorted by key: by transaction id (in wire order), then by output index.
pub type CoinIterator = Box<dyn Iterator<Item = Result<(OutPoint, Coin), StoreError>>>;

/// The coins of a part, sorted by key.
pub enum PartCoins<'a> {
    /// All of them.
    Whole(Vec<(OutPoint, Coin)>),
    /// Some of them at a time: all together they would take too much memory.
    Pieces(CoinPieces<'a>),
}

/// Coins in pieces, sorted by key.
pub type CoinPieces<'a> = Box<dyn Iterator<Item = Result<Vec<(OutPoint, Coin)>, StoreError>> + Send + 'a>;

/// The coins of a set at one moment, cut by their keys into parts that several threads may read at
/// once.
pub trait CoinParts: Send + Sync {
    /// Number of parts. All keys of a part are above those of the part before.
    fn parts(&self) -> usize;

    /// The keys of a part are all below this one, and no key of a later part is. None for the last
    /// part.
    fn end(&self, part: usize) -> Option<OutpointKey>;

    /// The coins of a part, within a bound on memory.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn read_bounded(&self, part: usize) -> Result<PartCoins<'_>, StoreError>;

    /// All coins of a part, sorted by key, whatever memory they take.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn read(&self, part: usize) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
        match self.read_bounded(part)? {
            PartCoins::Whole(coins) => Ok(coins),
            PartCoins::Pieces(pieces) => {
                let mut coins = Vec::new();
                for piece in pieces {
                    coins.extend(piece?);
                }
                Ok(coins)
            }
        }
    }

    /// To be called when every part was read once: whether those were the coins that were written.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    fn check_complete(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store of coins and of the tip that they belong to. Several threads may read at once.
pub trait CoinStore: Send + Sync {
    /// The coin of an outpoint; none if the store has none.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError>;

    /// Appends the coins of several outpoints to `coins`, in the same order.
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

    /// What tells this store from every other: drawn when the store was made, and kept in its files
    /// wherever they are copied. None for a store that does not last.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(None)
    }

    /// The last commit; none from a store that does not count its commits.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        Ok(None)
    }

    /// Writes `changes` and the tip that they lead to: all of it durably, or nothing. Until the
    /// call returns, a read sees either the old state or the new one.
    ///
    /// # Errors
    /// [`StoreError::Backend`] or [`StoreError::Corrupt`]; the store is then unchanged.
    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError>;

    /// All coins at this moment, sorted by key. Later commits do not show.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn coins(&self) -> Result<CoinIterator, StoreError>;

    /// The same coins in parts; none if the store has none to offer.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn coins_in_parts(&self) -> Result<Option<Box<dyn CoinParts>>, StoreError> {
        Ok(None)
    }

    /// Memory in bytes that the store takes beside what its caller bounds: an index, say.
    fn memory(&self) -> usize {
        0
    }

    /// Bytes on disk; 0 for a store in memory.
    ///
    /// # Errors
    /// Any [`StoreError`].
    fn disk_size(&self) -> Result<u64, StoreError>;
}

/// Decodes a coin from Core's compressed form. `outpoint` names the coin in the error.
///
/// # Errors
/// [`StoreError::Damaged`] if the bytes are not exactly one coin.
pub fn decode_coin(outpoint: &OutPoint, value: &[u8]) -> Result<Coin, StoreError> {
    let mut reader = Reader::new(value);
    Coin::read_compressed(&mut reader)
        .and_then(|coin| reader.finish().map(|()| coin))
        .map_err(|error| StoreError::Damaged {
            what: outpoint.to_string(),
            error,
        })
}

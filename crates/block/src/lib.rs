//! Bitcoin's data as it lies on disk and on the wire: blocks, transactions, coins, undo data and the files
//! that hold them.
//!
//! Nothing here judges: a block that decodes may still break every rule of consensus. What the rules need
//! (ids, merkle roots, weights, the raw scripts) is computed here once, from borrowed bytes, without an allocation
//! per script.
//!
//! In reading order:
//! - [`hash`]: the double SHA-256 and the hash newtypes;
//! - [`reader`]: bounded reading of integers and lengths;
//! - [`header`], [`transaction`], [`block`]: the decoded forms;
//! - [`merkle`]: merkle roots and the witness commitment;
//! - [`coin`], [`compress`], [`undo`]: coins, Core's compressed form of them, and undo data;
//! - [`network`]: networks and their magic bytes.

pub mod block;
pub mod coin;
pub mod compress;
pub mod hash;
pub mod header;
pub mod hex;
pub mod merkle;
pub mod network;
pub mod reader;
#[cfg(feature = "bitcoin")]
pub mod rust_bitcoin;
pub mod transaction;
pub mod undo;

pub use block::Block;
pub use coin::{Coin, OutPoint};
pub use hash::{BlockHash, MerkleRoot, Txid, Wtxid};
pub use header::Header;
pub use network::{Magic, Network};
pub use reader::DecodeError;
pub use transaction::{Input, Output, Transaction, Witness};
pub use undo::BlockUndo;

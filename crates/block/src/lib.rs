//! Codecs of Bitcoin's data: blocks, transactions, coins and undo data.
//!
//! A [`Block`] is a table of offsets over its bytes, owned or borrowed. Decoding computes ids and
//! hashes, copies no script, and allocates at most a fixed multiple of the bytes given. The crate
//! checks no rule: a block that decodes may still break every rule of consensus. It opens no files
//! and needs no C compiler.
//!
//! ```
//! use blockmill_block::{Block, hex};
//!
//! // The first block of the main network.
//! let bytes = hex::decode(concat!(
//!     "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b2",
//!     "7ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c0101000000010000",
//!     "000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d01044554",
//!     // ... and 153 bytes more.
//! #   "68652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f6620",
//! #   "7365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0",
//! #   "fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de",
//! #   "5c384df7ba0b8d578a4c702b6bf11d5fac00000000",
//! ))?;
//! let block = Block::decode(&bytes[..])?;
//! assert_eq!(block.merkle_root().hash, block.header().merkle_root.0);
//! for transaction in block.transactions() {
//!     for output in transaction.outputs() {
//!         println!("{} {} satoshi", transaction.txid(), output.value());
//!         # assert_eq!(output.value(), 5_000_000_000);
//!     }
//! }
//! # assert!(block.hash().to_string().starts_with("000000000019d668"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`hash`]: the double SHA-256 and the hash newtypes;
//! - [`hex`]: hexadecimal text;
//! - [`reader`]: bounded reading of integers and lengths;
//! - [`header`], [`transaction`], [`block`]: the decoded forms;
//! - [`merkle`]: merkle roots and the witness commitment;
//! - [`coin`], [`compress`], [`undo`]: coins, Core's compressed form of coins, and undo data;
//! - [`network`]: networks and their magic bytes;
//! - `short`: copies of a few bytes.
//!
//! The feature `bitcoin` adds the module `rust_bitcoin`: conversions from and to the types of
//! rust-bitcoin.

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "Blockmill is made for 64-bit little-endian processors, as x86-64 and ARM64: lengths of files fit \
     a usize there, and nothing is tested on others"
);

pub mod block;
pub mod coin;
mod coin_list;
pub mod compress;
pub mod hash;
pub mod header;
pub mod hex;
pub mod merkle;
pub mod network;
pub mod reader;
#[cfg(feature = "bitcoin")]
pub mod rust_bitcoin;
mod short;
pub mod transaction;
pub mod undo;

pub use block::Block;
pub use coin::{Coin, CoinRef, NoOutPoint, OutPoint};
pub use coin_list::{CoinList, Coins};
pub use hash::{BlockHash, MerkleRoot, Txid, Wtxid};
pub use header::Header;
pub use network::{Magic, Network};
pub use reader::DecodeError;
pub use short::copy_short;
pub use transaction::{Input, Output, Transaction, Witness};
pub use undo::BlockUndo;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

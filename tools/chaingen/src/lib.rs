//! Deterministic Bitcoin regtest chains: valid, signed with real keys, the same bytes for the same seed on any number of threads.
//!
//! Two things are made here:
//!
//! - whole chains, described by a [`ChainSpec`], handed out block by block ([`generate`]) or written as `blk*.dat` files
//!   ([`write_chain`]). The generator keeps the UTXO set that it makes and ends with its `hash_serialized_3`, computed without the
//!   engine, so that a validator can be checked against it;
//! - single blocks, good and bad, for the tests of other crates ([`builder`]).
//!
//! ```
//! use blockmill_chaingen::{Profile, ChainSpec, generate};
//!
//! let mut bytes = 0;
//! let summary = generate(
//!     &ChainSpec::new(Profile::Utxo, 10, 1),
//!     &mut |_height, block| {
//!         bytes += block.len() as u64;
//!         Ok(())
//!     },
//!     &mut |_progress| (),
//! )?;
//! assert_eq!(summary.height, 10);
//! assert_eq!(summary.bytes, bytes);
//! # Ok::<(), blockmill_chaingen::GenerateError>(())
//! ```

pub mod chain_spec;

mod chain;
mod files;

mod plan;
mod schedule;
mod shapes;

mod coin_pool;
mod tx_plan;

mod assemble;
mod sign;
mod wallet;
mod work;

mod address;
mod rng;

pub mod builder;

pub use bitcoin;

pub use crate::chain::generate;
pub use crate::chain_spec::{ChainSpec, GenerateError, Profile, Progress, Summary, UnknownProfile};
pub use crate::files::{write_chain, write_chain_until};

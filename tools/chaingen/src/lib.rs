//! Deterministic Bitcoin regtest chains: valid, signed with real keys. The same seed gives the same
//! bytes on any number of threads.
//!
//! The crate makes three things:
//!
//! - whole chains, described by a [`ChainSpec`]. [`generate`] gives them block by block,
//!   [`write_chain`] writes `blk*.dat` files. The generator keeps the UTXO set of the chain, and
//!   its [`Summary`] has the set's `hash_serialized_3`. No code of the engine computes that hash,
//!   so validators can be compared with it;
//! - single blocks, good and bad, for the tests of other crates ([`builder`]);
//! - the files that Bitcoin Core would have written for a chain, true or not ([`core_files`]), and
//!   block files as a node writes them while others read ([`node_writer`]).
//!
//! ```
//! use blockmill_chaingen::{ChainSpec, Profile, generate};
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

pub mod core_files;

pub mod node_writer;

pub use bitcoin;

pub use crate::chain::generate;
pub use crate::chain_spec::{ChainSpec, GenerateError, Profile, Progress, Summary, UnknownProfile};
pub use crate::files::{write_chain, write_chain_until};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

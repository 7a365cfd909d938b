//! What locking scripts are called, as Bitcoin Core says it.
//!
//! ```
//! use blockmill_block::Network;
//! use blockmill_descriptors::{ScriptKind, address, targets};
//!
//! let text = "wpkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)";
//! let found = targets(text, &(0..=0), Network::Bitcoin)?;
//! let script = &found[0].script_pubkey;
//! assert_eq!(ScriptKind::of(script).word(), "witness_v0_keyhash");
//! let expected = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
//! assert_eq!(address(script, Network::Bitcoin).as_deref(), Some(expected));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules. Each uses only those after it in this list:
//! - `descriptors` (feature `descriptors`): the scripts that a text stands for;
//! - [`script_kind`]: what a script is, and its address;
//! - `addresses` (feature `descriptors`): addresses, and what is wrong with a text that is nearly
//!   one.

#[cfg(feature = "descriptors")]
mod addresses;
#[cfg(feature = "descriptors")]
mod descriptors;
pub mod script_kind;

#[cfg(feature = "descriptors")]
pub use descriptors::{IndexRange, NoTarget, Target, TargetReader, targets};
pub use script_kind::{ScriptKind, address};

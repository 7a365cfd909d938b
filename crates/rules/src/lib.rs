//! Bitcoin's rules of consensus, as tables of small pure functions: no threads, no files, no clock.
//!
//! Every rule is one function with one MUST sentence. The table of its stage has the rule's source
//! (a BIP or a function of Bitcoin Core) and its activation as data. A stage runs its table from
//! top to bottom, in Core's order. A block that breaks several rules is refused with Core's reason.
//!
//! ```
//! use blockmill_block::{Block, Network};
//! use blockmill_rules::block::{BlockOptions, check_block};
//! use blockmill_rules::{Params, ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
//! # use blockmill_chaingen::bitcoin::{constants::genesis_block, Network::Regtest};
//! # use blockmill_chaingen::builder::BlockBuilder;
//!
//! /// Only blocks of a signet run a script in `check_block`.
//! struct NoScripts;
//!
//! impl ScriptVerifier for NoScripts {
//!     type Prepared = ();
//!     type Deferred<T: Send> = ();
//!
//!     fn prepare(&self, _: &[u8], _: &[SpentOutput<'_>]) -> Result<(), VerifyError> {
//!         Ok(())
//!     }
//!
//!     fn verify(&self, _: &(), _: usize, _: ScriptFlags) -> Result<(), VerifyError> {
//!         Err(VerifyError::Verifier("no scripts here".to_owned()))
//!     }
//! }
//!
//! # let genesis = genesis_block(Regtest);
//! # let builder = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600);
//! # let mut bytes = builder.build_bytes();
//! let params = Params::new(Network::Regtest, None);
//! let options = BlockOptions { proof_of_work: true };
//! let check = |bytes: &[u8]| {
//!     let block = Block::decode(bytes).expect("the bytes of a block");
//!     check_block(&block, &params, &NoScripts, options)
//! };
//! assert!(check(&bytes).is_ok());
//!
//! // Another lock time makes another transaction id.
//! *bytes.last_mut().unwrap() ^= 1;
//! assert_eq!(check(&bytes).unwrap_err().reason, "bad-txnmrklroot");
//! ```
//!
//! In reading order:
//! - [`params`]: the networks' parameters and deployments;
//! - [`rule`], [`reject`]: the form of a rule, and of a refusal;
//! - [`target`]: targets, work and the next difficulty;
//! - [`header`]: rules of a header among its ancestors;
//! - [`transaction`]: rules of a transaction by itself;
//! - [`block`]: rules of a block by itself, and among the headers before it;
//! - [`spend`]: rules of a transaction and its coins, subsidy and fees;
//! - [`connect`]: the order of these rules when a block is connected;
//! - [`locks`]: lock times and sequence locks;
//! - [`sigops`], [`script`]: counting signature operations, reading scripts;
//! - [`flags`], [`verifier`]: script flags of a block, and the trait of script verifiers;
//! - [`signet`]: the signature of a signet block;
//! - [`snapshots`]: snapshots of the UTXO set whose hashes are built into Core.

pub mod block;
pub mod connect;
pub mod flags;
pub mod header;
pub mod locks;
pub mod params;
pub mod reject;
pub mod rule;
pub mod script;
pub mod signet;
pub mod sigops;
pub mod snapshots;
pub mod spend;
pub mod target;
pub mod transaction;
pub mod verifier;

mod script_flags;

pub use params::{Deployment, Params};
pub use reject::{Reject, RejectKind};
pub use script_flags::ScriptFlags;
pub use target::Work;
pub use verifier::{DeferredChecks, Outcome, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError};

/// Satoshi in a bitcoin.
pub const COIN: i64 = 100_000_000;

/// All money: the largest amount, and the largest sum of amounts, in satoshi.
pub const MAX_MONEY: i64 = 21_000_000 * COIN;

/// Largest weight of a block.
pub const MAX_BLOCK_WEIGHT: usize = 4_000_000;

/// Largest cost of a block's signature operations.
pub const MAX_BLOCK_SIGOPS_COST: u64 = 80_000;

/// Weight of a byte outside witnesses, and cost of a signature operation there.
pub const WITNESS_SCALE_FACTOR: usize = 4;

/// Confirmations after which the outputs of a coinbase may be spent.
pub const COINBASE_MATURITY: u32 = 100;

/// Whether an amount is between zero and all money.
pub fn money_range(value: i64) -> bool {
    (0..=MAX_MONEY).contains(&value)
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

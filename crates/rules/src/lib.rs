//! Bitcoin's rules of consensus, as tables of small pure functions: no threads, no files, no clock.
//!
//! Every rule is one function with one MUST sentence, the BIP or the Bitcoin Core function that it follows, and a place
//! in the table of its stage, together with its activation as data. A stage runs its table from top to bottom, in
//! Core's order, so that the reason given for a block that breaks several rules is Core's.
//!
//! In reading order:
//! - [`params`]: the networks' parameters and deployments;
//! - [`rule`], [`reject`]: the form of a rule, and of its refusal;
//! - [`target`]: targets, work and the next difficulty;
//! - [`header`]: rules of a header among its ancestors;
//! - [`transaction`]: rules of a transaction by itself;
//! - [`block`]: rules of a block by itself, and among the headers before it;
//! - [`spend`]: rules of what a transaction spends, subsidy and fees;
//! - [`locks`]: lock times and sequence locks;
//! - [`sigops`], [`script`]: counting signature operations, reading scripts;
//! - [`flags`], [`verifier`]: script flags, and the trait of script verifiers;
//! - [`signet`]: the signature of a signet block;
//! - [`snapshots`]: snapshots of the UTXO set that Core has built in.

pub mod block;
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

pub use flags::ScriptFlags;
pub use params::{Deployment, Params};
pub use reject::{Reject, RejectKind};
pub use target::Work;
pub use verifier::{DeferredChecks, Outcome, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError};

/// Satoshi in a bitcoin.
pub const COIN: i64 = 100_000_000;

/// No amount, and no sum of amounts, may be above this many satoshi.
pub const MAX_MONEY: i64 = 21_000_000 * COIN;

/// Largest weight of a block.
pub const MAX_BLOCK_WEIGHT: usize = 4_000_000;

/// Largest cost of a block's signature operations.
pub const MAX_BLOCK_SIGOPS_COST: u64 = 80_000;

/// Weight of a byte, and cost of a signature operation, outside witnesses.
pub const WITNESS_SCALE_FACTOR: usize = 4;

/// Confirmations after which the outputs of a coinbase may be spent.
pub const COINBASE_MATURITY: u32 = 100;

/// Whether an amount is neither negative nor more than all money.
pub fn money_range(value: i64) -> bool {
    (0..=MAX_MONEY).contains(&value)
}

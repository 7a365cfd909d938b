//! A block, or a transaction, validated with the coins that it spends: by every rule and every
//! script, without a store, without files, and on no thread but the caller's, unless more are asked
//! for.
//!
//! ```
//! use blockmill_block::{Block, Network, OutPoint};
//! use blockmill_rules::Params;
//! use blockmill_script::{CoreVerifier, Signatures};
//! use blockmill_validate::{BlockPosition, GivenCoins, Validator, VerifyBlockError};
//! # use blockmill_chaingen::bitcoin::{constants::genesis_block, Network::Regtest};
//! # use blockmill_chaingen::builder::BlockBuilder;
//! # let genesis = genesis_block(Regtest);
//! # let builder = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600);
//! # let bytes = builder.build_bytes();
//!
//! let verifier = CoreVerifier::new(Signatures::OneByOne);
//! let mut validator = Validator::new(verifier.into(), Default::default())?;
//! let params = Params::new(Network::Regtest, None);
//! let position = BlockPosition::at_height(&params, 1);
//! let block = Block::decode(bytes)?.into();
//! // A database of coins would be asked here.
//! let mut lookup = |_: &OutPoint| Ok::<_, std::io::Error>(None);
//! match validator.validate_block(&block, GivenCoins::Lookup(&mut lookup), &position) {
//!     Ok(verified) => println!("valid, {} satoshi of fees", verified.fees),
//!     Err(VerifyBlockError::Reject(reject)) => println!("invalid: {reject}"),
//!     Err(other) => println!("no verdict: {other}"),
//! }
//! # assert!(validator.validate_block(&block, GivenCoins::Lookup(&mut lookup), &position).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules. Each uses only those after it in this list:
//! - [`validator`]: blocks and transactions, with their scripts;
//! - [`collected`]: coins and facts that a caller has collected;
//! - [`block`]: every rule of a block but its scripts;
//! - [`coins`]: the coins of a block, as they are given;
//! - [`position`]: where a block stands, and what is known of the chain below it;
//! - [`check_pool`]: the scripts of blocks, on all threads of a pool.

pub mod block;
pub mod check_pool;
pub mod coins;
pub mod collected;
pub mod position;
pub mod validator;

pub use block::{Verified, VerifyBlockError, validate_without_scripts};
pub use coins::{GivenCoins, OwnCoins, connect_looked_up};
pub use collected::{CollectedCoins, KnownChain};
pub use position::BlockPosition;
pub use validator::{Validator, ValidatorOptions, VerifyTransactionError, script_verdict};

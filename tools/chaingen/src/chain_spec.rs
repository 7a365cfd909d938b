//! The description of a chain ([`ChainSpec`]), the numbers of the finished chain ([`Summary`]),
//! progress, and errors.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The smallest block weight limit of a spec. A coinbase and one transaction of any kind fit.
pub const BLOCK_WEIGHT_MIN: u32 = 10_000;
/// The block weight limit of consensus.
pub const BLOCK_WEIGHT_MAX: u32 = 4_000_000;
/// The longest chain in blocks. At ten minutes a block, its tip is still in the past, as a tip has
/// to be.
pub const BLOCKS_MAX: u32 = 750_000;

/// The kinds of scripts in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Every common script kind, signed with real keys.
    Mixed,
    /// Scripts that take almost no time to check, so that the work on the UTXO set dominates.
    Utxo,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Mixed => "mixed",
            Profile::Utxo => "utxo",
        })
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "mixed" => Ok(Profile::Mixed),
            "utxo" => Ok(Profile::Utxo),
            _ => Err(UnknownProfile(name.to_owned())),
        }
    }
}

/// A name that belongs to no [`Profile`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {0:?} (mixed, utxo)")]
pub struct UnknownProfile(pub String);

/// The description of a chain. The chain's bytes follow from all fields except `threads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// The kinds of scripts.
    pub profile: Profile,
    /// Seed of keys, shapes and amounts.
    pub seed: u64,
    /// Blocks after genesis. No coin is mature before block 101: a shorter chain has only
    /// coinbases.
    pub blocks: u32,
    /// How many of the last blocks have only a coinbase.
    pub empty_blocks: u32,
    /// Inputs of the whole chain, coinbases not counted. The chain has at least as many if they fit
    /// into its blocks.
    pub inputs: u64,
    /// Coins that the set should have at the end. With 0 the profile decides.
    pub coins: u64,
    /// Largest weight of a block, [`BLOCK_WEIGHT_MIN`] to [`BLOCK_WEIGHT_MAX`].
    pub block_weight_max: u32,
    /// Signing threads. 0 means one per core.
    pub threads: usize,
}

impl ChainSpec {
    /// A spec with 340 inputs a block for [`Profile::Mixed`] and 1,000 for [`Profile::Utxo`], no
    /// number of coins, full weight and all cores.
    pub fn new(profile: Profile, blocks: u32, seed: u64) -> ChainSpec {
        let inputs_per_block = match profile {
            Profile::Mixed => 340,
            Profile::Utxo => 1_000,
        };
        ChainSpec {
            profile,
            seed,
            blocks,
            empty_blocks: 0,
            inputs: u64::from(blocks) * inputs_per_block,
            coins: 0,
            block_weight_max: BLOCK_WEIGHT_MAX,
            threads: 0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), GenerateError> {
        if !(BLOCK_WEIGHT_MIN..=BLOCK_WEIGHT_MAX).contains(&self.block_weight_max) {
            return Err(GenerateError::BlockWeight {
                given: self.block_weight_max,
            });
        }
        if self.blocks > BLOCKS_MAX {
            return Err(GenerateError::TooManyBlocks { given: self.blocks });
        }
        if self.empty_blocks > self.blocks {
            return Err(GenerateError::TooManyEmptyBlocks {
                given: self.empty_blocks,
                blocks: self.blocks,
            });
        }
        Ok(())
    }
}

/// The numbers of a finished chain. Hashes are in hex as Bitcoin Core prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The [`Profile`]'s name.
    pub profile: String,
    /// The spec's seed.
    pub seed: u64,
    /// Always `regtest`.
    pub network: String,
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub tip: String,
    /// Blocks, genesis included.
    pub blocks: u64,
    /// Transactions, coinbases and genesis included.
    pub transactions: u64,
    /// Inputs, coinbases not counted.
    pub inputs: u64,
    /// Outputs of all transactions, unspendable outputs included.
    pub outputs: u64,
    /// Bytes of the serialized blocks, genesis included, without the record heads of files.
    pub bytes: u64,
    /// Coins in the UTXO set at the tip.
    pub coins: u64,
    /// Sum of the coins' amounts in satoshi.
    pub total_amount: u64,
    /// The UTXO set's hash as in `gettxoutsetinfo hash_serialized_3`, computed from the generator's
    /// own set.
    pub hash_serialized_3: String,
    /// Names of the files written, in order; empty from [`generate`](crate::generate).
    pub files: Vec<String>,
}

/// Progress of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Blocks made, genesis not counted.
    pub blocks_done: u32,
    /// Blocks of the spec, genesis not counted.
    pub blocks: u32,
    /// Inputs made, coinbases not counted.
    pub inputs: u64,
    /// Bytes of the blocks made.
    pub bytes: u64,
    /// `blocks`, then `hash` (of the UTXO set), then `done`.
    pub phase: &'static str,
}

/// Why a chain was not generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The spec's block weight is out of range.
    #[error("a block weight of {given} is outside {BLOCK_WEIGHT_MIN} to {BLOCK_WEIGHT_MAX}")]
    BlockWeight {
        /// What the spec says.
        given: u32,
    },
    /// The spec's chain would end in the future.
    #[error("{given} blocks are too many: the longest chain has {BLOCKS_MAX}")]
    TooManyBlocks {
        /// What the spec says.
        given: u32,
    },
    /// More empty blocks than blocks.
    #[error("{given} empty blocks are more than all {blocks} blocks")]
    TooManyEmptyBlocks {
        /// What the spec says.
        given: u32,
        /// Blocks of the spec.
        blocks: u32,
    },
    /// The sink failed.
    #[error("the sink failed at block {height}: {source}")]
    Sink {
        /// Height of the block.
        height: u32,
        /// The sink's error.
        source: io::Error,
    },
    /// The caller stopped the run before the end.
    #[error("{}: stopped before the chain was complete; nothing of it is kept", .directory.display())]
    Stopped {
        /// The directory of the unfinished chain.
        directory: PathBuf,
    },
    /// The directory holds block files or a manifest already.
    #[error("{} exists: a chain is written only to a directory without block files and without a manifest",
        .file.display())]
    Occupied {
        /// One of these files.
        file: PathBuf,
    },
    /// A file or directory could not be created or written.
    #[error("{}: {source}", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_names() {
        for profile in [Profile::Mixed, Profile::Utxo] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert_eq!("Mixed".parse::<Profile>(), Err(UnknownProfile("Mixed".to_owned())));
    }

    #[test]
    fn specs_are_checked() {
        let spec = ChainSpec::new(Profile::Mixed, 300, 1);
        assert!(spec.inputs >= 100_000);
        assert!(spec.check().is_ok());
        assert!(matches!(
            ChainSpec {
                block_weight_max: 9_999,
                ..spec.clone()
            }
            .check(),
            Err(GenerateError::BlockWeight { given: 9_999 })
        ));
        let empty = |empty_blocks: u32| ChainSpec {
            empty_blocks,
            ..spec.clone()
        };
        assert!(empty(300).check().is_ok());
        assert!(matches!(
            empty(301).check(),
            Err(GenerateError::TooManyEmptyBlocks {
                given: 301,
                blocks: 300
            })
        ));
        assert!(matches!(
            ChainSpec {
                blocks: 800_000,
                ..spec
            }
            .check(),
            Err(GenerateError::TooManyBlocks { given: 800_000 })
        ));
    }
}

//! What to generate ([`ChainSpec`]), what came of it ([`Summary`]), how far it is ([`Progress`]), and what can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The least block weight limit that a spec may ask for: room for the coinbase and one transaction of any kind.
pub const BLOCK_WEIGHT_MIN: u32 = 10_000;
/// The block weight limit of consensus.
pub const BLOCK_WEIGHT_MAX: u32 = 4_000_000;
/// The longest chain: at ten minutes a block it still ends in the past, as a chain has to.
pub const BLOCKS_MAX: u32 = 750_000;

/// What the scripts of a chain are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Every common script kind, signed with real keys.
    Mixed,
    /// Scripts that cost next to nothing to check, so that the work on the UTXO set dominates.
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

/// The name is not that of a [`Profile`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called {0:?}: there are mixed and utxo")]
pub struct UnknownProfile(pub String);

/// What to generate. The chain's bytes follow from all fields but `threads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// The scripts.
    pub profile: Profile,
    /// Keys, shapes and amounts follow from it.
    pub seed: u64,
    /// Blocks after genesis. Nothing can be spent before block 101, so that a chain of fewer has only coinbases.
    pub blocks: u32,
    /// How many of them, the last ones, have nothing but a coinbase.
    pub empty_blocks: u32,
    /// Inputs wanted over the whole chain, coinbases not counted. At least so many are made when the blocks have room for them.
    pub inputs: u64,
    /// Live coins aimed at, at the end; 0 leaves it to the profile.
    pub coins: u64,
    /// The weight that no block exceeds, [`BLOCK_WEIGHT_MIN`] to [`BLOCK_WEIGHT_MAX`].
    pub block_weight_max: u32,
    /// Signing threads; 0 is one for each core.
    pub threads: usize,
}

impl ChainSpec {
    /// A spec with 340 inputs a block for [`Profile::Mixed`] and 1,000 for [`Profile::Utxo`], any number of coins, full weight
    /// and all cores.
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

/// What was generated. Hashes are in hex as Bitcoin Core prints them.
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
    /// Outputs of all those transactions, the unspendable ones included.
    pub outputs: u64,
    /// Bytes of the serialized blocks, genesis included, record headers of files not.
    pub bytes: u64,
    /// Coins in the UTXO set at the tip.
    pub coins: u64,
    /// Their value in satoshi.
    pub total_amount: u64,
    /// The UTXO set's hash as in `gettxoutsetinfo hash_serialized_3`, from the set that the generator kept.
    pub hash_serialized_3: String,
    /// Names of the files written, in order; empty from [`generate`](crate::generate).
    pub files: Vec<String>,
}

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Blocks made, genesis not counted.
    pub blocks_done: u32,
    /// Blocks wanted, genesis not counted.
    pub blocks: u32,
    /// Inputs made, coinbases not counted.
    pub inputs: u64,
    /// Bytes of the blocks made.
    pub bytes: u64,
    /// `blocks`, then `hash` (of the UTXO set), then `done`.
    pub phase: &'static str,
}

/// Why no chain came of a spec.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The spec's block weight is out of range.
    #[error("a block weight of {given} is outside {BLOCK_WEIGHT_MIN} to {BLOCK_WEIGHT_MAX}")]
    BlockWeight {
        /// What the spec says.
        given: u32,
    },
    /// The spec's chain would end in the future.
    #[error("{given} blocks are more than the {BLOCKS_MAX} that end in the past")]
    TooManyBlocks {
        /// What the spec says.
        given: u32,
    },
    /// More blocks are to be empty than there are.
    #[error("{given} blocks cannot be empty of {blocks}")]
    TooManyEmptyBlocks {
        /// What the spec says.
        given: u32,
        /// How many blocks it has.
        blocks: u32,
    },
    /// The sink did not take a block.
    #[error("block {height} could not be handed over: {source}")]
    Sink {
        /// Its height.
        height: u32,
        /// What the sink answered.
        source: io::Error,
    },
    /// It was asked to stop before the end.
    #[error("{}: stopped before the chain was complete; nothing of it is kept", .directory.display())]
    Stopped {
        /// The directory that the chain was to be written to.
        directory: PathBuf,
    },
    /// The directory holds block files already.
    #[error("{} is there already: a chain is only written to a directory without block files", .file.display())]
    Occupied {
        /// One of them.
        file: PathBuf,
    },
    /// A file or directory could not be made or written.
    #[error("{}: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
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

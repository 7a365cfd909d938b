//! A generated chain in block files, with another branch that leaves it, and data directories that
//! can be copied.

use super::{Chain, figures_of, write_blocks};
use bitcoin::Block;
use bitcoin::consensus::deserialize;
use blockmill_chaingen::{ChainSpec, Profile, Summary, generate, write_chain};
use blockmill_coins::UtxoStats;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Height of the generated chain.
pub(crate) const HEIGHT: u32 = 130;

/// Inputs in it; the first are in block 101.
const INPUTS: u64 = 3_000;

/// Height at which the other branch leaves it.
pub(crate) const FORK: u32 = 108;

/// The chain, and what its generator says of it.
pub(crate) struct Generated {
    directory: TempDir,
    pub(crate) summary: Summary,
    /// A branch from [`FORK`] on that is one block longer, in a file of its own.
    pub(crate) branch: PathBuf,
    /// The figures at the end of that branch.
    pub(crate) branch_figures: UtxoStats,
}

impl Generated {
    pub(crate) fn new(profile: Profile) -> Self {
        let spec = ChainSpec {
            inputs: INPUTS,
            ..ChainSpec::new(profile, HEIGHT, 11)
        };
        let directory = tempfile::tempdir().unwrap();
        let summary = write_chain(&directory.path().join("chain"), &spec, &mut |_| ()).unwrap();
        let mut chain = Chain { blocks: Vec::new() };
        let mut take = |height: u32, bytes: &[u8]| {
            if height <= FORK {
                chain.blocks.push(deserialize::<Block>(bytes).unwrap());
            }
            Ok(())
        };
        generate(&spec, &mut take, &mut |_| ()).unwrap();
        chain.mine(HEIGHT + 1 - FORK);
        let branch = directory.path().join("branch.dat");
        write_blocks(&branch, &chain.blocks[FORK as usize + 1..]);
        Self {
            summary,
            branch,
            branch_figures: figures_of(&chain),
            directory,
        }
    }

    /// The directory of the chain's block files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.directory.path().join("chain")
    }

    /// Whether these are the figures that the generator counted at the tip.
    pub(crate) fn assert_tip(&self, figures: &UtxoStats) {
        assert_eq!(figures.best_block.to_string(), self.summary.tip);
        assert_eq!(figures.txouts, self.summary.coins);
        assert_eq!(figures.total_amount as u64, self.summary.total_amount);
        assert_eq!(figures.hash_serialized_3.to_string(), self.summary.hash_serialized_3);
    }
}

/// A folder for files that need no disk, so that syncing them takes no time.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Copies a file, or a folder with all that is in it.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Cuts bytes off the end of a file.
pub(crate) fn cut(path: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.checked_sub(bytes).unwrap()).unwrap();
}

pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

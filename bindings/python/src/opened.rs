//! A data directory that was opened, whose set is that after one block, whatever comes.

use crate::fault::Fault;
use blockmill_block::BlockHash;
use blockmill_chain::{ChainBlocks, Observer};
use blockmill_coins::Tip;
use blockmill_datadir::{ChainId, CoinLookup, DataDir, Earlier, PastError, UtxoSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// A data directory, and the block of it that was the tip when it was opened.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    /// Block files beside those that the directory was made from.
    pub(crate) blocks: Vec<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) chain_id: ChainId,
    pub(crate) tip: Tip,
    pub(crate) lookup: CoinLookup,
    chain: OnceLock<Arc<ChainBlocks>>,
}

impl Opened {
    pub(crate) fn new(path: PathBuf, blocks: Vec<PathBuf>, threads: usize, lookup: CoinLookup) -> Self {
        Self {
            path,
            blocks,
            threads,
            chain_id: lookup.directory().chain_id().clone(),
            tip: lookup.tip(),
            lookup,
            chain: OnceLock::new(),
        }
    }

    /// The set as it is after the block that was the tip.
    pub(crate) fn set(&self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<UtxoSet, Fault> {
        let set = UtxoSet::open(&self.path, self.threads)?;
        if set.tip() == self.tip {
            return Ok(set);
        }
        let set = set.at(self.earlier(), stop, observer)?;
        self.check_tip(&set.tip())?;
        Ok(set)
    }

    fn earlier(&self) -> Earlier<'_> {
        Earlier {
            height: self.tip.height,
            sources: &self.blocks,
        }
    }

    /// Checks that a height is one of this set's chain, which a newer set still has.
    pub(crate) fn check_reach(&self, newest: &CoinLookup, height: u32) -> Result<(), Fault> {
        if height > self.tip.height {
            let tip = self.tip.height;
            return Err(PastError::AboveTip { height, tip }.into());
        }
        if newest.tip() == self.tip {
            return Ok(());
        }
        let height = self.tip.height;
        let hash = newest.directory().blocks(&newest.tip())?.hash(height);
        let hash = hash.unwrap_or(BlockHash::ZERO);
        self.check_tip(&Tip { height, hash })
    }

    /// Checks that the chain still has the block.
    fn check_tip(&self, found: &Tip) -> Result<(), Fault> {
        if *found == self.tip {
            return Ok(());
        }
        let Tip { height, hash } = self.tip;
        Err(Fault::File(format!(
            "{}: block {hash} (height {height}) is no longer on the chain: open the directory anew",
            self.path.display()
        )))
    }

    pub(crate) fn chain(&self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<&Arc<ChainBlocks>, Fault> {
        if let Some(chain) = self.chain.get() {
            return Ok(chain);
        }
        let directory = DataDir::open_to_read(&self.path)?;
        let mut chain = directory.blocks(&self.tip)?;
        if !chain.add_files(&self.blocks, stop, observer)? {
            return Err(Fault::Stopped);
        }
        Ok(self.chain.get_or_init(|| Arc::new(chain)))
    }
}

//! Core's ChainstateManager as a peer: block files to a chainstate on disk.

use bitcoinkernel::{
    Block, ChainType, ChainstateManager, ChainstateManagerBuilder, Context, ContextBuilder, ProcessBlockResult,
    disable_logging,
};
use blockmill_block::Network;
use blockmill_blockfiles::BlockFiles;
use blockmill_harness::{Failure, Run, Stopwatch};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Most threads with which Core checks scripts: the master, and at most 15 workers (Core's
/// `MAX_SCRIPTCHECK_THREADS`).
pub(super) const THREADS_MAX: usize = 1 + 15;

/// A run in a process of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    /// The folder with the block files.
    pub(super) blocks: PathBuf,
    /// Threads that check scripts, the master included.
    pub(super) threads: usize,
}

impl Part {
    /// Connects the regtest blocks in the order of the files into a data directory made in `data`.
    /// The time includes opening, reading, connecting, flushing and closing. The manager keeps its
    /// own copy of the blocks, as a node does.
    pub(super) fn connect(&self, data: &Path) -> Result<Run, Failure> {
        silence();
        let clock = Stopwatch::start();
        let context = ContextBuilder::new().chain_type(ChainType::Regtest).build()?;
        let manager = self.open(&context, data)?;
        let mut files = BlockFiles::new();
        for file in files.add(&self.blocks)? {
            for record in files.scan(file, Network::Regtest.magic())?.records {
                let block = Block::new(&files.read(&record.position)?)?;
                if manager.process_block(&block) == ProcessBlockResult::Rejected {
                    return Err(format!("ChainstateManager rejected block {}", record.hash).into());
                }
            }
        }
        // Dropping the manager flushes.
        drop(manager);
        Ok(clock.run(0))
    }

    /// The tip of the data directory, opened again.
    pub(super) fn tip(&self, data: &Path) -> Result<String, Failure> {
        let context = ContextBuilder::new().chain_type(ChainType::Regtest).build()?;
        let manager = self.open(&context, data)?;
        Ok(manager.active_chain().tip().block_hash().to_string())
    }

    /// Opens a manager with the library's own cache size, 450 MiB.
    fn open(&self, context: &Context, data: &Path) -> Result<ChainstateManager, Failure> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("the path is not UTF-8");
        // The thread that hands over blocks is one of them.
        let workers = i32::try_from(self.threads.clamp(1, THREADS_MAX) - 1)?;
        let builder = ChainstateManagerBuilder::new(context, &text(data)?, &text(&data.join("blocks"))?)?;
        Ok(builder.worker_threads(workers).build()?)
    }
}

/// Turns off the library's log on standard output, once. A second call would end the process.
fn silence() {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(disable_logging);
}

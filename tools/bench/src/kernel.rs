//! The kernel's ChainstateManager as a peer: block files to a chainstate on disk.

use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use bitcoinkernel::{
    Block, ChainType, ChainstateManager, ChainstateManagerBuilder, Context, ContextBuilder, ProcessBlockResult,
    disable_logging,
};
use blockmill_block::Network;
use blockmill_blockfiles::BlockFiles;
use std::io;
use std::path::Path;
use std::sync::Once;

/// The most threads that the kernel checks scripts with: the master, and what it lowers a larger
/// number of workers to (Core's `MAX_SCRIPTCHECK_THREADS`).
pub(crate) const THREADS_MAX: usize = 1 + 15;

/// Connects the regtest blocks in `blocks` in the order of the files, with `threads` threads for
/// scripts, the master included, into a data directory made in `data`. Timed is all of it: opening,
/// reading, connecting, flushing, closing. Returns the tip that the data directory has when it is
/// opened again.
///
/// The kernel keeps its own copy of the blocks, as a node does.
///
/// # Errors
/// [`BenchError::Kernel`], [`BenchError::KernelRejected`], [`BenchError::BlockFile`], [`BenchError::File`].
pub(crate) fn connect(blocks: &Path, data: &Path, threads: usize) -> Result<(String, Elapsed), BenchError> {
    silence();
    let clock = Stopwatch::start();
    let context = ContextBuilder::new().chain_type(ChainType::Regtest).build()?;
    let manager = open(&context, data, threads)?;
    process(&manager, blocks)?;
    // Flushes.
    drop(manager);
    let elapsed = clock.elapsed();
    let manager = open(&context, data, threads)?;
    let tip = manager.active_chain().tip().block_hash().to_string();
    Ok((tip, elapsed))
}

/// Keeps the kernel from writing its log to standard output.
/// The kernel ends the process when it is told so a second time.
fn silence() {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(disable_logging);
}

/// Opens a manager with the kernel's own cache size, 450 MiB.
fn open(context: &Context, data: &Path, threads: usize) -> Result<ChainstateManager, BenchError> {
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(BenchError::file(path)(io::Error::other("the path is not UTF-8"))),
    };
    let workers = i32::try_from(threads.clamp(1, THREADS_MAX) - 1).unwrap_or(0);
    let builder = ChainstateManagerBuilder::new(context, &text(data)?, &text(&data.join("blocks"))?)?;
    Ok(builder.worker_threads(workers).build()?)
}

fn process(manager: &ChainstateManager, blocks: &Path) -> Result<(), BenchError> {
    let mut files = BlockFiles::new();
    for file in files.add(blocks)? {
        for record in files.scan(file, Network::Regtest.magic())?.records {
            let block = Block::new(&files.read(&record.position)?)?;
            if manager.process_block(&block) == ProcessBlockResult::Rejected {
                return Err(BenchError::KernelRejected {
                    hash: record.hash.to_string(),
                });
            }
        }
    }
    Ok(())
}

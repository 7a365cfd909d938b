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

/// Most threads with which the kernel checks scripts: the master, and at most 15 workers (Core's
/// `MAX_SCRIPTCHECK_THREADS`).
pub(crate) const THREADS_MAX: usize = 1 + 15;

/// Connects the regtest blocks in `blocks`, in the order of the files, into a data directory made
/// in `data`. `threads` threads check scripts, the master included. The time includes opening,
/// reading, connecting, flushing and closing. Returns the tip of the data directory, opened again.
///
/// The kernel keeps its own copy of the blocks, as a node does.
///
/// # Errors
/// [`BenchError::Kernel`], [`BenchError::KernelRejected`], [`BenchError::BlockFile`],
/// [`BenchError::File`].
pub(crate) fn connect(blocks: &Path, data: &Path, threads: usize) -> Result<(String, Elapsed), BenchError> {
    silence();
    let clock = Stopwatch::start();
    let context = ContextBuilder::new().chain_type(ChainType::Regtest).build()?;
    let manager = open(&context, data, threads)?;
    process(&manager, blocks)?;
    // Dropping the manager flushes.
    drop(manager);
    let elapsed = clock.elapsed();
    let manager = open(&context, data, threads)?;
    let tip = manager.active_chain().tip().block_hash().to_string();
    Ok((tip, elapsed))
}

/// Turns off the kernel's log on standard output, once. A second call would end the process.
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

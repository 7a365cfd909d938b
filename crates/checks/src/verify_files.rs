//! The blocks of block files against the undo data that Bitcoin Core keeps beside them: every
//! script and every rule that needs no set, of a whole directory, without a set. Nothing is
//! written.

use crate::verify_blocks::{BlockTotals, BlockVerification, Problem, Run, Unverified, unreadable, unverified};
use blockmill_block::BlockHash;
use blockmill_blockfiles::FileError;
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::report::events::BlockChange;
use blockmill_chain::report::events::Observer;
use blockmill_chain::report::findings::{Rejected, Unreadable};
use blockmill_chain::report::signatures::{SignatureRanges, Signatures};
use blockmill_chain::report::wholeness::{Found, Wholeness};
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_validate::{OwnCoins, VerifyBlockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// How far it was when it was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The headers were being read, and no block was looked at.
    Indexing,
    /// So many blocks were still to come.
    Before(usize),
}

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesReport {
    /// Sums over the blocks that are verified.
    pub totals: BlockTotals,
    /// Height of the best chain of headers.
    pub best_height: u32,
    /// Blocks that failed.
    pub unverified: Vec<Unverified>,
    /// How signatures were verified, by height.
    pub signatures: SignatureRanges,
    /// Blocks above those that were verified, whose undo data was not written yet.
    pub without_undo_yet: u32,
    /// Whether the block files hold a whole chain, and why not. For a single block that is nothing.
    pub wholeness: Wholeness,
    /// Where the caller's stop ended the work, if it did.
    pub stopped: Option<Stopped>,
}

/// Why block files are not verified at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerifyFilesError {
    /// A source cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Threads cannot be made.
    #[error(transparent)]
    Verifier(#[from] VerifyBlockError),
    /// The only block asked for is in none of the files.
    #[error("block {hash} is in none of the block files, or a block before it is not")]
    UnknownBlock {
        /// The block.
        hash: BlockHash,
    },
}

/// What of block files is verified, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesOptions {
    /// This block alone.
    pub only: Option<BlockHash>,
    /// Threads for the scripts, the caller included.
    pub threads: usize,
    /// How signatures are verified.
    pub signatures: Signatures,
}

/// Verifies the blocks of the best chain of headers in `sources`, or the only one that is asked
/// for.
///
/// # Errors
/// [`VerifyFilesError`].
pub fn verify_files<V: ScriptVerifier + 'static>(
    sources: &[PathBuf],
    params: &Params,
    options: FilesOptions,
    verifier: &Arc<V>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<FilesReport, VerifyFilesError> {
    let mut found = ChainBlocks::of_files(sources, &[], params, stop, observer)?;
    while let Some(mut blocks) = found {
        if let Some(hash) = options.only {
            let ending = blocks.ending_in(&hash);
            blocks = ending.ok_or(VerifyFilesError::UnknownBlock { hash })?;
            if blocks.height() == 0 {
                return Ok(first_block(&blocks));
            }
        }
        let mut report = verify_chain(&blocks, options, verifier, stop, observer)?;
        if options.only.is_some() || report.stopped.is_some() {
            return Ok(report);
        }
        match blocks.find_hidden(stop)? {
            Some(hidden) if hidden.is_whole() => return Ok(report),
            Some(_) => found = blocks.with_hidden(sources, &[], stop, observer)?,
            None => {
                // Every block was verified. The stop came in the search for hidden ones.
                report.stopped = Some(Stopped::Before(0));
                return Ok(report);
            }
        }
    }
    Ok(FilesReport {
        stopped: Some(Stopped::Indexing),
        ..FilesReport::default()
    })
}

/// Verifies the blocks of a chain, or its last one.
fn verify_chain<V: ScriptVerifier + 'static>(
    blocks: &ChainBlocks,
    options: FilesOptions,
    verifier: &Arc<V>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<FilesReport, VerifyFilesError> {
    let heights = match options.only {
        Some(_) => blocks.height()..=blocks.height(),
        // The first block spends nothing, and has no undo data.
        None => 1..=blocks.last_with_undo(1..=blocks.height()),
    };
    let mut report = FilesReport {
        best_height: blocks.best_height(),
        without_undo_yet: blocks.height() - heights.end(),
        ..FilesReport::default()
    };
    let (mut done, last) = (0, *heights.end());
    let mut take = |run: Run<()>| {
        done += run.heights.count();
        report.totals.add(&run.totals);
        report.unverified.extend(run.unverified);
        report.signatures.join(&run.signatures);
    };
    let each = |_: &BlockChange<'_>, (): &mut ()| Ok(());
    let count = heights.clone().count();
    let verification = BlockVerification {
        blocks,
        verifier,
        threads: options.threads,
        signatures: options.signatures,
        own_coins: OwnCoins::Compared,
        stop,
    };
    verification.run(&[heights], &each, observer, &mut take)?;
    if options.only.is_none() {
        // It is in no run, but its copy may be another block.
        report.unverified.extend(verification.first_block_problem());
    }
    report.unverified.sort_by_key(|unverified| unverified.height);
    if options.only.is_none() {
        report.wholeness = blocks.wholeness().clone();
        if report.unverified.is_empty() && done == count {
            let is_valid = |hash: &BlockHash| blocks.height_of(hash).is_some_and(|height| height <= last);
            report.wholeness.decide(is_valid);
        }
        report.wholeness.join(wholeness_of(&report.unverified));
    }
    report.stopped = (done < count).then_some(Stopped::Before(count - done));
    Ok(report)
}

/// What blocks that are not verified say of the chain. Undo data is no part of it.
fn wholeness_of(unverified: &[Unverified]) -> Wholeness {
    let (mut rejected, mut unreadable) = (Vec::new(), Vec::new());
    for Unverified {
        hash,
        height,
        found_at: (path, offset),
        problem,
    } in unverified
    {
        match problem {
            Problem::Reject(reject) => rejected.push(Rejected {
                hash: *hash,
                height: *height,
                reject: reject.clone(),
                path: path.clone(),
                offset: *offset,
                of_best_chain: true,
            }),
            Problem::Unreadable(detail) => unreadable.push(Unreadable {
                hash: *hash,
                height: Some(*height),
                path: path.clone(),
                offset: *offset,
                detail: detail.clone(),
            }),
            Problem::NoUndoFile(_) | Problem::NoUndo(_) => {}
        }
    }
    Wholeness::of(&Found {
        rejected: &rejected,
        unreadable: &unreadable,
        ..Found::default()
    })
}

/// The report on the network's first block alone. It is in the code, so its copy has to be that,
/// and no rule is asked.
fn first_block(blocks: &ChainBlocks) -> FilesReport {
    let mut report = FilesReport {
        best_height: blocks.best_height(),
        ..FilesReport::default()
    };
    match blocks.block(0) {
        Ok(block) => report.totals.add(&BlockTotals {
            blocks: 1,
            transactions: block.transaction_count() as u64,
            weight: block.weight() as u64,
            ..BlockTotals::default()
        }),
        Err(error) => report.unverified.push(unverified(blocks, 0, unreadable(error))),
    }
    report
}

//! The blocks of block files against the undo data that Bitcoin Core keeps beside them: every
//! script and every rule that needs no set, of a whole directory, without a set. Nothing is
//! written.

use crate::chain::assume_valid::signature_way;
use crate::chain::import::index_files;
use crate::chain::index::{BlockId, HeaderIndex};
use crate::chain::rev_files::{RevError, RevFiles};
use crate::inspect::verify::{Verified, VerifyBlockError, VerifyOptions, verify_block};
use crate::report::observer::{Observer, Progress};
use crate::report::signatures::{SignatureRanges, Signatures};
use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::{BlockFiles, FileError};
use blockmill_rules::{Params, Reject, ScriptVerifier};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use thiserror::Error;

/// Why a block of block files is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It breaks a rule.
    Reject(Reject),
    /// It, or its undo data, cannot be read, or is not there.
    Unreadable(String),
    /// There is no undo file beside the block file.
    NoUndoFile,
}

/// A block that is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Where it lies: the file, and the place in bytes.
    pub found_at: (PathBuf, u64),
    /// Why.
    pub problem: Problem,
}

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
    /// Blocks that are verified.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Their fees in satoshi.
    pub fees: i64,
    /// Their weight.
    pub weight: u64,
    /// Height of the best chain of headers.
    pub best_height: u32,
    /// Blocks that failed.
    pub unverified: Vec<Unverified>,
    /// How signatures were verified, by height.
    pub signatures: SignatureRanges,
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
/// for. Locks that depend on the times of earlier blocks are checked neither here nor in
/// [`verify_block`].
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
    let start = Instant::now();
    let mut files = BlockFiles::new();
    for source in sources {
        files.add(source)?;
    }
    let Some((index, _)) = index_files(&files, params, stop, observer)? else {
        return Ok(FilesReport {
            stopped: Some(Stopped::Indexing),
            ..FilesReport::default()
        });
    };
    let best = index.best_header();
    let best_height = index.entry(best).height;
    let chain: Vec<BlockId> = match options.only {
        Some(hash) => vec![index.find(&hash).ok_or(VerifyFilesError::UnknownBlock { hash })?],
        None => (1..=best_height)
            .filter_map(|height| index.ancestor(best, height))
            .collect(),
    };
    let mut report = FilesReport {
        best_height,
        ..FilesReport::default()
    };
    let mut beside = Beside {
        files: &files,
        params,
        undo: RevFiles::default(),
        next: 0,
    };
    let remaining = |ids: &[BlockId]| ids.iter().map(|&id| length(&index, id)).sum::<u64>();
    let mut progress = Progress {
        height: 0,
        tip_time: 0,
        best_height,
        blocks: 0,
        transactions: 0,
        inputs: 0,
        bytes: 0,
        bytes_remaining: remaining(&chain),
        share: 0.0,
        cache_coins: 0,
        cache_bytes: 0,
        elapsed: start.elapsed(),
    };
    for (number, &id) in chain.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            report.stopped = Some(Stopped::Before(chain.len() - number));
            break;
        }
        let entry = index.entry(id);
        let way = signature_way(&index, id, options.signatures, verifier.signatures_together() > 0);
        let options = VerifyOptions {
            height: entry.height,
            threads: options.threads,
            proof_of_work: true,
            signatures: if way.lanes {
                Signatures::Lanes
            } else {
                Signatures::Kernel
            },
        };
        match beside.verify(&index, id, verifier, options) {
            Ok(verified) => {
                report.signatures.add(entry.height, way);
                report.blocks += 1;
                report.transactions += verified.transactions;
                report.inputs += verified.inputs;
                report.fees += verified.fees;
                report.weight += verified.weight;
            }
            Err(problem) => {
                let position = entry.position();
                report.unverified.push(Unverified {
                    hash: entry.hash,
                    height: entry.height,
                    found_at: position.map_or_else(Default::default, |position| {
                        (files.path(position.file).to_owned(), position.offset)
                    }),
                    problem,
                });
            }
        }
        let bytes = length(&index, id);
        let (done, remaining) = (progress.bytes + bytes, progress.bytes_remaining - bytes);
        progress = Progress {
            height: entry.height,
            tip_time: entry.time,
            blocks: report.blocks,
            transactions: report.transactions,
            inputs: report.inputs,
            bytes: done,
            bytes_remaining: remaining,
            share: done as f64 / (done + remaining).max(1) as f64,
            elapsed: start.elapsed(),
            ..progress
        };
        observer.progress(&progress);
    }
    Ok(report)
}

fn length(index: &HeaderIndex, id: BlockId) -> u64 {
    index.entry(id).block_length()
}

/// The files, and the undo data beside them.
struct Beside<'a> {
    files: &'a BlockFiles,
    params: &'a Params,
    undo: RevFiles,
    /// Number of the record after the last one found.
    next: usize,
}

impl Beside<'_> {
    fn verify<V: ScriptVerifier + 'static>(
        &mut self,
        index: &HeaderIndex,
        id: BlockId,
        verifier: &Arc<V>,
        options: VerifyOptions,
    ) -> Result<Verified, Problem> {
        let unreadable = |detail: String| Problem::Unreadable(detail);
        let entry = index.entry(id);
        let position = entry
            .position()
            .ok_or_else(|| unreadable("its content is in none of the block files".to_owned()))?;
        let bytes = self
            .files
            .read(&position)
            .map_err(|error| unreadable(error.to_string()))?;
        let block = Block::decode(bytes).map_err(|error| unreadable(format!("the block does not decode: {error}")))?;
        let (record, undo) = self
            .undo
            .find(self.files, position.file, self.params.magic(), &block, self.next)
            .map_err(|error| match error {
                RevError::NoFile => Problem::NoUndoFile,
                error => unreadable(error.to_string()),
            })?;
        self.next = record + 1;
        verify_block(&Arc::new(block), &Arc::new(undo), self.params, verifier, options).map_err(|error| match error {
            VerifyBlockError::Reject(reject) => Problem::Reject(reject),
            VerifyBlockError::Verifier(detail) => unreadable(detail),
        })
    }
}

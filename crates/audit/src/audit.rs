//! Audits of a directory of block files, of a data directory, of a range.

use crate::conditions::Conditions;
use crate::error::AuditError;
use crate::finding::{Finding, FindingKind, Unread, by_cause};
use crate::key::Key;
use crate::own_folder::open_own_folder;
use crate::part::Part;
use crate::report::{Report, missing, not_in_chain, not_whole, without_work};
use crate::set::{AuditedSet, snapshot_head};
use crate::sum::{Summed, open_finding, sum_ranges};
use blockmill_block::Header;
use blockmill_chain::{ChainBlocks, Observer, Signatures};
use blockmill_checks::verify_blocks::{BlockVerification, OwnCoins, Problem, Run, ThreadTimes};
use blockmill_datadir::UtxoSet;
use blockmill_rules::target::block_work;
use blockmill_rules::{Params, RejectKind, ScriptVerifier, Work};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks below the tip in whose records the block of a set is looked for, if it is not in the
/// chain of the others. A node writes blocks so far out of order (Core's `BLOCK_DOWNLOAD_WINDOW`).
const HIDING_MAX: u32 = 1024;

/// How audits are made.
pub struct Auditor<'a, V> {
    /// Runs the scripts.
    pub verifier: &'a Arc<V>,
    /// Threads, the caller's included.
    pub threads: usize,
    /// How signatures are verified.
    pub signatures: Signatures,
    /// Set by the caller to end early.
    pub stop: &'a AtomicBool,
    pub(crate) conditions: Conditions,
}

/// What a part came to.
#[derive(Debug)]
pub struct PartReport {
    /// The part; none where a block cannot be read, or its undo data does not say enough.
    pub part: Option<Part>,
    /// What cannot be read, and what else was found then.
    pub unreadable: Vec<Finding>,
    /// What the threads took for the blocks.
    pub times: ThreadTimes,
}

/// Where blocks lie.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Block files, with Core's undo files beside them.
    pub blocks: &'a [PathBuf],
    /// Headers of blocks that need not be in these files.
    pub headers: &'a [Header],
    /// The parameters of the chain.
    pub params: &'a Params,
}

/// The chain in which a set is to be proved.
pub enum ChainOfSet {
    /// It ends in the set's block.
    Found(Box<ChainBlocks>),
    /// The set's block is in no chain of most work: an audit that is over.
    NotThere(Report),
}

impl<'a, V: ScriptVerifier + 'static> Auditor<'a, V> {
    /// An auditor that verifies with `verifier`.
    pub fn new(verifier: &'a Arc<V>, threads: usize, signatures: Signatures, stop: &'a AtomicBool) -> Self {
        Self {
            verifier,
            threads,
            signatures,
            stop,
            conditions: Conditions::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_conditions(self, conditions: Conditions) -> Self {
        Self { conditions, ..self }
    }

    /// Audits a snapshot against the chain of most work in `sources`. With `resume`, a directory,
    /// what is done is kept there, and a later call goes on with it.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn files(
        &self,
        sources: &Sources<'_>,
        snapshot: &Path,
        resume: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, AuditError> {
        resume.map(open_own_folder).transpose()?;
        let mut found = self.chain_of(sources, snapshot, observer)?;
        loop {
            let blocks = match found {
                ChainOfSet::Found(blocks) => blocks,
                ChainOfSet::NotThere(report) => return Ok(report),
            };
            let mut report = self.whole(&blocks, AuditedSet::Snapshot(snapshot), resume, observer)?;
            let Some(chain) = self.with_hidden(&blocks, sources, observer)? else {
                report.set_wholeness(blocks.wholeness().clone());
                return Ok(report);
            };
            found = self.up_to_set(chain, snapshot, observer)?;
        }
    }

    /// The chain once more, if blocks that were read hide others, of which no search knew.
    fn with_hidden(
        &self,
        blocks: &ChainBlocks,
        sources: &Sources<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Option<ChainBlocks>, AuditError> {
        if blocks.find_hidden(self.stop)?.ok_or(AuditError::Stopped)?.is_whole() {
            return Ok(None);
        }
        let again = blocks.with_hidden(sources.blocks, sources.headers, self.stop, observer)?;
        Ok(Some(again.ok_or(AuditError::Stopped)?))
    }

    /// The chain of most work in `sources`, up to a snapshot's block.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn chain_of(
        &self,
        sources: &Sources<'_>,
        snapshot: &Path,
        observer: &mut dyn Observer,
    ) -> Result<ChainOfSet, AuditError> {
        let head = snapshot_head(snapshot, sources.params.magic())?;
        let mut blocks = self.chain(sources, observer)?;
        while blocks.height_of(&head.base).is_none() {
            // The records of the last blocks may hide others. They say so when they are read, and
            // what else is wrong with them does not matter here.
            for height in blocks.height().saturating_sub(HIDING_MAX)..=blocks.height() {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(AuditError::Stopped);
                }
                let _ = blocks.block(height);
            }
            match self.with_hidden(&blocks, sources, observer)? {
                Some(more) => blocks = more,
                None => break,
            }
        }
        self.up_to_set(blocks, snapshot, observer)
    }

    /// A chain of most work, up to a snapshot's block.
    fn up_to_set(
        &self,
        blocks: ChainBlocks,
        snapshot: &Path,
        observer: &mut dyn Observer,
    ) -> Result<ChainOfSet, AuditError> {
        let head = snapshot_head(snapshot, blocks.params().magic())?;
        let is_of_best = blocks.height_of(&head.base).is_some();
        // Another chain may have as much work.
        let wanted = if is_of_best { Work::ZERO } else { work(&blocks) };
        let mut not_there = not_in_chain(&blocks, head.base);
        let (fork, best) = (blocks.fork_with(&head.base), blocks.hash(blocks.height()));
        let Some(blocks) = blocks.ending_in(&head.base) else {
            return Ok(ChainOfSet::NotThere(not_there));
        };
        if work(&blocks) >= wanted {
            return Ok(ChainOfSet::Found(Box::new(blocks)));
        }
        if let (Some((_, fork)), Ok(best)) = (fork, best)
            && let Some(better) = blocks.ending_in(&best)
        {
            // Blocks that are not valid make no chain of more work, whatever their headers say.
            if let Some(bad) = self.first_bad(&better, fork + 1..=better.height(), observer)? {
                not_there.leave_open(bad);
            }
        }
        Ok(ChainOfSet::NotThere(not_there))
    }

    /// The first block at some heights that lies in a file and is not valid there, or is not with
    /// the undo data that lies there.
    fn first_bad(
        &self,
        blocks: &ChainBlocks,
        heights: RangeInclusive<u32>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Finding>, AuditError> {
        // No sum over the chain tells of coins that the block makes or spends twice itself.
        let verification = self.verification(blocks, OwnCoins::Compared);
        let (mut bad, mut done) = (Vec::new(), 0);
        let mut take = |run: Run<()>| {
            done += run.heights.count();
            bad.extend(run.unverified);
        };
        verification.run(std::slice::from_ref(&heights), &|_, ()| Ok(()), observer, &mut take)?;
        if done < heights.count() {
            return Err(AuditError::Stopped);
        }
        // A block whose undo data is not there says as little as a header alone.
        let bad = bad.into_iter().filter(|bad| {
            let is_there = blocks.found_at(bad.height).is_some();
            is_there && !matches!(bad.problem, Problem::NoUndoFile(_))
        });
        Ok(bad.min_by_key(|bad| bad.height).map(|bad| open_finding(&bad)))
    }

    /// Audits the set of a data directory. Its blocks, and undo data that it does not have itself,
    /// are looked for in `sources`, too.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn data(
        &self,
        data: &Path,
        sources: &[PathBuf],
        resume: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, AuditError> {
        self.set(&UtxoSet::open(data, self.threads)?, sources, resume, observer)
    }

    /// The same of a set that is open. A proof is [noted](crate::Mark) in its directory.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn set(
        &self,
        set: &UtxoSet,
        sources: &[PathBuf],
        resume: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, AuditError> {
        resume.map(open_own_folder).transpose()?;
        let mut blocks = set.blocks()?;
        if !sources.is_empty() && !blocks.add_files(sources, self.stop, observer)? {
            return Err(AuditError::Stopped);
        }
        if let Err((height, reject)) = blocks.check_headers() {
            let hash = blocks.hash(height).unwrap_or_default();
            let kind = match reject.kind {
                // By the clock of this machine. It may become valid.
                RejectKind::TimeFuture => FindingKind::Unreadable,
                _ => FindingKind::Block,
            };
            let finding = Finding::of_block(kind, height, hash, format!("its header: {reject}"));
            let tip = set.tip();
            return Ok(without_work(&blocks, tip.hash, Some(tip.height), vec![finding]));
        }
        self.whole(&blocks, AuditedSet::Data(set), resume, observer)
    }

    /// Audits the blocks of some heights, which other calls make whole. Every header of the chain
    /// is needed, and the blocks of these heights. Where the files and headers do not hold a whole
    /// chain, there is no part that others could take for one of the chain of most work; one with a
    /// block that breaks a rule says so.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn part(
        &self,
        blocks: &ChainBlocks,
        key: &Key,
        heights: RangeInclusive<u32>,
        observer: &mut dyn Observer,
    ) -> Result<PartReport, AuditError> {
        let (first, last, tip) = (*heights.start(), *heights.end(), blocks.height());
        if first > last || last > tip {
            return Err(AuditError::Heights { first, last, tip });
        }
        let missing = missing(blocks, heights.clone());
        if !missing.is_empty() {
            return Ok(PartReport {
                part: None,
                unreadable: missing,
                times: ThreadTimes::default(),
            });
        }
        // The caller keeps it.
        let keep = &mut |_: &Part| Ok(());
        let mut summed = self.sum(blocks, &[heights], key, observer, keep)?;
        if !summed.is_complete {
            return Err(AuditError::Stopped);
        }
        let mut unreadable = by_cause(summed.unreadable);
        unreadable.append(&mut summed.findings);
        let mut part = summed.parts.pop();
        let mut open = not_whole(blocks.wholeness());
        if open.is_empty() {
            open = not_whole(&blocks.find_hidden(self.stop)?.ok_or(AuditError::Stopped)?);
        }
        if !open.is_empty()
            && let Some(part) = part.as_mut()
        {
            // Those who join it are to know.
            part.sums.findings.extend(open);
            part.sums.sort();
        }
        // A part that only leaves a proof open is of no use to a merger.
        if let Some(open) = part.take_if(|part| !part.is_clean() && !part.refutes()) {
            unreadable.extend(by_cause(open.sums.findings.into_iter().map(Unread::from).collect()));
        }
        Ok(PartReport {
            part,
            unreadable,
            times: summed.times,
        })
    }

    /// The chain of most work in `sources`.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn chain(&self, sources: &Sources<'_>, observer: &mut dyn Observer) -> Result<ChainBlocks, AuditError> {
        let Sources {
            blocks,
            headers,
            params,
        } = *sources;
        ChainBlocks::of_files(blocks, headers, params, self.stop, observer)?.ok_or(AuditError::Stopped)
    }

    pub(crate) fn sum(
        &self,
        blocks: &ChainBlocks,
        ranges: &[RangeInclusive<u32>],
        key: &Key,
        observer: &mut dyn Observer,
        keep: &mut dyn FnMut(&Part) -> Result<(), AuditError>,
    ) -> Result<Summed, AuditError> {
        sum_ranges(
            &self.verification(blocks, OwnCoins::ByOthers),
            ranges,
            key,
            self.conditions,
            observer,
            keep,
        )
    }

    fn verification<'b>(&'b self, blocks: &'b ChainBlocks, own_coins: OwnCoins) -> BlockVerification<'b, V> {
        BlockVerification {
            blocks,
            verifier: self.verifier,
            threads: self.threads,
            signatures: self.signatures,
            own_coins,
            stop: self.stop,
        }
    }
}

/// The work of a chain.
fn work(blocks: &ChainBlocks) -> Work {
    let headers = (0..=blocks.height()).filter_map(|height| blocks.header(height).ok());
    headers.map(|header| block_work(header.bits)).sum()
}

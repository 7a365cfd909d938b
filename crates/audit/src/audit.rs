//! Audits of a directory of block files, of a data directory, of a range.

use crate::conditions::Conditions;
use crate::error::AuditError;
use crate::finding::{Finding, FindingKind, Unread, by_cause};
use crate::key::Key;
use crate::own_folder::open_own_folder;
use crate::part::Part;
use crate::report::{Report, missing, not_in_chain, not_whole, without_work};
use crate::set::{AuditedSet, snapshot_head};
use crate::sum::{Summed, sum_ranges};
use blockmill_block::Header;
use blockmill_chain::{ChainBlocks, Observer, Signatures};
use blockmill_checks::verify_blocks::{BlockVerification, OwnCoins, ThreadTimes};
use blockmill_datadir::UtxoSet;
use blockmill_rules::target::block_work;
use blockmill_rules::{Params, RejectKind, ScriptVerifier, Work};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
            found = up_to_set(chain, snapshot)?;
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
        while !blocks.is_known(&head.base) {
            // The record of the last block may hide those above it. It says so when it is read, and
            // what else is wrong with it does not matter here.
            let _ = blocks.block(blocks.height());
            match self.with_hidden(&blocks, sources, observer)? {
                Some(more) => blocks = more,
                None => break,
            }
        }
        up_to_set(blocks, snapshot)
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
        let verification = BlockVerification {
            blocks,
            verifier: self.verifier,
            threads: self.threads,
            signatures: self.signatures,
            own_coins: OwnCoins::ByOthers,
            stop: self.stop,
        };
        sum_ranges(&verification, ranges, key, self.conditions, observer, keep)
    }
}

/// A chain of most work, up to a snapshot's block.
fn up_to_set(blocks: ChainBlocks, snapshot: &Path) -> Result<ChainOfSet, AuditError> {
    let head = snapshot_head(snapshot, blocks.params().magic())?;
    let is_of_best = blocks.height_of(&head.base).is_some();
    // Another chain may have as much work.
    let wanted = if is_of_best { Work::ZERO } else { work(&blocks) };
    let not_there = not_in_chain(&blocks, head.base);
    let found = blocks.ending_in(&head.base).filter(|blocks| work(blocks) >= wanted);
    Ok(found.map_or(ChainOfSet::NotThere(not_there), |blocks| {
        ChainOfSet::Found(Box::new(blocks))
    }))
}

/// The work of a chain.
fn work(blocks: &ChainBlocks) -> Work {
    let headers = (0..=blocks.height()).filter_map(|height| blocks.header(height).ok());
    headers.map(|header| block_work(header.bits)).sum()
}

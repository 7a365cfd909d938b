//! Audits of a directory of block files, of a data directory, of a range; and their merging.

use crate::conditions::{ChainFacts, Conditions};
use crate::error::AuditError;
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::key::Key;
use crate::mark::Mark;
use crate::merge::{Joined, SetSums, join};
use crate::part::Part;
use crate::report::{Report, Verdict};
use crate::set::{of_data, of_snapshot, snapshot_head, snapshot_network};
use crate::sum::{Summed, sum_ranges};
use crate::workplace::Workplace;
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::FileError;
use blockmill_engine::inspect::verify_blocks::{BlockVerification, ThreadTimes};
use blockmill_engine::{ChainBlocks, Observer, Signatures, UtxoSet};
use blockmill_rules::{Params, ScriptVerifier};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    conditions: Conditions,
}

/// What a part came to.
#[derive(Debug)]
pub struct PartReport {
    /// The part; none where a block cannot be read.
    pub part: Option<Part>,
    /// What cannot be read.
    pub unreadable: Vec<Finding>,
    /// What the threads took for the blocks.
    pub times: ThreadTimes,
}

/// The set that an audit is about.
#[derive(Clone, Copy)]
pub enum AuditedSet<'a> {
    /// A snapshot, as Core's `dumptxoutset` writes it.
    Snapshot(&'a Path),
    /// That of a data directory.
    Data(&'a UtxoSet),
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
    /// The set's block is not in the chain of most work: an audit that is over.
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
        match self.chain_of(sources, snapshot, observer)? {
            ChainOfSet::Found(blocks) => self.whole(&blocks, AuditedSet::Snapshot(snapshot), resume, observer),
            ChainOfSet::NotThere(report) => Ok(report),
        }
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
        let blocks = self.chain(sources, observer)?;
        if blocks.height_of(&head.base).is_none() {
            return Ok(ChainOfSet::NotThere(not_in_chain(&blocks, head.base)));
        }
        // It was found just now.
        let blocks = blocks.ending_in(&head.base).ok_or(AuditError::Stopped)?;
        Ok(ChainOfSet::Found(Box::new(blocks)))
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

    /// As [`data`](Self::data), for a set that is open.
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
        let mut blocks = set.blocks()?;
        if !sources.is_empty() && !blocks.add_files(sources, self.stop, observer)? {
            return Err(AuditError::Stopped);
        }
        if let Err((height, reject)) = blocks.check_headers() {
            let hash = blocks.hash(height).unwrap_or_default();
            let finding = Finding::of_block(FindingKind::Block, height, hash, format!("its header: {reject}"));
            return Ok(without_work(
                &blocks,
                set.tip().hash,
                Some(set.tip().height),
                vec![finding],
            ));
        }
        self.whole(&blocks, AuditedSet::Data(set), resume, observer)
    }

    /// Audits the blocks of some heights, which other calls make whole. Every header of the chain
    /// is needed, and the blocks of these heights.
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
        let keep = &mut |_: &Part| Ok(());
        let mut summed = self.sum(blocks, &[heights], key, observer, keep)?;
        if !summed.is_complete {
            return Err(AuditError::Stopped);
        }
        Ok(PartReport {
            part: summed.parts.pop(),
            unreadable: summed.unreadable,
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

    fn sum(
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
            stop: self.stop,
        };
        sum_ranges(&verification, ranges, key, self.conditions, observer, keep)
    }

    /// Audits a whole chain and the set of its last block.
    fn whole(
        &self,
        blocks: &ChainBlocks,
        set: AuditedSet<'_>,
        resume: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, AuditError> {
        let (tip, height) = (blocks.hash(blocks.height()).unwrap_or_default(), blocks.height());
        let missing = missing(blocks, 0..=height);
        if !missing.is_empty() {
            return Ok(without_work(blocks, tip, Some(height), missing));
        }
        let workplace = resume.map(|path| Workplace::open(path, blocks)).transpose()?;
        let key = match &workplace {
            Some(workplace) => workplace.key().clone(),
            None => Key::draw()?,
        };
        let ranges = match &workplace {
            Some(workplace) => workplace.ranges_left(blocks),
            None => vec![0..=height],
        };
        let mut keep = |part: &Part| workplace.as_ref().map_or(Ok(()), |workplace| workplace.keep(part));
        let mut summed = self.sum(blocks, &ranges, &key, observer, &mut keep)?;
        if !summed.is_complete && self.stop.load(Ordering::Relaxed) {
            return Err(AuditError::Stopped);
        }
        let fingerprinter = Fingerprinter::new(&key);
        let set_sums = set_sums(set, height, &fingerprinter, self.threads, self.stop, observer);
        let mut parts = workplace.map_or_else(Vec::new, Workplace::into_parts);
        parts.append(&mut summed.parts);
        parts.sort_by_key(|part| part.first);
        let (set_sums, set_finding) = set_or_finding(set_sums, tip)?;
        let chain = ChainFacts::of_magic(blocks.params().magic());
        let mut joined = join(
            &parts,
            &set_sums,
            &chain,
            Conditions {
                // What cannot be read says more than a gap.
                joined: self.conditions.joined && summed.unreadable.is_empty(),
                sums: self.conditions.sums && summed.unreadable.is_empty() && set_finding.is_none(),
                ..self.conditions
            },
        );
        joined.findings.extend(summed.unreadable);
        joined.findings.extend(set_finding);
        joined.findings.sort();
        let mut report = report(&chain, joined, &set_sums, Some(height), summed.times);
        report.sum_time += summed.sum_time;
        note(&report, set, &key)?;
        Ok(report)
    }
}

/// The sums of a set, whose block has this height.
fn set_sums(
    set: AuditedSet<'_>,
    height: u32,
    fingerprinter: &Fingerprinter,
    threads: usize,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<SetSums, AuditError> {
    match set {
        AuditedSet::Snapshot(path) => of_snapshot(path, height, fingerprinter, threads, stop, observer),
        AuditedSet::Data(set) => of_data(set, fingerprinter, stop, observer),
    }
}

/// Leaves word in a data directory whose set was proved.
fn note(report: &Report, set: AuditedSet<'_>, key: &Key) -> Result<(), AuditError> {
    let (AuditedSet::Data(set), Some(height), Verdict::Proved) = (set, report.height, report.verdict) else {
        return Ok(());
    };
    let mark = Mark {
        run: key.run(),
        height,
        hash: report.hash,
        coins: report.coins,
    };
    Ok(mark.write(set.directory().path())?)
}

/// The bytes of a part, and its name in messages.
pub type NamedPart = (String, Vec<u8>);

/// Reads the files of parts.
///
/// # Errors
/// [`AuditError::File`].
pub fn read_parts(paths: &[PathBuf]) -> Result<Vec<NamedPart>, AuditError> {
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|error| FileError::Io {
            path: path.clone(),
            error,
        })?;
        Ok((path.display().to_string(), bytes))
    };
    paths.iter().map(read).collect()
}

/// Joins the parts of a run with a set. What is no part of the run is a finding.
///
/// # Errors
/// [`AuditError`], where a file cannot be read.
pub fn merge(
    key: &Key,
    parts: &[NamedPart],
    set: AuditedSet<'_>,
    threads: usize,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Report, AuditError> {
    let (magic, base) = match set {
        AuditedSet::Snapshot(path) => {
            let magic = snapshot_network(path)?;
            (magic, snapshot_head(path, magic)?.base)
        }
        AuditedSet::Data(set) => (set.directory().chain_id().params().magic(), set.tip().hash),
    };
    let chain = ChainFacts::of_magic(magic);
    let mut findings = Vec::new();
    let mut decoded = Vec::new();
    for (name, bytes) in parts {
        let problem = match Part::decode(bytes, key) {
            Ok(part) if part.magic == chain.magic => {
                decoded.push(part);
                continue;
            }
            Ok(_) => "the part is of another network than the set".to_owned(),
            Err(error) => error.to_string(),
        };
        let reason = format!("{name}: {problem}");
        findings.push(Finding::general(FindingKind::Seal, reason));
    }
    decoded.sort_by_key(|part| (part.first, part.last));
    let height = height_of(&decoded, &base);
    // No coin is above a height that is not known.
    let base_height = height.unwrap_or(u32::MAX >> 1);
    let fingerprinter = Fingerprinter::new(key);
    let sums = set_sums(set, base_height, &fingerprinter, threads, stop, observer);
    let (set_sums, set_finding) = set_or_finding(sums, base)?;
    let conditions = Conditions {
        // A part that cannot be read says more than the gap that it leaves.
        joined: findings.is_empty(),
        sums: findings.is_empty() && set_finding.is_none(),
        ..Conditions::default()
    };
    let mut joined = join(&decoded, &set_sums, &chain, conditions);
    joined.findings.extend(findings);
    joined.findings.extend(set_finding);
    joined.findings.sort();
    let report = report(&chain, joined, &set_sums, height, ThreadTimes::default());
    note(&report, set, key)?;
    Ok(report)
}

/// Height of the set's block, where parts that are sorted end with it.
fn height_of(parts: &[Part], base: &BlockHash) -> Option<u32> {
    let last = parts.last().filter(|part| part.last_hash == *base);
    last.map(|part| part.last)
}

/// A set that is damaged is a finding.
fn set_or_finding(
    sums: Result<SetSums, AuditError>,
    block: BlockHash,
) -> Result<(SetSums, Option<Finding>), AuditError> {
    match sums {
        Ok(sums) => Ok((sums, None)),
        Err(error @ AuditError::Snapshot { .. }) => {
            let none = SetSums {
                block,
                coins: Fingerprint::default(),
                time: Duration::ZERO,
            };
            Ok((none, Some(Finding::general(FindingKind::Set, error.to_string()))))
        }
        Err(error) => Err(error),
    }
}

fn report(chain: &ChainFacts, joined: Joined, set: &SetSums, height: Option<u32>, times: ThreadTimes) -> Report {
    Report {
        verdict: Verdict::of(&joined.findings),
        network: chain.network,
        height,
        hash: set.block,
        blocks: joined.blocks,
        transactions: joined.transactions,
        inputs: joined.inputs,
        coins: set.coins.coins,
        findings: joined.findings,
        times,
        sum_time: set.time,
    }
}

/// A report where no block was looked at.
fn without_work(blocks: &ChainBlocks, hash: BlockHash, height: Option<u32>, findings: Vec<Finding>) -> Report {
    Report {
        verdict: Verdict::of(&findings),
        network: ChainFacts::of_magic(blocks.params().magic()).network,
        height,
        hash,
        blocks: 0,
        transactions: 0,
        inputs: 0,
        coins: 0,
        findings,
        times: ThreadTimes::default(),
        sum_time: Duration::ZERO,
    }
}

fn not_in_chain(blocks: &ChainBlocks, base: BlockHash) -> Report {
    let tip = blocks.height();
    let finding = if blocks.is_known(&base) {
        let reason = format!("the set is that of block {base}, which is not in the chain of most work");
        Finding::general(FindingKind::Chain, reason)
    } else {
        let reason = format!(
            "the set is that of block {base}, whose header is in none of the block files; their best chain ends at \
             height {tip}"
        );
        Finding::general(FindingKind::Unreadable, reason)
    };
    without_work(blocks, base, None, vec![finding])
}

/// Blocks that are not there, found before the work begins.
fn missing(blocks: &ChainBlocks, heights: RangeInclusive<u32>) -> Vec<Finding> {
    // The first block is in the code.
    let heights = 1.max(*heights.start())..=*heights.end();
    let unreadable = blocks.find_unreadable(heights).into_iter();
    unreadable
        .map(|(heights, problem)| {
            let which = match (heights.start(), heights.end()) {
                (first, last) if first == last => format!("the block of height {first}"),
                (first, last) => format!("the blocks of heights {first} to {last}"),
            };
            Finding::general(FindingKind::Unreadable, format!("{which}: {problem}"))
        })
        .collect()
}

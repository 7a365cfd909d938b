//! The blocks of some ranges, verified and summed up.

use crate::conditions::{ChainFacts, Conditions};
use crate::finding::{Finding, FindingKind, Unread};
use crate::fingerprint::Fingerprinter;
use crate::key::Key;
use crate::part::Part;
use crate::range_sums::{RangeSums, Summing};
use crate::report::NOT_WHOLE;
use blockmill_block::{BlockHash, Txid};
use blockmill_chain::{BlockChange, BlockReadError, ChainBlocks, Observer};
use blockmill_checks::verify::VerifyBlockError;
use blockmill_checks::verify_blocks::{BlockVerification, Problem, Run, ThreadTimes, Unverified};
use blockmill_rules::{RejectKind, ScriptVerifier};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// A range that is being summed up.
struct RangeSum {
    heights: RangeInclusive<u32>,
    /// Blocks that are still to come.
    left: u32,
    sums: RangeSums,
    /// Blocks that cannot be read.
    unreadable: Vec<Unread>,
}

impl RangeSum {
    fn new(heights: RangeInclusive<u32>) -> Self {
        Self {
            left: heights.end() - heights.start() + 1,
            heights,
            sums: RangeSums::default(),
            unreadable: Vec::new(),
        }
    }

    fn add(&mut self, run: Run<TimedSums>) {
        self.left -= run.heights.end() - run.heights.start() + 1;
        self.sums.add(run.value.sums);
        run.unverified
            .iter()
            .for_each(|unverified| self.add_unverified(unverified));
    }

    fn add_unverified(&mut self, unverified: &Unverified) {
        match unread_or_finding(unverified) {
            Ok(unread) => self.unreadable.push(unread),
            Err(finding) => self.sums.findings.push(finding),
        }
    }
}

/// A block that is not verified, as a finding that leaves a proof open.
pub(crate) fn open_finding(unverified: &Unverified) -> Finding {
    match unread_or_finding(unverified) {
        Ok(unread) => unread.finding,
        Err(finding) => Finding {
            kind: FindingKind::Unreadable,
            ..finding
        },
    }
}

/// Why a block is not read; or that it breaks a rule.
fn unread_or_finding(unverified: &Unverified) -> Result<Unread, Finding> {
    let Unverified {
        hash,
        height,
        found_at: (path, offset),
        problem,
    } = unverified;
    let (is_found, path) = (!path.as_os_str().is_empty(), path.display());
    let (reason, cause) = match problem {
        // What the header does not commit to is not what the chain has: the file is damaged, or has
        // a changed copy of the block.
        Problem::Reject(reject) if reject.kind == RejectKind::Mutated => {
            let what = format!("what lies there is not what the block's header commits to ({reject})");
            let reason = format!("{NOT_WHOLE}{path}: offset {offset}: {what}");
            (reason, format!("{path}: {what}"))
        }
        Problem::Reject(reject) => {
            let reason = format!("{path}: offset {offset}: {reject}");
            return Err(Finding::of_block(FindingKind::Block, *height, *hash, reason));
        }
        Problem::Unreadable(detail) if is_found => (
            format!("{NOT_WHOLE}{path}: offset {offset}: {detail}"),
            format!("{path}: {detail}"),
        ),
        Problem::Unreadable(detail) | Problem::NoUndo(detail) => {
            // The finding names the block.
            let block = format!("block {hash} (height {height})");
            let reason = detail
                .replace(&format!(" of {block}"), "")
                .replace(&format!("{block}: "), "");
            let cause = reason.replace(&format!("offset {offset}: "), "");
            (reason, cause)
        }
        Problem::NoUndoFile(why) => {
            let reason = format!("{path}: {why}");
            (reason.clone(), reason)
        }
    };
    Ok(Unread::of_block(*height, *hash, reason, cause))
}

/// Sums of a run of blocks, and the time that they took.
#[derive(Default)]
struct TimedSums {
    sums: RangeSums,
    time: Duration,
}

/// What became of some ranges.
#[derive(Debug, Default)]
pub(crate) struct Summed {
    /// Those of which every block could be read.
    pub(crate) parts: Vec<Part>,
    /// Blocks that cannot be read.
    pub(crate) unreadable: Vec<Unread>,
    /// What was found in ranges with such blocks, of which there are no parts.
    pub(crate) findings: Vec<Finding>,
    /// Whether all ranges were done.
    pub(crate) is_complete: bool,
    pub(crate) times: ThreadTimes,
    /// Time of all threads for the sums.
    pub(crate) sum_time: Duration,
}

impl Summed {
    /// No ranges.
    pub(crate) fn nothing() -> Self {
        Self {
            is_complete: true,
            ..Self::default()
        }
    }

    /// Adds other ranges.
    pub(crate) fn add(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.unreadable.extend(other.unreadable);
        self.findings.extend(other.findings);
        self.is_complete &= other.is_complete;
        self.times.wall += other.times.wall;
        self.times.cpu.extend(other.times.cpu);
        self.sum_time += other.sum_time;
    }
}

/// Verifies the blocks of ranges of heights, which do not overlap, and sums them up. `keep` gets
/// each part as soon as it is there.
pub(crate) fn sum_ranges<V: ScriptVerifier + 'static, E: From<VerifyBlockError>>(
    verification: &BlockVerification<'_, V>,
    ranges: &[RangeInclusive<u32>],
    key: &Key,
    conditions: Conditions,
    observer: &mut dyn Observer,
    keep: &mut dyn FnMut(&Part) -> Result<(), E>,
) -> Result<Summed, E> {
    let blocks = verification.blocks;
    let fingerprinter = Fingerprinter::new(key);
    let summing = Summing {
        fingerprinter: &fingerprinter,
        repeats: ChainFacts::of_magic(blocks.params().magic()).repeats,
        check_order: conditions.order,
    };
    let mut summed = Summed::default();
    let mut pieces: Vec<RangeSum> = ranges.iter().cloned().map(RangeSum::new).collect();
    pieces.sort_by_key(|piece| *piece.heights.start());
    // The first block spends nothing, and its coin is in no set. It is in the code of every node,
    // but files in which its copy is another block are not whole.
    if let Some(first) = pieces.first_mut().filter(|piece| *piece.heights.start() == 0) {
        first.left -= 1;
        first.sums.transactions = 1;
        // With a single transaction the merkle root is its id.
        let root = blocks.params().genesis.merkle_root;
        first.sums.coinbases.push((0, Txid(root.0)));
        if let Some(problem) = verification.first_block_problem() {
            first.add_unverified(&problem);
        }
    }
    let mut failed = Ok(());
    let mut end = |piece: &mut RangeSum, summed: &mut Summed| {
        if piece.left > 0 {
            return;
        }
        let sums = std::mem::take(&mut piece.sums);
        if !piece.unreadable.is_empty() {
            summed.unreadable.append(&mut piece.unreadable);
            summed.findings.extend(sums.findings);
        } else if let Ok(part) = part(blocks, key, &piece.heights, sums) {
            if failed.is_ok() {
                failed = keep(&part);
            }
            summed.parts.push(part);
        }
    };
    let heights: Vec<_> = ranges
        .iter()
        .map(|range| 1.max(*range.start())..=*range.end())
        .collect();
    // A range of the first block alone has no run to wait for.
    for piece in &mut pieces {
        end(piece, &mut summed);
    }
    let each = |change: &BlockChange<'_>, timed: &mut TimedSums| {
        let start = Instant::now();
        summing.add(change, &mut timed.sums);
        timed.time += start.elapsed();
        Ok(())
    };
    let mut take = |run: Run<TimedSums>| {
        summed.sum_time += run.value.time;
        let after = pieces.partition_point(|piece| piece.heights.start() <= run.heights.start());
        // Height 0 is in the first piece.
        let piece = &mut pieces[after.saturating_sub(1)];
        piece.add(run);
        end(piece, &mut summed);
    };
    let times = verification.run(&heights, &each, observer, &mut take)?;
    failed?;
    summed.times = times;
    summed.is_complete = pieces.iter().all(|piece| piece.left == 0);
    summed.parts.sort_by_key(|part| part.first);
    Ok(summed)
}

fn part(
    blocks: &ChainBlocks,
    key: &Key,
    heights: &RangeInclusive<u32>,
    mut sums: RangeSums,
) -> Result<Part, BlockReadError> {
    let (first, last) = (*heights.start(), *heights.end());
    // Blocks that break a rule are in no sum.
    for finding in &sums.findings {
        if let (FindingKind::Block, Some(height)) = (finding.kind, finding.height) {
            // A part has one id for each of its blocks.
            sums.coinbases.push((height, Txid::ZERO));
        }
    }
    sums.sort();
    Ok(Part {
        magic: blocks.params().magic(),
        run: key.run(),
        first,
        last,
        parent: match first {
            0 => BlockHash::ZERO,
            _ => blocks.hash(first - 1)?,
        },
        first_hash: blocks.hash(first)?,
        last_hash: blocks.hash(last)?,
        sums,
    })
}

//! What an audit came to.

use crate::conditions::ChainFacts;
use crate::finding::{Finding, FindingKind};
use crate::joined::Joined;
use crate::key::Key;
use crate::mark::Mark;
use crate::set::{AuditedSet, SetSums};
use blockmill_block::{BlockHash, Network};
use blockmill_chain::{ChainBlocks, Wholeness};
use blockmill_checks::verify_blocks::ThreadTimes;
use blockmill_coins::UtxoStats;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What an audit came to, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The set is the UTXO set of a chain all of whose blocks are valid.
    Proved,
    /// It is not, or the undo data is not that of the chain.
    Refuted,
    /// Something is missing or cannot be read, and nothing is refuted.
    Incomplete,
}

impl Verdict {
    pub(crate) fn of(findings: &[Finding]) -> Self {
        if findings.iter().any(|finding| finding.kind.refutes()) {
            Self::Refuted
        } else if findings.is_empty() {
            Self::Proved
        } else {
            Self::Incomplete
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Refuted => "refuted",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What an audit came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// In a word.
    pub verdict: Verdict,
    /// The network.
    pub network: Network,
    /// Height of the set's block; none where it is not known.
    pub height: Option<u32>,
    /// The set's block.
    pub hash: BlockHash,
    /// Blocks that are verified.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Coins of the set.
    pub coins: u64,
    /// What speaks against a proof.
    pub findings: Vec<Finding>,
    /// What the threads took for the blocks.
    pub times: ThreadTimes,
    /// Time of all threads for the fingerprints, of blocks and of the set.
    pub sum_time: Duration,
    /// Whether the block files hold a whole chain, and why not. A data directory has a chain that
    /// was connected.
    pub wholeness: Wholeness,
    /// Why the data directory has no word of a proof, or still has word of an earlier one that this
    /// audit refutes.
    pub not_noted: Option<String>,
}

/// What the reason of a finding begins with that says why the files do not hold a whole chain.
pub(crate) const NOT_WHOLE: &str = "the chain of the block files is not whole: ";

impl Report {
    /// Why block files do not hold a whole chain, in words: those of this machine, or those that
    /// parts were made from.
    pub fn why_not_whole(&self) -> Vec<String> {
        if !self.wholeness.is_whole() {
            return self.wholeness.reasons.iter().map(ToString::to_string).collect();
        }
        let reasons = self.findings.iter().filter_map(|finding| match finding.kind {
            // A chain with a block that breaks a rule is none.
            FindingKind::Block => Some(finding.to_string()),
            _ => finding.reason.strip_prefix(NOT_WHOLE).map(str::to_owned),
        });
        reasons.collect()
    }

    /// Notes whether the block files hold a whole chain. A proof is none otherwise: blocks that are
    /// not there may be of a chain with more work.
    pub(crate) fn set_wholeness(&mut self, wholeness: Wholeness) {
        self.findings.extend(not_whole(&wholeness));
        self.findings.sort();
        self.verdict = Verdict::of(&self.findings);
        self.wholeness = wholeness;
    }

    /// Leaves open whether the set is in the chain of most work: `why` is a block of a chain of
    /// headers with more work.
    pub(crate) fn leave_open(&mut self, why: Finding) {
        for finding in &mut self.findings {
            if finding.kind == FindingKind::Chain {
                finding.kind = FindingKind::Unreadable;
            }
        }
        self.findings.push(why);
        self.findings.sort();
        self.verdict = Verdict::of(&self.findings);
    }

    /// Leaves word in the directory of a set that was proved, and takes it back where one is
    /// refuted. The verdict does not depend on it.
    pub(crate) fn note(&mut self, set: AuditedSet<'_>, key: &Key, figures: Option<&UtxoStats>) {
        let AuditedSet::Data(set) = set else { return };
        let noted = match (self.verdict, figures) {
            (Verdict::Proved, Some(figures)) => Mark::leave(set, key.run(), figures),
            // What an earlier audit has proved does not hold.
            (Verdict::Refuted, _) => Mark::remove(set),
            _ => Ok(()),
        };
        self.not_noted = noted.err().map(|error| error.to_string());
    }
}

/// Why the block files do not hold a whole chain.
pub(crate) fn not_whole(wholeness: &Wholeness) -> Vec<Finding> {
    let findings = wholeness.reasons.iter().map(|reason| {
        let reason = format!("{NOT_WHOLE}{reason}");
        Finding::general(FindingKind::Unreadable, reason)
    });
    findings.collect()
}

/// The report on joined parts and a set.
pub(crate) fn report(
    chain: &ChainFacts,
    joined: Joined,
    set: &SetSums,
    height: Option<u32>,
    times: ThreadTimes,
) -> Report {
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
        wholeness: Wholeness::default(),
        not_noted: None,
    }
}

/// A report where no block was looked at.
pub(crate) fn without_work(
    blocks: &ChainBlocks,
    hash: BlockHash,
    height: Option<u32>,
    findings: Vec<Finding>,
) -> Report {
    let chain = ChainFacts::of_magic(blocks.params().magic());
    let joined = Joined {
        findings,
        ..Joined::default()
    };
    report(&chain, joined, &SetSums::nothing(hash), height, ThreadTimes::default())
}

/// The report on a set whose block is not in the chain.
pub(crate) fn not_in_chain(blocks: &ChainBlocks, base: BlockHash) -> Report {
    let tip = blocks.height();
    let finding = if blocks.is_known(&base) {
        let reason = format!("the set is that of block {base}, which is not in the chain of most work");
        let kind = match blocks.wholeness().is_whole() {
            true => FindingKind::Chain,
            false => FindingKind::Unreadable,
        };
        Finding::general(kind, reason)
    } else {
        let reason = format!(
            "the set is that of block {base}, whose header is in none of the block files; their best chain ends at \
             height {tip}"
        );
        Finding::general(FindingKind::Unreadable, reason)
    };
    let mut report = without_work(blocks, base, None, vec![finding]);
    report.set_wholeness(blocks.wholeness().clone());
    report
}

/// Blocks that are not there, found before the work begins.
pub(crate) fn missing(blocks: &ChainBlocks, heights: RangeInclusive<u32>) -> Vec<Finding> {
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

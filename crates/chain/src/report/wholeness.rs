//! The one verdict whether block files hold a whole chain: for `connect`, and for all that read
//! blocks.

use crate::report::findings::{Leftover, Rejected, Unreadable};
use blockmill_block::BlockHash;
use blockmill_blockfiles::{Damage, DamageKind, Skipped};
use std::fmt;
use std::mem::discriminant;

/// Whether a run has connected all that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// Everything is connected that may be.
    Complete,
    /// Input is damaged, or blocks are missing.
    Incomplete,
    /// A block of the best chain breaks a rule.
    Rejected,
}

/// A reason why a chain is not whole. Where there are several of a kind, the first is named.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotWhole {
    /// Blocks of the best chain break a rule, by their headers at least.
    Rejected {
        /// How many.
        blocks: u64,
        /// The first.
        first: Rejected,
    },
    /// Blocks cannot be used as they lie there.
    Unreadable {
        /// How many.
        blocks: u64,
        /// The first.
        first: Unreadable,
    },
    /// Bytes of block files are no blocks, and blocks may be missing there.
    Damaged {
        /// How often.
        times: u64,
        /// The first damage.
        first: Damage,
    },
    /// Block files are missing: their names lead to no regular file.
    MissingFiles {
        /// How many.
        files: u64,
        /// The first.
        first: Skipped,
    },
    /// Blocks lie inside records that are longer than their own blocks.
    Hidden {
        /// How many blocks.
        blocks: u64,
        /// The first, in the order of files and offsets.
        first: Leftover,
    },
    /// The parents of blocks are in none of the files.
    LeftOver {
        /// How many blocks.
        blocks: u64,
        /// The first, in the order of files and offsets.
        first: Leftover,
    },
    /// Undo files do not tell which of several chains of the most work is valid.
    Undecided {
        /// How many chains may break a rule.
        blocks: u64,
        /// The end of the first.
        first: Leftover,
    },
}

impl NotWhole {
    /// One word for the reason.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected",
            Self::Unreadable { .. } => "unreadable",
            Self::Damaged { first, .. } => match first.kind {
                DamageKind::NoRecords => "missing_key",
                DamageKind::OtherNetwork(_) => "wrong_network",
                _ => "damaged",
            },
            Self::MissingFiles { .. } => "missing_files",
            Self::Hidden { .. } => "hidden",
            Self::LeftOver { .. } => "left_over",
            Self::Undecided { .. } => "undecided",
        }
    }
}

impl NotWhole {
    /// Its rank among the reasons: the weightiest has the lowest.
    fn rank(&self) -> u8 {
        match self {
            Self::Rejected { .. } => 0,
            Self::Unreadable { .. } => 1,
            Self::Damaged { .. } => 2,
            Self::MissingFiles { .. } => 3,
            Self::Hidden { .. } => 4,
            Self::LeftOver { .. } => 5,
            Self::Undecided { .. } => 6,
        }
    }

    /// How often it was found.
    fn times_mut(&mut self) -> &mut u64 {
        match self {
            Self::Rejected { blocks, .. }
            | Self::Unreadable { blocks, .. }
            | Self::Hidden { blocks, .. }
            | Self::LeftOver { blocks, .. }
            | Self::Undecided { blocks, .. } => blocks,
            Self::Damaged { times, .. } => times,
            Self::MissingFiles { files, .. } => files,
        }
    }
}

fn one_or<'a>(count: u64, one: &'a str, more: &'a str) -> &'a str {
    if count == 1 { one } else { more }
}

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { blocks, first } => write!(f, "{blocks} rejected, the first: {first}"),
            Self::Unreadable { blocks, first } => write!(f, "{blocks} unreadable, the first: {first}"),
            Self::Damaged { times, first } => write!(
                f,
                "block files are damaged {times} {}, the first: {first}",
                one_or(*times, "time", "times")
            ),
            Self::MissingFiles { files, first } => {
                write!(
                    f,
                    "{files} {} missing, the first: {}: {}",
                    one_or(*files, "block file is", "block files are"),
                    first.path.display(),
                    first.reason
                )
            }
            Self::Hidden { blocks, first } => write!(
                f,
                "{blocks} {} inside the records of others; the first: {}: offset {}: block {}",
                one_or(*blocks, "block lies", "blocks lie"),
                first.path.display(),
                first.offset,
                first.hash
            ),
            Self::LeftOver { blocks, first } => write!(
                f,
                "{blocks} {} in none of the files; the first: {}: offset {}: block {}, whose parent is {}",
                one_or(
                    *blocks,
                    "block is left over: its parent is",
                    "blocks are left over: their parent is"
                ),
                first.path.display(),
                first.offset,
                first.hash,
                first.parent
            ),
            Self::Undecided { first, .. } => write!(
                f,
                "{}: offset {}: the undo files do not tell whether the chain up to block {} is valid",
                first.path.display(),
                first.offset,
                first.hash
            ),
        }
    }
}

/// What a search of block files found besides the blocks of a chain, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found<'a> {
    /// Blocks that break a rule.
    pub rejected: &'a [Rejected],
    /// Blocks whose content cannot be used.
    pub unreadable: &'a [Unreadable],
    /// Damage of the files.
    pub damages: &'a [Damage],
    /// Block files whose names are links that lead nowhere.
    pub missing_files: &'a [Skipped],
    /// Number of blocks whose parent is nowhere.
    pub leftovers: u64,
    /// The first of them in the order of files and offsets.
    pub first_leftover: Option<&'a Leftover>,
    /// The end of a chain of the most work that may break a rule.
    pub undecided: Option<&'a Leftover>,
}

/// Whether a chain is whole, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wholeness {
    /// The reasons why not, the weightiest first. Without any the chain is whole.
    pub reasons: Vec<NotWhole>,
}

impl Wholeness {
    /// What a search has found says of the chain.
    pub fn of(found: &Found<'_>) -> Self {
        let rejected: Vec<_> = found.rejected.iter().filter(|block| block.of_best_chain).collect();
        let damages: Vec<_> = found.damages.iter().filter(|damage| !damage.is_harmless()).collect();
        let count = |length: usize| length as u64;
        let reasons = [
            rejected.first().map(|&first| NotWhole::Rejected {
                blocks: count(rejected.len()),
                first: first.clone(),
            }),
            found.unreadable.first().map(|first| NotWhole::Unreadable {
                blocks: count(found.unreadable.len()),
                first: first.clone(),
            }),
            damages.first().map(|&first| NotWhole::Damaged {
                times: count(damages.len()),
                first: first.clone(),
            }),
            found.missing_files.first().map(|first| NotWhole::MissingFiles {
                files: count(found.missing_files.len()),
                first: first.clone(),
            }),
            found.first_leftover.map(|first| NotWhole::LeftOver {
                blocks: found.leftovers,
                first: first.clone(),
            }),
            found.undecided.map(|first| NotWhole::Undecided {
                blocks: 1,
                first: first.clone(),
            }),
        ];
        Self {
            reasons: reasons.into_iter().flatten().collect(),
        }
    }

    /// Of blocks that lie inside the records of others, and of which nothing was known.
    pub(crate) fn of_hidden(hidden: &[Leftover]) -> Self {
        let reason = hidden.first().map(|first| NotWhole::Hidden {
            blocks: hidden.len() as u64,
            first: first.clone(),
        });
        Self {
            reasons: reason.into_iter().collect(),
        }
    }

    /// Removes the reason that a block is undecided, if it is decided by now.
    pub fn decide(&mut self, is_decided: impl Fn(&BlockHash) -> bool) {
        let is_open =
            |reason: &NotWhole| !matches!(reason, NotWhole::Undecided { first, .. } if is_decided(&first.hash));
        self.reasons.retain(is_open);
    }

    /// Whether there is no reason why not.
    pub fn is_whole(&self) -> bool {
        self.reasons.is_empty()
    }

    /// What a run over such files comes to.
    pub fn outcome(&self) -> RunOutcome {
        match self.reasons.first() {
            None => RunOutcome::Complete,
            Some(NotWhole::Rejected { .. }) => RunOutcome::Rejected,
            Some(_) => RunOutcome::Incomplete,
        }
    }

    /// Adds the reasons of another search. Of each kind the first of this one stays the first.
    pub fn join(&mut self, other: Self) {
        for mut reason in other.reasons {
            let is_same = |own: &&mut NotWhole| discriminant(*own) == discriminant(&reason);
            match self.reasons.iter_mut().find(is_same) {
                Some(own) => *own.times_mut() += *reason.times_mut(),
                None => self.reasons.push(reason),
            }
        }
        self.reasons.sort_by_key(NotWhole::rank);
    }
}

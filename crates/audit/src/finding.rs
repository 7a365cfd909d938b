//! What an audit has found against a proof.

use blockmill_block::BlockHash;
use std::collections::HashMap;
use std::fmt;

/// What is wrong, or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FindingKind {
    /// A block breaks a rule, with the coins that its undo data says it spends.
    Block = 1,
    /// A block spends a coin that is created later, by its height, or by its position in the block.
    Order = 2,
    /// Two coinbases are the same, so that a coin could be created twice.
    Once = 3,
    /// The coins that blocks create are not those that blocks spend and the set has.
    Sums = 4,
    /// The block of the set is not in the chain of most work.
    Chain = 5,
    /// The set is damaged.
    Set = 6,
    /// A block, or its undo data, cannot be read, or does not say enough.
    Unreadable = 7,
    /// A part is missing, is there twice, or does not join the next one.
    Parts = 8,
    /// A part is no part of this run: another key has sealed it, or a byte of it was changed.
    Seal = 9,
}

impl FindingKind {
    /// All of them, in the order of their numbers, with their names.
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::Block, "block"),
        (Self::Order, "order"),
        (Self::Once, "once"),
        (Self::Sums, "sums"),
        (Self::Chain, "chain"),
        (Self::Set, "set"),
        (Self::Unreadable, "unreadable"),
        (Self::Parts, "parts"),
        (Self::Seal, "seal"),
    ];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let found = Self::ALL.get(usize::from(number).checked_sub(1)?);
        found.map(|(kind, _)| *kind)
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }

    /// Whether it refutes what was to be proved. The others leave it open.
    pub const fn refutes(self) -> bool {
        match self {
            Self::Block | Self::Order | Self::Once | Self::Sums | Self::Chain => true,
            Self::Set | Self::Unreadable | Self::Parts | Self::Seal => false,
        }
    }
}

/// Something that an audit has found against a proof.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// The block's height; none where it concerns no single block.
    pub height: Option<u32>,
    /// The block's hash.
    pub hash: Option<BlockHash>,
    /// In words.
    pub reason: String,
}

impl Finding {
    /// One about no single block.
    pub fn general(kind: FindingKind, reason: impl Into<String>) -> Self {
        Self {
            height: None,
            kind,
            hash: None,
            reason: reason.into(),
        }
    }

    /// One about a block.
    pub fn of_block(kind: FindingKind, height: u32, hash: BlockHash, reason: impl Into<String>) -> Self {
        Self {
            height: Some(height),
            kind,
            hash: Some(hash),
            reason: reason.into(),
        }
    }
}

/// Why a block cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) finding: Finding,
    /// The reason without what names the block. A file that cannot be read gives one for all its
    /// blocks.
    pub(crate) cause: String,
}

impl Unread {
    pub(crate) fn of_block(height: u32, hash: BlockHash, reason: String, cause: String) -> Self {
        Self {
            finding: Finding::of_block(FindingKind::Unreadable, height, hash, reason),
            cause,
        }
    }
}

impl From<Finding> for Unread {
    /// Its whole reason is the cause.
    fn from(finding: Finding) -> Self {
        Self {
            cause: finding.reason.clone(),
            finding,
        }
    }
}

/// One finding for each cause: of the first block that has it.
pub(crate) fn by_cause(mut unread: Vec<Unread>) -> Vec<Finding> {
    unread.sort_by(|a, b| a.finding.cmp(&b.finding));
    let mut numbers: HashMap<String, usize> = HashMap::new();
    // The first finding, and the height of the last.
    let mut found: Vec<(Finding, Option<u32>)> = Vec::new();
    for Unread { finding, cause } in unread {
        match numbers.get(&cause) {
            Some(&number) => found[number].1 = finding.height,
            None => {
                numbers.insert(cause, found.len());
                found.push((finding, None));
            }
        }
    }
    let one = |(mut finding, last): (Finding, Option<u32>)| {
        if let Some(last) = last {
            // A part keeps so many findings of a kind, and may leave out later ones.
            let more = format!("; the same holds for other blocks, at least up to height {last}");
            finding.reason.push_str(&more);
        }
        finding
    };
    found.into_iter().map(one).collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(height), Some(hash)) = (self.height, self.hash) {
            write!(f, "block {hash} (height {height}): ")?;
        }
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let unread = |height: u32, reason: &str, cause: &str| {
            Unread::of_block(
                height,
                BlockHash([height as u8; 32]),
                reason.to_owned(),
                cause.to_owned(),
            )
        };
        let found = by_cause(vec![
            unread(9, "file: offset 9: gone", "file: gone"),
            unread(4, "file: offset 4: gone", "file: gone"),
            unread(5, "other: gone", "other: gone"),
            unread(7, "file: offset 7: gone", "file: gone"),
        ]);
        let texts: Vec<_> = found
            .iter()
            .map(|finding| (finding.height.unwrap(), finding.reason.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                (
                    4,
                    "file: offset 4: gone; the same holds for other blocks, at least up to height 9"
                ),
                (5, "other: gone"),
            ]
        );
    }
}

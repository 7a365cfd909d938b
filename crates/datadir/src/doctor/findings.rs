//! What the doctor found, part by part.

use crate::error::{OpenError, Remedy};
use blockmill_coins::StoreError;
use std::fmt;

/// Problems of one part that are named; there may be more.
const NAMED_MAX: usize = 5;

/// Why a part was not looked at.
pub(super) const STOPPED: &str = "stopped before it was looked at";

/// The condition of a part of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As it should be.
    Sound,
    /// Not as it was left, in a way that does no harm: what a kill leaves.
    Harmless,
    /// Nobody knows: it was not looked at, or not at all of it.
    NotExamined,
    /// Nobody knows: it cannot be read, which says nothing about what is in it.
    Unreadable,
    /// Not what it should be.
    Damaged,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padded where the caller asks for it.
        f.pad(match self {
            Self::Sound => "sound",
            Self::Harmless => "harmless",
            Self::NotExamined => "not examined",
            Self::Unreadable => "unreadable",
            Self::Damaged => "DAMAGED",
        })
    }
}

/// What was found of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or folder in the data directory.
    pub part: &'static str,
    /// How it is.
    pub health: Health,
    /// What was found.
    pub detail: String,
    /// What helps, where something does.
    pub remedy: Option<Remedy>,
    /// Whether the store failed, where the part is unreadable.
    store_failed: bool,
}

impl Finding {
    /// Whether the part is unreadable because the store failed, as opposed to a file.
    pub fn is_store_failure(&self) -> bool {
        self.store_failed
    }
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds what was found of a part.
    pub fn add(&mut self, part: &'static str, health: Health, detail: impl Into<String>) {
        self.put(part, health, detail.into(), None);
    }

    /// Adds damage.
    pub(super) fn add_damage(&mut self, part: &'static str, detail: impl Into<String>, remedy: Remedy) {
        self.put(part, Health::Damaged, detail.into(), Some(remedy));
    }

    /// Adds what is not there, so that nobody can read it.
    pub(super) fn add_missing(&mut self, part: &'static str, detail: impl Into<String>, remedy: Remedy) {
        self.put(part, Health::Unreadable, detail.into(), Some(remedy));
    }

    fn put(&mut self, part: &'static str, health: Health, detail: String, remedy: Option<Remedy>) {
        self.0.push(Finding {
            part,
            health,
            detail,
            remedy,
            store_failed: false,
        });
    }

    /// Adds what came of an error: damage, or a part that cannot be read.
    pub(super) fn add_error(&mut self, part: &'static str, error: &OpenError) {
        let store_failed = matches!(error, OpenError::Store(StoreError::Backend(_)));
        let unreadable = store_failed || matches!(error, OpenError::File(_));
        self.0.push(Finding {
            part,
            health: if unreadable {
                Health::Unreadable
            } else {
                Health::Damaged
            },
            detail: error.to_string(),
            remedy: error.remedy(),
            store_failed,
        });
    }

    fn has(&self, health: Health) -> bool {
        self.0.iter().any(|finding| finding.health == health)
    }

    /// Whether all is sound. None if nothing is damaged as far as was looked, and something was not
    /// looked at.
    pub fn is_sound(&self) -> Option<bool> {
        if self.has(Health::Damaged) {
            Some(false)
        } else if self.has(Health::NotExamined) || self.has(Health::Unreadable) {
            None
        } else {
            Some(true)
        }
    }
}

/// What is wrong with a part: the first few problems, and how many more there are.
#[derive(Debug, Default)]
pub(super) struct Problems {
    named: Vec<String>,
    more: u64,
}

impl Problems {
    pub(super) fn add(&mut self, problem: String) {
        if self.named.len() < NAMED_MAX {
            self.named.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join("; "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

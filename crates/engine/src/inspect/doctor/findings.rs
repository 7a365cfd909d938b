//! What the doctor found, part by part.

use crate::error::EngineError;
use blockmill_coins::StoreError;
use std::fmt;

/// Problems of one part that are named; there may be more.
const NAMED_MAX: usize = 5;

/// Why a part was not looked at.
pub(super) const STOPPED: &str = "stopped before it was looked at";

/// How a part of a data directory is.
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
    /// What was found, and where it is damaged what to do.
    pub detail: String,
    /// Exit status of a command that cannot read it; 0 where that is not so.
    status: u8,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, part: &'static str, health: Health, detail: impl Into<String>) {
        self.0.push(Finding {
            part,
            health,
            detail: detail.into(),
            status: 0,
        });
    }

    /// Adds what came of an error: damage, with what to do, or a part that cannot be read.
    pub(super) fn add_error(&mut self, part: &'static str, error: &EngineError) {
        let health = match error {
            EngineError::File(_) | EngineError::Store(StoreError::Backend(_)) => Health::Unreadable,
            _ => Health::Damaged,
        };
        self.add(part, health, error.to_string());
        if let Some(finding) = self.0.last_mut().filter(|_| health == Health::Unreadable) {
            finding.status = error.exit_status();
        }
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

    /// Exit status of a command that ends with this: 3 where something is damaged, else 4 where the
    /// store cannot be read and 3 where another part cannot, else 0.
    pub fn exit_status(&self) -> u8 {
        let unreadable = self.0.iter().map(|finding| finding.status).max();
        match self.is_sound() {
            Some(false) => 3,
            _ => unreadable.unwrap_or(0),
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

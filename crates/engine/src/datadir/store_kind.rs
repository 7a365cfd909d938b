//! The stores that a data directory may have.

use std::fmt;
use std::str::FromStr;

/// What keeps the coins of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One file of the embedded database redb.
    Redb,
    /// A log of the coins, with an index in memory.
    #[default]
    Log,
}

impl StoreKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Redb, Self::Log];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redb => "redb",
            Self::Log => "log",
        }
    }

    /// The name of its file or folder in a data directory.
    pub fn part(self) -> &'static str {
        match self {
            Self::Redb => "coins.redb",
            Self::Log => "coins.log",
        }
    }

    /// The name while a snapshot is loaded into it.
    pub fn loading(self) -> &'static str {
        match self {
            Self::Redb => "coins.redb.loading",
            Self::Log => "coins.log.loading",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text:?} is no store: log or redb"))
    }
}

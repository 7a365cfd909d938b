//! A part of the benchmark: it runs in a process of its own.

use super::coins::Scripts;
use super::contenders::{Contender, HashbrownFold, HashbrownSip, Locked, Ours, StdDefault, StdSip};
use super::{document, hostile, work};
use crate::error::BenchError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Map {
    Ours,
    Locked,
    StdDefault,
    StdSip,
    HashbrownFold,
    HashbrownSip,
}

impl Map {
    pub(super) const ALL: [Self; 6] = [
        Self::Ours,
        Self::Locked,
        Self::HashbrownSip,
        Self::HashbrownFold,
        Self::StdSip,
        Self::StdDefault,
    ];

    /// The map's name in the tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "blockmill",
            Self::Locked => "blockmill, with its locks",
            Self::StdDefault => "std, as it comes",
            Self::StdSip => "std, SipHash-1-3",
            Self::HashbrownFold => "hashbrown, foldhash",
            Self::HashbrownSip => "hashbrown, SipHash-1-3",
        }
    }
}

/// The work of a process of its own.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Part {
    /// The document's benchmark.
    Document {
        map: Map,
        entries: u64,
        scripts: bool,
        with_map: bool,
    },
    /// All operations.
    Work { map: Map, coins: u64 },
    /// Growth; each insertion is timed.
    Growth { map: Map, coins: u64 },
    /// No map: as much fresh memory as ours takes, written in as many timed steps.
    Pages { coins: u64 },
    /// Outpoints that collide.
    Hostile(hostile::Attack),
}

impl Part {
    /// Runs the part in this process.
    pub(super) fn run(self) -> Result<Value, BenchError> {
        let map = match self {
            Self::Hostile(attack) => return Ok(serde_json::json!(hostile::run(attack)?)),
            Self::Pages { coins } => return Ok(serde_json::json!(work::touch_pages(coins))),
            Self::Document { map, .. } | Self::Work { map, .. } | Self::Growth { map, .. } => map,
        };
        match map {
            Map::Ours => self.run_on::<Ours>(),
            Map::Locked => self.run_on::<Locked>(),
            Map::StdDefault => self.run_on::<StdDefault>(),
            Map::StdSip => self.run_on::<StdSip>(),
            Map::HashbrownFold => self.run_on::<HashbrownFold>(),
            Map::HashbrownSip => self.run_on::<HashbrownSip>(),
        }
    }

    fn run_on<C: Contender>(self) -> Result<Value, BenchError> {
        Ok(match self {
            Self::Document {
                entries,
                scripts,
                with_map,
                ..
            } => {
                let scripts = if scripts { Scripts::KeyHash } else { Scripts::Empty };
                serde_json::json!(document::run::<C>(entries, scripts, with_map)?)
            }
            Self::Work { coins, .. } => serde_json::json!(work::run::<C>(coins)?),
            Self::Growth { coins, .. } => serde_json::json!(work::grow::<C>(coins)?),
            Self::Pages { .. } | Self::Hostile(_) => unreachable!("this part names no map"),
        })
    }
}

/// Runs a part: in a subprocess, or in this process in tests.
pub(super) type Runner<'r> = dyn Fn(Part) -> Result<Value, BenchError> + 'r;

/// Runs a part in a process of its own: another call of this command.
pub(super) fn in_own_process(executable: &Path, part: Part) -> Result<Value, BenchError> {
    let failed = |detail: String| BenchError::Process {
        run: format!("{part:?}"),
        detail,
    };
    let output = Command::new(executable)
        .args(["coinmap", "--part"])
        .arg(serde_json::json!(part).to_string())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Runs the part that this process was started for.
///
/// # Errors
/// [`BenchError::Process`] if `text` describes no part; the errors of the part.
pub(crate) fn run_part(text: &str) -> Result<Value, BenchError> {
    let part: Part = serde_json::from_str(text).map_err(|error| BenchError::Process {
        run: text.to_owned(),
        detail: error.to_string(),
    })?;
    part.run()
}

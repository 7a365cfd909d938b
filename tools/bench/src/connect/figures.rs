//! What the engine reports about one of its runs.

use blockmill_engine::ConnectReport;
use blockmill_engine::report::Stage;
use serde::{Deserialize, Serialize};

const STAGES: usize = Stage::ALL.len();

/// Figures of a run of ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Seconds that threads worked in each stage, added up, in the order of [`Stage::ALL`].
    busy_seconds: [f64; STAGES],
    /// Windows of blocks that were resolved once more, block by block.
    pub(super) serial_replays: u64,
}

impl Figures {
    pub(super) fn of(report: &ConnectReport) -> Self {
        Self {
            busy_seconds: Stage::ALL.map(|stage| report.totals.stages.get(stage).busy_seconds),
            serial_replays: report.totals.serial_replays,
        }
    }

    /// Seconds that threads worked in a stage, added up.
    pub(super) fn busy_seconds(&self, stage: Stage) -> f64 {
        self.busy_seconds[stage as usize]
    }

    #[cfg(test)]
    pub(super) fn of_seconds(busy_seconds: [f64; STAGES]) -> Self {
        Self {
            busy_seconds,
            serial_replays: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_its_own_figure() {
        let figures = Figures::of_seconds([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let found = Stage::ALL.map(|stage| figures.busy_seconds(stage));
        assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let line = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&line).unwrap(), figures);
    }
}

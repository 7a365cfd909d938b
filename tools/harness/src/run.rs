//! One run of a contender, and the row that several of its runs make.

use crate::row::Row;
use crate::spread::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a run that has ended as it should.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Wall time.
    pub seconds: f64,
    /// CPU time of all threads.
    pub cpu_seconds: f64,
    /// Units of work; 0 if the run is one unit.
    pub count: u64,
    /// Further figures by name, with the unit in the name.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}

impl Run {
    /// Adds a figure, if there is one.
    pub fn with(mut self, name: &str, figure: impl Into<Option<f64>>) -> Self {
        if let Some(figure) = figure.into() {
            self.figures.insert(name.to_owned(), figure);
        }
        self
    }

    /// Adds the time and the work of another run.
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.count += other.count;
    }

    /// A unit's share in a time of the run.
    pub(crate) fn each(&self, seconds: f64) -> f64 {
        seconds / self.count.max(1) as f64
    }
}

impl Row {
    /// Adds the figures of `runs`: medians, and the ends of the time.
    pub fn timed(mut self, runs: &[Run]) -> Self {
        let spread = |figure: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(figure));
        self.set("runs", runs.len());
        let count = spread(&|run| run.count as f64).map_or(0.0, |count| count.median);
        // A run that is one unit of work has no count.
        if count > 0.0 {
            self.set("count", count.round() as u64);
        }
        if let (Some(wall), Some(cpu)) = (spread(&|run| run.seconds), spread(&|run| run.cpu_seconds)) {
            self.set_spread("seconds", wall);
            self.set("cpu_seconds_median", cpu.median);
        }
        if let Some(speed) = spread(&|run| run.count as f64 / run.seconds).filter(|_| count > 0.0) {
            self.set("per_second", speed.median);
            let cpu = spread(&|run| run.each(run.cpu_seconds) * 1e6);
            self.set("cpu_us_each", cpu.map(|cpu| cpu.median));
        }
        let mut names: Vec<&String> = runs.iter().flat_map(|run| run.figures.keys()).collect();
        names.sort_unstable();
        // A figure may be missing in some runs, where the system did not report it.
        names.dedup();
        for name in names {
            let known = runs.iter().filter_map(|run| run.figures.get(name).copied());
            self.set(name, Spread::of(known).map(|spread| spread.median));
        }
        self
    }

    /// Sets the median and the ends of a figure.
    pub fn set_spread(&mut self, name: &str, spread: Spread) {
        self.set(&format!("{name}_median"), spread.median);
        self.set(&format!("{name}_min"), spread.min);
        self.set(&format!("{name}_max"), spread.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_make_a_row_of_medians() {
        let run = |seconds, mib: f64| {
            let run = Run {
                seconds,
                cpu_seconds: 2.0 * seconds,
                count: 100,
                ..Run::default()
            };
            run.with("memory_mib", mib)
        };
        let row = Row::new("table").timed(&[run(1.0, 5.0), run(4.0, 7.0), run(2.0, 6.0)]);
        for (key, wanted) in [
            ("runs", 3.0),
            ("count", 100.0),
            ("seconds_median", 2.0),
            ("seconds_min", 1.0),
            ("seconds_max", 4.0),
            ("cpu_seconds_median", 4.0),
            ("per_second", 50.0),
            ("cpu_us_each", 40_000.0),
            ("memory_mib", 6.0),
        ] {
            assert_eq!(row.number(key), Some(wanted), "{key}");
        }
        let mut sum = run(1.0, 0.0);
        sum.add(&run(2.0, 0.0));
        assert_eq!((sum.seconds, sum.cpu_seconds, sum.count), (3.0, 6.0, 200));
        let once = Row::new("table").timed(&[Run {
            seconds: 2.0,
            ..Run::default()
        }]);
        assert_eq!((once.number("count"), once.number("per_second")), (None, None));
    }
}

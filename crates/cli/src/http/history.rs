//! Rates over the last ten minutes, and what stages and threads did in the last seconds.

use crate::http::figures::Figures;
use crate::http::process::{ThreadGroup, ThreadTimes};
use crate::recent::{Recent, rate};
use blockmill_engine::report::Totals;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two points.
pub(super) const STEP: Duration = Duration::from_millis(2_500);

/// Points of ten minutes.
const POINTS_MAX: usize = 240;

/// The figures at a moment.
struct Count {
    blocks: u64,
    inputs: u64,
    totals: Totals,
}

/// A point of a curve: the means of the step before it.
struct Point {
    /// Seconds since 1970.
    time: f64,
    height: u32,
    blocks_per_second: f64,
    inputs_per_second: f64,
}

/// How fast a command was in the last ten seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Latest {
    pub(super) blocks_per_second: f64,
    pub(super) inputs_per_second: f64,
    /// For each stage how many threads were busy in it, on average, and for how much of the time
    /// the connecting thread waited for it.
    pub(super) stages: Vec<(&'static str, f64, f64)>,
    /// The threads of the process, and how many of each kind were busy.
    pub(super) threads: Vec<ThreadGroup>,
}

/// The past of a command.
#[derive(Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    /// When the first look was.
    begun: Option<Instant>,
    counts: Recent<Count>,
    threads: ThreadTimes,
    latest: Latest,
}

/// A number with one digit after the point, as JSON.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

impl History {
    /// Adds a point.
    pub(super) fn add(&mut self, figures: &Figures, at: Instant, time: SystemTime) {
        let progress = figures.progress.as_ref();
        let (blocks, inputs) = progress.map_or((0, 0), |progress| (progress.blocks, progress.inputs));
        let totals = figures.totals.unwrap_or_default();
        let now = at.duration_since(*self.begun.get_or_insert(at));
        if let Some((last, before)) = self.counts.last() {
            let seconds = (now - *last).as_secs_f64();
            if self.points.len() == POINTS_MAX {
                self.points.pop_front();
            }
            self.points.push_back(Point {
                time: time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
                height: progress.map_or(figures.start_height.unwrap_or(0), |progress| progress.height),
                blocks_per_second: rate(before.blocks, blocks, seconds),
                inputs_per_second: rate(before.inputs, inputs, seconds),
            });
        }
        let count = Count { blocks, inputs, totals };
        if let Some((begun, before)) = self.counts.add(now, count) {
            let seconds = (now - *begun).as_secs_f64();
            let share = |before: f64, now: f64| (now - before).max(0.0) / seconds.max(1e-3);
            let stages = totals.stages.named().zip(before.totals.stages.named());
            self.latest = Latest {
                blocks_per_second: rate(before.blocks, blocks, seconds),
                inputs_per_second: rate(before.inputs, inputs, seconds),
                stages: stages
                    .map(|((name, now), (_, before))| {
                        let busy = share(before.busy_seconds, now.busy_seconds);
                        (name, busy, share(before.wait_seconds, now.wait_seconds).min(1.0))
                    })
                    .collect(),
                threads: Vec::new(),
            };
        }
        self.latest.threads = self.threads.look(at);
    }

    pub(super) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// The points, the oldest first, each as a list: the time, the height, blocks and inputs per
    /// second.
    pub(super) fn json(&self) -> Value {
        let list = |point: &Point| {
            json!([
                tenths(point.time),
                point.height,
                tenths(point.blocks_per_second),
                tenths(point.inputs_per_second)
            ])
        };
        self.points.iter().map(list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Command;
    use blockmill_chain::Progress;
    use std::sync::Arc;

    fn figures(blocks: u64, inputs: u64) -> Figures {
        let mut figures = Figures::new(&Command {
            name: "connect",
            threads: 2,
            cache_bytes_max: None,
            stop: &Arc::default(),
        });
        figures.progress(&Progress {
            height: blocks as u32,
            tip_time: 0,
            best_height: 1_000,
            blocks,
            transactions: blocks,
            inputs,
            bytes: 0,
            bytes_remaining: 0,
            share: 0.5,
            cache_coins: 0,
            cache_bytes: 0,
            elapsed: Duration::from_secs(1),
        });
        figures
    }

    #[test]
    fn rates_are_those_of_a_step_and_of_ten_seconds() {
        let (mut history, start) = (History::default(), Instant::now());
        let mut add = |step: u32, blocks, inputs| {
            let at = start + STEP * step;
            history.add(&figures(blocks, inputs), at, UNIX_EPOCH + STEP * step);
            (history.json(), history.latest().inputs_per_second)
        };
        // One look has no rate.
        assert_eq!(add(0, 0, 0), (json!([]), 0.0));
        assert_eq!(add(1, 5, 100), (json!([[2.5, 5, 2.0, 40.0]]), 40.0));
        for step in 2..5 {
            add(step, 5, 100);
        }
        let (points, recent) = add(5, 10, 600);
        assert_eq!(points[4], json!([12.5, 10, 2.0, 200.0]));
        // The first look is older than ten seconds.
        assert_eq!(recent, 50.0);
        // The engine was opened anew.
        let (points, recent) = add(6, 1, 10);
        assert_eq!((&points[5], recent), (&json!([15.0, 1, 0.0, 0.0]), 0.0));
        for step in 7..1_000 {
            add(step, 1, 10);
        }
        assert_eq!(history.json().as_array().unwrap().len(), POINTS_MAX);
    }
}

//! How fast a command was in the last ten seconds, and what its stages and threads did.

use crate::http::figures::Figures;
use crate::http::process::{ThreadGroup, ThreadTimes};
use crate::recent::{Recent, rate};
use blockmill_engine::report::Totals;
use std::time::{Duration, Instant};

/// Time between two looks at the counts.
pub(super) const STEP: Duration = Duration::from_millis(2_500);

/// The figures at a moment.
struct Count {
    blocks: u64,
    inputs: u64,
    totals: Totals,
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

/// The counts of the last ten seconds.
#[derive(Default)]
pub(super) struct Rates {
    /// When the first look was.
    begun: Option<Instant>,
    counts: Recent<Count>,
    threads: ThreadTimes,
    pub(super) latest: Latest,
}

impl Rates {
    /// Takes the counts of a moment.
    pub(super) fn add(&mut self, figures: &Figures, at: Instant) {
        let progress = figures.progress.as_ref();
        let (blocks, inputs) = progress.map_or((0, 0), |progress| (progress.blocks, progress.inputs));
        let totals = figures.totals.unwrap_or_default();
        let now = at.duration_since(*self.begun.get_or_insert(at));
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Command;
    use blockmill_chain::Progress;
    use std::sync::Arc;

    fn figures(blocks: u64, inputs: u64) -> Figures {
        let mut figures = Figures::new(&Command {
            name: "connect",
            threads: 2,
            cache_bytes_max: None,
            data: None,
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
    fn rates_are_those_of_ten_seconds() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let mut add = |step: u32, blocks, inputs| {
            rates.add(&figures(blocks, inputs), start + STEP * step);
            rates.latest.inputs_per_second
        };
        // One look has no rate.
        assert_eq!(add(0, 0, 0), 0.0);
        assert_eq!(add(1, 5, 100), 40.0);
        for step in 2..5 {
            add(step, 5, 100);
        }
        // The first look is older than ten seconds.
        assert_eq!(add(5, 10, 600), 50.0);
        // The engine was opened anew.
        assert_eq!(add(6, 1, 10), 0.0);
    }
}

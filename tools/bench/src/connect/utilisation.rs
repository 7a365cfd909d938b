//! How much of the time each thread was at work, from the timeline of a run.

use blockmill_engine::Observer;
use blockmill_engine::report::{Span, Stage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Collects the timeline of a run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// By thread: when it worked.
    works: BTreeMap<u32, Vec<(Instant, Instant)>>,
    /// From the first block that was resolved to the last that was committed.
    whole: Option<(Instant, Instant)>,
}

impl Observer for Timeline {
    fn span(&mut self, thread: &str, span: &Span) {
        match span.stage {
            Stage::Resolve => {
                let (start, end) = self.whole.get_or_insert((span.start, span.end));
                *start = span.start.min(*start);
                *end = span.end.max(*end);
            }
            Stage::Commit => {
                if let Some((_, end)) = &mut self.whole {
                    *end = span.end.max(*end);
                }
            }
            _ => {}
        }
        // The others wait for the disk and do not validate.
        if !thread.starts_with("reader") && thread != "flush" {
            self.works.entry(span.thread).or_default().push((span.start, span.end));
        }
    }
}

impl Timeline {
    /// The part of the time for which the thread that worked least was at work, of so many that
    /// validate.
    pub(super) fn least_at_work(mut self, threads: usize) -> Option<f64> {
        let (start, end) = self.whole?;
        let whole = end.saturating_duration_since(start);
        if self.works.len() < threads || whole.is_zero() {
            return Some(0.0);
        }
        let shares = self.works.values_mut().map(|works| {
            works.sort_unstable();
            let mut covered = start;
            let mut at_work = Duration::ZERO;
            // Works may lie within each other.
            for &(from, to) in &*works {
                let from = from.max(covered);
                let to = to.min(end);
                if to > from {
                    at_work += to - from;
                    covered = to;
                }
            }
            at_work.as_secs_f64() / whole.as_secs_f64()
        });
        shares.min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_within_each_other_count_once_and_waiting_does_not() {
        let origin = Instant::now();
        let at = |seconds| origin + Duration::from_secs(seconds);
        let mut timeline = Timeline::default();
        let mut add = |name: &str, thread, stage, start, end| {
            timeline.span(
                name,
                &Span {
                    thread,
                    stage,
                    height: 1,
                    start: at(start),
                    end: at(end),
                },
            );
        };
        add("main", 1, Stage::Decode, 0, 10);
        add("main", 1, Stage::Resolve, 10, 30);
        add("main", 1, Stage::Fetch, 15, 20);
        add("main", 1, Stage::Check, 30, 100);
        add("main", 1, Stage::Commit, 105, 110);
        add("worker-0", 2, Stage::Check, 10, 60);
        add("worker-0", 2, Stage::Check, 80, 110);
        add("worker-0", 2, Stage::Check, 115, 200);
        add("flush", 3, Stage::Flush, 90, 95);
        let least = timeline.least_at_work(2).unwrap();
        assert!((least - 0.8).abs() < 1e-9, "{least}");
        assert_eq!(Timeline::default().least_at_work(1), None);
    }
}

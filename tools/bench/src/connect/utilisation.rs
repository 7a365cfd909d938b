//! The share of the time in which each thread was at work, from the trace of a run.

use blockmill_engine::Observer;
use blockmill_engine::report::{Span, Stage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Collects the trace of a run.
#[derive(Debug, Default)]
pub(super) struct Utilisation {
    /// The spans of work of each thread.
    works: BTreeMap<u32, Vec<(Instant, Instant)>>,
    /// From the first resolved block to the last accepted one.
    whole: Option<(Instant, Instant)>,
}

impl Observer for Utilisation {
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
        // Readers and the flush thread wait for the disk, and validate nothing.
        if !thread.starts_with("reader") && thread != "flush" {
            self.works.entry(span.thread).or_default().push((span.start, span.end));
        }
    }
}

impl Utilisation {
    /// The smallest share of the time in which a thread was at work. `threads` is the number of
    /// threads that validate.
    pub(super) fn least(mut self, threads: usize) -> Option<f64> {
        let (start, end) = self.whole?;
        let whole = end.saturating_duration_since(start);
        if self.works.len() < threads || whole.is_zero() {
            return Some(0.0);
        }
        let shares = self.works.values_mut().map(|works| {
            works.sort_unstable();
            let mut covered = start;
            let mut at_work = Duration::ZERO;
            // Spans may be nested.
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
    fn nested_spans_count_once_and_waiting_does_not() {
        let origin = Instant::now();
        let at = |seconds| origin + Duration::from_secs(seconds);
        let mut utilisation = Utilisation::default();
        let mut add = |name: &str, thread, stage, start, end| {
            utilisation.span(
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
        let least = utilisation.least(2).unwrap();
        assert!((least - 0.8).abs() < 1e-9, "{least}");
        assert_eq!(Utilisation::default().least(1), None);
    }
}

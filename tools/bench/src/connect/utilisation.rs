//! From the trace of a run: the share of the time in which each thread was at work, and the time in
//! which blocks were resolved.

use blockmill_engine::report::{FiguresObserver, Span, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A gap between two jobs that resolve blocks counts as time of that stage up to this length. The
/// connecting thread's own work between the jobs of a window is such a gap.
const GAP_MAX: Duration = Duration::from_micros(200);

/// What a trace says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traced {
    /// The smallest share of the time in which a thread was at work.
    pub(super) at_work: f64,
    /// Time in which at least one thread resolved blocks.
    pub(super) resolve_seconds: f64,
}

/// Collects the trace of a run.
#[derive(Debug, Default)]
pub(super) struct Utilisation {
    /// The spans of work of each thread.
    works: BTreeMap<u32, Vec<(Instant, Instant)>>,
    /// The spans in which a thread resolved blocks.
    resolving: Vec<(Instant, Instant)>,
    /// From the first resolved block to the last accepted one.
    whole: Option<(Instant, Instant)>,
}

/// The time that spans cover. They may overlap, and gaps up to `gap_max` count too.
fn covered(spans: &mut [(Instant, Instant)], gap_max: Duration) -> Duration {
    spans.sort_unstable();
    let mut sum = Duration::ZERO;
    let mut last: Option<(Instant, Instant)> = None;
    for &(from, to) in &*spans {
        match &mut last {
            Some((_, end)) if from.saturating_duration_since(*end) <= gap_max => *end = to.max(*end),
            last => {
                sum += last.map_or(Duration::ZERO, |(start, end)| end - start);
                *last = Some((from, to));
            }
        }
    }
    sum + last.map_or(Duration::ZERO, |(start, end)| end - start)
}

impl FiguresObserver for Utilisation {
    fn span(&mut self, thread: &str, span: &Span) {
        match span.stage {
            Stage::Resolve => {
                let (start, end) = self.whole.get_or_insert((span.start, span.end));
                *start = span.start.min(*start);
                *end = span.end.max(*end);
                self.resolving.push((span.start, span.end));
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
    /// What the trace says of a run with `threads` threads that validate. None: nothing was
    /// resolved.
    pub(super) fn traced(mut self, threads: usize) -> Option<Traced> {
        let whole = self.whole?;
        let resolve_seconds = covered(&mut self.resolving, GAP_MAX).as_secs_f64();
        Some(Traced {
            at_work: self.least(threads, whole),
            resolve_seconds,
        })
    }

    /// The smallest share of the time from `start` to `end` in which a thread was at work.
    fn least(&mut self, threads: usize, (start, end): (Instant, Instant)) -> f64 {
        let whole = end.saturating_duration_since(start);
        if self.works.len() < threads || whole.is_zero() {
            return 0.0;
        }
        let shares = self.works.values_mut().map(|works| {
            // Only what lies between the two moments counts.
            for (from, to) in &mut *works {
                *from = (*from).clamp(start, end);
                *to = (*to).clamp(start, end);
            }
            covered(works, Duration::ZERO).as_secs_f64() / whole.as_secs_f64()
        });
        shares.min_by(f64::total_cmp).unwrap_or(0.0)
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
        add("worker-0", 2, Stage::Resolve, 28, 32);
        let traced = utilisation.traced(2).unwrap();
        assert!((traced.at_work - 0.8).abs() < 1e-9, "{traced:?}");
        assert!((traced.resolve_seconds - 22.0).abs() < 1e-9, "{traced:?}");
        assert_eq!(Utilisation::default().traced(1), None);
    }

    #[test]
    fn short_gaps_are_covered_and_long_ones_are_not() {
        let origin = Instant::now();
        let at = |milliseconds| origin + Duration::from_millis(milliseconds);
        let check = |spans: &[(u64, u64)], gap_max, expected| {
            let mut spans: Vec<_> = spans.iter().map(|&(from, to)| (at(from), at(to))).collect();
            let found = covered(&mut spans, Duration::from_millis(gap_max));
            assert_eq!(found, Duration::from_millis(expected));
        };
        check(&[], 5, 0);
        check(&[(3, 7)], 5, 4);
        check(&[(20, 30), (0, 10)], 9, 20);
        check(&[(20, 30), (0, 10)], 10, 30);
        check(&[(0, 10), (2, 4), (9, 12), (12, 13)], 0, 13);
    }
}

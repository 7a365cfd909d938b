//! What was counted in the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

/// The time to which rates go back.
const RECENT: Duration = Duration::from_secs(10);

/// Counts at moments of the last ten seconds, the oldest first.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    counts: VecDeque<(Duration, T)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            counts: VecDeque::new(),
        }
    }
}

impl<T> Recent<T> {
    /// Adds what is counted now. Returns the count from which rates are taken, and when it was: the
    /// latest that is ten seconds old, or the first one of the run. None for that itself.
    pub(crate) fn add(&mut self, now: Duration, count: T) -> Option<&(Duration, T)> {
        // Another run has begun.
        if self.counts.back().is_some_and(|&(last, _)| last > now) {
            self.counts.clear();
        }
        while self.counts.get(1).is_some_and(|&(second, _)| now - second >= RECENT) {
            self.counts.pop_front();
        }
        self.counts.push_back((now, count));
        self.counts.front().filter(|_| self.counts.len() > 1)
    }
}

/// A rate per second.
pub(crate) fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds.max(1e-3)
}

//! When the cache is flushed, and what comes before and after.

use crate::error::EngineError;
use crate::pipeline::connect::Engine;
use crate::report::events::{Event, Flushed};
use crate::report::{Observer, Stage};
use blockmill_coins::{CoinsCache, FlushError, StoreError, Tip};
use blockmill_rules::ScriptVerifier;
use std::time::{Duration, Instant};

/// The longest that a block waits for a flush to catch up.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long the flush thread is left alone before somebody looks again.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Time of a flush for each change, as long as none has ended.
const SECONDS_PER_CHANGE: f64 = 5e-6;

/// A flush takes longer than expected by up to this factor.
const SAFETY: f64 = 1.25;

/// How a flush is expected to go on, so that the cache is not full before it ends.
#[derive(Debug)]
pub(crate) struct FlushPace {
    seconds_per_change: f64,
    begun: Instant,
    /// Seconds that the present flush is expected to take.
    expected: f64,
    /// Bytes of the cache when it began.
    bytes: usize,
    /// The tip that it leads to.
    tip: Option<Tip>,
    /// Flushes that have ended and were not told of.
    untold: Vec<Flushed>,
}

impl Default for FlushPace {
    fn default() -> Self {
        Self {
            seconds_per_change: SECONDS_PER_CHANGE,
            begun: Instant::now(),
            expected: 0.0,
            bytes: 0,
            tip: None,
            untold: Vec::new(),
        }
    }
}

impl FlushPace {
    fn begin(&mut self, changes: usize, bytes: usize) {
        self.begun = Instant::now();
        self.expected = self.seconds_per_change * changes as f64 * SAFETY;
        self.bytes = bytes;
    }

    fn end(&mut self, changes: u64, time: Duration) {
        if changes > 0 {
            self.seconds_per_change = time.as_secs_f64() / changes as f64;
        }
    }

    /// Whether more of the room is used, with `bytes` in a cache of `limit`, than of the time that
    /// the flush takes.
    fn is_behind(&self, bytes: usize, limit: usize) -> bool {
        let used = bytes.saturating_sub(self.bytes) as f64;
        let room = limit.saturating_sub(self.bytes) as f64;
        used * self.expected > room * self.begun.elapsed().as_secs_f64()
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Whether there is something to do about a flush for which no block may be in flight.
    pub(crate) fn flush_is_due(&self) -> bool {
        let begin = self.cache.wants_flush() || self.last_flush.elapsed() >= self.options.flush_interval;
        (begin && !self.cache.is_flushing()) || self.cache.is_full()
    }

    /// Begins a flush in the background if it is time for one. Waits for it only if the cache is
    /// full, or if every block is to be flushed.
    pub(crate) fn flush_if_due(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        if self.cache.is_flush_done() {
            self.finish_flush()?;
        }
        let due = self.cache.wants_flush() || self.last_flush.elapsed() >= self.options.flush_interval;
        if self.options.flush_interval.is_zero() || (due && self.options.without.background_flush) {
            return self.flush();
        }
        if due && !self.cache.is_flushing() {
            self.begin_flush()?;
        }
        if self.cache.is_flushing() && self.cache.is_full() {
            self.finish_flush()?;
            self.totals.flush_waits += 1;
        }
        self.totals.flush_pause_max = self.totals.flush_pause_max.max(start.elapsed());
        Ok(())
    }

    /// Waits a little before a block is resolved if a flush goes on and its end is further away
    /// than that of the room in the cache: many short waits instead of a long one when the cache is
    /// full. This thread checks scripts meanwhile.
    pub(crate) fn let_flush_catch_up(&mut self) {
        let start = Instant::now();
        while self.cache.is_flushing()
            && !self.cache.is_flush_done()
            && self.flush_pace.is_behind(self.cache.bytes(), self.cache.limit())
            && start.elapsed() < PAUSE_MAX
        {
            if !self.help_with_checks() && !self.settle_some() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        let waited = start.elapsed();
        if waited >= LOOK_EVERY {
            self.totals.flush_pauses += 1;
            self.totals.flush_pause_max = self.totals.flush_pause_max.max(waited);
            self.totals.stages.add(Stage::Flush, Duration::ZERO, waited);
        }
    }

    /// Freezes everything up to the tip and lets it be written.
    fn begin_flush(&mut self) -> Result<(), EngineError> {
        self.prepare_flush()?;
        if self.changed || self.cache.wants_flush() {
            let sync = self.log.sync_job();
            let tip = self.tip();
            let changes = self.cache.dirty_len();
            self.cache.begin_flush(&tip, move || sync().map_err(Into::into))?;
            self.flush_pace.begin(changes, self.cache.bytes());
            self.flush_pace.tip = Some(tip);
            self.changed = false;
        }
        Ok(())
    }

    /// Does what comes before a flush, on this thread.
    fn prepare_flush(&mut self) -> Result<(), EngineError> {
        if self.broken {
            let detail = "an earlier error has left the coins cache unusable; nothing after the last flush is kept";
            return Err(StoreError::Backend(detail.to_owned()).into());
        }
        if let Some(writer) = &mut self.writer {
            writer.sync()?;
        }
        self.last_flush = Instant::now();
        Ok(())
    }

    /// Waits for the flush that goes on, if there is one.
    pub(crate) fn finish_flush(&mut self) -> Result<(), EngineError> {
        self.wait_for_flush(CoinsCache::finish_flush)
    }

    fn wait_for_flush(
        &mut self,
        wait: impl FnOnce(&mut CoinsCache) -> Result<(), FlushError>,
    ) -> Result<(), EngineError> {
        let start = Instant::now();
        let before = self.cache.flush_counters();
        let outcome = wait(&mut self.cache);
        self.changed |= outcome.is_err();
        let after = self.cache.flush_counters();
        let (changes, time) = (after.changes - before.changes, after.time - before.time);
        self.flush_pace.end(changes, time);
        if let Some(tip) = self.flush_pace.tip.take().filter(|_| outcome.is_ok()) {
            self.flush_pace.untold.push(Flushed { tip, changes, time });
        }
        self.totals.flushes += after.flushes - before.flushes;
        self.totals.flush_changes += changes;
        self.totals.stages.add(Stage::Flush, time, start.elapsed());
        Ok(outcome?)
    }

    /// Tells of the flushes that have ended and were not told of. [`connect`](Self::connect) and
    /// [`submit`](Self::submit) do so by themselves.
    pub fn tell_flushes(&mut self, observer: &mut dyn Observer) {
        for flushed in self.flush_pace.untold.drain(..) {
            observer.event(&Event::Flushed(&flushed));
        }
    }

    /// Writes everything up to the tip to the data directory, durably. The coins stay in the cache
    /// while there is room.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was flushed before is kept.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        self.finish_flush()?;
        self.prepare_flush()?;
        if self.changed {
            let sync = self.log.sync_job();
            let tip = self.tip();
            self.changed = false;
            self.flush_pace.tip = Some(tip);
            self.wait_for_flush(|cache| cache.flush(&tip, move || sync().map_err(Into::into)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_last_flush() {
        let mut pace = FlushPace::default();
        pace.end(1000, Duration::from_secs(100));
        pace.begin(10_000, 600);
        assert!((pace.expected - 1000.0 * SAFETY).abs() < 1e-6, "{pace:?}");
        // Nothing of the room is used, then half of it at once.
        assert!(!pace.is_behind(600, 1000));
        assert!(!pace.is_behind(500, 1000));
        assert!(pace.is_behind(800, 1000));
        // Half of the expected time has gone, then nearly all of it.
        pace.begun = Instant::now().checked_sub(Duration::from_secs(630)).unwrap();
        assert!(!pace.is_behind(800, 1000));
        assert!(pace.is_behind(810, 1000));
        // A flush of nothing says nothing about the next.
        pace.end(0, Duration::from_secs(9));
        pace.begin(1, 0);
        assert!((pace.expected - 0.1 * SAFETY).abs() < 1e-6, "{pace:?}");
    }

    #[test]
    fn a_cache_without_room_is_behind_until_the_flush_is_expected_to_end() {
        let mut pace = FlushPace::default();
        pace.begin(100_000, 900);
        assert!(pace.is_behind(950, 800));
        pace.begun = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert!(!pace.is_behind(900, 1000));
    }
}

//! When the cache is flushed, and what comes before and after.

use crate::pipeline::error::ConnectError;
use crate::report::telemetry::Telemetry;
use blockmill_chain::report::events::Flushed;
use blockmill_coins::{CoinsCache, FlushCounters, FlushError, StoreError, Tip};
use blockmill_datadir::state::DataState;
use std::time::{Duration, Instant};

/// The longest that a block waits for a flush to catch up.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long the flush thread is left alone before somebody looks again.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Time of a flush for each change, as long as none has ended.
const SECONDS_PER_CHANGE: f64 = 5e-6;

/// A flush takes longer than expected by up to this factor.
const SAFETY: f64 = 1.25;

/// What a flush works on.
pub(crate) struct FlushTarget<'a> {
    pub(crate) cache: &'a mut CoinsCache,
    pub(crate) data: &'a mut DataState,
    pub(crate) telemetry: &'a mut Telemetry,
    /// The active tip.
    pub(crate) tip: Tip,
}

/// Decides when to flush, and flushes.
#[derive(Debug)]
pub(crate) struct Flusher {
    interval: Duration,
    /// Whether flushes run beside the work, on a thread of their own; else it waits for each.
    in_background: bool,
    last: Instant,
    pace: FlushPace,
    /// Whether the tip has moved since the last flush.
    tip_moved: bool,
    /// Whether an error has left a block half applied.
    broken: bool,
}

impl Flusher {
    pub(crate) fn new(interval: Duration, in_background: bool) -> Self {
        Self {
            interval,
            in_background,
            last: Instant::now(),
            pace: FlushPace::default(),
            tip_moved: false,
            broken: false,
        }
    }

    /// Begins the interval anew.
    pub(crate) fn restart_interval(&mut self) {
        self.last = Instant::now();
    }

    /// Notes that the tip has moved.
    pub(crate) fn note_tip_moved(&mut self) {
        self.tip_moved = true;
    }

    /// Notes that an error has left a block half applied. No flush follows.
    pub(crate) fn note_broken(&mut self) {
        self.broken = true;
    }

    /// Whether a flush is to follow every block.
    pub(crate) fn is_after_every_block(&self) -> bool {
        self.interval.is_zero()
    }

    fn wants_to_begin(&self, cache: &CoinsCache) -> bool {
        cache.wants_flush() || self.last.elapsed() >= self.interval
    }

    /// Whether a flush is to be begun or waited for, while no block is in flight.
    pub(crate) fn is_due(&self, cache: &CoinsCache) -> bool {
        // A full cache waits for the flush under way, since no other can begin beside it.
        (self.wants_to_begin(cache) && !cache.is_flushing()) || cache.is_full()
    }

    /// Begins a flush if it is time for one. Waits for it if the cache is full, if every block is
    /// to be flushed, or if flushes run in the foreground.
    pub(crate) fn flush_if_due(&mut self, mut target: FlushTarget<'_>) -> Result<(), ConnectError> {
        let start = Instant::now();
        if target.cache.is_flush_done() {
            self.finish(target.cache, target.telemetry)?;
        }
        let due = self.wants_to_begin(target.cache);
        if self.is_after_every_block() || (due && !self.in_background) {
            return self.flush(target);
        }
        if due && !target.cache.is_flushing() {
            self.begin(&mut target)?;
        }
        if target.cache.is_flushing() && target.cache.is_full() {
            self.finish(target.cache, target.telemetry)?;
            target.telemetry.totals.flush_waits += 1;
        }
        target.telemetry.flush_held_up(start.elapsed());
        Ok(())
    }

    /// Waits a little before a block is resolved, if a flush runs and the cache would be full
    /// before its end: many short waits instead of a long one. `work` is done meanwhile; it
    /// returns false when there is nothing to do.
    pub(crate) fn catch_up(
        &self,
        cache: &CoinsCache,
        telemetry: &mut Telemetry,
        mut work: impl FnMut(&mut Telemetry) -> bool,
    ) {
        let start = Instant::now();
        while cache.is_flushing()
            && !cache.is_flush_done()
            && self.pace.is_behind(cache.bytes(), cache.limit())
            && start.elapsed() < PAUSE_MAX
        {
            if !work(telemetry) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        let waited = start.elapsed();
        // Less than that is the cost of looking, and no pause.
        if waited >= LOOK_EVERY {
            telemetry.flush_paused(waited);
        }
    }

    /// Freezes everything up to the tip and lets it be written.
    fn begin(&mut self, target: &mut FlushTarget<'_>) -> Result<(), ConnectError> {
        self.prepare(target.data)?;
        // Coins that were read fill the cache, too. A flush drops them, even where the tip stands
        // still.
        if self.tip_moved || target.cache.wants_flush() {
            let sync = target.data.log.sync_job();
            let changes = target.cache.dirty_len();
            target
                .cache
                .begin_flush(&target.tip, move || sync().map_err(Into::into))?;
            self.pace.begin(changes, target.cache.bytes());
            self.pace.tip = Some(target.tip);
            self.tip_moved = false;
        }
        Ok(())
    }

    /// Does what comes before a flush, on this thread.
    fn prepare(&mut self, data: &mut DataState) -> Result<(), ConnectError> {
        if self.broken {
            let detail = "an earlier error has left the coins cache unusable; nothing after the last flush is kept";
            return Err(StoreError::Backend(detail.to_owned()).into());
        }
        data.sync_blocks()?;
        self.restart_interval();
        Ok(())
    }

    /// Waits for the present flush, if there is one.
    pub(crate) fn finish(&mut self, cache: &mut CoinsCache, telemetry: &mut Telemetry) -> Result<(), ConnectError> {
        self.wait(cache, telemetry, CoinsCache::finish_flush)
    }

    fn wait(
        &mut self,
        cache: &mut CoinsCache,
        telemetry: &mut Telemetry,
        wait: impl FnOnce(&mut CoinsCache) -> Result<(), FlushError>,
    ) -> Result<(), ConnectError> {
        let start = Instant::now();
        let before = cache.flush_counters();
        let outcome = wait(cache);
        // What failed is still to be written.
        self.tip_moved |= outcome.is_err();
        let after = cache.flush_counters();
        let done = FlushCounters {
            flushes: after.flushes - before.flushes,
            changes: after.changes - before.changes,
            kept: after.kept - before.kept,
            time: after.time - before.time,
        };
        self.pace.end(done.changes, done.time);
        let tip = self.pace.tip.take().filter(|_| outcome.is_ok());
        let flushed = tip.map(|tip| Flushed {
            tip,
            changes: done.changes,
            time: done.time,
        });
        telemetry.flush_ended(&done, flushed, start.elapsed());
        Ok(outcome?)
    }

    /// Writes everything up to the tip to the data directory, durably, and waits for it. The coins
    /// stay in the cache while there is room.
    pub(crate) fn flush(&mut self, target: FlushTarget<'_>) -> Result<(), ConnectError> {
        let FlushTarget {
            cache,
            data,
            telemetry,
            tip,
        } = target;
        self.finish(cache, telemetry)?;
        self.prepare(data)?;
        if self.tip_moved {
            let sync = data.log.sync_job();
            // `wait` sets it again if the flush fails.
            self.tip_moved = false;
            self.pace.tip = Some(tip);
            self.wait(cache, telemetry, |cache| {
                cache.flush(&tip, move || sync().map_err(Into::into))
            })?;
        }
        Ok(())
    }
}

/// How a flush is expected to go on, so that the cache is not full before it ends.
#[derive(Debug)]
struct FlushPace {
    seconds_per_change: f64,
    begun: Instant,
    /// Seconds that the present flush is expected to take.
    expected: f64,
    /// Bytes of the cache when it began.
    bytes: usize,
    /// The tip up to which the present flush writes.
    tip: Option<Tip>,
}

impl Default for FlushPace {
    fn default() -> Self {
        Self {
            seconds_per_change: SECONDS_PER_CHANGE,
            begun: Instant::now(),
            expected: 0.0,
            bytes: 0,
            tip: None,
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
        // A flush of no changes says nothing about the pace.
        if changes > 0 {
            self.seconds_per_change = time.as_secs_f64() / changes as f64;
        }
    }

    /// Whether more of the room is used, with `bytes` in a cache of `limit`, than of the time that
    /// the flush takes.
    fn is_behind(&self, bytes: usize, limit: usize) -> bool {
        let used = bytes.saturating_sub(self.bytes) as f64;
        let room = limit.saturating_sub(self.bytes) as f64;
        // This is `used / room > elapsed / expected`, and divides by no zero.
        used * self.expected > room * self.begun.elapsed().as_secs_f64()
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

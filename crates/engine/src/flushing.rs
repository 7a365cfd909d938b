//! When the cache is flushed, and what comes before and after.

use crate::connect::Engine;
use crate::error::EngineError;
use crate::report::Stage;
use blockmill_coins::{CoinsCache, FlushError, StoreError};
use blockmill_rules::ScriptVerifier;
use std::time::Instant;

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Whether there is something to do about a flush for which no block may be in flight.
    pub(crate) fn flush_is_due(&self) -> bool {
        let begin = self.cache.wants_flush() || self.last_flush.elapsed() >= self.options.flush_interval;
        (begin && !self.cache.is_flushing()) || self.cache.is_full()
    }

    /// Begins a flush in the background if it is time for one. Waits for it only if the cache is full, or if every block is to be flushed.
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

    /// Freezes everything up to the tip and lets it be written.
    fn begin_flush(&mut self) -> Result<(), EngineError> {
        self.prepare_flush()?;
        if self.changed || self.cache.wants_flush() {
            let sync = self.log.sync_job();
            let tip = self.stored_tip();
            self.cache.begin_flush(&tip, move || sync().map_err(Into::into))?;
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
        self.totals.flushes += after.flushes - before.flushes;
        self.totals.flush_changes += after.changes - before.changes;
        self.totals
            .stages
            .add(Stage::Flush, after.time - before.time, start.elapsed());
        Ok(outcome?)
    }

    /// Writes everything up to the tip to the data directory, durably. The coins stay in the cache while there is room.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was flushed before is kept.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        self.finish_flush()?;
        self.prepare_flush()?;
        if self.changed {
            let sync = self.log.sync_job();
            let tip = self.stored_tip();
            self.changed = false;
            self.wait_for_flush(|cache| cache.flush(&tip, move || sync().map_err(Into::into)))?;
        }
        Ok(())
    }
}

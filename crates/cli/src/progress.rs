//! Progress and messages on standard error: a bar on a terminal, plain lines elsewhere.

use crate::advice;
use crate::log::{self, Line};
use blockmill_engine::report::Indexing;
use blockmill_engine::{Event, Observer, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Time between movements of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Steps of the bar for each block file.
const BAR_STEPS: f64 = 1000.0;

/// Shows the progress of a piece of work.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    last: Instant,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let has_bar = std::io::stderr().is_terminal() && !log::is_json() && !log::is_quiet();
        let bar = has_bar.then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self {
            bar,
            last: Instant::now(),
        }
    }

    /// Whether the next update is due.
    pub(crate) fn is_due(&self) -> bool {
        let interval = if self.bar.is_some() {
            BAR_INTERVAL
        } else {
            LINE_INTERVAL
        };
        self.last.elapsed() >= interval
    }

    /// Shows that `done` of `total` is done. Plain text shows `text` alone; JSON adds `event` and
    /// `fields`.
    pub(crate) fn show(&mut self, done: u64, total: u64, text: String, event: &str, fields: Value) {
        self.last = Instant::now();
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(text);
            }
            None => log::info(event, &text, fields),
        }
    }

    /// Writes a line that stays above the bar.
    pub(crate) fn say(&self, line: &Line<'_>) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line.write()),
            None => line.write(),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Shows the engine's progress and events.
pub(crate) struct EngineMeter(pub(crate) Meter);

/// Seconds as a person reads them.
fn duration_text(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

fn connect_text(progress: &Progress) -> String {
    let elapsed = progress.elapsed.as_secs_f64().max(1e-9);
    let total = progress.bytes + progress.bytes_remaining;
    let share = progress.bytes as f64 / total.max(1) as f64;
    let remaining = progress.bytes_remaining as f64 * elapsed / progress.bytes.max(1) as f64;
    format!(
        "height {}/{} ({:.1}%), {:.0} blocks/s, {:.0} inputs/s, cache {} coins {:.1} MiB, ETA {}",
        progress.height,
        progress.best_height,
        share * 100.0,
        progress.blocks as f64 / elapsed,
        progress.inputs as f64 / elapsed,
        progress.cache_coins,
        progress.cache_bytes as f64 / f64::from(1 << 20),
        duration_text(remaining)
    )
}

fn progress_json(progress: &Progress) -> Value {
    json!({
        "height": progress.height,
        "best_height": progress.best_height,
        "blocks": progress.blocks,
        "transactions": progress.transactions,
        "inputs": progress.inputs,
        "bytes": progress.bytes,
        "bytes_remaining": progress.bytes_remaining,
        "cache_coins": progress.cache_coins,
        "cache_bytes": progress.cache_bytes,
        "seconds": progress.elapsed.as_secs_f64(),
    })
}

impl EngineMeter {
    /// Shows that so many of the blocks are written, which have so many transactions.
    pub(crate) fn blocks(&mut self, blocks: u64, of: u64, transactions: u64) {
        if self.0.is_due() {
            let text = format!("{blocks} of {of} blocks, {transactions} transactions");
            let fields = json!({"blocks": blocks, "of": of, "transactions": transactions});
            self.0.show(blocks, of, text, "blocks", fields);
        }
    }
}

impl Observer for EngineMeter {
    fn coins(&mut self, coins: u64, share: f64) {
        if self.0.is_due() {
            let text = format!("{coins} coins, {:.1}%", share * 100.0);
            let fields = json!({"coins": coins, "share": share});
            self.0.show((share * 65_536.0) as u64, 65_536, text, "coins", fields);
        }
    }

    fn looking_back(&mut self, blocks: u32, of: u32) {
        if self.0.is_due() {
            let text = format!("looking back: {blocks} of {of} blocks");
            let fields = json!({"blocks": blocks, "of": of});
            self.0.show(blocks.into(), of.into(), text, "looking_back", fields);
        }
    }

    fn indexing(&mut self, indexing: &Indexing) {
        if self.0.is_due() {
            let Indexing {
                file,
                files,
                offset,
                bytes,
                headers,
            } = *indexing;
            let share = offset as f64 / bytes.max(1) as f64;
            let text = format!(
                "reading headers: {:.1}% of file {file} of {files}, {headers} headers",
                share * 100.0
            );
            let fields =
                json!({"file": file, "files": files, "offset": offset, "file_bytes": bytes, "headers": headers});
            let done = (file - 1) as f64 + share;
            let (done, all) = (done * BAR_STEPS, files as f64 * BAR_STEPS);
            self.0.show(done as u64, all as u64, text, "indexed", fields);
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.0.is_due() {
            let total = progress.bytes + progress.bytes_remaining;
            let text = connect_text(progress);
            self.0
                .show(progress.bytes, total, text, "progress", progress_json(progress));
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let (name, fields) = log::name_and_fields(event);
        self.0.say(&Line::new(
            event.level(),
            name,
            &advice::with_advice(event.to_string(), advice::of_event(event)),
            fields,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration_text(0.4), "0 s");
        assert_eq!(duration_text(61.0), "1 min 01 s");
        assert_eq!(duration_text(7260.0), "2 h 01 min");
    }

    #[test]
    fn the_line_has_rates_and_the_time_left() {
        let progress = Progress {
            height: 50,
            tip_time: 1_700_000_000,
            best_height: 200,
            blocks: 50,
            transactions: 60,
            inputs: 1000,
            bytes: 1000,
            bytes_remaining: 3000,
            cache_coins: 7,
            cache_bytes: 1 << 20,
            elapsed: Duration::from_secs(10),
        };
        assert_eq!(
            connect_text(&progress),
            "height 50/200 (25.0%), 5 blocks/s, 100 inputs/s, cache 7 coins 1.0 MiB, ETA 30 s"
        );
    }
}

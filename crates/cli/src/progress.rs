//! Progress and messages on standard error: a bar on a terminal, plain lines elsewhere.

use blockmill_engine::{Observer, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Time between movements of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Shows how far a piece of work is.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    last: Instant,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
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

    /// Whether it is time to show something again.
    pub(crate) fn is_due(&self) -> bool {
        let interval = if self.bar.is_some() {
            BAR_INTERVAL
        } else {
            LINE_INTERVAL
        };
        self.last.elapsed() >= interval
    }

    pub(crate) fn show(&mut self, done: u64, total: u64, text: String) {
        self.last = Instant::now();
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(text);
            }
            None => eprintln!("{text}"),
        }
    }

    /// A line that stays.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
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

/// Shows what the engine does.
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

impl Observer for EngineMeter {
    fn coins(&mut self, coins: u64, share: f64) {
        if self.0.is_due() {
            let text = format!("{coins} coins, {:.1}%", share * 100.0);
            self.0.show((share * 65_536.0) as u64, 65_536, text);
        }
    }

    fn indexed(&mut self, file: usize, files: usize, headers: usize) {
        if self.0.is_due() {
            let text = format!("reading headers: file {file} of {files}, {headers} headers");
            self.0.show(file as u64, files as u64, text);
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.0.is_due() {
            let total = progress.bytes + progress.bytes_remaining;
            self.0.show(progress.bytes, total, connect_text(progress));
        }
    }

    fn message(&mut self, text: &str) {
        self.0.say(&format!("blockmill: {text}"));
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

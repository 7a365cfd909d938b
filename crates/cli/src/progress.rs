//! Progress and messages on standard error: a bar on a terminal, plain lines elsewhere.

use crate::advice;
use crate::doing::{self, Doing};
use crate::listener::Listener;
use crate::log::{self, Line};
use crate::output::duration_text;
use crate::recent::{Recent, rate};
use blockmill_chain::{Event, Indexing, Observer, Progress};
use blockmill_datadir::Batch;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Time between movements of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Steps of the bar.
const BAR_STEPS: f64 = 1e6;

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
            if let Ok(style) = ProgressStyle::with_template("[{bar:10}] {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        doing::set_bar(bar.clone());
        Self {
            bar,
            // Work that is done before the first update is due shows nothing.
            last: Instant::now(),
        }
    }

    /// Notes what is done, and shows it where the next update is due. Plain text has the text
    /// alone; JSON has `event` and the fields, too.
    pub(crate) fn show(&mut self, doing: Doing, event: &str, text_and_fields: impl FnOnce() -> (String, Value)) {
        doing::set(doing);
        let interval = if self.bar.is_some() {
            BAR_INTERVAL
        } else {
            LINE_INTERVAL
        };
        if self.last.elapsed() < interval {
            return;
        }
        self.last = Instant::now();
        let (text, fields) = text_and_fields();
        let Some(bar) = &self.bar else {
            return log::info(event, &text, fields);
        };
        if let Some(share) = doing.share() {
            bar.set_length(BAR_STEPS as u64);
            bar.set_position((share * BAR_STEPS) as u64);
        }
        bar.set_message(text);
    }

    /// Writes a line that stays above the bar.
    pub(crate) fn say(&self, line: &Line<'_>) {
        line.write_above(self.bar.as_ref());
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        doing::set_bar(None);
        self.clear();
    }
}

/// Blocks and inputs per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    blocks: f64,
    inputs: f64,
}

/// Adds what is done, and returns the rates of the last seconds.
fn recent_rates(recent: &mut Recent<(u64, u64)>, progress: &Progress) -> Rates {
    let now = progress.elapsed;
    let before = recent.add(now, (progress.blocks, progress.inputs));
    // At first the rates are those since the beginning.
    let &(begun, (blocks, inputs)) = before.unwrap_or(&(Duration::ZERO, (0, 0)));
    let seconds = (now - begun).as_secs_f64();
    Rates {
        blocks: rate(blocks, progress.blocks, seconds),
        inputs: rate(inputs, progress.inputs, seconds),
    }
}

/// Shows the engine's progress and events.
pub(crate) struct EngineMeter {
    pub(crate) meter: Meter,
    recent: Recent<(u64, u64)>,
    live: Option<Arc<dyn Listener>>,
}

/// A rate in three digits.
fn rate_text(rate: f64) -> String {
    let (rate, unit) = match rate {
        // What would round to four digits has the next unit.
        ..999.5 => return format!("{rate:.0}"),
        ..999_500.0 => (rate / 1e3, "k"),
        _ => (rate / 1e6, "M"),
    };
    match rate {
        ..9.995 => format!("{rate:.2}{unit}"),
        ..99.95 => format!("{rate:.1}{unit}"),
        _ => format!("{rate:.0}{unit}"),
    }
}

/// With the name that a line begins with it fits into 80 columns; and with the bar. Blocks are
/// counted where they are more than inputs.
fn connect_text(progress: &Progress, recent: Rates) -> String {
    let elapsed = progress.elapsed.as_secs_f64().max(1e-9);
    let remaining = doing::remaining_seconds(progress);
    let (what, recent, mean) = match recent.blocks > recent.inputs {
        true => ("blocks", recent.blocks, progress.blocks as f64 / elapsed),
        false => ("inputs", recent.inputs, progress.inputs as f64 / elapsed),
    };
    format!(
        "height {}/{} ({:.1}%), {} {what}/s, mean {}, ETA {}",
        progress.height,
        progress.best_height,
        progress.share * 100.0,
        rate_text(recent),
        rate_text(mean),
        duration_text(remaining)
    )
}

fn progress_json(progress: &Progress, recent: Rates) -> Value {
    json!({
        "height": progress.height,
        "best_height": progress.best_height,
        "share": progress.share,
        "blocks": progress.blocks,
        "transactions": progress.transactions,
        "inputs": progress.inputs,
        "blocks_per_second": recent.blocks,
        "inputs_per_second": recent.inputs,
        "bytes": progress.bytes,
        "bytes_remaining": progress.bytes_remaining,
        "cache_coins": progress.cache_coins,
        "cache_bytes": progress.cache_bytes,
        "seconds": progress.elapsed.as_secs_f64(),
    })
}

fn indexing_json(indexing: &Indexing) -> Value {
    json!({
        "file": indexing.file,
        "files": indexing.files,
        "offset": indexing.offset,
        "file_bytes": indexing.bytes,
        "headers": indexing.headers,
    })
}

impl EngineMeter {
    pub(crate) fn new() -> Self {
        Self::with_live(None)
    }

    /// One that notes what it hears for the page, too.
    pub(crate) fn with_live(live: Option<Arc<dyn Listener>>) -> Self {
        Self {
            meter: Meter::new(),
            recent: Recent::default(),
            live,
        }
    }

    /// Shows that so many coins are done, and this share of all.
    pub(crate) fn coins(&mut self, coins: u64, share: f64) {
        self.event(&Event::Coins { coins, share });
    }

    /// Writes the line of an event that is worth one.
    fn log(&self, event: &Event<'_>) {
        let Some(level) = event.level() else {
            return;
        };
        let (name, fields) = log::name_and_fields(event);
        let text = advice::with_advice(event.to_string(), advice::of_event(event));
        self.meter.say(&Line::new(level, name, &text, fields));
    }

    /// Shows that so many of the blocks are written, which have so many transactions.
    pub(crate) fn blocks(&mut self, done: u64, of: u64, transactions: u64) {
        let what = "blocks";
        self.meter.show(Doing::Counted { what, done, of }, "blocks", || {
            let text = format!("{done} of {of} blocks, {transactions} transactions");
            (text, json!({"blocks": done, "of": of, "transactions": transactions}))
        });
    }
}

/// How far through a set the end of a batch is. Transaction ids are spread evenly, so their first
/// bytes tell.
pub(crate) fn share(batch: &Batch) -> f64 {
    let prefix = batch.last().map_or(0, |(outpoint, _)| {
        u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]])
    });
    f64::from(prefix) / 65_536.0
}

/// Notes up to where all is on disk.
pub(crate) fn note_flush(event: &Event<'_>) {
    if let Event::Flushed(flushed) = event {
        doing::set_flushed(flushed.tip.height);
    }
}

impl Observer for EngineMeter {
    fn event(&mut self, event: &Event<'_>) {
        note_flush(event);
        if let Some(live) = &self.live {
            live.event(event);
        }
        let recent = &mut self.recent;
        match *event {
            Event::Coins { coins, share } => self.meter.show(Doing::Coins { coins, share }, "coins", || {
                (event.to_string(), json!({"coins": coins, "share": share}))
            }),
            Event::LookingBack { blocks, of } => {
                let doing = Doing::Counted {
                    what: "blocks looked back at",
                    done: blocks.into(),
                    of: of.into(),
                };
                self.meter.show(doing, "looking_back", || {
                    (event.to_string(), json!({"blocks": blocks, "of": of}))
                });
            }
            Event::Indexing(indexing) => self.meter.show(Doing::Indexing(indexing), "indexed", || {
                (event.to_string(), indexing_json(&indexing))
            }),
            Event::Progress(progress) => self.meter.show(Doing::Blocks(*progress), "progress", || {
                let recent = recent_rates(recent, progress);
                (connect_text(progress, recent), progress_json(progress, recent))
            }),
            _ => self.log(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration_text(0.4), "0 s");
        assert_eq!(duration_text(61.0), "1 min 01 s");
        assert_eq!(duration_text(630.0), "10 min");
        assert_eq!(duration_text(7260.0), "2 h 01 min");
        assert_eq!(duration_text(359_000.0), "99 h");
    }

    #[test]
    fn rates() {
        for (rate, text) in [
            (0.4, "0"),
            (999.4, "999"),
            (999.5, "1.00k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_600.0, "1.00M"),
        ] {
            assert_eq!(rate_text(rate), text);
        }
    }

    fn progress(blocks: u64, inputs: u64, seconds: u64) -> Progress {
        Progress {
            height: 50,
            tip_time: 1_700_000_000,
            best_height: 200,
            blocks,
            transactions: 60,
            inputs,
            bytes: 1000,
            bytes_remaining: 3000,
            share: 0.75,
            cache_coins: 7,
            cache_bytes: 1 << 20,
            elapsed: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn the_line_has_rates_and_the_time_left() {
        let recent = Rates {
            blocks: 5.0,
            inputs: 140.0,
        };
        assert_eq!(
            connect_text(&progress(50, 1000, 10), recent),
            "height 50/200 (75.0%), 140 inputs/s, mean 100, ETA 30 s"
        );
        let recent = Rates {
            blocks: 7_654.0,
            inputs: 1.0,
        };
        assert_eq!(
            connect_text(&progress(50, 1000, 10), recent),
            "height 50/200 (75.0%), 7.65k blocks/s, mean 5, ETA 30 s"
        );
    }

    #[test]
    fn the_longest_line_fits_into_80_columns() {
        let long = Progress {
            height: 999_999,
            best_height: 999_999,
            share: 1.0,
            bytes_remaining: 1_000_000,
            ..progress(1_000_000, 999_499, 359)
        };
        let text = connect_text(
            &long,
            Rates {
                blocks: 0.0,
                inputs: 99_949.0,
            },
        );
        assert!(
            ("blockmill: ".len() + text.len()) <= 80 && ("[==========] ".len() + text.len()) <= 80,
            "{text}"
        );
    }

    #[test]
    fn recent_rates_are_those_of_the_last_seconds() {
        let mut recent = Recent::default();
        let inputs = |rates: Rates| rates.inputs;
        assert_eq!(inputs(recent_rates(&mut recent, &progress(1, 100, 5))), 20.0);
        assert_eq!(inputs(recent_rates(&mut recent, &progress(2, 200, 10))), 20.0);
        assert_eq!(inputs(recent_rates(&mut recent, &progress(3, 1_200, 15))), 110.0);
        assert_eq!(
            recent_rates(&mut recent, &progress(23, 1_200, 20)),
            Rates {
                blocks: 2.1,
                inputs: 100.0
            }
        );
        assert_eq!(inputs(recent_rates(&mut recent, &progress(23, 1_200, 30))), 0.0);
        // Another run, which begins anew.
        assert_eq!(inputs(recent_rates(&mut recent, &progress(1, 50, 1))), 50.0);
    }
}

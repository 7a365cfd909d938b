//! The figures in Prometheus' text form.

use crate::build_info;
use crate::http::figures::State;
use crate::http::snapshot::Snapshot;
use crate::http::table::ROWS;
use blockmill_engine::report::{StageTime, Value};
use std::fmt::Write as _;

/// Adds the help and type lines of a figure.
fn add_head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// Adds one figure with these lines.
fn add(text: &mut String, name: &str, help: &str, value: f64) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    add_head(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

/// All figures.
pub(super) fn text_of(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    add_head(&mut text, "blockmill_build_info", "gauge", "what the program is");
    let _ = writeln!(
        text,
        "blockmill_build_info{{version=\"{}\",commit=\"{}\",kernel=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION"),
        build_info::COMMIT,
        build_info::CORE
    );
    add_head(&mut text, "blockmill_state", "gauge", "1 for what the command does");
    for (state, name) in State::ALL {
        let is_now = u8::from(state == snapshot.state);
        let _ = writeln!(text, "blockmill_state{{state=\"{name}\"}} {is_now}");
    }
    for row in &ROWS {
        if let Some(value) = (row.value)(snapshot) {
            add(&mut text, row.metric, row.help, value.real());
        }
    }
    for (figure, value) in snapshot.of_engine() {
        let value = match value {
            Value::Count(number) | Value::Max(number) => number as f64,
            Value::Seconds(seconds) | Value::Longest(seconds) => seconds,
            Value::Depth(depth) => depth.mean(),
        };
        add(&mut text, &format!("blockmill_{}", figure.metric), figure.help, value);
    }
    add_stages(&mut text, snapshot, "busy", "seconds of work in a stage", |time| {
        time.busy_seconds
    });
    add_stages(&mut text, snapshot, "wait", "seconds of waiting in a stage", |time| {
        time.wait_seconds
    });
    text
}

/// Adds a time of all stages.
fn add_stages(text: &mut String, snapshot: &Snapshot, what: &str, help: &str, seconds: fn(StageTime) -> f64) {
    let Some(totals) = &snapshot.figures.totals else {
        return;
    };
    let name = format!("blockmill_stage_{what}_seconds_total");
    add_head(text, &name, "counter", help);
    for (stage, time) in totals.stages.named() {
        let _ = writeln!(text, "{name}{{stage=\"{stage}\"}} {}", seconds(time));
    }
}

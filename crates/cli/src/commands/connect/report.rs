//! The report of a run: a line, a table, or JSON.

use crate::log::{rejected_json, unreadable_json};
use crate::output::{Facts, bytes, counted, mebibytes, stdout};
use crate::totals::{figure_json, put, put_stages};
use crate::verifier::{hashes_json, signatures_text};
use crate::whole;
use blockmill_engine::ConnectReport;
use blockmill_engine::report::{FIGURES, Totals, Value as FigureValue};
use serde_json::Value;
use std::io::{self, Write};

/// Blocks of a kind that a report names. It says how many more there are.
const NAMED_MAX: usize = 100;

/// The report of `connect` as JSON.
pub(super) fn json_of(report: &ConnectReport, cpu_seconds: f64) -> Value {
    let wholeness = report.wholeness();
    let mut object = Value::Null;
    for (key, value) in [
        ("network", report.network.into()),
        ("tip", report.tip.to_string().into()),
        ("height", report.height.into()),
        ("start_height", report.start_height.into()),
        ("seconds", report.seconds.into()),
        ("cpu_seconds", cpu_seconds.into()),
        ("cache.coins", report.cache_coins_max.into()),
        ("cache.bytes", report.cache_bytes_max.into()),
        ("store_memory", report.store_memory.into()),
        ("rejected", named(&report.rejected, rejected_json)),
        ("more_rejected", report.rejected.len().saturating_sub(NAMED_MAX).into()),
        ("unreadable", named(&report.unreadable, unreadable_json)),
        (
            "more_unreadable",
            report.unreadable.len().saturating_sub(NAMED_MAX).into(),
        ),
        ("damages", report.damages.iter().map(ToString::to_string).collect()),
        ("whole", wholeness.is_whole().into()),
        ("why", whole::why(&wholeness)),
        ("leftovers", report.leftovers.into()),
        ("left_out", report.left_out.into()),
    ] {
        put(&mut object, key, value);
    }
    for figure in &FIGURES {
        put(&mut object, figure.key, figure_json(figure.value(&report.totals)));
    }
    put(&mut object, "hashes", hashes_json());
    put_stages(&mut object, &report.totals);
    object
}

/// The first of some blocks.
fn named<B>(blocks: &[B], json: fn(&B) -> Value) -> Value {
    blocks.iter().take(NAMED_MAX).map(json).collect()
}

/// The report of `connect` in a line.
pub(super) fn line(report: &ConnectReport) -> String {
    format!(
        "connected {} to height {}: {} in {:.1} s",
        counted(report.totals.blocks, "block"),
        report.height,
        counted(report.totals.inputs, "input"),
        report.seconds
    )
}

/// The figures of a group in a line.
fn group(totals: &Totals, name: &str) -> String {
    let of_group = FIGURES.iter().filter_map(|figure| {
        let (group, own) = figure.key.split_once('.')?;
        (group == name).then_some((own.replace('_', " "), figure.value(totals)))
    });
    let texts = of_group.map(|(name, value)| match value {
        FigureValue::Count(number) | FigureValue::Max(number) => format!("{number} {name}"),
        FigureValue::Seconds(seconds) | FigureValue::Longest(seconds) => format!("{seconds:.3} {name}"),
        FigureValue::Depth(depth) => format!("{:.1} {name} (at most {})", depth.mean(), depth.max()),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Prints the report of `connect` for a person who wants all of it.
pub(crate) fn print_table(report: &ConnectReport, cpu_seconds: f64) -> io::Result<()> {
    let totals = &report.totals;
    // A run may take no time that a clock shows.
    let rate = |count: u64| format!("{count} ({:.0} per second)", count as f64 / report.seconds.max(1e-9));
    let cache = format!(
        "{}, at most {} coins in {:.1} MiB",
        group(totals, "cache"),
        report.cache_coins_max,
        mebibytes(report.cache_bytes_max)
    );
    let store = format!("{:.1} MiB of memory beside the cache", mebibytes(report.store_memory));
    Facts::default()
        .row("network", report.network)
        .row("tip", report.tip)
        .row("height", format!("{} (from {})", report.height, report.start_height))
        .row("blocks", rate(totals.blocks))
        .row("transactions", totals.transactions)
        .row("inputs", rate(totals.inputs))
        .row("size", bytes(totals.bytes))
        .row("signatures", signatures_text(&report.signatures, &totals.signatures))
        .row("hashes", sha256_lanes::Backend::detect().name())
        .row("seconds", format!("{:.3} (CPU {cpu_seconds:.3})", report.seconds))
        .row("cache", cache)
        .row("store", store)
        .row("ahead", group(totals, "fetch"))
        .row(
            "written",
            format!("{} flushes, {}", totals.flushes, group(totals, "flush")),
        )
        .row("queues", group(totals, "queues"))
        .print(false)?;
    let mut out = stdout();
    writeln!(out, "{:12}  {:>10}  {:>10}", "stage", "busy s", "wait s")?;
    for (name, time) in totals.stages.named() {
        let (busy, wait) = (time.busy_seconds, time.wait_seconds);
        writeln!(out, "{name:12}  {busy:>10.3}  {wait:>10.3}")?;
    }
    out.flush()
}

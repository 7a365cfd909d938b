//! Results as tables and as JSON.

use crate::plain::{self, one_line};
use crate::secrets::without_keys;
use crate::terminal::{stdout_columns, wrapped};
use crate::verifier::signatures_text;
use crate::whole;
use blockmill_audit::Mark;
use blockmill_chain::{Rejected, Unreadable};
use blockmill_coins::UtxoStats;
use blockmill_coins::stats::Hashes;
use blockmill_engine::ConnectReport;
use blockmill_engine::report::{FIGURES, Totals, table};
use blockmill_rules::RejectKind;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// CPU time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// An amount in satoshi as one in BTC.
pub(crate) fn bitcoins(satoshi: impl Into<i128>) -> String {
    let satoshi = satoshi.into();
    let sign = if satoshi < 0 { "-" } else { "" };
    let satoshi = satoshi.unsigned_abs();
    format!("{sign}{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000)
}

/// An amount in satoshi as a number of BTC. A double holds every amount up to the money supply
/// exactly, and prints all digits.
pub(crate) fn amount(satoshi: impl Into<i128>) -> f64 {
    satoshi.into() as f64 / 1e8
}

/// A number of bytes with its unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A path as text. JSON holds only UTF-8, so other bytes of a name are replaced. A private key in
/// it is left out.
pub(crate) fn path_text(path: &Path) -> Cow<'_, str> {
    match path.to_string_lossy() {
        Cow::Borrowed(text) => without_keys(text),
        Cow::Owned(text) => Cow::Owned(without_keys(&text).into_owned()),
    }
}

/// Standard output. A write notes that its reader has gone away, whatever becomes of the error.
pub(crate) struct Stdout(io::Stdout);

/// Whether the reader of standard output has gone away.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

pub(crate) fn is_reader_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

fn noted<T>(written: io::Result<T>) -> io::Result<T> {
    if written
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
    {
        READER_IS_GONE.store(true, Ordering::Relaxed);
    }
    written
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.0.flush())
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    out.write_all(plain::json(&text).as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Blocks of a kind that a report names. It says how many more there are.
const NAMED_MAX: usize = 100;

/// A figure as JSON.
fn figure_json(value: table::Value) -> Value {
    match value {
        table::Value::Count(number) | table::Value::Max(number) => number.into(),
        table::Value::Seconds(seconds) | table::Value::Longest(seconds) => seconds.into(),
        table::Value::Depth(depth) => json!({"mean": depth.mean(), "max": depth.max()}),
    }
}

/// Puts a value where its key says: names with points between them.
fn put(object: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(object.insert(key.to_owned(), value)),
        Some((name, rest)) => {
            let inner = object.entry(name).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// The report of `connect` as JSON.
pub(crate) fn connect_json(report: &ConnectReport, cpu_seconds: f64) -> Value {
    let wholeness = report.wholeness();
    let mut object = Map::new();
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
    for (name, time) in report.totals.stages.named() {
        let times = json!({"busy_s": time.busy_seconds, "wait_s": time.wait_seconds});
        put(&mut object, &format!("stages.{name}"), times);
    }
    Value::Object(object)
}

/// The first of some blocks.
fn named<B>(blocks: &[B], json: fn(&B) -> Value) -> Value {
    blocks.iter().take(NAMED_MAX).map(json).collect()
}

/// A block that was rejected.
pub(crate) fn rejected_json(block: &Rejected) -> Value {
    json!({
        "hash": block.hash.to_string(),
        "height": block.height,
        "reason": block.reject.reason,
        "transaction": block.reject.transaction,
        "input": block.reject.input,
        "file": path_text(&block.path),
        "offset": block.offset,
        "best_chain": block.of_best_chain,
        "may_be_damaged": block.reject.kind == RejectKind::Mutated,
    })
}

/// A block whose content cannot be read.
pub(crate) fn unreadable_json(block: &Unreadable) -> Value {
    json!({
        "hash": block.hash.to_string(),
        "height": block.height,
        "detail": block.detail,
        "file": path_text(&block.path),
        "offset": block.offset,
    })
}

/// Rows of two columns on standard output. On a terminal, values are broken into its columns.
pub(crate) fn table(out: &mut dyn Write, rows: &[(&str, String)]) -> io::Result<()> {
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let columns = stdout_columns();
    for (name, value) in rows {
        let value = without_keys(value);
        let value = one_line(&value);
        let value = match columns {
            // A hash is not cut: it has a line of its own.
            Some(columns) if value.len() > columns.saturating_sub(width + 2) && !value.contains(' ') => {
                format!("\n  {value}")
            }
            columns => wrapped(&value, columns, width + 2, width + 2),
        };
        writeln!(out, "{name:width$}  {value}")?;
    }
    Ok(())
}

/// A number with a comma between each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and the name of what it counts.
pub(crate) fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {name}{plural}", grouped(count))
}

/// The report of `connect` in a line.
pub(crate) fn connect_line(report: &ConnectReport) -> String {
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
        table::Value::Count(number) | table::Value::Max(number) => format!("{number} {name}"),
        table::Value::Seconds(seconds) | table::Value::Longest(seconds) => format!("{seconds:.3} {name}"),
        table::Value::Depth(depth) => format!("{:.1} {name} (at most {})", depth.mean(), depth.max()),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The report of `connect` for a person who wants all of it.
pub(crate) fn connect_table(out: &mut dyn Write, report: &ConnectReport, cpu_seconds: f64) -> io::Result<()> {
    let totals = &report.totals;
    let seconds = report.seconds.max(1e-9);
    let rows = [
        ("network", report.network.to_owned()),
        ("tip", report.tip.to_string()),
        ("height", format!("{} (from {})", report.height, report.start_height)),
        (
            "blocks",
            format!("{} ({:.0} per second)", totals.blocks, totals.blocks as f64 / seconds),
        ),
        ("transactions", totals.transactions.to_string()),
        (
            "inputs",
            format!("{} ({:.0} per second)", totals.inputs, totals.inputs as f64 / seconds),
        ),
        ("size", bytes(totals.bytes)),
        ("signatures", signatures_text(&report.signatures, &totals.signatures)),
        ("seconds", format!("{:.3} (CPU {cpu_seconds:.3})", report.seconds)),
        (
            "cache",
            format!(
                "{}, at most {} coins in {:.1} MiB",
                group(totals, "cache"),
                report.cache_coins_max,
                report.cache_bytes_max as f64 / f64::from(1 << 20)
            ),
        ),
        (
            "store",
            format!(
                "{:.1} MiB of memory beside the cache",
                report.store_memory as f64 / f64::from(1 << 20)
            ),
        ),
        ("ahead", group(totals, "fetch")),
        (
            "written",
            format!("{} flushes, {}", totals.flushes, group(totals, "flush")),
        ),
        ("queues", group(totals, "queues")),
    ];
    table(out, &rows)?;
    writeln!(out, "{:12}  {:>10}  {:>10}", "stage", "busy s", "wait s")?;
    for (name, time) in totals.stages.named() {
        writeln!(
            out,
            "{name:12}  {:>10.3}  {:>10.3}",
            time.busy_seconds, time.wait_seconds
        )?;
    }
    Ok(())
}

/// The figures of the UTXO set, with the keys of Core's `gettxoutsetinfo`.
#[derive(Serialize)]
pub(crate) struct StatsJson {
    height: u32,
    bestblock: String,
    txouts: u64,
    bogosize: u64,
    transactions: u64,
    /// In BTC.
    total_amount: f64,
    /// The same in satoshi: a double has not all digits of a sum beyond the money supply.
    #[serde(skip)]
    total_satoshi: i128,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    disk_size: u64,
    /// Memory that the store takes beside any cache, if it takes any.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_memory: Option<usize>,
    /// Base height of the snapshot that was loaded: blocks up to it were not validated here.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_height: Option<u32>,
    /// Height up to which an audit has proved that all blocks are valid, and the run that did.
    #[serde(skip_serializing_if = "Option::is_none")]
    audited_height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_run: Option<String>,
    /// Height of the set that was written last, where this is an older one.
    #[serde(skip_serializing_if = "Option::is_none")]
    synced_height: Option<u32>,
}

/// What was validated of the blocks below a set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Validated {
    /// Base height of the snapshot that was loaded.
    pub(crate) snapshot_height: Option<u32>,
    /// The proof that an audit has left.
    pub(crate) audit: Option<Mark>,
}

impl StatsJson {
    /// `hashes` are those that were computed.
    pub(crate) fn new(
        stats: &UtxoStats,
        hashes: Hashes,
        disk_size: u64,
        store_memory: usize,
        validated: Validated,
        synced_height: Option<u32>,
    ) -> Self {
        Self {
            height: stats.height,
            bestblock: stats.best_block.to_string(),
            txouts: stats.txouts,
            bogosize: stats.bogosize,
            transactions: stats.transactions,
            total_amount: amount(stats.total_amount),
            total_satoshi: stats.total_amount,
            hash_serialized_3: hashes.has_serialized().then(|| stats.hash_serialized_3.to_string()),
            muhash: stats.muhash.map(|hash| hash.to_string()),
            disk_size,
            store_memory: Some(store_memory).filter(|&bytes| bytes > 0),
            snapshot_height: validated.snapshot_height,
            audited_height: validated.audit.map(|mark| mark.height),
            audit_run: validated.audit.map(|mark| mark.run.to_string()),
            synced_height,
        }
    }

    #[cfg(feature = "generate")]
    pub(crate) fn hash(&self) -> &str {
        self.hash_serialized_3.as_deref().unwrap_or_default()
    }

    #[cfg(feature = "generate")]
    pub(crate) fn coins(&self) -> u64 {
        self.txouts
    }

    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let audit = self.audited_height.zip(self.audit_run.as_ref());
        let validated = match (self.snapshot_height, audit) {
            (None, None) => "from the first block on".to_owned(),
            (Some(height), Some((audited, run))) if audited >= height => {
                format!("from the first block on; up to height {audited} by audit run {run}")
            }
            (None, Some((audited, run))) => {
                format!("from the first block on; up to height {audited} once more by audit run {run}")
            }
            (Some(height), _) => format!("above height {height}; a snapshot gave the coins up to there, unvalidated"),
        };
        let mut rows = vec![
            ("height", self.height.to_string()),
            ("bestblock", self.bestblock.clone()),
            ("txouts", self.txouts.to_string()),
            ("bogosize", self.bogosize.to_string()),
            ("transactions", self.transactions.to_string()),
            ("total_amount", bitcoins(self.total_satoshi)),
        ];
        let hashes = [("hash_serialized_3", &self.hash_serialized_3), ("muhash", &self.muhash)];
        rows.extend(
            hashes
                .into_iter()
                .filter_map(|(name, hash)| Some((name, hash.clone()?))),
        );
        rows.push(("disk_size", bytes(self.disk_size)));
        rows.extend(self.store_memory.map(|memory| ("store_memory", bytes(memory as u64))));
        rows.push(("validated", validated));
        rows.extend(self.synced_height.map(|height| ("synced_height", height.to_string())));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bytes_have_a_unit() {
        for (number, text) in [
            (9_999, "9999 bytes"),
            (10_000, "10.0 kB"),
            (12_345_678, "12.3 MB"),
            (98_765_432_100, "98.8 GB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}

//! Lines on standard error: plain text, or JSON with one object a line. `--log` chooses.
//!
//! A line of JSON has `time` (RFC 3339, UTC), `level`, `event`, `message` and the fields of the
//! event. JSON also has the lines of level debug, which plain text leaves out.

use crate::output::path_text;
use crate::plain::{self, one_line};
use crate::terminal::{Mark, stderr_columns, wrapped};
#[cfg(feature = "http")]
use crate::warnings;
use blockmill_chain::{Event, Level, Older, Rejected, Unreadable};
use blockmill_rules::RejectKind;
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// What lines of plain text begin with.
const NAME: &str = "blockmill:";

/// Columns by which the lines are indented into which a terminal's width breaks a message.
const INDENT: usize = 2;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// One object of JSON a line.
    Json,
}

/// Whether lines are JSON; set before the first line.
static JSON: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_format(format: Format) {
    // Threads that are made later see it.
    JSON.store(format == Format::Json, Ordering::Relaxed);
}

/// Whether only warnings and errors are written; set before the first line.
static QUIET: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// A line.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    #[serde(serialize_with = "level_word")]
    level: Level,
    event: &'a str,
    message: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Serialize)]
struct TimedLine<'a> {
    time: String,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

fn level_word<S: serde::Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    })
}

impl<'a> Line<'a> {
    /// `fields` is an object.
    pub(crate) fn new(level: Level, event: &'a str, message: &'a str, fields: Value) -> Self {
        let Value::Object(fields) = fields else {
            unreachable!("the fields of a line are an object");
        };
        Self {
            level,
            event,
            message,
            fields,
        }
    }

    /// Plain text leaves out lines of level debug, `--quiet` those below warnings.
    pub(crate) fn is_shown(&self) -> bool {
        if is_quiet() {
            return self.level >= Level::Warning;
        }
        is_json() || self.level > Level::Debug
    }

    /// Writes the line. A failed write is ignored: the command goes on without a reader.
    pub(crate) fn write(&self) {
        if !self.is_shown() {
            return;
        }
        #[cfg(feature = "http")]
        if self.level >= Level::Warning {
            warnings::note(self.event, self.message);
        }
        let mut text = if is_json() {
            self.json(SystemTime::now())
        } else {
            let mark = match self.level {
                Level::Debug | Level::Info => Mark::Plain,
                Level::Warning => Mark::Warning,
                Level::Error => Mark::Error,
            };
            let message = wrapped(&one_line(self.message), stderr_columns(), NAME.len() + 1, INDENT);
            format!("{} {message}", mark.paint(NAME))
        };
        text.push('\n');
        // In one piece: lines of several threads do not mix.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// Writes the line so that it stays above a bar, if there is one.
    pub(crate) fn write_above(&self, bar: Option<&ProgressBar>) {
        match bar {
            Some(bar) => bar.suspend(|| self.write()),
            None => self.write(),
        }
    }

    fn json(&self, time: SystemTime) -> String {
        let time = humantime::format_rfc3339_millis(time).to_string();
        let text = serde_json::to_string(&TimedLine { time, line: self }).unwrap_or_default();
        plain::json(&text).into_owned()
    }
}

/// Writes a line of level info.
pub(crate) fn info(event: &str, message: &str, fields: Value) {
    Line::new(Level::Info, event, message, fields).write();
}

/// Writes a line of level warning.
pub(crate) fn warning(event: &str, message: &str, fields: Value) {
    Line::new(Level::Warning, event, message, fields).write();
}

/// Writes a line of level error: the command ends.
pub(crate) fn error(event: &str, message: &str, fields: Value) {
    Line::new(Level::Error, event, message, fields).write();
}

/// Says why the note of an audit does not count.
pub(crate) fn note(path: &Path, problem: &str) {
    warning(
        "note",
        &format!("{}: {problem}", path.display()),
        json!({"file": path_text(path), "problem": problem}),
    );
}

fn older_json(older: &Older) -> Value {
    json!({
        "height": older.found.height,
        "hash": older.found.hash.to_string(),
        "synced_height": older.synced.height,
        "synced_hash": older.synced.hash.to_string(),
    })
}

/// The name of an event of the engine in JSON, and its fields.
pub(crate) fn name_and_fields(event: &Event<'_>) -> (&'static str, Value) {
    match event {
        Event::Damaged(damage) => (
            "damaged",
            json!({
                "file": path_text(&damage.path),
                "offset": damage.offset,
                "hash": damage.hash.map(|hash| hash.to_string()),
            }),
        ),
        Event::MoreDamaged { path, ranges } => ("more_damaged", json!({"file": path_text(path), "ranges": ranges})),
        Event::Skipped(skipped) => (
            "skipped",
            json!({"file": path_text(&skipped.path), "reason": skipped.reason}),
        ),
        Event::Rejected(rejected) => ("rejected", rejected_json(rejected)),
        Event::Unreadable(unreadable) => ("unreadable", unreadable_json(unreadable)),
        Event::MoreRejected { blocks } => ("more_rejected", json!({"blocks": blocks})),
        Event::MoreUnreadable { blocks } => ("more_unreadable", json!({"blocks": blocks})),
        Event::HeaderRejected { hash, reject } => (
            "header_rejected",
            json!({"hash": hash.to_string(), "reason": reject.reason}),
        ),
        Event::UndoDamaged { path, height, detail } => (
            "undo_damaged",
            json!({"file": path_text(path), "height": height, "detail": detail}),
        ),
        Event::StoreOlder { path, older } => {
            let mut fields = older_json(older);
            fields["file"] = json!(path_text(path));
            ("store_older", fields)
        }
        Event::ScriptsSkipped { height } => ("scripts_skipped", json!({"height": height})),
        Event::ScriptsChecked { height, reason } => ("scripts_checked", json!({"height": height, "reason": reason})),
        Event::Signatures { height, way } => (
            "signatures",
            json!({"height": height, "lanes": way.lanes, "reason": way.reason}),
        ),
        Event::Disconnected(change) => {
            let hash = change.block.hash().to_string();
            ("disconnected", json!({"hash": hash, "height": change.height}))
        }
        Event::FilesUnreadable(error) => ("files_unreadable", json!({"file": path_text(error.path())})),
        Event::FileReplaced(path) => ("file_replaced", json!({"file": path_text(path)})),
        Event::Flushed(flushed) => (
            "flushed",
            json!({
                "height": flushed.tip.height,
                "hash": flushed.tip.hash.to_string(),
                "changes": flushed.changes,
                "seconds": flushed.time.as_secs_f64(),
            }),
        ),
        _ => ("other", json!({})),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_of_json_has_its_time_and_its_fields() {
        let line = Line::new(
            Level::Warning,
            "damaged",
            "a \"range\"\nof a file",
            json!({"file": "/tmp/blk00000.dat", "offset": 293}),
        );
        let text = line.json(SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_772_000_123));
        assert!(!text.contains('\n'), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({
                "time": "2025-11-22T00:40:00.123Z",
                "level": "warning",
                "event": "damaged",
                "message": "a \"range\"\nof a file",
                "file": "/tmp/blk00000.dat",
                "offset": 293,
            })
        );
    }

    #[test]
    fn json_has_no_commands() {
        let fields = json!({"file": "\t\u{1b}a"});
        let text = Line::new(Level::Error, "error", "a\n\u{9b}2J", fields).json(SystemTime::UNIX_EPOCH);
        assert!(!text.contains(['\u{9b}', '\u{1b}', '\n']), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["message"], &value["file"]),
            (&json!("a\n\u{9b}2J"), &json!("\t\u{1b}a"))
        );
    }

    #[test]
    fn every_event_with_a_path_takes_any_path() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/\xff/undo.dat"));
        let damaged = Event::UndoDamaged {
            path,
            height: 7,
            detail: "a record is cut off",
        };
        let (name, fields) = name_and_fields(&damaged);
        assert_eq!((name, &fields["height"]), ("undo_damaged", &json!(7)));
        let more = Event::MoreDamaged { path, ranges: 3 };
        assert_eq!(name_and_fields(&more).1["file"], fields["file"]);
    }
}

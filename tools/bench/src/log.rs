//! Lines on standard error like those of `blockmill`: plain text, or JSON with one object a line.

use clap::ValueEnum;
use serde_json::json;
use std::io::Write;
use std::time::SystemTime;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// One object of JSON a line.
    Json,
}

/// The level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Progress.
    Info,
    /// The end of the command.
    Error,
}

/// Writes a line. The command goes on without a reader.
pub(crate) fn write(format: Format, level: Level, event: &str, message: &str) {
    let text = match format {
        Format::Text => format!("blockmill-bench: {message}\n"),
        Format::Json => format!("{}\n", line(SystemTime::now(), level, event, message)),
    };
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn line(time: SystemTime, level: Level, event: &str, message: &str) -> serde_json::Value {
    let level = match level {
        Level::Info => "info",
        Level::Error => "error",
    };
    json!({
        "time": humantime::format_rfc3339_millis(time).to_string(),
        "level": level,
        "event": event,
        "message": message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_has_the_keys_of_blockmill() {
        let line = line(SystemTime::UNIX_EPOCH, Level::Error, "failed", "a \"word\"\n");
        let wanted = json!({
            "time": "1970-01-01T00:00:00.000Z",
            "level": "error",
            "event": "failed",
            "message": "a \"word\"\n",
        });
        assert_eq!(line, wanted);
        assert!(!line.to_string().contains('\n'));
    }
}

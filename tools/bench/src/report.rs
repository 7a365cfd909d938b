//! A benchmark's result: rows, the columns and charts that show them, and the targets computed from
//! them.

use crate::machine::Machine;
use crate::svg;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Shown where a row has no value for a column.
const NO_VALUE: &str = "-";

/// The result of a benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// Name of the benchmark.
    pub(crate) bench: &'static str,
    /// What the benchmark measures, in a line.
    pub(crate) title: String,
    /// The machine of the runs.
    pub(crate) machine: Machine,
    /// The command line of the benchmark.
    pub(crate) command: String,
    /// Notes on all rows, a line each.
    pub(crate) notes: Vec<String>,
    /// The key whose values divide the rows into tables. Rows of a table stand together. None: one
    /// table.
    pub(crate) group: Option<&'static str>,
    /// The columns of the tables, from left to right.
    pub(crate) columns: Vec<Column>,
    /// One object per printed row, with all keys of the columns and further ones.
    pub(crate) rows: Vec<Value>,
    /// Claims, and whether they hold here.
    pub(crate) targets: Vec<Target>,
    /// The charts of the page.
    pub(crate) charts: Vec<Chart>,
}

/// A column of the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// The key of its values in the rows.
    pub(crate) key: &'static str,
    /// The heading.
    pub(crate) heading: &'static str,
    /// The form of its values.
    pub(crate) form: Form,
}

/// The printed form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unchanged, aligned to the left.
    Text,
    /// A number with commas between thousands, aligned to the right.
    Number {
        /// Number of decimals.
        decimals: usize,
    },
}

/// A claim about the rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Target {
    /// The claim.
    pub(crate) name: String,
    /// The figure here.
    pub(crate) value: f64,
    /// The figure claimed.
    pub(crate) wanted: f64,
    /// Whether the claim holds here.
    pub(crate) met: bool,
}

/// Curves over the rows, one for each value of `series`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chart {
    /// The title.
    pub(crate) title: &'static str,
    /// A key and its value in the rows to draw. None: all rows.
    pub(crate) within: Option<(&'static str, &'static str)>,
    /// The key whose values name the curves.
    pub(crate) series: &'static str,
    /// The key of the numbers on the x axis.
    pub(crate) x: &'static str,
    /// The label of the x axis.
    pub(crate) x_label: &'static str,
    /// The key of the numbers on the y axis.
    pub(crate) y: &'static str,
    /// The label of the y axis.
    pub(crate) y_label: &'static str,
}

impl Target {
    /// A claim of yes or no. Its value is 1 if it is met, else 0.
    pub(crate) fn holds(name: &str, met: bool) -> Self {
        Self {
            name: name.to_owned(),
            value: f64::from(u8::from(met)),
            wanted: 1.0,
            met,
        }
    }

    /// The claim that `value` is at least `wanted`.
    pub(crate) fn at_least(name: &str, value: f64, wanted: f64) -> Self {
        Self {
            name: name.to_owned(),
            value,
            wanted,
            met: value >= wanted,
        }
    }

    /// The claim that `value` is at most `wanted`.
    pub(crate) fn at_most(name: &str, value: f64, wanted: f64) -> Self {
        Self {
            met: value <= wanted,
            ..Self::at_least(name, value, wanted)
        }
    }

    /// The claim and whether it holds, in words.
    pub(crate) fn words(&self) -> String {
        let verdict = if self.met { "met" } else { "NOT MET" };
        let value = (self.value * 1e4).round() / 1e4;
        format!("{}: {value} (wanted {}): {verdict}", self.name, self.wanted)
    }
}

impl Column {
    pub(crate) const fn text(key: &'static str, heading: &'static str) -> Self {
        Self {
            key,
            heading,
            form: Form::Text,
        }
    }

    pub(crate) const fn number(key: &'static str, heading: &'static str, decimals: usize) -> Self {
        Self {
            key,
            heading,
            form: Form::Number { decimals },
        }
    }

    /// The cell of `row` in this column.
    pub(crate) fn cell(&self, row: &Value) -> String {
        let value = &row[self.key];
        match (self.form, value.as_f64(), value) {
            (_, _, Value::Null) => NO_VALUE.to_owned(),
            (Form::Number { decimals }, Some(number), _) => with_thousands(&format!("{number:.decimals$}")),
            (_, _, Value::String(text)) => text.clone(),
            (_, _, other) => other.to_string(),
        }
    }
}

/// A decimal number with a comma after each thousand.
fn with_thousands(number: &str) -> String {
    let digits_start = usize::from(number.starts_with('-'));
    let digits_end = number.find('.').unwrap_or(number.len());
    let mut text = String::new();
    for (at, character) in number.char_indices() {
        let remaining = digits_end.saturating_sub(at);
        if at > digits_start && remaining > 0 && remaining % 3 == 0 {
            text.push(',');
        }
        text.push(character);
    }
    text
}

impl Report {
    /// A report without rows, for this machine.
    pub(crate) fn new(bench: &'static str, title: &str, command: &str) -> Self {
        Self {
            bench,
            title: title.to_owned(),
            machine: Machine::this(),
            command: command.to_owned(),
            notes: Vec::new(),
            group: None,
            columns: Vec::new(),
            rows: Vec::new(),
            targets: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// The charts that have a point.
    pub(crate) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.charts.iter().filter(|chart| svg::has_points(chart, &self.rows))
    }

    /// The report as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "bench": self.bench,
            "machine": self.machine,
            "command": self.command,
            "rows": self.rows,
            "targets": self.targets,
        })
    }

    /// Prints the report for a person: the figures first, then what they are; the targets, if they
    /// are asked for.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_table(&self, out: &mut dyn Write, with_targets: bool) -> io::Result<()> {
        writeln!(out, "{}: {}", self.bench, self.title)?;
        writeln!(out)?;
        let name = |row: &Value| self.group.map(|key| row[key].as_str().unwrap_or_default().to_owned());
        let mut space = "";
        for rows in self.rows.chunk_by(|one, other| name(one) == name(other)) {
            if let Some(name) = name(&rows[0]) {
                writeln!(out, "{space}{name}")?;
                space = "\n";
            }
            self.write_rows(rows, out)?;
        }
        writeln!(out)?;
        writeln!(out, "machine: {}", self.machine)?;
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        if with_targets && !self.targets.is_empty() {
            writeln!(out)?;
            for target in &self.targets {
                writeln!(out, "target: {}", target.words())?;
            }
        }
        Ok(())
    }

    /// Prints rows under their headings. Columns without any value are left out.
    fn write_rows(&self, rows: &[Value], out: &mut dyn Write) -> io::Result<()> {
        let has_value = |column: &&Column| rows.iter().any(|row| !row[column.key].is_null());
        let columns: Vec<&Column> = self.columns.iter().filter(has_value).collect();
        let headings = columns.iter().map(|column| column.heading.to_owned()).collect();
        let mut lines: Vec<Vec<String>> = vec![headings];
        lines.extend(
            rows.iter()
                .map(|row| columns.iter().map(|column| column.cell(row)).collect()),
        );
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&columns).zip(&widths);
            let padded: Vec<String> = cells
                .map(|((cell, column), &width)| match column.form {
                    Form::Text => format!("{cell:<width$}"),
                    Form::Number { .. } => format!("{cell:>width$}"),
                })
                .collect();
            writeln!(out, "{}", padded.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// A small report for the tests of this crate: names that need escaping, a missing value, two
/// curves.
#[cfg(test)]
pub(crate) fn example() -> Report {
    let row = |engine: &str, threads: u64, speed: f64, ratio: Option<f64>| json!({"engine": engine, "threads": threads, "inputs_per_second": speed, "ratio": ratio, "tip": "00ff"});
    Report {
        machine: Machine {
            cpu: "Some CPU".to_owned(),
            cores: 2,
            memory_bytes: Some(1 << 30),
        },
        notes: vec!["a note".to_owned()],
        columns: vec![
            Column::text("engine", "engine"),
            Column::number("threads", "threads", 0),
            Column::number("inputs_per_second", "inputs/s", 1),
            Column::number("ratio", "ratio", 2),
        ],
        rows: vec![
            row("ours", 1, 12_345.67, Some(1.5)),
            row("<b>&\"their's\"", 1, 8_230.0, None),
            row("ours", 2, 24_000.0, Some(1.25)),
            row("<b>&\"their's\"", 2, 19_200.0, None),
        ],
        targets: vec![Target::holds("same tip", true), Target::holds("faster", false)],
        charts: vec![Chart {
            title: "Speed",
            within: None,
            series: "engine",
            x: "threads",
            x_label: "threads",
            y: "inputs_per_second",
            y_label: "inputs per second",
        }],
        ..Report::new("example", "an example", "blockmill-bench example")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let mut out = Vec::new();
        example().write_table(&mut out, true).unwrap();
        let expected = "\
example: an example

engine         threads  inputs/s  ratio
ours                 1  12,345.7   1.50
<b>&\"their's\"        1   8,230.0      -
ours                 2  24,000.0   1.25
<b>&\"their's\"        2  19,200.0      -

machine: Some CPU, 2 cores, 1.0 GiB
a note

target: same tip: 1 (wanted 1): met
target: faster: 0 (wanted 1): NOT MET
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        example().write_table(&mut out, false).unwrap();
        let without = expected.split_once("\ntarget").unwrap().0;
        assert_eq!(String::from_utf8(out).unwrap(), without);
    }

    #[test]
    fn json_has_the_stated_keys() {
        let value: Value = serde_json::from_str(&example().json().to_string()).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["bench", "command", "machine", "rows", "targets"]);
        assert_eq!(
            value["machine"],
            json!({"cpu": "Some CPU", "cores": 2, "memory_bytes": 1 << 30})
        );
        assert_eq!(value["command"], "blockmill-bench example");
        assert_eq!(value["rows"].as_array().unwrap().len(), 4);
        assert_eq!(value["rows"][1]["ratio"], Value::Null);
        assert_eq!(value["rows"][1]["tip"], "00ff");
        assert_eq!(
            value["targets"][1],
            json!({"name": "faster", "value": 0.0, "wanted": 1.0, "met": false})
        );
    }

    #[test]
    fn rows_fall_into_tables() {
        let mut report = example();
        report.group = Some("engine");
        report.rows.swap(1, 2);
        let mut out = Vec::new();
        report.write_table(&mut out, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        let tables: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(tables.len(), 4, "{text}");
        assert!(tables[1].starts_with("ours\nengine "), "{text}");
        assert!(tables[2].starts_with("<b>&\"their's\"\nengine "), "{text}");
        assert_eq!((tables[1].lines().count(), tables[2].lines().count()), (4, 4));
    }

    #[test]
    fn figures_meet_what_is_wanted() {
        for (value, at_least, at_most) in [(0.89, false, true), (0.9, true, true), (0.91, true, false)] {
            assert_eq!(Target::at_least("figure", value, 0.9).met, at_least);
            assert_eq!(Target::at_most("figure", value, 0.9).met, at_most);
        }
        assert_eq!(
            Target::at_least("figure", 0.123_456, 0.5).words(),
            "figure: 0.1235 (wanted 0.5): NOT MET"
        );
    }

    #[test]
    fn thousands_are_set_off() {
        for (number, text) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1,000"),
            ("-1000", "-1,000"),
            ("-100", "-100"),
            ("1234567.8912", "1,234,567.8912"),
            ("0.123456", "0.123456"),
        ] {
            assert_eq!(with_thousands(number), text);
        }
    }

    #[test]
    fn cells_of_any_value() {
        let number = Column::number("key", "heading", 1);
        assert_eq!(number.cell(&json!({"key": "text"})), "text");
        assert_eq!(number.cell(&json!({})), NO_VALUE);
        assert_eq!(number.cell(&json!({"key": 2})), "2.0");
        assert_eq!(Column::text("key", "heading").cell(&json!({"key": true})), "true");
        assert_eq!(Column::text("key", "heading").cell(&json!({"key": 7})), "7");
    }
}

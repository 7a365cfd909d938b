//! A benchmark's result: rows, the claims that follow from them, and notes.

use crate::chart::Axes;
use crate::failure::Wrong;
use crate::machine::Machine;
use crate::row::{Row, heading};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The result of a benchmark.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// What it measures, in a line.
    pub title: String,
    /// The machine of the runs.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// Notes on all rows, a line each.
    pub notes: Vec<String>,
    /// The printed rows. Those of a table stand together.
    pub rows: Vec<Row>,
    /// Claims about the rows, and whether they hold here.
    pub claims: Vec<Claim>,
    /// What the curves of each table show.
    pub axes: Option<Axes>,
    /// What is wrong although the report is whole. The rows say it, too.
    pub wrong: Option<Wrong>,
}

/// A claim about the rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The claim.
    pub name: String,
    /// The figure here.
    pub value: f64,
    /// The figure claimed.
    pub wanted: f64,
    /// Whether the claim holds here.
    pub met: bool,
}

impl Claim {
    /// The claim and whether it holds, in words.
    pub(crate) fn words(&self) -> String {
        let verdict = if self.met { "met" } else { "NOT MET" };
        // Four digits after the point say enough.
        let value = (self.value * 1e4).round() / 1e4;
        format!("{}: {value} (wanted {}): {verdict}", self.name, self.wanted)
    }
}

impl Report {
    /// A report without rows, for this machine.
    pub fn new(bench: &'static str, title: &str, command: &str) -> Self {
        Self {
            bench,
            title: title.to_owned(),
            machine: Machine::this(),
            command: command.to_owned(),
            notes: Vec::new(),
            rows: Vec::new(),
            claims: Vec::new(),
            axes: None,
            wrong: None,
        }
    }

    /// Adds notes.
    pub fn note(&mut self, notes: &[&str]) {
        self.notes.extend(notes.iter().map(|&note| note.to_owned()));
    }

    fn figures(&self, name: &str, which: impl Fn(&Row) -> bool) -> impl Iterator<Item = f64> {
        let rows = self.rows.iter().filter(move |row| which(row));
        rows.filter_map(move |row| row.number(name))
    }

    /// The least figure of a name in some rows. None: no such row has one.
    pub fn least(&self, name: &str, which: impl Fn(&Row) -> bool) -> Option<f64> {
        self.figures(name, which).min_by(f64::total_cmp)
    }

    /// The largest figure of a name in some rows.
    pub fn most(&self, name: &str, which: impl Fn(&Row) -> bool) -> Option<f64> {
        self.figures(name, which).max_by(f64::total_cmp)
    }

    /// Claims that `value` is at least `wanted`. Without a value there is no claim.
    pub fn at_least(&mut self, name: &str, value: Option<f64>, wanted: f64) {
        self.claim(name, value, wanted, |value| value >= wanted);
    }

    /// Claims that `value` is at most `wanted`. Without a value there is no claim.
    pub fn at_most(&mut self, name: &str, value: Option<f64>, wanted: f64) {
        self.claim(name, value, wanted, |value| value <= wanted);
    }

    fn claim(&mut self, name: &str, value: Option<f64>, wanted: f64, met: impl Fn(f64) -> bool) {
        self.claims.extend(value.map(|value| Claim {
            name: name.to_owned(),
            value,
            wanted,
            met: met(value),
        }));
    }

    /// The rows of each table.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|one, other| one.table() == other.table())
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        json!({
            "bench": self.bench,
            "machine": self.machine,
            "command": self.command,
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "targets": self.claims,
        })
    }

    /// Prints the report for a person: the figures first, then what they are; the claims, if they
    /// are asked for.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_table(&self, out: &mut dyn Write, with_claims: bool) -> io::Result<()> {
        writeln!(out, "{}: {}\n", self.bench, self.title)?;
        for rows in self.tables() {
            writeln!(out, "{}", rows[0].table())?;
            write_rows(rows, out)?;
            writeln!(out)?;
        }
        writeln!(out, "machine: {}", self.machine)?;
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        if with_claims && !self.claims.is_empty() {
            writeln!(out)?;
            for claim in &self.claims {
                writeln!(out, "target: {}", claim.words())?;
            }
        }
        Ok(())
    }
}

/// The columns of a table: a name, and whether it is a number.
pub(crate) fn columns(rows: &[Row]) -> Vec<(&str, bool)> {
    let mut columns: Vec<(&str, bool)> = Vec::new();
    for row in rows {
        let mut last = None;
        for name in row.names() {
            match columns.iter().position(|column| column.0 == name) {
                Some(index) => last = Some(index),
                None => {
                    // After the column that it follows in its row.
                    let index = last.map_or(0, |last: usize| last + 1);
                    columns.insert(index, (name, row.value(name).is_number()));
                    last = Some(index);
                }
            }
        }
    }
    columns
}

/// Prints rows under their headings.
fn write_rows(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let columns = columns(rows);
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|column| heading(column.0)).collect()];
    lines.extend(
        rows.iter()
            .map(|row| columns.iter().map(|column| row.cell(column.0)).collect()),
    );
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&columns).zip(&widths);
        let padded: Vec<String> = cells
            .map(|((cell, (_, is_number)), &width)| match is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        writeln!(out, "{}", padded.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small report for the tests of this crate: names that need escaping, a missing value, two
    /// curves.
    pub(crate) fn example() -> Report {
        let row = |engine: &str, threads: u64, speed: f64, ratio: Option<f64>| {
            let mut row = Row::new("chain <a>").with("engine", engine).with("threads", threads);
            row = row.with("per_second", speed).with("ratio_median", ratio);
            row.set_hidden("tip", "00ff");
            row
        };
        let mut report = Report {
            machine: Machine {
                cpu: "Some CPU".to_owned(),
                cores: 2,
                memory_bytes: Some(1 << 30),
            },
            notes: vec!["a note".to_owned()],
            rows: vec![
                row("ours", 1, 12_345.67, Some(1.5)),
                row("<b>&\"their's\"", 1, 8_230.0, None),
                row("ours", 2, 24_000.0, Some(1.25)),
                row("<b>&\"their's\"", 2, 19_200.0, None),
                Row::new("other").with("price_ms", 7.25),
            ],
            axes: Some(Axes {
                series: "engine",
                x: "threads",
                y: "per_second",
            }),
            ..Report::new("example", "an example", "blockmill-bench example")
        };
        let least = report.least("ratio_median", |row| row.is("engine", "ours"));
        report.at_least("faster, worst row", least, 1.0);
        report.at_most("slower", report.most("ratio_median", |_| true), 1.0);
        report.at_most(
            "nothing",
            report.most("ratio_median", |row| row.is("engine", "none")),
            1.0,
        );
        report
    }

    #[test]
    fn a_table_is_aligned() {
        let mut out = Vec::new();
        example().write_table(&mut out, true).unwrap();
        let expected = "\
example: an example

chain <a>
engine         threads  per second  ratio
ours                 1      12,346   1.50
<b>&\"their's\"        1       8,230      -
ours                 2      24,000   1.25
<b>&\"their's\"        2      19,200      -

other
price ms
    7.25

machine: Some CPU, 2 cores, 1.0 GiB
a note

target: faster, worst row: 1.25 (wanted 1): met
target: slower: 1.5 (wanted 1): NOT MET
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        example().write_table(&mut out, false).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            expected.split_once("\ntarget").unwrap().0
        );
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
        assert_eq!(value["rows"].as_array().unwrap().len(), 5);
        assert_eq!(
            (&value["rows"][1]["ratio_median"], &value["rows"][1]["tip"]),
            (&Value::Null, &json!("00ff"))
        );
        assert_eq!(
            value["targets"][1],
            json!({"name": "slower", "value": 1.5, "wanted": 1.0, "met": false})
        );
    }

    #[test]
    fn a_column_stands_after_the_one_before_it_in_its_row() {
        let rows = [
            Row::new("t").with("a", 1).with("c", "x"),
            Row::new("t").with("a", 2).with("b", 3),
        ];
        assert_eq!(columns(&rows), [("a", true), ("b", true), ("c", false)]);
    }
}

//! The scripts that are looked for, and the texts that stand for them.

use crate::arguments::{BalanceArguments, is_standard, or_standard_input};
use crate::failure::Failure;
use crate::output::path_text;
use blockmill_block::Network;
use blockmill_blockfiles::Input;
use blockmill_blockfiles::lines::{Line, read_line};
use blockmill_descriptors::{NoTarget, TargetReader};
use std::collections::HashMap;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Longest line that is read, in bytes. A descriptor may have a thousand keys.
const LINE_MAX: usize = 1 << 20;

/// What begins a line that is a remark. No address, descriptor or `raw:` begins so.
const REMARK: char = '#';

/// A row of the table: a target.
struct Row {
    name: String,
    /// The end of its scripts in `Wanted::scripts_of_rows`.
    end: usize,
}

/// The scripts that are looked for. Each has a number.
#[derive(Default)]
pub(super) struct Wanted {
    numbers: HashMap<Vec<u8>, u32>,
    /// What Core calls each script; none where a table is asked for, which does not say it.
    descriptors: Vec<String>,
    /// In the order in which they were asked for; none where no table is asked for.
    rows: Vec<Row>,
    /// The numbers of the scripts of each row, one row after the other.
    scripts_of_rows: Vec<u32>,
}

impl Wanted {
    /// Those of the arguments, and of their file.
    pub(super) fn new(arguments: &BalanceArguments, network: Network) -> Result<Self, Failure> {
        let reader = TargetReader::new(arguments.range.indices(), network);
        let mut wanted = Self::default();
        for (text, position) in arguments.targets.iter().zip(1u32..) {
            let added = wanted.add(text, &reader, arguments.table);
            added.map_err(|error| Failure::Usage(format!("target {position}: {error}")))?;
        }
        if let Some(path) = &arguments.from_file {
            for_each_text(path, |text| wanted.add(text, &reader, arguments.table))?;
        }
        Ok(wanted)
    }

    fn add(&mut self, text: &str, reader: &TargetReader<'_>, is_table: bool) -> Result<(), NoTarget> {
        let begin = self.scripts_of_rows.len();
        let targets = reader.targets(text)?;
        let name = match &targets[..] {
            // A descriptor may have private keys, so it is not repeated.
            _ if !text.contains('(') => text.to_owned(),
            [one] => one.descriptor.clone(),
            several => format!("row {} ({} scripts)", self.rows.len() + 1, several.len()),
        };
        for target in targets {
            let next = self.numbers.len() as u32;
            let number = *self.numbers.entry(target.script_pubkey).or_insert(next);
            if is_table {
                self.scripts_of_rows.push(number);
            } else if number == next {
                // Of descriptors for one script, the first one names it.
                self.descriptors.push(target.descriptor);
            }
        }
        if is_table {
            // A descriptor may stand for a script twice, whose coins count once.
            let mut own = self.scripts_of_rows.split_off(begin);
            own.sort_unstable();
            own.dedup();
            self.scripts_of_rows.append(&mut own);
            let end = self.scripts_of_rows.len();
            self.rows.push(Row { name, end });
        }
        Ok(())
    }

    /// How many scripts there are.
    pub(super) fn scripts(&self) -> usize {
        self.numbers.len()
    }

    /// The number of a script that is looked for.
    pub(super) fn number(&self, script: &[u8]) -> Option<u32> {
        self.numbers.get(script).copied()
    }

    /// What Core calls a script.
    pub(super) fn descriptor(&self, script: &[u8]) -> Option<&str> {
        let number = self.number(script)?;
        self.descriptors.get(number as usize).map(String::as_str)
    }

    /// The targets in the order in which they were asked for, each with the numbers of its scripts:
    /// an address or `raw:HEX` as it was typed, a descriptor of one script as Core would print it,
    /// and one of several scripts by the number of its row.
    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = (&str, &[u32])> {
        let mut begin = 0;
        self.rows.iter().map(move |row| {
            let begin = std::mem::replace(&mut begin, row.end);
            (row.name.as_str(), &self.scripts_of_rows[begin..row.end])
        })
    }
}

/// Gives the texts of a file to `take`, one a line.
fn for_each_text(path: &Path, mut take: impl FnMut(&str) -> Result<(), NoTarget>) -> Result<(), Failure> {
    let name = match is_standard(path) {
        true => "standard input".into(),
        false => path_text(path),
    };
    let path = or_standard_input(path);
    let input = Input::open(path, Arc::default())?;
    let mut input = BufReader::with_capacity(1 << 16, &input);
    let mut number = 0u64;
    while let Some(line) = read_line(&mut input, LINE_MAX).map_err(Failure::file(path))? {
        number += 1;
        let wrong = |why: String| Failure::Corrupt(format!("{name}: line {number}: {why}"));
        let line = match line {
            Line::Text(line) => line,
            Line::TooLong(length_max) => return Err(wrong(format!("it has more than {length_max} bytes"))),
        };
        // What is not UTF-8 is not a target.
        let text = String::from_utf8_lossy(&line);
        // Some editors put a mark of the byte order before the first line.
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.is_empty() && !text.starts_with(REMARK) {
            take(text).map_err(|error| wrong(error.to_string()))?;
        }
    }
    Ok(())
}

//! The scripts that are looked for, and the texts that stand for them.

use crate::arguments::{BalanceArguments, is_standard, or_standard_input};
use crate::failure::Failure;
use crate::output::path_text;
use crate::plain;
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

/// A text that was asked for.
struct Asked {
    text: String,
    /// The end of its scripts in `Wanted::scripts_of_texts`.
    end: usize,
}

/// The scripts that are looked for. Each has a number.
#[derive(Default)]
pub(super) struct Wanted {
    numbers: HashMap<Vec<u8>, u32>,
    /// What Core calls each script; none where a table is asked for, which does not say it.
    descriptors: Vec<String>,
    /// In the order in which they were asked for; none where no table is asked for.
    texts: Vec<Asked>,
    /// The numbers of the scripts of each text, one text after the other.
    scripts_of_texts: Vec<u32>,
}

impl Wanted {
    /// Those of the arguments, and of their file.
    pub(super) fn new(arguments: &BalanceArguments, network: Network) -> Result<Self, Failure> {
        let reader = TargetReader::new(arguments.range.indices(), network);
        let mut wanted = Self::default();
        for text in &arguments.targets {
            wanted.add(text, &reader, arguments.table)?;
        }
        if let Some(path) = &arguments.from_file {
            for_each_text(path, |text| wanted.add(text, &reader, arguments.table))?;
        }
        Ok(wanted)
    }

    fn add(&mut self, text: &str, reader: &TargetReader<'_>, is_table: bool) -> Result<(), NoTarget> {
        let begin = self.scripts_of_texts.len();
        for target in reader.targets(text)? {
            let next = self.numbers.len() as u32;
            let number = *self.numbers.entry(target.script_pubkey).or_insert(next);
            if is_table {
                self.scripts_of_texts.push(number);
            } else if number == next {
                // Of descriptors for one script, the first one names it.
                self.descriptors.push(target.descriptor);
            }
        }
        if is_table {
            // A descriptor may stand for a script twice, whose coins count once.
            let mut own = self.scripts_of_texts.split_off(begin);
            own.sort_unstable();
            own.dedup();
            self.scripts_of_texts.append(&mut own);
            let (text, end) = (text.to_owned(), self.scripts_of_texts.len());
            self.texts.push(Asked { text, end });
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

    /// The texts in the order in which they were asked for, each with the numbers of its scripts.
    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = (&str, &[u32])> {
        let mut begin = 0;
        self.texts.iter().map(move |asked| {
            let begin = std::mem::replace(&mut begin, asked.end);
            (asked.text.as_str(), &self.scripts_of_texts[begin..asked.end])
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
        // What is not UTF-8 is no target, and the message shows only its shape.
        let text = String::from_utf8_lossy(&line);
        // Some editors put a mark of the byte order before the first line.
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.is_empty() && !text.starts_with(REMARK) {
            take(text).map_err(|error| wrong(plain::said(&error.to_string())))?;
        }
    }
    Ok(())
}

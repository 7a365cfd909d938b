//! What is written to a terminal fits into its columns, and has colours where it has them.

use console::{Style, Term};
use std::io::IsTerminal;

/// Columns of the terminal that standard output is; none where it is something else.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns(&Term::stdout(), std::io::stdout().is_terminal())
}

/// Columns of the terminal that standard error is; none where it is something else.
pub(crate) fn stderr_columns() -> Option<usize> {
    columns(&Term::stderr(), std::io::stderr().is_terminal())
}

fn columns(terminal: &Term, is_terminal: bool) -> Option<usize> {
    let (_, columns) = terminal.size_checked().filter(|_| is_terminal)?;
    Some(columns.into())
}

/// Good news.
pub(crate) fn good(text: &str) -> String {
    Style::new().green().apply_to(text).to_string()
}

/// Bad news.
pub(crate) fn bad(text: &str) -> String {
    Style::new().red().bold().apply_to(text).to_string()
}

/// The beginning of a line on standard error.
pub(crate) enum Mark {
    Plain,
    Warning,
    Error,
}

impl Mark {
    /// A text with the colour of the mark.
    pub(crate) fn paint(&self, text: &str) -> String {
        let style = Style::new().for_stderr().bold();
        match self {
            Self::Plain => text.to_owned(),
            Self::Warning => style.yellow().apply_to(text).to_string(),
            Self::Error => style.red().apply_to(text).to_string(),
        }
    }
}

/// A text in lines of so many columns. The first begins after `used` columns; the others are
/// indented by `indent`. A word that is longer has a line of its own.
pub(crate) fn wrapped(text: &str, columns: Option<usize>, used: usize, indent: usize) -> String {
    let Some(columns) = columns else {
        return text.to_owned();
    };
    let mut lines = String::new();
    let mut column = used;
    for (number, word) in text.split(' ').enumerate() {
        let width = console::measure_text_width(word);
        let space = usize::from(number > 0);
        // A word that fits nowhere stands at the beginning of a line.
        if column + space + width > columns && column > indent {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if space > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let text = "one two three four";
        assert_eq!(wrapped(text, None, 50, 2), text);
        assert_eq!(wrapped(text, Some(18), 0, 2), text);
        assert_eq!(wrapped(text, Some(17), 0, 2), "one two three\n  four");
        assert_eq!(wrapped(text, Some(9), 2, 1), "one two\n three\n four");
        assert_eq!(wrapped(text, Some(9), 7, 0), "\none two\nthree\nfour");
        // Words that do not fit anywhere.
        assert_eq!(wrapped("one longer b", Some(4), 0, 2), "one\n  longer\n  b");
        assert_eq!(wrapped("longer", Some(4), 2, 2), "longer");
        assert_eq!(wrapped("", Some(4), 2, 2), "");
    }
}

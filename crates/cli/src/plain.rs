//! Texts from outside, made safe for a line: names of files, and what a peer answers.

use std::borrow::Cow;
use std::fmt::Write;

/// Characters of what somebody else says that are repeated.
const SAID_MAX: usize = 200;

/// Whether a character does something to a terminal, or to the order in which text is shown.
fn is_command(character: char) -> bool {
    character.is_control()
        // Marks of direction, the byte order mark, separators of lines, embeddings and isolates.
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || ('\u{2028}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

fn mapped(text: &str, is_mapped: fn(char) -> bool, map: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_mapped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_mapped(character) {
            map(character, &mut safe);
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// A text on one line, with what would command a terminal written out: `\n`, `\u{1b}`.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    mapped(text, is_command, |character, safe| {
        safe.extend(character.escape_default())
    })
}

/// As [`one_line`], of a text that may have several lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    let is_mapped = |character| character != '\n' && is_command(character);
    mapped(text, is_mapped, |character, safe| {
        safe.extend(character.escape_default())
    })
}

/// JSON that has the same value, and nothing that would command a terminal. The characters stand
/// only in texts there, and are all of the first plane.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    mapped(text, is_command, |character, safe| {
        let _ = write!(safe, "\\u{:04x}", u32::from(character));
    })
}

/// What somebody else says, on one line and not at length.
pub(crate) fn said(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SAID_MAX) {
        Some((end, _)) => one_line(&text[..end]).into_owned() + "...",
        None => one_line(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_the_terminal() {
        for plain in ["", "what, äöü and \u{1f511}", "a/b c", "\\n"] {
            assert_eq!((one_line(plain), json(plain)), (plain.into(), plain.into()));
        }
        let hostile = "\u{1b}]0;x\u{7}a\nb\r\tc\u{9b}2J\u{7f}\u{202e}d\u{2028}";
        assert_eq!(
            one_line(hostile),
            r"\u{1b}]0;x\u{7}a\nb\r\tc\u{9b}2J\u{7f}\u{202e}d\u{2028}"
        );
        assert!(lines(hostile).contains("a\nb\\r"));
        let value = serde_json::Value::from(hostile);
        let text = value.to_string();
        let safe = json(&text);
        assert!(!safe.chars().any(is_command), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn what_is_said_is_short() {
        assert_eq!(said(" no\n "), "no");
        let long = said(&"é\n".repeat(500));
        assert!(
            long.len() < 600 && long.ends_with("...") && !long.contains('\n'),
            "{long}"
        );
    }
}

//! Blocks as lines of hex, one block a line, as `submit` reads them.

use blockmill_block::hex;
use std::io::{self, BufRead};

/// Longest line that is read, in bytes; a block of the largest size has eight million hex digits.
pub const LINE_MAX: usize = 64 << 20;

/// A line of input.
#[derive(Debug)]
pub enum Line {
    /// What it says, without its end.
    Text(Vec<u8>),
    /// It is longer than this many bytes.
    TooLong(usize),
}

/// Reads a line. A line of more than `length_max` bytes is skipped and not kept. None at the end of
/// the input.
///
/// # Errors
/// Those of the input.
pub fn read_line(input: &mut impl BufRead, length_max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let is_last = end.is_some() || available.is_empty();
        if available.is_empty() && line.is_empty() && !too_long {
            return Ok(None);
        }
        if line.len() + part.len() > length_max {
            too_long = true;
            // What came so far is of no use, and its memory is free at once.
            line = Vec::new();
        } else if !too_long {
            line.extend_from_slice(part);
        }
        // The line feed is used up, too.
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if is_last {
            return Ok(Some(if too_long {
                Line::TooLong(length_max)
            } else {
                Line::Text(line)
            }));
        }
    }
}

/// The bytes of a line.
///
/// # Errors
/// Words about a line that is too long, no text or no hex.
pub fn decode_line(line: Line) -> Result<Vec<u8>, String> {
    let line = match line {
        Line::Text(line) => line,
        Line::TooLong(length_max) => return Err(format!("the line is longer than {length_max} bytes")),
    };
    let text = std::str::from_utf8(&line).map_err(|error| error.to_string())?;
    hex::decode(text.trim()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        let mut input = io::BufReader::with_capacity(3, &b"ab\n\n0g\r\ncdef"[..]);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, LINE_MAX).unwrap() {
            lines.push(decode_line(line).ok());
        }
        assert_eq!(lines, [Some(vec![0xab]), Some(vec![]), None, Some(vec![0xcd, 0xef])]);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let long = vec![b'a'; LINE_MAX + 10];
        let mut input = io::BufReader::new(&long[..]);
        assert!(matches!(
            read_line(&mut input, LINE_MAX).unwrap(),
            Some(Line::TooLong(LINE_MAX))
        ));
        assert!(read_line(&mut input, LINE_MAX).unwrap().is_none());
    }
}

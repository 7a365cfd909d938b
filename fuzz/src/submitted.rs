//! Lines as `blockmill submit` reads them.

use blockmill_blockfiles::lines::{LINE_MAX, Line, decode_line, read_line};
use std::io::{BufReader, Read};

/// The bytes of the first line, if it is valid hex.
pub fn decode_one(line: &[u8]) -> Option<Vec<u8>> {
    let mut input = line.chain(&b"\n"[..]);
    let first = read_line(&mut input, LINE_MAX).expect("memory can be read")?;
    decode_line(first).ok()
}

/// Reads all lines of a stream that arrives in pieces of `piece` bytes, and compares them with the
/// text between the line feeds.
///
/// # Panics
/// If a line differs, or the reader keeps more than `length_max` bytes of a line.
pub fn check_stream(stream: &[u8], piece: usize, length_max: usize) {
    let mut input = BufReader::with_capacity(piece, stream);
    let mut expected: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    // Text after the last line feed is a line, unless it is empty.
    expected.pop_if(|last| last.is_empty());
    for expected in expected {
        let line = read_line(&mut input, length_max).expect("memory can be read");
        match line.as_ref().expect("one more line") {
            Line::Text(text) => assert_eq!(text, expected),
            Line::TooLong(_) => assert!(expected.len() > length_max),
        }
        let is_kept = matches!(line, Some(Line::Text(_)));
        assert_eq!(is_kept, expected.len() <= length_max);
        let digits = expected.trim_ascii();
        let is_hex = digits.len() % 2 == 0 && digits.iter().all(u8::is_ascii_hexdigit);
        if let Some(bytes) = line.and_then(|line| decode_line(line).ok()) {
            assert!(is_kept && bytes.len() <= expected.len() / 2);
        } else {
            assert!(!is_kept || !is_hex, "a line of hex is refused");
        }
    }
    assert!(read_line(&mut input, length_max).expect("memory can be read").is_none());
}

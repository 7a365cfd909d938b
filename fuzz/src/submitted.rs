//! Lines as `blockmill submit` reads them.

use blockmill_blockfiles::lines::{LINE_MAX, Line, decode_line, read_line};
use std::io::{BufReader, Read};

/// What a line stands for, if it is one of hex; of several lines the first.
pub fn decode_one(line: &[u8]) -> Option<Vec<u8>> {
    let mut input = line.chain(&b"\n"[..]);
    let first = read_line(&mut input, LINE_MAX).expect("memory can be read")?;
    decode_line(first).ok()
}

/// Reads all lines of a stream that comes in pieces of `piece` bytes, and compares them with what
/// stands between the line feeds.
///
/// # Panics
/// If there is a difference, or more is kept of a line than `length_max`.
pub fn check_stream(stream: &[u8], piece: usize, length_max: usize) {
    let mut input = BufReader::with_capacity(piece, stream);
    let mut expected: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    // The bytes after the last line feed are a line, unless there are none.
    expected.pop_if(|last| last.is_empty());
    for expected in expected {
        let line = read_line(&mut input, length_max).expect("memory can be read");
        match line.as_ref().expect("a line more") {
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

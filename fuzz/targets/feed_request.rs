//! The input is what a client sends to a socket of feeds. Its first byte says how the rest is cut
//! into pieces.
//!
//! Checked: the pieces make no difference. A request is known by its first line feed, and from the
//! bytes before it alone; without one it is refused once it is too long. What is accepted has the
//! words, a height or a hash, and a format or none, and reads the same when it is written again.

#![no_main]

use blockmill_datadir::Cursor;
use blockmill_datadir::feed::request::{NoRequest, REQUEST_MAX, Request, RequestReader};
use libfuzzer_sys::fuzz_target;

/// What comes of bytes in pieces of some length, and the number of bytes that were taken for it.
fn read(bytes: &[u8], piece: usize) -> (Result<Option<Request>, NoRequest>, usize) {
    let mut reader = RequestReader::default();
    let mut taken = 0;
    for piece in bytes.chunks(piece) {
        taken += piece.len();
        match reader.take(piece) {
            Ok(None) => {}
            outcome => return (outcome, taken),
        }
    }
    (Ok(None), taken)
}

fn check(bytes: &[u8], piece: usize) {
    let (whole, _) = read(bytes, bytes.len().max(1));
    let (outcome, taken) = read(bytes, piece);
    assert_eq!(outcome, whole, "pieces of {piece} bytes");
    let end = bytes.iter().position(|&byte| byte == b'\n');
    match outcome {
        // Nobody waits for more than a request has.
        Ok(None) => assert!(end.is_none() && bytes.len() < REQUEST_MAX),
        Err(NoRequest) => assert!(end.is_some() || bytes.len() >= REQUEST_MAX),
        Ok(Some(request)) => {
            let end = end.expect("a request has a line feed");
            assert!(end < REQUEST_MAX && taken <= end + piece);
            let cursor = match request.cursor {
                Cursor::Height(height) => height.to_string(),
                Cursor::Block(hash) => hash.to_string(),
            };
            let format = request.format.map_or_else(String::new, |format| format!(" {}", format.name()));
            let again = format!("blockmill-feed 1 {cursor}{format}\n");
            assert_eq!(read(again.as_bytes(), piece).0, Ok(Some(request)));
            // Nothing but digits, their case, and white space at the end is another way to say it.
            let text = str::from_utf8(&bytes[..end]).expect("a request is text");
            let text = text.trim_ascii_end().to_ascii_lowercase();
            assert!(text.starts_with("blockmill-feed 1 ") && text.ends_with(&format));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let piece = 1 + usize::from(first) % 64;
    check(rest, piece);
    // Most of what a fuzzer makes has not the words.
    check(&[b"blockmill-feed 1 ", rest].concat(), piece);
});

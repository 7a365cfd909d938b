//! What a consumer sends to a socket at which feeds are served: one line,
//! `blockmill-feed 1 CURSOR`, and the format after it where it is not the socket's own
//! (`docs/feed.md`).
//!
//! The bytes come from anybody. A [`RequestReader`] keeps few of them, and takes them in pieces of
//! any size.

use crate::feed::Cursor;
use std::str::FromStr;
use thiserror::Error;

/// Most bytes of a request, its line feed included: the words, a hash and a format are shorter.
pub const REQUEST_MAX: usize = 128;

/// What a request begins with: the protocol and its version.
const WORDS: &str = "blockmill-feed 1 ";

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedFormat {
    /// An object of JSON on each line.
    Jsonl,
    /// A stream of Apache Arrow.
    Arrow,
}

impl FeedFormat {
    /// Its name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Arrow => "arrow",
        }
    }
}

/// Some bytes are no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("send one line: {WORDS}HEIGHT|HASH [jsonl|arrow]")]
pub struct NoRequest;

/// Where a consumer's feed is to begin, and how its events are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The block that the consumer has handled last.
    pub cursor: Cursor,
    /// None for the socket's own.
    pub format: Option<FeedFormat>,
}

impl FromStr for Request {
    type Err = NoRequest;

    /// Reads a line. White space at its end counts for nothing.
    fn from_str(line: &str) -> Result<Self, NoRequest> {
        let line = line.trim_ascii_end().strip_prefix(WORDS).ok_or(NoRequest)?;
        let (cursor, format) = match line.split_once(' ') {
            None => (line, None),
            Some((cursor, "jsonl")) => (cursor, Some(FeedFormat::Jsonl)),
            Some((cursor, "arrow")) => (cursor, Some(FeedFormat::Arrow)),
            Some(_) => return Err(NoRequest),
        };
        let cursor = cursor.parse().map_err(|_| NoRequest)?;
        Ok(Self { cursor, format })
    }
}

/// Reads a request as its bytes come.
#[derive(Debug, Default)]
pub struct RequestReader {
    line: Vec<u8>,
}

impl RequestReader {
    /// Takes in some bytes. Returns the request once its line is complete; what comes after that is
    /// left out.
    ///
    /// # Errors
    /// [`NoRequest`] as soon as the bytes are none.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Request>, NoRequest> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        // The line feed counts, also one that has not come yet.
        if self.line.len() + bytes.len() >= REQUEST_MAX {
            return Err(NoRequest);
        }
        self.line.extend_from_slice(bytes);
        if end.is_none() {
            return Ok(None);
        }
        let line = str::from_utf8(&self.line).map_err(|_| NoRequest)?;
        line.parse().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of bytes, whatever the pieces that they come in.
    fn read(bytes: &[u8]) -> Result<Option<Request>, NoRequest> {
        let whole = RequestReader::default().take(bytes);
        for piece in [1, 2, 7, 60] {
            let mut reader = RequestReader::default();
            let mut pieces = bytes.chunks(piece).map(|piece| reader.take(piece));
            let outcome = pieces.find(|outcome| *outcome != Ok(None)).unwrap_or(Ok(None));
            assert_eq!(outcome, whole, "pieces of {piece} bytes");
        }
        whole
    }

    #[test]
    fn requests_are_read() {
        let hash = "ab".repeat(32);
        let height = Cursor::Height(7);
        let block = Cursor::Block(hash.parse().unwrap());
        let (jsonl, arrow) = (Some(FeedFormat::Jsonl), Some(FeedFormat::Arrow));
        for (text, cursor, format) in [
            ("blockmill-feed 1 7\n".to_owned(), height, None),
            ("blockmill-feed 1 7\r\n".to_owned(), height, None),
            ("blockmill-feed 1 7 jsonl\n".to_owned(), height, jsonl),
            ("blockmill-feed 1 7 arrow \t\r\nmore".to_owned(), height, arrow),
            (format!("blockmill-feed 1 {hash}\n"), block, None),
            (format!("blockmill-feed 1 {hash} arrow\n"), block, arrow),
            (
                "blockmill-feed 1 4294967295\n".to_owned(),
                Cursor::Height(u32::MAX),
                None,
            ),
        ] {
            assert_eq!(read(text.as_bytes()), Ok(Some(Request { cursor, format })), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_once_it_is_seen() {
        let hash = "ab".repeat(32);
        for text in [
            "\n".to_owned(),
            "GET / HTTP/1.1\r\n".to_owned(),
            "blockmill-feed 2 7\n".to_owned(),
            "blockmill-feed 1\n".to_owned(),
            "blockmill-feed 1 \n".to_owned(),
            "blockmill-feed 1 -1\n".to_owned(),
            "blockmill-feed 1 +1\n".to_owned(),
            "blockmill-feed 1 4294967296\n".to_owned(),
            "blockmill-feed 1  7\n".to_owned(),
            "blockmill-feed 1 7 xml\n".to_owned(),
            "blockmill-feed 1 7 arrow jsonl\n".to_owned(),
            " blockmill-feed 1 7\n".to_owned(),
            format!("blockmill-feed 1 {hash}00\n"),
            format!("blockmill-feed 1 {}\n", &hash[2..]),
            "x".repeat(REQUEST_MAX),
            format!("blockmill-feed 1 7{}\n", " ".repeat(REQUEST_MAX)),
        ] {
            assert_eq!(read(text.as_bytes()), Err(NoRequest), "{text:?}");
        }
        assert_eq!(read(b"blockmill-feed 1 \xff\n"), Err(NoRequest));
        // Whoever sends more may still send a request.
        assert_eq!(read(&b"x".repeat(REQUEST_MAX - 1)), Ok(None));
        assert_eq!(read(b""), Ok(None));
    }
}

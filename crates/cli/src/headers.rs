//! Headers of blocks whose files are not at hand: from a file, or from the REST interface of a
//! node.

use crate::commands::or_standard_input;
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::progress::Meter;
use blockmill_block::{BlockHash, Header, hex};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Headers of an answer at most, as Bitcoin Core has it.
const HEADERS_TOGETHER: usize = 2000;

/// Seconds that an answer may take.
const TIMEOUT: u64 = 60;

/// Headers from `source`: the URL of a node, or a file of headers one after the other, in hex or
/// not. None if `stop` was set.
pub(crate) fn read(
    source: &str,
    genesis: &BlockHash,
    stop: &AtomicBool,
    meter: &mut Meter,
) -> Result<Option<Vec<Header>>, Failure> {
    match source.starts_with("http://") {
        true => of_node(source, genesis, stop, meter),
        false => of_file(Path::new(source)).map(Some),
    }
}

fn of_file(path: &Path) -> Result<Vec<Header>, Failure> {
    let mut bytes = std::fs::read(or_standard_input(path)).map_err(Failure::file(path))?;
    let is_hex = bytes
        .iter()
        .all(|byte| byte.is_ascii_hexdigit() || byte.is_ascii_whitespace());
    if is_hex {
        let digits: String = bytes
            .iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(|&byte| char::from(byte))
            .collect();
        bytes = hex::decode(&digits).map_err(|error| Failure::Corrupt(format!("{}: {error}", path.display())))?;
    }
    headers(&bytes).ok_or_else(|| {
        let (bytes, header) = (bytes.len(), Header::LENGTH);
        let path = path.display();
        Failure::Corrupt(format!("{path}: {bytes} bytes are no headers of {header} bytes each"))
    })
}

/// Headers one after the other, and nothing else.
fn headers(bytes: &[u8]) -> Option<Vec<Header>> {
    let (headers, rest) = bytes.as_chunks();
    rest.is_empty()
        .then(|| headers.iter().map(Header::from_bytes).collect())
}

/// The headers of a node's active chain.
fn of_node(
    url: &str,
    genesis: &BlockHash,
    stop: &AtomicBool,
    meter: &mut Meter,
) -> Result<Option<Vec<Header>>, Failure> {
    let url = url.trim_end_matches('/');
    let mut all: Vec<Header> = Vec::new();
    let mut last = *genesis;
    doing::set(Doing::Something("asking a node for headers"));
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Every version of Bitcoin Core knows this form of the path.
        let url = format!("{url}/rest/headers/{HEADERS_TOGETHER}/{last}.bin");
        let failed = |why: String| Failure::Corrupt(format!("{url}: {why}"));
        let answer = minreq::get(&url)
            .with_timeout(TIMEOUT)
            .send()
            .map_err(|error| failed(error.to_string()))?;
        if answer.status_code != 200 {
            let said = answer.as_str().unwrap_or_default().trim();
            let rest_is_off = answer.status_code == 404 && all.is_empty();
            let advice = if rest_is_off { "; the node needs -rest=1" } else { "" };
            return Err(failed(format!("status {}: {said}{advice}", answer.status_code)));
        }
        let Some(more) = headers(answer.as_bytes()) else {
            return Err(failed("the answer is not made of headers".to_owned()));
        };
        // The first one was asked for by its hash.
        match more.first().map(Header::hash) {
            Some(hash) if hash == last => {}
            None if !all.is_empty() => return Err(failed("the node has left this block for another chain".to_owned())),
            _ => {
                return Err(failed(
                    "the node has another chain: is it of another network?".to_owned(),
                ));
            }
        }
        let is_end = more.len() < HEADERS_TOGETHER;
        all.extend(more.into_iter().skip(usize::from(!all.is_empty())));
        last = all.last().map_or(last, Header::hash);
        if meter.is_due() {
            let text = format!("{} headers from the node", all.len());
            meter.show(0, 0, text, "headers", json!({"headers": all.len()}));
        }
        if is_end {
            return Ok(Some(all));
        }
    }
}

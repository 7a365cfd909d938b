//! Headers of blocks whose files are not at hand: from a file, or from the REST interface of a
//! node.
//!
//! Neither is trusted. A file has no more headers than a chain can have by now. What a node answers
//! is checked as it comes, header by header, and the first one that breaks a rule ends it.

use crate::arguments::or_standard_input;
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::plain;
use crate::progress::EngineMeter;
use blockmill_block::{BlockHash, Header, hex};
use blockmill_blockfiles::Input;
use blockmill_rules::header::{Ancestor, Ancestry, HeaderContext, MEDIAN_TIME_SPAN, check_header, median_time};
use blockmill_rules::{Params, Reject};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Headers of an answer at most, as Bitcoin Core has it.
const HEADERS_TOGETHER: usize = 2000;

/// Headers of a node that are given on together: 5 MB.
const HEADERS_KEPT: usize = 1 << 16;

/// Seconds that an answer may take.
const TIMEOUT: u64 = 60;

/// Bytes of what a node says beside a status that is none of success.
const WORDS_MAX: u64 = 200;

/// Headers that a chain may have beyond what its age allows.
const HEADERS_SPARE: u64 = 100_000;

/// Takes headers. A node's come in order, each after its parent.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Vec<Header>, &mut EngineMeter) -> Result<(), Failure>;

/// Gives headers from `source` to `take`: from the URL of a node, some at a time; or from a file of
/// headers one after the other, in hex or not, all at once. False if `stop` was set.
pub(crate) fn read(
    source: &str,
    params: &Params,
    stop: &Arc<AtomicBool>,
    meter: &mut EngineMeter,
    take: Take<'_>,
) -> Result<bool, Failure> {
    if source.starts_with("http://") {
        return of_node(source, params, stop, meter, take);
    }
    doing::set(Doing::Something("reading headers"));
    match of_file(Path::new(source), headers_max(params), stop)? {
        Some(headers) => {
            take(headers, meter)?;
            Ok(true)
        }
        None => Ok(false),
    }
}

/// Seconds since 1970.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Most headers that a chain of this network can have by now. Real chains are a little ahead of
/// their spacing, and several times where late blocks may have the highest target.
fn headers_max(params: &Params) -> u64 {
    let age = clock()
        .saturating_sub(params.genesis.time.into())
        .max(0)
        .cast_unsigned();
    let ahead = match (params.no_retargeting, params.allow_min_difficulty_blocks) {
        (true, _) => 1,
        (false, true) => 10,
        (false, false) => 2,
    };
    age / params.pow_target_spacing.max(1).cast_unsigned() * ahead + HEADERS_SPARE
}

fn too_many(source: &str, most: u64) -> Failure {
    Failure::Corrupt(format!(
        "{source}: more than {most} headers, which no chain of this network can have by now"
    ))
}

/// The headers of a file or a pipe. None if `stop` was set.
fn of_file(path: &Path, most: u64, stop: &Arc<AtomicBool>) -> Result<Option<Vec<Header>>, Failure> {
    let input = Input::open(or_standard_input(path), Arc::clone(stop))?;
    match headers_in(BufReader::new(input), path, most) {
        Err(Failure::File { error, .. }) if Input::is_stop(&error) => Ok(None),
        read => read.map(Some),
    }
}

fn headers_in(mut input: impl BufRead, path: &Path, most: u64) -> Result<Vec<Header>, Failure> {
    let mut begin = Vec::new();
    let read = input.by_ref().take(Header::LENGTH as u64).read_to_end(&mut begin);
    read.map_err(Failure::file(path))?;
    // Hardly a header is made of digits alone: the hash of its parent ends with zeros.
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    let is_hex = begin.iter().all(|&byte| byte.is_ascii_hexdigit() || is_space(byte));
    let decode = |bytes: &[u8]| match is_hex {
        true => hex::decode(&String::from_utf8_lossy(bytes))
            .map_err(|error| Failure::Corrupt(format!("{}: {error}", path.display()))),
        false => Ok(bytes.to_vec()),
    };
    let length = if is_hex { 2 * Header::LENGTH } else { Header::LENGTH };
    let mut headers = Vec::new();
    let mut bytes = Vec::with_capacity(length);
    // White space ends some time, too: there may be some after each byte and each header.
    let mut spaces_left = most.saturating_mul(Header::LENGTH as u64 + 8);
    for byte in (&begin[..]).chain(input).bytes() {
        let byte = byte.map_err(Failure::file(path))?;
        if is_hex && is_space(byte) {
            spaces_left = spaces_left
                .checked_sub(1)
                .ok_or_else(|| too_many(&path.display().to_string(), most))?;
            continue;
        }
        bytes.push(byte);
        if bytes.len() < length {
            continue;
        }
        if headers.len() as u64 == most {
            return Err(too_many(&path.display().to_string(), most));
        }
        if let Some(header) = decode(&bytes)?.first_chunk() {
            headers.push(Header::from_bytes(header));
        }
        bytes.clear();
    }
    match decode(&bytes)?.len() {
        0 => Ok(headers),
        rest => {
            let (bytes, header) = (headers.len() * Header::LENGTH + rest, Header::LENGTH);
            let path = path.display();
            Err(Failure::Corrupt(format!(
                "{path}: {bytes} bytes are no headers of {header} bytes each"
            )))
        }
    }
}

/// The headers of a node so far, as far as the next one is checked by them.
struct HeaderChain<'a> {
    params: &'a Params,
    /// Hash of the last header.
    last: BlockHash,
    /// Time and bits of each header, the first block's included.
    headers: Vec<(u32, u32)>,
}

impl<'a> HeaderChain<'a> {
    fn new(params: &'a Params) -> Self {
        let genesis = &params.genesis;
        Self {
            params,
            last: genesis.hash(),
            headers: vec![(genesis.time, genesis.bits)],
        }
    }

    fn height(&self) -> u32 {
        (self.headers.len() - 1) as u32
    }

    /// Adds the next header, if it builds on the last one and keeps all rules of headers.
    fn push(&mut self, header: &Header, now: i64) -> Result<(), Reject> {
        if header.prev_block_hash != self.last {
            return Err(Reject::header("prev-blk-not-found"));
        }
        let hash = header.hash();
        check_header(&HeaderContext::after(&*self, self.params, header, hash, now))?;
        self.last = hash;
        self.headers.push((header.time, header.bits));
        Ok(())
    }
}

impl Ancestry for HeaderChain<'_> {
    fn parent(&self) -> Ancestor {
        self.at_height(self.height())
    }

    fn median_time_past(&self) -> u32 {
        let first = self.headers.len().saturating_sub(MEDIAN_TIME_SPAN);
        let mut times: Vec<u32> = self.headers[first..].iter().map(|&(time, _)| time).collect();
        median_time(&mut times)
    }

    fn at_height(&self, height: u32) -> Ancestor {
        let (time, bits) = self.headers[height as usize];
        Ancestor { height, time, bits }
    }

    fn find_back(&self, wanted: &mut dyn FnMut(&Ancestor) -> bool) -> Ancestor {
        let ancestors = (0..=self.height()).rev().map(|height| self.at_height(height));
        ancestors
            .take_while(|ancestor| ancestor.height > 0)
            .find(|ancestor| wanted(ancestor))
            .unwrap_or(self.at_height(0))
    }
}

/// The answer of a node that is asked for the headers from a block on: no more bytes than it may
/// have.
fn ask(url: &str, is_first: bool) -> Result<Vec<u8>, String> {
    let mut answer = minreq::get(url)
        .with_timeout(TIMEOUT)
        .send_lazy()
        .map_err(|error| plain::said(&error.to_string()))?;
    let status = answer.status_code;
    let most = match status {
        // One byte more shows that an answer is too long.
        200 => (HEADERS_TOGETHER * Header::LENGTH) as u64 + 1,
        _ => WORDS_MAX,
    };
    let mut bytes = Vec::new();
    let read = answer.by_ref().take(most).read_to_end(&mut bytes);
    if status != 200 {
        let said = String::from_utf8_lossy(&bytes);
        // Later on, 404 means that the node has left the block.
        let rest_is_off = status == 404 && is_first;
        let advice = if rest_is_off { "; the node needs -rest=1" } else { "" };
        return Err(format!("status {status}: {}{advice}", plain::said(&said)));
    }
    read.map_err(|error| plain::said(&error.to_string()))?;
    Ok(bytes)
}

const ASKING: Doing = Doing::Something("asking a node for headers");

/// The headers of a node's active chain.
fn of_node(
    url: &str,
    params: &Params,
    stop: &AtomicBool,
    meter: &mut EngineMeter,
    take: Take<'_>,
) -> Result<bool, Failure> {
    let (url, most) = (url.trim_end_matches('/'), headers_max(params));
    // Messages do not repeat a password.
    let shown = match url.rsplit_once('@') {
        Some((_, host)) => format!("http://{host}"),
        None => url.to_owned(),
    };
    let mut chain = HeaderChain::new(params);
    let mut kept: Vec<Header> = Vec::new();
    doing::set(ASKING);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // Every version of Bitcoin Core knows this form of the path.
        let path = format!("/rest/headers/{HEADERS_TOGETHER}/{}.bin", chain.last);
        let failed = |why: String| Failure::Corrupt(format!("{shown}{path}: {why}"));
        let is_first = chain.height() == 0;
        let bytes = ask(&format!("{url}{path}"), is_first).map_err(failed)?;
        let (headers, rest) = bytes.as_chunks();
        if !rest.is_empty() || headers.len() > HEADERS_TOGETHER {
            return Err(failed("the answer is not made of headers".to_owned()));
        }
        let mut headers = headers.iter().map(Header::from_bytes);
        let count = headers.len();
        // The first one was asked for by its hash.
        match headers.next().map(|header| header.hash()) {
            Some(hash) if hash == chain.last => {}
            None if !is_first => return Err(failed("the node has left this block for another chain".to_owned())),
            _ => {
                return Err(failed(
                    "the node has another chain: is it of another network?".to_owned(),
                ));
            }
        }
        let now = clock();
        for header in headers {
            chain.push(&header, now).map_err(|reject| {
                let (hash, height) = (header.hash(), chain.height() + 1);
                failed(format!("header {hash} (height {height}): {reject}"))
            })?;
            kept.push(header);
        }
        // A node on another chain could go on for ever.
        if u64::from(chain.height()) > most {
            return Err(too_many(&shown, most));
        }
        // After a full answer there may be more.
        let is_end = count < HEADERS_TOGETHER;
        if is_end || kept.len() >= HEADERS_KEPT {
            take(std::mem::take(&mut kept), meter)?;
        }
        meter.meter.show(ASKING, "headers", || {
            let text = format!("{} headers from the node", chain.height());
            (text, json!({"headers": chain.height()}))
        });
        if is_end {
            return Ok(true);
        }
    }
}

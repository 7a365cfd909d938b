//! Values of arguments.

use blockmill_block::{BlockHash, Network, hex};
use blockmill_chain::Signatures;
use blockmill_coins::stats::Hashes;
use blockmill_tables::product::ProductKind;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Bytes given in hex. Clap would read a plain `Vec` as an option that may be repeated.
#[derive(Debug, Clone)]
pub(crate) struct HexBytes(pub(crate) Vec<u8>);

/// A block hash, or 0 for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssumeValid(pub(crate) Option<BlockHash>);

/// The names of networks, and those that Bitcoin Core has for them.
pub(super) fn network() -> impl TypedValueParser<Value = Network> {
    let names = Network::ALL.map(|network| {
        let value = PossibleValue::new(network.name());
        match network {
            Network::Bitcoin => value.aliases(["main", "mainnet"]),
            Network::Testnet3 => value.aliases(["test", "testnet"]),
            _ => value,
        }
    });
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Network>())
}

/// One of some words, each with its help.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let values = words.map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(values).try_map(move |given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.map(|(.., value)| *value).ok_or("it is none of the words")
    })
}

/// The hashes of a set.
pub(super) fn hashes() -> impl TypedValueParser<Value = Hashes> {
    one_of([
        ("none", "No hash: the figures alone", Hashes::Neither),
        ("serialized", "hash_serialized_3", Hashes::Serialized),
        ("muhash", "MuHash", Hashes::MuHash),
        ("both", "Both", Hashes::Both),
    ])
}

/// How signatures are verified.
pub(super) fn signatures() -> impl TypedValueParser<Value = Signatures> {
    const AUTO: &str = "In lanes for blocks with over two weeks of work above them, else one by one";
    one_of([
        ("auto", AUTO, Signatures::Auto),
        ("one-by-one", "By libsecp256k1 alone", Signatures::OneByOne),
        ("lanes", "In lanes for all blocks", Signatures::Lanes),
    ])
}

/// The names of flat tables of blocks.
pub(super) fn table() -> impl TypedValueParser<Value = ProductKind> {
    let names = ProductKind::ALL.iter().map(|kind| kind.table().name);
    PossibleValuesParser::new(names).try_map(|name| ProductKind::of_name(&name).ok_or("no table has this name"))
}

pub(super) fn parse_hex(text: &str) -> Result<HexBytes, String> {
    hex::decode(text).map(HexBytes).map_err(|error| error.to_string())
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a number of threads from 1 to 1024".to_owned()),
    }
}

/// A number of MiB, or of what a unit names: K, M, G or T, with iB after it or not.
pub(super) fn parse_mebibytes(text: &str) -> Result<u32, String> {
    // Letters at the end are a unit. A point among the digits is no digit.
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        // A lone B or iB is no unit.
        "" if unit.is_empty() => Some(20),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    match bytes.map(|bytes| u32::try_from(bytes >> 20)) {
        Some(Ok(mebibytes)) if mebibytes > 0 => Ok(mebibytes),
        _ => Err("expected at least 1 MiB, as in 450, 900M or 4GiB".to_owned()),
    }
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 60".to_owned()),
    }
}

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        // A port alone is open to this machine alone.
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => match text.to_socket_addrs().map(|mut found| found.next()) {
            Ok(Some(address)) => Ok(address),
            _ => Err("expected an address such as localhost:9332, or a port".to_owned()),
        },
    }
}

pub(super) fn parse_assume_valid(text: &str) -> Result<AssumeValid, String> {
    if text == "0" {
        return Ok(AssumeValid(None));
    }
    let hash = text.parse().map_err(|error| format!("{error}"))?;
    Ok(AssumeValid(Some(hash)))
}

/// Where consumers connect.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

pub(super) fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("unix: is followed by the path of a socket".to_owned()),
        Some(path) => Ok(Endpoint::Unix(path.into())),
        None => parse_address(text).map(Endpoint::Tcp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, mebibytes) in [
            ("1", 1),
            ("450", 450),
            ("900M", 900),
            ("900MiB", 900),
            ("4g", 4_096),
            ("4GB", 4_096),
            ("2048k", 2),
            ("1T", 1 << 20),
        ] {
            assert_eq!(parse_mebibytes(text), Ok(mebibytes), "{text}");
        }
        for text in [
            "",
            "0",
            "M",
            "-1",
            "1.5G",
            "1023k",
            "5X",
            "5iB",
            "b",
            "4 G",
            "99999999T",
            "5\u{e9}",
        ] {
            assert!(parse_mebibytes(text).is_err(), "{text}");
        }
    }
}

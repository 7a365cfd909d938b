//! What a locking script is called, and its address, as Bitcoin Core says it.

#[cfg(feature = "descriptors")]
pub use crate::addresses::address;
#[cfg(not(feature = "descriptors"))]
use blockmill_block::Network;

/// Scripts have no addresses in a build without them.
#[cfg(not(feature = "descriptors"))]
pub fn address(_: &[u8], _: Network) -> Option<String> {
    None
}

/// What a locking script is, by Core's `Solver`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptKind<'s> {
    /// None of the others.
    NonStandard,
    /// Pay to anchor.
    Anchor,
    /// The key.
    PubKey(&'s [u8]),
    /// Pay to the hash of a key.
    PubKeyHash,
    /// Pay to the hash of a script (BIP 16).
    ScriptHash,
    /// The number of signatures, and the keys.
    MultiSig(u8, Vec<&'s [u8]>),
    /// Data, which nobody can spend.
    NullData,
    /// Pay to the hash of a key, by a witness (BIP 141).
    WitnessV0KeyHash,
    /// Pay to the hash of a script, by a witness (BIP 141).
    WitnessV0ScriptHash,
    /// The x-only key, which may be none.
    WitnessV1Taproot(&'s [u8]),
    /// A witness program of another version.
    WitnessUnknown,
}

impl<'s> ScriptKind<'s> {
    /// The kind of a script.
    pub fn of(script: &'s [u8]) -> Self {
        if let [HASH160, 20, hash @ .., EQUAL] = script
            && hash.len() == 20
        {
            return Self::ScriptHash;
        }
        if let Some((version, program)) = witness_program(script) {
            return match (version, program) {
                (0, program) if program.len() == 20 => Self::WitnessV0KeyHash,
                (0, program) if program.len() == 32 => Self::WitnessV0ScriptHash,
                // BIP 141 gives programs of version 0 two lengths.
                (0, _) => Self::NonStandard,
                (1, program) if program.len() == 32 => Self::WitnessV1Taproot(program),
                // The one program of pay-to-anchor outputs.
                (1, [0x4e, 0x73]) => Self::Anchor,
                _ => Self::WitnessUnknown,
            };
        }
        match script {
            [RETURN, data @ ..] if is_push_only(data) => Self::NullData,
            [length, key @ .., CHECKSIG] if usize::from(*length) == key.len() && is_key(key) => Self::PubKey(key),
            [DUP, HASH160, 20, hash @ .., EQUALVERIFY, CHECKSIG] if hash.len() == 20 => Self::PubKeyHash,
            _ => multisig(script).map_or(Self::NonStandard, |(required, keys)| Self::MultiSig(required, keys)),
        }
    }

    /// Core's word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NonStandard => "nonstandard",
            Self::Anchor => "anchor",
            Self::PubKey(_) => "pubkey",
            Self::PubKeyHash => "pubkeyhash",
            Self::ScriptHash => "scripthash",
            Self::MultiSig(..) => "multisig",
            Self::NullData => "nulldata",
            Self::WitnessV0KeyHash => "witness_v0_keyhash",
            Self::WitnessV0ScriptHash => "witness_v0_scripthash",
            Self::WitnessV1Taproot(_) => "witness_v1_taproot",
            Self::WitnessUnknown => "witness_unknown",
        }
    }
}

const PUSHDATA1: u8 = 0x4c;
const PUSHDATA4: u8 = 0x4e;
const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const RETURN: u8 = 0x6a;
const DUP: u8 = 0x76;
const EQUAL: u8 = 0x87;
const EQUALVERIFY: u8 = 0x88;
const HASH160: u8 = 0xa9;
const CHECKSIG: u8 = 0xac;
const CHECKMULTISIG: u8 = 0xae;

/// Keys of a multisig script, at most.
const KEYS_MAX: u8 = 20;

/// The version and the program of a witness program.
fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let (&[version, length], program) = script.split_first_chunk()?;
    let version = match version {
        0 => 0,
        OP_1..=OP_16 => version - (OP_1 - 1),
        _ => return None,
    };
    ((2..=40).contains(&length) && usize::from(length) == program.len()).then_some((version, program))
}

/// Takes an operation off a script: its code, and the data that it pushes. None at the end, and
/// where the data is cut off.
fn take_operation<'s>(script: &mut &'s [u8]) -> Option<(u8, &'s [u8])> {
    let (&code, rest) = script.split_first()?;
    let bytes_of_length = match code {
        // One, two or four bytes.
        PUSHDATA1..=PUSHDATA4 => 1 << (code - PUSHDATA1),
        _ => 0,
    };
    let (length, rest) = rest.split_at_checked(bytes_of_length)?;
    let length = match code {
        ..PUSHDATA1 => usize::from(code),
        PUSHDATA1..=PUSHDATA4 => length.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
        _ => 0,
    };
    let (data, rest) = rest.split_at_checked(length)?;
    *script = rest;
    Some((code, data))
}

fn is_push_only(mut script: &[u8]) -> bool {
    while !script.is_empty() {
        match take_operation(&mut script) {
            // As in Core, OP_RESERVED counts as a push.
            Some((..=OP_16, _)) => {}
            _ => return false,
        }
    }
    true
}

/// Whether these bytes have the length of a key with their first byte.
fn is_key(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(2 | 3) => bytes.len() == 33,
        // Core takes hybrid keys, too: 6 and 7 have the sign of the coordinate.
        Some(4 | 6 | 7) => bytes.len() == 65,
        _ => false,
    }
}

/// The number that an operation pushes in its shortest form, from 1 to 20.
fn small_number(code: u8, data: &[u8]) -> Option<u8> {
    let number = match (code, data) {
        (OP_1..=OP_16, _) => code - (OP_1 - 1),
        // Smaller numbers have operations of their own.
        (1, &[number]) if number > 16 => number,
        _ => return None,
    };
    (number <= KEYS_MAX).then_some(number)
}

fn multisig(script: &[u8]) -> Option<(u8, Vec<&[u8]>)> {
    let (&CHECKMULTISIG, mut rest) = script.split_last()? else {
        return None;
    };
    let (code, data) = take_operation(&mut rest)?;
    let required = small_number(code, data)?;
    let mut keys = Vec::new();
    loop {
        let (code, data) = take_operation(&mut rest)?;
        if is_key(data) {
            keys.push(data);
            continue;
        }
        let count = small_number(code, data)?;
        let fits = usize::from(count) == keys.len() && count >= required && rest.is_empty();
        return fits.then_some((required, keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::{Network, hex};

    #[track_caller]
    fn check(script: &str, network: Network, expected: Option<&str>) {
        let script = hex::decode(script).unwrap();
        assert_eq!(address(&script, network).as_deref(), expected);
    }

    /// Those of BIP 173, BIP 350 and of well-known coins.
    #[test]
    fn scripts_with_an_address() {
        let witness = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
        for (network, expected) in [
            (Network::Bitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
            (Network::Testnet3, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Testnet4, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Signet, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Regtest, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
        ] {
            check(witness, network, Some(expected));
        }
        for (script, expected) in [
            (
                "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            ),
            (
                "a914f815b036d9bbbce5e9f2a00abd1bf3dc91e9551087",
                "3QJmV3qfvL9SuYo34YihAf3sRCW3qSinyC",
            ),
            ("51024e73", "bc1pfeessrawgf"),
            ("6002751e", "bc1sw50qgdz25j"),
        ] {
            check(script, Network::Bitcoin, Some(expected));
        }
    }

    #[test]
    fn scripts_without_an_address() {
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        for script in [
            "",
            "6a",
            "51",
            "0013751e76e8199196d454941c45d1b3a323f1433b",
            &format!("21{key}ac"),
        ] {
            check(script, Network::Bitcoin, None);
        }
    }

    #[track_caller]
    fn check_word(script: &str, expected: &str) {
        assert_eq!(
            ScriptKind::of(&hex::decode(script).unwrap()).word(),
            expected,
            "{script}"
        );
    }

    #[test]
    fn kinds_of_scripts() {
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let long = format!("04{}", "11".repeat(64));
        let hash = "751e76e8199196d454941c45d1b3a323f1433bd6";
        let program = "11".repeat(32);
        for (script, expected) in [
            (String::new(), "nonstandard"),
            ("51".to_owned(), "nonstandard"),
            (format!("21{key}ac"), "pubkey"),
            (format!("41{long}ac"), "pubkey"),
            (format!("4106{}ac", &long[2..]), "pubkey"),
            (format!("2105{}ac", &key[2..]), "nonstandard"),
            (format!("76a914{hash}88ac"), "pubkeyhash"),
            (format!("76a914{hash}88ad"), "nonstandard"),
            (format!("a914{hash}87"), "scripthash"),
            (format!("a914{hash}88"), "nonstandard"),
            (format!("0014{hash}"), "witness_v0_keyhash"),
            (format!("0020{program}"), "witness_v0_scripthash"),
            (format!("0013{}", &hash[2..]), "nonstandard"),
            (format!("5120{program}"), "witness_v1_taproot"),
            (format!("5114{hash}"), "witness_unknown"),
            (format!("6020{program}"), "witness_unknown"),
            (format!("6120{program}"), "nonstandard"),
            ("51024e73".to_owned(), "anchor"),
            ("51024e74".to_owned(), "witness_unknown"),
            ("5101aa".to_owned(), "nonstandard"),
            ("6a".to_owned(), "nulldata"),
            ("6a04deadbeef".to_owned(), "nulldata"),
            ("6a4c04deadbeef".to_owned(), "nulldata"),
            ("6a04deadbe".to_owned(), "nonstandard"),
            ("6a61".to_owned(), "nonstandard"),
            (format!("5121{key}51ae"), "multisig"),
            (format!("5121{key}41{long}52ae"), "multisig"),
            (format!("5321{key}41{long}52ae"), "nonstandard"),
            (format!("5121{key}52ae"), "nonstandard"),
            (format!("51{}0111ae", format!("21{key}").repeat(17)), "multisig"),
            (format!("51{}0110ae", format!("21{key}").repeat(16)), "nonstandard"),
            (format!("51{}0115ae", format!("21{key}").repeat(21)), "nonstandard"),
            (format!("0021{key}51ae"), "nonstandard"),
            (format!("5121{key}51aeae"), "nonstandard"),
        ] {
            check_word(&script, expected);
        }
        let script = hex::decode(&format!("5121{key}51ae")).unwrap();
        let kind = ScriptKind::of(&script);
        assert_eq!(kind, ScriptKind::MultiSig(1, vec![&script[2..35]]));
    }
}

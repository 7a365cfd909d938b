//! Addresses, and what is wrong with a text that is nearly one.

use bitcoin::params::{MAINNET, Params, REGTEST, SIGNET, TESTNET3, TESTNET4};
use bitcoin::{Address, Script, ScriptBuf, base58};
use blockmill_block::Network;

/// What tells the addresses of networks apart.
fn params(network: Network) -> &'static Params {
    match network {
        Network::Bitcoin => &MAINNET,
        Network::Testnet3 => &TESTNET3,
        Network::Testnet4 => &TESTNET4,
        Network::Signet => &SIGNET,
        Network::Regtest => &REGTEST,
    }
}

/// The address of a script, if it has one.
pub fn address(script_pubkey: &[u8], network: Network) -> Option<String> {
    let script = Script::from_bytes(script_pubkey);
    let address = Address::from_script(script, params(network)).ok()?;
    Some(address.to_string())
}

/// The script that an address of this network stands for.
pub(crate) fn script_of(text: &str, network: Network) -> Result<ScriptBuf, String> {
    // Decoding base58 takes time by the square of the length.
    if text.len() > LENGTH_MAX {
        return Err(NONE.to_owned());
    }
    let address: Address<_> = text.parse().map_err(|_| why_none(text))?;
    let script = address.assume_checked().script_pubkey();
    // What the script's address is on this network, since signet's addresses are testnet's.
    let own = Address::from_script(&script, params(network)).map(|own| own.to_string());
    match own.ok().is_some_and(|own| own.eq_ignore_ascii_case(text)) {
        true => Ok(script),
        false => Err(format!("not an address of the network {}", network.name())),
    }
}

/// Whether what base58 stands for has the length and the version of an address, and a checksum.
fn is_old_address(bytes: &[u8]) -> bool {
    // Hashes of keys and of scripts, on the main network and on the others.
    bytes.len() == 25 && [0, 5, 111, 196].contains(&bytes[0])
}

/// Characters of an address at most, by BIP 173, with some typed twice.
const LENGTH_MAX: usize = 100;

/// What is said of a text that is nothing like an address. It may be a key.
const NONE: &str = "neither an address nor a descriptor nor raw:HEX";

/// What the characters of a bech32 address stand for.
const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// What addresses of Bitcoin's networks begin with, before the 1.
const PREFIXES: [&str; 3] = ["bc", "tb", "bcrt"];

/// Characters of a bech32 checksum.
const CHECKSUM: usize = 6;

/// What the remainder of a good address is: that of BIP 173, and that of BIP 350.
const REMAINDERS: [u32; 2] = [1, 0x2bc8_30a3];

/// Why a text is no address.
fn why_none(text: &str) -> String {
    // The 1 at the end of the prefix is the first one: another is a typing error.
    if let Some((prefix, data)) = text.split_once('1')
        && PREFIXES.iter().any(|known| known.eq_ignore_ascii_case(prefix))
    {
        return why_no_bech32(text, prefix, data);
    }
    match base58::decode(text) {
        Ok(bytes) if is_old_address(&bytes) => {
            "an address whose checksum is wrong: a character of it is not the right one".to_owned()
        }
        _ => NONE.to_owned(),
    }
}

fn why_no_bech32(text: &str, prefix: &str, data: &str) -> String {
    let has = |kind: fn(&char) -> bool| text.chars().any(|character| kind(&character));
    if has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) {
        return "an address in capitals and small letters: it has the one or the other".to_owned();
    }
    // Positions count from 1, over the whole address.
    let position = |at: usize| prefix.len() + 2 + at;
    let lower = data.to_ascii_lowercase();
    let mut digits = Vec::new();
    for (at, character) in lower.chars().enumerate() {
        let Some(digit) = DIGITS.iter().position(|known| char::from(*known) == character) else {
            let at = position(at);
            return format!("an address with a character that no address has: {character:?}, number {at} of it");
        };
        digits.push(digit as u8);
    }
    if digits.len() <= CHECKSUM {
        return "an address that is cut off".to_owned();
    }
    let start = remainder_of_prefix(&prefix.to_ascii_lowercase());
    if REMAINDERS.contains(&remainder(start, &digits)) {
        return "an address whose checksum is right, of a kind that does not exist".to_owned();
    }
    let wrong = "an address whose checksum is wrong";
    let found = wrong_digits(start, &digits);
    let found: Vec<String> = found.into_iter().map(|at| position(at).to_string()).collect();
    match &found[..] {
        [] => wrong.to_owned(),
        [one] => format!("{wrong}: its character number {one} is likely not the right one"),
        some => format!(
            "{wrong}: its characters number {} are likely not the right ones",
            some.join(" and ")
        ),
    }
}

/// Goes one digit further in the division whose remainder is the checksum.
fn step(remainder: u32, digit: u8) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    // The digit that leaves the remainder: it has six of five bits each.
    let top = remainder >> 25;
    let shifted = (remainder & 0x01ff_ffff) << 5 ^ u32::from(digit);
    let bits = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
    bits.fold(shifted, |sum, (_, term)| sum ^ term)
}

fn remainder(start: u32, digits: &[u8]) -> u32 {
    digits.iter().fold(start, |sum, digit| step(sum, *digit))
}

fn remainder_of_prefix(prefix: &str) -> u32 {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    // As BIP 173 expands it.
    high.chain([0]).chain(low).fold(1, step)
}

/// A change of a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    /// By how much the remainder changes. The checksum is linear: the other digits do not matter.
    remainder: u32,
    at: usize,
    digit: u8,
}

/// The digits whose change makes the checksum right: one, else two. None where there is no saying
/// which.
fn wrong_digits(start: u32, digits: &[u8]) -> Vec<usize> {
    let mut changes: Vec<Change> = Vec::new();
    for at in 0..digits.len() {
        for digit in 1..32 {
            let mut changed = vec![0; digits.len() - at];
            // The digits before it would be 0, and leave a remainder of 0.
            changed[0] = digit;
            let remainder = remainder(0, &changed);
            changes.push(Change { remainder, at, digit });
        }
    }
    // By remainder, so that the second of two changes is looked up.
    changes.sort_unstable();
    let find = |wanted: u32| {
        let found = changes.binary_search_by_key(&wanted, |change| change.remainder).ok()?;
        Some(changes[found])
    };
    // The first digit is the version, and the version says which remainder is the good one.
    let fits = |good: u32, changed: &[Change]| {
        let version = changed.iter().find(|change| change.at == 0);
        let version = digits[0] ^ version.map_or(0, |change| change.digit);
        good == REMAINDERS[usize::from(version != 0)]
    };
    let of = remainder(start, digits);
    let one = REMAINDERS
        .iter()
        .filter_map(|good| Some([find(of ^ good)?]).filter(|change| fits(*good, change)));
    if let Some([one]) = only(one) {
        return vec![one.at];
    }
    let two = REMAINDERS.iter().flat_map(|good| {
        changes.iter().filter_map(move |first| {
            let second = find(of ^ good ^ first.remainder)?;
            Some([*first, second]).filter(|two| first.at < second.at && fits(*good, two))
        })
    });
    only(two).map_or_else(Vec::new, |two| two.iter().map(|change| change.at).collect())
}

/// The item of an iterator that has one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::hex;

    fn addresses() -> Vec<String> {
        let scripts = [
            "0014751e76e8199196d454941c45d1b3a323f1433bd6".to_owned(),
            format!("0020{}", "5a".repeat(32)),
            "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798".to_owned(),
            "6002751e".to_owned(),
        ];
        let address = |script: &String| {
            let script = hex::decode(script).unwrap();
            address(&script, Network::Regtest).unwrap()
        };
        scripts.iter().map(address).collect()
    }

    fn why(text: &str) -> String {
        script_of(text, Network::Regtest).expect_err(text)
    }

    /// The address with another character at a position, which counts from 0.
    fn with_typing_error(address: &str, at: usize) -> String {
        let right = address.as_bytes()[at];
        let wrong = DIGITS.iter().find(|digit| **digit != right).unwrap();
        [&address[..at], &char::from(*wrong).to_string(), &address[at + 1..]].concat()
    }

    #[test]
    fn a_wrong_character_is_named() {
        for address in addresses() {
            assert!(script_of(&address, Network::Regtest).is_ok());
            assert!(script_of(&address.to_uppercase(), Network::Regtest).is_ok());
            for at in "bcrt1".len()..address.len() {
                let wrong = with_typing_error(&address, at);
                let number = at + 1;
                let said = format!("checksum is wrong: its character number {number} is likely not the right one");
                assert!(why(&wrong).contains(&said), "{wrong}: {}", why(&wrong));
                assert_eq!(why(&wrong.to_uppercase()), why(&wrong));
                for typed in ["b", "1"] {
                    let wrong = [&address[..at], typed, &address[at + 1..]].concat();
                    let said = format!("'{typed}', number {number} of it");
                    assert!(why(&wrong).contains(&said), "{wrong}: {}", why(&wrong));
                }
            }
        }
    }

    #[test]
    fn two_wrong_characters_are_named() {
        for address in addresses().iter().take(3) {
            for (first, second) in [(5, 6), (10, 30), (20, address.len() - 1)] {
                let wrong = with_typing_error(&with_typing_error(address, first), second);
                let said = format!("characters number {} and {} are", first + 1, second + 1);
                assert!(why(&wrong).contains(&said), "{wrong}: {}", why(&wrong));
            }
        }
    }

    #[test]
    fn what_is_nearly_an_address_is_told_from_what_is_none() {
        let address = &addresses()[0];
        let mixed = address.replacen("bcrt1q", "bcrt1Q", 1);
        for (text, said) in [
            (&address[..address.len() - 1], "checksum is wrong"),
            (&address[..8], "cut off"),
            (&mixed, "capitals and small letters"),
            ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "checksum is wrong"),
            (
                "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
                "not an address of the network regtest",
            ),
            ("", "neither an address"),
            ("what", "neither an address"),
            ("bcrt1", "cut off"),
            ("1", "neither an address"),
            (&format!("bcrt1q{}", "q".repeat(95)), "neither an address"),
            ("\u{e9}1\u{e9}", "neither an address"),
            // The checksum of the other kind.
            (
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
                "of a kind that does not exist",
            ),
            (
                "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA",
                "neither an address",
            ),
        ] {
            assert!(why(text).contains(said), "{text}: {}", why(text));
        }
    }
}

//! Private keys are kept out of everything that is written.
//!
//! - [`shape`] is for texts that a user typed as an address or descriptor: every long word goes
//!   that is not known to be public. So a key with a typing error in it goes, too.
//! - [`target_without_keys`] is for such texts, where they were understood.
//! - [`without_keys`] is for all other lines. Hashes and names of files stay there, so only words
//!   go that have the form of a private key.

#[cfg(feature = "descriptors")]
use crate::addresses::{is_address, is_private_key, is_public_key};
use std::borrow::Cow;

/// What stands instead of a word.
pub const HIDDEN: &str = "***";

/// The longest word that is no key: names of functions, fingerprints and checksums are shorter.
const SHORT: usize = 12;

/// Characters that end a word, besides white space and control characters.
const ENDS: &str = "()[]{}<>,;:/*'\"#=-_.";

/// Groups that a key is written in, at least.
const GROUPS_MIN: usize = 4;

/// Characters of all of them together, at least.
const GROUPED_MIN: usize = 30;

/// Characters of an extended private key that give it away. Its first ones are the same for all.
const EXTENDED_MIN: usize = 12;

/// Lengths of a private key in Bitcoin Core's wallet import format, with a typing error or two.
const WIF_LENGTHS: std::ops::RangeInclusive<usize> = 49..=54;

/// Lengths of a private key in Bitcoin Core's wallet import format.
const WIF_LENGTHS_RIGHT: [usize; 2] = [51, 52];

/// What such a key begins with.
const WIF_BEGINNINGS: [char; 5] = ['5', 'K', 'L', '9', 'c'];

/// Characters of an extended public key at most, the longest that is public.
const PUBLIC_MAX: usize = 130;

/// Characters of witness addresses after the prefix and its 1: of a key's hash, and of a script's
/// hash or a taproot key.
const WITNESS_LENGTHS: [usize; 2] = [39, 59];

fn is_end(character: char) -> bool {
    character.is_whitespace() || character.is_control() || ENDS.contains(character)
}

/// A text with its words mapped.
fn mapped(text: &str, mut is_hidden: impl FnMut(&str) -> bool) -> Cow<'_, str> {
    let mut mapped = String::new();
    let mut kept = 0;
    let mut rest = 0;
    while rest < text.len() {
        let after_ends = text[rest..].trim_start_matches(is_end);
        let begin = text.len() - after_ends.len();
        let end = after_ends.find(is_end).map_or(text.len(), |length| begin + length);
        if begin < end && is_hidden(&text[begin..end]) {
            mapped.push_str(&text[kept..begin]);
            mapped.push_str(HIDDEN);
            kept = end;
        }
        rest = end;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    mapped.push_str(&text[kept..]);
    Cow::Owned(mapped)
}

fn may_be_key(word: &str) -> bool {
    word.len() > SHORT && !is_public(word)
}

/// An address or descriptor as it may be shown.
pub fn shape(text: &str) -> Cow<'_, str> {
    if groups(text).next().is_some() {
        return Cow::Borrowed(HIDDEN);
    }
    mapped(text, may_be_key)
}

/// The words that [`shape`] hides.
pub fn hidden_words(text: &str) -> Vec<String> {
    let mut hidden: Vec<String> = groups(text).map(str::to_owned).collect();
    mapped(text, |word| {
        let is_hidden = may_be_key(word);
        if is_hidden {
            hidden.push(word.to_owned());
        }
        is_hidden
    });
    hidden
}

/// The parts of a text that are short words with nothing but white space, colons, points or dashes
/// between, and long together. A key may be written so, and the words of a wallet are as secret.
fn groups(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |character: char| character.is_whitespace() || ":.-".contains(character);
    let is_other_end = move |character: char| is_end(character) && !is_between(character);
    text.split(is_other_end).filter(move |run| {
        // The name of a long option has dashes, too.
        let is_option = run.starts_with("--");
        let words = run.split(is_between).filter(|word| (1..=SHORT).contains(&word.len()));
        let letters: usize = words.clone().map(|word| word.chars().count()).sum();
        !is_option && words.count() >= GROUPS_MIN && letters >= GROUPED_MIN
    })
}

/// Whether a word is public in full: a public key, or an address. An address with a typing error is
/// one, too, where nothing in it says that it may be a key.
fn is_public(word: &str) -> bool {
    // Decoding takes time by the square of the length.
    if word.len() > PUBLIC_MAX {
        return false;
    }
    is_like_witness_address(word) || is_address(word) || is_public_key(word)
}

/// A build without addresses does not know them, so it shows none.
#[cfg(not(feature = "descriptors"))]
fn is_address(_: &str) -> bool {
    false
}

/// And no keys.
#[cfg(not(feature = "descriptors"))]
fn is_public_key(_: &str) -> bool {
    false
}

/// It takes a word for a private key by its form alone.
#[cfg(not(feature = "descriptors"))]
fn is_private_key(word: &str) -> bool {
    is_wif(word)
}

/// Whether a word has the length and the characters of a witness address.
fn is_like_witness_address(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let data = ["bc1", "tb1", "bcrt1"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix));
    let Some(data) = data else {
        return false;
    };
    // BIP 173: capitals alone, or small letters alone.
    let is_one_case = word == lower || word == word.to_ascii_uppercase();
    let is_digit = |character: char| "qpzry9x8gf2tvdw0s3jn54khce6mua7l".contains(character);
    // A key in hex may begin like an address.
    let is_hex = data.bytes().all(|byte| byte.is_ascii_hexdigit());
    WITNESS_LENGTHS.contains(&data.len()) && is_one_case && data.chars().all(is_digit) && !is_hex
}

/// A line without the words that have the form of a private key, and without the password of a URL.
pub fn without_keys(text: &str) -> Cow<'_, str> {
    let hidden = mapped(text, has_key_form);
    match without_password(&hidden) {
        Some(without) => Cow::Owned(without),
        None => hidden,
    }
}

/// A text that is known to be a target, without its private keys. Unlike [`without_keys`] it leaves
/// what is public in full, such as an address that has the beginning of a private key in it.
#[cfg(feature = "descriptors")]
pub fn target_without_keys(text: &str) -> Cow<'_, str> {
    mapped(text, |word| has_key_form(word) && may_be_key(word))
}

/// A text without what stands before the host in its URLs; none where there is nothing.
fn without_password(text: &str) -> Option<String> {
    const SCHEME_END: &str = "://";
    let mut shown = String::new();
    let mut kept = 0;
    for (at, _) in text.match_indices(SCHEME_END) {
        let begin = at + SCHEME_END.len();
        let is_end = |character: char| character.is_whitespace() || "/'\"".contains(character);
        let end = text[begin..].find(is_end).map_or(text.len(), |length| begin + length);
        // A password may have one in it, too.
        if let Some(length) = text[begin..end].rfind('@') {
            shown.push_str(&text[kept..begin]);
            shown.push_str(HIDDEN);
            // From the @ on it is shown.
            kept = begin + length;
        }
    }
    (kept > 0).then(|| shown + &text[kept..])
}

/// Whether a word has the form of a private key, or has one in it.
fn has_key_form(word: &str) -> bool {
    has_extended(word) || is_wif(word) || has_wif(word)
}

/// Whether a word has an extended private key in it, by its beginning: `xprv`, `tprv`, or one of
/// their kin.
fn has_extended(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    // What comes before is a letter for the kind of key.
    let mut found = lower.match_indices("prv").map(|(at, _)| at);
    found.any(|at| at > 0 && word.len() - at >= EXTENDED_MIN && lower.as_bytes()[at - 1].is_ascii_alphabetic())
}

/// Whether a word is as long as a private key, begins like one, and has characters of all kinds. A
/// hash in hex is longer and has no capitals.
fn is_wif(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    WIF_LENGTHS.contains(&word.len())
        && word.starts_with(WIF_BEGINNINGS)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a word has a private key in it, whatever stands before and after.
fn has_wif(word: &str) -> bool {
    let has_capitals = || word.bytes().any(|byte| byte.is_ascii_uppercase());
    word.len() > WIF_LENGTHS_RIGHT[0]
        && has_capitals()
        && word.match_indices(WIF_BEGINNINGS).any(|(at, _)| {
            let parts = WIF_LENGTHS_RIGHT.iter().filter_map(|length| word.get(at..at + length));
            parts.into_iter().any(is_private_key)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const XPRV: &str = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
    const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    const XPUB: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    #[cfg(feature = "descriptors")]
    #[test]
    fn a_target_has_no_private_keys() {
        for text in [
            "2MvUp7pjS4BrV3byPrVg9pNLPPEjkZ3LtQx".to_owned(),
            format!("raw:{}", "5a".repeat(52)),
            format!("wsh(multi(1,[d34db33f/44h]{XPUB}/<0;1>/*,{KEY}))"),
        ] {
            assert_eq!(target_without_keys(&text), text);
        }
        for (text, shown) in [
            (
                format!("pkh([d34db33f/44h]{XPRV}/0h/*)#aaaaaaaa"),
                "pkh([d34db33f/44h]***/0h/*)#aaaaaaaa",
            ),
            (format!("wpkh({WIF})"), "wpkh(***)"),
        ] {
            assert_eq!(target_without_keys(&text), shown);
        }
    }

    #[test]
    fn what_is_typed_keeps_its_shape() {
        for (text, shown) in [
            (format!("pkh({XPRV}/0/*)#aaaaaaaa"), "pkh(***/0/*)#aaaaaaaa".to_owned()),
            (
                format!("sortedmulti_a(1,{WIF},[d34db33f/44h]{XPRV}/<0;1>)"),
                "sortedmulti_a(1,***,[d34db33f/44h]***/<0;1>)".to_owned(),
            ),
            (XPRV.to_owned(), "***".to_owned()),
            (format!("wpkh({XPUB}/0/*)"), format!("wpkh({XPUB}/0/*)")),
            (format!("pk({KEY})"), format!("pk({KEY})")),
            // It may be private.
            (format!("pk({})", &KEY[2..]), "pk(***)".to_owned()),
            (format!("raw:{KEY}00"), "raw:***".to_owned()),
            (
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt082".to_owned(),
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt082".to_owned(),
            ),
            (
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb".to_owned(),
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb".to_owned(),
            ),
            // What an outpoint has may be a private key.
            (format!("{}:3", "ab".repeat(32)), "***:3".to_owned()),
            (
                "what, äöü and \u{1f511}".to_owned(),
                "what, äöü and \u{1f511}".to_owned(),
            ),
            (String::new(), String::new()),
        ] {
            assert_eq!(shape(&text), shown);
        }
    }

    /// A key with a wrong character, one too many or one too few is as secret as the right one.
    #[test]
    fn a_key_with_a_typing_error_is_hidden() {
        for key in [XPRV, WIF] {
            for at in 0..key.len() {
                for typed in ["", "0", "|", "\u{e9}", "AA"] {
                    let wrong = [&key[..at], typed, &key[at + 1..]].concat();
                    let shown = shape(&wrong).into_owned();
                    assert!(shown.len() <= HIDDEN.len(), "{wrong}: {shown}");
                }
            }
        }
    }

    /// What begins like an address is none yet.
    #[test]
    fn a_key_after_the_prefix_of_an_address_is_hidden() {
        let hex = "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35";
        for prefix in ["bc1", "tb1", "bcrt1", "BC1", "bc1q", "1", "m", "3"] {
            for key in [
                XPRV,
                WIF,
                hex,
                &hex.to_uppercase(),
                &hex[3..],
                &hex[5..],
                &WIF.to_lowercase(),
            ] {
                for text in [format!("{prefix}{key}"), format!("pkh({prefix}{key}/0)")] {
                    assert_eq!(shape(&text), text.replace(&format!("{prefix}{key}"), HIDDEN));
                }
            }
        }
        // 39 and 59 digits, all of which are digits of an address.
        for length in [39, 59] {
            let hex = "e8f32e723decf4".repeat(5);
            assert_eq!(shape(&format!("bc1{}", &hex[..length])), HIDDEN);
        }
        // An address with a typing error is shown.
        for address in [
            "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt082",
            "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T5",
        ] {
            assert_eq!(shape(address), address);
        }
    }

    #[test]
    fn a_key_in_groups_is_hidden() {
        let hex = "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35";
        for size in [2, 4, 8, 12] {
            for between in [" ", ":", ".", "-", "\n"] {
                let groups: Vec<&str> = (0..hex.len())
                    .step_by(size)
                    .map(|at| &hex[at..hex.len().min(at + size)])
                    .collect();
                let text = groups.join(between);
                for form in [text.clone(), format!("pkh({text})"), format!("raw:{text}")] {
                    assert_eq!(shape(&form), HIDDEN, "{form}");
                    assert!(hidden_words(&form)[0].ends_with(&text));
                }
            }
        }
        let words = "abandon ability able about above absent absorb abstract absurd abuse access accident";
        assert_eq!(shape(words), HIDDEN);
    }

    #[test]
    fn lines_keep_hashes_and_names() {
        for kept in [
            "/home/user/blocks/blk00000.dat: offset 293: block 000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
            "there is no data directory at /tmp/cMahea7zqjxrtgAbB7LSGbcQUr1",
            XPUB,
            KEY,
        ] {
            assert_eq!(without_keys(kept), kept);
        }
        for (line, shown) in [
            (
                "http://user:pass@host:8332/rest: failed",
                "http://***@host:8332/rest: failed",
            ),
            ("at http://u@h and http://h/a@b", "at http://***@h and http://h/a@b"),
        ] {
            assert_eq!(without_keys(line), shown);
        }
        for key in [XPRV, WIF, &XPRV[..60], "xprv9s21ZrQH143K3"] {
            for line in [
                format!("no file at {key}"),
                format!("'{key}'"),
                format!("/tmp/{key}.csv"),
            ] {
                assert_eq!(without_keys(&line), line.replace(key, HIDDEN));
            }
        }
        // Something may stand before it and after it.
        for key in [XPRV, WIF] {
            for line in [
                format!("\\n{key}"),
                format!("no file key{key}"),
                format!("bcrt1{key}zz: none"),
            ] {
                assert!(!without_keys(&line).contains(&key[8..]), "{line}");
            }
        }
    }
}

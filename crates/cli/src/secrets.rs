//! Private keys are kept out of everything that is written.
//!
//! - [`shape`] is for texts that a user typed as an address or descriptor: every long word goes
//!   that is not known to be public. So a key with a typing error in it goes, too.
//! - [`without_keys`] is for all other lines. Hashes and names of files stay there, so only words
//!   go that have the form of a private key.

use bitcoin::bip32::Xpub;
use bitcoin::{PublicKey, base58};
use std::borrow::Cow;

/// What stands in place of a word.
pub(crate) const HIDDEN: &str = "***";

/// The longest word that is no key: names of functions, fingerprints and checksums are shorter.
const SHORT: usize = 12;

/// Characters that end a word, besides white space.
const ENDS: &str = "()[]{}<>,;:/*'\"#=-_.";

/// Characters of an extended private key that give it away. Its first ones are the same for all.
const EXTENDED_MIN: usize = 12;

/// Lengths of a private key in Bitcoin Core's wallet import format, with a typing error or two.
const WIF_LENGTHS: std::ops::RangeInclusive<usize> = 49..=54;

/// A text with its words mapped.
fn mapped(text: &str, mut is_hidden: impl FnMut(&str, &str) -> bool) -> Cow<'_, str> {
    let is_end = |character: char| character.is_whitespace() || ENDS.contains(character);
    let mut mapped = String::new();
    let mut kept = 0;
    let mut rest = 0;
    while rest < text.len() {
        let after_ends = text[rest..].trim_start_matches(is_end);
        let begin = text.len() - after_ends.len();
        let end = after_ends.find(is_end).map_or(text.len(), |length| begin + length);
        if begin < end && is_hidden(&text[begin..end], &text[end..]) {
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

/// An address or descriptor as it may be shown.
pub(crate) fn shape(text: &str) -> Cow<'_, str> {
    mapped(text, |word, rest| word.len() > SHORT && !is_public(word, rest))
}

/// The words that [`shape`] hides.
pub(crate) fn hidden_words(text: &str) -> Vec<String> {
    let mut hidden = Vec::new();
    mapped(text, |word, rest| {
        let is_hidden = word.len() > SHORT && !is_public(word, rest);
        if is_hidden {
            hidden.push(word.to_owned());
        }
        is_hidden
    });
    hidden
}

/// Whether a word is known to be public: a public key, an address, or the transaction of an
/// outpoint.
fn is_public(word: &str, rest: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_witness_address = ["bc1", "tb1", "bcrt1"].iter().any(|prefix| lower.starts_with(prefix));
    let is_old_address =
        || base58::decode(word).is_ok_and(|bytes| bytes.len() == 25 && [0, 5, 111, 196].contains(&bytes[0]));
    let is_outpoint = || {
        let vout = rest.strip_prefix(':').unwrap_or_default();
        is_hex(word, 64) && vout.starts_with(|first: char| first.is_ascii_digit())
    };
    is_witness_address
        || word.parse::<Xpub>().is_ok()
        || (word.len() >= 66 && word.parse::<PublicKey>().is_ok())
        || is_old_address()
        || is_outpoint()
}

fn is_hex(word: &str, length: usize) -> bool {
    word.len() == length && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A line without the words that have the form of a private key, and without the password of a URL.
pub(crate) fn without_keys(text: &str) -> Cow<'_, str> {
    let hidden = mapped(text, |word, _| is_extended(word) || is_wif(word));
    match without_password(&hidden) {
        Some(without) => Cow::Owned(without),
        None => hidden,
    }
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
        if let Some(length) = text[begin..end].rfind('@') {
            shown.push_str(&text[kept..begin]);
            shown.push_str(HIDDEN);
            kept = begin + length;
        }
    }
    (kept > 0).then(|| shown + &text[kept..])
}

/// Whether a word begins like an extended private key: `xprv`, `tprv`, or one of their kin.
fn is_extended(word: &str) -> bool {
    let prefix = word.char_indices().nth(1).and_then(|(at, _)| word.get(at..at + 3));
    word.len() > EXTENDED_MIN && prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case("prv"))
}

/// Whether a word is as long as a private key, begins like one, and has characters of all kinds. A
/// hash in hex is longer and has no capitals.
fn is_wif(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    WIF_LENGTHS.contains(&word.len())
        && word.starts_with(['5', 'K', 'L', '9', 'c'])
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const XPRV: &str = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
    const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    const XPUB: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

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
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt081".to_owned(),
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt081".to_owned(),
            ),
            (
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb".to_owned(),
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb".to_owned(),
            ),
            (format!("{}:3", "ab".repeat(32)), format!("{}:3", "ab".repeat(32))),
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
    }
}

//! Targets beside Bitcoin Core's answers, and what is refused.

use super::*;
use std::collections::HashMap;

/// Targets, and the scripts and descriptors of the coins that Core's `scantxoutset` found for
/// them: bitcoind 31.99 on regtest, with a block mined to each script, and to the indices 0, 3
/// and 1000 of those with a wildcard.
const CORE: &str = include_str!("../../tests/data/scantxoutset.json");

/// Descriptors of mainnet with their scripts, up to an index; none where they are refused.
const CORE_PARSER: &str = include_str!("../../tests/data/descriptors.json");

const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

fn of(text: &str) -> Result<Vec<Target>, String> {
    targets(text, &(0..=1000), Network::Regtest).map_err(|error| error.to_string())
}

#[test]
fn descriptors_are_those_of_core() {
    let core: Vec<serde_json::Value> = serde_json::from_str(CORE).unwrap();
    let mut checked = 0;
    for entry in &core {
        let text = entry["target"].as_str().unwrap();
        let found: HashMap<String, String> = of(text)
            .unwrap()
            .into_iter()
            .map(|target| (hex::encode(&target.script_pubkey), target.descriptor))
            .collect();
        for pair in entry["found"].as_array().unwrap() {
            let (script, descriptor) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            assert_eq!(found.get(script).map(String::as_str), Some(descriptor), "{text}");
            checked += 1;
        }
    }
    assert!(core.len() > 60 && checked > 100, "{checked}");
}

#[test]
fn wildcards_stand_for_their_range() {
    let ranged = "wpkh(tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B/0/*)";
    let all = of(ranged).unwrap();
    assert_eq!(all.len(), 1001);
    let some = targets(ranged, &(5..=6), Network::Regtest).unwrap();
    assert_eq!(some, all[5..=6]);
    assert_eq!(of(&ranged.replace("/0/*", "/0/6")).unwrap(), all[6..=6]);
}

#[test]
fn what_stands_for_nothing_is_refused() {
    let main = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    let xpub = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
    for (text, why) in [
        ("", "neither an address nor a descriptor"),
        ("what", "neither an address nor a descriptor"),
        (main, "not an address of the network regtest"),
        (&format!("addr({main})"), "not an address of the network regtest"),
        ("raw:5", "not in hex"),
        ("raw(zz)", "not in hex"),
        ("pkh(02)", "a key in it is not valid"),
        (&format!("pkh({KEY}"), "parenthesis"),
        (&format!("pkh({KEY})#aaaaaaaa"), "checksum"),
        (&format!("pkh({xpub})"), "not of the network regtest"),
        (&format!("combo({xpub})"), "not of the network regtest"),
        (&format!("wpkh({KEY},{KEY})"), "one key"),
        (&format!("rawtr({KEY},pk({KEY}))"), "one key"),
        (&format!("sortedmulti(1,{KEY},{KEY},{KEY},{KEY})"), "at most 3 keys"),
        (
            &format!("pkh({}/0h)", xpub.replace("xpub", "tpub")),
            "a key in it is not valid",
        ),
    ] {
        let error = of(text).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    // A descriptor with its checksum, and without.
    let with = of(&format!("pkh({KEY})")).unwrap();
    assert!(with[0].descriptor.starts_with(&format!("pkh([751e76e8]{KEY})#")));
}

/// Those of the unit tests of Core's parser, but for `musig()`.
#[test]
fn descriptors_are_read_as_core_reads_them() {
    let core: Vec<serde_json::Value> = serde_json::from_str(CORE_PARSER).unwrap();
    let (mut read, mut refused) = (0, 0);
    for entry in &core {
        let text = entry["text"].as_str().unwrap();
        let last = entry["last"].as_u64().unwrap_or_default() as u32;
        let found = targets(text, &(0..=last), Network::Bitcoin);
        let Some(scripts) = entry["scripts"].as_array() else {
            assert!(found.is_err(), "{text}");
            refused += 1;
            continue;
        };
        // The crate `miniscript` does not know that d: leaves a one in a tapscript.
        if text.contains("adv:older") {
            assert!(found.is_err(), "{text}");
            continue;
        }
        let found: Vec<String> = found
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .iter()
            .map(|target| hex::encode(&target.script_pubkey))
            .collect();
        for script in scripts {
            assert!(found.iter().any(|found| found == script), "{text}: {script}");
        }
        read += 1;
    }
    assert!(read > 60 && refused > 120, "{read}, {refused}");
}

const XPRV: &str =
    "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
const UNCOMPRESSED: &str = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";

#[test]
fn hardened_paths_are_those_of_their_parts() {
    let scripts = |text: &str| {
        let found = targets(text, &(0..=2), Network::Regtest).unwrap_or_else(|error| panic!("{text}: {error}"));
        found.into_iter().collect::<Vec<_>>()
    };
    for (several, first, second) in [
        ("<0h;1h>/*", "0h/*", "1h/*"),
        ("<0;1>/*h", "0/*h", "1/*h"),
        ("<0h;1>/*'", "0'/*h", "1/*h"),
        ("5/<1;0h>/7/*", "5/1/7/*", "5/0h/7/*"),
        ("<2147483647h;0>/0", "2147483647h/0", "0/0"),
        ("<0;1h>", "0", "1h"),
    ] {
        for form in ["pkh(X)", "wsh(multi(1,[d34db33f/3h]X,X))", "tr(X,pk(X))", "sh(wpkh(X))"] {
            let of = |path: &str| scripts(&form.replace('X', &format!("{XPRV}/{path}")));
            let (both, first, second) = (of(several), of(first), of(second));
            assert_eq!(both.len(), first.len() + second.len());
            for (number, pair) in both.chunks(2).enumerate() {
                assert_eq!(
                    pair,
                    [first[number].clone(), second[number].clone()],
                    "{form} {several}"
                );
            }
        }
    }
}

/// What Core refuses, where a parser of descriptors might be content.
/// A public key with a chain code.
const XPUB: &str =
    "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";

#[track_caller]
fn check_refused(texts: &[String]) {
    for text in texts {
        let found = targets(text, &(0..=2), Network::Regtest);
        assert!(found.is_err(), "{text}");
    }
}

#[test]
fn key_expressions_that_core_refuses_are_refused() {
    let x_only = &KEY[2..];
    check_refused(&[
        format!("wsh(pkh({x_only}))"),
        format!("wsh(pk({x_only}))"),
        format!("pk({x_only})"),
        format!("sh(pk({x_only}))"),
        format!("wpkh({x_only})"),
        format!("combo({x_only})"),
        format!("wsh(and_v(v:pk({x_only}),older(1)))"),
        format!("wsh(pkh({UNCOMPRESSED}))"),
        format!("wsh(multi(1,{UNCOMPRESSED}))"),
        format!("wpkh({UNCOMPRESSED})"),
        format!("tr({UNCOMPRESSED})"),
        format!("tr({KEY},pk({UNCOMPRESSED}))"),
        format!("rawtr({UNCOMPRESSED})"),
        format!("pk(06{})", &UNCOMPRESSED[2..]),
        format!("wpkh({XPUB}/<0;0>)"),
        format!("wpkh({XPUB}/<0;00>)"),
        format!("wpkh({XPUB}/<0>)"),
        format!("wpkh({XPUB}/<>)"),
        format!("wpkh({XPUB}/<0;1>/<0;1>)"),
        format!("wpkh({XPUB}/<0;1)"),
        format!("wpkh({XPUB}/+1)"),
        format!("wpkh({XPUB}/-1)"),
        format!("wpkh({XPUB}/ 1)"),
        format!("wpkh({XPUB}/1H)"),
        format!("wpkh({XPUB}/1hh)"),
        format!("wpkh({XPUB}/h)"),
        format!("wpkh({XPUB}/)"),
        format!("wpkh({XPUB}//1)"),
        format!("wpkh({XPUB}/2147483648)"),
        format!("wpkh({XPUB}/*/0)"),
        format!("wpkh({XPUB}/**)"),
        format!("wpkh({XPUB}/0h)"),
        format!("wpkh({XPUB}/*h)"),
        format!("wpkh([d34db33f/+1]{KEY})"),
        format!("wpkh([d34db33f/<0;1>]{KEY})"),
        format!("wpkh([d34db33f/*]{KEY})"),
        format!("wpkh([d34db3]{KEY})"),
        format!("wpkh([]{KEY})"),
        format!("wpkh([d34db33f]]{KEY})"),
        format!("wpkh({KEY}/0)"),
        format!("wsh(multi(1,{XPUB}/<0;1>,{XPUB}/<0;1;2>))"),
    ]);
}

#[test]
fn expressions_that_core_refuses_are_refused() {
    let keys = [KEY; 16].join(",");
    check_refused(&[
        "raw()".to_owned(),
        "wsh(raw(51))".to_owned(),
        format!("sh(raw({KEY}))"),
        "sh(addr(bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080))".to_owned(),
        format!("sh(combo({KEY}))"),
        format!("wsh(rawtr({KEY}))"),
        format!("sh(sh(pk({KEY})))"),
        format!("wsh(wsh(pk({KEY})))"),
        format!("wsh(wpkh({KEY}))"),
        format!("sh(tr({KEY}))"),
        format!("tr({KEY},pkh({KEY}),pk({KEY}))"),
        format!("tr({KEY},{{pk({KEY})}})"),
        format!("tr({KEY},multi(1,{KEY}))"),
        // Miniscript stands inside of wsh() and tr() alone.
        format!("and_v(v:pk({KEY}),older(5))"),
        format!("sh(and_v(v:pk({KEY}),older(5)))"),
        format!("c:pk_k({KEY})"),
        "older(5)".to_owned(),
        // Not sane: without a signature, malleable, a key twice, mixed locks.
        "wsh(older(5))".to_owned(),
        format!("wsh(or_i(pk({KEY}),older(5)))"),
        format!("wsh(and_b(pk({KEY}),s:pk({KEY})))"),
        format!("sh(wsh(and_b(pk({KEY}),s:pk({KEY}))))"),
        format!("tr({KEY},and_b(pk({KEY}),s:pk({KEY})))"),
        format!("tr({KEY},{{pk({KEY}),older(5)}})"),
        format!("wsh(and_v(v:pk({KEY}),and_v(v:older(5),older(4194305))))"),
        format!("wsh(and_v(v:pk({KEY}),after(0)))"),
        format!("wsh(and_v(v:pk({KEY}),older(2147483648)))"),
        format!("wsh(and_v(v:pk({KEY}),0))"),
        "wsh(expr_raw_pkh(751e76e8199196d454941c45d1b3a323f1433bd6))".to_owned(),
        format!("multi(+1,{KEY})"),
        format!("multi(0,{KEY})"),
        format!("multi(2,{KEY})"),
        format!("multi(1,{KEY},{KEY},{KEY},{KEY})"),
        format!("sh(multi(1,{keys}))"),
        format!("wsh(multi(1,{keys},{KEY},{KEY},{KEY},{KEY},{KEY}))"),
        format!("pk({KEY} )"),
        format!("pk( {KEY})"),
        format!("pk({KEY})#"),
        format!("pk({KEY})##"),
        format!(" pk({KEY})"),
        format!("pk({KEY}) "),
        format!("wsh({}pk({KEY}){})", "j:".repeat(500), ""),
        format!("{}pk({KEY}){}", "sh(".repeat(5000), ")".repeat(5000)),
        format!("wsh({}1{})", "and_v(1,".repeat(20_000), ")".repeat(20_000)),
        format!("tr({KEY},{}pk({KEY}){})", "{".repeat(20_000), "}".repeat(20_000)),
    ]);
}

#[test]
fn odd_descriptors_that_core_takes_are_taken() {
    for text in [
        format!("wsh(multi(2,{KEY},{KEY}))"),
        format!("wpkh({XPUB}/007)"),
        format!("multi(01,{KEY})"),
        format!("sh(pk({UNCOMPRESSED}))"),
        format!("combo({UNCOMPRESSED})"),
        format!("sh(multi(1,{}))", [KEY; 15].join(",")),
        format!("wsh(multi(1,{}))", [KEY; 20].join(",")),
        format!("wsh(or_d(pk({KEY}),and_v(v:pkh({XPRV}/0),older(10))))"),
        format!("pkh([D34DB33F/0h/1']{KEY})"),
        format!("pkh({})", KEY.to_uppercase()),
    ] {
        let found = targets(&text, &(0..=2), Network::Regtest);
        assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

/// What the crate `miniscript` says of a script is said in words, without the script.
#[test]
fn scripts_of_the_wrong_type_are_told_as_such() {
    for (form, said) in [
        ("wsh(pk_k(K))", "its type is not B"),
        ("wsh(v:pk(K))", "its type is not B"),
        ("tr(K,a:pk(K))", "its type is not B"),
        ("wsh(or_b(pk(K),pk(K)))", "not of the type that is needed there"),
        ("wsh(thresh(3,pk(K),s:pk(K)))", "a number of keys or of expressions"),
        ("wsh(multi(2,K))", "a number of keys or of expressions"),
    ] {
        let error = of(&form.replace('K', KEY)).unwrap_err();
        assert!(
            error.contains(said) && !error.contains('{') && !error.contains(KEY),
            "{form}: {error}"
        );
    }
}

/// Extended keys and keys of wallets that Core does not read.
#[test]
fn keys_that_core_refuses_are_refused() {
    let base58 = |bytes: &[u8]| bitcoin::base58::encode_check(bytes);
    let extended = |version: [u8; 4], depth: u8, fingerprint: [u8; 4], number: [u8; 4], key: &[u8]| {
        base58(&[&version[..], &[depth], &fingerprint, &number, &[0x11; 32], key].concat())
    };
    let (public, private) = ([0x04, 0x35, 0x87, 0xcf], [0x04, 0x35, 0x83, 0x94]);
    let public_key = hex::decode(KEY).unwrap();
    let private_key = [&[0][..], &[0x22; 32]].concat();
    let marked = [&[1][..], &[0x22; 32]].concat();
    let (none, some) = ([0; 4], [0, 0, 0, 1]);
    for (key, is_read) in [
        (extended(public, 0, none, none, &public_key), true),
        (extended(public, 1, none, none, &public_key), true),
        (extended(public, 1, some, some, &public_key), true),
        (extended(public, 254, some, some, &public_key), true),
        (extended(public, 255, some, some, &public_key), false),
        (extended(public, 0, some, none, &public_key), false),
        (extended(public, 0, none, some, &public_key), false),
        (extended(public, 0, none, [0x80, 0, 0, 0], &public_key), false),
        (extended(public, 1, none, none, &private_key), false),
        (extended(private, 0, none, none, &private_key), true),
        (extended(private, 1, some, some, &private_key), true),
        (extended(private, 254, some, some, &private_key), true),
        (extended(private, 255, some, some, &private_key), false),
        (extended(private, 0, some, none, &private_key), false),
        (extended(private, 0, none, some, &private_key), false),
        (extended(private, 1, none, none, &public_key), false),
        (extended(private, 1, none, none, &marked), false),
        (extended(private, 1, none, none, &[0; 33]), false),
    ] {
        for path in ["/0", "/*"] {
            let found = targets(&format!("pkh({key}{path})"), &(0..=1), Network::Regtest);
            assert_eq!(found.is_ok(), is_read, "{key}{path}: {found:?}");
        }
    }
    // The last byte of a compressed key is a 1.
    for (last, is_read) in [
        (&[][..], true),
        (&[1], true),
        (&[0], false),
        (&[2], false),
        (&[1, 1], false),
    ] {
        let key = base58(&[&[239][..], &[0x22; 32], last].concat());
        assert_eq!(of(&format!("pkh({key})")).is_ok(), is_read, "{last:?}");
    }
}

/// No text takes time by the square of its length.
#[test]
fn long_texts_are_refused_at_once() {
    let begin = std::time::Instant::now();
    let zs = "z".repeat(100_000);
    for text in [
        format!("bcrt1q{}", "q".repeat(100_000)),
        format!("bcrt1q{}b", "q".repeat(100_000)),
        format!("addr(bc1q{})", "q".repeat(100_000)),
        zs.clone(),
        format!("pkh({zs})"),
        format!("pkh({zs}/0/*)"),
        format!("pkh([{zs}]{KEY})"),
        format!("wsh(sha256({zs}))"),
        format!("raw:{zs}"),
        format!(
            "pkh({KEY}/<{}0>)",
            (0..20_000).map(|step| format!("{step};")).collect::<String>()
        ),
        format!("pkh({KEY}/{})", "0/".repeat(50_000)),
        format!("wsh(multi(1,{}K))", format!("{},", &KEY[2..]).repeat(1000)),
        format!("bc1q {}", "ab:".repeat(30_000)),
    ] {
        assert!(of(&text).is_err(), "{}", &text[..40]);
    }
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}

/// Core sorts keys by the bytes that stand in the script.
#[test]
fn keys_of_both_lengths_are_sorted_by_their_bytes() {
    let compressed = "03774ae7f858a9411e5ef4246b70c65aac5649980be5c17891bbec17895da008cb";
    for form in ["sortedmulti(1,A,B)", "sh(sortedmulti(1,A,B))"] {
        let sorted = |first, second| of(&form.replace('A', first).replace('B', second)).unwrap();
        let bare = form
            .replace("sorted", "")
            .replace('A', compressed)
            .replace('B', UNCOMPRESSED);
        let expected = of(&bare).unwrap();
        assert_eq!(sorted(UNCOMPRESSED, compressed), expected);
        assert_eq!(sorted(compressed, UNCOMPRESSED), expected);
    }
}

/// Whatever is wrong with a text, the message has no part of a private key that is in it.
#[test]
fn no_message_has_a_private_key() {
    let hex = "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35";
    let main = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";
    let main_wif = "L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1";
    let mut refused = 0;
    for secret in [XPRV, WIF, hex, main, main_wif] {
        for form in [
            "S",
            "pkh(S)#aaaaaaaa",
            "pkh(S",
            "S)",
            "raw:S",
            "raw(S)",
            "addr(S)",
            "S(00)",
            "wsh(S)",
            "wsh(S(pk(K)))",
            "pkh(S/0h/*x)",
            "pkh(S/<0;0>)",
            "wpkh(S,K)",
            "multi(1,S,K)",
            "multi(S,K)",
            "sh(pk(S/5/*))",
            "sh(and_v(S,S))",
            "wsh(and_v(v:pk(S/0/*),older(S)))",
            "wsh(sha256(S))",
            "tr(K,pk(S),S)",
            "tr(S,{pk(S)})",
            "tr(K,{pk(K),S})",
            "rawtr(S,K)",
            "combo(S/0/)",
            "pkh([S]K)",
            "pkh([d34db33f/S]K)",
            "pkh(K/S)",
            "wsh(thresh(1,pk(S),pk(S)))",
            "wsh(and_b(pk(S),s:pk(S)))",
            "musig(S,S)",
            "tr(musig(S,K))",
            "sortedmulti_a(1,S)",
            "pkh(S)#S",
            "pkh(0S)",
            "pkh(S S)",
            "wsh(S:pk(K))",
            "S:pk(K)",
            "pkh(\u{e9}S)",
            "pkh(S/2147483648)",
            "bc1S",
            "bcrt1S",
            "pk(tb1S)",
            "pkh(bc1qS/0)",
            "raw:bc1S",
            "S:0",
            "wsh(v:sha256(S))",
            "wsh(or_b(sha256(S),pk(K)))",
            "wsh(and_v(sha256(S),pk(K)))",
            "tr(K,a:hash256(S))",
            "tr(K,{pk(K),v:sha256(S)})",
            "wsh(andor(sha256(S),pk(K),pk(K)))",
            "wsh(thresh(2,sha256(S),sha256(S)))",
        ] {
            let text = form.replace('S', secret).replace('K', KEY);
            for text in [
                text.clone(),
                text.replacen(&secret[20..21], "0", 1),
                text.replacen(&secret[30..33], "", 1),
            ] {
                let Err(error) = targets(&text, &(0..=1), Network::Regtest) else {
                    continue;
                };
                refused += 1;
                let error = error.to_string();
                let told = (0..secret.len() - 10).find(|at| error.contains(&secret[*at..at + 10]));
                assert_eq!(told, None, "{text}: {error}");
            }
        }
    }
    assert!(refused > 400, "{refused}");
}

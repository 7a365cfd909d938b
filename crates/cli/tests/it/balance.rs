//! `balance` beside a set that the tests made from the blocks. What it says of descriptors is
//! compared with Core's answers where descriptors are read.

use crate::common::own_set::{OwnChain, OwnCoin, OwnSet};
use crate::common::{Run, Scratch, blockmill, check_seconds, connect, run};
use bitcoin::hex::DisplayHex;
use bitcoin::{Address, Network, OutPoint, ScriptBuf};
use serde_json::{Value, json};
use std::path::Path;

const BLOCKS: u32 = 140;

fn balance(data: &Path, options: &[&str]) -> Run {
    run(blockmill().args(["balance", "--data"]).arg(data).args(options))
}

/// What Core says of the coins of some scripts at a height. The descriptors are left out.
fn expected(chain: &OwnChain, height: u32, wanted: &[ScriptBuf]) -> Value {
    let OwnSet(set) = chain.set(height);
    let is_wanted = |coin: &OwnCoin| wanted.contains(&coin.output.script_pubkey);
    let found: Vec<(&OutPoint, &OwnCoin)> = set.iter().filter(|(_, coin)| is_wanted(coin)).collect();
    let hash = |height: u32| chain.blocks[height as usize].block_hash().to_string();
    let unspents = found.iter().map(|(outpoint, coin)| {
        json!({
            "txid": outpoint.txid.to_string(),
            "vout": outpoint.vout,
            "scriptPubKey": coin.output.script_pubkey.as_bytes().to_lower_hex_string(),
            "amount": coin.output.value.to_btc(),
            "coinbase": coin.is_coinbase,
            "height": coin.height,
            "blockhash": hash(coin.height),
            "confirmations": height - coin.height + 1,
        })
    });
    let total: u64 = found.iter().map(|(_, coin)| coin.output.value.to_sat()).sum();
    json!({
        "success": true,
        "txouts": set.len(),
        "height": height,
        "bestblock": hash(height),
        "unspents": unspents.collect::<Vec<_>>(),
        "total_amount": total as f64 / 1e8,
    })
}

/// Takes the descriptors out of an answer.
fn descriptors(answer: &mut Value) -> Vec<String> {
    let unspents = answer["unspents"].as_array_mut().unwrap();
    let take = |unspent: &mut Value| unspent.as_object_mut().unwrap().remove("desc").unwrap();
    unspents
        .iter_mut()
        .map(|unspent| take(unspent).as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn coins_of_addresses_and_scripts() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "6"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let address = |script: &ScriptBuf| Address::from_script(script, Network::Regtest);
    let mut scripts: Vec<ScriptBuf> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let set = chain.set(BLOCKS);
    for coin in set.0.values() {
        let script = &coin.output.script_pubkey;
        if scripts.len() < 30 && !scripts.contains(script) {
            texts.push(match address(script) {
                Ok(address) if scripts.len().is_multiple_of(2) => address.to_string(),
                _ if scripts.len().is_multiple_of(3) => format!("raw:{}", script.as_bytes().to_lower_hex_string()),
                _ => format!("raw({})", script.as_bytes().to_lower_hex_string()),
            });
            scripts.push(script.clone());
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for height in [BLOCKS, 120, 7] {
        let at = height.to_string();
        let mut options = vec!["--json", "--at", &at];
        options.extend(&texts);
        let mut answer = balance(&data, &options).ends_with(0).json();
        let descriptors = descriptors(&mut answer);
        assert_eq!(answer, expected(&chain, height, &scripts));
        for (unspent, descriptor) in answer["unspents"].as_array().unwrap().iter().zip(descriptors) {
            let script = ScriptBuf::from_hex(unspent["scriptPubKey"].as_str().unwrap()).unwrap();
            let hex = script.as_bytes().to_lower_hex_string();
            let prefix = match address(&script) {
                Ok(_) if script.is_p2tr() => format!("rawtr({})#", &hex[4..]),
                Ok(address) => format!("addr({address})#"),
                Err(_) if script.is_p2pk() => format!("pk({})#", &hex[2..hex.len() - 2]),
                Err(_) => "multi(".to_owned(),
            };
            assert!(descriptor.starts_with(&prefix), "{descriptor}");
        }
    }
    // For a person: a line for each coin, and the sum.
    let one = balance(&data, &texts[..1]).ends_with(0).stdout;
    let own = expected(&chain, BLOCKS, &scripts[..1]);
    let count = own["unspents"].as_array().unwrap().len();
    let total = own["total_amount"].as_f64().unwrap();
    let coins = if count == 1 { "coin" } else { "coins" };
    assert_eq!(one.lines().count(), count + 1);
    assert_eq!(
        one.lines().last().unwrap(),
        format!("{total:.8} BTC in {count} {coins}, at height {BLOCKS}")
    );
    // Two names of a script count once.
    let twice = balance(&data, &["--json", texts[0], texts[0]]).ends_with(0).json();
    assert_eq!(twice["unspents"].as_array().unwrap().len(), count);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let none = balance(&data, &["raw:51"]).ends_with(0);
    assert_eq!(none.stdout, "0.00000000 BTC in 0 coins, at height 0\n");
    balance(&data, &[]).ends_with(2);
    balance(&data, &["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"])
        .ends_with(2)
        .says(&["not an address of the network regtest"]);
    for range in ["x", "5-4", "0-1000000", "2147483648", "-1"] {
        balance(&data, &["--range", range, "raw:51"]).ends_with(2);
    }
    balance(&data, &["--range", "5-1000004", "raw:51"]).ends_with(0);
    balance(&data, &["--at", "1", "raw:51"])
        .ends_with(2)
        .says(&["the set is at height 0, and height 1 is above it"]);
}

/// Addresses that no chain has, of these numbers.
fn strangers(numbers: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    numbers.map(|number| {
        let mut script = vec![0, 20];
        script.extend([0xee; 16]);
        script.extend(number.to_be_bytes());
        let address = Address::from_script(&ScriptBuf::from_bytes(script), Network::Regtest);
        address.unwrap().to_string()
    })
}

/// The row of a text that stands for some scripts, as the set of the tests has it.
fn own_row(set: &OwnSet, target: &str, scripts: &[&ScriptBuf]) -> Value {
    let coins = set.0.values().map(|coin| &coin.output);
    let own: Vec<u64> = coins
        .filter(|output| scripts.contains(&&output.script_pubkey))
        .map(|output| output.value.to_sat())
        .collect();
    let satoshi: u64 = own.iter().sum();
    json!({"target": target, "coins": own.len(), "value": satoshi, "amount": satoshi as f64 / 1e8})
}

#[test]
fn a_hundred_thousand_addresses_of_a_file_in_one_pass() {
    const MANY: u32 = 100_000;
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "6"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let set = chain.set(BLOCKS);
    let mut scripts: Vec<&ScriptBuf> = set.0.values().map(|coin| &coin.output.script_pubkey).collect();
    scripts.sort();
    scripts.dedup();
    let raw = |script: &ScriptBuf| format!("raw:{}", script.as_bytes().to_lower_hex_string());
    // Each text with its scripts: texts of the chain among many others, some of them twice, and
    // scripts under two texts.
    let mut texts: Vec<(String, Option<&ScriptBuf>)> = strangers(0..MANY).map(|text| (text, None)).collect();
    for (number, script) in scripts.iter().enumerate() {
        let text = match Address::from_script(script, Network::Regtest) {
            Ok(address) => address.to_string(),
            Err(_) => raw(script),
        };
        let position = number * 17 % texts.len();
        texts[position] = (text.clone(), Some(script));
        if number % 5 == 0 {
            texts.push((raw(script), Some(script)));
        }
        if number % 7 == 0 {
            texts.push((text, Some(script)));
        }
    }
    assert!(scripts.len() > 1000 && texts.len() > MANY as usize);
    let mut lines = String::from("# what is asked for\n\n");
    for (text, _) in &texts {
        lines += &format!(" {text}\r\n");
    }
    let file = scratch.write("texts", lines.as_bytes());
    let file = file.to_str().unwrap();
    let table = balance(&data, &["--table", "--json", "--from-file", file]).ends_with(0);
    check_seconds(table.seconds, 30.0);
    let table = table.json();
    let rows = table["balances"].as_array().unwrap();
    assert_eq!(rows.len(), texts.len());
    let total: u64 = set.0.values().map(|coin| coin.output.value.to_sat()).sum();
    for (row, (text, script)) in rows.iter().zip(&texts) {
        match script {
            None => assert_eq!(*row, json!({"target": text, "coins": 0, "value": 0, "amount": 0.0})),
            Some(script) if row["value"].as_u64().unwrap() % 10 == 0 => {
                assert_eq!(*row, own_row(&set, text, &[*script]))
            }
            Some(_) => assert_eq!(row["target"], json!(text)),
        }
    }
    // Each coin counts once, and all are asked for.
    assert_eq!(table["total_amount"], json!(total as f64 / 1e8));
    assert_eq!(
        (&table["txouts"], &table["height"]),
        (&json!(set.0.len()), &json!(BLOCKS))
    );
    assert_eq!(table.get("unspents"), None);
    // Without a table the coins are those of the same texts by arguments.
    let few: Vec<&str> = texts.iter().take(40).map(|(text, _)| text.as_str()).collect();
    let file = scratch.write("few", few.join("\n").as_bytes());
    let by_arguments = balance(&data, &[&["--json"], &few[..]].concat()).ends_with(0).stdout;
    let by_file = balance(&data, &["--json", "--from-file", file.to_str().unwrap()]).ends_with(0);
    assert_eq!(by_file.stdout, by_arguments);
    assert_ne!(by_file.json()["unspents"], json!([]));
}

#[test]
fn a_table_has_a_row_for_each_text() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "6"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let set = chain.set(100);
    let mut scripts: Vec<&ScriptBuf> = set.0.values().map(|coin| &coin.output.script_pubkey).collect();
    scripts.dedup();
    let texts: Vec<String> = scripts[..3]
        .iter()
        .map(|script| format!("raw:{}", script.as_bytes().to_lower_hex_string()))
        .collect();
    let file = scratch.write("texts", format!("{}\n#{}\n", texts[2], texts[1]).as_bytes());
    // Arguments come first, then the lines of the file.
    let options = ["--at", "100", "--table", &texts[1], &texts[0], &texts[1], "--from-file"];
    let options = [&options[..], &[file.to_str().unwrap()]].concat();
    let rows: Vec<Value> = [1, 0, 1, 2]
        .map(|number: usize| own_row(&set, &texts[number], &[scripts[number]]))
        .into();
    let json = balance(&data, &[&options[..], &["--json"]].concat())
        .ends_with(0)
        .json();
    assert_eq!(json["balances"], json!(rows));
    let table = balance(&data, &options).ends_with(0).stdout;
    let mut lines = table.lines();
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(fields(lines.next().unwrap()), ["coins", "satoshi", "target"]);
    for row in &rows {
        let target = row["target"].as_str().unwrap();
        let expected = [row["coins"].to_string(), row["value"].to_string(), target.to_owned()];
        assert_eq!(fields(lines.next().unwrap()), expected);
    }
    let total = json["total_amount"].as_f64().unwrap();
    let coins: u64 = rows[1..].iter().map(|row| row["coins"].as_u64().unwrap()).sum();
    let word = if coins == 1 { "coin" } else { "coins" };
    assert_eq!(
        lines.next().unwrap(),
        format!("{total:.8} BTC in {coins} {word}, at height 100")
    );
    assert_eq!(lines.next(), None);
}

#[test]
fn a_bad_line_is_named() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let stranger = strangers(0..1).next().unwrap();
    let key = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    let long = format!("raw:{}", "51".repeat(1 << 20));
    for (bad, said) in [
        ("what", "neither an address nor a descriptor nor raw:HEX"),
        (
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "not an address of the network regtest",
        ),
        (key, "neither an address"),
        ("raw:5", "the script is not in hex"),
        (&long, "it has more than 1048576 bytes"),
    ] {
        let file = scratch.write("texts", format!("{stranger}\n\n# a\n{bad}\nraw:52\n").as_bytes());
        let refused = balance(&data, &["--table", "--from-file", file.to_str().unwrap()]);
        let refused = refused.ends_with(3).says(&["texts: line 4: ", said]);
        assert!(!refused.stderr.contains(key));
        assert_eq!(refused.stdout, "");
    }
    // A long one is not repeated, and a mark of the byte order is no part of one.
    let file = scratch.write(
        "texts",
        format!("\u{feff}raw:52\n{}\n", "sh(".repeat(200_000)).as_bytes(),
    );
    let refused = balance(&data, &["--from-file", file.to_str().unwrap()]).ends_with(3);
    let stderr = refused.says(&["texts: line 2: "]).stderr;
    assert!(stderr.len() < 1000, "{}", stderr.len());
    let missing = scratch.join("missing");
    balance(&data, &["--from-file", missing.to_str().unwrap()])
        .ends_with(3)
        .says(&["missing: "]);
    // Nothing is asked for.
    let empty = scratch.write("empty", b"# nothing\n");
    let none = balance(&data, &["--table", "--from-file", empty.to_str().unwrap()]).ends_with(0);
    assert_eq!(
        none.stdout,
        "coins  satoshi  target\n0.00000000 BTC in 0 coins, at height 0\n"
    );
}

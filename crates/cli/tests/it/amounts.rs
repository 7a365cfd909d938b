//! Amounts that no valid block has, and sums of amounts beyond 64 bits: what commands say of them.

use crate::common::lying::{LyingChain, write_coins};
use crate::common::{Run, Scratch, blockmill, load_command, run};
use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use blockmill_block::Coin;
use blockmill_chaingen::builder::{any_script, spend_any};
use serde_json::{Value, json};
use std::path::Path;

const MAX_MONEY: i64 = 21_000_000 * 100_000_000;

/// A transaction of inputs that nobody has made, and outputs of these amounts.
fn transaction(number: u32, inputs: usize, outputs: &[i64]) -> Transaction {
    let mut id = [0x11; 32];
    id[..4].copy_from_slice(&number.to_le_bytes());
    let inputs = (0..inputs as u32).map(|vout| TxIn {
        previous_output: OutPoint::new(Txid::from_byte_array(id), vout),
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    });
    let outputs = outputs.iter().map(|value| TxOut {
        value: Amount::from_sat(value.cast_unsigned()),
        script_pubkey: any_script(),
    });
    Transaction {
        input: inputs.collect(),
        output: outputs.collect(),
        ..spend_any(OutPoint::null(), 0)
    }
}

fn coin(value: i64) -> Coin {
    Coin {
        value,
        height: 1,
        is_coinbase: false,
        script_pubkey: vec![0x51].into(),
    }
}

fn of_blocks(words: &[&str], folder: &Path) -> Run {
    let mut command = blockmill();
    command.args(words).args(["--network", "regtest", "--blocks"]);
    run(command.arg(folder))
}

/// Each with its reason in Core, and the fee of the row.
#[test]
fn blocks_with_amounts_out_of_range() {
    // Core's compressed form has no room for the largest number of 63 bits.
    let (most, large) = (i64::MAX, 9_000_000_000_000_000_000);
    for (number, (coins, outputs, reason, fee)) in [
        (&[5][..], &[most, most][..], "bad-txns-vout-toolarge", None),
        (&[5], &[-1], "bad-txns-vout-negative", None),
        (&[5], &[i64::MIN], "bad-txns-vout-negative", None),
        (&[5], &[MAX_MONEY, 1], "bad-txns-txouttotal-toolarge", None),
        (&[large, large], &[1], "bad-txns-inputvalues-outofrange", None),
        (&[MAX_MONEY, 1], &[1], "bad-txns-inputvalues-outofrange", None),
        (&[large, 5], &[large], "bad-txns-vout-toolarge", None),
        (&[5], &[6], "bad-txns-in-belowout", None),
        (&[MAX_MONEY], &[1], "", Some(MAX_MONEY - 1)),
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new();
        let mut chain = LyingChain::new();
        chain.push(Vec::new(), Vec::new());
        let spent = coins.iter().map(|&value| coin(value)).collect();
        chain.push(vec![transaction(7, coins.len(), outputs)], vec![spent]);
        let folder = chain.write(&scratch, "blocks");
        let verified = of_blocks(&["verify"], &folder);
        match reason {
            "" => verified.ends_with(0),
            _ => verified.ends_with(1).says(&[reason, "(height 2)"]),
        };
        let export = ["export", "blocks", "--format", "jsonl", "--out", "-"];
        let rows = of_blocks(&export, &folder).ends_with(0).stdout;
        let row: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
        assert_eq!(row["fee"], json!(fee), "{number}: {row}");
        let values = |list: &str| -> Vec<i64> {
            let entries = row[list].as_array().unwrap().iter();
            entries.map(|entry| entry["value"].as_i64().unwrap()).collect()
        };
        assert_eq!((&values("inputs")[..], &values("outputs")[..]), (coins, outputs));
        let table = scratch.join("table");
        let parquet = ["export", "blocks", "--format", "parquet", "--out"];
        of_blocks(&[&parquet[..], &[table.to_str().unwrap()]].concat(), &folder).ends_with(0);
        // An audit refutes such a block, too, and an empty set is not the chain's.
        let set = scratch.join("set");
        write_coins(&set, &chain.tip(), std::iter::empty());
        let audit = of_blocks(&["audit", "--snapshot", set.to_str().unwrap()], &folder);
        audit.ends_with(1);
    }
}

/// Undo data that says of each block that its fees are all money.
#[test]
fn fees_beyond_64_bits_are_added_up() {
    const BLOCKS: u32 = 4_400;
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    chain.push(Vec::new(), Vec::new());
    for number in 0..BLOCKS {
        chain.push(vec![transaction(number, 1, &[0])], vec![vec![coin(MAX_MONEY)]]);
    }
    let sum = i128::from(MAX_MONEY) * i128::from(BLOCKS);
    assert!(i64::try_from(sum).is_err());
    let folder = chain.write(&scratch, "blocks");
    let said = of_blocks(&["verify", "--json"], &folder).ends_with(0).stdout;
    assert!(said.contains(&format!("\"fees\":{sum},")), "{said}");
    let said = of_blocks(&["verify"], &folder).ends_with(0).stdout;
    assert!(said.contains(&format!("{sum} satoshi")), "{said}");
    let set = scratch.join("set");
    write_coins(&set, &chain.tip(), std::iter::empty());
    of_blocks(&["audit", "--snapshot", set.to_str().unwrap()], &folder).ends_with(1);
}

/// Coins that are worth more than all money, and more than 63 bits have room for.
#[test]
fn coins_beyond_64_bits_are_added_up() {
    const COINS: u64 = 9_000;
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    chain.push(Vec::new(), Vec::new());
    let folder = chain.write(&scratch, "blocks");
    let snapshot = scratch.join("snapshot.dat");
    let outpoint = |number: u64| {
        let mut txid = [0; 32];
        txid[..8].copy_from_slice(&number.to_be_bytes());
        blockmill_block::OutPoint {
            txid: blockmill_block::Txid(txid),
            vout: 0,
        }
    };
    write_coins(
        &snapshot,
        &chain.tip(),
        (0..COINS).map(|number| (outpoint(number), coin(MAX_MONEY))),
    );
    let data = scratch.join("data");
    let load = |hash: &str| {
        let mut command = load_command(&folder, &data, "regtest");
        run(command.args(["--hash", hash]).arg(&snapshot))
    };
    let refused = load(&"00".repeat(32)).ends_with(3).stderr;
    let hash = refused
        .split("have the hash ")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    load(hash).ends_with(0);

    let bitcoins = COINS * 21_000_000;
    let of_data = |words: &[&str]| run(blockmill().args(words).arg("--data").arg(&data)).ends_with(0);
    let stats = of_data(&["stats", "--json"]).json();
    assert_eq!(stats["total_amount"], json!(bitcoins as f64));
    let exact = format!("{bitcoins}.00000000");
    assert!(of_data(&["stats"]).stdout.contains(&exact));
    let balance = of_data(&["balance", "raw(51)", "--json"]).json();
    assert_eq!(balance["total_amount"], json!(bitcoins as f64));
    assert!(
        of_data(&["balance", "raw(51)"])
            .stdout
            .contains(&format!("{exact} BTC in 9,000 coins"))
    );
    let first = outpoint(0).to_string();
    assert!(of_data(&["coin", &first]).stdout.contains("21000000.00000000"));
    let rows = of_data(&["export", "coins", "--format", "csv", "--out", "-"]).stdout;
    let mut export = blockmill();
    export.args(["export", "coins", "--format", "csv", "--out", "-", "--snapshot"]);
    // A snapshot does not have the times of blocks.
    let without_times = rows.replace("2011-02-02T23:26:42Z", "");
    assert_eq!(run(export.arg(&snapshot)).ends_with(0).stdout, without_times);
    assert_eq!(rows.lines().count() as u64, COINS + 1);
}

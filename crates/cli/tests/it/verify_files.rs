//! `verify --blocks`: the blocks of block files against the undo data beside them, in the forms in
//! which Bitcoin Core leaves both.

use crate::common::blocks::undo_bytes;
use crate::common::core_folder::made;
use crate::common::lying::LyingChain;
use crate::common::{Run, Scratch, blockmill, export_blocks_command, hash_of, records, run};
use blockmill_block::Coin;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{OutPoint, Transaction, Txid};
use blockmill_chaingen::builder::spend_any;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn verify(blocks: &Path, more: &[&str]) -> Run {
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--blocks"]).arg(blocks);
    run(command.args(more))
}

#[test]
fn all_blocks_or_one_are_verified() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    let before: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let all = verify(&folder, &[]).ends_with(0);
    let row = |run: &Run, name: &str| {
        let line = run.stdout.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {run:#?}"))
            .split_whitespace()
            .last()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (row(&all, "valid"), row(&all, "unreadable"), row(&all, "best")),
        ("140".to_owned(), "0".to_owned(), "140".to_owned())
    );
    assert!(row(&all, "inputs").parse::<u64>().unwrap() >= 2_000);
    // Fees and weights as `export blocks` has them.
    let mut export = export_blocks_command();
    export.args(["--from", "1", "--out", "-"]);
    let rows = run(export.arg("--blocks").arg(&folder)).ends_with(0).stdout;
    let (mut fees, mut weights) = (0, BTreeMap::new());
    for row in rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()) {
        fees += row["fee"].as_i64().unwrap_or_default();
        weights.insert(row["height"].as_u64(), row["block_weight"].as_u64().unwrap());
    }
    let json = verify(&folder, &["--json"]).ends_with(0).json();
    assert!(
        fees > 0 && json["fees"] == fees && json["weight"] == weights.values().sum::<u64>(),
        "{json}"
    );
    assert_eq!(json["unverified"], Value::Array(Vec::new()));
    assert_eq!(row(&all, "weight"), json["weight"].to_string());
    let hash = hash_of(&chain[records(&chain)[120].clone()]).to_string();
    let one = verify(&folder, &["--hash", &hash, "--par", "1"]).ends_with(0);
    assert_eq!(row(&one, "valid"), "1");
    // The network's first block, which spends nothing and has no undo data.
    let first = hash_of(&chain[records(&chain)[0].clone()]).to_string();
    let first = verify(&folder, &["--hash", &first]).ends_with(0);
    assert_eq!(row(&first, "valid"), "1");
    verify(&folder, &["--hash", &"11".repeat(32)])
        .ends_with(3)
        .says(&["1111", "in none of the block files"]);
    // Nothing is written there.
    let after: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn what_is_wrong_or_missing_is_named() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    // A byte of undo data.
    let path = folder.join("rev00001.dat");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    let offset = good.len() / 2;
    bad[offset] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let run =
        verify(&folder, &[])
            .ends_with(3)
            .says(&["rev00001.dat", "no undo data there has its checksum", "height"]);
    assert!(run.stdout.contains("valid         139"), "{run:#?}");
    std::fs::remove_file(&path).unwrap();
    let without = verify(&folder, &[]).ends_with(3).says(&[
        "blk00001.dat: there is no file of undo data (rev*.dat) beside it",
        "beside it: 71 blocks are not verified",
    ]);
    assert_eq!(without.stderr.lines().count(), 1, "{without:#?}");
    let json = verify(&folder, &["--json"]).ends_with(3).json();
    assert_eq!((&json["valid"], &json["remaining"]), (&69.into(), &0.into()));
    let unverified = json["unverified"].as_array().unwrap();
    assert_eq!(unverified.len(), 71);
    assert_eq!(
        (&unverified[0]["height"], &unverified[0]["verdict"]),
        (&70.into(), &"unreadable".into())
    );
    std::fs::write(&path, &good).unwrap();
    // A signature: the block is then another than its header says.
    let path = folder.join("blk00001.dat");
    let mut blocks = std::fs::read(&path).unwrap();
    let block = records(&chain)[100].clone();
    let before: usize = records(&chain)[70..130].iter().map(|range| range.len()).sum();
    assert!(block.len() > 100);
    let inside = before + 8 + 80 + 200;
    blocks[inside] ^= 4;
    std::fs::write(&path, &blocks).unwrap();
    let run = verify(&folder, &[]);
    assert!(matches!(run.status, 1 | 3), "{run:#?}");
    assert!(
        run.stderr.contains("blk00001.dat") && run.stderr.contains("height 130"),
        "{run:#?}"
    );
}

/// A transaction and the coins that it is said to spend.
type Spending = (Transaction, Vec<Coin>);

fn coin(value: i64, height: u32) -> Coin {
    Coin {
        value,
        height,
        is_coinbase: false,
        script_pubkey: [0x51].into(),
    }
}

/// Whether `verify` calls the third block of a chain valid that has these transactions, with what
/// the undo file says that they spend: in files of blocks, and as a file of its own. Both come to
/// the same.
fn is_valid(spendings: &[Spending]) -> bool {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    chain.push(Vec::new(), Vec::new());
    chain.push(Vec::new(), Vec::new());
    let (transactions, coins): (Vec<_>, Vec<_>) = spendings.iter().cloned().unzip();
    chain.push(transactions, coins.clone());
    let folder = chain.write(&scratch, "blocks");
    let files = verify(&folder, &[]);
    let block = scratch.write("block", &serialize(&chain.blocks[3]));
    let undo = scratch.write("undo", &undo_bytes(&coins));
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--height", "3", "--block"]);
    let one = run(command.arg(block).arg("--undo").arg(undo));
    assert_eq!(files.status, one.status, "{files:#?} {one:#?}");
    if files.status == 0 {
        return true;
    }
    for run in [files.ends_with(1), one] {
        run.says(&["bad-txns-inputs-missingorspent"]);
    }
    false
}

/// Undo data of somebody who wants a block to be valid.
#[test]
fn coins_of_the_block_itself_and_of_higher_ones_are_not_there() {
    let before = OutPoint::new(Txid::from_byte_array([0xaa; 32]), 0);
    let maker = spend_any(before, 900);
    let made = OutPoint::new(maker.compute_txid(), 0);
    let spender = spend_any(made, 800);
    let true_coin = coin(1_000, 1);
    for height in [0, 1, 2, 3, 4, 1_000] {
        let own = coin(900, height);
        let first = (maker.clone(), vec![true_coin.clone()]);
        let second = (spender.clone(), vec![own.clone()]);
        assert_eq!(
            is_valid(&[first.clone(), second.clone()]),
            [0, 3].contains(&height),
            "{height}"
        );
        // The other way round.
        assert!(!is_valid(&[second, first.clone()]), "{height}");
        // A coin of an earlier block.
        let with_height = (maker.clone(), vec![coin(1_000, height)]);
        assert_eq!(is_valid(&[with_height]), height < 3, "{height}");
    }
    let first = (maker.clone(), vec![true_coin.clone()]);
    // Another amount, an output that is not there, and a coin that is spent twice.
    assert!(!is_valid(&[first.clone(), (spender, vec![coin(901, 3)])]));
    let nowhere = spend_any(OutPoint { vout: 1, ..made }, 800);
    assert!(!is_valid(&[first.clone(), (nowhere, vec![coin(900, 3)])]));
    let again = spend_any(before, 800);
    assert!(!is_valid(&[first, (again, vec![true_coin])]));
}

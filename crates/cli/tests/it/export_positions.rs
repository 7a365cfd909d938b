//! `export positions`: each transaction is read back from the file and the offset that its row
//! names.

use crate::common::branches::genesis;
use crate::common::core_folder::made;
use crate::common::{RECORD_HEAD, Scratch, blockmill, connected_real, records, run, submit_command};
use crate::export_blocks::{blocks_of, lines};
use bitcoin::hex::DisplayHex;
use bitcoin::{Block, Transaction};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The key of a folder; none where it has none.
fn key_of(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("xor.dat")).unwrap_or_else(|_| vec![0; 8])
}

/// The rows of `export positions`, with these arguments.
fn positions(arguments: &[&str]) -> Vec<Value> {
    let mut command = blockmill();
    command.args(["export", "positions"]).args(arguments);
    let done = run(command.args(["--format", "jsonl", "--out", "-"])).ends_with(0);
    lines(&done.stdout)
}

/// Fails unless the rows are those of all transactions of a chain, and these lie where the rows
/// say. Returns the files.
#[track_caller]
fn check(rows: &[Value], chain: &[Block]) -> Vec<PathBuf> {
    let mut files: HashMap<PathBuf, Vec<u8>> = HashMap::new();
    let mut rest = rows.iter();
    for (height, block) in (0_u32..).zip(chain) {
        for (position, transaction) in (0_u32..).zip(&block.txdata) {
            let row = rest.next().expect("a row for each transaction");
            let txid = transaction.compute_txid().to_string();
            let size = transaction.total_size();
            let of_block = [
                ("txid", json!(txid)),
                ("size", json!(size)),
                ("height", json!(height)),
                ("position", json!(position)),
                ("block_time", json!(block.header.time)),
            ];
            for (name, value) in of_block {
                assert_eq!(row[name], value, "{name} of {row}");
            }
            let folder = Path::new(row["folder"].as_str().unwrap());
            let path = folder.join(row["file"].as_str().unwrap());
            let file = files.entry(path.clone()).or_insert_with(|| {
                let key = key_of(folder);
                let bytes = std::fs::read(&path).unwrap();
                bytes
                    .iter()
                    .zip(key.iter().cycle())
                    .map(|(byte, key)| byte ^ key)
                    .collect()
            });
            let offset = row["offset"].as_u64().unwrap() as usize;
            let read: Transaction = bitcoin::consensus::deserialize(&file[offset..offset + size]).unwrap();
            assert_eq!(read.compute_txid().to_string(), txid);
        }
    }
    assert_eq!(rest.next(), None);
    let mut files: Vec<PathBuf> = files.into_keys().collect();
    files.sort();
    files
}

#[test]
fn transactions_lie_where_their_rows_say() {
    let scratch = Scratch::new();
    // Two files with a key, out of order.
    let (folder, chain) = made(&scratch);
    let blocks = blocks_of(&chain);
    let folder = folder.canonicalize().unwrap();
    let of_core = positions(&["--blocks", folder.to_str().unwrap(), "--network", "regtest"]);
    let files = check(&of_core, &blocks);
    assert_eq!(files, ["blk00000.dat", "blk00001.dat"].map(|name| folder.join(name)));
    // The file of `generate`, without a key.
    let data = scratch.join("data");
    let of_data = positions(&["--data", data.to_str().unwrap()]);
    let own = scratch.join("chain").canonicalize().unwrap();
    assert_eq!(check(&of_data, &blocks), [own.join("blk00000.dat")]);
    let some = positions(&["--data", data.to_str().unwrap(), "--from", "30", "--to", "31"]);
    let heights = |row: &&Value| [30, 31].contains(&row["height"].as_u64().unwrap());
    assert_eq!(some, of_data.iter().filter(heights).cloned().collect::<Vec<_>>());
    // The same beside another table.
    let out = scratch.join("tables");
    let mut command = blockmill();
    command.args([
        "export",
        "spenders",
        "--and",
        "positions",
        "--format",
        "jsonl",
        "--data",
    ]);
    run(command.arg(&data).arg("--out").arg(&out)).ends_with(0);
    let beside = std::fs::read_to_string(out.join("positions.jsonl")).unwrap();
    assert_eq!(lines(&beside), of_data);
    // A retained copy goes away in time. No row names it, whatever order the names of folders have.
    let (later, data) = (own.with_file_name("later"), scratch.join("early"));
    std::fs::rename(own, &later).unwrap();
    let mut command = blockmill();
    command
        .args(["connect", "--network", "regtest", "--blocks"])
        .arg(&later);
    run(command.arg("--data").arg(&data)).ends_with(0);
    assert!(data.join("kept/blk00000.dat").exists());
    let of_data = positions(&["--data", data.to_str().unwrap()]);
    assert_eq!(check(&of_data, &blocks), [later.join("blk00000.dat")]);
}

/// The first copy of some blocks is damaged, in the one of two folders or the other.
#[test]
fn the_copy_that_was_read_is_named() {
    let scratch = Scratch::new();
    let (_, chain) = made(&scratch);
    let blocks = blocks_of(&chain);
    let data = scratch.join("data");
    // The folder that the directory was made from is gone, and there are two others.
    std::fs::remove_dir_all(scratch.join("chain")).unwrap();
    let mut damaged = chain.clone();
    let is_damaged = |height: usize| height % 3 == 1;
    for (height, record) in records(&chain).into_iter().enumerate() {
        if is_damaged(height) {
            // In the last transaction.
            damaged[record.end - 20] ^= 1;
        }
    }
    let folders = [("first", &damaged), ("second", &chain)].map(|(name, bytes)| {
        let folder = scratch.folder(name);
        std::fs::write(folder.join("blk00000.dat"), bytes).unwrap();
        folder.canonicalize().unwrap()
    });
    let arguments = ["--data", data.to_str().unwrap(), "--blocks"];
    let [first, second] = folders.each_ref().map(|folder| folder.to_str().unwrap());
    let rows = positions(&[&arguments[..], &[first, second]].concat());
    assert_eq!(check(&rows, &blocks).len(), 2);
    for row in &rows {
        let height = row["height"].as_u64().unwrap() as usize;
        let expected = if is_damaged(height) { second } else { first };
        assert_eq!(row["folder"], json!(expected), "{height}");
    }
}

/// Blocks that came through `submit` lie in the data directory. The first block is in no file.
#[test]
fn own_blocks_of_a_data_directory() {
    let scratch = Scratch::new();
    let (_, chain) = made(&scratch);
    let blocks = blocks_of(&chain);
    let data = scratch.join("own, \"data\"");
    let lines_of_hex: String = records(&chain)[1..]
        .iter()
        .map(|record| chain[record.start + RECORD_HEAD..record.end].to_lower_hex_string() + "\n")
        .collect();
    let hex = scratch.write("hex", lines_of_hex.as_bytes());
    run(submit_command(&data).stdin(File::open(hex).unwrap())).ends_with(0);
    let rows = positions(&["--data", data.to_str().unwrap()]);
    let [first, others @ ..] = &rows[..] else {
        panic!("no rows")
    };
    let [coinbase] = &genesis().txdata[..] else {
        panic!("another block")
    };
    assert_eq!(first["txid"], json!(coinbase.compute_txid().to_string()));
    assert_eq!([&first["file"], &first["offset"], &first["folder"]], [&Value::Null; 3]);
    let above: Vec<Value> = others
        .iter()
        .cloned()
        .map(|mut row| {
            row["height"] = json!(row["height"].as_u64().unwrap() - 1);
            row
        })
        .collect();
    let folder = data.canonicalize().unwrap().join("blocks");
    assert_eq!(check(&above, &blocks[1..]), [folder.join("blk00000.dat")]);
    // The name of the folder is in quotes.
    let mut command = blockmill();
    command.args(["export", "positions", "--format", "csv", "--out", "-", "--data"]);
    let csv = run(command.arg(&data)).ends_with(0).stdout;
    let folder = folder.to_str().unwrap().replace('"', "\"\"");
    let last = csv.lines().last().unwrap();
    assert!(last.ends_with(&format!(",\"{folder}\"")), "{last}");
}

#[test]
fn transactions_of_the_real_chains() {
    for (file, network) in [("mainnet_0_14131.dat", "bitcoin"), ("testnet3_0_4000.dat", "testnet3")] {
        let Some((_scratch, data, path)) = connected_real(file, network) else {
            return;
        };
        let rows = positions(&["--data", data.to_str().unwrap()]);
        check(&rows, &blocks_of(&std::fs::read(&path).unwrap()));
    }
}

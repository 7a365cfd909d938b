//! The same questions on the same odd files: `connect`, `verify`, `export` and the readers of a
//! directory give one answer, whatever a node, a disk or a person has left among the block files.

mod branches;
mod copies;
mod damage;
mod files;
mod refused;
mod undo;

use crate::common::core_folder::made;
use crate::common::{Run, Scratch, blockmill, export_blocks_command, records, run};
use bitcoin::hashes::Hash;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Heights of the chain.
const TIP: u64 = 140;

/// What commands say of the same block files.
struct Answers {
    connect: Run,
    verify: Run,
    export: Run,
}

impl Answers {
    /// Asks about the folder of block files `folder`; the data directory is new.
    fn of(scratch: &Scratch, folder: &Path) -> Self {
        let data = scratch.join("odd-data");
        let _ = std::fs::remove_dir_all(&data);
        let mut connect = command("connect", folder);
        let mut export = export_blocks_command();
        export.args(["--out", "-"]);
        Self {
            connect: run(connect.arg("--data").arg(&data)),
            verify: run(&mut command("verify", folder)),
            export: run(export.arg("--blocks").arg(folder)),
        }
    }

    /// All have the whole chain.
    #[track_caller]
    fn are_whole(self) -> Self {
        self.end_with(0, TIP)
    }

    /// All end with this status and this height, and say so in JSON.
    #[track_caller]
    fn end_with(self, status: i32, height: u64) -> Self {
        let whole = Value::Bool(status == 0);
        let connect = self.connect.json();
        assert_eq!(
            (self.connect.status, &connect["height"]),
            (status, &height.into()),
            "{:#?}",
            self.connect
        );
        let verify = self.verify.json();
        assert_eq!(
            (self.verify.status, &verify["valid"]),
            (status, &height.into()),
            "{:#?}",
            self.verify
        );
        assert_eq!(self.export.status, status, "{:#?}", self.export.stderr);
        let last = self.export.stdout.lines().last().unwrap_or("null");
        let row: Value = serde_json::from_str(last).unwrap();
        assert_eq!(row["height"], height);
        for json in [connect, verify] {
            assert_eq!(json["whole"], whole, "{json:#}");
            assert_eq!(json["why"].as_array().unwrap().is_empty(), status == 0, "{json:#}");
        }
        self
    }

    /// The statuses with which they end.
    fn statuses(&self) -> [i32; 3] {
        [self.connect.status, self.verify.status, self.export.status]
    }

    /// Each says these words on standard error.
    #[track_caller]
    fn say(self, words: &[&str]) -> Self {
        let Self {
            connect,
            verify,
            export,
        } = self;
        Self {
            connect: connect.says(words),
            verify: verify.says(words),
            export: export.says(words),
        }
    }
}

fn command(name: &str, folder: &Path) -> Command {
    let mut command = blockmill();
    command
        .args([name, "--network", "regtest", "--json", "--blocks"])
        .arg(folder);
    command
}

/// The chain in one block file without a key, with one undo file: blocks and undo data by height.
fn clear(scratch: &Scratch) -> (PathBuf, Vec<Vec<u8>>) {
    let (_, chain) = made(scratch);
    let folder = scratch.join("clear");
    std::fs::create_dir(&folder).unwrap();
    let blocks: Vec<Vec<u8>> = records(&chain).into_iter().map(|range| chain[range].to_vec()).collect();
    std::fs::write(folder.join("blk00000.dat"), blocks.concat()).unwrap();
    std::fs::copy(scratch.join("data").join("undo.dat"), folder.join("rev00000.dat")).unwrap();
    (folder, blocks)
}

fn write(folder: &Path, parts: &[&[u8]]) {
    std::fs::write(folder.join("blk00000.dat"), parts.concat()).unwrap();
}

/// The records of an undo file of whole records, the first one for height 1.
fn undo_records(file: &[u8]) -> Vec<Vec<u8>> {
    let mut at = 0;
    std::iter::from_fn(|| {
        let length = file.get(at + 4..at + 8)?;
        let start = at;
        at += 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize + 32;
        Some(file[start..at].to_vec())
    })
    .collect()
}

/// A record of undo data whose block has this parent.
fn undo_record(magic: &[u8], parent: bitcoin::BlockHash, data: &[u8]) -> Vec<u8> {
    let sum = bitcoin::hashes::sha256d::Hash::hash(&[&parent.to_byte_array()[..], data].concat());
    let length = (data.len() as u32).to_le_bytes();
    [magic, &length, data, &sum.to_byte_array()].concat()
}

/// The record of a block, with a length that covers others, and these.
fn cover(record: &[u8], others: &[&[u8]]) -> Vec<u8> {
    let others = others.concat();
    let length = (record.len() - 8 + others.len()) as u32;
    [&record[..4], &length.to_le_bytes(), &record[8..], &others].concat()
}

/// A block beside that of a record: it has the same parent, and a coinbase alone.
fn sibling(record: &[u8]) -> (Vec<u8>, bitcoin::Block) {
    let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&record[8..]).unwrap();
    block.txdata.truncate(1);
    block.txdata[0].input[0].witness.clear();
    block.txdata[0].output.truncate(1);
    // Less than any subsidy: there are no fees.
    block.txdata[0].output[0].value = bitcoin::Amount::ONE_SAT;
    remade(block)
}

/// A block above one with a coinbase alone.
fn child(parent: &bitcoin::Block) -> (Vec<u8>, bitcoin::Block) {
    let mut block = parent.clone();
    block.header.prev_blockhash = parent.block_hash();
    block.header.time += 1;
    let height = parent.bip34_block_height().unwrap() as i64 + 1;
    block.txdata[0].input[0].script_sig = bitcoin::script::Builder::new()
        .push_int(height)
        .push_slice(b"child")
        .into_script();
    remade(block)
}

/// The record of a block, and the block, with the header of its transactions.
fn remade(mut block: bitcoin::Block) -> (Vec<u8>, bitcoin::Block) {
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    while block.header.validate_pow(block.header.target()).is_err() {
        block.header.nonce += 1;
    }
    let bytes = bitcoin::consensus::serialize(&block);
    let magic = blockmill_block::Network::Regtest.magic().0;
    let record = [&magic[..], &(bytes.len() as u32).to_le_bytes(), &bytes].concat();
    (record, block)
}

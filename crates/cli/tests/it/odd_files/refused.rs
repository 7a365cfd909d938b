//! Blocks that the node has stored and refused, before it stored the valid ones of their heights.

use super::{Answers, TIP, child, clear, command, remade, sibling, undo_record, undo_records, write};
use crate::common::{Scratch, blockmill, run, stats};
use bitcoin::hashes::Hash;
use bitcoin::{Block, ScriptBuf};
use std::fs;
use std::path::Path;

fn parsed(record: &[u8]) -> Block {
    bitcoin::consensus::deserialize(&record[8..]).unwrap()
}

/// The sibling of a block whose coinbase takes a satoshi more than that of the block, which takes
/// all that it may.
fn greedy(record: &[u8]) -> (Vec<u8>, Block) {
    let mut block = parsed(record);
    block.txdata[0].output[0].value += bitcoin::Amount::ONE_SAT;
    remade(block)
}

/// The sibling of a block whose first input has a script that fails.
fn with_wrong_script(record: &[u8]) -> (Vec<u8>, Block) {
    let mut block = parsed(record);
    let input = &mut block.txdata[1].input[0];
    // OP_RETURN, which comes before the script of the coin.
    input.script_sig = ScriptBuf::from_bytes(vec![0x6a]);
    let root = block.witness_root().unwrap();
    let commitment = Block::compute_witness_commitment(&root, &[0; 32]);
    for output in &mut block.txdata[0].output {
        let mut script = output.script_pubkey.to_bytes();
        if script.starts_with(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed]) {
            script[6..38].copy_from_slice(&commitment.to_byte_array());
            output.script_pubkey = script.into();
        }
    }
    remade(block)
}

/// The same tip for all, and a chain that is whole but for the block that `connect` has rejected.
#[track_caller]
fn has_valid_tip(scratch: &Scratch, folder: &Path, tip: &str) {
    let answers = Answers::of(scratch, folder);
    assert_eq!(answers.statuses(), [1, 0, 0], "{:#?}", answers.verify);
    let connect = answers.connect.json();
    assert_eq!((&connect["height"], &connect["tip"]), (&TIP.into(), &tip.into()));
    let verify = answers.verify.json();
    assert_eq!(
        (&verify["valid"], &verify["without_undo_yet"]),
        (&TIP.into(), &0.into())
    );
    let row: serde_json::Value = serde_json::from_str(answers.export.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&row["height"], &row["block_hash"]), (&TIP.into(), &tip.into()));
    // The snapshot of that chain is loaded, and hints for SwiftSync are those of the directory.
    let [snapshot, loaded, hints] = ["s.utxo", "loaded", "hints"].map(|name| scratch.join(name));
    let data = scratch.join("odd-data");
    let mut dump = blockmill();
    run(dump.args(["snapshot", "dump", "--data"]).arg(&data).arg(&snapshot)).ends_with(0);
    let hash = stats(&data)["hash_serialized_3"].as_str().unwrap().to_owned();
    let mut load = blockmill();
    load.args(["snapshot", "load", "--network", "regtest", "--hash", &hash, "--blocks"]);
    run(load.arg(folder).arg("--data").arg(&loaded).arg(&snapshot)).ends_with(0);
    let connect = run(command("connect", folder).arg("--data").arg(&loaded)).ends_with(0);
    assert_eq!(connect.json()["tip"], tip);
    let mut export = blockmill();
    export
        .args(["export", "hints", "--network", "regtest", "--blocks"])
        .arg(folder);
    run(export.arg("--out").arg(&hints)).ends_with(0);
    for path in [&snapshot, &hints] {
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir_all(&loaded).unwrap();
}

#[test]
fn undo_data_shows_which_sibling_is_valid() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let undo = undo_records(&fs::read(&rev).unwrap());
    let below = blocks[..140].concat();
    let own = parsed(&blocks[140]);
    assert!(own.txdata.len() > 1);
    let tip = own.block_hash().to_string();
    // It spends the same coins, and takes too much; or spends nothing, and takes too much.
    let (empty, empty_block) = sibling(&blocks[140]);
    let mut too_much = empty_block.clone();
    too_much.txdata[0].output[0].value = bitcoin::Amount::from_int_btc(51);
    for (bad, _) in [greedy(&blocks[140]), remade(too_much.clone())] {
        write(&folder, &[&below, &bad, &blocks[140]]);
        has_valid_tip(&scratch, &folder, &tip);
        // The valid one came first.
        write(&folder, &[&below, &blocks[140], &bad]);
        Answers::of(&scratch, &folder).are_whole();
    }
    // Both spend nothing, and their undo data is the same.
    let of_empty = undo_record(&blocks[0][..4], own.header.prev_blockhash, &[0]);
    fs::write(&rev, [undo[..139].concat(), of_empty].concat()).unwrap();
    write(&folder, &[&below, &remade(too_much).0, &empty]);
    has_valid_tip(&scratch, &folder, &empty_block.block_hash().to_string());
}

/// Where undo files cannot tell, that is said, and no chain is given out as whole.
#[test]
fn an_undecided_sibling_is_said() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let undo = undo_records(&fs::read(&rev).unwrap());
    let tip = parsed(&blocks[140]).block_hash().to_string();
    // Undo data of blocks that differ in a script is the same.
    let (bad, _) = with_wrong_script(&blocks[140]);
    write(&folder, &[&blocks[..140].concat(), &bad, &blocks[140]]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.statuses(), [1, 1, 3], "{:#?}", answers.export.stderr);
    assert_eq!(answers.connect.json()["tip"], tip.as_str());
    answers.export.says(&["the undo files do not tell"]);
    // The valid one is the first: verify finds it valid, and export validates nothing.
    write(&folder, &[&blocks[..140].concat(), &blocks[140], &bad]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.statuses(), [0, 0, 3], "{:#?}", answers.verify);
    assert_eq!(answers.verify.json()["valid"], TIP);
    // A chain of more work whose first block was refused, or is still to be connected.
    let (bad, bad_block) = greedy(&blocks[139]);
    let (above, _) = child(&bad_block);
    write(&folder, &[&blocks[..139].concat(), &bad, &above, &blocks[139]]);
    fs::write(&rev, undo[..139].concat()).unwrap();
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.statuses(), [1, 3, 3], "{:#?}", answers.verify);
    for run in [&answers.connect, &answers.verify] {
        let json = run.json();
        assert_eq!(json["whole"], false, "{json:#}");
    }
    assert_eq!(answers.connect.json()["height"], 139);
    assert_eq!(answers.verify.json()["valid"], 139);
    answers.verify.says(&["the undo files do not tell"]);
}

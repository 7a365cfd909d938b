//! Blocks beside the chain, and blocks that show only when others are read.

use super::{Answers, TIP, child, clear, command, cover, remade, sibling, undo_record, undo_records, write};
use crate::common::{Scratch, blockmill, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Rows of the blocks in a file, from a data directory or from block files.
fn exported(scratch: &Scratch, source: &[&str], path: &Path) -> Vec<u8> {
    let out = scratch.join("rows.jsonl");
    let mut export = blockmill();
    export.args(["export", "blocks", "--force", "--out"]).arg(&out);
    run(export.args(source).arg(path)).ends_with(0);
    fs::read(out).unwrap()
}

/// An export without a data directory fails, and says what helps.
fn refuses_to_export(scratch: &Scratch, folder: &Path) {
    let out = scratch.join("refused.jsonl");
    let mut export = blockmill();
    export.args(["export", "blocks", "--network", "regtest", "--out"]);
    run(export.arg(&out).arg("--blocks").arg(folder))
        .ends_with(3)
        .says(&["inside the records of others", "then export with --data DIR"]);
    assert!(!out.exists());
}

/// Answers of which `connect` and `verify` have the whole chain.
fn whole(scratch: &Scratch, folder: &Path) -> Answers {
    let answers = Answers::of(scratch, folder);
    assert_eq!(answers.statuses()[..2], [0; 2], "{:#?}", answers.verify);
    assert_eq!(answers.connect.json()["height"], TIP);
    assert_eq!(answers.verify.json()["valid"], TIP);
    answers
}

/// A block beside the chain lies in a file with a record that is more than its block. The directory
/// does not know that block, and lacks nothing.
#[test]
fn a_directory_beside_which_blocks_lie() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let (beside, _) = sibling(&blocks[100]);
    let longer = cover(&blocks[120], &[b"longer"]);
    write(
        &folder,
        &[&blocks[..120].concat(), &longer, &blocks[121..].concat(), &beside],
    );
    Answers::of(&scratch, &folder).are_whole();
    let of_data = exported(&scratch, &["--data"], &scratch.join("odd-data"));
    assert!(of_data == exported(&scratch, &["--network", "regtest", "--blocks"], &folder));
}

/// A branch that lies inside a record came with that record: of two chains of equal work it is the
/// first one for all.
#[test]
fn a_hidden_block_came_with_the_record_it_lies_in() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let (inner, other) = sibling(&blocks[140]);
    let undo = undo_records(&fs::read(&rev).unwrap());
    let of_other = undo_record(&blocks[0][..4], other.header.prev_blockhash, &[0]);
    fs::write(&rev, [undo.concat(), of_other].concat()).unwrap();
    let tip_of = |folder: &Path| {
        let answers = whole(&scratch, folder);
        refuses_to_export(&scratch, folder);
        exported(&scratch, &["--data"], &scratch.join("odd-data"));
        answers.connect.json()["tip"].as_str().unwrap().to_owned()
    };
    write(
        &folder,
        &[
            &blocks[..100].concat(),
            &cover(&blocks[100], &[&inner]),
            &blocks[101..].concat(),
        ],
    );
    assert_eq!(tip_of(&folder), other.block_hash().to_string());
    // A run that began with a tip of its own keeps it.
    let data = scratch.join("odd-data");
    fs::remove_dir_all(&data).unwrap();
    let hiding = fs::read(folder.join("blk00000.dat")).unwrap();
    write(&folder, &[&blocks.concat()]);
    let connect = || {
        run(command("connect", &folder).arg("--data").arg(&data))
            .ends_with(0)
            .json()
    };
    let tip = connect()["tip"].clone();
    fs::write(folder.join("blk00000.dat"), hiding).unwrap();
    assert_eq!(connect()["tip"], tip);
    // The last block hides one that came later.
    write(&folder, &[&blocks[..140].concat(), &cover(&blocks[140], &[&inner])]);
    assert_eq!(tip_of(&folder), tip.as_str().unwrap());
}

/// What is found wrong before hidden blocks show is counted once, and in the same words by all;
/// what they mend is not counted.
#[test]
fn findings_beside_hidden_blocks() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let torn = |height: usize| {
        let block = &blocks[height][8..blocks[height].len() - 20];
        [&blocks[height][..4], &(block.len() as u32).to_le_bytes(), block].concat()
    };
    let same = |answers: &Answers, status: i32| {
        assert_eq!(answers.statuses()[..2], [status; 2]);
        let (connect, verify) = (answers.connect.json(), answers.verify.json());
        assert_eq!(connect["why"], verify["why"]);
        connect["why"].clone()
    };
    // One torn block, one that is not there, and some inside another.
    let inner: Vec<&[u8]> = blocks[94..97].iter().map(Vec::as_slice).collect();
    write(
        &folder,
        &[
            &blocks[..38].concat(),
            &torn(38),
            &blocks[39..67].concat(),
            &blocks[68..93].concat(),
            &cover(&blocks[93], &inner),
            &blocks[97..].concat(),
        ],
    );
    let why = same(&Answers::of(&scratch, &folder), 3);
    assert_eq!(why.as_array().unwrap().len(), 2, "{why:#}");
    let unreadable = why[0].as_str().unwrap();
    assert!(unreadable.starts_with("1 unreadable"), "{why:#}");
    assert_eq!(unreadable.matches("blk00000.dat").count(), 1, "{why:#}");
    // The good copy of the torn one is among the hidden blocks, with one of which nothing was
    // known.
    let (beside, _) = sibling(&blocks[101]);
    write(
        &folder,
        &[
            &blocks[..38].concat(),
            &torn(38),
            &blocks[39..100].concat(),
            &cover(&blocks[100], &[&blocks[38], &beside]),
            &blocks[101..].concat(),
        ],
    );
    let answers = Answers::of(&scratch, &folder);
    same(&answers, 0);
    assert_eq!(answers.connect.json()["height"], TIP);
    refuses_to_export(&scratch, &folder);
}

/// The snapshot of a directory's set, audited against a folder of block files.
fn audited(scratch: &Scratch, folder: &Path) -> (i32, Value) {
    let snapshot = scratch.join("utxo.dat");
    let _ = fs::remove_file(&snapshot);
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]).arg(scratch.join("odd-data"));
    run(dump.arg(&snapshot)).ends_with(0);
    let mut audit = blockmill();
    audit.args(["audit", "--network", "regtest", "--json", "--snapshot"]);
    let audit = run(audit.arg(&snapshot).arg("--blocks").arg(folder));
    (audit.status, audit.json())
}

/// The set that `connect` ends with is that of the chain of most work, or the audit leaves that
/// open: a branch that is hidden in a record is in it, and one with a block that is not valid is
/// not.
#[test]
fn the_set_of_connect_is_not_refuted() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    // The last block in the record of an earlier one.
    write(
        &folder,
        &[
            &blocks[..100].concat(),
            &cover(&blocks[100], &[&blocks[140]]),
            &blocks[101..140].concat(),
        ],
    );
    Answers::of(&scratch, &folder);
    let (status, audit) = audited(&scratch, &folder);
    assert_eq!((status, &audit["verdict"]), (0, &"proved".into()), "{audit:#}");
    // A branch of less work, until a hidden block is found.
    let (stale, other) = sibling(&blocks[139]);
    let child = child(&other);
    let undo = undo_records(&fs::read(folder.join("rev00000.dat")).unwrap());
    let of = |block: &bitcoin::Block| undo_record(&blocks[0][..4], block.header.prev_blockhash, &[0]);
    let (_, child_block) = &child;
    fs::write(
        folder.join("rev00000.dat"),
        [undo.concat(), of(&other), of(child_block)].concat(),
    )
    .unwrap();
    write(
        &folder,
        &[
            &blocks[..100].concat(),
            &cover(&blocks[100], &[&child.0]),
            &blocks[101..140].concat(),
            &stale,
        ],
    );
    let answers = whole(&scratch, &folder);
    assert_eq!(answers.connect.json()["tip"], child_block.block_hash().to_string());
    let (status, audit) = audited(&scratch, &folder);
    assert_eq!((status, &audit["verdict"]), (0, &"proved".into()), "{audit:#}");
    // Of the branch with more work a block is torn, is another content, or breaks a rule.
    let greedy = {
        let mut block = other.clone();
        block.txdata[0].output[0].value = bitcoin::Amount::from_sat(100 * 100_000_000);
        remade(block)
    };
    let record = |bytes: &[u8]| [&stale[..4], &(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let mut mutated = stale.clone();
    *mutated.last_mut().unwrap() ^= 1;
    let cases = [
        (record(&stale[8..stale.len() - 20]), child.0.clone(), 3),
        (mutated, child.0.clone(), 1),
        (greedy.0, self::child(&greedy.1).0, 1),
    ];
    for (bad, child, status) in cases {
        write(&folder, &[&blocks[..140].concat(), &bad, &child]);
        let answers = Answers::of(&scratch, &folder);
        assert_eq!(
            (answers.connect.status, &answers.connect.json()["height"]),
            (status, &139.into())
        );
        let (status, audit) = audited(&scratch, &folder);
        assert_eq!((status, &audit["verdict"]), (3, &"incomplete".into()), "{audit:#}");
    }
    // A good one refutes.
    write(&folder, &[&blocks[..140].concat()]);
    Answers::of(&scratch, &folder).end_with(0, 139);
    write(&folder, &[&blocks[..140].concat(), &stale, &child.0]);
    let (status, audit) = audited(&scratch, &folder);
    assert_eq!(
        (status, &audit["findings"][0]["kind"]),
        (1, &"chain".into()),
        "{audit:#}"
    );
}

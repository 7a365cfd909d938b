//! Several copies of a block, and blocks inside the record of another.

use super::{Answers, TIP, clear, command, cover, write};
use crate::common::{Scratch, blockmill, run};
use std::path::Path;

/// What makes a bad copy of a block.
type Change<'a> = &'a dyn Fn(&mut bitcoin::Block);

/// Any number of bad copies before the good one: with witnesses that are not the block's, without
/// its witnesses, and with its last transactions doubled.
#[test]
fn bad_copies_before_the_good_one() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let bad = |record: &[u8], change: Change<'_>| {
        let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&record[8..]).unwrap();
        change(&mut block);
        let bytes = bitcoin::consensus::serialize(&block);
        [&record[..4], &(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    let forged = |block: &mut bitcoin::Block| {
        for transaction in block.txdata.iter_mut().skip(1) {
            for input in &mut transaction.input {
                if !input.witness.is_empty() {
                    input.witness.push(b"forged");
                }
            }
        }
    };
    let stripped = |block: &mut bitcoin::Block| {
        for input in block.txdata.iter_mut().flat_map(|transaction| &mut transaction.input) {
            input.witness.clear();
        }
    };
    let doubled = |block: &mut bitcoin::Block| {
        // A tree of an odd number of leaves has the root of the same with the last one doubled.
        if block.txdata.len() % 2 == 1 && block.txdata.len() > 1 {
            let last = block.txdata.last().cloned();
            block.txdata.extend(last);
        }
    };
    let set = scratch.join("set");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]).arg(scratch.join("data"));
    run(dump.arg(&set)).ends_with(0);
    let kinds: [(&str, Change<'_>); 3] = [("forged", &forged), ("stripped", &stripped), ("doubled", &doubled)];
    for (name, change) in kinds {
        let copies: Vec<(usize, Vec<u8>)> = blocks
            .iter()
            .map(|record| bad(record, change))
            .enumerate()
            .filter(|(height, copy)| *copy != blocks[*height])
            .collect();
        let (height, copy) = copies.last().unwrap_or_else(|| panic!("no block can be {name}"));
        for count in [1, 7, 8, 9, 40] {
            let parts = [
                blocks[..*height].concat(),
                copy.repeat(count),
                blocks[*height..].concat(),
            ];
            write(&folder, &[&parts.concat()]);
            let answers = Answers::of(&scratch, &folder).are_whole();
            assert!(!answers.export.stdout.contains(&hex(b"forged")), "{name}");
        }
        // Without the good one.
        write(
            &folder,
            &[
                &blocks[..*height].concat(),
                &copy.repeat(9),
                &blocks[*height + 1..].concat(),
            ],
        );
        let answers = Answers::of(&scratch, &folder);
        assert_eq!(answers.statuses(), [1; 3], "{name}");
        let (connect, verify) = (answers.connect.json(), answers.verify.json());
        assert_eq!(connect["why"], verify["why"], "{name}");
        let reason = connect["rejected"][0]["reason"].as_str().unwrap();
        answers.say(&[reason]);
        // What lies there may be damaged, so an audit refutes nothing. The chain is not whole.
        let audit = run(command("audit", &folder).arg("--snapshot").arg(&set)).ends_with(3);
        let (audit, why) = (audit.json(), format!("({reason})"));
        assert_eq!(audit["whole"], false, "{name}");
        assert!(audit["why"][0].as_str().unwrap().ends_with(&why), "{name}: {audit:#}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Blocks inside the record of another, which shows only when that block is read: nothing after it
/// is without a parent.
#[test]
fn blocks_inside_the_last_record() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let cover = |from: usize, to: usize| {
        let mut cover = blocks[from].clone();
        let length: usize = blocks[from..=to].iter().map(Vec::len).sum();
        cover[4..8].copy_from_slice(&(length as u32 - 8).to_le_bytes());
        [cover, blocks[from + 1..=to].concat()].concat()
    };
    // All above a block, and once more inside what was hidden.
    write(&folder, &[&blocks[..100].concat(), &cover(100, 140)]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.connect.status, 0, "{:#?}", answers.connect);
    assert_eq!(answers.connect.json()["height"], TIP);
    assert_eq!(answers.verify.json()["valid"], TIP, "{:#?}", answers.verify);
    assert_eq!(answers.verify.status, 0);
    let data = scratch.join("odd-data");
    let of_files = ["--network", "regtest", "--blocks", folder.to_str().unwrap()];
    let of_data = ["--data", data.to_str().unwrap()];
    let export = |kind: &str, source: &[&str], more: &str, out: &Path| {
        let mut export = blockmill();
        export.args(["export", kind]).args(source).args(more.split_whitespace());
        run(export.arg("--out").arg(out))
    };
    let refused = |kind: &str, more: &str, out: &Path| {
        export(kind, &of_files, more, out).ends_with(3).says(&[
            "inside the records of others",
            "run `connect`, then export with --data DIR",
        ])
    };
    assert_eq!(answers.export.status, 3);
    // Nothing that rests on the blocks that the search shows gets a name, in no form of table.
    let (rows, partitions) = (scratch.join("rows.jsonl"), scratch.join("partitions"));
    let database = scratch.join("database.sqlite");
    refused("blocks", "", &rows);
    refused("outputs", "--append", &database);
    refused("filters", "--from 50 --format csv", Path::new("-"));
    refused("filters", "--from 100 --format csv", &scratch.join("filters.csv"));
    for _ in 0..2 {
        refused("outputs", "--append --partition 30 --format jsonl", &partitions);
        assert!(!partitions.join("0000090-0000119.jsonl").exists());
    }
    for absent in ["rows.jsonl", "database.sqlite", "filters.csv"] {
        assert!(!scratch.join(absent).exists(), "{absent}");
    }
    // The data directory knows them. What was written before goes on.
    export("blocks", &of_data, "", &rows).ends_with(0);
    export("outputs", &of_data, "--append", &partitions).ends_with(0);
    export("outputs", &of_data, "--append", &database).ends_with(0);
    // The chain of the search ends below those tables: to go on would remove rows.
    for (more, out) in [("--append", &partitions), ("--append", &database)] {
        export("outputs", &of_files, more, out).ends_with(3).says(&[
            "goes to height 140",
            "ends at height 100",
            "then export with --data DIR",
        ]);
    }
    let snapshot = scratch.join("utxo.dat");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]);
    run(dump.arg(scratch.join("odd-data")).arg(&snapshot)).ends_with(0);
    let mut audit = blockmill();
    audit.args(["audit", "--network", "regtest", "--json", "--snapshot"]);
    let audited = run(audit.arg(&snapshot).arg("--blocks").arg(&folder)).ends_with(0);
    assert_eq!(audited.json()["verdict"], "proved");
    write(&folder, &[&blocks.concat()]);
    let plain = scratch.join("plain");
    export("blocks", &of_files, "--format jsonl", &plain).ends_with(0);
    assert!(std::fs::read(&rows).unwrap() == std::fs::read(&plain).unwrap());
    std::fs::remove_file(&plain).unwrap();
    export("outputs", &of_files, "--partition 30 --format jsonl", &plain).ends_with(0);
    for name in [
        "0000000-0000029.jsonl",
        "0000090-0000119.jsonl",
        "0000120-0000149.jsonl",
    ] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
        assert!(read(&partitions) == read(&plain), "{name}");
    }
}

/// Blocks that lie inside the record of another: a second run has the same answer, and earlier sets
/// are there, also once the files were moved.
#[test]
fn a_second_run_over_hidden_blocks() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let data = scratch.join("odd-data");
    let connect = |folder: &Path| run(command("connect", folder).arg("--data").arg(&data));
    let at_50 = |more: &[&str]| {
        let mut stats = blockmill();
        run(stats
            .args(["stats", "--json", "--at", "50", "--data"])
            .arg(&data)
            .args(more))
    };
    let inner: Vec<&[u8]> = blocks[61..90].iter().map(Vec::as_slice).collect();
    write(
        &folder,
        &[
            &blocks[..60].concat(),
            &cover(&blocks[60], &inner),
            &blocks[90..].concat(),
        ],
    );
    let mut answers = Vec::new();
    for _ in 0..3 {
        assert_eq!(connect(&folder).ends_with(0).json()["height"], TIP);
        answers.push(at_50(&[]).ends_with(0).json()["hash_serialized_3"].clone());
    }
    let moved = scratch.join("moved");
    std::fs::rename(&folder, &moved).unwrap();
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    at_50(&[]).ends_with(3);
    let blocks_there = ["--blocks", moved.to_str().unwrap()];
    answers.push(at_50(&blocks_there).ends_with(0).json()["hash_serialized_3"].clone());
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let mut audit = blockmill();
    audit.args(["audit", "--json", "--data"]).arg(&data).args(blocks_there);
    assert_eq!(run(&mut audit).ends_with(0).json()["verdict"], "proved");
    // What is no block's header inside a record is said by each run.
    std::fs::remove_dir_all(&data).unwrap();
    let junk = [&blocks[0][..4], &80u32.to_le_bytes(), &[7; 80]].concat();
    write(
        &moved,
        &[
            &blocks[..60].concat(),
            &cover(&blocks[60], &[&junk]),
            &blocks[61..].concat(),
        ],
    );
    for _ in 0..3 {
        let run = connect(&moved).ends_with(3).says(&["high-hash"]);
        assert_eq!(run.json()["height"], TIP);
    }
    // And by each export that goes on with a table.
    let table = scratch.join("table");
    for (to, status) in [("50", 0), ("80", 3), ("130", 3), ("140", 3), ("140", 3)] {
        let mut export = blockmill();
        export.args(["export", "outputs", "--network", "regtest", "--format", "csv"]);
        export
            .args(["--partition", "30", "--append", "--to", to, "--out"])
            .arg(&table);
        run(export.arg("--blocks").arg(&moved)).ends_with(status);
        let mut export = blockmill();
        export.args([
            "export",
            "outputs",
            "--network",
            "regtest",
            "--append",
            "--to",
            to,
            "--out",
        ]);
        export.arg(scratch.join("table.sqlite"));
        run(export.arg("--blocks").arg(&moved)).ends_with(status);
    }
}

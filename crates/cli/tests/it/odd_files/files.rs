//! Files that are missing, moved, linked, of another kind, or of another network.

use super::{Answers, TIP, clear, command, write};
use crate::common::core_folder::made;
use crate::common::{Scratch, blockmill, run};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn a_file_in_the_middle_is_missing() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let files = [0..50, 50..90, 90..141];
    for (number, heights) in files.into_iter().enumerate() {
        std::fs::write(folder.join(format!("blk{number:05}.dat")), blocks[heights].concat()).unwrap();
        let rev = folder.join(format!("rev{number:05}.dat"));
        std::fs::copy(scratch.join("data").join("undo.dat"), rev).unwrap();
    }
    Answers::of(&scratch, &folder).are_whole();
    let set = scratch.join("set.utxo");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--at", "49", "--data"])
        .arg(scratch.join("data"));
    run(dump.arg(&set)).ends_with(0);
    let audit = || run(command("audit", &folder).arg("--snapshot").arg(&set));
    assert_eq!(audit().ends_with(0).json()["whole"], true);
    std::fs::remove_file(folder.join("blk00001.dat")).unwrap();
    let incomplete = audit().ends_with(3).json();
    assert_eq!(
        (&incomplete["verdict"], &incomplete["whole"]),
        (&"incomplete".into(), &false.into())
    );
    Answers::of(&scratch, &folder)
        .end_with(3, 49)
        .say(&["51 blocks are left over: their parent is in none of the files"]);
    // A link that leads nowhere says so, even for the last file.
    std::fs::write(folder.join("blk00001.dat"), blocks[50..90].concat()).unwrap();
    std::fs::remove_file(folder.join("blk00002.dat")).unwrap();
    symlink("/nonexistent/blk00002.dat", folder.join("blk00002.dat")).unwrap();
    Answers::of(&scratch, &folder).end_with(3, 89).say(&[
        "1 block file is missing",
        "blk00002.dat",
        "a link to a file that is not there",
    ]);
    // As of a pruned node.
    std::fs::remove_file(folder.join("blk00002.dat")).unwrap();
    std::fs::remove_file(folder.join("blk00000.dat")).unwrap();
    let data = scratch.join("pruned");
    run(command("connect", &folder).arg("--data").arg(&data))
        .ends_with(3)
        .says(&["left over", "pruned", "snapshot load --headers"]);
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["pruned", "snapshot load --headers"]);
}

#[test]
fn linked_files_with_a_key() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    let disk = scratch.join("disk");
    std::fs::create_dir(&disk).unwrap();
    for (name, target) in [("blk00000.dat", "old-blocks"), ("rev00000.dat", "old-undo")] {
        std::fs::rename(folder.join(name), disk.join(target)).unwrap();
        symlink(disk.join(target), folder.join(name)).unwrap();
    }
    Answers::of(&scratch, &folder).are_whole();
    // Only the blocks are linked.
    std::fs::remove_file(folder.join("rev00000.dat")).unwrap();
    std::fs::rename(disk.join("old-undo"), folder.join("rev00000.dat")).unwrap();
    Answers::of(&scratch, &folder).are_whole();
    // The folder is linked, too.
    let link = scratch.join("link");
    symlink(&folder, &link).unwrap();
    Answers::of(&scratch, &link).are_whole();
}

#[test]
fn what_is_no_regular_file_is_named() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    let fifo = folder.join("blk00002.dat");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::create_dir(folder.join("blk00003.dat")).unwrap();
    // Blocks may be missing there.
    Answers::of(&scratch, &folder).end_with(3, TIP).say(&[
        "blk00002.dat: passed over: it is no regular file",
        "blk00003.dat: passed over",
    ]);
    run(command("connect", &fifo).arg("--data").arg(scratch.join("none")))
        .ends_with(3)
        .says(&["blk00002.dat", "no regular file"]);
    // An undo file and a key that are pipes.
    std::fs::remove_file(folder.join("rev00001.dat")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(folder.join("rev00001.dat"))
            .status()
            .unwrap()
            .success()
    );
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["rev00001.dat", "no regular file"]);
    std::fs::remove_file(folder.join("xor.dat")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(folder.join("xor.dat"))
            .status()
            .unwrap()
            .success()
    );
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["xor.dat", "no regular file"]);
}

/// Without its key, and of another network, a directory is not taken for an empty one.
#[test]
fn a_missing_key_and_another_network() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    std::fs::remove_file(folder.join("xor.dat")).unwrap();
    let verify = run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["xor.dat missing"]);
    assert_eq!(verify.json()["whole"], false);
    let other = scratch.join("clear-of-another");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(scratch.join("chain").join("blk00000.dat"), other.join("blk00000.dat")).unwrap();
    let mut testnet = blockmill();
    testnet
        .args(["verify", "--network", "testnet3", "--json", "--blocks"])
        .arg(&other);
    let verify = run(&mut testnet).ends_with(3).says(&["another network (regtest)"]);
    assert_eq!(verify.json()["why"].as_array().unwrap().len(), 1);
}

/// The network's first block is known without a file. A file of undo data has no blocks.
#[test]
fn the_first_block_is_in_no_file() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    write(&folder, &[&blocks[1..].concat()]);
    let without = Answers::of(&scratch, &folder).are_whole();
    write(&folder, &[&blocks.concat()]);
    let with = Answers::of(&scratch, &folder).are_whole();
    assert_eq!(without.export.stdout, with.export.stdout);
    let undo = std::fs::read(folder.join("rev00000.dat")).unwrap();
    write(&folder, &[&undo]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!((answers.connect.status, answers.verify.status), (3, 3));
}

/// Block files that were moved since they were connected.
#[test]
fn an_earlier_set_from_files_that_were_moved() {
    let scratch = Scratch::new();
    let (folder, _) = clear(&scratch);
    let data = scratch.join("odd-data");
    run(command("connect", &folder).arg("--data").arg(&data)).ends_with(0);
    let moved = scratch.join("moved");
    std::fs::rename(&folder, &moved).unwrap();
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let stats = |data: &Path, more: &[&str]| {
        let mut stats = blockmill();
        run(stats
            .args(["stats", "--json", "--at", "120", "--data"])
            .arg(data)
            .args(more))
    };
    stats(&data, &[])
        .ends_with(3)
        .says(&["in no block file that is still there"]);
    let found = stats(&data, &["--blocks", moved.to_str().unwrap()]).ends_with(0).json();
    let expected = stats(&scratch.join("data"), &[]).ends_with(0).json();
    assert_eq!(found["hash_serialized_3"], expected["hash_serialized_3"]);
    // Without --at there is nothing to look for.
    let mut alone = blockmill();
    alone.args(["stats", "--data"]).arg(&data).arg("--blocks").arg(&moved);
    run(&mut alone).ends_with(2);
}

//! `verify --blocks`: the blocks of block files against the undo data beside them, in the forms in
//! which Bitcoin Core leaves both.

use crate::common::{Run, Scratch, blockmill, connect, generate_command, hash_of, records, run};
use std::path::{Path, PathBuf};

const KEY: [u8; 8] = [0x51, 7, 0, 0xfa, 0xbf, 9, 1, 0xee];

fn xored(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .zip(KEY.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect()
}

fn verify(blocks: &Path, more: &[&str]) -> Run {
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--blocks"]).arg(blocks);
    run(command.args(more))
}

/// A folder as Core's `blocks`: blocks in two files, out of order; their undo data, which is in the
/// form of Core's in our data directory, in as many; both obfuscated, and with tails that were
/// allocated and not written. Returns the folder, and the chain's file as it was made.
fn made(scratch: &Scratch) -> (PathBuf, Vec<u8>, Vec<u8>) {
    let (out, data) = (scratch.join("chain"), scratch.join("data"));
    let mut command = generate_command(&out, "mixed", 140);
    run(command.args(["--inputs", "2000"])).ends_with(0);
    run(&mut connect(&out, &data, "regtest")).ends_with(0);
    let chain = std::fs::read(out.join("blk00000.dat")).unwrap();
    let undo = std::fs::read(data.join("undo.dat")).unwrap();
    let folder = scratch.join("blocks");
    std::fs::create_dir(&folder).unwrap();
    let places = records(&chain);
    // Records of undo data are followed by a checksum.
    let mut undos = Vec::new();
    let mut at = 0;
    while at < undo.len() {
        let length = u32::from_le_bytes(undo[at + 4..at + 8].try_into().unwrap()) as usize;
        undos.push(at..at + 8 + length + 32);
        at += 8 + length + 32;
    }
    assert_eq!((places.len(), undos.len()), (141, 140));
    let first: Vec<usize> = (0..70).rev().collect();
    let second: Vec<usize> = (70..141).collect();
    for (number, heights) in [first, second].into_iter().enumerate() {
        let mut blocks: Vec<u8> = heights
            .iter()
            .flat_map(|&height| chain[places[height].clone()].to_vec())
            .collect();
        let mut sorted = heights;
        sorted.sort_unstable();
        let with_undo = sorted.iter().filter(|&&height| height > 0);
        let mut undo: Vec<u8> = with_undo
            .flat_map(|&height| undo[undos[height - 1].clone()].to_vec())
            .collect();
        blocks = xored(&blocks);
        undo = xored(&undo);
        blocks.resize(blocks.len() + 5_000, 0);
        undo.resize(undo.len() + 3_000, 0);
        std::fs::write(folder.join(format!("blk{number:05}.dat")), blocks).unwrap();
        std::fs::write(folder.join(format!("rev{number:05}.dat")), undo).unwrap();
    }
    std::fs::write(folder.join("xor.dat"), KEY).unwrap();
    (folder, chain, undo)
}

#[test]
fn all_blocks_or_one_are_verified() {
    let scratch = Scratch::new();
    let (folder, chain, _) = made(&scratch);
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
    let hash = hash_of(&chain[records(&chain)[120].clone()]).to_string();
    let one = verify(&folder, &["--hash", &hash, "--par", "1"]).ends_with(0);
    assert_eq!(row(&one, "valid"), "1");
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
    let (folder, chain, _) = made(&scratch);
    // A byte of undo data.
    let path = folder.join("rev00001.dat");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    let place = good.len() / 2;
    bad[place] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let run =
        verify(&folder, &[])
            .ends_with(3)
            .says(&["rev00001.dat", "no undo data there has its checksum", "height"]);
    assert!(run.stdout.contains("valid         139"), "{run:#?}");
    std::fs::remove_file(&path).unwrap();
    verify(&folder, &[])
        .ends_with(3)
        .says(&["there is no file of undo data"]);
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

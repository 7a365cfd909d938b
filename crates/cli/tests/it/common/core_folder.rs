//! Blocks and undo data as Bitcoin Core leaves them.

use crate::common::{Scratch, connect, generate_command, records, run};
use std::path::PathBuf;

const KEY: [u8; 8] = [0x51, 7, 0, 0xfa, 0xbf, 9, 1, 0xee];

fn xored(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .zip(KEY.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect()
}

/// A folder as Core's `blocks`: blocks in two files, out of order; their undo data, which is in the
/// form of Core's in our data directory, in as many; both obfuscated, and with tails that were
/// allocated and not written. Returns the folder, and the chain's file as it was made. The chain is
/// in the folder `chain` of the scratch, and connected in `data`.
pub(crate) fn made(scratch: &Scratch) -> (PathBuf, Vec<u8>) {
    let (out, data) = (scratch.join("chain"), scratch.join("data"));
    let mut command = generate_command(&out, "mixed", 140);
    run(command.args(["--inputs", "2000"])).ends_with(0);
    run(&mut connect(&out, &data, "regtest")).ends_with(0);
    let chain = std::fs::read(out.join("blk00000.dat")).unwrap();
    let undo = std::fs::read(data.join("undo.dat")).unwrap();
    let folder = scratch.join("blocks");
    std::fs::create_dir(&folder).unwrap();
    let blocks_at = records(&chain);
    // Records of undo data are followed by a checksum.
    let mut undos = Vec::new();
    let mut at = 0;
    while at < undo.len() {
        let length = u32::from_le_bytes(undo[at + 4..at + 8].try_into().unwrap()) as usize;
        undos.push(at..at + 8 + length + 32);
        at += 8 + length + 32;
    }
    assert_eq!((blocks_at.len(), undos.len()), (141, 140));
    let first: Vec<usize> = (0..70).rev().collect();
    let second: Vec<usize> = (70..141).collect();
    for (number, heights) in [first, second].into_iter().enumerate() {
        let mut blocks: Vec<u8> = heights
            .iter()
            .flat_map(|&height| chain[blocks_at[height].clone()].to_vec())
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
    (folder, chain)
}

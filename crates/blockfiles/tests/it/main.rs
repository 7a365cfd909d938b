//! Scanning of block files: the content of real directories, and damage of every kind.

mod damage;
mod hostile;
mod keys;
mod lengths;
mod tails;

use blockmill_block::hash::sha256d;
use blockmill_block::{BlockHash, Magic, Network};
use blockmill_blockfiles::{BlockFiles, DamageKind, Scan};

const MAGIC: Magic = Magic([0xfa, 0xbf, 0xb5, 0xda]);

/// A block that decodes and has a correct merkle root: one transaction with one input and a script
/// of `length` bytes.
fn block(number: u8, length: u8) -> Vec<u8> {
    block_of(number, &vec![number; usize::from(length)], &[0x51])
}

/// A block that spends nothing and has these bytes in an output.
fn block_with(number: u8, script: &[u8]) -> Vec<u8> {
    block_of(number, &[number], script)
}

/// A block of one transaction, with these scripts in its input and its output.
fn block_of(number: u8, script_sig: &[u8], script_pubkey: &[u8]) -> Vec<u8> {
    let mut transaction = vec![1, 0, 0, 0, 1];
    transaction.extend([0; 32]);
    transaction.extend([0xff; 4]);
    transaction.push(script_sig.len() as u8);
    transaction.extend(script_sig);
    transaction.extend([0xff; 4]);
    transaction.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, script_pubkey.len() as u8]);
    transaction.extend(script_pubkey);
    transaction.extend([0; 4]);
    let mut bytes = vec![number; 36];
    bytes.extend(sha256d(&transaction));
    bytes.extend([number; 12]);
    bytes.push(1);
    bytes.extend(transaction);
    bytes
}

fn record(block: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.0.to_vec();
    bytes.extend((block.len() as u32).to_le_bytes());
    bytes.extend(block);
    bytes
}

fn hash(block: &[u8]) -> BlockHash {
    BlockHash(sha256d(&block[..80]))
}

fn scan_bytes(bytes: &[u8], key: Option<[u8; 8]>) -> (Scan, Vec<Vec<u8>>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blk00000.dat");
    std::fs::write(&path, bytes).unwrap();
    if let Some(key) = key {
        std::fs::write(directory.path().join("xor.dat"), key).unwrap();
    }
    let mut files = BlockFiles::new();
    files.add(directory.path()).unwrap();
    let scan = files.scan(0, MAGIC).unwrap();
    let blocks = scan
        .records
        .iter()
        .map(|record| files.read(&record.position).unwrap())
        .collect();
    (scan, blocks)
}

fn check(bytes: &[u8], expected: &[&[u8]], damages: &[(u64, DamageKind)]) -> Scan {
    let (scan, blocks) = scan_bytes(bytes, None);
    assert_eq!(blocks, expected);
    let found: Vec<_> = scan.damages.iter().map(|damage| (damage.offset, damage.kind)).collect();
    assert_eq!(found, damages);
    for (record, block) in scan.records.iter().zip(expected) {
        assert_eq!(record.hash, hash(block));
    }
    scan
}

#[test]
fn real_chains_scan_without_damage() {
    let Some(data) = blockmill_realdata::shared_data("chains") else {
        return;
    };
    let mainnet = ("mainnet_0_14131.dat", Network::Bitcoin.magic(), 14_132);
    let testnet3 = ("testnet3_0_4000.dat", Network::Testnet3.magic(), 4_001);
    for (name, magic, blocks) in [mainnet, testnet3] {
        let mut files = BlockFiles::new();
        files.add(&data.join(name)).unwrap();
        let scan = files.scan(0, magic).unwrap();
        assert_eq!((scan.records.len(), scan.damages), (blocks, vec![]));
    }
}

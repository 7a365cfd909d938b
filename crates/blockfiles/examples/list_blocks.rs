//! Lists the blocks of block files: hash, transactions, bytes, and where the block is. Heights are
//! unknown to block files: they follow from the chain of headers.
//!
//! `list_blocks PATH [NETWORK]`. Without a path, the files of a short generated chain.

use blockmill_block::{Block, Magic, Network};
use blockmill_blockfiles::BlockFiles;
use blockmill_chaingen::{ChainSpec, Profile, write_chain};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut out = io::stdout().lock();
    let Some(path) = arguments.next() else {
        return list_generated(&mut out);
    };
    let network: Network = arguments.next().map_or(Ok(Network::Bitcoin), |name| name.parse())?;
    list(Path::new(&path), network.magic(), &mut out)
}

fn list(path: &Path, magic: Magic, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let mut files = BlockFiles::new();
    for file in files.add(path)? {
        let scan = files.scan(file, magic)?;
        for record in &scan.records {
            let block = Block::decode(files.read(&record.position)?)?;
            writeln!(
                out,
                "{} {:5} transactions {:7} bytes  {} at {}",
                record.hash,
                block.transaction_count(),
                record.position.length,
                files.path(file).display(),
                record.position.offset,
            )?;
        }
        for damage in &scan.damages {
            writeln!(out, "damaged: {damage}")?;
        }
    }
    Ok(())
}

fn list_generated(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let spec = ChainSpec {
        inputs: 200,
        ..ChainSpec::new(Profile::Utxo, 110, 1)
    };
    write_chain(directory.path(), &spec, &mut |_| ())?;
    list(directory.path(), Network::Regtest.magic(), out)
}

#[test]
fn a_generated_chain_is_listed() {
    let mut out = Vec::new();
    list_generated(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 111);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with(
        "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206     1 transactions     285 bytes"
    ));
    assert!(first.ends_with("blk00000.dat at 8"));
}

#[test]
fn damage_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blk00000.dat");
    std::fs::write(&path, [7; 100]).unwrap();
    let mut out = Vec::new();
    list(&path, Network::Bitcoin.magic(), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().starts_with("damaged: "));
}

//! Writes a folder as Bitcoin Core has it: `core_folder FOLDER BLOCKS INPUTS` of a generated chain,
//! `core_folder FOLDER FILE` of the blocks in a file.
//!
//! - `blocks`: block files with their undo files, and their key;
//! - `set`: a snapshot of the last block's set;
//! - `lie`: the same with an amount that is not true;
//! - `headers`: all headers but the first.

use blockmill_chaingen::bitcoin::Network;
use blockmill_chaingen::bitcoin::consensus::{deserialize, serialize};
use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use blockmill_chaingen::{ChainSpec, Profile, generate};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, mut chain) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder, file] => (Path::new(folder), CoreChain::of_file(&std::fs::read(file)?)),
        [folder, blocks, inputs] => (Path::new(folder), generated(blocks.parse()?, inputs.parse()?)?),
        _ => return Err("usage: core_folder FOLDER BLOCKS INPUTS, or core_folder FOLDER FILE".into()),
    };
    chain.write(&folder.join("blocks"), &CoreLayout::default())?;
    chain.write_snapshot(&folder.join("set"))?;
    let headers = chain
        .blocks
        .iter()
        .skip(1)
        .flat_map(|block| serialize(&block.block.header));
    std::fs::write(folder.join("headers"), headers.collect::<Vec<_>>())?;
    let coin = chain.coins.values_mut().next().ok_or("a chain without coins")?;
    coin.value += 1;
    chain.write_snapshot(&folder.join("lie"))?;
    eprintln!("height {}, {} coins", chain.blocks.len() - 1, chain.coins.len());
    Ok(())
}

fn generated(blocks: u32, inputs: u64) -> Result<CoreChain, Box<dyn Error>> {
    let mut spec = ChainSpec::new(Profile::Mixed, blocks, 1);
    spec.inputs = inputs;
    let mut decoded = Vec::new();
    let mut sink = |_, bytes: &[u8]| {
        decoded.push(deserialize(bytes).map_err(std::io::Error::other)?);
        Ok(())
    };
    generate(&spec, &mut sink, &mut |_| ())?;
    Ok(CoreChain::new(Network::Regtest.magic().to_bytes(), decoded))
}

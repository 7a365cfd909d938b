//! Prints a block that is given in hex on stdin. Without input, the first block of the main
//! network.

use blockmill_block::{Block, hex};
use std::error::Error;
use std::io::{self, IsTerminal, Write};

const GENESIS: &str = concat!(
    "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f61",
    "7fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c01010000000100000000000000000000000000000000000000",
    "00000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63",
    "656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a0100",
    "0000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de",
    "5c384df7ba0b8d578a4c702b6bf11d5fac00000000"
);

fn main() -> Result<(), Box<dyn Error>> {
    let stdin = io::stdin();
    let mut text = match stdin.is_terminal() {
        true => String::new(),
        false => io::read_to_string(stdin)?,
    };
    if text.trim().is_empty() {
        text = GENESIS.to_owned();
    }
    print(text.trim(), &mut io::stdout().lock())
}

fn print(text: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let block = Block::decode(hex::decode(text)?)?;
    writeln!(out, "block {}", block.hash())?;
    writeln!(out, "parent {}", block.header().prev_block_hash)?;
    writeln!(out, "{} bytes, weight {}", block.bytes().len(), block.weight())?;
    for transaction in block.transactions() {
        writeln!(out, "transaction {}", transaction.txid())?;
        for input in transaction.inputs() {
            writeln!(out, "  spends {}", input.previous_output())?;
        }
        for output in transaction.outputs() {
            let script = hex::encode(output.script_pubkey());
            writeln!(out, "  pays {} satoshi to {script}", output.value())?;
        }
    }
    Ok(())
}

#[test]
fn the_first_block_is_printed() {
    let mut out = Vec::new();
    print(GENESIS, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("block 000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f\n"));
    assert!(text.contains("285 bytes, weight 1140\n"));
    assert!(text.contains("  pays 5000000000 satoshi to 4104678a"));
    assert!(print("00", &mut Vec::new()).is_err());
}

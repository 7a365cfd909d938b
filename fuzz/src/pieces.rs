//! Block files made of records, padding and other bytes, as the fuzzer's bytes choose.

use crate::input::Input;
use crate::parts::{OutputParts, block, coinbase, fix_merkle_root};
use blockmill_block::Magic;
use blockmill_blockfiles::XorKey;
use std::ops::Range;

/// Most pieces of one file.
const PIECES_MAX: usize = 24;

/// A block file made of pieces.
pub struct Made {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Ranges given in stored form. The other bytes are in plain form.
    pub stored: Vec<Range<usize>>,
    /// Offset and length of its blocks, if known: a scan must find exactly these.
    pub records: Option<Vec<(usize, u32)>>,
    /// Offsets of damaged records, with the length that each states.
    pub damaged: Vec<(usize, u32)>,
    /// Whether it has only whole records and padding.
    pub undamaged: bool,
}

impl Made {
    /// The bytes in stored form, under a key.
    pub fn store(&self, key: XorKey) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        key.apply(&mut bytes, 0);
        for range in &self.stored {
            bytes[range.clone()].copy_from_slice(&self.bytes[range.clone()]);
        }
        bytes
    }
}

/// The rest of the input as a file.
pub fn as_it_is(input: &mut Input<'_>) -> Made {
    let from = usize::from(input.u16());
    let bytes = input.rest().to_vec();
    Made {
        stored: Some(from..bytes.len())
            .filter(|range| range.start < range.end)
            .into_iter()
            .collect(),
        bytes,
        records: None,
        damaged: Vec::new(),
        undamaged: false,
    }
}

/// A file of pieces, each named by the input.
pub fn pieces(input: &mut Input<'_>, magic: Magic) -> Made {
    let mut bytes = Vec::new();
    let mut stored = Vec::new();
    let mut records = Vec::new();
    let mut damaged = Vec::new();
    let mut undamaged = true;
    for _ in 0..PIECES_MAX {
        if input.is_empty() {
            break;
        }
        let start = bytes.len();
        match input.u8() % 6 {
            0 | 1 => {
                let block = small_block(input);
                write_record(&mut bytes, magic, block.len() as u32, &block);
                records.push((start + 8, block.len() as u32));
            }
            2 => bytes.resize(start + usize::from(input.u16() % 2000), 0),
            3 => {
                bytes.resize(start + usize::from(input.u16() % 2000), 0);
                stored.push(start..bytes.len());
            }
            4 => {
                undamaged = false;
                let length = usize::from(input.u8());
                bytes.extend(input.take(length));
            }
            _ => {
                let stated = input.u32();
                let block = small_block(input);
                let cut = block.len().min(usize::from(input.u16()));
                write_record(&mut bytes, magic, stated, &block[..cut]);
                if cut == block.len() && stated == block.len() as u32 {
                    records.push((start + 8, stated));
                } else {
                    undamaged = false;
                    damaged.push((start, stated));
                }
            }
        }
    }
    Made {
        bytes,
        stored,
        records: Some(records),
        damaged,
        undamaged,
    }
}

fn write_record(bytes: &mut Vec<u8>, magic: Magic, length: u32, block: &[u8]) {
    bytes.extend(magic.0);
    bytes.extend(length.to_le_bytes());
    bytes.extend(block);
}

/// A block with the right merkle root. The scripts of its transactions hold bytes of the input.
fn small_block(input: &mut Input<'_>) -> Vec<u8> {
    let transactions: Vec<Vec<u8>> = (0..=input.u8() % 3)
        .map(|_| {
            let length = usize::from(input.u8());
            let output = OutputParts {
                value: input.u8().into(),
                script_pubkey: input.take(length).to_vec(),
            };
            coinbase(Vec::new(), output).write()
        })
        .collect();
    let mut block = block(&transactions);
    fix_merkle_root(&mut block);
    block
}

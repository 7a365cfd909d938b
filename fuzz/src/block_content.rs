//! Whether a block's content is that of its header, and copies of which it is not.

use crate::block_tree::with_witness;
use crate::parts::{block, rewrite};
use blockmill_block::hash::sha256d;
use blockmill_block::{Block, Header};

/// What is wrong with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFault {
    /// The coinbase has another witness.
    Witness,
    /// The last transactions are there twice, which may leave the merkle root as it is.
    Doubled,
    /// A transaction is missing.
    Missing,
}

impl CopyFault {
    /// A fault by one byte.
    pub fn of(choice: u8) -> Self {
        [Self::Witness, Self::Doubled, Self::Missing][usize::from(choice) % 3]
    }
}

/// A copy of a block under its own header, with other content.
pub fn faulty_copy(bytes: &[u8], fault: CopyFault) -> Vec<u8> {
    let decoded = Block::decode(bytes).expect("the blocks of the tree decode");
    let mut transactions: Vec<Vec<u8>> = decoded
        .transactions()
        .map(|transaction| rewrite(&transaction, true))
        .collect();
    match fault {
        CopyFault::Witness => {
            let plain = rewrite(&decoded.transaction(0), false);
            transactions[0] = with_witness(&plain, 1, &[1; 32]);
        }
        CopyFault::Doubled => {
            let count = transactions.len();
            let doubled = if count % 4 == 2 && count > 2 { 2 } else { 1 };
            transactions.extend_from_within(count - doubled..);
        }
        CopyFault::Missing => drop(transactions.pop()),
    }
    let mut copy = block(&transactions);
    copy[..Header::LENGTH].copy_from_slice(&bytes[..Header::LENGTH]);
    copy
}

/// Whether a block's content is that of its header, by a plain computation.
pub fn is_own_content(block: &Block) -> bool {
    let txids = block.transactions().map(|transaction| transaction.txid().0).collect();
    let Some(root) = root_without_doubles(txids) else {
        return false;
    };
    if root != block.header().merkle_root.0 || block.transaction_count() == 0 {
        return false;
    }
    let coinbase = block.transaction(0);
    let commitments = coinbase.outputs().filter(|output| {
        output.script_pubkey().len() >= 38
            && output
                .script_pubkey()
                .starts_with(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed])
    });
    let Some(commitment) = commitments.last() else {
        return block.transactions().all(|transaction| !transaction.has_witness());
    };
    let wtxids = block
        .transactions()
        .skip(1)
        .map(|transaction| sha256d(&rewrite(&transaction, true)));
    let root = root_of(std::iter::once([0; 32]).chain(wtxids).collect());
    let witness: Vec<&[u8]> = coinbase.input(0).witness().iter().collect();
    witness.len() == 1
        && witness[0].len() == 32
        && sha256d(&[&root[..], witness[0]].concat()) == commitment.script_pubkey()[6..38]
}

fn pairs_of(level: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let pair = |pair: &[[u8; 32]]| sha256d(&[pair[0], pair[pair.len() - 1]].concat());
    level.chunks(2).map(pair).collect()
}

fn root_of(mut level: Vec<[u8; 32]>) -> [u8; 32] {
    while level.len() > 1 {
        level = pairs_of(&level);
    }
    level.first().copied().unwrap_or_default()
}

/// None if two neighbours are the same.
fn root_without_doubles(leaves: Vec<[u8; 32]>) -> Option<[u8; 32]> {
    let mut level = leaves.clone();
    while level.len() > 1 {
        if level.chunks_exact(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        level = pairs_of(&level);
    }
    Some(root_of(leaves))
}

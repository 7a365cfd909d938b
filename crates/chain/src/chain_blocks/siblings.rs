//! Undo data of blocks that have one parent. An undo file has nothing to tell these apart, if the
//! blocks have the same number of transactions with the same numbers of inputs. The coins do: the
//! block at a coin's height makes the output that an input names.

use super::ChainBlocks;
use crate::copies::read_copy;
use crate::index::BlockId;
use blockmill_block::{Block, BlockUndo, CoinRef, OutPoint};
use blockmill_blockfiles::Record;

/// Blocks that are read for the undo data of one, at most: those beside it, and those that made the
/// coins. Usually two tell.
const LOOKS_MAX: usize = 64;

impl ChainBlocks {
    /// Whether undo data that fits a block is that of another block with the same parent, which
    /// lies in the files, too. `looks` counts the blocks that were read.
    pub(super) fn is_of_sibling(&self, id: BlockId, block: &Block, undo: &BlockUndo, looks: &mut usize) -> bool {
        if undo.coins().is_empty() || *looks >= LOOKS_MAX {
            return false;
        }
        let height = self.index.entry(id).height;
        self.siblings(id).any(|sibling| {
            let sibling = self.read_sibling(sibling, height, looks);
            sibling.is_some_and(|sibling| undo.fits(&sibling) && self.is_of_other(height, block, &sibling, undo, looks))
        })
    }

    /// The known blocks that have the parent of a block.
    pub(super) fn siblings(&self, own: BlockId) -> impl Iterator<Item = BlockId> {
        let parent = self.index.entry(own).parent;
        let children = parent.into_iter().flat_map(|parent| self.index.children(parent));
        children.filter(move |&id| id != own)
    }

    /// Where blocks beside the chain lie whose parents are in it, below the tip.
    pub(crate) fn beside(&self) -> Vec<Record> {
        let ids = self.chain.iter().flat_map(|&id| self.siblings(id));
        let records = ids.flat_map(|id| {
            let (header, hash) = (self.index.header(id), self.index.entry(id).hash);
            let positions = self.index.positions(id);
            positions.map(move |position| Record { position, header, hash })
        });
        let mut records: Vec<Record> = records.collect();
        records.sort_by_key(|record| (record.position.file, record.position.offset));
        records
    }

    /// Reads a block beside the chain.
    pub(super) fn read_sibling(&self, id: BlockId, height: u32, looks: &mut usize) -> Option<Block> {
        let hash = &self.index.entry(id).hash;
        self.index.positions(id).find_map(|position| {
            let read = || read_copy(&self.files, position, hash, self.params(), height).ok();
            may_look(looks).then(read).flatten()
        })
    }

    /// Looks for a coin that was made under the outpoint which one of two blocks spends, and not
    /// under that of the other. Whether the first such coin is one that `other` spends.
    pub(super) fn is_of_other(
        &self,
        height: u32,
        block: &Block,
        other: &Block,
        undo: &BlockUndo,
        looks: &mut usize,
    ) -> bool {
        let inputs = inputs(block).zip(inputs(other)).zip(undo.coins().iter());
        let different = inputs.filter(|((own, others), _)| own != others);
        for ((own, others), coin) in different {
            if !may_look(looks) {
                return false;
            }
            let [own, others] = if coin.height == height {
                [makes(block, &own, coin), makes(other, &others, coin)]
            } else {
                // Where that block cannot be read, this coin tells nothing.
                let Ok(maker) = self.block(coin.height) else { continue };
                [makes(&maker, &own, coin), makes(&maker, &others, coin)]
            };
            if own != others {
                return others;
            }
        }
        false
    }
}

/// Whether one more block may be read, which is counted.
fn may_look(looks: &mut usize) -> bool {
    *looks += 1;
    *looks <= LOOKS_MAX
}

/// The outpoints that a block spends.
fn inputs(block: &Block) -> impl Iterator<Item = OutPoint> {
    let inputs = block
        .transactions()
        .skip(1)
        .flat_map(|transaction| transaction.inputs());
    inputs.map(|input| input.previous_output())
}

/// Whether a block makes this coin under this outpoint.
fn makes(block: &Block, outpoint: &OutPoint, coin: CoinRef<'_>) -> bool {
    let mut transactions = block.transactions();
    let Some(transaction) = transactions.find(|transaction| transaction.txid() == outpoint.txid) else {
        return false;
    };
    (outpoint.vout as usize) < transaction.output_count() && {
        let output = transaction.output(outpoint.vout as usize);
        (output.value(), output.script_pubkey(), transaction.is_coinbase())
            == (coin.value, coin.script_pubkey, coin.is_coinbase)
    }
}

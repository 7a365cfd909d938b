//! Single real blocks with the coins that they spend, and changes to them.

use blockmill_block::{BlockUndo, Coin, CoinRef};
use blockmill_realdata::{SingleBlock, real_blocks};
use std::ops::Deref;

/// A real block.
pub(crate) struct RealBlock {
    single: SingleBlock,
    /// The coins that each transaction but the coinbase spends.
    pub(crate) coins: Vec<Vec<Coin>>,
}

impl Deref for RealBlock {
    type Target = SingleBlock;

    fn deref(&self) -> &SingleBlock {
        &self.single
    }
}

/// The real blocks; none, with a message, where they are absent.
pub(crate) fn read_all() -> Vec<RealBlock> {
    let real = real_blocks().into_iter().map(|single| RealBlock {
        coins: grouped(&single.undo),
        single,
    });
    real.collect()
}

fn grouped(undo: &BlockUndo) -> Vec<Vec<Coin>> {
    (0..undo.transaction_count())
        .map(|index| undo.transaction(index).iter().map(|coin| coin.to_coin()).collect())
        .collect()
}

/// The coins in the form in which they are verified.
pub(crate) fn undo_of(coins: &[Vec<Coin>]) -> BlockUndo {
    let mut undo = BlockUndo::default();
    for transaction in coins {
        for coin in transaction {
            undo.push_coin(CoinRef::from(coin));
        }
        undo.end_transaction();
    }
    undo
}

/// The coins in Core's form.
pub(crate) fn undo_bytes(coins: &[Vec<Coin>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    undo_of(coins).write(&mut bytes);
    bytes
}

/// Kinds of scripts that commit to one key or script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key.
    P2pk,
    /// Hash of a key.
    P2pkh,
    /// Hash of a script.
    P2sh,
    /// Hash of a key, signed in the witness.
    P2wpkh,
    /// A Taproot output key.
    P2tr,
}

/// What a script is, if it is one of these kinds.
pub(crate) fn kind_of(script: &[u8]) -> Option<Kind> {
    match script {
        [0x21, .., 0xac] if script.len() == 35 => Some(Kind::P2pk),
        [0x41, .., 0xac] if script.len() == 67 => Some(Kind::P2pk),
        [0x76, 0xa9, 0x14, .., 0x88, 0xac] if script.len() == 25 => Some(Kind::P2pkh),
        [0xa9, 0x14, .., 0x87] if script.len() == 23 => Some(Kind::P2sh),
        [0x00, 0x14, ..] if script.len() == 22 => Some(Kind::P2wpkh),
        [0x51, 0x20, ..] if script.len() == 34 => Some(Kind::P2tr),
        _ => None,
    }
}

/// A spent coin's indices: its transaction, the coinbase not counted, and its input.
pub(crate) type SpentIndex = (usize, usize);

impl RealBlock {
    /// Indices of the coins of which something holds, and which the block does not make itself.
    pub(crate) fn spent_where(&self, holds: impl Fn(SpentIndex, &Coin) -> bool) -> Vec<SpentIndex> {
        let mut indices = Vec::new();
        for (index, coins) in self.coins.iter().enumerate() {
            for (input, coin) in coins.iter().enumerate() {
                if holds((index, input), coin) && !self.makes((index, input)) {
                    indices.push((index, input));
                }
            }
        }
        indices
    }

    /// Whether the block itself makes a coin that it spends.
    pub(crate) fn makes(&self, (index, input): SpentIndex) -> bool {
        let outpoint = self.block.transaction(index + 1).input(input).previous_output();
        self.block.transactions().any(|maker| maker.txid() == outpoint.txid)
    }

    /// The whole of all outputs of a transaction, the coinbase not counted, in satoshi.
    pub(crate) fn value_out(&self, index: usize) -> i64 {
        self.block
            .transaction(index + 1)
            .outputs()
            .map(|output| output.value())
            .sum()
    }
}

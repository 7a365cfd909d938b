//! Chains whose blocks are hard to disconnect. They have chains of spends inside a block, coins
//! made before a fork and spent after it, outputs that never enter the set, sequence locks that
//! open at the block that spends, and signatures of all common kinds. At every third height they
//! have the same transactions and coinbase as all other branches.

use super::keys::{Lock, Signer, sign};
use super::{Chain, outpoint, output, output_to, spend_into, spend_locked};
use bitcoin::{Block, OutPoint, ScriptBuf, Transaction, TxOut};
use blockmill_chaingen::builder::{BlockBuilder, spend_any};
use std::collections::VecDeque;

/// Blocks that a coin must be buried under for the lock of [`Grower`]'s spends.
const LOCK_BLOCKS: u32 = 3;

/// Satoshi that a transaction leaves to the coinbase.
const FEE: u64 = 10;

/// Confirmations after which a coinbase may be spent.
const MATURITY: u32 = 100;

/// Height of a coinbase that is never spent here. Tests may spend it.
pub(crate) const SPARE_COINBASE: u32 = 1;

/// Coins to be spent together in a later block: the last outputs of a transaction, one for each
/// lock.
#[derive(Clone)]
struct Waiting {
    made: Transaction,
    height: u32,
}

/// An output of `value` for each lock.
fn locked_outputs(value: u64) -> impl Iterator<Item = TxOut> {
    Lock::ALL.map(|lock| output_to(value, lock.script_pubkey())).into_iter()
}

/// A transaction that spends the last outputs of another, one for each lock, into one coin.
fn spend_signed(made: &Transaction, fee: u64, sequence: u32, signer: Signer) -> Transaction {
    let first = made.output.len() - Lock::ALL.len();
    let spent = &made.output[first..];
    let total: u64 = spent.iter().map(|output| output.value.to_sat()).sum();
    let mut transaction = spend_locked(outpoint(made, first as u32), total - fee, sequence);
    for vout in first + 1..made.output.len() {
        let input = spend_locked(outpoint(made, vout as u32), 0, sequence).input.remove(0);
        transaction.input.push(input);
    }
    sign(&mut transaction, spent, signer);
    transaction
}

/// Two transactions: one makes coins that are locked by keys out of a coin, and the other spends
/// them with the signatures of other keys.
pub(crate) fn spend_wrongly_signed(from: OutPoint, value: u64) -> [Transaction; 2] {
    let made = spend_into(from, locked_outputs(value / Lock::ALL.len() as u64).collect());
    let wrong = spend_signed(&made, 0, u32::MAX, Signer::Stranger);
    [made, wrong]
}

/// A chain that grows, and the coins that its next blocks spend.
#[derive(Clone)]
pub(crate) struct Grower {
    pub(crate) chain: Chain,
    /// Stands in the transactions, so that they differ between branches.
    tag: u8,
    next_coinbase: u32,
    waiting: VecDeque<Waiting>,
}

impl Grower {
    /// A chain of `blocks` blocks; coins are spent from height 102 on.
    pub(crate) fn of(blocks: u32) -> Self {
        let mut grower = Self {
            chain: Chain::new(),
            tag: 0,
            next_coinbase: SPARE_COINBASE + 1,
            waiting: VecDeque::new(),
        };
        grower.grow(blocks);
        grower
    }

    /// The same chain, whose blocks from here on are another branch's.
    pub(crate) fn fork(&self, tag: u8) -> Self {
        Self { tag, ..self.clone() }
    }

    pub(crate) fn grow(&mut self, blocks: u32) {
        for _ in 0..blocks {
            let block = self.next().build();
            self.chain.push(block);
        }
    }

    /// The blocks above `height`.
    pub(crate) fn above(&self, height: u32) -> &[Block] {
        &self.chain.blocks[height as usize + 1..]
    }

    /// The next block, still to be built. Its coins count as spent from here on.
    pub(crate) fn next(&mut self) -> BlockBuilder {
        let height = self.chain.height() + 1;
        let tag = if height.is_multiple_of(3) { 0 } else { self.tag };
        let mut block = self.chain.next();
        if self.next_coinbase + MATURITY <= height {
            block = self.spend_coinbase(block, height, tag);
        }
        if self
            .waiting
            .front()
            .is_some_and(|waiting| waiting.height + LOCK_BLOCKS <= height)
            && let Some(Waiting { made, .. }) = self.waiting.pop_front()
        {
            block = block
                .transaction(spend_signed(&made, FEE, LOCK_BLOCKS, Signer::Owner))
                .fees(FEE);
        }
        if tag == 0 {
            return block;
        }
        block.coinbase(|coinbase| coinbase.output.push(output_to(0, unspendable(tag))))
    }

    /// Splits the oldest coinbase, and spends one of its parts twice more in the same block.
    fn spend_coinbase(&mut self, block: BlockBuilder, height: u32, tag: u8) -> BlockBuilder {
        let coinbase = self.chain.coinbase(self.next_coinbase);
        let value = self.chain.blocks[self.next_coinbase as usize].txdata[0].output[0]
            .value
            .to_sat();
        self.next_coinbase += 1;
        let part = value / 4;
        let share = part / Lock::ALL.len() as u64;
        let others = [
            output(part),
            output_to(5, unspendable(tag)),
            output(value - part - share * Lock::ALL.len() as u64 - 5),
        ];
        let split = spend_into(coinbase, others.into_iter().chain(locked_outputs(share)).collect());
        let second = spend_any(outpoint(&split, 0), part - FEE);
        let third = spend_any(outpoint(&second, 0), part - 2 * FEE);
        self.waiting.push_back(Waiting {
            made: split.clone(),
            height,
        });
        block
            .transaction(split)
            .transaction(second)
            .transaction(third)
            .fees(2 * FEE)
    }
}

/// OP_RETURN and a byte.
fn unspendable(tag: u8) -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x6a, 1, tag])
}

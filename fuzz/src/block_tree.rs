//! Trees of small blocks with work, on the regression test network. The fuzzer's bytes choose
//! parents, transactions, and rules that are broken.

use crate::input::Input;
use crate::parts::{InputParts, OutputParts, TransactionParts, block};
use blockmill_block::coin::is_unspendable;
use blockmill_block::hash::sha256d;
use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{
    Block, BlockHash, BlockUndo, Coin, CoinRef, Header, Network, OutPoint, Output, Transaction, Txid, hex,
};
use blockmill_rules::Params;
use blockmill_rules::spend::block_subsidy;
use std::sync::{Arc, LazyLock};

/// Parameters of the network.
pub static PARAMS: LazyLock<Params> = LazyLock::new(|| Params::new(Network::Regtest, None));

/// Blocks of the chain that others build on, so that a few of its coinbases can be spent.
const BASE_BLOCKS: u32 = 106;

/// Its first blocks, whose coins others spend.
const BASE_COINS_TO: u32 = 8;

/// Most coins that a block passes on to those above it.
const COINS_MAX: usize = 32;

/// Blocks after which a coinbase can be spent.
const MATURITY: u32 = 100;

/// Seconds between blocks.
const SPACING: u32 = 600;

/// A rule that a block breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Its coinbase makes too much.
    Subsidy,
    /// A transaction makes more than it spends.
    Overspends,
    /// Its coinbase names another height.
    Height,
    /// A coin is spent twice.
    SpendsTwice,
    /// Its header has another merkle root: no content is its own.
    Root,
    /// Its commitment is to other witnesses: no content is its own.
    Commitment,
    /// Its header is too early.
    Time,
    /// Its header has another target.
    Target,
}

/// What a block may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Its header may break rules.
    Any,
    /// Its header holds.
    Headers,
}

/// A block of the tree.
pub struct Node {
    /// Its parent; the first block is its own.
    pub parent: usize,
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The coins that it spends. Those that are not there are made up.
    pub undo: BlockUndo,
    /// Whether there are all the coins that it spends.
    pub has_coins: bool,
    time: u32,
    /// Coins that blocks above it can spend, the newest last.
    coins: Vec<(OutPoint, Coin)>,
}

/// Blocks, each after its parent.
pub struct Tree {
    /// The blocks; the first is that of the network.
    pub nodes: Vec<Arc<Node>>,
    rules: Rules,
}

static BASE: LazyLock<Vec<Arc<Node>>> = LazyLock::new(|| {
    let mut tree = Tree {
        nodes: vec![Arc::new(first_block())],
        rules: Rules::Headers,
    };
    for _ in 0..BASE_BLOCKS {
        // No transactions, no fault, above the last one.
        tree.grow(&mut Input::new(&[0]));
    }
    tree.nodes
});

/// The first block of the network. Its header is that of the parameters.
fn first_block() -> Node {
    let key = "04678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7\
               ba0b8d578a4c702b6bf11d5f";
    let key = hex::decode(key).expect("these are hex digits");
    let text = b"The Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
    let coinbase = TransactionParts {
        version: 1,
        inputs: vec![InputParts {
            previous_output: OutPoint::NULL,
            script_sig: [&[4, 0xff, 0xff, 0, 0x1d, 1, 4, 0x45][..], text].concat(),
            sequence: u32::MAX,
        }],
        outputs: vec![OutputParts {
            value: 50 * 100_000_000,
            script_pubkey: [&[0x41][..], &key, &[0xac]].concat(),
        }],
        lock_time: 0,
    };
    let mut bytes = block(&[coinbase.write()]);
    bytes[..Header::LENGTH].copy_from_slice(&PARAMS.genesis.to_bytes());
    Node {
        parent: 0,
        height: 0,
        hash: PARAMS.genesis.hash(),
        bytes,
        undo: BlockUndo::default(),
        has_coins: true,
        time: PARAMS.genesis.time,
        coins: Vec::new(),
    }
}

impl Tree {
    /// The network's first block, and a chain on it whose coins can be spent, or none.
    pub fn new(rules: Rules, with_base: bool) -> Self {
        let nodes = if with_base { &BASE[..] } else { &BASE[..1] };
        Self {
            nodes: nodes.to_vec(),
            rules,
        }
    }

    /// Number of a block, the latest first.
    pub fn pick(&self, choice: u8) -> usize {
        self.nodes.len() - 1 - usize::from(choice) % self.nodes.len()
    }

    /// Adds a block, mostly above the last one. Returns its number.
    pub fn grow(&mut self, input: &mut Input<'_>) -> usize {
        let flags = input.u8();
        let last = self.nodes.len() - 1;
        let parent = match flags & 3 {
            2 => self.nodes[last].parent,
            3 => self.pick(input.u8() % 16),
            _ => last,
        };
        let fault = (flags & 0x20 != 0).then(|| self.fault(input.u8()));
        let making = Making {
            height: self.nodes[parent].height + 1,
            number: self.nodes.len() as u32,
            fault,
            with_witness: flags & 0x10 != 0,
        };
        let node = making.node(parent, &self.nodes[parent], flags >> 2 & 3, input);
        self.nodes.push(Arc::new(node));
        self.nodes.len() - 1
    }

    fn fault(&self, choice: u8) -> Fault {
        match choice % if self.rules == Rules::Any { 8 } else { 6 } {
            0 => Fault::Subsidy,
            1 => Fault::Overspends,
            2 => Fault::Height,
            3 => Fault::SpendsTwice,
            4 => Fault::Root,
            5 => Fault::Commitment,
            6 => Fault::Time,
            _ => Fault::Target,
        }
    }
}

/// A block that is being made.
struct Making {
    height: u32,
    /// A number in the coinbase, so that no two are the same.
    number: u32,
    fault: Option<Fault>,
    with_witness: bool,
}

impl Making {
    fn node(&self, parent: usize, below: &Node, count: u8, input: &mut Input<'_>) -> Node {
        let mut coins = below.coins.clone();
        let mut undo = BlockUndo::default();
        let mut has_coins = self.fault != Some(Fault::SpendsTwice);
        let mut transactions = vec![Vec::new()];
        for _ in 0..count {
            let (transaction, found) = self.transaction(&mut coins, &mut undo, input);
            has_coins &= found;
            transactions.push(transaction);
        }
        transactions[0] = self.coinbase(None);
        if self.with_witness {
            self.commit(&mut transactions);
        }
        if self.height <= BASE_COINS_TO {
            note_outputs(&transactions[0], self.height, true, &mut coins);
        }
        coins.drain(..coins.len().saturating_sub(COINS_MAX));
        let time = match self.fault {
            Some(Fault::Time) => PARAMS.genesis.time,
            _ => below.time + SPACING,
        };
        let mut bytes = block(&transactions);
        self.mine(&mut bytes, &below.hash, time);
        Node {
            parent,
            height: self.height,
            hash: BlockHash(sha256d(&bytes[..Header::LENGTH])),
            bytes,
            undo,
            has_coins,
            time,
            coins,
        }
    }

    /// A transaction, with the coins that it spends. Returns whether they are there.
    fn transaction(
        &self,
        coins: &mut Vec<(OutPoint, Coin)>,
        undo: &mut BlockUndo,
        input: &mut Input<'_>,
    ) -> (Vec<u8>, bool) {
        let shape = input.u8();
        let (mut inputs, mut total, mut found) = (Vec::new(), 0, true);
        for _ in 0..=shape & 1 {
            let choice = input.u8();
            let mature = |(_, coin): &(OutPoint, Coin)| !coin.is_coinbase || coin.height + MATURITY <= self.height;
            let number = coins.len().checked_sub(1 + usize::from(choice) % coins.len().max(1));
            let number = number.filter(|&number| choice < 0xf0 && mature(&coins[number]));
            let (outpoint, coin) = match number {
                Some(number) if self.fault == Some(Fault::SpendsTwice) => coins[number].clone(),
                Some(number) => coins.remove(number),
                None => missing_coin(choice),
            };
            found &= number.is_some();
            total += coin.value;
            undo.push_coin(CoinRef::from(&coin));
            inputs.push(InputParts {
                previous_output: outpoint,
                script_sig: vec![0x51; usize::from(shape >> 1 & 3)],
                sequence: u32::MAX,
            });
        }
        undo.end_transaction();
        let outputs = 1 + i64::from(shape >> 3 & 3);
        let more = i64::from(self.fault == Some(Fault::Overspends));
        let output = |_| OutputParts {
            value: total / outputs + more,
            script_pubkey: vec![0x51; 1 + usize::from(shape >> 5)],
        };
        let parts = TransactionParts {
            version: 2,
            inputs,
            outputs: (0..outputs).map(output).collect(),
            lock_time: 0,
        };
        let mut bytes = parts.write();
        note_outputs(&bytes, self.height, false, coins);
        if self.with_witness {
            bytes = with_witness(&bytes, parts.inputs.len(), &[shape; 3]);
        }
        (bytes, found)
    }

    fn coinbase(&self, commitment: Option<[u8; 32]>) -> Vec<u8> {
        let height = self.height + u32::from(self.fault == Some(Fault::Height));
        let mut script_sig = match height {
            0..=16 => vec![0x50 + height as u8],
            17..=127 => vec![1, height as u8],
            _ => vec![2, height as u8, (height >> 8) as u8],
        };
        script_sig.push(4);
        script_sig.extend(self.number.to_le_bytes());
        let value =
            block_subsidy(&PARAMS, self.height) / 2 + i64::from(self.fault == Some(Fault::Subsidy)) * 50_000_000_000;
        let output = OutputParts {
            value,
            script_pubkey: vec![0x51],
        };
        let mut outputs = vec![output.clone(), output];
        outputs.extend(commitment.map(|commitment| OutputParts {
            value: 0,
            script_pubkey: [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &commitment].concat(),
        }));
        let parts = TransactionParts {
            version: 2,
            inputs: vec![InputParts {
                previous_output: OutPoint::NULL,
                script_sig,
                sequence: u32::MAX,
            }],
            outputs,
            lock_time: 0,
        };
        parts.write()
    }

    /// Commits the coinbase to the witnesses.
    fn commit(&self, transactions: &mut [Vec<u8>]) {
        let reserved = [0; 32];
        let made = block(transactions);
        let made = Block::decode(&made[..]).expect("a block of whole transactions decodes");
        let mut commitment = sha256d(&[made.witness_merkle_root(), reserved].concat());
        commitment[0] ^= u8::from(self.fault == Some(Fault::Commitment));
        transactions[0] = with_witness(&self.coinbase(Some(commitment)), 1, &reserved);
    }

    /// Writes the header: tries numbers until the hash is below the target, which half of all are.
    fn mine(&self, bytes: &mut [u8], previous: &BlockHash, time: u32) {
        let mut root = Block::decode(&*bytes)
            .expect("a block of whole transactions decodes")
            .merkle_root()
            .hash;
        root[0] ^= u8::from(self.fault == Some(Fault::Root));
        let bits: u32 = if self.fault == Some(Fault::Target) {
            0x207f_fffe
        } else {
            0x207f_ffff
        };
        bytes[..4].copy_from_slice(&0x2000_0000_u32.to_le_bytes());
        bytes[4..36].copy_from_slice(&previous.0);
        bytes[36..68].copy_from_slice(&root);
        bytes[68..72].copy_from_slice(&time.to_le_bytes());
        bytes[72..76].copy_from_slice(&bits.to_le_bytes());
        for nonce in 0_u32.. {
            bytes[76..80].copy_from_slice(&nonce.to_le_bytes());
            if sha256d(&bytes[..Header::LENGTH])[31] < 0x7f {
                return;
            }
        }
    }
}

/// A coin that is not there.
fn missing_coin(choice: u8) -> (OutPoint, Coin) {
    let outpoint = OutPoint {
        txid: Txid([0xee; 32]),
        vout: choice.into(),
    };
    let coin = Coin {
        value: 1_000,
        height: 1,
        is_coinbase: false,
        script_pubkey: vec![0x51].into(),
    };
    (outpoint, coin)
}

/// Adds the outputs of a transaction to coins.
fn note_outputs(transaction: &[u8], height: u32, is_coinbase: bool, coins: &mut Vec<(OutPoint, Coin)>) {
    let decoded = OwnedTransaction::decode(transaction.to_vec()).expect("a transaction of parts decodes");
    coins.extend(outputs_of(decoded.view(), height, is_coinbase));
}

/// The coins that a transaction makes.
pub fn outputs_of(transaction: Transaction<'_>, height: u32, is_coinbase: bool) -> Vec<(OutPoint, Coin)> {
    let txid = transaction.txid();
    let spendable = (0..)
        .zip(transaction.outputs())
        .filter(|(_, output)| !is_unspendable(output.script_pubkey()));
    let coin = |(vout, output): (u32, Output<'_>)| {
        let coin = Coin {
            value: output.value(),
            height,
            is_coinbase,
            script_pubkey: output.script_pubkey().into(),
        };
        (OutPoint { txid, vout }, coin)
    };
    spendable.map(coin).collect()
}

/// A transaction without witnesses, with one item for each of its inputs.
pub(crate) fn with_witness(transaction: &[u8], inputs: usize, item: &[u8]) -> Vec<u8> {
    let (body, lock_time) = transaction.split_at(transaction.len() - 4);
    let mut bytes = [&body[..4], &[0, 1], &body[4..]].concat();
    for _ in 0..inputs {
        bytes.extend([1, item.len() as u8]);
        bytes.extend(item);
    }
    bytes.extend(lock_time);
    bytes
}

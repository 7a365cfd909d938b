//! Valid blocks, made to be mutated.

use super::random::Random;
use super::tree::{Spendable, Tree, coinbase_block};
use crate::common::keys::{self, Lock, Signer, Spoil};
use blockmill_chaingen::bitcoin::opcodes::all::{OP_CLTV, OP_CSV, OP_DROP, OP_PUSHNUM_1};
use blockmill_chaingen::bitcoin::script::Builder;
use blockmill_chaingen::bitcoin::{
    Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, consensus, transaction,
};
use blockmill_chaingen::builder::{any_script, repair, spend_any};
use std::sync::OnceLock;

/// Blocks that a coin with CHECKSEQUENCEVERIFY must wait.
pub(crate) const CSV_BLOCKS: i64 = 3;

/// Height before which a coin with CHECKLOCKTIMEVERIFY is locked.
const CLTV_HEIGHT: i64 = 5;

/// What locks a coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Any,
    ScriptHash,
    WitnessScriptHash,
    Csv,
    Cltv,
    /// By keys.
    Locked(Lock),
}

/// What is done to the signatures of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fraud {
    /// Other keys sign.
    Stranger,
    /// The first output is changed after signing.
    Message,
    /// A part of a signature is changed.
    Spoil {
        input: usize,
        element: usize,
        bit: usize,
        spoil: Spoil,
    },
}

impl Kind {
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        let unsigned = [
            Self::Any,
            Self::ScriptHash,
            Self::WitnessScriptHash,
            Self::Csv,
            Self::Cltv,
        ];
        unsigned.into_iter().chain(Lock::ALL.map(Self::Locked))
    }

    pub(crate) fn script_pubkey(self) -> ScriptBuf {
        let lock = |number: i64, opcode| {
            Builder::new()
                .push_int(number)
                .push_opcode(opcode)
                .push_opcode(OP_DROP)
                .push_opcode(OP_PUSHNUM_1)
                .into_script()
        };
        match self {
            Self::Any => any_script(),
            Self::ScriptHash => ScriptBuf::new_p2sh(&any_script().script_hash()),
            Self::WitnessScriptHash => ScriptBuf::new_p2wsh(&any_script().wscript_hash()),
            Self::Csv => lock(CSV_BLOCKS, OP_CSV),
            Self::Cltv => lock(CLTV_HEIGHT, OP_CLTV),
            Self::Locked(lock) => lock.script_pubkey(),
        }
    }

    /// The kind that has this script.
    pub(crate) fn of(script: &ScriptBuf) -> Option<Self> {
        static SCRIPTS: OnceLock<Vec<(Kind, ScriptBuf)>> = OnceLock::new();
        let scripts = SCRIPTS.get_or_init(|| Self::all().map(|kind| (kind, kind.script_pubkey())).collect());
        scripts.iter().find(|entry| entry.1 == *script).map(|entry| entry.0)
    }
}

/// A block that may be mutated before it is signed and repaired.
pub(crate) struct Candidate {
    /// Node of the parent.
    pub(crate) parent: usize,
    pub(crate) height: u32,
    pub(crate) block: Block,
    /// The coins that the transactions after the coinbase spend, where they are known.
    pub(crate) spends: Vec<Vec<Spendable>>,
    /// Whether inputs are signed after the mutations.
    pub(crate) sign: bool,
    /// Indexes of transactions, and the faults of their signatures.
    pub(crate) frauds: Vec<(usize, Fraud)>,
    /// Whether outpoints are updated when their transaction in the block changes.
    pub(crate) relink: bool,
    /// Whether commitment, merkle root and nonce are repaired.
    pub(crate) repair: bool,
    /// Pairs of transactions where the first spends an output of the second.
    links: Vec<(usize, usize)>,
    /// A change of the serialized block.
    pub(crate) raw: Option<fn(&mut Vec<u8>)>,
}

impl Candidate {
    /// A block on the tip or near it.
    pub(crate) fn new(tree: &Tree, random: &mut Random) -> Self {
        let parent = choose_parent(tree, random);
        Self::on(tree, parent, tree.coins.clone(), random)
    }

    /// A block on a node, which spends some of these coins.
    pub(crate) fn on(tree: &Tree, parent: usize, mut coins: Vec<Spendable>, random: &mut Random) -> Self {
        let node = tree.nodes[parent];
        let height = node.height + 1;
        let mut block = coinbase_block(&node, height).build();
        block.header.time = tree.next_time(parent);
        let mut candidate = Self {
            parent,
            height,
            block,
            spends: Vec::new(),
            sign: !random.one_in(10),
            frauds: Vec::new(),
            relink: !random.one_in(10),
            repair: !random.one_in(10),
            links: Vec::new(),
            raw: None,
        };
        let mut fees = 0;
        for _ in 0..random.below(5) {
            fees += candidate.add_payment(&mut coins, random);
        }
        if !candidate.spends.is_empty() && random.one_in(2) {
            candidate.add_child(random);
        }
        candidate.block.txdata[0].output[0].value += Amount::from_sat(fees);
        candidate.commit();
        candidate
    }

    /// Adds a payment out of one to eight coins, and returns its fee.
    fn add_payment(&mut self, coins: &mut Vec<Spendable>, random: &mut Random) -> u64 {
        let count = (1 + random.below(8)).min(coins.len() as u64);
        let spends: Vec<Spendable> = (0..count)
            .map(|_| coins.swap_remove(random.below(coins.len() as u64) as usize))
            .collect();
        if spends.is_empty() {
            return 0;
        }
        let total: u64 = spends.iter().map(|spend| spend.value).sum();
        let fee = random.below(total / 10 + 1);
        let half = (total - fee) / 2;
        let output = |value| TxOut {
            value: Amount::from_sat(value),
            script_pubkey: any_script(),
        };
        self.block.txdata.push(Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::from_consensus(CLTV_HEIGHT as u32),
            input: spends.iter().map(|spend| input(spend.outpoint)).collect(),
            output: vec![output(half), output(total - fee - half)],
        });
        self.spends.push(spends);
        fee
    }

    /// Adds a transaction that spends an output made in the block.
    fn add_child(&mut self, random: &mut Random) {
        let maker = 1 + random.below(self.spends.len() as u64) as usize;
        let transaction = &self.block.txdata[maker];
        let value = transaction.output[0].value.to_sat();
        let outpoint = OutPoint::new(transaction.compute_txid(), 0);
        self.block.txdata.push(spend_any(outpoint, value));
        self.spends.push(vec![Spendable {
            outpoint,
            value,
            kind: Kind::Any,
        }]);
        self.links.push((self.block.txdata.len() - 1, maker));
    }

    /// Adds a witness commitment. Every block of this test has one at first.
    fn commit(&mut self) {
        let coinbase = &mut self.block.txdata[0];
        coinbase.input[0].witness = Witness::from_slice(&[[0; 32]]);
        coinbase.output.push(TxOut {
            value: Amount::ZERO,
            script_pubkey: ScriptBuf::from_bytes([&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[0; 32]].concat()),
        });
    }

    /// The block with a witness that it does not commit to, and the right block.
    pub(crate) fn finish_mutated(mut self, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        self.sign = true;
        self.relink = true;
        self.repair = true;
        let whole = self.finish(random);
        let mut block: Block = consensus::deserialize(&whole).unwrap();
        block.txdata[0].input[0].witness = Witness::from_slice(&[[1; 32]]);
        (consensus::serialize(&block), whole)
    }

    fn relink(&mut self) {
        if !self.relink {
            return;
        }
        for &(child, maker) in &self.links {
            if let (Some(txid), true) = (
                self.block.txdata.get(maker).map(Transaction::compute_txid),
                child < self.block.txdata.len() && !self.block.txdata[child].input.is_empty(),
            ) {
                self.block.txdata[child].input[0].previous_output.txid = txid;
            }
        }
    }

    fn sign(&mut self) {
        let transactions = self.block.txdata.iter_mut().enumerate().skip(1);
        for ((index, transaction), spends) in transactions.zip(&self.spends) {
            let frauds = self.frauds.iter().filter(|fraud| fraud.0 == index).map(|fraud| fraud.1);
            sign(transaction, spends, frauds);
        }
    }

    /// The block's bytes, signed and repaired where `sign` and `repair` say so.
    pub(crate) fn finish(mut self, random: &mut Random) -> Vec<u8> {
        self.relink();
        if self.sign {
            self.sign();
            // Signatures outside of witnesses change the transaction's id.
            self.relink();
        }
        if self.repair {
            repair(&mut self.block);
        } else {
            self.block.header.nonce = random.next() as u32;
        }
        let mut bytes = consensus::serialize(&self.block);
        if let Some(change) = self.raw {
            change(&mut bytes);
        }
        bytes
    }
}

fn choose_parent(tree: &Tree, random: &mut Random) -> usize {
    if random.one_in(30) && !tree.failed.is_empty() {
        return tree.failed[random.below(tree.failed.len() as u64) as usize];
    }
    if random.one_in(40) {
        // Any of the last blocks, valid or not.
        let last = tree.nodes.len() - 1;
        return last - random.below(8.min(last as u64)) as usize;
    }
    let mut parent = tree.tip;
    if random.one_in(6) {
        for _ in 0..1 + random.below(2) {
            parent = tree.nodes[parent].parent;
        }
    }
    parent
}

fn input(outpoint: OutPoint) -> TxIn {
    TxIn {
        previous_output: outpoint,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::from_consensus(CSV_BLOCKS as u32),
        witness: Witness::new(),
    }
}

/// Signs the inputs whose coins are known, and spoils signatures. Transactions without
/// outputs, or with other inputs than the known coins, stay unsigned.
fn sign(transaction: &mut Transaction, spends: &[Spendable], frauds: impl Iterator<Item = Fraud> + Clone) {
    let known = transaction.input.len() == spends.len();
    if !known || transaction.output.is_empty() {
        return;
    }
    let prevouts: Vec<TxOut> = spends
        .iter()
        .map(|spend| TxOut {
            value: Amount::from_sat(spend.value),
            script_pubkey: spend.kind.script_pubkey(),
        })
        .collect();
    for (input, spend) in transaction.input.iter_mut().zip(spends) {
        match spend.kind {
            Kind::Any | Kind::Csv | Kind::Cltv | Kind::Locked(_) => {}
            Kind::ScriptHash => input.script_sig = ScriptBuf::from_bytes(vec![1, 0x51]),
            Kind::WitnessScriptHash => input.witness = Witness::from_slice(&[any_script().as_bytes()]),
        }
    }
    let strange = frauds.clone().any(|fraud| matches!(fraud, Fraud::Stranger));
    let signer = if strange { Signer::Stranger } else { Signer::Owner };
    keys::sign(transaction, &prevouts, signer);
    for fraud in frauds {
        match fraud {
            Fraud::Stranger => {}
            Fraud::Message => {
                let value = &mut transaction.output[0].value;
                *value = value.checked_sub(Amount::ONE_SAT).unwrap_or_default();
            }
            Fraud::Spoil {
                input,
                element,
                bit,
                spoil,
            } => {
                if let Some(Kind::Locked(lock)) = spends.get(input).map(|spend| spend.kind) {
                    let mut elements = lock.elements(transaction, input);
                    spoil.apply(lock, &mut elements, element, bit);
                    lock.set_elements(transaction, input, &elements);
                }
            }
        }
    }
}

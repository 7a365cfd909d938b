//! Assembles a block from signed transactions: coinbase, witness commitment, merkle root, proof of
//! work, bytes.

use bitcoin::consensus::Encodable;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, Network, TxMerkleNode, TxOut, Txid, VarInt, Witness, WitnessMerkleNode, Wtxid, consensus,
    merkle_tree,
};

use crate::address::Address;
use crate::builder::{RESERVED_VALUE, block_time, coinbase_transaction, commitment_script, header, mine};
use crate::plan::BlockPlan;
use crate::wallet::Wallet;
use crate::work::SignedTransaction;

/// A finished block.
pub(crate) struct AssembledBlock {
    pub(crate) hash: BlockHash,
    pub(crate) bytes: Vec<u8>,
    pub(crate) coinbase: Txid,
    pub(crate) coinbase_outputs: u64,
}

/// Regtest's genesis block: its hash, its bytes.
pub(crate) fn genesis() -> (BlockHash, Vec<u8>) {
    let block = genesis_block(Network::Regtest);
    (block.block_hash(), consensus::serialize(&block))
}

/// The planned block on top of `prev`. The coinbase contains the seed, so that chains of different
/// seeds share no block.
pub(crate) fn assemble(
    prev: BlockHash,
    plan: &BlockPlan,
    signed: &[Vec<SignedTransaction>],
    wallet: &Wallet,
    seed: u64,
) -> AssembledBlock {
    let transactions = in_order(plan, signed);
    let outputs = plan
        .coinbase
        .iter()
        .map(|&(address, value)| pay(wallet, address, value))
        .collect();
    let script_sig = Builder::new()
        .push_int(plan.height.into())
        .push_slice(seed.to_le_bytes())
        .push_slice(b"blockmill")
        .into_script();
    let mut coinbase = coinbase_transaction(script_sig, outputs);
    if transactions
        .iter()
        // A transaction without witnesses has one hash as both ids.
        .any(|tx| tx.txid.to_raw_hash() != tx.wtxid.to_raw_hash())
    {
        coinbase.input[0].witness = Witness::from_slice(&[RESERVED_VALUE]);
        coinbase.output.push(TxOut {
            value: Amount::ZERO,
            script_pubkey: commitment_script(commitment(&transactions)),
        });
    }
    let coinbase_id = coinbase.compute_txid();
    let ids = std::iter::once(coinbase_id).chain(transactions.iter().map(|tx| tx.txid));
    let root = merkle_tree::calculate_root(ids).expect("a block has a coinbase");
    let mut header = header(prev, block_time(plan.height));
    header.merkle_root = TxMerkleNode::from_raw_hash(root.to_raw_hash());
    mine(&mut header);

    let mut bytes = consensus::serialize(&header);
    // The coinbase, and the transactions.
    bytes.reserve(1_000 + transactions.iter().map(|tx| tx.bytes.len()).sum::<usize>());
    let count = VarInt::from(transactions.len() + 1);
    count.consensus_encode(&mut bytes).expect("a vector takes all bytes");
    coinbase.consensus_encode(&mut bytes).expect("a vector takes all bytes");
    transactions.iter().for_each(|tx| bytes.extend_from_slice(&tx.bytes));
    AssembledBlock {
        hash: header.block_hash(),
        bytes,
        coinbase: coinbase_id,
        coinbase_outputs: coinbase.output.len() as u64,
    }
}

fn in_order<'a>(plan: &BlockPlan, signed: &'a [Vec<SignedTransaction>]) -> Vec<&'a SignedTransaction> {
    // Each time that the order names a group, the next of its members comes.
    let mut groups: Vec<_> = signed.iter().map(|group| group.iter()).collect();
    plan.order
        .iter()
        .map(|&group| groups[group as usize].next().expect("the order names each member once"))
        .collect()
}

fn pay(wallet: &Wallet, address: Address, value: u64) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: wallet.script(address).clone(),
    }
}

/// BIP141: the commitment to the witness root and the reserved value.
fn commitment(transactions: &[&SignedTransaction]) -> [u8; 32] {
    // A coinbase counts with zeros: it contains the commitment.
    let ids = std::iter::once(Wtxid::all_zeros()).chain(transactions.iter().map(|tx| tx.wtxid));
    let root = merkle_tree::calculate_root(ids).expect("a block has a coinbase");
    let root = WitnessMerkleNode::from_raw_hash(root.to_raw_hash());
    Block::compute_witness_commitment(&root, &RESERVED_VALUE).to_byte_array()
}

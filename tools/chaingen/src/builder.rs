//! Single regtest blocks, good and bad, for the tests of other crates.
//!
//! ```
//! use blockmill_chaingen::bitcoin::{Network, constants::genesis_block};
//! use blockmill_chaingen::builder::BlockBuilder;
//!
//! let genesis = genesis_block(Network::Regtest);
//! let good = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600).build();
//! assert!(good.check_merkle_root());
//!
//! let greedy = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600)
//!     .coinbase(|coinbase| coinbase.output[0].value *= 2)
//!     .build();
//! assert_ne!(good.block_hash(), greedy.block_hash());
//! ```

use bitcoin::block::{Header, Version};
use bitcoin::hashes::Hash;
use bitcoin::opcodes::all::{OP_PUSHBYTES_0, OP_PUSHNUM_1};
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Target, Transaction, TxIn, TxMerkleNode,
    TxOut, Witness, absolute, consensus, transaction,
};

/// The compact target of every regtest block.
pub(crate) const REGTEST_BITS: u32 = 0x207f_ffff;
/// The version of the builder's blocks.
pub(crate) const BLOCK_VERSION: i32 = 0x2000_0000;
/// Blocks between two halvings of the subsidy on regtest.
pub(crate) const HALVING_INTERVAL: u32 = 150;
/// The witness reserved value: the only witness element of a coinbase whose block has a witness
/// commitment.
pub(crate) const RESERVED_VALUE: [u8; 32] = [0; 32];
/// First bytes of the script of a witness commitment: OP_RETURN, a push of 36 bytes, the four
/// header bytes of BIP141.
pub(crate) const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Builds one block on any parent. The builder checks nothing, so bad blocks are as easy as good
/// ones.
#[derive(Clone, Debug)]
pub struct BlockBuilder {
    header: Header,
    transactions: Vec<Transaction>,
    /// Whether an edit of the header has set a merkle root of its own, which is kept.
    merkle_root_is_given: bool,
}

impl BlockBuilder {
    /// A block at `height` on top of `prev`, at `time` (seconds since 1970): version 0x20000000 and
    /// bits 0x207fffff. The coinbase has the height in its script (BIP34) and pays the whole
    /// regtest subsidy to [`any_script`].
    pub fn new(prev: BlockHash, height: u32, time: u32) -> Self {
        let script_sig = Builder::new()
            .push_int(height.into())
            .push_opcode(OP_PUSHBYTES_0)
            .into_script();
        let coinbase = coinbase_transaction(
            script_sig,
            vec![TxOut {
                value: Amount::from_sat(subsidy(height)),
                script_pubkey: any_script(),
            }],
        );
        BlockBuilder {
            header: header(prev, time),
            transactions: vec![coinbase],
            merkle_root_is_given: false,
        }
    }

    /// Adds `sat` satoshi to the first output of the coinbase.
    pub fn fees(mut self, sat: u64) -> Self {
        // An edit may have taken all outputs away.
        if let Some(output) = self.transactions[0].output.first_mut() {
            output.value += Amount::from_sat(sat);
        }
        self
    }

    /// Appends a transaction.
    pub fn transaction(mut self, tx: Transaction) -> Self {
        self.transactions.push(tx);
        self
    }

    /// Edits the coinbase. It has the fees added so far, but no witness commitment: `build` appends
    /// that.
    pub fn coinbase(mut self, edit: impl FnOnce(&mut Transaction)) -> Self {
        edit(&mut self.transactions[0]);
        self
    }

    /// Edits the header before it is mined. The closure sees the merkle root of the transactions so
    /// far. If the closure changes the root, the block keeps the changed root.
    pub fn header(mut self, edit: impl FnOnce(&mut Header)) -> Self {
        if !self.merkle_root_is_given {
            // An edit may read the root.
            self.header.merkle_root = self.clone().unmined().header.merkle_root;
        }
        let before = self.header.merkle_root;
        edit(&mut self.header);
        self.merkle_root_is_given |= self.header.merkle_root != before;
        self
    }

    /// The block, with merkle root and mined nonce, and a witness commitment if any transaction has
    /// a witness.
    pub fn build(self) -> Block {
        let mut block = self.unmined();
        mine(&mut block.header);
        block
    }

    /// The serialization of [`BlockBuilder::build`], witnesses included.
    pub fn build_bytes(self) -> Vec<u8> {
        consensus::serialize(&self.build())
    }

    fn unmined(self) -> Block {
        let mut block = Block {
            header: self.header,
            txdata: self.transactions,
        };
        let has_witness = block
            .txdata
            .iter()
            .skip(1)
            .any(|tx| tx.input.iter().any(|input| !input.witness.is_empty()));
        // A test may have written a commitment of its own.
        if has_witness && commitment_position(&block.txdata[0]).is_none() {
            let coinbase = &mut block.txdata[0];
            if let Some(input) = coinbase.input.first_mut().filter(|input| input.witness.is_empty()) {
                input.witness = Witness::from_slice(&[RESERVED_VALUE]);
            }
            coinbase.output.push(TxOut {
                value: Amount::ZERO,
                script_pubkey: commitment_script([0; 32]),
            });
            commit_to_witnesses(&mut block);
        }
        if !self.merkle_root_is_given {
            block.header.merkle_root = merkle_root(&block);
        }
        block
    }
}

/// Repairs an edited block: computes the witness commitment (if the coinbase has one), the merkle
/// root and the nonce again.
pub fn repair(block: &mut Block) {
    if !block.txdata.is_empty() {
        commit_to_witnesses(block);
    }
    block.header.merkle_root = merkle_root(block);
    mine(&mut block.header);
}

/// Sets the nonce to the first one, counted from 0, whose block hash meets the target of
/// `header.bits`. Regtest's target is met instead of an invalid target, or of one that takes more
/// than about 65,000 tries.
pub fn mine(header: &mut Header) {
    let regtest = Target::from_compact(CompactTarget::from_consensus(REGTEST_BITS));
    let hardest = Target::from_compact(CompactTarget::from_consensus(0x1f00_ffff));
    let own = header.target();
    // A test may ask for any bits, and must not mine for hours.
    let target = if own < hardest { regtest } else { own };
    header.nonce = 0;
    while !target.is_met_by(header.block_hash()) {
        header.nonce = header.nonce.wrapping_add(1);
    }
}

/// A transaction that spends an output to [`any_script`] into one output to [`any_script`] of
/// `value_out` satoshi.
pub fn spend_any(outpoint: OutPoint, value_out: u64) -> Transaction {
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![TxOut {
            value: Amount::from_sat(value_out),
            script_pubkey: any_script(),
        }],
    }
}

/// OP_TRUE: anyone can spend it with an empty script sig.
pub fn any_script() -> ScriptBuf {
    Builder::new().push_opcode(OP_PUSHNUM_1).into_script()
}

/// Time of the regtest genesis block.
const GENESIS_TIME: u32 = 1_296_688_602;
/// Seconds from one block to the next.
const BLOCK_SPACING: u32 = 600;

/// The header time of the block at `height`, in seconds since 1970.
pub(crate) fn block_time(height: u32) -> u32 {
    GENESIS_TIME + height * BLOCK_SPACING
}

/// The regtest subsidy at `height`, in satoshi.
pub fn subsidy(height: u32) -> u64 {
    // A shift by 64 or more would wrap, and nothing is left by then.
    5_000_000_000_u64.checked_shr(height / HALVING_INTERVAL).unwrap_or(0)
}

/// A header on `prev` at `time`, with zero as merkle root and nonce.
pub(crate) fn header(prev: BlockHash, time: u32) -> Header {
    Header {
        version: Version::from_consensus(BLOCK_VERSION),
        prev_blockhash: prev,
        merkle_root: TxMerkleNode::all_zeros(),
        time,
        bits: CompactTarget::from_consensus(REGTEST_BITS),
        nonce: 0,
    }
}

/// A coinbase with these outputs and no witness.
pub(crate) fn coinbase_transaction(script_sig: ScriptBuf, output: Vec<TxOut>) -> Transaction {
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output,
    }
}

/// The script of a witness commitment output.
pub(crate) fn commitment_script(commitment: [u8; 32]) -> ScriptBuf {
    let mut bytes = COMMITMENT_PREFIX.to_vec();
    bytes.extend_from_slice(&commitment);
    ScriptBuf::from_bytes(bytes)
}

/// Index of the commitment (BIP141): the last output of that form.
fn commitment_position(coinbase: &Transaction) -> Option<usize> {
    coinbase.output.iter().rposition(|output| {
        // The prefix and a hash; a longer script counts, too.
        output.script_pubkey.len() >= 38 && output.script_pubkey.as_bytes().starts_with(&COMMITMENT_PREFIX)
    })
}

/// Writes the commitment to the witnesses into the coinbase's commitment output, if it has one.
fn commit_to_witnesses(block: &mut Block) {
    let Some(position) = commitment_position(&block.txdata[0]) else {
        return;
    };
    let reserved = block.txdata[0]
        .input
        .first()
        .and_then(|input| input.witness.nth(0))
        .unwrap_or(&RESERVED_VALUE)
        .to_vec();
    let Some(root) = block.witness_root() else { return };
    let commitment = Block::compute_witness_commitment(&root, &reserved);
    let output = &mut block.txdata[0].output[position];
    let mut script = output.script_pubkey.to_bytes();
    // The hash follows the prefix. What follows the hash stays.
    script[6..38].copy_from_slice(commitment.as_byte_array());
    output.script_pubkey = ScriptBuf::from_bytes(script);
}

fn merkle_root(block: &Block) -> TxMerkleNode {
    block.compute_merkle_root().unwrap_or_else(TxMerkleNode::all_zeros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::{Network, constants::genesis_block};

    fn on_genesis() -> BlockBuilder {
        let genesis = genesis_block(Network::Regtest);
        BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600)
    }

    fn some_outpoint() -> OutPoint {
        OutPoint {
            txid: genesis_block(Network::Regtest).txdata[0].compute_txid(),
            vout: 0,
        }
    }

    fn witness_spend() -> Transaction {
        let mut tx = spend_any(some_outpoint(), 1_000);
        tx.input[0].witness.push([7]);
        tx
    }

    #[test]
    fn a_plain_block_is_mined_and_has_no_commitment() {
        let block = on_genesis().fees(5).transaction(spend_any(some_outpoint(), 1)).build();
        assert!(block.header.validate_pow(block.header.target()).is_ok());
        assert!(block.check_merkle_root());
        assert_eq!(block.txdata[0].input[0].script_sig.as_bytes(), [0x51, 0x00]);
        assert_eq!(block.txdata[0].output.len(), 1);
        assert_eq!(block.txdata[0].output[0].value.to_sat(), 5_000_000_005);
        assert!((2..=100).contains(&block.txdata[0].input[0].script_sig.len()));
    }

    #[test]
    fn a_witness_brings_a_commitment() {
        let block = on_genesis().transaction(witness_spend()).build();
        assert_eq!(block.txdata[0].output.len(), 2);
        assert!(block.check_witness_commitment() && block.check_merkle_root());
        assert_eq!(
            consensus::deserialize::<Block>(&on_genesis().transaction(witness_spend()).build_bytes()).unwrap(),
            block
        );
    }

    #[test]
    fn repair_follows_edits() {
        let mut block = on_genesis().transaction(witness_spend()).build();
        block.txdata[1].input[0].witness.push([8; 40]);
        block.txdata[1].output[0].value = Amount::from_sat(3);
        assert!(!block.check_witness_commitment() && !block.check_merkle_root());
        repair(&mut block);
        assert!(block.check_witness_commitment() && block.check_merkle_root());
        assert!(block.header.validate_pow(block.header.target()).is_ok());
    }

    #[test]
    fn header_edits_hold_in_any_order() {
        let wrong = on_genesis()
            .header(|header| header.merkle_root = TxMerkleNode::all_zeros())
            .transaction(spend_any(some_outpoint(), 1))
            .build();
        assert!(!wrong.check_merkle_root());
        let right = on_genesis()
            .header(|header| header.time += 1)
            .transaction(spend_any(some_outpoint(), 1))
            .build();
        assert!(right.check_merkle_root());
        let hard = on_genesis()
            .header(|header| header.bits = CompactTarget::from_consensus(0x1d00_ffff))
            .build();
        assert_eq!(hard.header.bits.to_consensus(), 0x1d00_ffff);
    }

    #[test]
    fn subsidies() {
        assert_eq!(
            [1, 149, 150, 299, 300].map(subsidy),
            [
                5_000_000_000,
                5_000_000_000,
                2_500_000_000,
                2_500_000_000,
                1_250_000_000
            ]
        );
        assert_eq!(subsidy(u32::MAX), 0);
    }
}

//! Transactions and blocks: written from parts, and rewritten from decoded views.

use blockmill_block::reader::write_compact_size;
use blockmill_block::{Block, Header, OutPoint, Transaction};

/// An input to write.
#[derive(Debug, Clone)]
pub struct InputParts {
    /// The outpoint that it spends.
    pub previous_output: OutPoint,
    /// Unlocking script.
    pub script_sig: Vec<u8>,
    /// Sequence number.
    pub sequence: u32,
}

/// An output to write.
#[derive(Debug, Clone)]
pub struct OutputParts {
    /// Amount in satoshi.
    pub value: i64,
    /// Locking script.
    pub script_pubkey: Vec<u8>,
}

/// A transaction to write, without witnesses.
#[derive(Debug, Clone)]
pub struct TransactionParts {
    /// Version.
    pub version: u32,
    /// Inputs, in order.
    pub inputs: Vec<InputParts>,
    /// Outputs, in order.
    pub outputs: Vec<OutputParts>,
    /// Lock time.
    pub lock_time: u32,
}

impl TransactionParts {
    /// The transaction's bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = self.version.to_le_bytes().to_vec();
        write_compact_size(self.inputs.len() as u64, &mut bytes);
        for input in &self.inputs {
            write_outpoint(&input.previous_output, &mut bytes);
            write_sized(&input.script_sig, &mut bytes);
            bytes.extend(input.sequence.to_le_bytes());
        }
        write_compact_size(self.outputs.len() as u64, &mut bytes);
        for output in &self.outputs {
            bytes.extend(output.value.to_le_bytes());
            write_sized(&output.script_pubkey, &mut bytes);
        }
        bytes.extend(self.lock_time.to_le_bytes());
        bytes
    }
}

/// A coinbase with this script and one output.
pub fn coinbase(script_sig: Vec<u8>, output: OutputParts) -> TransactionParts {
    TransactionParts {
        version: 1,
        inputs: vec![InputParts {
            previous_output: OutPoint::NULL,
            script_sig,
            sequence: u32::MAX,
        }],
        outputs: vec![output],
        lock_time: 0,
    }
}

/// A block of these transactions, with a header of zeros.
pub fn block(transactions: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; Header::LENGTH];
    write_compact_size(transactions.len() as u64, &mut bytes);
    transactions.iter().for_each(|transaction| bytes.extend(transaction));
    bytes
}

/// Writes the right merkle root into a block's header, if the block decodes.
pub fn fix_merkle_root(block: &mut [u8]) {
    if let Ok(root) = Block::decode(&*block).map(|block| block.merkle_root().hash) {
        block[36..68].copy_from_slice(&root);
    }
}

fn write_outpoint(outpoint: &OutPoint, into: &mut Vec<u8>) {
    into.extend(outpoint.txid.0);
    into.extend(outpoint.vout.to_le_bytes());
}

fn write_sized(data: &[u8], into: &mut Vec<u8>) {
    write_compact_size(data.len() as u64, into);
    into.extend_from_slice(data);
}

/// The bytes of a decoded transaction, written again from its views.
pub fn rewrite(transaction: &Transaction<'_>, with_witness: bool) -> Vec<u8> {
    let with_witness = with_witness && transaction.has_witness();
    let mut bytes = transaction.version().to_le_bytes().to_vec();
    if with_witness {
        bytes.extend([0, 1]);
    }
    write_compact_size(transaction.input_count() as u64, &mut bytes);
    for input in transaction.inputs() {
        write_outpoint(&input.previous_output(), &mut bytes);
        write_sized(input.script_sig(), &mut bytes);
        bytes.extend(input.sequence().to_le_bytes());
    }
    // A transaction without inputs has no outputs either, only their count.
    write_compact_size(transaction.output_count() as u64, &mut bytes);
    for output in transaction.outputs() {
        bytes.extend(output.value().to_le_bytes());
        write_sized(output.script_pubkey(), &mut bytes);
    }
    if with_witness {
        for input in transaction.inputs() {
            let witness = input.witness();
            write_compact_size(witness.len() as u64, &mut bytes);
            witness.iter().for_each(|item| write_sized(item, &mut bytes));
        }
    }
    bytes.extend(transaction.lock_time().to_le_bytes());
    bytes
}

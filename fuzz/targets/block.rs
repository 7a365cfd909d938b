//! The input is a block.
//!
//! Checked: each transaction of a block that decodes, written again from its views, has the same
//! bytes and ids. Sizes, weight and positions of inputs fit. The block's own bytes decode to the
//! same block. Memory stays below a fixed multiple of the input, both in [`Block::memory`] and in
//! the allocator.

#![no_main]

use blockmill_block::hash::sha256d;
use blockmill_block::merkle::{witness_commitment, witness_commitment_index};
use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{Block, Header, Transaction};
use blockmill_fuzz::memory::peak_of;
use blockmill_fuzz::parts::rewrite;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes of tables for a byte of block. The worst case is a transaction of 10 bytes: it takes 104
/// bytes in tables that may be half empty.
const TABLES_PER_BYTE: usize = 22;

/// Peak of allocated bytes for a byte of block: while a table grows, the old one of half its size
/// is still there.
const PEAK_PER_BYTE: usize = 33;

/// Bytes for the first elements of the tables, and for a block of 81 bytes.
const TABLES_BASE: usize = 1024;

fn walk_transactions<B: AsRef<[u8]>>(block: &Block<B>) -> usize {
    let mut base_size = 0;
    let mut input_index = 0;
    for (index, transaction) in block.transactions().enumerate() {
        let (raw, stripped) = (rewrite(&transaction, true), rewrite(&transaction, false));
        assert_eq!(raw, transaction.raw());
        assert_eq!(transaction.wtxid().0, sha256d(&raw));
        assert_eq!(transaction.txid().0, sha256d(&stripped));
        assert_eq!(
            (transaction.total_size(), transaction.base_size()),
            (raw.len(), stripped.len())
        );
        let single = OwnedTransaction::decode(raw).expect("a transaction of a block decodes alone");
        assert_eq!(single.view().txid(), transaction.txid());
        assert_eq!(single.view().raw(), transaction.raw());
        base_size += stripped.len();
        let inputs = block.input_range(index);
        assert_eq!(inputs, input_index..input_index + transaction.input_count());
        for (number, input) in transaction.inputs().enumerate() {
            assert_eq!(block.locate_input(input_index + number), (index, number));
            let witness = input.witness();
            assert_eq!(witness.iter().count(), witness.len());
            assert_eq!(witness.last(), witness.iter().last());
        }
        input_index = inputs.end;
        transaction.outputs().for_each(|output| assert!(output.size() >= 9));
        if transaction.is_coinbase() {
            assert_eq!(
                witness_commitment(&transaction).is_some(),
                witness_commitment_index(&transaction).is_some()
            );
        }
    }
    assert_eq!(input_index, block.input_count());
    assert_eq!(
        block.output_count(),
        block
            .transactions()
            .map(|transaction| transaction.output_count())
            .sum::<usize>()
    );
    base_size
}

fuzz_target!(|data: &[u8]| {
    let (decoded, peak) = peak_of(|| Block::decode(data));
    assert!(
        peak <= PEAK_PER_BYTE * data.len() + 2 * TABLES_BASE,
        "{peak} bytes for {}",
        data.len()
    );
    let Ok(block) = decoded else {
        return;
    };
    let tables = block.memory() - data.len();
    assert!(
        tables <= TABLES_PER_BYTE * data.len() + TABLES_BASE,
        "{tables} bytes for {}",
        data.len()
    );
    assert!(peak >= tables, "{tables} bytes of tables, of {peak} allocated");

    let bytes = block.bytes();
    assert!(data.starts_with(bytes));
    assert_eq!(block.header().to_bytes(), bytes[..Header::LENGTH]);
    assert_eq!(block.hash().0, sha256d(&bytes[..Header::LENGTH]));
    let base_size = walk_transactions(&block);
    let count_length = bytes.len()
        - Header::LENGTH
        - block
            .transactions()
            .map(|transaction| transaction.total_size())
            .sum::<usize>();
    assert_eq!(block.base_size(), Header::LENGTH + count_length + base_size);
    assert_eq!(block.weight(), 3 * block.base_size() + bytes.len());
    let roots = (block.merkle_root(), block.witness_merkle_root());

    let again = Block::decode(bytes.to_vec()).expect("the block's own bytes decode");
    assert_eq!(again.bytes(), bytes);
    assert_eq!(again.hash(), block.hash());
    assert_eq!((again.merkle_root(), again.witness_merkle_root()), roots);
    let ids = |transaction: Transaction<'_>| (transaction.txid(), transaction.wtxid());
    assert!(again.transactions().map(ids).eq(block.transactions().map(ids)));
});

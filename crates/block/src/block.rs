//! Blocks as tables of offsets over their bytes.

use crate::hash::BlockHash;
use crate::header::Header;
use crate::merkle;
use crate::reader::{DecodeError, Reader, compact_size_length};
use crate::transaction::{DecodedTables, Transaction, check_length};
use std::ops::Range;

/// A decoded block: its bytes (owned or borrowed) and the offsets of its parts.
#[derive(Debug, Clone)]
pub struct Block<B = Vec<u8>> {
    bytes: B,
    length: usize,
    header: Header,
    hash: BlockHash,
    tables: DecodedTables,
    /// The index of each transaction's first input, and at the end the number of inputs.
    input_starts: Vec<u32>,
}

impl<B: AsRef<[u8]>> Block<B> {
    /// Decodes a block from the start of `bytes`, ids and hashes included. Bytes after the block
    /// are ignored, as by Bitcoin Core; [`Block::bytes`] ends with the block.
    ///
    /// Memory: at most about 22 bytes of tables per byte of block, and 33 while the tables grow. (A
    /// transaction of 10 bytes takes 104 bytes, and tables may be half empty.)
    ///
    /// # Errors
    /// Any [`DecodeError`]. Offsets count from the start of the block.
    pub fn decode(bytes: B) -> Result<Self, DecodeError> {
        let raw = bytes.as_ref();
        // Offsets have 32 bits.
        check_length(raw)?;
        let mut reader = Reader::new(raw);
        let header = Header::read(&mut reader)?;
        let mut tables = DecodedTables::default();
        let mut input_starts = vec![0];
        for _ in 0..reader.compact_size()? {
            tables.read_transaction(&mut reader)?;
            input_starts.push(tables.input_count() as u32);
        }
        let length = reader.offset();
        // All at once: hashes of several transactions run side by side.
        tables.hash_transactions(raw);
        Ok(Self {
            bytes,
            length,
            header,
            hash: header.hash(),
            tables,
            input_starts,
        })
    }

    /// The block's bytes, without any bytes after it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.length]
    }

    /// Memory of the block in bytes: its bytes and its tables, unused capacity included.
    pub fn memory(&self) -> usize {
        self.bytes.as_ref().len() + self.tables.memory() + self.input_starts.capacity() * size_of::<u32>()
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Hash of the header.
    pub fn hash(&self) -> BlockHash {
        self.hash
    }

    /// Number of transactions.
    pub fn transaction_count(&self) -> usize {
        self.tables.transactions.len()
    }

    /// Number of inputs of all transactions, the coinbase's included.
    pub fn input_count(&self) -> usize {
        self.tables.input_count()
    }

    /// Number of outputs of all transactions.
    pub fn output_count(&self) -> usize {
        self.tables.output_count()
    }

    /// The transaction at `index`. Panics if the block has none there.
    #[inline]
    pub fn transaction(&self, index: usize) -> Transaction<'_> {
        self.tables.transaction(self.bytes.as_ref(), index)
    }

    /// The transactions, in order.
    #[inline]
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'_>> + Clone {
        (0..self.transaction_count()).map(|index| self.transaction(index))
    }

    /// The inputs of the transaction at `index`, as indices into all inputs of the block, the
    /// coinbase's first. Panics if the block has no transaction there.
    #[inline]
    pub fn input_range(&self, index: usize) -> Range<usize> {
        self.input_starts[index] as usize..self.input_starts[index + 1] as usize
    }

    /// For input number `input` of the whole block: the index of its transaction, and its index
    /// there. The inverse of [`Block::input_range`].
    pub fn locate_input(&self, input: usize) -> (usize, usize) {
        // The first start is 0, so one at least is not above the input.
        let transaction = self.input_starts.partition_point(|&start| start as usize <= input) - 1;
        (transaction, input - self.input_starts[transaction] as usize)
    }

    /// Length in bytes without witnesses.
    pub fn base_size(&self) -> usize {
        let bodies: usize = self.transactions().map(|transaction| transaction.base_size()).sum();
        Header::LENGTH + compact_size_length(self.transaction_count() as u64) + bodies
    }

    /// Weight (BIP 141): three times the size without witnesses plus the size with them.
    pub fn weight(&self) -> usize {
        3 * self.base_size() + self.length
    }

    /// Merkle root of the transaction ids.
    pub fn merkle_root(&self) -> merkle::Root {
        let mut leaves: Vec<_> = self.tables_txids().collect();
        merkle::root(&mut leaves)
    }

    /// Merkle root of the witness transaction ids, with zero for the coinbase (BIP 141).
    pub fn witness_merkle_root(&self) -> [u8; 32] {
        let mut leaves: Vec<_> = self.transactions().map(|transaction| transaction.wtxid().0).collect();
        if let Some(coinbase) = leaves.first_mut() {
            // The commitment lies in the coinbase itself, so its hash cannot be part of it.
            *coinbase = [0; 32];
        }
        merkle::root(&mut leaves).hash
    }

    fn tables_txids(&self) -> impl Iterator<Item = [u8; 32]> {
        self.transactions().map(|transaction| transaction.txid().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use proptest::prelude::*;

    /// The genesis block of mainnet.
    fn genesis() -> Vec<u8> {
        hex::decode(concat!(
            "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f61",
            "7fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c01010000000100000000000000000000000000000000000000",
            "00000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63",
            "656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a0100",
            "0000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de",
            "5c384df7ba0b8d578a4c702b6bf11d5fac00000000"
        ))
        .unwrap()
    }

    /// A block with one transaction that has two inputs, the second with a witness of two items.
    fn with_witness() -> Vec<u8> {
        let mut bytes = genesis()[..80].to_vec();
        bytes.push(1);
        bytes.extend([2, 0, 0, 0, 0, 1, 2]);
        for number in [7, 9] {
            bytes.extend([number; 36]);
            bytes.extend([1, number, 0xfe, 0xff, 0xff, 0xff]);
        }
        bytes.extend([1, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0x51, 0x52]);
        bytes.extend([0, 2, 1, 0xaa, 0, 3, 0, 0, 0]);
        bytes
    }

    #[test]
    fn genesis_decodes() {
        let block = Block::decode(genesis()).unwrap();
        assert_eq!(
            block.hash().to_string(),
            "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
        );
        assert_eq!(block.merkle_root().hash, block.header().merkle_root.0);
        let coinbase = block.transaction(0);
        assert!(coinbase.is_coinbase());
        assert!(!coinbase.has_witness());
        assert_eq!(coinbase.output(0).value(), 5_000_000_000);
        assert_eq!(coinbase.input(0).script_sig().len(), 77);
        assert_eq!(coinbase.input(0).sequence(), u32::MAX);
        assert_eq!(block.weight(), 285 * 4);
    }

    #[test]
    fn witnesses_are_found_and_stripped() {
        let bytes = with_witness();
        let block = Block::decode(&bytes[..]).unwrap();
        let transaction = block.transaction(0);
        assert!(transaction.has_witness());
        assert_eq!(transaction.version(), 2);
        assert_eq!(transaction.lock_time(), 3);
        assert!(transaction.input(0).witness().is_empty());
        let items: Vec<_> = transaction.input(1).witness().iter().collect();
        assert_eq!(items, [&[0xaa][..], &[]]);
        assert_eq!(transaction.input(1).script_sig(), [9]);
        assert_eq!(transaction.input(1).previous_output().vout, 0x0909_0909);
        assert_eq!(transaction.output(0).script_pubkey(), [0x51, 0x52]);
        // Marker, flag and the five bytes of witnesses are not in the base size.
        assert_eq!(transaction.base_size(), transaction.total_size() - 7);
        let mut stripped = bytes[81..].to_vec();
        stripped.drain(4..6);
        let end = stripped.len();
        stripped.drain(end - 9..end - 4);
        assert_eq!(transaction.txid().0, crate::hash::sha256d(&stripped));
        assert_eq!(transaction.wtxid().0, crate::hash::sha256d(&bytes[81..]));
        assert_eq!(block.locate_input(0), (0, 0));
        assert_eq!(block.locate_input(1), (0, 1));
    }

    #[test]
    fn malformed_transactions_are_refused() {
        let mut superfluous = with_witness();
        let end = superfluous.len();
        superfluous.splice(end - 9..end - 4, [0, 0]);
        assert_eq!(
            Block::decode(superfluous).unwrap_err(),
            DecodeError::SuperfluousWitness { offset: 81 }
        );
        let mut flags = with_witness();
        flags[86] = 3;
        assert_eq!(
            Block::decode(flags).unwrap_err(),
            DecodeError::UnknownFlags { offset: 86, flags: 2 }
        );
        let mut endless = genesis();
        endless.splice(80..81, [254, 0, 0, 0, 2]);
        assert!(matches!(
            Block::decode(endless).unwrap_err(),
            DecodeError::UnexpectedEnd { .. }
        ));
    }

    #[test]
    fn memory_is_counted() {
        let bytes = with_witness();
        let length = bytes.len();
        let block = Block::decode(bytes).unwrap();
        // Two inputs, an output and a transaction with two ids, and the numbers of the inputs.
        assert!(
            block.memory() >= length + 2 * 24 + 16 + 64 + 2 * 4,
            "{}",
            block.memory()
        );
        assert!(block.memory() <= length + 12 * 100, "{}", block.memory());
    }

    #[test]
    fn no_prefix_decodes_and_what_follows_is_left() {
        for bytes in [genesis(), with_witness()] {
            for length in 0..bytes.len() {
                assert!(Block::decode(&bytes[..length]).is_err(), "{length}");
            }
            let mut longer = bytes.clone();
            longer.extend([1, 2, 3]);
            assert_eq!(Block::decode(longer).unwrap().bytes(), &bytes[..]);
        }
    }

    #[test]
    fn a_transaction_without_inputs_and_outputs_decodes() {
        let mut bytes = genesis()[..80].to_vec();
        bytes.extend([1, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
        let block = Block::decode(bytes).unwrap();
        assert_eq!(block.transaction(0).input_count(), 0);
        assert_eq!(block.transaction(0).output_count(), 0);
        assert_eq!(block.transaction(0).lock_time(), 9);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(tail in proptest::collection::vec(any::<u8>(), 0..300), flip in 0usize..2000) {
            let mut bytes = genesis()[..80].to_vec();
            bytes.extend(tail);
            let _ = Block::decode(bytes);
            let mut bytes = with_witness();
            let bit = flip % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(block) = Block::decode(bytes) {
                for transaction in block.transactions() {
                    for input in transaction.inputs() {
                        prop_assert_eq!(input.witness().iter().count(), input.witness().len());
                    }
                }
            }
        }
    }
}

//! Undo data: the coins that a block spent, in Core's form (`CBlockUndo`).

use crate::block::Block;
use crate::coin::CoinRef;
use crate::coin_list::{CoinList, Coins};
use crate::compress;
use crate::hash::{BlockHash, Sha256d};
use crate::network::Magic;
use crate::reader::{DecodeError, Reader, write_compact_size};
use std::ops::Range;
use thiserror::Error;

/// The coins that a block spent: one coin per input of every transaction except the coinbase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockUndo {
    coins: CoinList,
    /// For each transaction the number of coins up to its end.
    ends: Vec<usize>,
}

impl BlockUndo {
    /// Undo data without coins, with capacity for `coins` coins.
    pub fn with_capacity(coins: usize) -> Self {
        Self {
            coins: CoinList::with_capacity(coins),
            ends: Vec::new(),
        }
    }

    /// Undo data of these coins. `ends` has for each transaction the number of coins up to its end.
    ///
    /// # Panics
    /// If the numbers fall, or if the last is not that of all coins.
    pub fn from_coins(coins: CoinList, ends: Vec<usize>) -> Self {
        assert!(
            ends.is_sorted() && ends.last().copied().unwrap_or(0) == coins.len(),
            "the transactions do not have these coins"
        );
        Self { coins, ends }
    }

    /// Memory in bytes, unused capacity included.
    pub fn memory(&self) -> usize {
        self.coins.memory() + self.ends.capacity() * size_of::<usize>()
    }

    /// Appends a coin to the transaction that is being written.
    pub fn push_coin(&mut self, coin: CoinRef<'_>) {
        self.coins.push(coin);
    }

    /// Ends the transaction that is being written.
    pub fn end_transaction(&mut self) {
        self.ends.push(self.coins.len());
    }

    /// All coins: of each transaction in block order, of each input in order.
    pub fn coins(&self) -> Coins<'_> {
        self.coins.coins()
    }

    /// Number of transactions, the coinbase not counted.
    pub fn transaction_count(&self) -> usize {
        self.ends.len()
    }

    /// The [`coins`](Self::coins) of transaction `index`, as a range. The coinbase does not count.
    /// Panics if `index` is out of range.
    pub fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// The coins of transaction `index`, one per input. The coinbase does not count. Panics if
    /// `index` is out of range.
    pub fn transaction(&self, index: usize) -> Coins<'_> {
        self.coins().range(self.range(index))
    }

    /// Whether there is a coin for every input of a block but the coinbase's.
    pub fn fits<B: AsRef<[u8]>>(&self, block: &Block<B>) -> bool {
        self.transaction_count() + 1 == block.transaction_count()
            && (1..block.transaction_count())
                .all(|index| self.transaction(index - 1).len() == block.transaction(index).input_count())
    }

    /// Appends Core's serialization.
    pub fn write(&self, into: &mut Vec<u8>) {
        write_compact_size(self.ends.len() as u64, into);
        for index in 0..self.ends.len() {
            let coins = self.transaction(index);
            write_compact_size(coins.len() as u64, into);
            for coin in coins.iter() {
                coin.write_undo(into);
            }
        }
    }

    /// Reads undo data that takes up all of `bytes`.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut undo = Self::default();
        for _ in 0..reader.compact_size()? {
            for _ in 0..reader.compact_size()? {
                undo.coins.read_undo(&mut reader)?;
            }
            undo.end_transaction();
        }
        reader.finish()?;
        Ok(undo)
    }

    /// As [`decode`](Self::decode), for a known block: none if there is not a coin for every input
    /// of the block but the coinbase's. Memory is taken for the block's coins alone, whatever the
    /// bytes say.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode_for<B: AsRef<[u8]>>(bytes: &[u8], block: &Block<B>) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut undo = Self::default();
        let fits = each_transaction_of(block, &mut reader, |reader, inputs| {
            for _ in 0..inputs {
                undo.coins.read_undo(reader)?;
            }
            undo.end_transaction();
            Ok(())
        })?;
        if !fits {
            return Ok(None);
        }
        reader.finish()?;
        Ok(Some(undo))
    }

    /// Length of the undo data that `bytes` begin with. Keys of its scripts are not looked at.
    ///
    /// # Errors
    /// Any [`DecodeError`]; [`DecodeError::UnexpectedEnd`] if `bytes` are too few.
    pub fn length_in(bytes: &[u8]) -> Result<usize, DecodeError> {
        let mut reader = Reader::new(bytes);
        for _ in 0..reader.compact_size()? {
            for _ in 0..reader.compact_size()? {
                skip_coin(&mut reader)?;
            }
        }
        Ok(reader.offset())
    }

    /// As [`length_in`](Self::length_in), for a known block: none if there is not a coin for every
    /// input of the block but the coinbase's.
    ///
    /// # Errors
    /// Those of [`length_in`](Self::length_in).
    pub fn length_for<B: AsRef<[u8]>>(bytes: &[u8], block: &Block<B>) -> Result<Option<usize>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let fits = each_transaction_of(block, &mut reader, |reader, inputs| {
            (0..inputs).try_for_each(|_| skip_coin(reader))
        })?;
        Ok(fits.then(|| reader.offset()))
    }

    /// Bounds of the bytes of a block's undo data. Panics if the block has no transaction.
    pub fn lengths_for<B: AsRef<[u8]>>(block: &Block<B>) -> std::ops::RangeInclusive<u64> {
        let transactions = block.transaction_count().saturating_sub(1) as u64;
        // Undo data has no coins of the coinbase.
        let of_coinbase = block.transaction(0).input_count();
        let coins = block.input_count().saturating_sub(of_coinbase) as u64;
        1 + transactions + coins * COIN_BYTES_MIN..=(1 + transactions) * COMPACT_SIZE_BYTES_MAX + coins * COIN_BYTES_MAX
    }
}

/// Has `read` read the coins of each transaction of a block but the coinbase: as many as it has
/// inputs. False if the undo data has other numbers of transactions or coins.
fn each_transaction_of<'b, B: AsRef<[u8]>>(
    block: &Block<B>,
    reader: &mut Reader<'b>,
    mut read: impl FnMut(&mut Reader<'b>, usize) -> Result<(), DecodeError>,
) -> Result<bool, DecodeError> {
    // The coinbase spends nothing, and has no entry.
    if reader.compact_size()? + 1 != block.transaction_count() {
        return Ok(false);
    }
    for index in 1..block.transaction_count() {
        let inputs = block.transaction(index).input_count();
        if reader.compact_size()? != inputs {
            return Ok(false);
        }
        read(reader, inputs)?;
    }
    Ok(true)
}

/// Skips a coin of undo data.
fn skip_coin(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let code = reader.varint(u64::from(u32::MAX))? as u32;
    // Old versions of Core wrote the version of the transaction here. It is read and not used.
    if code >> 1 > 0 {
        reader.varint(u64::from(u32::MAX))?;
    }
    compress::skip_output(reader)
}

/// Bytes of a coin in undo data, at least: a code, an amount, and the length of an empty script.
const COIN_BYTES_MIN: u64 = 3;

/// Bytes of a coin in undo data, at most: code, version, amount, and the longest script that can be
/// spent (Core's `MAX_SCRIPT_SIZE`) with its length.
const COIN_BYTES_MAX: u64 = 5 + 5 + 10 + 5 + 10_000;

/// The longest CompactSize.
const COMPACT_SIZE_BYTES_MAX: u64 = 9;

/// Bytes of a record before the undo data: magic and length.
pub const RECORD_HEAD: usize = 8;

/// Bytes of a record after the undo data: the checksum.
pub const RECORD_TAIL: usize = 32;

/// Why an undo record is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UndoRecordError {
    /// The record does not begin with the network's magic and its own length.
    #[error("no undo record begins here")]
    Head,
    /// The checksum does not match the data and the parent's hash.
    #[error("undo checksum mismatch")]
    Checksum,
    /// The data does not decode.
    #[error("undo data: {0}")]
    Decode(#[from] DecodeError),
}

/// The checksum of undo data whose block has the parent `previous`.
pub fn checksum(previous: &BlockHash, undo: &[u8]) -> [u8; 32] {
    let mut hash = Sha256d::new();
    hash.update(&previous.0);
    hash.update(undo);
    hash.finalize()
}

/// Appends a record as in Core's `rev*.dat`: magic, length, undo data, checksum. The checksum is
/// the double SHA-256 of the hash of the block's parent and the undo data.
pub fn write_record(magic: Magic, previous: &BlockHash, undo: &BlockUndo, into: &mut Vec<u8>) {
    into.extend_from_slice(&magic.0);
    let length_at = into.len();
    into.extend_from_slice(&[0; 4]);
    let start = into.len();
    undo.write(into);
    // Undo data is bounded by its block: it has less than 2^32 bytes.
    let length = (into.len() - start) as u32;
    into[length_at..start].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(previous, &into[start..]);
    into.extend_from_slice(&sum);
}

/// Reads a whole record of [`write_record`]. `previous` is the hash of the block's parent.
///
/// # Errors
/// Any [`UndoRecordError`].
pub fn read_record(magic: Magic, previous: &BlockHash, record: &[u8]) -> Result<BlockUndo, UndoRecordError> {
    Ok(BlockUndo::decode(checked_body(magic, previous, record)?)?)
}

/// The checksum of a record whose block spends nothing and has the parent `previous`.
pub fn checksum_without_coins(previous: &BlockHash) -> [u8; 32] {
    // A list of no transactions is one byte.
    checksum(previous, &[0])
}

/// The undo data in a record whose checksum is right.
fn checked_body<'a>(magic: Magic, previous: &BlockHash, record: &'a [u8]) -> Result<&'a [u8], UndoRecordError> {
    let body = record
        .len()
        .checked_sub(RECORD_HEAD + RECORD_TAIL)
        .ok_or(UndoRecordError::Head)?;
    let length = u32::try_from(body).map_err(|_| UndoRecordError::Head)?;
    if record[..4] != magic.0 || record[4..8] != length.to_le_bytes() {
        return Err(UndoRecordError::Head);
    }
    let (undo, sum) = record[RECORD_HEAD..].split_at(body);
    if checksum(previous, undo) != sum {
        return Err(UndoRecordError::Checksum);
    }
    Ok(undo)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BlockUndo {
        let mut undo = BlockUndo::default();
        for (coins, height) in [(2, 0), (0, 1), (1, 700_000)] {
            for index in 0..coins {
                undo.push_coin(CoinRef {
                    value: 1000 + index,
                    height,
                    is_coinbase: height == 700_000,
                    script_pubkey: &vec![0x51; index as usize + 1],
                });
            }
            undo.end_transaction();
        }
        undo
    }

    #[test]
    fn round_trip() {
        let undo = sample();
        let mut written = Vec::new();
        undo.write(&mut written);
        assert_eq!(BlockUndo::decode(&written).unwrap(), undo);
        assert_eq!(undo.transaction(0).len(), 2);
        assert_eq!(undo.transaction(1).len(), 0);
        assert_eq!(undo.transaction(2).at(0).height, 700_000);
        assert!(BlockUndo::decode(&written[..written.len() - 1]).is_err());
        for length in 0..written.len() {
            let cut = BlockUndo::length_in(&written[..length]);
            assert!(matches!(cut, Err(DecodeError::UnexpectedEnd { .. })), "{length}");
        }
        let length = written.len();
        written.push(0);
        assert_eq!(BlockUndo::length_in(&written), Ok(length));
        assert!(matches!(
            BlockUndo::decode(&written),
            Err(DecodeError::TrailingBytes { extra: 1, .. })
        ));
    }

    #[test]
    fn any_flipped_bit_of_a_record_is_seen() {
        let magic = Magic([1, 2, 3, 4]);
        let parent = BlockHash([7; 32]);
        let mut record = Vec::new();
        write_record(magic, &parent, &sample(), &mut record);
        assert_eq!(read_record(magic, &parent, &record), Ok(sample()));
        assert_eq!(
            read_record(magic, &BlockHash([8; 32]), &record),
            Err(UndoRecordError::Checksum)
        );
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_record(magic, &parent, &damaged).is_err(), "bit {bit}");
        }
        assert_eq!(read_record(magic, &parent, &[]), Err(UndoRecordError::Head));
    }
}

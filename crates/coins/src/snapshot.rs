//! Snapshots of the set in the format of Core's `dumptxoutset`, version 2 (node/utxo_snapshot.h,
//! rpc/blockchain.cpp).
//!
//! | bytes | content |
//! |---|---|
//! | 5 | `utxo` and 0xff |
//! | 2 | version, little endian |
//! | 4 | magic of the network |
//! | 32 | hash of the base block, the last block of the set |
//! | 8 | number of coins, little endian |
//!
//! Then, for each transaction with coins: its id (32 bytes), and the number of its coins as a
//! CompactSize. For each coin follow its output index as a CompactSize, and the coin as in Core's
//! database. Transactions are sorted by id, in wire order. Coins of a transaction come in the order
//! of Core's database, where the index is a VARINT: 16,512 before 256.

#[cfg(test)]
mod tests;

use crate::store::{StoreError, Tip};
use blockmill_block::reader::{DecodeError, Reader, write_compact_size, write_varint};
use blockmill_block::{BlockHash, Coin, Magic, OutPoint, Txid};
use std::io::{self, Read, Seek, SeekFrom, Write};
use thiserror::Error;

const FILE_MAGIC: [u8; 5] = *b"utxo\xff";

const VERSION: u16 = 2;

const METADATA_LENGTH: usize = 5 + 2 + 4 + 32 + 8;

/// Offset of the number of coins.
const COUNT_AT: u64 = METADATA_LENGTH as u64 - 8;

/// Bytes that one read asks for, and of a chunk of coins about.
const CHUNK: usize = 1 << 20;

/// Coins of a chunk about: small ones take many times their bytes when they are decoded.
const CHUNK_COINS: u64 = 1 << 15;

/// Bytes of the coins of a transaction at most, and so of a coin. A block has room for 1 MB of
/// scripts, and for outputs whose heads take 2.5 MB here.
const GROUP_MAX: usize = 4 << 20;

/// Most outputs of a transaction: a block of 4 million weight has no room for more outputs of 9
/// bytes.
const OUTPUTS_MAX: usize = 4_000_000 / 4 / 9;

const MAX_MONEY: i64 = 21_000_000 * 100_000_000;

/// Why a snapshot cannot be read or written. Offsets are in bytes from the start of the file.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The set cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is no snapshot.
    #[error("offset 0: not a UTXO snapshot (it does not begin with 'utxo' and ff)")]
    NoSnapshot,
    /// This program does not read the version.
    #[error("offset 5: snapshot version {found}; this program reads version {VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// The snapshot belongs to another network.
    #[error("offset 7: the snapshot belongs to the network with magic {found}, not {wanted}")]
    Network {
        /// The magic found.
        found: String,
        /// The magic wanted.
        wanted: String,
    },
    /// The content is wrong.
    #[error("offset {offset}: {detail}")]
    Damaged {
        /// Where the wrong part begins.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
}

/// The head of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// The last block of the set.
    pub base: BlockHash,
    /// Number of coins.
    pub coins: u64,
}

/// Writes the coins of a set, sorted by key, and returns their number. Calls `each` with every
/// coin, in that order.
///
/// # Errors
/// [`SnapshotError::Io`], [`SnapshotError::Store`].
pub fn write_snapshot(
    out: &mut (impl Write + Seek),
    magic: Magic,
    tip: &Tip,
    coins: impl Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
    each: impl FnMut(&OutPoint, &Coin),
) -> Result<u64, SnapshotError> {
    let count = stream_snapshot(out, magic, tip, 0, coins, each)?;
    // The number is known only now, and stands at the head.
    out.seek(SeekFrom::Start(COUNT_AT))?;
    out.write_all(&count.to_le_bytes())?;
    Ok(count)
}

/// As [`write_snapshot`], to a stream, whose head says that `announced` coins follow. Returns how
/// many did.
///
/// # Errors
/// [`SnapshotError::Io`], [`SnapshotError::Store`].
pub fn stream_snapshot(
    out: &mut impl Write,
    magic: Magic,
    tip: &Tip,
    announced: u64,
    coins: impl Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
    mut each: impl FnMut(&OutPoint, &Coin),
) -> Result<u64, SnapshotError> {
    let mut bytes = Vec::with_capacity(2 * CHUNK);
    bytes.extend(FILE_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(magic.0);
    bytes.extend(tip.hash.0);
    bytes.extend(announced.to_le_bytes());
    let mut count: u64 = 0;
    let mut group: Vec<(OutPoint, Coin)> = Vec::new();
    for entry in coins {
        let (outpoint, coin) = entry?;
        each(&outpoint, &coin);
        count += 1;
        // The number of a transaction's coins comes before them.
        if group.first().is_some_and(|first| first.0.txid != outpoint.txid) {
            write_group(&mut group, &mut bytes);
            if bytes.len() >= CHUNK {
                out.write_all(&bytes)?;
                bytes.clear();
            }
        }
        group.push((outpoint, coin));
    }
    write_group(&mut group, &mut bytes);
    out.write_all(&bytes)?;
    Ok(count)
}

/// Appends the coins of one transaction.
fn write_group(group: &mut Vec<(OutPoint, Coin)>, into: &mut Vec<u8>) {
    let Some((first, _)) = group.first() else {
        return;
    };
    into.extend(first.txid.0);
    write_compact_size(group.len() as u64, into);
    // Core reads its database in the order of its keys.
    group.sort_unstable_by_key(|(outpoint, _)| database_order(outpoint.vout));
    for (outpoint, coin) in group.drain(..) {
        write_compact_size(outpoint.vout.into(), into);
        coin.write_compressed(into);
    }
}

/// Sorts output indices as Core's keys do: the VARINT, padded with zeros. No VARINT is a prefix of
/// another.
fn database_order(vout: u32) -> [u8; 5] {
    let mut bytes = Vec::with_capacity(5);
    write_varint(vout.into(), &mut bytes);
    // A VARINT of 32 bits has 5 bytes at most.
    bytes.resize(5, 0);
    std::array::from_fn(|index| bytes[index])
}

/// The magic of the network that a snapshot belongs to.
///
/// # Errors
/// [`SnapshotError::Io`], or [`SnapshotError::NoSnapshot`].
pub fn snapshot_network(mut input: impl Read) -> Result<Magic, SnapshotError> {
    let mut head = [0; FILE_MAGIC.len() + 2 + 4];
    match input.read_exact(&mut head) {
        // A file that is shorter than a head is no snapshot.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(SnapshotError::NoSnapshot),
        read => read?,
    }
    match head {
        [b'u', b't', b'x', b'o', 0xff, _, _, magic @ ..] => Ok(Magic(magic)),
        _ => Err(SnapshotError::NoSnapshot),
    }
}

/// Reads a snapshot, coin by coin.
#[derive(Debug)]
pub struct SnapshotReader<R> {
    input: R,
    metadata: SnapshotMetadata,
    /// Bytes that were read. The bytes before `start` are used up.
    buffer: Vec<u8>,
    start: usize,
    /// Offset in the file of the byte at `start`.
    offset: u64,
    at_end: bool,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the head of a snapshot of the network with this magic.
    ///
    /// # Errors
    /// Any [`SnapshotError`].
    pub fn new(input: R, magic: Magic) -> Result<Self, SnapshotError> {
        let mut reader = Self {
            input,
            metadata: SnapshotMetadata {
                base: BlockHash::ZERO,
                coins: 0,
            },
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            at_end: false,
        };
        reader.fill(METADATA_LENGTH)?;
        if !reader.buffer.starts_with(&FILE_MAGIC) {
            return Err(SnapshotError::NoSnapshot);
        }
        let (version, found, base, coins) = reader.parse(|reader| {
            reader.take(FILE_MAGIC.len())?;
            let version = u16::from_le_bytes(reader.array()?);
            Ok((version, reader.array()?, reader.array()?, reader.array()?))
        })?;
        // The version first: in another one the rest may mean anything.
        if version != VERSION {
            return Err(SnapshotError::Version { found: version });
        }
        if found != magic.0 {
            return Err(SnapshotError::Network {
                found: blockmill_block::hex::encode(&found),
                wanted: blockmill_block::hex::encode(&magic.0),
            });
        }
        reader.metadata = SnapshotMetadata {
            base: BlockHash(base),
            coins: u64::from_le_bytes(coins),
        };
        Ok(reader)
    }

    /// The head of the snapshot.
    pub fn metadata(&self) -> &SnapshotMetadata {
        &self.metadata
    }

    /// The coins, sorted by key. `base_height` is the height of the base block. The iterator ends
    /// after an error.
    pub fn coins(self, base_height: u32) -> SnapshotCoins<R> {
        SnapshotCoins {
            left: self.metadata.coins,
            reader: self,
            base_height,
            txid: None,
            group: Vec::new(),
            ended: false,
        }
    }

    /// The coins in chunks, which several threads may decode. `base_height` is the height of the
    /// base block. The iterator ends after an error.
    pub fn chunks(self, base_height: u32) -> SnapshotChunks<R> {
        SnapshotChunks {
            left: self.metadata.coins,
            reader: self,
            base_height,
            last: None,
            ended: false,
        }
    }

    /// Reads until the buffer has `wanted` bytes, or the file ends.
    fn fill(&mut self, wanted: usize) -> Result<(), SnapshotError> {
        if self.start > 0 && self.buffer.len() - self.start < wanted {
            // The rest of a value moves to the front, so the buffer does not grow.
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        while !self.at_end && self.buffer.len() - self.start < wanted {
            let more = self.input.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer)?;
            self.at_end = more == 0;
        }
        Ok(())
    }

    /// Reads a value that is no longer than a coin.
    fn parse<T>(&mut self, read: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>) -> Result<T, SnapshotError> {
        let mut wanted = 1;
        loop {
            self.fill(wanted)?;
            let mut reader = Reader::new(&self.buffer[self.start..]);
            match read(&mut reader) {
                Ok(value) => {
                    let length = reader.offset();
                    self.start += length;
                    self.offset += length as u64;
                    return Ok(value);
                }
                // A value may be longer than what is there, but never longer than a block has room
                // for.
                Err(DecodeError::UnexpectedEnd { .. }) if !self.at_end && wanted < GROUP_MAX => {
                    wanted = self.buffer.len() - self.start + 1;
                }
                Err(DecodeError::UnexpectedEnd { .. }) if self.at_end => {
                    return Err(self.damaged("the file ends too early".to_owned()));
                }
                Err(error) => return Err(self.damaged(error.to_string())),
            }
        }
    }

    /// The bytes of the value that was parsed last, which began at this offset of the file.
    fn parsed(&self, begin: u64) -> &[u8] {
        let length = (self.offset - begin) as usize;
        &self.buffer[self.start - length..self.start]
    }

    /// The head of the coins of a transaction: its id, and their number.
    fn group_head(&mut self, left: u64) -> Result<(Txid, usize), SnapshotError> {
        let begin = self.offset;
        let (txid, count) = self.parse(|reader| Ok((Txid(reader.array()?), reader.compact_size()?)))?;
        // Memory is taken for coins as they come, and for no number of them.
        if count == 0 || count > OUTPUTS_MAX || count as u64 > left {
            return Err(SnapshotError::Damaged {
                offset: begin,
                detail: format!("transaction {txid} has {count} coins, of {left} that remain"),
            });
        }
        Ok((txid, count))
    }

    /// Checks, after each coin, that those of a transaction take no more than a block has room for.
    /// They began at this offset of the file.
    fn check_group(&self, begin: u64, txid: &Txid) -> Result<(), SnapshotError> {
        if self.offset - begin <= GROUP_MAX as u64 {
            return Ok(());
        }
        let detail = format!("the coins of transaction {txid} are more than a block has room for");
        Err(self.damaged(detail))
    }

    fn check_end(&mut self) -> Result<(), SnapshotError> {
        self.fill(1)?;
        match self.buffer.len() - self.start {
            0 => Ok(()),
            _ => Err(self.damaged("the file goes on after the last coin".to_owned())),
        }
    }

    fn damaged(&self, detail: String) -> SnapshotError {
        SnapshotError::Damaged {
            offset: self.offset,
            detail,
        }
    }
}

/// The coins of a snapshot in chunks: all coins of some transactions each. What this reads it does
/// not check; [`SnapshotChunk::coins`] does.
#[derive(Debug)]
pub struct SnapshotChunks<R> {
    reader: SnapshotReader<R>,
    base_height: u32,
    /// Coins that are not read yet.
    left: u64,
    /// The last transaction of the chunk before.
    last: Option<Txid>,
    ended: bool,
}

impl<R: Read> SnapshotChunks<R> {
    fn read_next(&mut self) -> Result<Option<SnapshotChunk>, SnapshotError> {
        if self.left == 0 {
            return self.reader.check_end().map(|()| None);
        }
        let (offset, left, after) = (self.reader.offset, self.left, self.last);
        // The last transaction of a chunk may go beyond its end.
        let mut bytes = Vec::with_capacity(CHUNK + CHUNK / 8);
        while bytes.len() < CHUNK && left - self.left < CHUNK_COINS && self.left > 0 {
            let begin = self.reader.offset;
            let (txid, count) = self.reader.group_head(self.left)?;
            bytes.extend_from_slice(self.reader.parsed(begin));
            let coins_begin = self.reader.offset;
            for _ in 0..count {
                let begin = self.reader.offset;
                self.reader.parse(|reader| {
                    reader.compact_size()?;
                    Coin::skip_compressed(reader)
                })?;
                bytes.extend_from_slice(self.reader.parsed(begin));
                self.reader.check_group(coins_begin, &txid)?;
            }
            self.left -= count as u64;
            self.last = Some(txid);
        }
        Ok(Some(SnapshotChunk {
            bytes,
            offset,
            coins: left - self.left,
            base_height: self.base_height,
            after,
        }))
    }
}

impl<R: Read> Iterator for SnapshotChunks<R> {
    type Item = Result<SnapshotChunk, SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Some coins of a snapshot, not decoded yet.
#[derive(Debug)]
pub struct SnapshotChunk {
    bytes: Vec<u8>,
    /// Offset in the file.
    offset: u64,
    coins: u64,
    base_height: u32,
    /// The last transaction of the chunk before.
    after: Option<Txid>,
}

impl SnapshotChunk {
    /// The coins, sorted by key, and checked as those of [`SnapshotReader::coins`] are.
    ///
    /// # Errors
    /// Any [`SnapshotError`].
    pub fn coins(&self) -> Result<Vec<(OutPoint, Coin)>, SnapshotError> {
        let reader = SnapshotReader {
            input: &self.bytes[..],
            metadata: SnapshotMetadata {
                // Only the number of coins is asked for.
                base: BlockHash::ZERO,
                coins: self.coins,
            },
            buffer: Vec::new(),
            start: 0,
            offset: self.offset,
            at_end: false,
        };
        let mut coins = reader.coins(self.base_height);
        // The order goes on across chunks.
        coins.txid = self.after;
        coins.collect()
    }
}

/// The coins of a snapshot.
#[derive(Debug)]
pub struct SnapshotCoins<R> {
    reader: SnapshotReader<R>,
    base_height: u32,
    /// Coins that are not read yet.
    left: u64,
    txid: Option<Txid>,
    /// Coins of one transaction, the lowest output index last.
    group: Vec<(OutPoint, Coin)>,
    ended: bool,
}

impl<R: Read> SnapshotCoins<R> {
    /// Bytes of the file that are used so far.
    pub fn offset(&self) -> u64 {
        self.reader.offset
    }

    fn read_next(&mut self) -> Result<Option<(OutPoint, Coin)>, SnapshotError> {
        if self.group.is_empty() {
            if self.left == 0 {
                return self.reader.check_end().map(|()| None);
            }
            self.read_group()?;
        }
        Ok(self.group.pop())
    }

    /// Reads the coins of the next transaction.
    fn read_group(&mut self) -> Result<(), SnapshotError> {
        let begin = self.reader.offset;
        let damaged = |detail: String| SnapshotError::Damaged { offset: begin, detail };
        let (txid, count) = self.reader.group_head(self.left)?;
        // Two groups of one transaction are out of order, too.
        if self.txid.is_some_and(|last| last.0 >= txid.0) {
            return Err(damaged(format!("transaction {txid} is out of order")));
        }
        self.txid = Some(txid);
        let coins_begin = self.reader.offset;
        for _ in 0..count {
            let coin = self.read_coin(txid)?;
            self.reader.check_group(coins_begin, &txid)?;
            self.group.push(coin);
        }
        self.group
            .sort_unstable_by_key(|(outpoint, _)| std::cmp::Reverse(outpoint.vout));
        if let Some(pair) = self.group.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(damaged(format!("coin {} occurs twice", pair[0].0)));
        }
        self.left -= count as u64;
        Ok(())
    }

    fn read_coin(&mut self, txid: Txid) -> Result<(OutPoint, Coin), SnapshotError> {
        let begin = self.reader.offset;
        let (vout, coin) = self
            .reader
            .parse(|reader| Ok((reader.compact_size()?, Coin::read_compressed(reader)?)))?;
        // Core refuses these two as well.
        let problem = if coin.height > self.base_height {
            Some(format!("its height {} is above that of the base block", coin.height))
        } else if !(0..=MAX_MONEY).contains(&coin.value) {
            Some(format!("its amount {} is out of range", coin.value))
        } else {
            None
        };
        // A CompactSize of a length is below 2^25.
        let outpoint = OutPoint {
            txid,
            vout: vout as u32,
        };
        match problem {
            None => Ok((outpoint, coin)),
            Some(problem) => Err(SnapshotError::Damaged {
                offset: begin,
                detail: format!("coin {outpoint}: {problem}"),
            }),
        }
    }
}

impl<R: Read> Iterator for SnapshotCoins<R> {
    type Item = Result<(OutPoint, Coin), SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

//! A chain of block files as bytes, so that who has searched the files can tell others where the
//! blocks are: other processes on this machine, or other machines with the same files.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `bmchain2` |
//! | 4 | magic of the network |
//! | 4 | number of headers, little endian as all numbers |
//! | 80 each | headers, from height 1 on |
//! | 4 | number of files |
//! | for each file | length of its path in bytes (4), path |
//! | 4 | number of positions |
//! | 20 each | height (4), number of the file (4), offset (8), length (4) |
//! | 4 | number of copies of blocks beside the chain, whose parents are in it |
//! | 96 each | header, number of the file (4), offset (8), length (4) |

use crate::chain_blocks::ChainBlocks;
use crate::index::HeaderIndex;
use crate::insert::{insert_blocks, insert_records, without_position};
use blockmill_block::Header;
use blockmill_block::reader::{DecodeError, Reader};
use blockmill_blockfiles::{BlockFiles, Position, Record};
use blockmill_rules::Params;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thiserror::Error;

const HEAD: [u8; 8] = *b"bmchain2";

const POSITION: usize = 4 + 8 + 4;

/// Why bytes are no chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChainBytesError {
    /// They do not have the form of a chain.
    #[error("this is no chain of block files")]
    NoChain,
    /// The chain belongs to another network.
    #[error("the chain belongs to another network")]
    OtherNetwork,
    /// A header breaks a rule, or does not follow the one before.
    #[error("the header of height {height} does not go on with the chain")]
    Header {
        /// Its height.
        height: u32,
    },
}

impl ChainBlocks {
    /// The chain, and where its blocks are. The undo data of a data directory is not in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(HEAD);
        bytes.extend(self.params().magic().0);
        bytes.extend(self.height().to_le_bytes());
        for height in 1..=self.height() {
            if let Ok(header) = self.header(height) {
                bytes.extend(header.to_bytes());
            }
        }
        let files = self.files();
        bytes.extend((files.len() as u32).to_le_bytes());
        for file in 0..files.len() as u32 {
            let path = files.path(file).as_os_str().as_bytes();
            bytes.extend((path.len() as u32).to_le_bytes());
            bytes.extend(path);
        }
        let positions = self.positions();
        bytes.extend((positions.len() as u32).to_le_bytes());
        for (height, position) in positions {
            bytes.extend(height.to_le_bytes());
            write_position(position, &mut bytes);
        }
        let beside = self.beside();
        bytes.extend((beside.len() as u32).to_le_bytes());
        for Record { position, header, .. } in beside {
            bytes.extend(header.to_bytes());
            write_position(position, &mut bytes);
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. All headers are checked. Blocks in files that
    /// are not there, under the same paths, count as not found.
    ///
    /// # Errors
    /// [`ChainBytesError`].
    pub fn from_bytes(bytes: &[u8], params: &Params) -> Result<Self, ChainBytesError> {
        let mut fields = Reader::new(bytes);
        if fields.array()? != HEAD {
            return Err(ChainBytesError::NoChain);
        }
        if fields.array()? != params.magic().0 {
            return Err(ChainBytesError::OtherNetwork);
        }
        let count = fields.u32()? as usize;
        // The bytes must be there before a list is made for them: the count may be a lie.
        let headers = fields.take(count.checked_mul(Header::LENGTH).ok_or(ChainBytesError::NoChain)?)?;
        let (headers, _) = headers.as_chunks();
        let headers: Vec<Header> = headers.iter().map(Header::from_bytes).collect();
        let headers = without_position(&headers);
        let mut index = HeaderIndex::new(params.clone());
        // A header that breaks a rule is left out with all above it, and the tip shows that.
        insert_records(&mut index, &headers, |_, _, _| ());
        let tip = index.entry(index.best_header());
        let last = headers.last().map_or(params.genesis.hash(), |record| record.hash);
        if (tip.height as usize, tip.hash) != (count, last) {
            return Err(ChainBytesError::Header { height: tip.height + 1 });
        }
        let mut files = BlockFiles::new();
        let mut numbers = Vec::new();
        for _ in 0..fields.u32()? {
            let length = fields.u32()? as usize;
            let path = Path::new(OsStr::from_bytes(fields.take(length)?));
            // A file that is not there keeps its number, so that the later ones have theirs.
            let added = files.add(path).ok().and_then(|added| added.first().copied());
            numbers.push(added);
        }
        let mut records = Vec::new();
        for _ in 0..fields.u32()? {
            let height = fields.u32()?;
            let position = read_position(&mut fields, &numbers)?;
            let (header, hash) = match height.checked_sub(1) {
                // The header of height 0 is not among the bytes: both sides know it.
                None => (params.genesis, params.genesis.hash()),
                Some(before) => {
                    let record = headers.get(before as usize).ok_or(ChainBytesError::NoChain)?;
                    (record.header, record.hash)
                }
            };
            records.extend(position.map(|position| Record { position, header, hash }));
        }
        let tip = index.best_header();
        let mut beside = Vec::new();
        for _ in 0..fields.u32()? {
            let header = Header::from_bytes(&fields.array()?);
            let (hash, position) = (header.hash(), read_position(&mut fields, &numbers)?);
            beside.extend(position.map(|position| Record { position, header, hash }));
        }
        fields.finish()?;
        insert_blocks(&mut index, &beside);
        Ok(Self::of_records(index, tip, files, records))
    }
}

fn write_position(position: Position, into: &mut Vec<u8>) {
    into.extend(position.file.to_le_bytes());
    into.extend(position.offset.to_le_bytes());
    into.extend(position.length.to_le_bytes());
}

/// A position; none where its file is not there. `numbers` has the numbers of the files.
fn read_position(fields: &mut Reader<'_>, numbers: &[Option<u32>]) -> Result<Option<Position>, ChainBytesError> {
    let mut position = Reader::new(fields.take(POSITION)?);
    let file = position.u32()?;
    let (offset, length) = (u64::from_le_bytes(position.array()?), position.u32()?);
    let number = numbers.get(file as usize).ok_or(ChainBytesError::NoChain)?;
    Ok(number.map(|file| Position { file, length, offset }))
}

impl From<DecodeError> for ChainBytesError {
    fn from(_: DecodeError) -> Self {
        Self::NoChain
    }
}

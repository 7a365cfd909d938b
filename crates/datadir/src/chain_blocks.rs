//! The chain of a data directory: its headers and its undo data, and where its blocks were found.

use crate::DataDir;
use crate::error::{OpenError, no_parent, no_tip_header};
use crate::files::{HEADERS_FILE, KEPT_FOLDER, POSITIONS_FILE, UNDO_FILE};
use crate::headers_file::{NO_UNDO, RECORD, decode};
use crate::own_blocks::OWN_FOLDERS;
use blockmill_block::{BlockHash, Header, Magic};
use blockmill_blockfiles::{FileError, find_regular, has_block_files};
use blockmill_chain::ChainBlocks;
use blockmill_chain::index::{BlockId, HeaderIndex};
use blockmill_chain::positions::FoundPositions;
use blockmill_chain::search::search_folder;
use blockmill_coins::{Tip, UndoLog, UndoPosition};
use blockmill_rules::Params;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

impl DataDir {
    /// The chain that ends in `tip`: the one of the directory's set, which was opened before.
    ///
    /// # Errors
    /// [`OpenError::File`], or [`OpenError::Damaged`] where headers are missing.
    pub fn blocks(&self, tip: &Tip) -> Result<ChainBlocks, OpenError> {
        self.blocks_with(tip, self.chain_id().params())
    }

    /// As [`blocks`](Self::blocks), with other rules than those of the directory's network: for
    /// tests.
    #[doc(hidden)]
    pub fn blocks_with(&self, tip: &Tip, params: Params) -> Result<ChainBlocks, OpenError> {
        let magic = params.magic();
        let (index, tip_id) = read_index(self, params, tip)?;
        let undo = open_undo(&self.file(UNDO_FILE))?;
        let mut found = FoundPositions::read(&self.file(POSITIONS_FILE))?;
        search_own_blocks(self, magic, &mut found)?;
        let mut blocks = ChainBlocks::connected(index, tip_id, undo);
        // These copies are deleted in time.
        blocks.put_last(&self.file(KEPT_FOLDER));
        blocks.find_blocks(&found);
        Ok(blocks)
    }

    /// The times in seconds since 1970 of the blocks of the chain that ends in `tip`, by height.
    ///
    /// # Errors
    /// As [`blocks`](Self::blocks).
    pub fn block_times(&self, tip: &Tip) -> Result<Vec<u32>, OpenError> {
        let (index, tip_id) = read_index(self, self.chain_id().params(), tip)?;
        let blocks = ChainBlocks::connected(index, tip_id, None);
        Ok(blocks.times())
    }
}

/// All headers of a directory, and which of them is the tip's.
fn read_index(directory: &DataDir, params: Params, tip: &Tip) -> Result<(HeaderIndex, BlockId), OpenError> {
    let index = read_headers(directory, params)?;
    match index.find(&tip.hash) {
        Some(tip_id) => Ok((index, tip_id)),
        None => Err(OpenError::damaged_headers(directory.path(), no_tip_header(tip))),
    }
}

/// The header of the tip of a directory's set. It is among the last of the file, so in most cases
/// only those are read.
pub(crate) fn header_of(directory: &DataDir, tip: &Tip) -> Result<Header, OpenError> {
    const LAST: u64 = 2_000;
    let near = u64::from(tip.height).saturating_sub(LAST) * RECORD as u64;
    for offset in [near, 0] {
        let (headers, _) = read_headers_from(directory, offset)?;
        let found = headers.iter().rfind(|(_, hash, _)| *hash == tip.hash);
        if let Some((header, ..)) = found {
            return Ok(*header);
        }
    }
    Err(OpenError::damaged_headers(directory.path(), no_tip_header(tip)))
}

/// Searches the directory's own blocks, too. Their positions are written when they are next
/// imported. What a writer removes meanwhile is passed over.
pub(crate) fn search_own_blocks(
    directory: &DataDir,
    magic: Magic,
    found: &mut FoundPositions,
) -> Result<(), OpenError> {
    for name in OWN_FOLDERS {
        let folder = directory.file(name);
        for last in [false, false, true] {
            if !has_block_files(&folder)? {
                break;
            }
            match search_folder(&folder, magic, found) {
                Err(error) if error.is_gone() && !last => {}
                searched => {
                    searched?;
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Header, its hash, and the position of the block's undo data.
pub(crate) type HeaderRecord = (Header, BlockHash, Option<UndoPosition>);

/// Reads the headers of a directory from an offset on, while another process may append to them.
/// Returns them with the offset of the next one.
pub(crate) fn read_headers_from(directory: &DataDir, offset: u64) -> Result<(Vec<HeaderRecord>, u64), OpenError> {
    let path = directory.file(HEADERS_FILE);
    let mut bytes = Vec::new();
    if let Some(mut file) = find_regular(&path)? {
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(FileError::io(&path))?;
    }
    // The last one may be in the middle of being written.
    let records = bytes.chunks(RECORD).map_while(decode);
    let headers: Vec<_> = records
        .map(|(header, position)| (header, header.hash(), (position != NO_UNDO).then_some(position)))
        .collect();
    let end = offset + (headers.len() * RECORD) as u64;
    Ok((headers, end))
}

/// As [`read_headers_from`], up to the first record of block `last`. Without one nothing is
/// returned.
///
/// If `last` is the tip of a durable commit, the records returned are durable, and those after it
/// may not be: a writer that is stopped before its next commit may leave others in their place.
pub(crate) fn read_headers_up_to(
    directory: &DataDir,
    offset: u64,
    last: &BlockHash,
) -> Result<(Vec<HeaderRecord>, u64), OpenError> {
    let (mut headers, _) = read_headers_from(directory, offset)?;
    let found = headers.iter().position(|(_, hash, _)| hash == last);
    headers.truncate(found.map_or(0, |found| found + 1));
    let end = offset + (headers.len() * RECORD) as u64;
    Ok((headers, end))
}

/// The headers of a directory.
fn read_headers(directory: &DataDir, params: Params) -> Result<HeaderIndex, OpenError> {
    let mut index = HeaderIndex::new(params);
    let (headers, _) = read_headers_from(directory, 0)?;
    index.reserve(headers.len());
    for (header, hash, position) in headers {
        let Some(id) = index.insert_trusted(&header, hash) else {
            return Err(OpenError::damaged_headers(directory.path(), no_parent(&hash)));
        };
        if let Some(position) = position {
            index.set_undo(id, position);
        }
    }
    Ok(index)
}

pub(crate) fn open_undo(path: &Path) -> Result<Option<UndoLog>, OpenError> {
    let Some(file) = find_regular(path)? else {
        return Ok(None);
    };
    // Nothing is appended, so it does not matter where the log would go on.
    Ok(Some(UndoLog::with_file(path, Box::new(file), 0)?))
}

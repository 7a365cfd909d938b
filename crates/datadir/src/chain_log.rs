//! The log of connected blocks: their undo data in `undo.dat`, their headers and the positions of
//! that data in `headers.dat`.
//!
//! A run only appends to both files. When a block is connected, its undo data is appended to the
//! [`UndoLog`]. A flush has three steps. It syncs the undo data. It appends the headers of the
//! blocks connected since the last flush, and syncs them. Only then the coin store moves on to
//! their tip. So the log knows the chain up to the tip of the store, whatever that tip is.
//!
//! A kill may leave more after that: records of blocks that were not flushed, in parts and with
//! gaps, or a record cut off. They do no harm. Offsets are absolute, `headers.dat` is cut back to
//! its last whole record, and `undo.dat` to the last record that a header names.

use crate::DataDir;
use crate::error::{OpenError, no_parent};
use crate::files::{HEADERS_FILE, UNDO_FILE};
use crate::headers_file::{NO_UNDO, RECORD, decode, encode};
use blockmill_block::undo::UndoRecordError;
use blockmill_block::{BlockUndo, Header, Magic};
use blockmill_blockfiles::disk::{DiskFile, Open};
use blockmill_blockfiles::{FileError, is_there};
use blockmill_chain::index::HeaderIndex;
use blockmill_coins::{UndoLog, UndoLogError, UndoPosition};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of `headers.dat` that are read at a time.
const PIECE: u64 = 8192 * RECORD as u64;

/// The open log.
#[derive(Debug)]
pub struct ChainLog {
    magic: Magic,
    undo: Arc<UndoLog>,
    /// Largest end of the undo data of a block that has a header here or is pending.
    undo_end: u64,
    /// Bytes that are missing at the end of the undo data, by what headers name, when it was
    /// opened.
    undo_missing: u64,
    headers: Arc<Mutex<Headers>>,
    /// Records of blocks connected since the last flush began.
    pending: Vec<u8>,
}

/// The file of headers.
#[derive(Debug)]
struct Headers {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Bytes that are durable.
    length: u64,
    /// Records that a flush is to append; they stay here if it cannot.
    unwritten: Vec<u8>,
}

impl Headers {
    /// Appends what is unwritten, durably.
    fn write(&mut self) -> Result<(), FileError> {
        let written = self
            .file
            .write_all_at(&self.unwritten, self.length)
            .and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Take back what may have been written, so that records stay aligned, and none stays
            // that was not synced.
            self.file.set_length(self.length).map_err(FileError::io(&self.path))?;
        }
        written.map_err(FileError::io(&self.path))?;
        self.length += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }
}

/// Opens the file, or makes it, durably as far as its name goes.
fn open(directory: &DataDir, path: &Path) -> Result<(Box<dyn DiskFile>, u64), FileError> {
    let disk = directory.disk();
    let exists = is_there(path)?;
    let opened = disk.open(path, Open::Keep).and_then(|file| {
        if !exists {
            disk.sync_name(path)?;
        }
        let length = file.length()?;
        Ok((file, length))
    });
    opened.map_err(FileError::io(path))
}

impl ChainLog {
    /// Opens the log of a data directory, and takes the headers that it knows into `index`.
    ///
    /// # Errors
    /// [`OpenError::File`], or [`OpenError::Damaged`] where a header has no parent.
    pub fn open(directory: &DataDir, magic: Magic, index: &mut HeaderIndex) -> Result<Self, OpenError> {
        let headers_path = directory.file(HEADERS_FILE);
        let (headers, length) = open(directory, &headers_path)?;
        // An earlier process may have been killed before it synced them.
        headers.sync_data().map_err(FileError::io(&headers_path))?;
        let mut piece = vec![0; length.min(PIECE) as usize];
        let mut headers_length = 0;
        let mut undo_end = 0;
        index.reserve(length as usize / RECORD);
        while headers_length + RECORD as u64 <= length {
            let in_piece = (headers_length % PIECE) as usize;
            if in_piece == 0 {
                piece.truncate((length - headers_length).min(PIECE) as usize);
                headers
                    .read_exact_at(&mut piece, headers_length)
                    .map_err(FileError::io(&headers_path))?;
            }
            let Some((header, position)) = decode(&piece[in_piece..in_piece + RECORD]) else {
                break;
            };
            let Some(id) = index.insert_trusted(&header, header.hash()) else {
                return Err(OpenError::damaged_headers(directory.path(), no_parent(&header.hash())));
            };
            if position != NO_UNDO {
                index.set_undo(id, position);
            }
            headers_length += RECORD as u64;
            // An end beyond 64 bits is refused when the undo log is opened.
            undo_end = position.end().unwrap_or(u64::MAX).max(undo_end);
        }
        let undo_path = directory.file(UNDO_FILE);
        // What cannot be looked at cannot be opened either.
        let undo_length = std::fs::metadata(&undo_path).map_or(0, |metadata| metadata.len());
        Ok(Self {
            magic,
            undo_missing: undo_end.saturating_sub(undo_length),
            undo: Arc::new(UndoLog::open_on(&**directory.disk(), &undo_path, undo_end)?),
            undo_end,
            headers: Arc::new(Mutex::new(Headers {
                path: headers_path,
                file: headers,
                length: headers_length,
                unwritten: Vec::new(),
            })),
            pending: Vec::new(),
        })
    }

    /// Cuts `headers.dat` back to its last whole record, and `undo.dat` to the last record that a
    /// header names. Called once the tip is known, while no job of [`sync_job`](Self::sync_job)
    /// runs.
    ///
    /// # Errors
    /// [`OpenError::File`].
    pub fn cut_back(&mut self) -> Result<(), OpenError> {
        let headers = lock(&self.headers);
        headers
            .file
            .set_length(headers.length)
            .map_err(FileError::io(&headers.path))?;
        match Arc::get_mut(&mut self.undo) {
            Some(undo) => Ok(undo.cut_back(self.undo_end)?),
            // Not reached: no job runs, and nothing else shares the log.
            None => Ok(()),
        }
    }

    /// What is wrong with the undo data, as far as its length and the record of the tip show it: no
    /// kill leaves it so.
    pub(crate) fn undo_problem(&self, tip: &Header, position: Option<&UndoPosition>) -> Option<String> {
        if self.undo_missing > 0 {
            return Some(format!("the last {} bytes are missing", self.undo_missing));
        }
        let error = self.read(tip, position?).err()?;
        Some(match error {
            UndoLogError::Record(error) => format!("undo data of block {}: {error}", tip.hash()),
            other => other.to_string(),
        })
    }

    /// Appends the undo data of a block that was connected.
    ///
    /// # Errors
    /// [`UndoLogError`]; nothing can be appended any more then.
    pub fn append(&mut self, header: &Header, undo: &BlockUndo) -> Result<UndoPosition, UndoLogError> {
        let position = self.undo.append(self.magic, &header.prev_block_hash, undo)?;
        Ok(self.appended(header, position))
    }

    /// As [`append`](Self::append), for undo data that is a record already.
    ///
    /// # Errors
    /// [`UndoLogError`]; nothing can be appended any more then.
    pub fn append_record(&mut self, header: &Header, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        let position = self.undo.append_record(record)?;
        Ok(self.appended(header, position))
    }

    fn appended(&mut self, header: &Header, position: UndoPosition) -> UndoPosition {
        self.undo_end = self.undo.bytes();
        self.pending.extend(encode(header, &position));
        position
    }

    /// Appends the header of a block that a snapshot stands for, which has no undo data.
    pub fn append_header(&mut self, header: &Header) {
        self.pending.extend(encode(header, &NO_UNDO));
    }

    /// The undo data of a block.
    ///
    /// # Errors
    /// [`UndoLogError`]. A position outside of the log is no record.
    pub fn read(&self, header: &Header, position: &UndoPosition) -> Result<BlockUndo, UndoLogError> {
        let read = self.undo.read(self.magic, &header.prev_block_hash, position);
        read.map_err(|error| match error {
            UndoLogError::OutOfRange(_) => UndoLogError::Record(UndoRecordError::Head),
            other => other,
        })
    }

    /// What makes everything appended so far durable; it must have run before the store moves on.
    /// It may run on another thread while more is appended.
    pub fn sync_job(&mut self) -> impl FnOnce() -> Result<(), UndoLogError> + Send + 'static {
        let undo = Arc::clone(&self.undo);
        let headers = Arc::clone(&self.headers);
        lock(&headers).unwritten.append(&mut self.pending);
        move || {
            let mut headers = lock(&headers);
            // No block was connected since the last sync.
            if headers.unwritten.is_empty() {
                return Ok(());
            }
            // Before the headers, which name the undo data.
            undo.sync()?;
            headers.write().map_err(UndoLogError::Io)
        }
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// [`UndoLogError`].
    pub fn sync(&mut self) -> Result<(), UndoLogError> {
        self.sync_job()()
    }
}

/// A panic leaves the headers whole, since each change of them is one step.
fn lock(headers: &Mutex<Headers>) -> MutexGuard<'_, Headers> {
    headers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChainId;
    use blockmill_block::{BlockHash, CoinRef, MerkleRoot, Network};
    use blockmill_rules::Params;

    fn params() -> Params {
        Params::new(Network::Regtest, None)
    }

    fn directory(path: &Path) -> DataDir {
        let chain_id = ChainId {
            network: Network::Regtest,
            signet_challenge: None,
        };
        DataDir::open(path, Some(&chain_id)).unwrap()
    }

    fn header(previous: BlockHash, nonce: u32) -> Header {
        Header {
            version: 4,
            prev_block_hash: previous,
            merkle_root: MerkleRoot::ZERO,
            time: 1_300_000_000,
            bits: 0x207f_ffff,
            nonce,
        }
    }

    fn undo(value: i64) -> BlockUndo {
        let mut undo = BlockUndo::default();
        undo.push_coin(CoinRef {
            value,
            height: 5,
            is_coinbase: false,
            script_pubkey: &[0x51],
        });
        undo.end_transaction();
        undo
    }

    #[test]
    fn what_is_synced_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(parent.path());
        let magic = params().magic();
        let mut index = HeaderIndex::new(params());
        let mut log = ChainLog::open(&directory, magic, &mut index).unwrap();
        let first = header(params().genesis.hash(), 1);
        let second = header(first.hash(), 2);
        let position = log.append(&first, &undo(7)).unwrap();
        assert_eq!(log.read(&first, &position).unwrap(), undo(7));
        log.sync().unwrap();
        log.append(&second, &undo(8)).unwrap();
        drop(log);

        let mut index = HeaderIndex::new(params());
        let mut log = ChainLog::open(&directory, magic, &mut index).unwrap();
        assert_eq!(index.len(), 2);
        let id = index.find(&first.hash()).unwrap();
        assert_eq!(log.read(&first, &index.entry(id).undo().unwrap()).unwrap(), undo(7));
        // The second block's undo data was appended but never synced with a header: it is appended
        // again.
        let position = log.append(&second, &undo(9)).unwrap();
        assert_eq!(log.read(&second, &position).unwrap(), undo(9));
    }

    #[test]
    fn a_cut_off_or_damaged_end_is_cut_back() {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(parent.path());
        let magic = params().magic();
        let mut log = ChainLog::open(&directory, magic, &mut HeaderIndex::new(params())).unwrap();
        let first = header(params().genesis.hash(), 1);
        let second = header(first.hash(), 2);
        log.append(&first, &undo(7)).unwrap();
        log.append(&second, &undo(8)).unwrap();
        log.sync().unwrap();
        drop(log);
        let path = directory.file(HEADERS_FILE);
        let whole = std::fs::read(&path).unwrap();
        for damaged in [
            whole[..whole.len() - 1].to_vec(),
            [&whole[..RECORD + 3], &[0xff], &whole[RECORD + 4..]].concat(),
        ] {
            std::fs::write(&path, damaged).unwrap();
            let mut index = HeaderIndex::new(params());
            let mut log = ChainLog::open(&directory, magic, &mut index).unwrap();
            assert_eq!(index.len(), 2);
            log.cut_back().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), RECORD as u64);
        }
    }

    #[test]
    fn undo_data_that_no_header_names_is_cut_back() {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(parent.path());
        let magic = params().magic();
        let open = |index: &mut HeaderIndex| ChainLog::open(&directory, magic, index).unwrap();
        let first = header(params().genesis.hash(), 1);
        let second = header(first.hash(), 2);
        let mut log = open(&mut HeaderIndex::new(params()));
        let named = log.append(&first, &undo(7)).unwrap();
        log.sync().unwrap();
        let loose = log.append(&second, &undo(8)).unwrap();
        // Reading writes the record to the file; no header names it yet.
        assert_eq!(log.read(&second, &loose).unwrap(), undo(8));
        drop(log);
        let path = directory.file(UNDO_FILE);
        let length = || std::fs::metadata(&path).unwrap().len();
        assert_eq!(length(), loose.end().unwrap());

        let mut log = open(&mut HeaderIndex::new(params()));
        assert_eq!(length(), loose.end().unwrap());
        log.cut_back().unwrap();
        assert_eq!(length(), named.end().unwrap());
        assert_eq!(log.append(&second, &undo(9)).unwrap().offset, loose.offset);
        // What is pending is not cut back.
        log.cut_back().unwrap();
        log.sync().unwrap();
        drop(log);
        let mut index = HeaderIndex::new(params());
        let mut log = open(&mut index);
        log.cut_back().unwrap();
        for (header, value) in [(first, 7), (second, 9)] {
            let id = index.find(&header.hash()).unwrap();
            assert_eq!(
                log.read(&header, &index.entry(id).undo().unwrap()).unwrap(),
                undo(value)
            );
        }
    }

    #[test]
    fn undo_data_that_is_gone_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(parent.path());
        let mut index = HeaderIndex::new(params());
        let log = ChainLog::open(&directory, params().magic(), &mut index).unwrap();
        for offset in [0, u64::MAX] {
            let position = UndoPosition { offset, length: 50 };
            assert!(matches!(
                log.read(&header(BlockHash::ZERO, 1), &position),
                Err(UndoLogError::Record(_))
            ));
        }
    }
}

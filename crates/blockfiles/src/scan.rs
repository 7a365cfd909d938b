//! Finding the records of a block file. A scan reads 88 bytes of each record and skips the rest.
//!
//! A record is accepted if another record or the end of the file follows. If padding or anything
//! else follows, the scan decodes the block and computes its merkle root. The result tells whether
//! the record's length is wrong, or the bytes after the record. The scan reports damage and goes on
//! at the next magic.

use crate::{BLOCK_SIZE_MAX, BlockFiles, FileError, Position, RECORD_HEAD, Record, XorKey};
use blockmill_block::block::Block;
use blockmill_block::hash::BlockHash;
use blockmill_block::header::Header;
use blockmill_block::network::{Magic, Network};
use memchr::memmem;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes per read while records are short, and while they are long.
const WINDOW_SHORT: usize = 64 << 10;
const WINDOW_LONG: usize = 4 << 10;

/// Length in bytes from which a record counts as long.
const LONG_RECORD: u32 = 32 << 10;

/// Bytes per step of a search for the magic: the first step, and the longest.
const SEARCH_WINDOW_FIRST: usize = 256;
const SEARCH_WINDOW: usize = 1 << 20;

/// A kind of damage in a block file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Neither a record's magic nor padding.
    NoMagic,
    /// The magic of another network.
    OtherNetwork(Network),
    /// As [`DamageKind::NoMagic`], in a file without any record: the key may be missing.
    NoRecords,
    /// A record whose length is impossible or does not fit its block.
    BadLength(u32),
    /// The file ends inside the record: the last write may be unfinished.
    Truncated,
}

/// Damage in a block file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset of the damage in bytes.
    pub offset: u64,
    /// Kind of the damage.
    pub kind: DamageKind,
    /// Hash of the 80 bytes where the record's header would be, if the file has them.
    pub hash: Option<BlockHash>,
}

impl Damage {
    /// Whether an unfinished write explains the damage.
    pub fn is_unfinished_write(&self) -> bool {
        self.kind == DamageKind::Truncated
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: offset {}: ", self.path.display(), self.offset)?;
        match self.kind {
            DamageKind::NoMagic => f.write_str("no block record begins here")?,
            DamageKind::OtherNetwork(network) => write!(f, "a block record of another network ({network}) begins here")?,
            DamageKind::NoRecords => f.write_str(
                "no block record begins here, and the file has none of this network: is xor.dat missing, or from another directory?",
            )?,
            DamageKind::BadLength(length) => write!(f, "record with a wrong length ({length})")?,
            DamageKind::Truncated => f.write_str("the file ends inside this record")?,
        }
        match self.hash {
            Some(hash) => write!(f, " (block {hash})"),
            None => Ok(()),
        }
    }
}

/// Progress of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanProgress {
    /// Offset of the next read in bytes.
    pub offset: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of records found so far.
    pub records: usize,
}

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The records, in the order of the file.
    pub records: Vec<Record>,
    /// The first damages, in the order of the file.
    pub damages: Vec<Damage>,
    /// Number of further damages.
    pub more_damages: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl BlockFiles {
    /// Finds the records of file number `file`. `magic` is that of the network.
    ///
    /// # Errors
    /// [`FileError::Io`] or [`FileError::Read`]. Damage is not an error: the result lists it.
    pub fn scan(&self, file: u32, magic: Magic) -> Result<Scan, FileError> {
        let scan = self.scan_watched(file, magic, &mut |_| ControlFlow::Continue(()))?;
        Ok(scan.unwrap_or_default())
    }

    /// As [`BlockFiles::scan`]. `watch` gets the progress before each read. If `watch` breaks, the
    /// scan ends and returns `None`.
    ///
    /// # Errors
    /// Those of [`BlockFiles::scan`].
    pub fn scan_watched(
        &self,
        file: u32,
        magic: Magic,
        watch: &mut dyn FnMut(&ScanProgress) -> ControlFlow<()>,
    ) -> Result<Option<Scan>, FileError> {
        let source = self.source(file);
        let handle = self.open(file)?;
        let size = handle.metadata().map_err(FileError::io(&source.path))?.len();
        let mut scanner = Scanner {
            doubt_budget: DOUBT_BUDGET * size + DOUBT_BUDGET_BASE,
            file,
            path: source.path.clone(),
            magic,
            window: Window {
                handle,
                key: source.key,
                size,
                start: 0,
                bytes: Vec::new(),
                length: WINDOW_SHORT,
                records: 0,
                watch,
            },
            scan: Scan {
                bytes: size,
                ..Scan::default()
            },
        };
        let mut at = 0;
        while at < size {
            at = match scanner.step(at) {
                Ok(next) => next,
                Err(Cut::Stopped) => return Ok(None),
                Err(Cut::Read(offset, error)) => {
                    return Err(FileError::Read {
                        path: source.path.clone(),
                        offset,
                        error,
                    });
                }
            };
        }
        let mut scan = scanner.scan;
        if let (true, Some(first)) = (scan.records.is_empty(), scan.damages.first_mut())
            && first.kind == DamageKind::NoMagic
        {
            // The bytes there are no header either.
            (first.kind, first.hash) = (DamageKind::NoRecords, None);
        }
        Ok(Some(scan))
    }
}

/// The reason of an early end of a scan.
enum Cut {
    /// A read failed at an offset.
    Read(u64, io::Error),
    /// The caller's `watch` broke.
    Stopped,
}

type ReadResult<T> = Result<T, Cut>;

/// A part of the file in memory, cleared of the key.
struct Window<'a> {
    handle: Arc<File>,
    key: XorKey,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
    length: usize,
    /// Records found so far.
    records: usize,
    watch: &'a mut dyn FnMut(&ScanProgress) -> ControlFlow<()>,
}

impl Window<'_> {
    /// The bytes from `at` on: `count`, or fewer at the end of the file.
    fn get(&mut self, at: u64, count: usize) -> ReadResult<&[u8]> {
        let count = count.min((self.size - at) as usize);
        let end = at + count as u64;
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let progress = ScanProgress {
                offset: at,
                bytes: self.size,
                records: self.records,
            };
            if (self.watch)(&progress).is_break() {
                return Err(Cut::Stopped);
            }
            let length = self.length.max(count).min((self.size - at) as usize);
            self.bytes.resize(length, 0);
            self.start = at;
            self.handle
                .read_exact_at(&mut self.bytes, at)
                .map_err(|error| Cut::Read(at, error))?;
            self.key.apply(&mut self.bytes, at);
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + count])
    }
}

/// The meaning of the bytes at an offset.
enum Boundary {
    End,
    Magic,
    Padding,
    Other,
}

/// Bound of decoding in doubtful cases, in bytes: this many times the length of the file, plus a
/// constant.
const DOUBT_BUDGET: u64 = 8;
const DOUBT_BUDGET_BASE: u64 = 64 << 20;

/// Damages of a file that are described. Further damages are only counted.
const DAMAGES_MAX: usize = 100;

struct Scanner<'a> {
    /// Bytes that may still be decoded in doubtful cases.
    doubt_budget: u64,
    file: u32,
    path: PathBuf,
    magic: Magic,
    window: Window<'a>,
    scan: Scan,
}

impl Scanner<'_> {
    /// Handles the bytes at `at`. Returns the offset of the next step, which is larger than `at`.
    fn step(&mut self, at: u64) -> ReadResult<u64> {
        match self.boundary(at)? {
            Boundary::End => Ok(self.window.size),
            Boundary::Padding => self.skip_padding(at),
            Boundary::Other => {
                let kind = self
                    .other_network(at)?
                    .map_or(DamageKind::NoMagic, DamageKind::OtherNetwork);
                self.report(at, kind)?;
                Ok(self.find_magic(at + 1)?.unwrap_or(self.window.size))
            }
            Boundary::Magic => self.record(at),
        }
    }

    fn boundary(&mut self, at: u64) -> ReadResult<Boundary> {
        let magic = self.magic;
        let key = self.window.key;
        let bytes = self.window.get(at, RECORD_HEAD as usize)?;
        let length = bytes.len().min(magic.0.len());
        Ok(if bytes.is_empty() {
            Boundary::End
        } else if bytes[..length] == magic.0[..length] && (length == magic.0.len() || !key.is_padding(bytes, at)) {
            // At the end of the file a part of the magic is enough: the rest was not written.
            Boundary::Magic
        } else if key.is_padding(&bytes[..1], at) {
            Boundary::Padding
        } else {
            Boundary::Other
        })
    }

    /// Handles a record whose magic is at `at`.
    fn record(&mut self, at: u64) -> ReadResult<u64> {
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let Some(length) = head
            .get(4..8)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        else {
            self.report(at, DamageKind::Truncated)?;
            return Ok(self.window.size);
        };
        let header = head[8..].try_into().ok().map(Header::from_bytes);
        if length < Header::LENGTH as u32 || length > BLOCK_SIZE_MAX {
            return self.damaged(at, DamageKind::BadLength(length));
        }
        let end = at + RECORD_HEAD + u64::from(length);
        let (Some(header), true) = (header, end <= self.window.size) else {
            return self.cut_off(at, length);
        };
        self.window.length = if length < LONG_RECORD {
            WINDOW_SHORT
        } else {
            WINDOW_LONG
        };
        let believed = matches!(self.boundary(end)?, Boundary::End | Boundary::Magic);
        if !believed && !self.decodes(at, length, true)? {
            return self.damaged(at, DamageKind::BadLength(length));
        }
        self.scan.records.push(Record {
            position: Position {
                file: self.file,
                length,
                offset: at + RECORD_HEAD,
            },
            header,
            hash: header.hash(),
        });
        self.window.records = self.scan.records.len();
        Ok(end)
    }

    /// Handles a record that runs past the end of the file. It is cut off, or its length is wrong.
    fn cut_off(&mut self, at: u64, length: u32) -> ReadResult<u64> {
        let next = self.find_magic(at + 4)?;
        if next.is_some() || self.decodes(at, length, false)? {
            self.report(at, DamageKind::BadLength(length))?;
        } else {
            self.report(at, DamageKind::Truncated)?;
        }
        Ok(next.unwrap_or(self.window.size))
    }

    fn damaged(&mut self, at: u64, kind: DamageKind) -> ReadResult<u64> {
        self.report(at, kind)?;
        Ok(self.find_magic(at + 4)?.unwrap_or(self.window.size))
    }

    /// Whether a block with a correct merkle root begins in the record at `at`. With `exact` the
    /// block must have all of `length`.
    fn decodes(&mut self, at: u64, length: u32, exact: bool) -> ReadResult<bool> {
        let Some(budget) = self.doubt_budget.checked_sub(length.into()) else {
            return Ok(false);
        };
        self.doubt_budget = budget;
        let start = at + RECORD_HEAD;
        let bytes = self.window.get(start.min(self.window.size), length as usize)?;
        Ok(Block::decode(bytes).is_ok_and(|block| {
            (!exact || block.bytes().len() == length as usize)
                && block.transaction_count() > 0
                && block.merkle_root().hash == block.header().merkle_root.0
        }))
    }

    /// The network whose magic is at `at`.
    fn other_network(&mut self, at: u64) -> ReadResult<Option<Network>> {
        let bytes = self.window.get(at, RECORD_HEAD as usize)?;
        let is_there = |network: &Network| bytes.starts_with(&network.magic().0);
        Ok(Network::ALL.into_iter().find(is_there))
    }

    fn report(&mut self, at: u64, kind: DamageKind) -> ReadResult<()> {
        if self.scan.damages.len() >= DAMAGES_MAX {
            self.scan.more_damages += 1;
            return Ok(());
        }
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let header = head
            .get(8..)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Header::from_bytes);
        self.scan.damages.push(Damage {
            path: self.path.clone(),
            offset: at,
            kind,
            hash: header.map(|header| header.hash()),
        });
        Ok(())
    }

    /// Offset of the end of padding that begins at `at`, where no magic is: the next magic, or
    /// other bytes.
    ///
    /// The head of a record may look like padding: a byte that equals its byte of the key is stored
    /// as zero.
    fn skip_padding(&mut self, at: u64) -> ReadResult<u64> {
        let key = self.window.key;
        let mut offset = self.skip_zeros(at)?.max(at + 1);
        while offset < self.window.size {
            let bytes = self.window.get(offset, RECORD_HEAD as usize)?;
            let is_head = bytes.starts_with(&self.magic.0) && !key.is_padding(bytes, offset);
            if is_head || !key.is_padding(&bytes[..1], offset) {
                break;
            }
            offset += 1;
        }
        Ok(offset)
    }

    /// Skips zeros of one kind in steps that double and, at the end of the zeros, halve. Returns an
    /// offset before which no record begins, except at `at`. Steps overlap, so that every head of a
    /// record lies within one step.
    fn skip_zeros(&mut self, at: u64) -> ReadResult<u64> {
        let key = self.window.key;
        let mut offset = at;
        let mut step = SEARCH_WINDOW_FIRST;
        let mut grows = true;
        while step > 2 * RECORD_HEAD as usize {
            let bytes = self.window.get(offset, step)?;
            if !key.is_padding(bytes, offset) {
                grows = false;
                step /= 2;
                continue;
            }
            if bytes.len() < step {
                return Ok(self.window.size);
            }
            offset += (step - (RECORD_HEAD as usize - 1)) as u64;
            if grows {
                step = (step * 2).min(SEARCH_WINDOW);
            }
        }
        Ok(offset)
    }

    /// Offset of the next magic from `at` on.
    fn find_magic(&mut self, at: u64) -> ReadResult<Option<u64>> {
        let finder = memmem::Finder::new(&self.magic.0);
        let mut offset = at;
        // Small steps first: the next record is often near, within the window.
        let mut step = SEARCH_WINDOW_FIRST;
        while offset < self.window.size {
            let bytes = self.window.get(offset, step)?;
            if let Some(found) = finder.find(bytes) {
                return Ok(Some(offset + found as u64));
            }
            if bytes.len() < step {
                break;
            }
            offset += (step - 3) as u64;
            step = (step * 4).min(SEARCH_WINDOW);
        }
        Ok(None)
    }
}

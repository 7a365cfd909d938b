//! Finding the records of a block file: 88 bytes a block are looked at, and the blocks are skipped.
//!
//! A record is believed when another record or the end of the file follows it. Where padding or something
//! else follows, the block is decoded and its merkle root computed: that tells whether the record's length is wrong or what
//! comes after it. Whatever is damaged is reported, and the search goes on at the next magic.

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

/// Bytes read at a time while records are short, and while they are long.
const WINDOW_SHORT: usize = 64 << 10;
const WINDOW_LONG: usize = 4 << 10;

/// Records from this length on count as long.
const LONG_RECORD: u32 = 32 << 10;

/// Bytes looked at at a time when searching for a magic, at first and at the most.
const SEARCH_WINDOW_FIRST: usize = 256;
const SEARCH_WINDOW: usize = 1 << 20;

/// What is wrong at a place in a block file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Neither a record's magic nor padding.
    NoMagic,
    /// The magic of another network.
    OtherNetwork(Network),
    /// As [`DamageKind::NoMagic`], and no record was found in the whole file: the key may be missing.
    NoRecords,
    /// A record whose length is impossible or does not fit its block.
    BadLength(u32),
    /// The file ends inside the record: the last write may not have been finished.
    Truncated,
}

/// A damaged place in a block file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The place in bytes.
    pub offset: u64,
    /// What is wrong.
    pub kind: DamageKind,
    /// Hash of the header that stands where the record's header would be, where the file is long enough.
    pub hash: Option<BlockHash>,
}

impl Damage {
    /// Whether this may be no more than a write that is not finished.
    pub fn is_unfinished_write(&self) -> bool {
        self.kind == DamageKind::Truncated
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: offset {}: ", self.path.display(), self.offset)?;
        match self.kind {
            DamageKind::NoMagic => f.write_str("no block record begins here")?,
            DamageKind::OtherNetwork(network) => write!(f, "a block record of another network begins here, of {network}")?,
            DamageKind::NoRecords => f.write_str(
                "no block record of this network begins here, or anywhere in this file: is xor.dat missing, or another directory's?",
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

/// How far a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanProgress {
    /// The place in the file that is looked at, in bytes.
    pub offset: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Records found.
    pub records: usize,
}

/// What the scan of a file found.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The records, in the order of the file.
    pub records: Vec<Record>,
    /// The first damaged places, in the order of the file.
    pub damages: Vec<Damage>,
    /// Number of damaged places besides those.
    pub more_damages: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl BlockFiles {
    /// Finds the records of file number `file`.
    ///
    /// # Errors
    /// [`FileError::Io`] or [`FileError::Read`]. Damage is no error: it is reported in the result.
    pub fn scan(&self, file: u32, magic: Magic) -> Result<Scan, FileError> {
        let scan = self.scan_watched(file, magic, &mut |_| ControlFlow::Continue(()))?;
        Ok(scan.unwrap_or_default())
    }

    /// As [`BlockFiles::scan`]; `watch` is told how far it is before each read, and may
    /// break it off: then nothing is returned.
    ///
    /// # Errors
    /// As for [`BlockFiles::scan`].
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
                Err(Cut::Watched) => return Ok(None),
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
            // What stands there is no header either.
            (first.kind, first.hash) = (DamageKind::NoRecords, None);
        }
        Ok(Some(scan))
    }
}

/// What ends a scan early.
enum Cut {
    /// A read failed at a place.
    Read(u64, io::Error),
    /// Who watches has broken it off.
    Watched,
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
                return Err(Cut::Watched);
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

/// What the bytes at a place are.
enum Boundary {
    End,
    Magic,
    Padding,
    Other,
}

/// A file's blocks are decoded to settle doubts until so many times its length has been read for that, and this many bytes more.
const DOUBT_BUDGET: u64 = 8;
const DOUBT_BUDGET_BASE: u64 = 64 << 20;

/// Damaged places of a file that are described; more are only counted.
const DAMAGES_MAX: usize = 100;

struct Scanner<'a> {
    /// Bytes that may still be decoded to settle doubts.
    doubt_budget: u64,
    file: u32,
    path: PathBuf,
    magic: Magic,
    window: Window<'a>,
    scan: Scan,
}

impl Scanner<'_> {
    /// Deals with what stands at `at`, and returns the place to go on from, which is further on.
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
            // At the end of the file a part of it will do: the rest was not written.
            Boundary::Magic
        } else if key.is_padding(&bytes[..1], at) {
            Boundary::Padding
        } else {
            Boundary::Other
        })
    }

    /// A record's magic stands at `at`.
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

    /// A record runs past the end of the file: cut off, or its length is wrong.
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

    /// Whether a block with a correct merkle root begins in the record at `at`, taking up all of `length` if `exact`.
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

    /// The network whose magic stands at `at`.
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

    /// Padding begins at `at`, and no magic stands there: the next magic, or where something else begins.
    ///
    /// The head of a record may look like padding: bytes that are the same in the key are stored as zero.
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

    /// Passes over zeros of one kind by steps that double and, where the zeros end, halve: a place before which no record begins, unless at
    /// `at`. Steps overlap, so that every head of a record lies in one of them.
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

    /// The next place from `at` on where the magic stands.
    fn find_magic(&mut self, at: u64) -> ReadResult<Option<u64>> {
        let finder = memmem::Finder::new(&self.magic.0);
        let mut offset = at;
        // Small steps first, since the next record is often near and its surroundings are in the window.
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

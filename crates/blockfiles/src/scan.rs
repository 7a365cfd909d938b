//! Finding the records of a block file. A scan reads 88 bytes of each record and skips the rest.
//!
//! A record whose length leads to another record, or to the end of the file, is taken for a block
//! until its content is read. Any other record is decoded: it is a block if its transactions have
//! the header's merkle root, and the next record is looked for where the block ends, as by Bitcoin
//! Core. If it is no block, the next record is looked for inside it. With [`ScanDepth::Contents`]
//! every record is decoded, so that no record can hide others.

use crate::window::{ReadResult, Window};
use crate::{BLOCK_SIZE_MAX, BlockFiles, FileError, Position, RECORD_HEAD, Record};
use blockmill_block::block::Block;
use blockmill_block::hash::{BlockHash, sha256d};
use blockmill_block::header::Header;
use blockmill_block::merkle;
use blockmill_block::network::{Magic, Network};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes per read while records are short, and while they are long.
const WINDOW_SHORT: usize = 64 << 10;
const WINDOW_LONG: usize = 4 << 10;

/// Length in bytes from which a record counts as long.
const LONG_RECORD: u32 = 32 << 10;

/// Bytes of the shortest record: a head, a header, and a transaction of one input and one output.
const RECORD_MIN: u64 = RECORD_HEAD + Header::LENGTH as u64 + 1 + 60;

/// Bytes at the end of a record that was cut off in a preallocated file: none of them was written.
const TORN_TAIL: u64 = 16;

/// What a scan reads of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanDepth {
    /// Its head and its header.
    Lengths,
    /// All of it.
    Contents,
}

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
    /// A record that is longer than its block, which is taken all the same.
    TooLong(u32),
    /// The file, or what was written of it, ends inside the record: the last write may be
    /// unfinished.
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
    /// Bytes up to the next record, or to the end of the file.
    pub length: u64,
    /// Whether another record follows.
    pub is_followed: bool,
    /// Hash of the 80 bytes where the record's header would be, if the file has them.
    pub hash: Option<BlockHash>,
    /// Whether the block of that hash lies elsewhere, too, and is all that can be missing. A scan
    /// does not know: who sees all files [says so](Self::note_elsewhere).
    pub is_elsewhere: bool,
}

impl Damage {
    /// Whether an unfinished write explains the damage.
    pub fn is_unfinished_write(&self) -> bool {
        self.kind == DamageKind::Truncated
    }

    /// Notes that the block of [`hash`](Self::hash), which has `length` bytes, lies elsewhere, too.
    /// That explains the damage if it has room for no other block.
    pub fn note_elsewhere(&mut self, length: u64) {
        self.is_elsewhere = self.length < RECORD_HEAD + length + RECORD_MIN;
    }

    /// Whether no block can be missing: the damage is an unfinished write, or between two records
    /// too short for a block, or its block lies elsewhere. Core before 24 left the head of a record
    /// between two others.
    pub fn is_harmless(&self) -> bool {
        match self.kind {
            DamageKind::Truncated | DamageKind::TooLong(_) => true,
            DamageKind::NoRecords => false,
            DamageKind::NoMagic | DamageKind::OtherNetwork(_) | DamageKind::BadLength(_) => {
                self.is_elsewhere || (self.is_followed && self.length < RECORD_MIN)
            }
        }
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
            DamageKind::TooLong(length) => write!(f, "record with a length ({length}) beyond its block, which is taken")?,
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
    /// The first damages, in the order of the file: a hundred harmless ones, and a hundred others.
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
        let go_on = &mut |_: &ScanProgress| ControlFlow::Continue(());
        let scan = self.scan_watched(file, magic, ScanDepth::Lengths, go_on)?;
        Ok(scan.unwrap_or_default())
    }

    /// As [`BlockFiles::scan`], as deep as the caller wants. `watch` gets the progress before each
    /// read. If `watch` breaks, the scan ends and returns `None`.
    ///
    /// # Errors
    /// Those of [`BlockFiles::scan`].
    pub fn scan_watched(
        &self,
        file: u32,
        magic: Magic,
        depth: ScanDepth,
        watch: &mut dyn FnMut(&ScanProgress) -> ControlFlow<()>,
    ) -> Result<Option<Scan>, FileError> {
        let source = self.source(file);
        let handle = self.open(file)?;
        let size = handle.metadata().map_err(FileError::io(&source.path))?.len();
        let mut scanner = Scanner {
            decode_budget: DECODE_BUDGET * size + DECODE_BUDGET_BASE,
            depth,
            file,
            path: source.path.clone(),
            magic,
            window: Window::new(&handle, source.key, size, WINDOW_SHORT, watch),
            scan: Scan {
                bytes: size,
                ..Scan::default()
            },
        };
        let mut at = 0;
        while at < size {
            at = match scanner.step(at) {
                Ok(next) => next,
                Err(cut) => return cut.error(&source.path).map_or(Ok(None), Err),
            };
        }
        let mut scan = scanner.scan;
        if scan.records.is_empty() {
            // What looks like the head of a record is none: no damage is between two records.
            for damage in &mut scan.damages {
                damage.is_followed = false;
            }
            if let Some(first) = scan
                .damages
                .first_mut()
                .filter(|first| first.kind == DamageKind::NoMagic)
            {
                // The bytes there are no header either.
                (first.kind, first.hash) = (DamageKind::NoRecords, None);
            }
        }
        Ok(Some(scan))
    }
}

/// A block with a correct merkle root.
#[derive(Clone, Copy)]
struct Decoded {
    length: u32,
    has_own_witnesses: bool,
}

/// Whether the witnesses of a block are those of its commitment, if it has witnesses at all.
fn has_own_witnesses(block: &Block<&[u8]>) -> bool {
    let coinbase = block.transaction(0);
    let commitment = merkle::witness_commitment(&coinbase);
    let (Some(commitment), true) = (commitment, coinbase.input_count() > 0) else {
        return true;
    };
    let witness = coinbase.input(0).witness();
    let reserved = witness.last().filter(|_| witness.len() == 1);
    reserved.is_none_or(|reserved| sha256d(&[&block.witness_merkle_root()[..], reserved].concat()) == commitment)
}

/// The meaning of the bytes at an offset.
enum Boundary {
    End,
    Magic,
    Padding,
    Other,
}

/// Bound of decoding, in bytes: this many times the length of the file, plus a constant.
const DECODE_BUDGET: u64 = 8;
const DECODE_BUDGET_BASE: u64 = 64 << 20;

/// Damages of a file that are described: harmless ones, and as many others. Further damages are
/// only counted.
const DAMAGES_MAX: usize = 100;

struct Scanner<'a> {
    /// Bytes that may still be decoded.
    decode_budget: u64,
    depth: ScanDepth,
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
            Boundary::Other => self.other(at),
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

    /// Handles bytes that are neither a record nor padding.
    fn other(&mut self, at: u64) -> ReadResult<u64> {
        let next = self.window.find_magic(self.magic, at + 1)?;
        let magic = self.magic.0;
        let head = self.window.get(at, magic.len())?;
        let written = head.iter().zip(magic).take_while(|&(&byte, of_magic)| byte == of_magic);
        let written = written.count() as u64;
        let kind = if next.is_none() && written > 0 && self.window.is_padding_to_end(at + written)? {
            DamageKind::Truncated
        } else {
            self.other_network(at)?
                .map_or(DamageKind::NoMagic, DamageKind::OtherNetwork)
        };
        self.report(at, kind, next)
    }

    /// Handles a record whose magic is at `at`.
    fn record(&mut self, at: u64) -> ReadResult<u64> {
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let Some((&length, rest)) = head.get(4..).and_then(<[u8]>::split_first_chunk) else {
            return self.report(at, DamageKind::Truncated, None);
        };
        let length = u32::from_le_bytes(length);
        let header = rest.try_into().ok().map(Header::from_bytes);
        let start = at + RECORD_HEAD;
        let end = start + u64::from(length);
        let is_possible = (Header::LENGTH as u32..=BLOCK_SIZE_MAX).contains(&length) && end <= self.window.size;
        let (Some(header), true) = (header, is_possible) else {
            return self.no_block(at, length);
        };
        self.window.length = if length < LONG_RECORD {
            WINDOW_SHORT
        } else {
            WINDOW_LONG
        };
        let fits = matches!(self.boundary(end)?, Boundary::End | Boundary::Magic);
        if fits && self.depth == ScanDepth::Lengths {
            self.take(start, length, header);
            return Ok(end);
        }
        if let Some(decoded) = self.decode(start, length)?
            && !self.is_torn(start, decoded)?
        {
            let decoded = decoded.length;
            self.take(start, decoded, header);
            let end = start + u64::from(decoded);
            if decoded != length {
                self.report(at, DamageKind::TooLong(length), Some(end))?;
            }
            return Ok(end);
        }
        if fits {
            // The block may be damaged, and others may lie inside.
            self.take(start, length, header);
            let inside = self.window.find_magic(self.magic, at + 4)?;
            return Ok(inside.unwrap_or(self.window.size));
        }
        self.no_block(at, length)
    }

    fn take(&mut self, offset: u64, length: u32, header: Header) {
        self.scan.records.push(Record {
            position: Position {
                file: self.file,
                length,
                offset,
            },
            header,
            hash: header.hash(),
        });
        self.window.records = self.scan.records.len();
    }

    /// Handles a record that is no block, or whose length leads nowhere.
    fn no_block(&mut self, at: u64, length: u32) -> ReadResult<u64> {
        let next = self.window.find_magic(self.magic, at + 4)?;
        let kind = if next.is_none() && self.is_cut_off(at, length)? {
            DamageKind::Truncated
        } else {
            DamageKind::BadLength(length)
        };
        self.report(at, kind, next)
    }

    /// Whether the write of the last record of the file, whose magic is at `at`, is unfinished. A
    /// whole block whose length is wrong is none.
    fn is_cut_off(&mut self, at: u64, length: u32) -> ReadResult<bool> {
        let (start, size) = (at + RECORD_HEAD, self.window.size);
        let start_in_file = start.min(size);
        if let Some(decoded) = self.decode(start_in_file, BLOCK_SIZE_MAX)?
            && !self.is_torn(start_in_file, decoded)?
        {
            return Ok(false);
        }
        if length == 0 {
            return self.window.is_padding_to_end(at + 4);
        }
        if length < Header::LENGTH as u32 || length > BLOCK_SIZE_MAX {
            return self.window.is_padding_to_end(start);
        }
        let end = start + u64::from(length);
        if end > size {
            return Ok(true);
        }
        self.window.is_padding_to_end(end.saturating_sub(TORN_TAIL).max(start))
    }

    /// Whether zeros stand where the last witnesses of a block should: its write is unfinished, and
    /// they happen to decode.
    fn is_torn(&mut self, start: u64, decoded: Decoded) -> ReadResult<bool> {
        let end = start + u64::from(decoded.length);
        Ok(!decoded.has_own_witnesses
            && self
                .window
                .is_padding_to_end(end.saturating_sub(TORN_TAIL).max(start))?)
    }

    /// The block that begins at `start` and has at most `length` bytes; none if there is no block
    /// with a correct merkle root.
    fn decode(&mut self, start: u64, length: u32) -> ReadResult<Option<Decoded>> {
        let length = u64::from(length).min(self.window.size - start);
        let Some(budget) = self.decode_budget.checked_sub(length) else {
            return Ok(None);
        };
        self.decode_budget = budget;
        let bytes = self.window.get(start, length as usize)?;
        let block = Block::decode(bytes)
            .ok()
            .filter(|block| block.transaction_count() > 0 && block.merkle_root().hash == block.header().merkle_root.0);
        Ok(block.map(|block| Decoded {
            length: block.bytes().len() as u32,
            has_own_witnesses: has_own_witnesses(&block),
        }))
    }

    /// The network whose magic is at `at`.
    fn other_network(&mut self, at: u64) -> ReadResult<Option<Network>> {
        let bytes = self.window.get(at, RECORD_HEAD as usize)?;
        let is_there = |network: &Network| bytes.starts_with(&network.magic().0);
        Ok(Network::ALL.into_iter().find(is_there))
    }

    /// Reports a damage that ends at the next magic, or with the file. Returns that offset.
    fn report(&mut self, at: u64, kind: DamageKind, next: Option<u64>) -> ReadResult<u64> {
        let is_followed = next.is_some();
        let next = next.unwrap_or(self.window.size);
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let header = head
            .get(8..)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Header::from_bytes);
        self.describe(Damage {
            path: self.path.clone(),
            offset: at,
            kind,
            length: next - at,
            is_followed,
            hash: header.map(|header| header.hash()),
            is_elsewhere: false,
        });
        Ok(next)
    }

    /// Takes a damage into the list, if there is room for one of its kind. Otherwise it is counted;
    /// one that may hide blocks also adds to the last such one that is described, so that any
    /// number of harmless ones cannot outweigh it.
    fn describe(&mut self, damage: Damage) {
        let is_harmless = damage.is_harmless();
        let damages = &mut self.scan.damages;
        let alike = |other: &&mut Damage| other.is_harmless() == is_harmless;
        if damages.iter_mut().filter(alike).count() < DAMAGES_MAX {
            damages.push(damage);
            return;
        }
        self.scan.more_damages += 1;
        if !is_harmless && let Some(last) = damages.iter_mut().rfind(alike) {
            (last.length, last.hash) = (damage.offset + damage.length - last.offset, None);
        }
    }

    /// Offset of the end of padding that begins at `at`, where no magic is: the next magic, or
    /// other bytes.
    ///
    /// The head of a record may look like padding: a byte that equals its byte of the key is stored
    /// as zero.
    fn skip_padding(&mut self, at: u64) -> ReadResult<u64> {
        let key = self.window.key;
        let mut offset = self.window.skip_zeros(at)?.max(at + 1);
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
}

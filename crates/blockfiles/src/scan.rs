//! Finding the records of a block file. A scan reads 88 bytes of each record and skips the rest.
//!
//! A record whose length leads to another record, or to the end of the file, is taken for a block
//! until its content is read. Any other record is decoded: it is a block if its transactions have
//! the header's merkle root, and the next record is looked for where the block ends, as by Bitcoin
//! Core. If it is no block, the next record is looked for inside it, see `next`. With
//! [`ScanDepth::Contents`] every record is decoded, so that no record can hide others.

mod next;

pub use crate::window::ScanProgress;

use crate::window::{ReadResult, Window};
use crate::{BLOCK_SIZE_MAX, BlockFiles, FileError, Position, RECORD_HEAD, Record};
use blockmill_block::block::Block;
use blockmill_block::hash::{BlockHash, sha256d};
use blockmill_block::header::Header;
use blockmill_block::merkle;
use blockmill_block::network::{Magic, Network};
use next::{Next, decode_budget};
use std::ops::{ControlFlow, Range};
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
    /// Whether a record with a whole block follows.
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

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The records, in the order of the file.
    pub records: Vec<Record>,
    /// The first damages, in the order of the file: of those that are harmless whatever the other
    /// files have, and of all others, so many each.
    pub damages: Vec<Damage>,
    /// Number of further damages that are not harmless.
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
            decode_budget: decode_budget(size),
            is_exhausted: false,
            without_belief: 0..0,
            harmless: 0,
            harmful: 0,
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

/// Bytes at the end of a file that tell that it was allocated further than it was written: more
/// than there are zeros at the end of a usual block.
const PREALLOCATED_MIN: u64 = 64;

impl BlockFiles {
    /// Whether a file ends in bytes that were allocated and not written: Core has not finished it.
    ///
    /// # Errors
    /// [`FileError::Io`] or [`FileError::Read`].
    pub fn is_preallocated(&self, file: u32) -> Result<bool, FileError> {
        let source = self.source(file);
        let handle = self.open(file)?;
        let size = handle.metadata().map_err(FileError::io(&source.path))?.len();
        let go_on = &mut |_: &ScanProgress| ControlFlow::Continue(());
        let mut window = Window::new(&handle, source.key, size, PREALLOCATED_MIN as usize, go_on);
        let start = size.saturating_sub(PREALLOCATED_MIN);
        let is_padding = match window.get(start, PREALLOCATED_MIN as usize) {
            Ok(bytes) => bytes.len() as u64 == PREALLOCATED_MIN && source.key.is_padding_of_any_kind(bytes, start),
            Err(cut) => return cut.error(&source.path).map_or(Ok(false), Err),
        };
        Ok(is_padding)
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

/// Damages of a file that are described, of harmless ones and of others. Further ones are only
/// counted.
const DAMAGES_MAX: usize = 100;

struct Scanner<'a> {
    /// Bytes that may still be decoded.
    decode_budget: u64,
    /// Whether something was not decoded since they were too few.
    is_exhausted: bool,
    /// No believed record begins in these bytes, and one does at their end, or the file ends.
    without_belief: Range<u64>,
    /// Damages that are described.
    harmless: usize,
    harmful: usize,
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
        let mut head = [0; RECORD_HEAD as usize];
        let bytes = self.window.get(at, head.len())?;
        let count = bytes.len();
        head[..count].copy_from_slice(bytes);
        Ok(self.boundary_of(&head[..count], at))
    }

    /// The meaning of the first bytes at `at`.
    fn boundary_of(&self, bytes: &[u8], at: u64) -> Boundary {
        let (magic, key) = (self.magic, self.window.key);
        let length = bytes.len().min(magic.0.len());
        if bytes.is_empty() {
            Boundary::End
        } else if bytes[..length] == magic.0[..length] && (length == magic.0.len() || !key.is_padding(bytes, at)) {
            // At the end of the file a part of the magic is enough: the rest was not written.
            Boundary::Magic
        } else if key.is_padding(&bytes[..1], at) {
            Boundary::Padding
        } else {
            Boundary::Other
        }
    }

    /// Handles bytes that are neither a record nor padding.
    fn other(&mut self, at: u64) -> ReadResult<u64> {
        let next = self.next_record(at + 1)?;
        let magic = self.magic.0;
        let head = self.window.get(at, magic.len())?;
        let written = head.iter().zip(magic).take_while(|&(&byte, of_magic)| byte == of_magic);
        let written = written.count() as u64;
        let kind = if next.first().is_none() && written > 0 && self.window.is_padding_to_end(at + written)? {
            DamageKind::Truncated
        } else {
            self.other_network(at)?
                .map_or(DamageKind::NoMagic, DamageKind::OtherNetwork)
        };
        self.report_up_to(at, kind, &next)
    }

    /// Handles a record whose magic is at `at`.
    fn record(&mut self, at: u64) -> ReadResult<u64> {
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let Some((&length, rest)) = head.get(4..).and_then(<[u8]>::split_first_chunk) else {
            return self.report(at, DamageKind::Truncated, self.window.size, false);
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
                self.report(at, DamageKind::TooLong(length), end, true)?;
            }
            return Ok(end);
        }
        if fits {
            // The block may be damaged, and others may lie inside.
            self.take(start, length, header);
            let inside = self.next_record(at + 4)?.first();
            return Ok(inside.map_or(end, |inside| inside.min(end)));
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
        let next = self.next_record(at + 4)?;
        if next.believed.is_none() && self.is_cut_off(at, length)? && !self.is_exhausted {
            // Whatever stands in the torn block, it is a part of it.
            return self.report(at, DamageKind::Truncated, self.window.size, false);
        }
        self.report_up_to(at, DamageKind::BadLength(length), &next)
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

    /// The network whose magic is at `at`.
    fn other_network(&mut self, at: u64) -> ReadResult<Option<Network>> {
        let bytes = self.window.get(at, RECORD_HEAD as usize)?;
        let is_there = |network: &Network| bytes.starts_with(&network.magic().0);
        Ok(Network::ALL.into_iter().find(is_there))
    }

    /// Reports a damage that ends at the next record, or with the file. Returns that offset.
    fn report_up_to(&mut self, at: u64, kind: DamageKind, next: &Next) -> ReadResult<u64> {
        let end = next.first().unwrap_or(self.window.size);
        self.report(at, kind, end, next.is_believed())
    }

    /// Reports a damage up to `next`. Returns that offset.
    fn report(&mut self, at: u64, kind: DamageKind, next: u64, is_followed: bool) -> ReadResult<u64> {
        let head = self.window.get(at, RECORD_HEAD as usize + Header::LENGTH)?;
        let header = head
            .get(8..)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Header::from_bytes);
        let damage = Damage {
            path: self.path.clone(),
            offset: at,
            kind,
            length: next - at,
            is_followed,
            hash: header.map(|header| header.hash()),
            is_elsewhere: false,
        };
        self.describe(damage);
        Ok(next)
    }

    /// Takes a damage into the list, if there is room for one of its kind: many that are harmless
    /// do not keep others from being said. Of further ones, those that may hide blocks are counted,
    /// and add to the last one that is described: what explains the others does not explain them.
    fn describe(&mut self, damage: Damage) {
        let is_harmless = damage.is_harmless();
        let described = if is_harmless {
            &mut self.harmless
        } else {
            &mut self.harmful
        };
        let damages = &mut self.scan.damages;
        if *described < DAMAGES_MAX {
            *described += 1;
            damages.push(damage);
        } else if !is_harmless {
            self.scan.more_damages += 1;
            if let Some(last) = damages.iter_mut().rfind(|other| !other.is_harmless()) {
                (last.length, last.hash) = (damage.offset + damage.length - last.offset, None);
            }
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

//! Finding the records of a block file. A scan reads 88 bytes of each record and skips the rest.
//!
//! A record whose length leads to another record, or to the end of the file, is taken for a block
//! until its content is read. Any other record is decoded: it is a block if its transactions have
//! the header's merkle root, and the next record is looked for where the block ends, as by Bitcoin
//! Core. If it is no block, the next record is looked for inside it, see `next`. With
//! [`ScanDepth::Contents`] every record is decoded, so that no record can hide others.

mod damage;
mod next;
mod scanner;

pub use crate::window::ScanProgress;
use crate::window::{FileWindow, ReadResult};
use crate::{BLOCK_SIZE_MAX, BlockFiles, FileError, Position, RECORD_HEAD, Record};
use blockmill_block::header::Header;
use blockmill_block::network::{Magic, Network};
pub use damage::{Damage, DamageKind};
use next::NextRecords;
use scanner::{Boundary, Scanner, TORN_TAIL, decode_budget};
pub use scanner::{Scan, ScanDepth};
use std::ops::ControlFlow;

/// Bytes per read while records are short, and while they are long.
const WINDOW_SHORT: usize = 64 << 10;
const WINDOW_LONG: usize = 4 << 10;

/// Length in bytes from which a record counts as long.
const LONG_RECORD: u32 = 32 << 10;

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
            window: FileWindow::new(&handle, source.key, size, WINDOW_SHORT, watch),
            scan: Scan {
                bytes: size,
                ..Scan::default()
            },
        };
        let mut at = 0;
        // Each step goes on by a byte at least.
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
        let mut window = FileWindow::new(&handle, source.key, size, PREALLOCATED_MIN as usize, go_on);
        let start = size.saturating_sub(PREALLOCATED_MIN);
        let is_padding = match window.get(start, PREALLOCATED_MIN as usize) {
            Ok(bytes) => bytes.len() as u64 == PREALLOCATED_MIN && source.key.is_padding_of_any_kind(bytes, start),
            Err(cut) => return cut.error(&source.path).map_or(Ok(false), Err),
        };
        Ok(is_padding)
    }
}

/// Damages of a file that are described, of harmless ones and of others. Further ones are only
/// counted.
const DAMAGES_MAX: usize = 100;

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

    /// Handles bytes that are neither a record nor padding.
    fn other(&mut self, at: u64) -> ReadResult<u64> {
        let next = self.next_record(at + 1)?;
        let magic = self.magic.0;
        let head = self.window.get(at, magic.len())?;
        let written = head.iter().zip(magic).take_while(|&(&byte, of_magic)| byte == of_magic);
        // A part of the magic at the end of what was written: the write began there.
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
        // Most of a long record is skipped, so little of it is read.
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
            // Core goes on where the block ends, too.
            let end = start + u64::from(decoded);
            if decoded != length {
                self.report(at, DamageKind::TooLong(length), end, true)?;
            }
            return Ok(end);
        }
        if fits {
            // The block may be damaged, and others may lie inside.
            self.take(start, length, header);
            // The search begins after the record's own magic.
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
        // The magic was written, and nothing else.
        if length == 0 {
            return self.window.is_padding_to_end(at + 4);
        }
        // A part of the length may have been written.
        if length < Header::LENGTH as u32 || length > BLOCK_SIZE_MAX {
            return self.window.is_padding_to_end(start);
        }
        let end = start + u64::from(length);
        if end > size {
            return Ok(true);
        }
        self.window.is_padding_to_end(end.saturating_sub(TORN_TAIL).max(start))
    }

    /// The network whose magic is at `at`.
    fn other_network(&mut self, at: u64) -> ReadResult<Option<Network>> {
        let bytes = self.window.get(at, RECORD_HEAD as usize)?;
        // A user may have mixed up the directories of two networks.
        let is_there = |network: &Network| bytes.starts_with(&network.magic().0);
        Ok(Network::ALL.into_iter().find(is_there))
    }

    /// Reports a damage that ends at the next record, or with the file. Returns that offset.
    fn report_up_to(&mut self, at: u64, kind: DamageKind, next: &NextRecords) -> ReadResult<u64> {
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

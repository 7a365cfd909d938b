//! A part of a file in memory, cleared of the key: what the searches for records read through.

use crate::{FileError, RECORD_HEAD, XorKey};
use blockmill_block::network::Magic;
use memchr::memmem;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes per step of a search for the magic: the first step, and the longest.
const SEARCH_STEP_FIRST: usize = 256;
const SEARCH_STEP_MAX: usize = 1 << 20;

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

/// The reason of an early end of a search.
pub(crate) enum Cut {
    /// A read failed at an offset.
    Read(u64, io::Error),
    /// The caller's `watch` broke.
    Stopped,
}

impl Cut {
    /// The error of a read of the file at `path`; none if the caller stopped the search.
    pub(crate) fn error(self, path: &Path) -> Option<FileError> {
        match self {
            Self::Stopped => None,
            Self::Read(offset, error) => Some(FileError::Read {
                path: path.to_owned(),
                offset,
                error,
            }),
        }
    }
}

pub(crate) type ReadResult<T> = Result<T, Cut>;

/// A part of a file.
pub(crate) struct Window<'a> {
    handle: &'a File,
    pub(crate) key: XorKey,
    /// Length of the file.
    pub(crate) size: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Bytes per read.
    pub(crate) length: usize,
    /// Records found so far.
    pub(crate) records: usize,
    /// From here on nothing but padding follows, of either kind. Found when it is first needed.
    padding_start: Option<u64>,
    watch: &'a mut dyn FnMut(&ScanProgress) -> ControlFlow<()>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(
        handle: &'a File,
        key: XorKey,
        size: u64,
        length: usize,
        watch: &'a mut dyn FnMut(&ScanProgress) -> ControlFlow<()>,
    ) -> Self {
        Self {
            handle,
            key,
            size,
            start: 0,
            bytes: Vec::new(),
            length,
            records: 0,
            padding_start: None,
            watch,
        }
    }

    /// The bytes from `at` on: `count`, or fewer at the end of the file.
    pub(crate) fn get(&mut self, at: u64, count: usize) -> ReadResult<&[u8]> {
        let count = count.min(self.size.saturating_sub(at) as usize);
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

    /// Offset of the next magic from `at` on.
    pub(crate) fn find_magic(&mut self, magic: Magic, at: u64) -> ReadResult<Option<u64>> {
        let finder = memmem::Finder::new(&magic.0);
        let mut offset = at;
        // Small steps first: the next record is often near, within the window.
        let mut step = SEARCH_STEP_FIRST;
        while offset < self.size {
            let bytes = self.get(offset, step)?;
            if let Some(found) = finder.find(bytes) {
                return Ok(Some(offset + found as u64));
            }
            if bytes.len() < step {
                break;
            }
            offset += (step - 3) as u64;
            step = (step * 4).min(SEARCH_STEP_MAX);
        }
        Ok(None)
    }

    /// Skips zeros of one kind in steps that double and, at the end of the zeros, halve. Returns an
    /// offset before which no record begins, except at `at`. Steps overlap, so that every head of a
    /// record lies within one step.
    pub(crate) fn skip_zeros(&mut self, at: u64) -> ReadResult<u64> {
        let key = self.key;
        let mut offset = at;
        let mut step = SEARCH_STEP_FIRST;
        let mut grows = true;
        while step > 2 * RECORD_HEAD as usize {
            let bytes = self.get(offset, step)?;
            if !key.is_padding(bytes, offset) {
                grows = false;
                step /= 2;
                continue;
            }
            if bytes.len() < step {
                return Ok(self.size);
            }
            offset += (step - (RECORD_HEAD as usize - 1)) as u64;
            if grows {
                step = (step * 2).min(SEARCH_STEP_MAX);
            }
        }
        Ok(offset)
    }

    /// The bytes of a record's head at `at`, and how many of them the file has. The window stays
    /// where it is.
    pub(crate) fn peek(&mut self, at: u64) -> ReadResult<([u8; RECORD_HEAD as usize], usize)> {
        let mut bytes = [0; RECORD_HEAD as usize];
        let count = bytes.len().min(self.size.saturating_sub(at) as usize);
        if at >= self.start && at + count as u64 <= self.start + self.bytes.len() as u64 {
            let from = (at - self.start) as usize;
            bytes[..count].copy_from_slice(&self.bytes[from..from + count]);
        } else {
            let read = self.handle.read_exact_at(&mut bytes[..count], at);
            read.map_err(|error| Cut::Read(at, error))?;
            self.key.apply(&mut bytes[..count], at);
        }
        Ok((bytes, count))
    }

    /// Whether nothing but padding, of either kind, lies from `at` to the end of the file. The
    /// padding at the end is read once, however often this is asked.
    pub(crate) fn is_padding_to_end(&mut self, at: u64) -> ReadResult<bool> {
        if let Some(start) = self.padding_start {
            return Ok(at >= start);
        }
        let key = self.key;
        let mut end = self.size;
        let mut step = SEARCH_STEP_FIRST as u64;
        let start = loop {
            let begin = end.saturating_sub(step);
            let bytes = self.get(begin, (end - begin) as usize)?;
            let is_written = |&index: &usize| {
                let offset = begin + index as u64;
                !key.is_padding_of_any_kind(&bytes[index..=index], offset)
            };
            let written = if key.is_padding_of_any_kind(bytes, begin) {
                None
            } else {
                (0..bytes.len()).rev().find(is_written)
            };
            match written {
                Some(index) => break begin + index as u64 + 1,
                None if begin == 0 => break 0,
                None => end = begin,
            }
            step = (step * 4).min(SEARCH_STEP_MAX as u64);
        };
        self.padding_start = Some(start);
        Ok(at >= start)
    }
}

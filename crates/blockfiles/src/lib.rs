//! Block files: `blk*.dat` as Bitcoin Core writes them, and single files of the same form.
//!
//! A file is a run of records: magic (4 bytes), length (4 bytes, little endian), block. Real files also hold zeros that
//! were allocated ahead, a record that was being written when the machine stopped, remains of older records, blocks in
//! any order, and blocks that another file holds too. Core since 28 obfuscates them with the key in `xor.dat`.
//!
//! - [`source`]: which files there are, and reading from them;
//! - [`scan`]: finding the records without reading the blocks;
//! - [`mod@write`]: appending records;
//! - [`undo`]: the undo data that Core keeps beside them.

pub mod disk;
pub mod scan;
pub mod source;
pub mod undo;
pub mod write;

use blockmill_block::{BlockHash, Header};
use std::path::PathBuf;
use thiserror::Error;

pub use disk::{Disk, DiskFile, Open, SystemDisk};
pub use scan::{Damage, DamageKind, Scan, ScanProgress};
pub use source::{BlockFiles, XorKey};
pub use undo::UndoFile;
pub use write::BlockFileWriter;

/// Bytes of a record before the block: magic and length.
pub const RECORD_HEAD: u64 = 8;

/// Largest serialized block in bytes (Core's `MAX_BLOCK_SERIALIZED_SIZE`); a record that states more is damaged.
pub const BLOCK_SIZE_MAX: u32 = 4_000_000;

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of the file among the [`BlockFiles`].
    pub file: u32,
    /// Length of the block in bytes.
    pub length: u32,
    /// Place of the block in the file in bytes, behind magic and length.
    pub offset: u64,
}

/// A record that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Where its block lies.
    pub position: Position,
    /// The block's header.
    pub header: Header,
    /// The header's hash.
    pub hash: BlockHash,
}

/// Why block files cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// A read at a known place failed, for example because the file has shrunk.
    #[error("{}: offset {offset}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The place in bytes.
        offset: u64,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// A directory without block files.
    #[error("{}: no blk*.dat files", path.display())]
    NoBlockFiles {
        /// The directory.
        path: PathBuf,
    },
    /// A key file of the wrong length.
    #[error("{}: the obfuscation key has {length} bytes, not 8", path.display())]
    KeyLength {
        /// The key file.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
}

impl FileError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }
}

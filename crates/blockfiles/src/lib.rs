//! Block files: `blk*.dat` as Bitcoin Core writes them, and single files of the same form.
//!
//! A file is a run of records: magic (4 bytes), length (4 bytes, little endian), block. Real files
//! have more: zeros that were allocated ahead, a last record cut off by a crash, remains of older
//! records. Blocks come in any order, and some are in two files. Core since 28 obfuscates the files
//! with the key in `xor.dat`.
//!
//! - [`source`]: lists of block files, and reading blocks from them;
//! - [`scan`]: finding the records and their headers without reading the blocks;
//! - [`mod@write`]: appending records;
//! - [`undo`]: the undo data in the `rev*.dat` files beside them;
//! - [`lines`]: blocks as lines of hex;
//! - [`new_file`]: files that get their names when they are complete;
//! - [`input`]: a file or a pipe that is read once, until somebody asks to stop;
//! - [`disk`]: the calls that change files, as a trait that tests can implement;
//! - [`watch`]: waiting for changes that another process makes.
//!
//! The files of a directory, scanned and read:
//!
//! ```
//! use blockmill_block::{Block, Network};
//! use blockmill_blockfiles::{BlockFileWriter, BlockFiles};
//! # use blockmill_chaingen::builder::BlockBuilder;
//! # use blockmill_chaingen::bitcoin::{constants::genesis_block, Network::Regtest};
//! # let genesis = genesis_block(Regtest);
//! # let builder = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600);
//! # let bytes = builder.build_bytes();
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let magic = Network::Regtest.magic();
//! let mut files = BlockFiles::new();
//! let mut writer = BlockFileWriter::open(directory, magic, None)?;
//! writer.append(&bytes, &mut files)?;
//! writer.sync()?;
//!
//! let scan = files.scan(0, magic)?;
//! assert!(scan.damages.is_empty());
//! for record in &scan.records {
//!     let block = Block::decode(files.read(&record.position)?)?;
//!     println!("{} {} transactions", record.hash, block.transaction_count());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod disk;
pub mod input;
pub mod lines;
pub mod new_file;
pub mod scan;
pub mod source;
pub mod undo;
pub mod watch;
mod window;
pub mod write;

use blockmill_block::{BlockHash, Header};
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use disk::{Disk, DiskFile, Open, SystemDisk};
pub use input::Input;
pub use new_file::NewFile;
pub use scan::{Damage, DamageKind, Scan, ScanDepth, ScanProgress};
pub use source::{BlockFiles, Skipped, XorKey, find_regular, open_regular, read_regular};
pub use undo::{UndoCursor, UndoFile, undo_path};
pub use watch::{Watch, Woken};
pub use write::{BlockFileWriter, has_block_files, has_blocks, sync_appended};

/// Bytes of a record before the block: magic and length.
pub const RECORD_HEAD: u64 = 8;

/// Largest serialized block in bytes (Core's `MAX_BLOCK_SERIALIZED_SIZE`); a record with a larger
/// length is damaged.
pub const BLOCK_SIZE_MAX: u32 = 4_000_000;

/// The position of a block in a set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Number of the file among the [`BlockFiles`].
    pub file: u32,
    /// Length of the block in bytes.
    pub length: u32,
    /// Offset of the block in the file in bytes, after magic and length.
    pub offset: u64,
}

/// A record that a scan has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Position of the block.
    pub position: Position,
    /// The block's header.
    pub header: Header,
    /// The header's hash.
    pub hash: BlockHash,
}

/// Why block files cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// A call of the operating system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        error: std::io::Error,
    },
    /// A read at a known offset failed, for example because the file has shrunk.
    #[error("{}: offset {offset}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
        /// The operating system's error.
        #[source]
        error: std::io::Error,
    },
    /// A directory without block files.
    #[error("{}: no blk*.dat files", path.display())]
    NoBlockFiles {
        /// The directory.
        path: PathBuf,
    },
    /// A file that was to be made is there.
    #[error("{}: there is a file of this name already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file that was to be made has a name for unfinished ones. Such files are removed.
    #[error("{}: a name with this ending is for files that are not whole yet", path.display())]
    Reserved {
        /// The file.
        path: PathBuf,
    },
    /// Another process is writing the file or directory.
    #[error("{}: another process is writing it", path.display())]
    InUse {
        /// The file or directory.
        path: PathBuf,
    },
    /// A key file of the wrong length.
    #[error("{}: the obfuscation key does not have 8 bytes", path.display())]
    KeyLength {
        /// The key file.
        path: PathBuf,
    },
    /// A pipe, a socket, a device or a directory where a file was expected.
    #[error("{}: it is no regular file", path.display())]
    NotRegular {
        /// The name.
        path: PathBuf,
    },
}

impl FileError {
    /// Whether there is nothing of the name.
    pub fn is_gone(&self) -> bool {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Io { error, .. } if matches!(error.kind(), NotFound | NotADirectory))
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Read { path, .. }
            | Self::NoBlockFiles { path }
            | Self::Exists { path }
            | Self::Reserved { path }
            | Self::InUse { path }
            | Self::KeyLength { path }
            | Self::NotRegular { path } => path,
        }
    }

    /// Whether a file was not written since its name is not to be had.
    pub fn is_name_taken(&self) -> bool {
        matches!(self, Self::Exists { .. } | Self::InUse { .. } | Self::Reserved { .. })
    }

    /// Makes an error of the operating system an error about a file.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }
}

/// Whether there is something at a path. What may not be looked at is an error, not an absence.
///
/// # Errors
/// [`FileError::Io`].
pub fn is_there(path: &Path) -> Result<bool, FileError> {
    match path.try_exists() {
        // Nothing is inside of a file.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(false),
        found => found.map_err(FileError::io(path)),
    }
}

/// Makes a pipe with a name.
#[cfg(test)]
fn make_fifo(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

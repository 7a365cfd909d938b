//! Lists of block files, and reading from them.

use crate::{FileError, Position};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files kept open at a time.
const OPEN_FILES_MAX: usize = 64;

/// Name of the file beside the block files that holds the obfuscation key.
const KEY_FILE: &str = "xor.dat";

/// The key with which block files are obfuscated: byte `i` of a file is xored with byte `i mod 8`
/// of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XorKey([u8; 8]);

impl XorKey {
    /// A key of these bytes; the zero key leaves files as they are.
    pub const fn new(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The key of a directory of block files. Without a key file the key is zero.
    ///
    /// # Errors
    /// [`FileError::KeyLength`], or [`FileError::Io`] if the key file cannot be read.
    pub fn of_directory(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join(KEY_FILE);
        match std::fs::read(&path) {
            Ok(bytes) => match <[u8; 8]>::try_from(&bytes[..]) {
                Ok(key) => Ok(Self(key)),
                Err(_) => Err(FileError::KeyLength {
                    path,
                    length: bytes.len(),
                }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(FileError::Io { path, error }),
        }
    }

    /// The bytes of the key.
    pub const fn bytes(&self) -> [u8; 8] {
        self.0
    }

    /// Whether the key changes nothing.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 8]
    }

    /// Obfuscates or clears `bytes`, which are at `offset` in their file.
    pub fn apply(&self, bytes: &mut [u8], offset: u64) {
        if self.is_zero() {
            return;
        }
        let mut key = self.0;
        key.rotate_left((offset % 8) as usize);
        for chunk in bytes.chunks_mut(8) {
            for (byte, key) in chunk.iter_mut().zip(key) {
                *byte ^= key;
            }
        }
    }

    /// Whether `bytes`, read at `offset` and cleared of the key, are padding. Padding is zero as
    /// stored (allocated and never written), or zero after clearing.
    pub(crate) fn is_padding(&self, bytes: &[u8], offset: u64) -> bool {
        if bytes.iter().all(|&byte| byte == 0) {
            return true;
        }
        let stored = |index: usize| self.0[((offset + index as u64) % 8) as usize];
        bytes.iter().enumerate().all(|(index, &byte)| byte == stored(index))
    }
}

/// One file of blocks.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) key: XorKey,
}

/// Files of blocks, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub struct BlockFiles {
    sources: Vec<Source>,
    by_path: HashMap<PathBuf, u32>,
    open: Mutex<HashMap<u32, Arc<File>>>,
}

fn block_file_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("blk")?.strip_suffix(".dat")?.parse().ok()
}

fn list_block_files(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(FileError::io(directory))? {
        let path = entry.map_err(FileError::io(directory))?.path();
        if let Some(number) = block_file_number(&path) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

impl BlockFiles {
    /// A list without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the `blk*.dat` files of a directory (or of its folder `blocks`) in the order of their
    /// numbers, or a single file under any name. Files that are in the list already are skipped.
    /// The key is that of the file's directory. Returns the numbers of the files that were added.
    ///
    /// # Errors
    /// Any [`FileError`] except [`FileError::Read`].
    pub fn add(&mut self, path: &Path) -> Result<std::ops::Range<u32>, FileError> {
        let metadata = std::fs::metadata(path).map_err(FileError::io(path))?;
        let first = self.sources.len() as u32;
        if metadata.is_dir() {
            let mut files = list_block_files(path)?;
            let inner = path.join("blocks");
            if files.is_empty() && inner.is_dir() {
                files = list_block_files(&inner)?;
            }
            if files.is_empty() {
                return Err(FileError::NoBlockFiles { path: path.to_owned() });
            }
            self.add_files(&files)?;
        } else {
            self.add_files(&[path.to_owned()])?;
        }
        Ok(first..self.sources.len() as u32)
    }

    fn add_files(&mut self, paths: &[PathBuf]) -> Result<(), FileError> {
        let mut keys: HashMap<PathBuf, XorKey> = HashMap::new();
        for path in paths {
            let path = std::fs::canonicalize(path).map_err(FileError::io(path))?;
            if self.by_path.contains_key(&path) {
                continue;
            }
            let directory = path.parent().unwrap_or(Path::new("."));
            let key = match keys.get(directory) {
                Some(&key) => key,
                None => {
                    let key = XorKey::of_directory(directory)?;
                    keys.insert(directory.to_owned(), key);
                    key
                }
            };
            self.by_path.insert(path.clone(), self.sources.len() as u32);
            self.sources.push(Source { path, key });
        }
        Ok(())
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Path of file number `file`. Panics if `file` is out of range.
    pub fn path(&self, file: u32) -> &Path {
        &self.sources[file as usize].path
    }

    /// Number of the file at `path`.
    ///
    /// # Errors
    /// [`FileError::Io`] if the file is not in the list.
    pub fn number_of(&self, path: &Path) -> Result<u32, FileError> {
        let path = std::fs::canonicalize(path).map_err(FileError::io(path))?;
        match self.by_path.get(&path) {
            Some(&number) => Ok(number),
            None => Err(FileError::io(path)(std::io::ErrorKind::NotFound.into())),
        }
    }

    /// The key of file number `file`. Panics if `file` is out of range.
    pub fn key(&self, file: u32) -> XorKey {
        self.sources[file as usize].key
    }

    pub(crate) fn source(&self, file: u32) -> &Source {
        &self.sources[file as usize]
    }

    pub(crate) fn open(&self, file: u32) -> Result<Arc<File>, FileError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = open.get(&file) {
            return Ok(Arc::clone(handle));
        }
        if open.len() >= OPEN_FILES_MAX {
            open.clear();
        }
        let path = self.path(file);
        let handle = Arc::new(File::open(path).map_err(FileError::io(path))?);
        open.insert(file, Arc::clone(&handle));
        Ok(handle)
    }

    /// Has the system read a part of a file ahead. What comes of it is not said: who reads the part
    /// later finds out.
    pub fn read_ahead(&self, file: u32, offset: u64, length: u64) {
        if let Ok(handle) = self.open(file) {
            will_need(&handle, offset, length);
        }
    }

    /// The bytes of the block at `position`, cleared of the key. Panics if the position's file is
    /// out of range.
    ///
    /// # Errors
    /// [`FileError::Io`] or [`FileError::Read`].
    pub fn read(&self, position: &Position) -> Result<Vec<u8>, FileError> {
        let handle = self.open(position.file)?;
        let source = self.source(position.file);
        let mut bytes = vec![0; position.length as usize];
        handle
            .read_exact_at(&mut bytes, position.offset)
            .map_err(|error| FileError::Read {
                path: source.path.clone(),
                offset: position.offset,
                error,
            })?;
        source.key.apply(&mut bytes, position.offset);
        Ok(bytes)
    }
}

/// Tells the system that a part of a file will be read soon; 0 is the length of all that follows.
#[cfg(target_os = "linux")]
pub(crate) fn will_need(file: &File, offset: u64, length: u64) {
    use rustix::fs::{Advice, fadvise};
    let _ = fadvise(file, offset, std::num::NonZeroU64::new(length), Advice::WillNeed);
}

/// Tells the system nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn will_need(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_by_offset_in_the_file() {
        let key = XorKey::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let mut bytes = [0; 11];
        key.apply(&mut bytes, 6);
        assert_eq!(bytes, [7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1]);
        assert!(key.is_padding(&bytes, 6));
        assert!(!key.is_padding(&bytes, 7));
        assert!(key.is_padding(&[0; 11], 7));
        key.apply(&mut bytes, 6);
        assert_eq!(bytes, [0; 11]);
    }

    #[test]
    fn key_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(XorKey::of_directory(path).unwrap().is_zero());
        std::fs::write(path.join("xor.dat"), [0; 8]).unwrap();
        assert!(XorKey::of_directory(path).unwrap().is_zero());
        std::fs::write(path.join("xor.dat"), [9; 8]).unwrap();
        assert_eq!(XorKey::of_directory(path).unwrap(), XorKey::new([9; 8]));
        std::fs::write(path.join("xor.dat"), [9; 7]).unwrap();
        assert!(matches!(
            XorKey::of_directory(path),
            Err(FileError::KeyLength { length: 7, .. })
        ));
    }

    #[test]
    fn files_come_in_the_order_of_their_numbers_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut files = BlockFiles::new();
        assert!(matches!(files.add(path), Err(FileError::NoBlockFiles { .. })));
        for name in [
            "blk00010.dat",
            "blk00002.dat",
            "blk100000.dat",
            "rev00002.dat",
            "blkx.dat",
        ] {
            std::fs::write(path.join(name), [0]).unwrap();
        }
        assert_eq!(files.add(path).unwrap(), 0..3);
        let names: Vec<_> = (0..3)
            .map(|file| files.path(file).file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["blk00002.dat", "blk00010.dat", "blk100000.dat"]);
        assert_eq!(files.add(&path.join("blk00010.dat")).unwrap(), 3..3);
        assert_eq!(files.add(&path.join("rev00002.dat")).unwrap(), 3..4);
        assert!(files.add(&path.join("missing")).is_err());
    }
}

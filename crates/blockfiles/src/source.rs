//! Lists of block files, and reading from them.

use crate::{FileError, Position};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files kept open at a time.
const OPEN_FILES_MAX: usize = 64;

/// Name of the file beside the block files that holds the obfuscation key.
const KEY_FILE: &str = "xor.dat";

/// Bytes of the key.
const KEY_LENGTH: usize = 8;

/// The key with which block files are obfuscated: byte `i` of a file is xored with byte `i mod 8`
/// of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct XorKey([u8; KEY_LENGTH]);

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
        let Some(file) = find_regular(&path)? else {
            return Ok(Self::default());
        };
        let mut bytes = Vec::new();
        // A byte more than a key has tells that there is more.
        let read = file.take(KEY_LENGTH as u64 + 1).read_to_end(&mut bytes);
        read.map_err(FileError::io(&path))?;
        match <[u8; KEY_LENGTH]>::try_from(&bytes[..]) {
            Ok(key) => Ok(Self(key)),
            Err(_) => Err(FileError::KeyLength { path }),
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
        // The key goes by the offset in the file, wherever a read begins.
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
        bytes
            .iter()
            .zip(self.from(offset))
            .all(|(&byte, stored)| byte == stored)
    }

    /// Whether each of `bytes` is padding of one of both kinds.
    pub(crate) fn is_padding_of_any_kind(&self, bytes: &[u8], offset: u64) -> bool {
        let mut pairs = bytes.iter().zip(self.from(offset));
        pairs.all(|(&byte, stored)| byte == 0 || byte == stored)
    }

    /// The bytes of the key from an offset in the file on.
    fn from(&self, offset: u64) -> impl Iterator<Item = u8> {
        self.0.into_iter().cycle().skip((offset % KEY_LENGTH as u64) as usize)
    }
}

/// One file of blocks.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its name, in a folder that is named without links. The key and the undo file are found by
    /// the name, and the name may be a link.
    pub(crate) path: PathBuf,
    pub(crate) key: XorKey,
    /// The file itself, without links.
    target: PathBuf,
}

/// The name of a block file that is not a regular file. It is skipped, so its blocks are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The name.
    pub path: PathBuf,
    /// Why.
    pub reason: &'static str,
}

/// Files of blocks, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub struct BlockFiles {
    sources: Vec<Source>,
    by_path: HashMap<PathBuf, u32>,
    by_target: HashMap<(PathBuf, XorKey), u32>,
    skipped: Vec<Skipped>,
    doubts: Mutex<BTreeSet<u32>>,
    open: Mutex<HashMap<u32, Arc<File>>>,
}

pub(crate) fn block_file_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("blk")?.strip_suffix(".dat")?.parse().ok()
}

/// Opens a file for reading that must be a regular one: the open of a FIFO would wait for a writer.
///
/// # Errors
/// [`FileError::NotRegular`], or [`FileError::Io`].
pub fn open_regular(path: &Path) -> Result<File, FileError> {
    use std::os::unix::fs::OpenOptionsExt;
    // For a regular file the flag changes nothing.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let opened = File::options().read(true).custom_flags(nonblocking).open(path);
    let file = opened.map_err(FileError::io(path))?;
    if file.metadata().map_err(FileError::io(path))?.is_file() {
        Ok(file)
    } else {
        Err(FileError::NotRegular { path: path.to_owned() })
    }
}

/// As [`open_regular`]; none where there is nothing of the name.
///
/// # Errors
/// [`FileError::NotRegular`], or [`FileError::Io`].
pub fn find_regular(path: &Path) -> Result<Option<File>, FileError> {
    match open_regular(path) {
        Err(FileError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The bytes of a file that must be a regular one; none where there is nothing of the name.
///
/// # Errors
/// [`FileError::NotRegular`], or [`FileError::Io`].
pub fn read_regular(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let Some(mut file) = find_regular(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(FileError::io(path))?;
    Ok(Some(bytes))
}

/// The folder that a file is named in, and its name there, which may be a link.
fn folder_and_name(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        // `..`, which is no file.
        _ => Err(FileError::NotRegular { path: path.to_owned() }),
    }
}

/// A folder without links.
fn real_folder(folder: &Path) -> Result<PathBuf, FileError> {
    let folder = match folder == Path::new("") {
        true => Path::new("."),
        false => folder,
    };
    std::fs::canonicalize(folder).map_err(FileError::io(folder))
}

/// Whether there is a file or a folder of some kind; an error where that cannot be found out.
fn is_kind(path: &Path, kind: fn(&std::fs::Metadata) -> bool) -> Result<bool, FileError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(kind(&metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::io(path)(error)),
    }
}

impl BlockFiles {
    /// A list without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the `blk*.dat` files of a directory (or of its folder `blocks`) in the order of their
    /// numbers, or a single file under any name. Returns the numbers of the files, of those too
    /// that were in the list: these are opened again when they are next read, with the key that
    /// lies there now. The key is that of the folder in which the file's name is. What is no
    /// regular file is passed over, see [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// Any [`FileError`] except [`FileError::Read`].
    pub fn add(&mut self, path: &Path) -> Result<Vec<u32>, FileError> {
        let metadata = std::fs::metadata(path).map_err(FileError::io(path))?;
        if !metadata.is_dir() {
            if !metadata.is_file() {
                return Err(FileError::NotRegular { path: path.to_owned() });
            }
            return self.add_files(&[path.to_owned()]);
        }
        // Users name the directory of a node, or its folder of blocks.
        let mut files = self.list_block_files(path)?;
        let inner = path.join("blocks");
        if files.is_empty() && is_kind(&inner, std::fs::Metadata::is_dir)? {
            files = self.list_block_files(&inner)?;
        }
        if files.is_empty() {
            return Err(FileError::NoBlockFiles { path: path.to_owned() });
        }
        self.add_files(&files)
    }

    fn list_block_files(&mut self, directory: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(FileError::io(directory))? {
            let entry = entry.map_err(FileError::io(directory))?;
            let path = entry.path();
            let Some(number) = block_file_number(&path) else {
                continue;
            };
            // The folder says this without a call for each file, but where names are links.
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                files.push((number, path));
                continue;
            }
            let reason = match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    files.push((number, path));
                    continue;
                }
                Ok(_) => "it is no regular file",
                Err(error) if error.kind() == ErrorKind::NotFound => "it is a link to a file that is not there",
                Err(error) => return Err(FileError::io(path)(error)),
            };
            let skipped = Skipped { path, reason };
            // A directory may be added again and again, while a node writes it.
            if !self.skipped.contains(&skipped) {
                self.skipped.push(skipped);
            }
        }
        // By number: names sort otherwise once a number has six digits.
        files.sort();
        Ok(files.into_iter().map(|(_, path)| path).collect())
    }

    fn add_files(&mut self, paths: &[PathBuf]) -> Result<Vec<u32>, FileError> {
        // Folders as they were named, without links, and their keys.
        let mut folders: HashMap<&Path, (PathBuf, XorKey)> = HashMap::new();
        let mut numbers = Vec::with_capacity(paths.len());
        for named in paths {
            let (folder, name) = folder_and_name(named)?;
            let (real, key) = match folders.entry(folder) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let real = real_folder(folder)?;
                    let key = XorKey::of_directory(&real)?;
                    new.insert((real, key))
                }
            };
            let path = real.join(name);
            // One file under two names must not be read twice.
            let target = match std::fs::read_link(&path) {
                // No link: the usual case, in which all is known.
                Err(error) if error.kind() == ErrorKind::InvalidInput => path.clone(),
                _ => std::fs::canonicalize(&path).map_err(FileError::io(named))?,
            };
            let number = self.add_file(Source {
                path,
                key: *key,
                target,
            });
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// Adds a file. One that is in the list under its name, or under another with the same key,
    /// stays there.
    fn add_file(&mut self, source: Source) -> u32 {
        if let Some(&number) = self.by_path.get(&source.path) {
            let known = &mut self.sources[number as usize];
            // The name may lead to another file by now.
            self.by_target.remove(&(known.target.clone(), known.key));
            *known = source.clone();
            self.by_target.insert((source.target, source.key), number);
            self.lock_open().remove(&number);
            return number;
        }
        let file = (source.target.clone(), source.key);
        if let Some(&number) = self.by_target.get(&file) {
            self.lock_open().remove(&number);
            return number;
        }
        let number = self.sources.len() as u32;
        self.by_target.insert(file, number);
        self.by_path.insert(source.path.clone(), number);
        self.sources.push(source);
        number
    }

    /// Names that were passed over, each once.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Notes that a record of a file is no block, or more than its block: other records may lie
    /// inside, and a search of [`ScanDepth::Contents`](crate::ScanDepth::Contents) finds them.
    pub fn note_doubt(&self, file: u32) {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
    }

    /// The files that were noted so.
    pub fn doubts(&self) -> BTreeSet<u32> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock_open(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (folder, name) = folder_and_name(path)?;
        let path = real_folder(folder)?.join(name);
        match self.by_path.get(&path) {
            Some(&number) => Ok(number),
            None => Err(FileError::io(path)(ErrorKind::NotFound.into())),
        }
    }

    /// The key of file number `file`. Panics if `file` is out of range.
    pub fn key(&self, file: u32) -> XorKey {
        self.sources[file as usize].key
    }

    /// The file that number `file` leads to, without links.
    pub(crate) fn target(&self, file: u32) -> &Path {
        &self.sources[file as usize].target
    }

    pub(crate) fn source(&self, file: u32) -> &Source {
        &self.sources[file as usize]
    }

    pub(crate) fn open(&self, file: u32) -> Result<Arc<File>, FileError> {
        let mut open = self.lock_open();
        if let Some(handle) = open.get(&file) {
            return Ok(Arc::clone(handle));
        }
        if open.len() >= OPEN_FILES_MAX {
            // Files are opened again when they are needed. Those that are being read stay open.
            open.clear();
        }
        let path = self.path(file);
        let handle = Arc::new(open_regular(path)?);
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
    // A hint: the reads that follow are right without it.
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
        assert!(matches!(XorKey::of_directory(path), Err(FileError::KeyLength { .. })));
        std::fs::write(path.join("xor.dat"), [9; 9]).unwrap();
        assert!(XorKey::of_directory(path).is_err());
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
        assert_eq!(files.add(path).unwrap(), [0, 1, 2]);
        let names: Vec<_> = (0..3)
            .map(|file| files.path(file).file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["blk00002.dat", "blk00010.dat", "blk100000.dat"]);
        assert_eq!(files.add(&path.join("blk00010.dat")).unwrap(), [1]);
        assert_eq!(files.add(&path.join("rev00002.dat")).unwrap(), [3]);
        assert_eq!(files.add(path).unwrap(), [0, 1, 2]);
        assert!(files.add(&path.join("missing")).is_err());
    }

    /// Old files are moved to another disk, and linked one by one. Their names there may differ.
    #[test]
    fn the_key_is_that_of_the_folder_with_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let (blocks, disk) = (directory.path().join("blocks"), directory.path().join("disk"));
        std::fs::create_dir(&blocks).unwrap();
        std::fs::create_dir(&disk).unwrap();
        std::fs::write(blocks.join("xor.dat"), [9; 8]).unwrap();
        std::fs::write(blocks.join("blk00001.dat"), [1]).unwrap();
        std::fs::write(disk.join("old"), [0]).unwrap();
        std::os::unix::fs::symlink(disk.join("old"), blocks.join("blk00000.dat")).unwrap();
        let mut files = BlockFiles::new();
        assert_eq!(files.add(&blocks).unwrap(), [0, 1]);
        assert_eq!(files.key(0), XorKey::new([9; 8]));
        assert!(files.path(0).ends_with("blocks/blk00000.dat"));
        // The file under its own name has another key there, and is another source.
        assert_eq!(files.add(&disk.join("old")).unwrap(), [2]);
        assert!(files.key(2).is_zero());
        // With the same key it is the same.
        std::fs::write(disk.join("xor.dat"), [9; 8]).unwrap();
        let mut files = BlockFiles::new();
        assert_eq!(files.add(&blocks).unwrap(), [0, 1]);
        assert_eq!(files.add(&disk.join("old")).unwrap(), [0]);
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("blk00000.dat"), [0]).unwrap();
        std::fs::create_dir(path.join("blk00001.dat")).unwrap();
        std::os::unix::fs::symlink(path.join("nowhere"), path.join("blk00002.dat")).unwrap();
        let fifo = path.join("blk00003.dat");
        crate::make_fifo(&fifo);
        let mut files = BlockFiles::new();
        assert_eq!(files.add(path).unwrap(), [0]);
        assert_eq!(files.skipped().len(), 3);
        assert!(matches!(files.add(&fifo), Err(FileError::NotRegular { .. })));
        assert!(matches!(open_regular(&fifo), Err(FileError::NotRegular { .. })));
    }

    /// A file that another one has replaced is opened again, with the key of now.
    #[test]
    fn a_file_that_is_added_again_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blk00000.dat");
        std::fs::write(&path, [1; 4]).unwrap();
        let mut files = BlockFiles::new();
        files.add(directory.path()).unwrap();
        let position = Position {
            file: 0,
            length: 4,
            offset: 0,
        };
        assert_eq!(files.read(&position).unwrap(), [1; 4]);
        std::fs::write(directory.path().join("new"), [2; 4]).unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        std::fs::write(directory.path().join("xor.dat"), [1; 8]).unwrap();
        assert_eq!(files.add(directory.path()).unwrap(), [0]);
        assert_eq!(files.read(&position).unwrap(), [3; 4]);
    }
}

//! Appending blocks to block files in Bitcoin Core's format.

use crate::disk::{Disk, DiskFile, Open, SystemDisk};
use crate::source::block_file_number;
use crate::{BlockFiles, FileError, Position, RECORD_HEAD};
use blockmill_block::network::Magic;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest block file in bytes (Core's `MAX_BLOCKFILE_SIZE`).
const FILE_SIZE_MAX: u64 = 128 << 20;

/// Appends records to the `blk*.dat` files of a directory.
#[derive(Debug)]
pub struct BlockFileWriter {
    directory: PathBuf,
    magic: Magic,
    /// A file is no larger, but for a single block.
    size_max: u64,
    number: u32,
    disk: Arc<dyn Disk>,
    file: Option<(Box<dyn DiskFile>, u64)>,
    /// Whether a record was appended since the last sync.
    unsynced: bool,
    /// Whether a file was created since then.
    unnamed: bool,
}

fn file_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("blk{number:05}.dat"))
}

/// The numbers of a directory's files; none where there is no directory. The first ones may have
/// been removed.
fn file_numbers(directory: &Path) -> Result<Vec<u32>, FileError> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(FileError::io(directory))?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let path = entry.map_err(FileError::io(directory))?.path();
        let number = block_file_number(&path).and_then(|number| u32::try_from(number).ok());
        // Others' names are not this writer's.
        numbers.extend(number.filter(|&number| file_path(directory, number) == path));
    }
    Ok(numbers)
}

/// The number of the last file of a directory, and its path. None if there is no file.
fn last_file(directory: &Path) -> Result<Option<(u32, PathBuf)>, FileError> {
    let last = file_numbers(directory)?.into_iter().max();
    Ok(last.map(|number| (number, file_path(directory, number))))
}

/// Whether a directory has block files, empty ones too.
///
/// # Errors
/// [`FileError::Io`].
pub fn has_block_files(directory: &Path) -> Result<bool, FileError> {
    Ok(!file_numbers(directory)?.is_empty())
}

/// Whether a directory has a block file that is not empty.
///
/// # Errors
/// [`FileError::Io`].
pub fn has_blocks(directory: &Path) -> Result<bool, FileError> {
    for number in file_numbers(directory)? {
        let path = file_path(directory, number);
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(metadata) if metadata.len() == 0 => {}
            found => return found.map(|_| true).map_err(FileError::io(&path)),
        }
    }
    Ok(false)
}

/// Makes durable what an earlier process appended to the files of `directory`: it may have been
/// killed before it synced. Does nothing where there is no file.
///
/// # Errors
/// [`FileError::Io`].
pub fn sync_appended(disk: &dyn Disk, directory: &Path) -> Result<(), FileError> {
    // A writer goes on to the next file when all before it is durable.
    let Some((_, path)) = last_file(directory)? else {
        return Ok(());
    };
    let synced = disk.open(&path, Open::Keep).and_then(|file| file.sync_data());
    synced
        .and_then(|()| disk.sync_name(&path))
        .map_err(FileError::io(&path))
}

impl BlockFileWriter {
    /// Opens `directory` for appending, and creates it if it is missing. `end` is the number of its
    /// last file and the offset of the end of that file's last whole record. The remains of an
    /// unfinished write after that offset are cut off.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn open(directory: &Path, magic: Magic, end: Option<(u32, u64)>) -> Result<Self, FileError> {
        Self::open_on(Arc::new(SystemDisk), directory, magic, end)
    }

    /// As [`BlockFileWriter::open`], on the given disk.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        magic: Magic,
        end: Option<(u32, u64)>,
    ) -> Result<Self, FileError> {
        disk.create_directories(directory)
            .and_then(|()| disk.sync_name(directory))
            .map_err(FileError::io(directory))?;
        let mut writer = Self {
            directory: directory.to_owned(),
            magic,
            size_max: FILE_SIZE_MAX,
            number: 0,
            disk,
            file: None,
            unsynced: false,
            unnamed: false,
        };
        if let Some((number, length)) = end {
            let path = file_path(directory, number);
            let file = writer.disk.open(&path, Open::Keep).map_err(FileError::io(&path))?;
            file.set_length(length).map_err(FileError::io(&path))?;
            writer.number = number;
            writer.file = Some((file, length));
            // By a process that may have been killed before it synced them.
            (writer.unsynced, writer.unnamed) = (true, true);
        }
        Ok(writer)
    }

    /// Opens `directory` for appending after the last whole record of its last file. `files` must
    /// have that file.
    ///
    /// # Errors
    /// Any [`FileError`].
    pub fn resume(disk: Arc<dyn Disk>, directory: &Path, magic: Magic, files: &BlockFiles) -> Result<Self, FileError> {
        let Some((number, path)) = last_file(directory)? else {
            return Self::open_on(disk, directory, magic, None);
        };
        let scan = files.scan(files.number_of(&path)?, magic)?;
        let end = scan
            .records
            .last()
            .map_or(0, |record| record.position.offset + u64::from(record.position.length));
        Self::open_on(disk, directory, magic, Some((number, end)))
    }

    /// The same writer, with files of at most so many bytes, but for a single block.
    #[must_use]
    pub fn with_file_size(self, size_max: u64) -> Self {
        Self { size_max, ..self }
    }

    /// Appends a block, and adds its file to `files` if the file is new there. The block is not
    /// synced.
    ///
    /// # Errors
    /// [`FileError::Io`]. Earlier records stay whole, and a later call appends to them.
    pub fn append(&mut self, block: &[u8], files: &mut BlockFiles) -> Result<Position, FileError> {
        let record_length = RECORD_HEAD + block.len() as u64;
        if self
            .file
            .as_ref()
            .is_some_and(|(_, length)| length + record_length > self.size_max)
        {
            // A file is durable before the next one begins: `sync_appended` relies on that.
            self.sync()?;
            self.file = None;
            self.number += 1;
        }
        let path = file_path(&self.directory, self.number);
        if self.file.is_none() {
            // Never an existing file, whose blocks would be overwritten.
            let file = self.disk.open(&path, Open::New).map_err(FileError::io(&path))?;
            self.file = Some((file, 0));
            self.unnamed = true;
        }
        let Some((file, length)) = &mut self.file else {
            unreachable!("a file was opened above");
        };
        let mut record = Vec::with_capacity(record_length as usize);
        record.extend_from_slice(&self.magic.0);
        record.extend_from_slice(&(block.len() as u32).to_le_bytes());
        record.extend_from_slice(block);
        if let Err(error) = file.write_all_at(&record, *length) {
            // Cut off the part of the record that may have been written.
            file.set_length(*length).map_err(FileError::io(&path))?;
            return Err(FileError::Io { path, error });
        }
        let offset = *length + RECORD_HEAD;
        *length += record_length;
        self.unsynced = true;
        files.add(&path)?;
        Ok(Position {
            file: files.number_of(&path)?,
            length: block.len() as u32,
            offset,
        })
    }

    /// Makes all appended blocks durable.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn sync(&mut self) -> Result<(), FileError> {
        let path = file_path(&self.directory, self.number);
        if let (Some((file, _)), true) = (&mut self.file, self.unsynced) {
            file.sync_data().map_err(FileError::io(&path))?;
            self.unsynced = false;
        }
        if self.unnamed {
            self.disk.sync_name(&path).map_err(FileError::io(&path))?;
            self.unnamed = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn appends_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let magic = Magic([1, 2, 3, 4]);
        let mut files = BlockFiles::new();
        let mut writer = BlockFileWriter::open(directory.path(), magic, None).unwrap();
        let first = writer.append(&[7; 100], &mut files).unwrap();
        let second = writer.append(&[8; 90], &mut files).unwrap();
        assert_eq!((first.offset, second.offset), (8, 116));
        assert_eq!(files.read(&first).unwrap(), [7; 100]);
        assert_eq!(files.read(&second).unwrap(), [8; 90]);
        writer.sync().unwrap();
        drop(writer);
        // Remains after the last whole record are cut off.
        let path = directory.path().join("blk00000.dat");
        std::fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(&[1, 2])
            .unwrap();
        let mut writer = BlockFileWriter::open(directory.path(), magic, Some((0, 206))).unwrap();
        let third = writer.append(&[9; 80], &mut files).unwrap();
        assert_eq!(third.offset, 214);
        assert_eq!(files.len(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 294);
    }
}

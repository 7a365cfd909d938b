//! The file of the log, preallocated and cached before a run begins.
//!
//! Growing a file takes most of the time of a write, and the time varies, which would hide the
//! lock. So all runs write to one file, over the records of the previous run. Each log begins one
//! byte further, so that an old record cannot pass for a new one.

use crate::connect::temporary_directory;
use crate::error::BenchError;
use blockmill_blockfiles::disk::DiskFile;
use blockmill_coins::UndoLog;
use blockmill_coins::undo_log::LockKind;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use tempfile::TempDir;

/// Bytes of zeros that are written at once.
const ZEROS: usize = 1 << 20;

/// A file in a temporary directory of its own, with `bytes` bytes for a log.
pub(super) struct Preallocated {
    _directory: TempDir,
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Offset of the last log.
    begin: u64,
}

impl Preallocated {
    /// Makes the file.
    pub(super) fn make(bytes: u64) -> Result<Self, BenchError> {
        let directory = temporary_directory()?;
        let path = directory.path().join("undo.dat");
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(BenchError::file(&path))?;
        fill(&file, bytes).map_err(BenchError::file(&path))?;
        Ok(Self {
            _directory: directory,
            path,
            file,
            bytes,
            begin: 0,
        })
    }

    /// Largest length of a log.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An empty log in the file, and its offset.
    pub(super) fn log<K: LockKind>(&mut self) -> Result<(UndoLog<K>, u64), BenchError> {
        self.begin += 1;
        let file = self.file.try_clone().map_err(BenchError::file(&self.path))?;
        let log = UndoLog::with_file(&self.path, Box::new(EmptyFile(file)), self.begin)?;
        Ok((log, self.begin))
    }
}

/// Writes zeros to the first `bytes` bytes, and syncs them.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    for begin in (0..bytes).step_by(ZEROS) {
        let length = (bytes - begin).min(ZEROS as u64) as usize;
        file.write_all_at(&zeros[..length], begin)?;
    }
    file.sync_all()
}

/// A file that reports a length of 0.
struct EmptyFile(File);

impl DiskFile for EmptyFile {
    fn length(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_coins::undo_log::SectionLock;

    #[test]
    fn each_log_begins_empty_and_further() {
        let bytes = ZEROS as u64 + 10;
        let mut file = Preallocated::make(bytes).unwrap();
        assert_eq!(std::fs::read(&file.path).unwrap(), vec![0; bytes as usize]);
        for expected in 1..=3 {
            let (log, begin) = file.log::<SectionLock>().unwrap();
            assert_eq!((begin, log.bytes()), (expected, expected));
            let position = log.append_record(&[7; 100]).unwrap();
            assert_eq!(position.offset, begin);
            log.sync().unwrap();
            assert_eq!(log.read_record(&position).unwrap(), [7; 100]);
        }
        let found = std::fs::read(&file.path).unwrap();
        assert_eq!(found.len() as u64, bytes);
        assert!(found[1..103].iter().all(|&byte| byte == 7) && found[103..].iter().all(|&byte| byte == 0));
    }
}

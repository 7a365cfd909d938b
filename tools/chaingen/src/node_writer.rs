//! Block files as a node writes them, one block after the other, while others read them: allocated
//! ahead with zeros, in pieces, with a key, one file after the other, the oldest ones removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are written by one call.
const PIECE: usize = 4096;

/// How a node writes.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// The first bytes of each record.
    pub magic: [u8; 4],
    /// What the bytes of the files are obfuscated with.
    pub key: [u8; 8],
    /// Bytes that are allocated at a time; Core allocates 16 MiB.
    pub chunk: u64,
    /// A file of so many bytes gets no further block; Core's files have 128 MiB.
    pub file_bytes: u64,
}

/// Writes block files as a node does.
#[derive(Debug)]
pub struct NodeWriter {
    folder: PathBuf,
    settings: NodeSettings,
    number: u32,
    /// The oldest file that is there.
    oldest: u32,
    file: File,
    end: u64,
    allocated: u64,
    /// For each block the number of its file, and where it begins there.
    begun: Vec<(u32, u64)>,
}

impl NodeWriter {
    /// Begins anew in a folder, which is emptied if it is there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(folder: &Path, settings: NodeSettings) -> io::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        fs::write(folder.join("xor.dat"), settings.key)?;
        Ok(Self {
            file: create(folder, 0)?,
            folder: folder.to_owned(),
            settings,
            number: 0,
            oldest: 0,
            end: 0,
            allocated: 0,
            begun: Vec::new(),
        })
    }

    /// Appends a block.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&mut self, block: &[u8]) -> io::Result<()> {
        let length = block.len() as u64 + 8;
        if self.end > 0 && self.end + length > self.settings.file_bytes {
            // What was allocated and is not used goes.
            self.file.set_len(self.end)?;
            self.number += 1;
            self.file = create(&self.folder, self.number)?;
            (self.end, self.allocated) = (0, self.file.metadata()?.len());
        }
        self.begun.push((self.number, self.end));
        while self.allocated < self.end + length {
            self.allocated += self.settings.chunk;
            self.file.set_len(self.allocated)?;
        }
        let mut record = self.settings.magic.to_vec();
        record.extend((block.len() as u32).to_le_bytes());
        record.extend(block);
        for (at, byte) in (self.end as usize..).zip(&mut record) {
            *byte ^= self.settings.key[at % 8];
        }
        let (head, body) = record.split_at(8);
        self.file.write_all_at(head, self.end)?;
        self.end += 8;
        for piece in body.chunks(PIECE) {
            self.file.write_all_at(piece, self.end)?;
            self.end += piece.len() as u64;
        }
        Ok(())
    }

    /// Removes the oldest files, but for the last `kept` ones.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn prune(&mut self, kept: u32) -> io::Result<()> {
        while self.oldest + kept <= self.number {
            fs::remove_file(path(&self.folder, self.oldest))?;
            self.oldest += 1;
        }
        Ok(())
    }

    /// Stops, as by a kill, and begins again: the last file goes on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn restart(&mut self) -> io::Result<()> {
        let file = path(&self.folder, self.number);
        self.file = OpenOptions::new().write(true).open(file)?;
        Ok(())
    }

    /// As [`restart`](Self::restart), and the last `count` blocks are forgotten, since they were
    /// not in the node's index yet: the next ones are written over them.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn forget(&mut self, count: usize) -> io::Result<()> {
        let left = self.begun.len().saturating_sub(count);
        if let Some(&(number, end)) = self.begun.get(left) {
            (self.number, self.end) = (number, end);
            self.begun.truncate(left);
        }
        self.restart()?;
        self.allocated = self.file.metadata()?.len();
        Ok(())
    }
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("blk{number:05}.dat"))
}

fn create(folder: &Path, number: u32) -> io::Result<File> {
    // What was forgotten may lie there.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path(folder, number))
}

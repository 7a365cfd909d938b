//! A table in a folder: a file for each range of heights, and a manifest.
//!
//! An export that goes on with a folder keeps the files whose last block is still on the chain, and
//! makes the others anew: a last one that is not full, those above the fork of a reorganisation,
//! those that are gone. What it leaves is what an export into a new folder leaves.

use crate::arguments::Force;
use crate::export::flat::{Form, Piece, Writer};
use crate::export::kept::{self, DEPTH_MAX, Kept};
use crate::export::manifest::{Description, Manifest, NAME, Partition, rows_of};
use crate::export::metadata::Origin;
use crate::export::table::{Written, WrittenFiles};
use crate::failure::Failure;
use blockmill_blockfiles::FileError;
use blockmill_chain::ChainBlocks;
use blockmill_tables::batch::Table;
use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What becomes of a table that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is refused.
    Refuse,
    /// It is removed.
    Replace,
    /// It goes on.
    Append,
}

/// The table of a folder.
#[derive(Debug)]
pub(crate) struct FolderTable {
    pub(crate) folder: PathBuf,
    pub(crate) table: &'static Table,
    pub(crate) form: Form,
    pub(crate) description: Description,
    pub(crate) existing: Existing,
}

/// The partitions of a table, one of which is being written.
pub(crate) struct Partitions<'a> {
    of: &'a FolderTable,
    blocks: &'a ChainBlocks,
    origin: &'a Origin,
    manifest: Manifest,
    /// Heights that the table is to have.
    heights: RangeInclusive<u32>,
    /// The first heights of partitions that need not be written.
    kept: HashSet<u32>,
    open: Option<OpenPartition>,
    /// The number of those that were written.
    made: u64,
    /// Keeps other exports out.
    _lock: File,
}

struct OpenPartition {
    writer: Writer,
    rows: u64,
}

/// Keeps other exports out of a folder, where its file system has locks.
fn lock(folder: &Path) -> Result<File, Failure> {
    let file = File::open(folder).map_err(Failure::file(folder))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(FileError::InUse {
            path: folder.to_owned(),
        }
        .into()),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::file(path)(error)),
        _ => Ok(()),
    }
}

impl FolderTable {
    /// The table that is there, which this one goes on with or replaces.
    pub(crate) fn read(&self) -> Result<Option<Manifest>, Failure> {
        let found = Manifest::read(&self.folder)?;
        match (&found, self.existing) {
            (Some(_), Existing::Refuse) => {
                let path = self.folder.join(NAME);
                return Err(Failure::Usage(format!(
                    "{}: there is a table already: --append goes on with it, --force replaces it",
                    path.display()
                )));
            }
            (Some(found), Existing::Append) => found.check(&self.description, &self.folder.join(NAME))?,
            _ => {}
        }
        Ok(found)
    }

    fn name_at(&self, height: u32) -> String {
        self.description.name_at(height, self.form.ending())
    }

    fn path_of(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Whether the file of a partition is there, as far as that shows without reading it.
    fn has_file(&self, partition: &Partition) -> bool {
        let found = std::fs::metadata(self.path_of(partition.file()));
        found.is_ok_and(|found| found.is_file() && Some(found.len()) == partition.bytes)
    }
}

impl<'a> Partitions<'a> {
    /// Begins or goes on with the table of a folder, which is to have these heights of a chain.
    pub(crate) fn open(
        of: &'a FolderTable,
        blocks: &'a ChainBlocks,
        origin: &'a Origin,
        heights: RangeInclusive<u32>,
    ) -> Result<Self, Failure> {
        std::fs::create_dir_all(&of.folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                Failure::Usage(format!("--out {}: {error}", of.folder.display()))
            }
            _ => Failure::file(&of.folder)(error),
        })?;
        let lock = lock(&of.folder)?;
        let found = of.read()?;
        let mut partitions = Self {
            of,
            blocks,
            origin,
            manifest: Manifest::new(of.description.clone()),
            heights,
            kept: HashSet::new(),
            open: None,
            made: 0,
            _lock: lock,
        };
        match found {
            Some(found) if of.existing == Existing::Append => partitions.go_on_with(found)?,
            Some(found) => {
                // If this is killed, the manifest still names what is to be removed.
                for partition in &found.partitions {
                    remove(&of.path_of(partition.file()))?;
                }
            }
            None if of.existing != Existing::Replace => partitions.check_free()?,
            None => {}
        }
        partitions.save()?;
        Ok(partitions)
    }

    /// Writes the manifest.
    fn save(&self) -> Result<(), Failure> {
        self.manifest.write(&self.of.folder)
    }

    /// What the rows from a height on rest on, where that is known.
    pub(crate) fn state_at(&self, height: u32) -> Option<Vec<u8>> {
        self.manifest.state_at(height)
    }

    /// Keeps what is still true of a table.
    fn go_on_with(&mut self, found: Manifest) -> Result<(), Failure> {
        let last = *self.heights.end();
        let table = kept::Table {
            path: &self.of.path_of(NAME),
            anew: "--force makes the table anew",
        };
        let kept = Kept::of(found, &table, self.blocks, last)?;
        let (there, damaged): (Vec<_>, Vec<_>) = kept
            .on_chain
            .into_iter()
            .partition(|partition| self.of.has_file(partition));
        for partition in kept.off_chain.iter().chain(&damaged) {
            remove(&self.of.path_of(partition.file()))?;
        }
        for partition in there {
            if self.of.description.partition_at(partition.from, last) == (partition.from..=partition.to) {
                self.kept.insert(partition.from);
            }
            // One that is not full stays until it is replaced.
            self.manifest.put(partition);
        }
        Ok(())
    }

    /// Refuses to write over files of which there is no manifest.
    fn check_free(&self) -> Result<(), Failure> {
        for heights in self.ranges() {
            let path = self.of.path_of(&self.of.name_at(*heights.start()));
            if std::fs::symlink_metadata(&path).is_ok() {
                return Err(FileError::Exists { path }.into());
            }
        }
        Ok(())
    }

    /// The heights of each partition, in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u32>> + use<'a> {
        let (description, last) = (&self.of.description, *self.heights.end());
        let mut next = Some(*self.heights.start());
        std::iter::from_fn(move || {
            let range = description.partition_at(next?, last);
            next = range.end().checked_add(1).filter(|next| *next <= last);
            Some(range)
        })
    }

    /// Whether a partition is to be written.
    pub(crate) fn wants(&self, heights: &RangeInclusive<u32>) -> bool {
        !self.kept.contains(heights.start())
    }

    /// The partition that is being written, or the next one.
    fn take_open(&mut self, heights: &RangeInclusive<u32>) -> Result<OpenPartition, Failure> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let FolderTable { table, form, .. } = self.of;
        let (from, to) = heights.clone().into_inner();
        let metadata = self.origin.of_blocks(from, to, self.blocks.hash(to)?);
        let path = self.of.path_of(&self.of.name_at(from));
        // What has the name is a form of this partition that was not full. It is not named while
        // that changes.
        if self.manifest.take(from) {
            self.save()?;
        }
        let writer = Writer::open(table, *form, &path, Force::ALWAYS, &metadata)?;
        Ok(OpenPartition { writer, rows: 0 })
    }

    /// Appends rows of a partition. They come in the order of heights.
    pub(crate) fn add(&mut self, heights: &RangeInclusive<u32>, piece: Piece, rows: u64) -> Result<(), Failure> {
        let open = self.take_open(heights)?;
        let open = self.open.insert(open);
        open.rows += rows;
        open.writer.add(piece)
    }

    /// Gives a partition its name, and names it in the manifest, with what the rows above rest on.
    /// A partition may have no rows.
    pub(crate) fn end(&mut self, heights: &RangeInclusive<u32>, state: Option<Vec<u8>>) -> Result<(), Failure> {
        let open = self.take_open(heights)?;
        let (from, to) = heights.clone().into_inner();
        let hash = self.blocks.hash(to)?;
        self.manifest.put(Partition {
            file: Some(self.of.name_at(from)),
            from,
            to,
            hash: hash.to_string(),
            rows: open.rows,
            bytes: Some(open.writer.end()?.complete()?.unwrap_or_default()),
            state: state.map(|state| self.manifest.sealed(&hash.to_string(), state)),
        });
        self.manifest.forget_states(DEPTH_MAX);
        self.made += 1;
        self.save()
    }

    /// Ends the table. Returns what the folder has now.
    pub(crate) fn written(self) -> Written {
        let partitions = &self.manifest.partitions;
        Written {
            row: self.of.table.row,
            rows: rows_of(partitions),
            out: self.of.folder.clone(),
            bytes: Some(partitions.iter().filter_map(|partition| partition.bytes).sum()),
            added: None,
            files: Some(WrittenFiles {
                all: partitions.len() as u64,
                made: self.made,
            }),
        }
    }
}

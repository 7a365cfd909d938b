//! A table in a folder: a file for each range of heights, and a manifest.
//!
//! The manifest names a file before the file gets its name: a kill, a full disk or a power loss in
//! between leaves a partition that is missing, which the next call makes, and never a file that no
//! later call knows. So a file that no manifest names is somebody else's, and is refused by name.
//! Until then files have names that readers skip; what a killed call left of them is removed.
//!
//! An export that goes on with a folder keeps the files whose last block is still on the chain, and
//! makes the others anew: a last one that is not full, those above the fork of a reorganisation,
//! those that are gone. What it leaves is what an export into a new folder leaves.

use crate::export::flat::{Form, Piece, Writer};
use crate::export::kept::{DEPTH_MAX, Kept};
use crate::export::manifest::{Description, Manifest, NAME, Partition, rows_of};
use crate::export::metadata::Origin;
use crate::export::table::{Written, WrittenFiles};
use crate::export::target::Target;
use crate::failure::Failure;
use blockmill_blockfiles::{Disk, FileError, NewFile, SystemDisk};
use blockmill_chain::ChainBlocks;
use blockmill_tables::batch::Table;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
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
    pub(crate) manifest: Manifest,
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

/// Removes files of a table from its folder, durably: a manifest that does not name them may come
/// next. Nothing is removed where one is no regular file.
fn remove<'a>(folder: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
    let mut there = Vec::new();
    for path in names.into_iter().map(|name| folder.join(name)) {
        match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::file(path)(error)),
            Ok(found) if found.is_file() => there.push(path),
            Ok(_) => return Err(FileError::NotRegular { path }.into()),
        }
    }
    for path in &there {
        std::fs::remove_file(path).map_err(Failure::file(path))?;
    }
    match there.is_empty() {
        true => Ok(()),
        false => SystemDisk.sync_directory(folder).map_err(Failure::file(folder)),
    }
}

/// Whether a name is one of a partition that was not complete.
fn is_temporary(name: &str) -> bool {
    let rest = name.strip_prefix('_').and_then(|rest| rest.strip_suffix(".incomplete"));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
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
            (Some(found), Existing::Append) => {
                let path = self.folder.join(NAME);
                if let Some(writer) = found.unfinished_by_other() {
                    return Err(Failure::Usage(format!(
                        "{}: {writer} has not finished this table: --force replaces it",
                        path.display()
                    )));
                }
                found.check(&self.description, &path)?;
            }
            _ => {}
        }
        self.check_names(found.as_ref())?;
        Ok(found)
    }

    /// Refuses files that the manifest does not name: readers of the folder would count them. Names
    /// that begin with `_` or `.` are no data.
    fn check_names(&self, found: Option<&Manifest>) -> Result<(), Failure> {
        let named: HashSet<&str> = found.map(Manifest::files).into_iter().flatten().collect();
        for name in self.names()? {
            let is_known = |name: &str| name.starts_with(['_', '.']) || named.contains(name);
            if !name.to_str().is_some_and(is_known) {
                return Err(Failure::Usage(format!(
                    "{}: no manifest names this, and readers of the folder would take it for rows: remove it, or \
                     choose another folder",
                    self.folder.join(name).display()
                )));
            }
        }
        Ok(())
    }

    /// All names in the folder, if it is there.
    fn names(&self) -> Result<Vec<OsString>, Failure> {
        let entries = match std::fs::read_dir(&self.folder) {
            // What is no folder is refused where one would be created.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(Failure::file(&self.folder))?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>();
        names.map_err(Failure::file(&self.folder))
    }

    /// Removes what was left of partitions that were not complete.
    fn remove_temporary(&self) -> Result<(), Failure> {
        let names = self.names()?;
        let names = names.iter().filter_map(|name| name.to_str());
        remove(&self.folder, names.filter(|name| is_temporary(name)))
    }

    fn name_at(&self, height: u32) -> String {
        self.description.name_at(height, self.form.ending())
    }

    /// Whether the file of a partition is there, as far as that shows without reading it.
    fn has_file(&self, partition: &Partition) -> bool {
        let found = std::fs::metadata(self.folder.join(partition.file()));
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
        of.remove_temporary()?;
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
            Some(mut found) => {
                // If this is killed, the manifest still names what is to be removed.
                found.set_unfinished(true);
                found.write(&of.folder)?;
                remove(&of.folder, found.files())?;
            }
            None => {}
        }
        partitions.manifest.set_unfinished(true);
        partitions.save()?;
        Ok(partitions)
    }

    /// Writes the manifest.
    fn save(&self) -> Result<(), Failure> {
        self.manifest.write(&self.of.folder)
    }

    /// Keeps what is still true of a table.
    fn go_on_with(&mut self, found: Manifest) -> Result<(), Failure> {
        let last = *self.heights.end();
        let path = self.of.folder.join(NAME);
        let kept = Kept::of(found, (&path, "--force makes the table anew"), self.blocks, last)?;
        let (there, damaged): (Vec<_>, Vec<_>) = kept
            .on_chain
            .into_iter()
            .partition(|partition| self.of.has_file(partition));
        // If this is killed, the manifest still names them.
        let gone = kept.off_chain.iter().chain(&damaged);
        remove(&self.of.folder, gone.map(Partition::file))?;
        for partition in there {
            if self.of.description.partition_at(partition.from, last) == (partition.from..=partition.to) {
                self.kept.insert(partition.from);
            }
            // One that is not full stays until it is replaced.
            self.manifest.put(partition);
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
        let path = self.of.folder.join(self.of.name_at(from));
        // What is replaced is this partition when it was not full.
        let file = NewFile::hidden(&path, self.manifest.has(from))?;
        let writer = Writer::open(table, *form, Target::File(file), &metadata)?;
        Ok(OpenPartition { writer, rows: 0 })
    }

    /// Appends rows of a partition. They come in the order of heights.
    pub(crate) fn add(&mut self, heights: &RangeInclusive<u32>, piece: Piece, rows: u64) -> Result<(), Failure> {
        let open = self.take_open(heights)?;
        let open = self.open.insert(open);
        open.rows += rows;
        open.writer.add(piece)
    }

    /// Names a partition in the manifest, with what the rows above rest on, and gives its file the
    /// name. A partition may have no rows.
    pub(crate) fn end(&mut self, heights: &RangeInclusive<u32>, state: Option<Vec<u8>>) -> Result<(), Failure> {
        let open = self.take_open(heights)?;
        let (from, to) = heights.clone().into_inner();
        let hash = self.blocks.hash(to)?;
        let (name, target) = (self.of.name_at(from), open.writer.end()?);
        if self.manifest.has(from) {
            // It may have the length of the new one, as which the manifest would name it.
            remove(&self.of.folder, [&*name])?;
        }
        self.manifest.put(Partition {
            file: Some(name),
            from,
            to,
            hash: hash.to_string(),
            rows: open.rows,
            bytes: target.length()?,
            state: state.map(|state| self.manifest.sealed(&hash.to_string(), state)),
        });
        self.manifest.forget_states(DEPTH_MAX);
        self.made += 1;
        self.save()?;
        target.complete()?;
        Ok(())
    }

    /// Ends the table. Returns what the folder has now.
    pub(crate) fn written(mut self) -> Result<Written, Failure> {
        // What came meanwhile, where the file system has no locks, say.
        self.of.check_names(Some(&self.manifest))?;
        self.manifest.set_unfinished(false);
        self.save()?;
        let partitions = &self.manifest.partitions;
        Ok(Written {
            row: self.of.table.row,
            rows: rows_of(partitions),
            out: self.of.folder.clone(),
            bytes: Some(partitions.iter().filter_map(|partition| partition.bytes).sum()),
            added: None,
            files: Some(WrittenFiles {
                all: partitions.len() as u64,
                made: self.made,
            }),
        })
    }
}

//! The manifest of a table that goes on: what the table is, and its partitions, which are ranges of
//! heights.
//!
//! That of a directory has a file for each partition. It is written before a file gets its name, so
//! a file that it does not name is none of the table's; one that it names may be missing, where an
//! export was killed in between. `blockmill.distributed.export` of the Python package writes the
//! same form (`bindings/python/python/blockmill/_table_folder.py`). That of a table in a database
//! lies beside the table ([`database`](super::database)).

use crate::arguments::export::TableFormat;
use crate::export::flat::Form;
use crate::failure::Failure;
use blockmill_block::hash::sha256;
use blockmill_block::{BlockHash, Network, hex};
use blockmill_blockfiles::NewFile;
use blockmill_tables::batch::{Ids, Table};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The name of the manifest. Programs that read all files of a directory skip it: of `pyarrow`,
/// Spark and others, names that begin with `_` or `.` are no data.
pub(crate) const NAME: &str = "_blockmill.json";

/// What a manifest calls this program, while it writes.
const WRITER: &str = "blockmill export";

/// The form of the manifest that is written here.
const VERSION: u32 = 2;

/// Bytes of a manifest at most: of about a million partitions.
pub(crate) const BYTES_MAX: u64 = 256 << 20;

/// Bytes of the checksum of a state.
const SUM_BYTES: usize = 8;

/// Digits of a height in a name. With leading zeros names sort as their heights do.
const DIGITS: usize = 7;

/// Where a manifest is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// In the folder of the partitions.
    Folder,
    /// In the database of the table.
    #[cfg(feature = "tables")]
    Database,
}

/// What a table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    table: String,
    columns: Vec<String>,
    format: String,
    ids: String,
    network: String,
    /// Of the files of a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks_per_partition: Option<u32>,
    /// Height of the first block of the table.
    from: u32,
}

/// Heights whose rows are complete.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Partition {
    /// The file of a folder that has the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Of its last block.
    pub(crate) hash: String,
    pub(crate) rows: u64,
    /// Length of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// What the rows above it rest on, where they rest on all blocks below: bytes and a checksum,
    /// in hex. Older partitions have none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
}

/// What there is of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    #[serde(flatten)]
    description: Description,
    /// The program that has not finished the files of the directory: it is running, or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<String>,
    /// By height.
    pub(crate) partitions: Vec<Partition>,
    /// Of all the rest, in hex. Manifests of earlier versions have none. In a database it has a
    /// column of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

fn word_of(format: TableFormat) -> String {
    let word = format.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

impl Description {
    pub(crate) fn new(table: &Table, form: Form, network: Option<Network>, size: Option<u32>, from: u32) -> Self {
        Self {
            table: table.name.to_owned(),
            columns: table.columns.iter().map(|column| column.name.to_owned()).collect(),
            format: word_of(form.format),
            ids: match form.ids {
                Ids::Hex => "hex".to_owned(),
                Ids::Binary => "binary".to_owned(),
            },
            network: network.map(|network| network.to_string()).unwrap_or_default(),
            blocks_per_partition: size,
            from,
        }
    }

    /// The heights of the partition with a height, up to `last`.
    pub(crate) fn partition_at(&self, height: u32, last: u32) -> RangeInclusive<u32> {
        let (begin, end) = self.aligned(height).into_inner();
        begin.max(self.from)..=end.min(last)
    }

    /// The heights that a name stands for, of which a table may lack the first and the last.
    fn aligned(&self, height: u32) -> RangeInclusive<u32> {
        let size = self.blocks_per_partition.unwrap_or(1).max(1);
        let begin = height - height % size;
        begin..=begin.saturating_add(size - 1)
    }

    /// The name of the file with a height.
    pub(crate) fn name_at(&self, height: u32, ending: &str) -> String {
        let (begin, end) = self.aligned(height).into_inner();
        format!("{begin:0DIGITS$}-{end:0DIGITS$}.{ending}")
    }

    /// Says how a table that is there differs from this one, which goes on with it.
    fn difference(&self, found: &Self) -> Option<String> {
        let text = |name: &str, found: &str, own: &str| {
            (found != own).then(|| format!("the {name} of the table there is {found}, not {own}"))
        };
        let number = |name: &str, found: Option<u32>, own: Option<u32>| {
            let [found, own] = [found, own].map(|number| number.unwrap_or_default().to_string());
            text(name, &found, &own)
        };
        let of_ids = || {
            let option = match found.ids == "binary" {
                true => "with --binary",
                false => "without --binary",
            };
            text("form of ids", &found.ids, &self.ids).map(|text| format!("{text}: go on {option}"))
        };
        text("name", &found.table, &self.table)
            .or_else(|| text("format", &found.format, &self.format))
            .or_else(of_ids)
            // It is known only once the blocks are.
            .or_else(|| text("network", &found.network, &self.network).filter(|_| !self.network.is_empty()))
            .or_else(|| {
                let (found, own) = (found.blocks_per_partition, self.blocks_per_partition);
                number("number of blocks of a partition", found, own)
            })
            .or_else(|| number("first height", Some(found.from), Some(self.from)))
            .or_else(|| {
                let is_other = found.columns != self.columns;
                is_other.then(|| "the table there has the columns of another version: make it anew".to_owned())
            })
    }
}

impl Partition {
    /// The name of its file, which the manifest of a folder has of each.
    pub(crate) fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    /// Whether it is a part of a folder.
    fn is_file(&self) -> bool {
        self.file.is_some() && self.bytes.is_some()
    }
}

impl Manifest {
    /// That of a table without partitions.
    pub(crate) fn new(description: Description) -> Self {
        Self {
            version: VERSION,
            description,
            unfinished: None,
            partitions: Vec::new(),
            checksum: None,
        }
    }

    /// That of a folder, if there is one.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join(NAME);
        let bytes = match read_bytes(&path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(Failure::file(path)(error)),
        };
        let damaged = |why: &str| {
            let advice = "remove the folder to begin anew";
            Failure::Corrupt(format!("{}: no manifest of a table: {why}; {advice}", path.display()))
        };
        let mut manifest = Self::of_json(&bytes, Keeper::Folder).map_err(|why| damaged(&why))?;
        if let Some(written) = manifest.checksum.take()
            && written != hex::encode(&checksum(&manifest.to_json()?))
        {
            return Err(damaged("its checksum is not that of what stands in it"));
        }
        Ok(Some(manifest))
    }

    /// That of some JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of_json(json: &[u8], keeper: Keeper) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        manifest.fault(keeper).map_or(Ok(manifest), Err)
    }

    /// What is wrong with a manifest. Its names are those of the heights, so they lead nowhere
    /// else.
    fn fault(&self, keeper: Keeper) -> Option<String> {
        let description = &self.description;
        if self.version != VERSION {
            return Some(format!("its version is {}, not {VERSION}", self.version));
        }
        if description.blocks_per_partition == Some(0) {
            return Some("its partitions have no blocks".to_owned());
        }
        if description.blocks_per_partition.is_some() != (keeper == Keeper::Folder) {
            return Some("the number of blocks of a partition is for folders, which have it".to_owned());
        }
        let Some(ending) = self.ending() else {
            return Some(format!("{:?} is no format", description.format));
        };
        let mut rows = self.partitions.iter().map(|partition| partition.rows);
        if rows.try_fold(0, u64::checked_add).is_none() {
            return Some("no table has so many rows".to_owned());
        }
        let mut least = description.from;
        for partition in &self.partitions {
            let Partition { from, to, .. } = partition;
            let is_sound = match keeper {
                Keeper::Folder => {
                    let wanted = description.partition_at(*from, u32::MAX);
                    *from >= least
                        && wanted.start() == from
                        && wanted.contains(to)
                        && partition.is_file()
                        && partition.file() == description.name_at(*from, ending)
                }
                #[cfg(feature = "tables")]
                Keeper::Database => *from == least && from <= to && partition.file.is_none(),
            };
            if !is_sound || partition.hash.parse::<BlockHash>().is_err() {
                let file = partition.file();
                return Some(format!("{file:?} is no partition from height {from} to {to}"));
            }
            // A partition that ends with the last of all heights has none above it.
            least = to.saturating_add(1);
        }
        None
    }

    fn ending(&self) -> Option<&'static str> {
        Some(self.format()?.ending())
    }

    /// The names of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.partitions.iter().map(Partition::file)
    }

    /// The name of the table.
    #[cfg(feature = "tables")]
    pub(crate) fn table(&self) -> &str {
        &self.description.table
    }

    /// The form of the files, where there is such a format.
    fn format(&self) -> Option<Form> {
        let format = TableFormat::from_str(&self.description.format, false).ok()?;
        Form::new(format, Ids::Hex).ok()
    }

    /// What a call need not say again: the format, the number of blocks of a partition, and the
    /// height of the first block.
    pub(crate) fn defaults(&self) -> (Option<TableFormat>, Option<u32>, u32) {
        let Description {
            blocks_per_partition,
            from,
            ..
        } = self.description;
        (self.format().map(|form| form.format), blocks_per_partition, from)
    }

    /// Refuses to go on with another table; `path` is what has the manifest.
    pub(crate) fn check(&self, wanted: &Description, path: &Path) -> Result<(), Failure> {
        let difference = wanted.difference(&self.description);
        difference.map_or(Ok(()), |difference| {
            Err(Failure::Usage(format!("{}: {difference}", path.display())))
        })
    }

    /// Adds a partition, in place of one with the same blocks.
    pub(crate) fn put(&mut self, partition: Partition) {
        let at = self.partitions.partition_point(|known| known.from < partition.from);
        match self.partitions.get_mut(at) {
            Some(known) if known.from == partition.from => *known = partition,
            _ => self.partitions.insert(at, partition),
        }
    }

    /// The number of partitions that are deeper than `depth` blocks.
    fn count_deep(&self, depth: u32) -> usize {
        let height = self.partitions.last().map_or(0, |last| last.to.saturating_sub(depth));
        self.partitions.partition_point(|partition| partition.to <= height)
    }

    /// Takes the states out of partitions that are too deep to be the last one after a
    /// reorganisation. Of those deeper than `depth` blocks, the last one keeps its state.
    pub(crate) fn forget_states(&mut self, depth: u32) {
        let deep = self.count_deep(depth);
        let forgotten = self.partitions.get_mut(..deep.saturating_sub(1)).unwrap_or_default();
        forgotten.iter_mut().for_each(|partition| partition.state = None);
    }

    /// Makes one partition of those that are deeper than `depth` blocks. It has the hash and the
    /// state of the last one of them.
    #[cfg(feature = "tables")]
    pub(crate) fn join_deep(&mut self, depth: u32) {
        let deep = self.count_deep(depth);
        let mut joined: Vec<Partition> = self.partitions.drain(..deep).collect();
        let Some(mut last) = joined.pop() else {
            return;
        };
        if let Some(first) = joined.first() {
            last.from = first.from;
        }
        last.rows += rows_of(&joined);
        self.partitions.insert(0, last);
    }

    /// What the rows from a height on rest on, where that is known.
    pub(crate) fn state_at(&self, height: u32) -> Option<Vec<u8>> {
        let at = self.partitions.partition_point(|partition| partition.to < height);
        let before = self.partitions.get(at.checked_sub(1)?)?;
        let state = before.state.as_ref().filter(|_| before.to + 1 == height)?;
        let mut state = hex::decode(state).ok()?;
        let sum = state.split_off(state.len().checked_sub(SUM_BYTES)?);
        (sum == self.checksum(&before.hash, &state)).then_some(state)
    }

    /// The state after a block, as a partition has it.
    pub(crate) fn sealed(&self, block: &str, mut state: Vec<u8>) -> String {
        state.extend(self.checksum(block, &state));
        hex::encode(&state)
    }

    /// What tells a state that is the table's after this block from any other bytes.
    fn checksum(&self, block: &str, state: &[u8]) -> [u8; SUM_BYTES] {
        let table = &self.description.table;
        checksum(&format!("{table} {block} {}", hex::encode(state)))
    }

    /// Whether there is a partition that begins with a height.
    pub(crate) fn has(&self, from: u32) -> bool {
        self.partitions.iter().any(|partition| partition.from == from)
    }

    /// Another program that has not finished the table.
    pub(crate) fn unfinished_by_other(&self) -> Option<&str> {
        self.unfinished.as_deref().filter(|writer| *writer != WRITER)
    }

    /// Notes whether this program is writing the table.
    pub(crate) fn set_unfinished(&mut self, is_unfinished: bool) {
        self.unfinished = is_unfinished.then(|| WRITER.to_owned());
    }

    /// The same in JSON.
    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(self).map_err(std::io::Error::from)?)
    }

    /// Writes it durably, and replaces the one before.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(NAME);
        let mut file = NewFile::hidden(&path, true)?;
        let sealed = Self {
            checksum: Some(hex::encode(&checksum(&self.to_json()?))),
            ..self.clone()
        };
        let mut text = sealed.to_json()?;
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(Failure::file(&path))?;
        file.complete()?;
        Ok(())
    }
}

/// The number of rows of some partitions. Of those that were read it has 64 bits.
pub(crate) fn rows_of(partitions: &[Partition]) -> u64 {
    partitions.iter().map(|partition| partition.rows).sum()
}

/// Tells a text from any other.
pub(crate) fn checksum(text: &str) -> [u8; SUM_BYTES] {
    *sha256(text.as_bytes()).first_chunk().unwrap_or(&[0; SUM_BYTES])
}

/// The bytes of a file of reasonable length.
fn read_bytes(path: &PathBuf) -> std::io::Result<Vec<u8>> {
    // To open a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(std::io::Error::new(
            ErrorKind::InvalidData,
            "it is too long for a manifest",
        )),
        false => Ok(bytes),
    }
}

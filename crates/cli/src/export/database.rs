//! Tables in one SQLite database, which goes on.
//!
//! A table `blockmill` has the manifest of each table, with a checksum. All deep blocks are one
//! partition, and each of the last blocks is one by itself: so a table goes on above any block that
//! a reorganisation can lead back to. Rows are in the order of blocks, and their numbers are
//! without gaps, so the numbers of the rows of a partition are known.
//!
//! A database that is not there is written under a temporary name. One that goes on is changed in
//! one transaction: a kill leaves the one from before.

use crate::export::kept::{DEPTH_MAX, Kept};
use crate::export::manifest::{BYTES_MAX, Description, Keeper, Manifest, Partition, checksum, rows_of};
use crate::export::metadata::Metadata;
use crate::export::sqlite::{TableWriter, begin_new, close, write_metadata};
use crate::export::table::Written;
use crate::failure::Failure;
use blockmill_block::hex;
use blockmill_blockfiles::NewFile;
use blockmill_chain::ChainBlocks;
use blockmill_tables::batch::{Batch, Ids, Table};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The table with the manifests.
const MANIFESTS: &str =
    "CREATE TABLE blockmill (name TEXT PRIMARY KEY, manifest TEXT NOT NULL, checksum TEXT NOT NULL)";

/// How a database is made anew.
const ANEW: &str = "remove the file to begin anew";

/// The tables of a database, as a call asks for them.
#[derive(Debug)]
pub(crate) struct DatabaseTables<'a> {
    pub(crate) path: &'a Path,
    pub(crate) ids: Ids,
    pub(crate) tables: Vec<(&'static Table, Description)>,
}

/// A database that is being written.
pub(crate) struct Database {
    path: PathBuf,
    connection: Rc<Connection>,
    /// The file of a new database; none where one goes on.
    new: Option<NewFile>,
}

/// A table of a database that is being written.
pub(crate) struct GrowingTable {
    path: PathBuf,
    table: &'static Table,
    writer: TableWriter,
    pub(crate) manifest: Manifest,
    /// Heights that the table is to have.
    heights: RangeInclusive<u32>,
    /// Rows of the partition that is being written.
    rows: u64,
    /// Rows that were not there before.
    added: u64,
    is_changed: bool,
}

fn damaged(path: &Path, why: &str) -> Failure {
    Failure::Corrupt(format!(
        "{}: what it says of its tables is damaged: {why}; {ANEW}",
        path.display()
    ))
}

fn no_export(path: &Path, why: &str) -> Failure {
    Failure::Usage(format!(
        "{}: {why}: --append goes on with a database that --append has made",
        path.display()
    ))
}

/// What goes wrong with a file that may be anything.
fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Failure {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => no_export(path, "it is no SQLite database"),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path, &error.to_string()),
        _ => Failure::sqlite(path)(error),
    }
}

/// Opens a database that is there. None if there is no file.
fn open(path: &Path) -> Result<Option<Connection>, Failure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(path)(error)),
        // To open a pipe would wait for its writer.
        Ok(found) if !found.is_file() => return Err(no_export(path, "it is no regular file")),
        Ok(_) => {}
    }
    // Where an export was killed, to read the file is to undo what it has changed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed(path))?;
    // What stands in the file is not run.
    let is_untrusted = connection.execute_batch("PRAGMA trusted_schema = OFF");
    is_untrusted.map_err(failed(path))?;
    let without_triggers = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false);
    without_triggers.map_err(failed(path))?;
    Ok(Some(connection))
}

/// The manifests of a database.
fn manifests(connection: &Connection, path: &Path) -> Result<Vec<Manifest>, Failure> {
    let find = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'blockmill'";
    let found = connection.query_row(find, [], |_| Ok(())).optional();
    if found.map_err(failed(path))?.is_none() {
        return Err(no_export(path, "it has no table blockmill"));
    }
    let read = || {
        let select = "SELECT name, manifest, checksum FROM blockmill WHERE length(manifest) <= ? ORDER BY rowid";
        let mut select = connection.prepare(select)?;
        let rows = select.query_map([BYTES_MAX.cast_signed()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        rows.collect::<rusqlite::Result<Vec<(String, String, String)>>>()
    };
    let rows = read().map_err(|error| damaged(path, &error.to_string()))?;
    let manifest = |(name, manifest, sum): (String, String, String)| {
        if sum != sum_of(&name, &manifest) {
            return Err(damaged(path, &format!("the checksum of {name} is another")));
        }
        let manifest = Manifest::of_json(manifest.as_bytes(), Keeper::Database);
        let manifest = manifest.map_err(|why| damaged(path, &format!("{name}: {why}")))?;
        match manifest.table() == name {
            true => Ok(manifest),
            false => Err(damaged(path, &format!("{name} is {}", manifest.table()))),
        }
    };
    let manifests: Vec<Manifest> = rows.into_iter().map(manifest).collect::<Result<_, _>>()?;
    let heights = |manifest: &Manifest| -> Vec<_> {
        let partitions = manifest.partitions.iter();
        partitions
            .map(|partition| (partition.from, partition.to, partition.hash.clone()))
            .collect()
    };
    match manifests.first() {
        Some(first) if manifests.iter().all(|manifest| heights(manifest) == heights(first)) => Ok(manifests),
        Some(_) => Err(damaged(path, "its tables have other blocks")),
        None => Err(damaged(path, "there are none")),
    }
}

/// Tells the manifest of a table from any other text.
fn sum_of(name: &str, manifest: &str) -> String {
    hex::encode(&checksum(&format!("{name} {manifest}")))
}

/// Reads the height of the first block of a database. None if there is no file.
pub(crate) fn first_height(path: &Path) -> Result<Option<u32>, Failure> {
    let Some(connection) = open(path)? else {
        return Ok(None);
    };
    let manifests = manifests(&connection, path)?;
    Ok(manifests.first().map(|manifest| manifest.defaults().2))
}

impl DatabaseTables<'_> {
    /// Refuses a file that is there, if these tables cannot go on with it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match open(self.path)? {
            Some(connection) => self.manifests(&connection).map(drop),
            None => Ok(()),
        }
    }

    /// The manifests of a database that is there, in the order of these tables.
    fn manifests(&self, connection: &Connection) -> Result<Vec<Manifest>, Failure> {
        let mut found = manifests(connection, self.path)?;
        let mut in_order = Vec::new();
        for (table, description) in &self.tables {
            let at = found.iter().position(|found| found.table() == table.name);
            let Some(at) = at else {
                return Err(self.other_tables(found, in_order));
            };
            let manifest = found.remove(at);
            manifest.check(description, self.path)?;
            in_order.push(manifest);
        }
        match found.is_empty() {
            true => Ok(in_order),
            false => Err(self.other_tables(found, in_order)),
        }
    }

    fn other_tables(&self, found: Vec<Manifest>, in_order: Vec<Manifest>) -> Failure {
        let mut found: Vec<_> = found.iter().chain(&in_order).map(Manifest::table).collect();
        let mut own: Vec<_> = self.tables.iter().map(|(table, _)| table.name).collect();
        found.sort_unstable();
        own.sort_unstable();
        Failure::Usage(format!(
            "{}: the tables there are {}, not {}: all of them go on together",
            self.path.display(),
            found.join(", "),
            own.join(", ")
        ))
    }

    /// Begins or goes on with the database, whose tables are to have these heights of a chain.
    pub(crate) fn open(
        &self,
        blocks: &ChainBlocks,
        heights: &RangeInclusive<u32>,
    ) -> Result<(Database, Vec<GrowingTable>), Failure> {
        match open(self.path)? {
            Some(connection) => self.go_on(connection, blocks, heights),
            None => self.begin(heights),
        }
    }

    fn growing(&self, connection: &Rc<Connection>, heights: &RangeInclusive<u32>) -> Vec<GrowingTable> {
        let growing = |(table, description): &(&'static Table, Description)| GrowingTable {
            path: self.path.to_owned(),
            table,
            writer: TableWriter::new(Rc::clone(connection), table, self.ids),
            manifest: Manifest::new(description.clone()),
            heights: heights.clone(),
            rows: 0,
            added: 0,
            is_changed: false,
        };
        self.tables.iter().map(growing).collect()
    }

    fn begin(&self, heights: &RangeInclusive<u32>) -> Result<(Database, Vec<GrowingTable>), Failure> {
        let file = NewFile::begin(self.path)?;
        let begin = || {
            let connection = Rc::new(begin_new(&file)?);
            connection.execute_batch(MANIFESTS)?;
            let tables = self.growing(&connection, heights);
            tables.iter().try_for_each(|table| table.writer.create())?;
            Ok((connection, tables))
        };
        let (connection, tables) = begin().map_err(Failure::sqlite(self.path))?;
        let database = Database {
            path: self.path.to_owned(),
            connection,
            new: Some(file),
        };
        Ok((database, tables))
    }

    fn go_on(
        &self,
        connection: Connection,
        blocks: &ChainBlocks,
        heights: &RangeInclusive<u32>,
    ) -> Result<(Database, Vec<GrowingTable>), Failure> {
        // Nobody else writes it from here on. Dropped before the end, all is as it was.
        connection.execute_batch("BEGIN EXCLUSIVE").map_err(failed(self.path))?;
        let found = self.manifests(&connection)?;
        let connection = Rc::new(connection);
        let mut tables = self.growing(&connection, heights);
        for (table, found) in tables.iter_mut().zip(found) {
            table.go_on_with(found, &connection, blocks)?;
        }
        let database = Database {
            path: self.path.to_owned(),
            connection,
            new: None,
        };
        Ok((database, tables))
    }
}

impl GrowingTable {
    /// Keeps what is still true of the table, and removes the rows above.
    fn go_on_with(&mut self, found: Manifest, connection: &Connection, blocks: &ChainBlocks) -> Result<(), Failure> {
        let rows_found = rows_of(&found.partitions);
        let kept = Kept::of(found, (&self.path, ANEW), blocks, *self.heights.end())?;
        let rows_kept = rows_of(&kept.on_chain);
        let last_kept = kept.on_chain.last().map(|partition| partition.to);
        if !self.has_rows(connection, rows_found, rows_kept, last_kept)? {
            let why = format!("{} has not the rows that were written", self.table.name);
            return Err(damaged(&self.path, &why));
        }
        let is_less = !kept.off_chain.is_empty();
        if is_less {
            let remove = format!("DELETE FROM {} WHERE rowid > ?", self.table.name);
            let removed = connection.execute(&remove, [rows_kept.cast_signed()]);
            removed.map_err(failed(&self.path))?;
        }
        self.is_changed = is_less;
        self.manifest.partitions = kept.on_chain;
        Ok(())
    }

    /// Whether the table ends with the last row that was written, and whether the rows that stay
    /// end with the last block that stays, as far as that shows without reading all of them.
    fn has_rows(
        &self,
        connection: &Connection,
        rows: u64,
        rows_kept: u64,
        last_kept: Option<u32>,
    ) -> Result<bool, Failure> {
        let name = self.table.name;
        let height_of = |row: u64| {
            let select = format!("SELECT height FROM {name} WHERE rowid = ?");
            let height = connection.query_row(&select, [row.cast_signed()], |row| row.get::<_, i64>(0));
            height.optional()
        };
        let read = || {
            let select = format!("SELECT coalesce(max(rowid), 0) FROM {name}");
            let found: i64 = connection.query_row(&select, [], |row| row.get(0))?;
            let last_kept = last_kept.map_or(-1, i64::from);
            let is_above = |height: Option<i64>| height.is_some_and(|height| height > last_kept);
            let is_kept = |height: Option<i64>| height.is_some_and(|height| height <= last_kept);
            Ok(found == rows.cast_signed()
                && (rows_kept == 0 || is_kept(height_of(rows_kept)?))
                && (rows_kept == rows || is_above(height_of(rows_kept + 1)?)))
        };
        read().map_err(failed(&self.path))
    }

    /// The heights of each partition that is to be written, in order: all that is deep, and each of
    /// the last blocks.
    pub(crate) fn ranges(&self) -> Vec<RangeInclusive<u32>> {
        let (first, last) = self.heights.clone().into_inner();
        let kept = self.manifest.partitions.last();
        let Some(next) = kept.map_or(Some(first), |kept| kept.to.checked_add(1)) else {
            return Vec::new();
        };
        let deep = last.saturating_sub(DEPTH_MAX);
        let shallow = next.max(deep.saturating_add(1))..=last;
        let deep = Some(next..=deep).filter(|deep| !deep.is_empty());
        deep.into_iter().chain(shallow.map(|height| height..=height)).collect()
    }

    /// Appends rows. They come in the order of heights.
    pub(crate) fn add(&mut self, rows: &Batch, count: u64) -> Result<(), Failure> {
        self.rows += count;
        self.writer.add(rows).map_err(failed(&self.path))
    }

    /// All rows of a partition are there; `state` is what those above rest on.
    pub(crate) fn end(
        &mut self,
        heights: &RangeInclusive<u32>,
        blocks: &ChainBlocks,
        state: Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        let (from, to) = heights.clone().into_inner();
        let hash = blocks.hash(to)?.to_string();
        let rows = std::mem::take(&mut self.rows);
        self.added += rows;
        self.is_changed = true;
        self.manifest.partitions.push(Partition {
            file: None,
            from,
            to,
            rows,
            bytes: None,
            state: state.map(|state| self.manifest.sealed(&hash, state)),
            hash,
        });
        Ok(())
    }

    /// Writes the manifest of the table.
    fn save(&mut self, connection: &Connection) -> Result<(), Failure> {
        self.manifest.join_deep(DEPTH_MAX);
        let (name, manifest) = (self.table.name, self.manifest.to_json()?);
        let row = params![name, manifest, sum_of(name, &manifest)];
        let saved = connection.execute("INSERT OR REPLACE INTO blockmill VALUES (?, ?, ?)", row);
        saved.map_err(failed(&self.path)).map(drop)
    }
}

impl Database {
    /// Ends all tables. Returns what the database has now.
    pub(crate) fn written(self, mut tables: Vec<GrowingTable>, metadata: &Metadata) -> Result<Vec<Written>, Failure> {
        let Self { path, connection, new } = self;
        if new.is_some() || tables.iter().any(|table| table.is_changed) {
            for table in &mut tables {
                table.save(&connection)?;
            }
            let end = || {
                write_metadata(&connection, metadata)?;
                connection.execute_batch("COMMIT")
            };
            end().map_err(failed(&path))?;
        }
        if new.is_some() {
            let index = tables.iter().try_for_each(|table| table.writer.index());
            index.map_err(failed(&path))?;
        }
        let parts = tables.into_iter().map(|growing| {
            let GrowingTable {
                table, manifest, added, ..
            } = growing;
            (table.row, rows_of(&manifest.partitions), added)
        });
        // With the writers.
        let parts: Vec<_> = parts.collect();
        close(connection).map_err(failed(&path))?;
        let bytes = match new {
            Some(new) => new.complete()?,
            None => std::fs::metadata(&path).map_err(Failure::file(&path))?.len(),
        };
        let written = |(row, rows, added)| Written {
            row,
            rows,
            out: path.clone(),
            bytes: Some(bytes),
            added: Some(added),
            files: None,
        };
        Ok(parts.into_iter().map(written).collect())
    }
}

//! Tables in a SQLite database.

use crate::export::metadata::Metadata;
use crate::failure::Failure;
use blockmill_block::hex;
use blockmill_blockfiles::NewFile;
use blockmill_tables::batch::{Batch, Cell, ColumnType, Ids, Kind, Table};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use std::rc::Rc;

/// Nobody else sees the file before it is complete, so it needs no journal.
const BEGIN: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;";

const METADATA: &str = "CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);";

/// Begins a database that nobody else sees, with an empty table for what it says of itself, in a
/// transaction.
pub(crate) fn begin_new(file: &NewFile) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file.temporary())?;
    connection.execute_batch(&format!("{BEGIN} BEGIN; {METADATA}"))?;
    Ok(connection)
}

/// Writes what a database says of itself, over what it said before.
pub(crate) fn write_metadata(connection: &Connection, metadata: &Metadata) -> rusqlite::Result<()> {
    for (key, text) in metadata.iter() {
        connection.execute("INSERT OR REPLACE INTO metadata VALUES (?, ?)", params![key, text])?;
    }
    Ok(())
}

/// A table of a database that is being written. Its rows are numbered (`rowid`) from 1 on.
pub(crate) struct TableWriter {
    connection: Rc<Connection>,
    table: &'static Table,
    insert: String,
    ids: Ids,
}

impl TableWriter {
    /// Writes to a table that is there, or that [`create`](Self::create) makes.
    pub(crate) fn new(connection: Rc<Connection>, table: &'static Table, ids: Ids) -> Self {
        let columns = vec!["?"; table.columns.len()].join(", ");
        Self {
            connection,
            table,
            insert: format!("INSERT INTO {} VALUES ({columns})", table.name),
            ids,
        }
    }

    /// Makes the table.
    pub(crate) fn create(&self) -> rusqlite::Result<()> {
        let columns = self.table.columns.iter().map(|column| declaration(column, self.ids));
        let columns: Vec<String> = columns.collect();
        let create = format!("CREATE TABLE {} ({})", self.table.name, columns.join(", "));
        self.connection.execute_batch(&create)
    }

    pub(crate) fn add(&self, rows: &Batch) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare(&self.insert)?;
        let (mut outcome, ids) = (Ok(()), self.ids);
        rows.for_each_row(|row| {
            if outcome.is_ok() {
                outcome = insert
                    .execute(params_from_iter(
                        row.iter().map(|cell| cell.map(|cell| Bound(cell, ids))),
                    ))
                    .map(drop);
            }
        });
        outcome
    }

    /// Makes the index. To index all rows at the end takes less time than to index each as it is
    /// written.
    pub(crate) fn index(&self) -> rusqlite::Result<()> {
        let Table { name, index, .. } = self.table;
        let by = index.replace(", ", "_");
        self.connection
            .execute_batch(&format!("CREATE INDEX {name}_by_{by} ON {name} ({index})"))
    }
}

/// A database with one table that is being written.
pub(crate) struct SqliteWriter {
    file: NewFile,
    writer: TableWriter,
}

impl SqliteWriter {
    /// Begins a database with one table, and what it says of itself in another.
    pub(crate) fn open(file: NewFile, table: &'static Table, ids: Ids, metadata: &Metadata) -> Result<Self, Failure> {
        let open = || {
            let connection = begin_new(&file)?;
            write_metadata(&connection, metadata)?;
            let writer = TableWriter::new(Rc::new(connection), table, ids);
            writer.create()?;
            Ok(writer)
        };
        let writer = open().map_err(Failure::sqlite(file.path()))?;
        Ok(Self { file, writer })
    }

    pub(crate) fn add(&mut self, rows: &Batch) -> Result<(), Failure> {
        self.writer.add(rows).map_err(Failure::sqlite(self.file.path()))
    }

    /// Makes the index, and closes the file, which has no name yet.
    pub(crate) fn end(self) -> Result<NewFile, Failure> {
        let Self { file, writer } = self;
        let end = || {
            writer.connection.execute_batch("COMMIT")?;
            writer.index()?;
            close(writer.connection)
        };
        end().map_err(Failure::sqlite(file.path()))?;
        Ok(file)
    }
}

/// Closes a database, of which there are no writers any more.
pub(crate) fn close(connection: Rc<Connection>) -> rusqlite::Result<()> {
    match Rc::try_unwrap(connection) {
        Ok(connection) => connection.close().map_err(|(_, error)| error),
        // The last writer closes it.
        Err(_) => Ok(()),
    }
}

fn declaration(column: &ColumnType, ids: Ids) -> String {
    let kind = match column.kind {
        Kind::Id if ids == Ids::Binary => "BLOB",
        Kind::Text | Kind::Hex | Kind::Id => "TEXT",
        Kind::F64 => "REAL",
        Kind::Bool | Kind::U32 | Kind::U64 | Kind::I64 | Kind::Time => "INTEGER",
    };
    let rest = if column.is_nullable { "" } else { " NOT NULL" };
    format!("{} {kind}{rest}", column.name)
}

/// A value of a row, as SQLite takes it.
struct Bound<'a>(Cell<'a>, Ids);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = match self.0 {
            Cell::Text(text) => return Ok(ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))),
            Cell::Id(id) if self.1 == Ids::Binary => return Ok(id.to_vec().into()),
            Cell::Float(number) => return Ok(number.into()),
            Cell::Id(id) => return Ok(hex::encode(&id).into()),
            Cell::Bool(value) => value.into(),
            Cell::Unsigned(value) => value.cast_signed(),
            Cell::Signed(value) => value,
            Cell::Time(seconds) => seconds.into(),
        };
        Ok(number.into())
    }
}

//! A table in a SQLite database.

use crate::export::metadata::Metadata;
use crate::failure::Failure;
use blockmill_block::hex;
use blockmill_blockfiles::NewFile;
use blockmill_tables::batch::{Batch, Cell, ColumnType, Ids, Kind, Table};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params, params_from_iter};

/// Nobody else sees the file before it is complete, so it needs no journal.
const BEGIN: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;";

const METADATA: &str = "CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);";

/// A database that is being written.
pub(crate) struct TableWriter {
    connection: Connection,
    file: NewFile,
    insert: String,
    index: String,
    ids: Ids,
}

impl TableWriter {
    /// Begins a database with one table, and what it says of itself in another.
    pub(crate) fn open(file: NewFile, table: &Table, ids: Ids, metadata: &Metadata) -> Result<Self, Failure> {
        let name = table.name;
        let columns = table.columns.iter().map(|column| declaration(column, ids));
        let columns: Vec<String> = columns.collect();
        let connection = Connection::open(file.temporary())?;
        connection.execute_batch(&format!(
            "{BEGIN} {METADATA} CREATE TABLE {name} ({}); BEGIN;",
            columns.join(", ")
        ))?;
        for (key, text) in metadata.iter() {
            connection.execute("INSERT INTO metadata VALUES (?, ?)", params![key, text])?;
        }
        Ok(Self {
            connection,
            file,
            insert: format!("INSERT INTO {name} VALUES ({})", vec!["?"; columns.len()].join(", ")),
            index: format!(
                "CREATE INDEX {name}_by_{} ON {name} ({})",
                table.index.replace(", ", "_"),
                table.index
            ),
            ids,
        })
    }

    pub(crate) fn add(&mut self, rows: &Batch) -> Result<(), Failure> {
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
        Ok(outcome?)
    }

    /// Makes the index, and closes the file, which has no name yet.
    pub(crate) fn end(self) -> Result<NewFile, Failure> {
        // To index all rows at the end takes less time than to index each as it is written.
        self.connection.execute_batch(&format!("COMMIT; {}", self.index))?;
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(self.file)
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

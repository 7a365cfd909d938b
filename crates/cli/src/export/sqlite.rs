//! A table of coins in a SQLite database.

use crate::export::coin_row::CoinRow;
use crate::export::table::{Rows, Written};
use crate::failure::Failure;
use crate::progress::EngineMeter;
use blockmill_blockfiles::NewFile;
use rusqlite::{Connection, params};

/// Nobody else sees the file before it is complete, so it needs no journal.
const BEGIN: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    CREATE TABLE coins (
        txid TEXT NOT NULL,
        vout INTEGER NOT NULL,
        height INTEGER NOT NULL,
        coinbase INTEGER NOT NULL,
        value INTEGER NOT NULL,
        script TEXT NOT NULL,
        script_type TEXT NOT NULL,
        address TEXT
    );
    BEGIN;";

const END: &str = "
    COMMIT;
    CREATE INDEX coins_by_script ON coins (script);";

/// A database that is being written.
struct SqliteWriter {
    connection: Connection,
    file: NewFile,
}

impl SqliteWriter {
    fn open(file: NewFile) -> Result<Self, Failure> {
        let connection = Connection::open(file.temporary())?;
        connection.execute_batch(BEGIN)?;
        Ok(Self { connection, file })
    }

    fn add(&mut self, rows: &[CoinRow]) -> Result<(), Failure> {
        let mut insert = self
            .connection
            .prepare("INSERT INTO coins VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        for row in rows {
            insert.execute(params![
                row.txid,
                row.vout,
                row.height,
                row.coinbase,
                row.value,
                row.script,
                row.script_type,
                row.address
            ])?;
        }
        Ok(())
    }

    /// Makes the index, and completes the file. Returns its length.
    fn complete(self) -> Result<u64, Failure> {
        // To index all rows at the end takes less time than to index each as it is written.
        self.connection.execute_batch(END)?;
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(self.file.complete()?)
    }
}

/// Writes a database of coins.
pub(crate) fn write_coins<S: Rows<Row = CoinRow>>(
    rows: &S,
    file: NewFile,
    meter: &mut EngineMeter,
) -> Result<Written, Failure> {
    let mut writer = SqliteWriter::open(file)?;
    let convert = |rows: &mut dyn Iterator<Item = CoinRow>| Ok(rows.collect::<Vec<_>>());
    let rows = rows.run(meter, &convert, &mut |rows| writer.add(&rows))?;
    let bytes = Some(writer.complete()?);
    Ok(Written { rows, bytes })
}

//! A flat table in each format.

use crate::arguments::Force;
use crate::arguments::export::TableFormat;
#[cfg(feature = "tables")]
use crate::arguments::is_standard;
#[cfg(feature = "tables")]
use crate::export::parquet::{ColumnEncoder, EncodedColumns, ParquetWriter};
#[cfg(feature = "tables")]
use crate::export::sqlite::TableWriter;
use crate::export::target::{self, Target};
use crate::failure::Failure;
#[cfg(feature = "tables")]
use blockmill_tables::batch::Ids;
use blockmill_tables::batch::{Batch, Table, csv_head};
use std::path::Path;

/// What the ending of a name says of the format.
pub(crate) const ENDINGS: &[(&str, TableFormat)] = &[
    #[cfg(feature = "tables")]
    ("parquet", TableFormat::Parquet),
    ("csv", TableFormat::Csv),
    ("jsonl", TableFormat::Jsonl),
    #[cfg(feature = "tables")]
    ("sqlite", TableFormat::Sqlite),
    #[cfg(feature = "tables")]
    ("db", TableFormat::Sqlite),
];

/// The format of a table, which its file can have.
pub(crate) fn format_of(out: &Path, given: Option<TableFormat>) -> Result<TableFormat, Failure> {
    let format = target::format_of(out, given, ENDINGS)?;
    #[cfg(feature = "tables")]
    if format == TableFormat::Sqlite && is_standard(out) {
        return Err(Failure::Usage(
            "sqlite writes a file, which standard output is not".to_owned(),
        ));
    }
    Ok(format)
}

/// Makes pieces of a table. Several threads may do so at once.
pub(crate) enum Encoder {
    Csv,
    Jsonl,
    #[cfg(feature = "tables")]
    Parquet(ColumnEncoder),
    #[cfg(feature = "tables")]
    Sqlite,
}

/// A piece of a table.
pub(crate) enum Piece {
    Lines(Vec<u8>),
    #[cfg(feature = "tables")]
    Columns(EncodedColumns),
    #[cfg(feature = "tables")]
    Rows(Batch),
}

/// A table that is being written.
pub(crate) enum Writer {
    Lines(Target),
    #[cfg(feature = "tables")]
    Parquet(ParquetWriter),
    #[cfg(feature = "tables")]
    Sqlite(TableWriter),
}

/// Begins a table.
pub(crate) fn open(table: &Table, format: TableFormat, out: &Path, force: Force) -> Result<(Encoder, Writer), Failure> {
    #[cfg(feature = "tables")]
    if format == TableFormat::Sqlite {
        let writer = TableWriter::open(force.begin(out)?, table)?;
        return Ok((Encoder::Sqlite, Writer::Sqlite(writer)));
    }
    let mut target = Target::open(out, force)?;
    Ok(match format {
        TableFormat::Csv => {
            target.write_lines(csv_head(table.columns).as_bytes())?;
            (Encoder::Csv, Writer::Lines(target))
        }
        TableFormat::Jsonl => (Encoder::Jsonl, Writer::Lines(target)),
        #[cfg(feature = "tables")]
        TableFormat::Parquet | TableFormat::Sqlite => {
            let schema = blockmill_tables::batch::schema_of(table.columns, Ids::Hex);
            let (encoder, writer) = crate::export::parquet::open(target, schema, table.without_dictionary)?;
            (Encoder::Parquet(encoder), Writer::Parquet(writer))
        }
    })
}

impl Encoder {
    pub(crate) fn encode(&self, rows: Batch) -> Result<Piece, Failure> {
        Ok(match self {
            Self::Csv => Piece::Lines(rows.csv()),
            Self::Jsonl => Piece::Lines(rows.jsonl()),
            #[cfg(feature = "tables")]
            Self::Parquet(encoder) => {
                let batch = rows.into_arrow(encoder.schema(), Ids::Hex);
                Piece::Columns(encoder.encode(&batch.map_err(parquet::errors::ParquetError::from)?)?)
            }
            #[cfg(feature = "tables")]
            Self::Sqlite => Piece::Rows(rows),
        })
    }
}

impl Writer {
    /// Appends a piece, which its encoder has made.
    pub(crate) fn add(&mut self, piece: Piece) -> Result<(), Failure> {
        match (self, piece) {
            (Self::Lines(target), Piece::Lines(lines)) => target.write_lines(&lines),
            #[cfg(feature = "tables")]
            (Self::Parquet(writer), Piece::Columns(columns)) => writer.add(columns),
            #[cfg(feature = "tables")]
            (Self::Sqlite(writer), Piece::Rows(rows)) => writer.add(&rows),
            #[cfg(feature = "tables")]
            _ => unreachable!("a writer gets what its encoder has made"),
        }
    }

    /// Ends the table, which has no name yet.
    pub(crate) fn end(self) -> Result<Target, Failure> {
        match self {
            Self::Lines(target) => Ok(target),
            #[cfg(feature = "tables")]
            Self::Parquet(writer) => writer.end(),
            #[cfg(feature = "tables")]
            Self::Sqlite(writer) => Ok(Target::File(writer.end()?)),
        }
    }
}

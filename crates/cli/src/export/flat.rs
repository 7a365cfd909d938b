//! A flat table in each format.

use crate::arguments::export::{FormArguments, TableFormat};
#[cfg(feature = "tables")]
use crate::arguments::is_standard;
#[cfg(feature = "tables")]
use crate::arrow_stream::{self, ArrowStream};
use crate::export::metadata::Metadata;
#[cfg(feature = "tables")]
use crate::export::parquet::{ColumnEncoder, EncodedColumns, ParquetWriter};
#[cfg(feature = "tables")]
use crate::export::sqlite::SqliteWriter;
use crate::export::table::Memory;
use crate::export::target::{self, Target};
use crate::failure::Failure;
#[cfg(feature = "tables")]
use blockmill_tables::batch::schema_of;
use blockmill_tables::batch::{Batch, Ids, Table, csv_head};
use blockmill_tables::pass::Portion;
use std::path::Path;

/// What the ending of a name says of the format. The first one of a format is that of files which
/// get their names here.
const ENDINGS: &[(&str, TableFormat)] = &[
    #[cfg(feature = "tables")]
    ("parquet", TableFormat::Parquet),
    // Of the two forms that Arrow has for files, `.arrows` is the stream.
    #[cfg(feature = "tables")]
    ("arrows", TableFormat::Arrow),
    #[cfg(feature = "tables")]
    ("arrow", TableFormat::Arrow),
    ("csv", TableFormat::Csv),
    ("jsonl", TableFormat::Jsonl),
    #[cfg(feature = "tables")]
    ("sqlite", TableFormat::Sqlite),
    #[cfg(feature = "tables")]
    ("db", TableFormat::Sqlite),
];

/// What a table is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) format: TableFormat,
    pub(crate) ids: Ids,
}

impl Form {
    /// The form of a table, which its file can have.
    pub(crate) fn of_file(out: &Path, given: &FormArguments) -> Result<Self, Failure> {
        let format = target::format_of(out, given.format, ENDINGS)?;
        #[cfg(feature = "tables")]
        if format == TableFormat::Sqlite && is_standard(out) {
            return Err(Failure::Usage(
                "sqlite writes a file, which standard output is not".to_owned(),
            ));
        }
        Self::new(format, given.ids())
    }

    /// # Errors
    /// That the format has no bytes.
    pub(crate) fn new(format: TableFormat, ids: Ids) -> Result<Self, Failure> {
        if ids == Ids::Binary && matches!(format, TableFormat::Csv | TableFormat::Jsonl) {
            return Err(Failure::Usage(
                "--binary is for parquet, arrow and sqlite: csv and jsonl are text, which holds no bytes".to_owned(),
            ));
        }
        Ok(Self { format, ids })
    }

    /// How much of a table is made at a time.
    pub(crate) fn portion(self) -> Portion {
        match self.format {
            #[cfg(feature = "tables")]
            TableFormat::Parquet => Portion::GROUPS,
            _ => Portion::ROWS,
        }
    }

    /// The ending of the names of files.
    pub(crate) fn ending(self) -> &'static str {
        let ending = ENDINGS.iter().find(|(_, format)| *format == self.format);
        ending.map_or("", |(ending, _)| ending)
    }
}

impl Memory for Piece {
    fn memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.memory(),
            #[cfg(feature = "tables")]
            Self::Columns(columns) => columns.memory(),
            #[cfg(feature = "tables")]
            Self::Rows(rows) => rows.memory(),
        }
    }
}

/// Makes pieces of a table. Several threads may do so at once.
pub(crate) enum Encoder {
    Csv,
    Jsonl,
    #[cfg(feature = "tables")]
    Parquet(ColumnEncoder, Ids),
    #[cfg(feature = "tables")]
    Arrow(ArrowStream, Ids),
    #[cfg(feature = "tables")]
    Sqlite,
}

/// A piece of a table.
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    #[cfg(feature = "tables")]
    Columns(EncodedColumns),
    #[cfg(feature = "tables")]
    Rows(Batch),
}

/// A table that is being written.
pub(crate) enum Writer {
    Bytes {
        target: Target,
        /// What the table ends with.
        end: &'static [u8],
    },
    #[cfg(feature = "tables")]
    Parquet(ParquetWriter),
    #[cfg(feature = "tables")]
    Sqlite(SqliteWriter),
}

impl Encoder {
    /// What makes the pieces of a table, whichever file they go to.
    #[cfg_attr(not(feature = "tables"), expect(unused_variables, reason = "text needs no schema"))]
    pub(crate) fn new(table: &Table, form: Form) -> Result<Self, Failure> {
        Ok(match form.format {
            TableFormat::Csv => Self::Csv,
            TableFormat::Jsonl => Self::Jsonl,
            #[cfg(feature = "tables")]
            TableFormat::Parquet => {
                let schema = schema_of(table.columns, form.ids);
                Self::Parquet(ColumnEncoder::new(schema, table.without_dictionary)?, form.ids)
            }
            #[cfg(feature = "tables")]
            TableFormat::Arrow => Self::Arrow(ArrowStream::new(schema_of(table.columns, form.ids)), form.ids),
            #[cfg(feature = "tables")]
            TableFormat::Sqlite => Self::Sqlite,
        })
    }

    pub(crate) fn encode(&self, rows: Batch) -> Result<Piece, Failure> {
        Ok(match self {
            Self::Csv => Piece::Bytes(rows.csv()),
            Self::Jsonl => Piece::Bytes(rows.jsonl()),
            #[cfg(feature = "tables")]
            Self::Parquet(encoder, ids) => {
                let batch = rows.into_arrow(&encoder.schema, *ids);
                Piece::Columns(encoder.encode(&batch.map_err(parquet::errors::ParquetError::from)?)?)
            }
            #[cfg(feature = "tables")]
            Self::Arrow(stream, ids) => {
                let mut bytes = Vec::new();
                stream.write_batch(&rows.into_arrow(&stream.schema, *ids)?, &mut bytes)?;
                Piece::Bytes(bytes)
            }
            #[cfg(feature = "tables")]
            Self::Sqlite => Piece::Rows(rows),
        })
    }
}

impl Writer {
    /// Begins a table.
    #[cfg_attr(not(feature = "tables"), expect(unused_variables, reason = "text has no metadata"))]
    pub(crate) fn open(
        table: &'static Table,
        form: Form,
        mut target: Target,
        metadata: &Metadata,
    ) -> Result<Self, Failure> {
        let end: &'static [u8] = match form.format {
            TableFormat::Csv => {
                target.write_piece(csv_head(table.columns).as_bytes())?;
                &[]
            }
            TableFormat::Jsonl => &[],
            #[cfg(feature = "tables")]
            TableFormat::Arrow => {
                let schema = metadata.of_schema(schema_of(table.columns, form.ids));
                target.write_piece(&ArrowStream::new(schema).head()?)?;
                &arrow_stream::END
            }
            #[cfg(feature = "tables")]
            TableFormat::Sqlite => match target {
                Target::File(file) => return Ok(Self::Sqlite(SqliteWriter::open(file, table, form.ids, metadata)?)),
                Target::Stdout(_) => unreachable!("a database has a file"),
            },
            #[cfg(feature = "tables")]
            TableFormat::Parquet => {
                let schema = schema_of(table.columns, form.ids);
                let writer = ParquetWriter::open(target, schema, table.without_dictionary, metadata)?;
                return Ok(Self::Parquet(writer));
            }
        };
        Ok(Self::Bytes { target, end })
    }

    /// Appends a piece, which an encoder of the same table and form has made.
    pub(crate) fn add(&mut self, piece: Piece) -> Result<(), Failure> {
        match (self, piece) {
            (Self::Bytes { target, .. }, Piece::Bytes(bytes)) => target.write_piece(&bytes),
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
            Self::Bytes { mut target, end } => {
                target.write_piece(end)?;
                Ok(target)
            }
            #[cfg(feature = "tables")]
            Self::Parquet(writer) => writer.end(),
            #[cfg(feature = "tables")]
            Self::Sqlite(writer) => Ok(Target::File(writer.end()?)),
        }
    }
}

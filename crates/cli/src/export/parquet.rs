//! A table as a Parquet file, compressed by Zstandard: a row group for each piece of it. The
//! columns of a group are encoded by the thread that has its rows.

use crate::export::metadata::Metadata;
use crate::export::table::Memory;
use crate::export::target::{self, Target};
use crate::failure::Failure;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The columns of a row group, encoded.
pub(crate) struct EncodedColumns {
    columns: Vec<ArrowColumnChunk>,
    bytes: usize,
}

impl Memory for EncodedColumns {
    fn memory(&self) -> usize {
        self.bytes
    }
}

/// Encodes the columns of row groups. Several threads may do so at once.
pub(crate) struct ColumnEncoder {
    pub(crate) schema: Arc<Schema>,
    factory: ArrowRowGroupWriterFactory,
}

/// A file that is being written.
pub(crate) struct ParquetWriter {
    file: SerializedFileWriter<Target>,
    path: Option<PathBuf>,
}

/// The failure of a write to the target of this path. The crate wraps errors of the system.
fn failed(path: Option<&Path>) -> impl FnOnce(ParquetError) -> Failure {
    move |error| match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(error) => target::failed(path)(*error),
            Err(error) => ParquetError::External(error).into(),
        },
        error => error.into(),
    }
}

/// How the columns are encoded. In some of them hardly a value comes twice: a dictionary of them is
/// of no use.
fn properties(without_dictionary: &[&str]) -> WriterPropertiesBuilder {
    let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    for column in without_dictionary {
        let path = column.split('.').map(str::to_owned).collect::<Vec<_>>();
        properties = properties.set_column_dictionary_enabled(ColumnPath::new(path), false);
    }
    properties
}

impl ColumnEncoder {
    pub(crate) fn new(schema: Schema, without_dictionary: &[&str]) -> Result<Self, Failure> {
        let schema = Arc::new(schema);
        let properties = properties(without_dictionary).build();
        // The row groups of all files with these columns are the same.
        let writer = ArrowWriter::try_new(io::sink(), Arc::clone(&schema), Some(properties))?;
        let (_, factory) = writer.into_serialized_writer()?;
        Ok(Self { schema, factory })
    }

    /// Encodes a row group.
    pub(crate) fn encode(&self, batch: &RecordBatch) -> Result<EncodedColumns, Failure> {
        // The number of the group matters to encrypted files alone.
        let mut writers = self.factory.create_column_writers(0)?.into_iter();
        let (mut columns, mut bytes) = (Vec::with_capacity(writers.len()), 0);
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            // A nested column has several leaves, and a writer for each.
            for (leaf, mut writer) in compute_leaves(field, column)?.iter().zip(writers.by_ref()) {
                writer.write(leaf)?;
                bytes += writer.get_estimated_total_bytes();
                columns.push(writer.close()?);
            }
        }
        Ok(EncodedColumns { columns, bytes })
    }
}

impl ParquetWriter {
    /// Begins a file of columns that an encoder makes with the same schema.
    pub(crate) fn open(
        target: Target,
        schema: Schema,
        without_dictionary: &[&str],
        metadata: &Metadata,
    ) -> Result<Self, Failure> {
        let pairs = metadata
            .iter()
            .map(|(key, text)| KeyValue::new(key.to_owned(), text.to_owned()));
        let properties = properties(without_dictionary).set_key_value_metadata(Some(pairs.collect()));
        let path = target.path().map(Path::to_owned);
        let schema = Arc::new(metadata.of_schema(schema));
        let writer = ArrowWriter::try_new(target, schema, Some(properties.build()));
        let opened = writer.and_then(ArrowWriter::into_serialized_writer);
        let (file, _) = opened.map_err(failed(path.as_deref()))?;
        Ok(Self { file, path })
    }

    /// Appends a row group.
    pub(crate) fn add(&mut self, encoded: EncodedColumns) -> Result<(), Failure> {
        let append = || {
            let mut group = self.file.next_row_group()?;
            for column in encoded.columns {
                column.append_to_row_group(&mut group)?;
            }
            group.close()
        };
        append().map(drop).map_err(failed(self.path.as_deref()))
    }

    /// Writes the end of the file, which has no name yet.
    pub(crate) fn end(self) -> Result<Target, Failure> {
        self.file.into_inner().map_err(failed(self.path.as_deref()))
    }
}

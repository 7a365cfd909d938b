//! A table of coins as a Parquet file: a row group for each batch of coins, compressed by
//! Zstandard. The columns of a group are encoded by the thread that has its coins.

use crate::export::coin_row::{COLUMNS, CoinRow};
use crate::export::target::Target;
use crate::failure::Failure;
use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::sync::Arc;

/// Columns in which hardly a value comes twice: a dictionary of them is of no use.
const WITHOUT_DICTIONARY: [&str; 3] = ["txid", "script", "address"];

/// The columns of a row group, encoded.
pub(crate) type EncodedColumns = Vec<ArrowColumnChunk>;

/// Encodes the columns of row groups. Several threads may do so at once.
pub(crate) struct ColumnEncoder {
    schema: Arc<Schema>,
    factory: ArrowRowGroupWriterFactory,
}

/// A file that is being written.
pub(crate) struct ParquetWriter {
    file: SerializedFileWriter<Target>,
}

fn schema() -> Schema {
    let types = [
        (DataType::Utf8, false),
        (DataType::UInt32, false),
        (DataType::UInt32, false),
        (DataType::Boolean, false),
        (DataType::Int64, false),
        (DataType::Utf8, false),
        (DataType::Utf8, false),
        (DataType::Utf8, true),
    ];
    let fields = COLUMNS.iter().zip(types);
    Schema::new(
        fields
            .map(|(name, (kind, nullable))| Field::new(*name, kind, nullable))
            .collect::<Vec<_>>(),
    )
}

/// Begins a file.
pub(crate) fn open(target: Target) -> Result<(ColumnEncoder, ParquetWriter), Failure> {
    let schema = Arc::new(schema());
    let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    for column in WITHOUT_DICTIONARY {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(column), false);
    }
    let writer = ArrowWriter::try_new(target, Arc::clone(&schema), Some(properties.build()))?;
    let (file, factory) = writer.into_serialized_writer()?;
    Ok((ColumnEncoder { schema, factory }, ParquetWriter { file }))
}

impl ColumnEncoder {
    /// Encodes a row group.
    pub(crate) fn encode(&self, rows: impl Iterator<Item = CoinRow>) -> Result<EncodedColumns, Failure> {
        let batch = self.batch(rows)?;
        let mut columns = Vec::with_capacity(batch.num_columns());
        // The number of the group matters to encrypted files alone.
        let writers = self.factory.create_column_writers(0)?;
        for ((field, column), mut writer) in self.schema.fields().iter().zip(batch.columns()).zip(writers) {
            for leaf in compute_leaves(field, column)? {
                writer.write(&leaf)?;
            }
            columns.push(writer.close()?);
        }
        Ok(columns)
    }

    fn batch(&self, rows: impl Iterator<Item = CoinRow>) -> Result<RecordBatch, Failure> {
        let mut txid = StringBuilder::new();
        let mut vout = UInt32Builder::new();
        let mut height = UInt32Builder::new();
        let mut coinbase = BooleanBuilder::new();
        let mut value = Int64Builder::new();
        let mut script = StringBuilder::new();
        let mut script_type = StringBuilder::new();
        let mut address = StringBuilder::new();
        for row in rows {
            txid.append_value(&row.txid);
            vout.append_value(row.vout);
            height.append_value(row.height);
            coinbase.append_value(row.coinbase);
            value.append_value(row.value);
            script.append_value(&row.script);
            script_type.append_value(row.script_type);
            address.append_option(row.address.as_deref());
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(txid.finish()),
            Arc::new(vout.finish()),
            Arc::new(height.finish()),
            Arc::new(coinbase.finish()),
            Arc::new(value.finish()),
            Arc::new(script.finish()),
            Arc::new(script_type.finish()),
            Arc::new(address.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        Ok(batch.map_err(ParquetError::from)?)
    }
}

impl ParquetWriter {
    /// Appends a row group.
    pub(crate) fn add(&mut self, columns: EncodedColumns) -> Result<(), Failure> {
        let mut group = self.file.next_row_group()?;
        for column in columns {
            column.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the end of the file, and completes it. Returns its length, where it has one.
    pub(crate) fn complete(self) -> Result<Option<u64>, Failure> {
        self.file.into_inner()?.complete()
    }
}

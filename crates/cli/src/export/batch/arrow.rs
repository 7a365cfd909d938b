//! The columns in the form of Apache Arrow.

use super::{Batch, ColumnType, Kind, Texts, Values};
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use std::sync::Arc;

/// Moments are in universal time, in the largest unit that Parquet has.
const ZONE: &str = "UTC";

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Bool => DataType::Boolean,
        Kind::U32 => DataType::UInt32,
        Kind::U64 => DataType::UInt64,
        Kind::I64 => DataType::Int64,
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some(ZONE.into())),
        Kind::Text => DataType::Utf8,
    }
}

/// The schema of a table.
pub(crate) fn schema_of(types: &[ColumnType]) -> Schema {
    let field = |column: &ColumnType| Field::new(column.name, data_type(column.kind), column.is_nullable);
    Schema::new(types.iter().map(field).collect::<Vec<_>>())
}

fn array(values: Values) -> ArrayRef {
    match values {
        Values::Bool(values) => Arc::new(BooleanArray::from(values)),
        Values::U32(values) => Arc::new(UInt32Array::from(values)),
        Values::U64(values) => Arc::new(UInt64Array::from(values)),
        Values::I64(values) => Arc::new(Int64Array::from(values)),
        Values::Time(values) => {
            let values = values
                .into_iter()
                .map(|value| value.map(|seconds| i64::from(seconds) * 1000));
            Arc::new(TimestampMillisecondArray::from_iter(values).with_timezone(ZONE))
        }
        Values::Text(texts) => Arc::new(Texts::iter(&texts).collect::<StringArray>()),
    }
}

impl Batch {
    /// The same rows, under a schema of [`schema_of`].
    pub(crate) fn into_arrow(self, schema: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::clone(schema), self.values.into_iter().map(array).collect())
    }
}

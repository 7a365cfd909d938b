//! The columns in the form of Apache Arrow.

use super::{Batch, ColumnType, Ids, Kind, Texts, Values};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use blockmill_block::hex;
use std::sync::Arc;

/// Moments are in universal time, in the largest unit that Parquet has.
const ZONE: &str = "UTC";

/// Bytes of an id.
const ID_BYTES: i32 = 32;

fn data_type(kind: Kind, ids: Ids) -> DataType {
    match kind {
        Kind::Bool => DataType::Boolean,
        Kind::U32 => DataType::UInt32,
        Kind::U64 => DataType::UInt64,
        Kind::I64 => DataType::Int64,
        Kind::F64 => DataType::Float64,
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some(ZONE.into())),
        Kind::Id if ids == Ids::Binary => DataType::FixedSizeBinary(ID_BYTES),
        Kind::Id | Kind::Text | Kind::Hex => DataType::Utf8,
    }
}

/// The schema of a table.
pub fn schema_of(types: &[ColumnType], ids: Ids) -> Schema {
    let field = |column: &ColumnType| Field::new(column.name, data_type(column.kind, ids), column.is_nullable);
    Schema::new(types.iter().map(field).collect::<Vec<_>>())
}

fn array(values: Values, ids: Ids) -> Result<ArrayRef, ArrowError> {
    Ok(match values {
        Values::Bool(values) => Arc::new(BooleanArray::from(values)),
        Values::U32(values) => Arc::new(UInt32Array::from(values)),
        Values::U64(values) => Arc::new(UInt64Array::from(values)),
        Values::I64(values) => Arc::new(Int64Array::from(values)),
        Values::F64(values) => Arc::new(Float64Array::from(values)),
        Values::Time(values) => {
            let values = values
                .into_iter()
                .map(|value| value.map(|seconds| i64::from(seconds) * 1000));
            Arc::new(TimestampMillisecondArray::from_iter(values).with_timezone(ZONE))
        }
        Values::Id(values) => match ids {
            Ids::Hex => {
                let texts = values.iter().map(|value| value.map(|id| hex::encode(&id)));
                Arc::new(texts.collect::<StringArray>())
            }
            Ids::Binary => {
                let values = values.iter().map(|value| value.as_ref());
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, ID_BYTES)?)
            }
        },
        Values::Text(texts) => Arc::new(Texts::iter(&texts).collect::<StringArray>()),
    })
}

impl Batch {
    /// The same rows, under a schema of [`schema_of`] with the same form of ids.
    ///
    /// # Errors
    /// That the schema is another one, or that texts have more bytes than fit into a column.
    pub fn into_arrow(self, schema: &Arc<Schema>, ids: Ids) -> Result<RecordBatch, ArrowError> {
        let columns = self.values.into_iter().map(|values| array(values, ids));
        RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
    }
}

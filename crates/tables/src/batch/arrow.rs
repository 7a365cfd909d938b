//! The columns in the form of Apache Arrow.

use super::{Batch, ColumnType, Ids, Kind, Texts, Values};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
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

/// Texts that stand one after the other, with the end of each; none where it is missing.
fn text_array(bytes: Vec<u8>, ends: &[Option<usize>]) -> Result<ArrayRef, ArrowError> {
    if i32::try_from(bytes.len()).is_err() {
        let why = format!("a column of texts has {} bytes", bytes.len());
        return Err(ArrowError::InvalidArgumentError(why));
    }
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    let mut last = 0;
    offsets.extend(ends.iter().map(|end| {
        last = end.map_or(last, |end| end as i32);
        last
    }));
    let nulls: NullBuffer = ends.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Ok(Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?))
}

fn hex_array(ids: &[Option<[u8; 32]>]) -> Result<ArrayRef, ArrowError> {
    let mut digits = Vec::with_capacity(ids.len() * 64);
    let ends = ids.iter().map(|id| {
        hex::append(id.as_ref()?, &mut digits);
        Some(digits.len())
    });
    let ends: Vec<_> = ends.collect();
    text_array(digits, &ends)
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
            Ids::Hex => hex_array(&values)?,
            Ids::Binary => {
                let values = values.iter().map(|value| value.as_ref());
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, ID_BYTES)?)
            }
        },
        Values::Text(Texts { text, ends }) => text_array(text.into_bytes(), &ends)?,
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

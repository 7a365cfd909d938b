//! The columns of tables, in the form of Apache Arrow.

use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Field, Fields};
use std::sync::Arc;

/// A column of some rows.
pub struct Column {
    field: Field,
    values: ArrayRef,
}

impl Column {
    /// A column in which every row has a value.
    pub(crate) fn new(name: &str, values: impl Array + 'static) -> Self {
        Self {
            field: Field::new(name, values.data_type().clone(), false),
            values: Arc::new(values),
        }
    }

    /// A column in which a row may have none.
    pub(crate) fn nullable(name: &str, values: impl Array + 'static) -> Self {
        let column = Self::new(name, values);
        Self {
            field: column.field.with_nullable(true),
            ..column
        }
    }

    /// The same column, of which it is known that every row has a value.
    pub(crate) fn without_nulls(self) -> Self {
        Self {
            field: self.field.with_nullable(false),
            ..self
        }
    }

    /// A column of lists, whose items are rows with columns of their own; `lengths` are the numbers
    /// of items. A row without a number has no list.
    pub(crate) fn of_lists(
        name: &str,
        items: Vec<Self>,
        lengths: impl Iterator<Item = Option<usize>> + Clone,
    ) -> Result<Self, ArrowError> {
        let (fields, values) = fields_and_values(items);
        let items = StructArray::try_new(fields, values, None)?;
        let item = Field::new("item", items.data_type().clone(), false);
        let nulls: NullBuffer = lengths.clone().map(|length| length.is_some()).collect();
        let offsets = OffsetBuffer::from_lengths(lengths.map(Option::unwrap_or_default));
        let lists = ListArray::try_new(Arc::new(item), offsets, Arc::new(items), Some(nulls))?;
        Ok(Self::nullable(name, lists))
    }
}

/// What a schema is made of, and the values.
pub fn fields_and_values(columns: Vec<Column>) -> (Fields, Vec<ArrayRef>) {
    let pairs = columns.into_iter().map(|column| (column.field, column.values));
    let (fields, values): (Vec<Field>, _) = pairs.unzip();
    (fields.into(), values)
}

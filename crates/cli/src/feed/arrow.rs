//! Events as a stream of Apache Arrow: a row for each event, with a list of the transactions.

use crate::arrow_stream::ArrowStream;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use blockmill_tables::column::fields_and_values;
use blockmill_tables::event::{Event, event_columns};
use std::collections::HashMap;
use std::sync::Arc;

/// The key of the schema's metadata that has the version of the protocol.
const VERSION: (&str, &str) = ("blockmill-feed", "1");

/// A stream of no events yet.
pub(crate) fn stream() -> Result<ArrowStream, ArrowError> {
    // The columns of no events have the names and the types of all.
    let (fields, _) = fields_and_values(event_columns(&[])?);
    let metadata = HashMap::from([(VERSION.0.to_owned(), VERSION.1.to_owned())]);
    Ok(ArrowStream::new(Schema::new_with_metadata(fields, metadata)))
}

/// Appends a batch of events.
pub(crate) fn write_events(stream: &ArrowStream, events: &[Event], bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    let (_, values) = fields_and_values(event_columns(events)?);
    let batch = RecordBatch::try_new(Arc::clone(&stream.schema), values)?;
    stream.write_batch(&batch, bytes)
}

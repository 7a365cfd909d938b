//! Events as a stream of Apache Arrow (IPC): a row for each event, with a list of the transactions.
//!
//! Batches of rows do not depend on one another, so several threads may encode some at once.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamEncoder, write_message,
};
use arrow_schema::{ArrowError, Schema};
use blockmill_tables::column::fields_and_values;
use blockmill_tables::event::{Event, event_columns};
use std::collections::HashMap;
use std::sync::Arc;

/// The key of the schema's metadata that has the version of the protocol.
const VERSION: (&str, &str) = ("blockmill-feed", "1");

/// What a stream ends with: a message without a length.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Encodes events.
pub(crate) struct ArrowEncoder {
    schema: Arc<Schema>,
    options: IpcWriteOptions,
}

impl ArrowEncoder {
    pub(crate) fn new() -> Result<Self, ArrowError> {
        // The columns of no events have the names and the types of all.
        let (fields, _) = fields_and_values(event_columns(&[])?);
        let metadata = HashMap::from([(VERSION.0.to_owned(), VERSION.1.to_owned())]);
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            options: IpcWriteOptions::default(),
        })
    }

    /// What a stream begins with.
    pub(crate) fn head(&self) -> Result<Vec<u8>, ArrowError> {
        // A stream of nothing is its schema and its end.
        let mut head = Vec::new();
        for buffer in StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?.finish()? {
            head.extend_from_slice(&buffer);
        }
        debug_assert!(head.ends_with(&END), "another end");
        head.truncate(head.len() - END.len());
        Ok(head)
    }

    /// Appends a batch of events.
    pub(crate) fn write_batch(&self, events: &[Event], stream: &mut Vec<u8>) -> Result<(), ArrowError> {
        let (_, values) = fields_and_values(event_columns(events)?);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), values)?;
        // No column has a dictionary, so a batch needs none of the batches before it.
        let (_, message) = IpcDataGenerator::default().encode(
            &batch,
            &mut DictionaryTracker::new(false),
            &self.options,
            &mut IpcWriteContext::default(),
        )?;
        write_message(stream, message, &self.options)?;
        Ok(())
    }
}

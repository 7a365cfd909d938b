//! Batches of rows as a stream of Apache Arrow (IPC): a head with the schema, a message for each
//! batch, and an end.
//!
//! Messages do not depend on one another, so several threads may encode some at once.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamEncoder, write_message,
};
use arrow_schema::{ArrowError, Schema};
use std::sync::Arc;

/// What a stream ends with: a message without a length.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Encodes a stream.
pub(crate) struct ArrowStream {
    pub(crate) schema: Arc<Schema>,
    options: IpcWriteOptions,
}

impl ArrowStream {
    /// A stream of rows under a schema, no column of which has a dictionary.
    pub(crate) fn new(schema: Schema) -> Self {
        Self {
            schema: Arc::new(schema),
            options: IpcWriteOptions::default(),
        }
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

    /// Appends the message of a batch.
    pub(crate) fn write_batch(&self, batch: &RecordBatch, stream: &mut Vec<u8>) -> Result<(), ArrowError> {
        // No column has a dictionary, so a batch needs none of the batches before it.
        let (_, message) = IpcDataGenerator::default().encode(
            batch,
            &mut DictionaryTracker::new(false),
            &self.options,
            &mut IpcWriteContext::default(),
        )?;
        write_message(stream, message, &self.options)?;
        Ok(())
    }
}

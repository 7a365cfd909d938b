//! Events as a stream of Apache Arrow (IPC): a row for each event, with a list of the transactions.
//!
//! Batches of rows do not depend on one another, so several threads may encode some at once.

use crate::export::column::{Column, fields_and_values};
use crate::export::transaction_row::columns::{header_columns, transaction_columns};
use crate::feed::event::Event;
use arrow_array::{RecordBatch, StringArray, UInt32Array};
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamEncoder, write_message,
};
use arrow_schema::{ArrowError, Schema};
use std::collections::HashMap;
use std::sync::Arc;

/// The key of the schema's metadata that has the version of the protocol.
const VERSION: (&str, &str) = ("blockmill-feed", "1");

/// What a stream ends with: a message without a length.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The columns of events. What an event does not have in JSON is null.
fn columns(events: &[Event]) -> Result<Vec<Column>, ArrowError> {
    let words = events.iter().map(|event| Some(event.word()));
    let heads = events.iter().map(|event| match event {
        Event::Block(block) => Some((block.block.height, &*block.block.block_hash)),
        Event::Tip(tip) => Some((tip.height, &*tip.block_hash)),
        Event::Error(_) => None,
    });
    let blocks = || {
        events.iter().map(|event| match event {
            Event::Block(block) => Some(block),
            Event::Tip(_) | Event::Error(_) => None,
        })
    };
    let errors = events.iter().map(|event| match event {
        Event::Error(error) => Some(&*error.error),
        Event::Block(_) | Event::Tip(_) => None,
    });
    let headers: Vec<_> = blocks().map(|block| block.map(|block| &block.block)).collect();
    let parents = blocks().map(|block| block.map(|block| &*block.previous_block_hash));
    let transactions: Vec<_> = blocks().flatten().flat_map(|block| &block.transactions).collect();
    let counts = blocks().map(|block| block.map(|block| block.transactions.len()));
    let mut columns = vec![
        Column::new("event", words.collect::<StringArray>()),
        Column::nullable(
            "height",
            heads
                .clone()
                .map(|head| head.map(|head| head.0))
                .collect::<UInt32Array>(),
        ),
        Column::nullable(
            "block_hash",
            heads.map(|head| head.map(|head| head.1)).collect::<StringArray>(),
        ),
    ];
    columns.append(&mut header_columns(&headers));
    columns.extend([
        Column::nullable("previous_block_hash", parents.collect::<StringArray>()),
        Column::of_lists("transactions", transaction_columns(&transactions)?, counts)?,
        Column::nullable("error", errors.collect::<StringArray>()),
    ]);
    Ok(columns)
}

/// Encodes events.
pub(crate) struct ArrowEncoder {
    schema: Arc<Schema>,
    options: IpcWriteOptions,
}

impl ArrowEncoder {
    pub(crate) fn new() -> Result<Self, ArrowError> {
        // The columns of no events have the names and the types of all.
        let (fields, _) = fields_and_values(columns(&[])?);
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
        let (_, values) = fields_and_values(columns(events)?);
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

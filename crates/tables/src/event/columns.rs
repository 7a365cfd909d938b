//! Events as columns.

use crate::column::Column;
use crate::event::Event;
use crate::transaction_row::columns::{header_columns, transaction_columns};
use arrow_array::{StringArray, UInt32Array};
use arrow_schema::ArrowError;

/// The columns of events. What an event does not have in JSON is null.
///
/// # Errors
/// That a list has more items than fit into a column.
pub fn event_columns(events: &[Event]) -> Result<Vec<Column>, ArrowError> {
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

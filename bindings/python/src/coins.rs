//! The coins of a set as a table.

use crate::fault::Fault;
use crate::opened::Opened;
use crate::stream::Take;
use crate::table::Source;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use blockmill_datadir::Batch;
use blockmill_tables::batch::{Ids, schema_of};
use blockmill_tables::coin_row;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The coins of a set.
pub(crate) struct CoinRows {
    opened: Arc<Opened>,
    /// The scripts of the coins that are wanted; none for all.
    wanted: Option<HashSet<Vec<u8>>>,
    ids: Ids,
    schema: SchemaRef,
}

impl CoinRows {
    pub(crate) fn new(opened: &Arc<Opened>, wanted: Option<HashSet<Vec<u8>>>, ids: Ids) -> Self {
        Self {
            opened: Arc::clone(opened),
            wanted,
            ids,
            schema: Arc::new(schema_of(coin_row::TABLE.columns, ids)),
        }
    }
}

impl Source for CoinRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn run(&self, stop: &Arc<AtomicBool>, take: Take<'_, RecordBatch>) -> Result<(), Fault> {
        let set = self.opened.set(stop, &mut ())?;
        let network = set.directory().chain_id().network;
        let times = set.directory().block_times(&set.tip())?;
        let convert = |mut batch: Batch| {
            if stop.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            if let Some(scripts) = &self.wanted {
                batch.retain(|(_, coin)| scripts.contains(&*coin.script_pubkey));
            }
            if batch.is_empty() {
                return Ok(None);
            }
            let rows = coin_row::rows(batch, &times, network);
            Ok(Some(rows.into_arrow(&self.schema, self.ids)?))
        };
        set.for_each_batch(&convert, &mut |batch| batch.map_or(Ok(()), &mut *take))
    }
}

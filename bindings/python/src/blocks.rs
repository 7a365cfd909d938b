//! Tables of the blocks of a chain.

use crate::fault::Fault;
use crate::stream::Take;
use crate::table::{Rows, Source};
use arrow_array::{Array, BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use blockmill_block::Network;
use blockmill_chain::ChainBlocks;
use blockmill_tables::batch::{Batch, Ids, schema_of};
use blockmill_tables::pass::{Completers, Made, Makers, Portion, heights};
use blockmill_tables::product::ProductKind;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flat table of some blocks.
struct BlockRows {
    blocks: Arc<ChainBlocks>,
    network: Network,
    kind: ProductKind,
    heights: RangeInclusive<u32>,
    ids: Ids,
    /// That of the table.
    own_schema: SchemaRef,
    /// That of the rows, which may have one column more.
    schema: SchemaRef,
    threads: usize,
    /// Whether it does not matter that other blocks are hidden.
    may_be_partial: bool,
    is_alone: bool,
}

/// The column of what the row above would rest on, in rows that are made alone.
const STATE: &str = "state";

/// What is asked of a table.
pub(crate) struct Wanted {
    pub(crate) kind: ProductKind,
    pub(crate) first: u32,
    pub(crate) last: Option<u32>,
    pub(crate) ids: Ids,
    pub(crate) threads: usize,
    pub(crate) may_be_partial: bool,
    /// Whether blocks below are left out on which rows rest.
    pub(crate) is_alone: bool,
}

/// The table with this name.
pub(crate) fn kind_of(name: &str) -> Result<ProductKind, Fault> {
    ProductKind::of_name(name).ok_or_else(|| Fault::Usage(format!("there is no table {name:?}")))
}

/// A table of the blocks of a chain.
pub(crate) fn rows(blocks: &Arc<ChainBlocks>, network: Network, wanted: &Wanted) -> Result<Rows, Fault> {
    let heights = heights(blocks, wanted.first, wanted.last).map_err(|error| Fault::Usage(error.to_string()))?;
    // Those that were asked for are read, or an error says why not.
    let left_out = match wanted.last {
        Some(_) => 0,
        None => blocks.height() - heights.end(),
    };
    let own_schema = Arc::new(schema_of(wanted.kind.table().columns, wanted.ids));
    let schema = match wanted.is_alone && wanted.kind.has_joined_states() {
        true => with_states(&own_schema),
        false => Arc::clone(&own_schema),
    };
    let rows = Rows::new(BlockRows {
        blocks: Arc::clone(blocks),
        network,
        kind: wanted.kind,
        heights,
        ids: wanted.ids,
        own_schema,
        schema,
        threads: wanted.threads,
        may_be_partial: wanted.may_be_partial,
        is_alone: wanted.is_alone,
    });
    Ok(rows.without_blocks(left_out))
}

fn with_states(schema: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(STATE, DataType::Binary, false)));
    Arc::new(Schema::new(fields))
}

impl BlockRows {
    /// The rows of the next blocks, each with the state after it.
    fn rows_and_states(
        &self,
        completers: &mut Completers,
        number: usize,
        mut rows: Batch,
    ) -> Result<RecordBatch, Fault> {
        let states: BinaryArray = completers.states(number, &mut rows).into_iter().map(Some).collect();
        let mut columns = rows.into_arrow(&self.own_schema, self.ids)?.columns().to_vec();
        columns.push(Arc::new(states) as Arc<dyn Array>);
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }

    /// Goes over blocks. The rows of those that are not written are only passed over.
    fn go(
        &self,
        makers: &Makers,
        completers: &mut Completers,
        heights: RangeInclusive<u32>,
        take: Option<Take<'_, RecordBatch>>,
        stop: &AtomicBool,
    ) -> Result<(), Fault> {
        let to_arrow = |_, rows: Batch| rows.into_arrow(&self.own_schema, self.ids).map_err(Fault::from);
        let is_written = take.is_some();
        let has_states = self.is_alone && self.kind.has_joined_states();
        let convert = |heights| {
            let blocks = self
                .blocks
                .iter(heights)
                .map(|read| match stop.load(Ordering::Relaxed) {
                    true => Err(Fault::Stopped),
                    false => Ok(read?),
                });
            let made = makers.make(blocks, self.network, is_written, &to_arrow)?;
            let memory = made.memory(RecordBatch::get_array_memory_size);
            Ok((made.rows, memory))
        };
        let mut take = take;
        let mut take_all = |made: Vec<(usize, Made<RecordBatch>)>| {
            for (number, made) in made {
                match (&mut take, made) {
                    (Some(take), Made::Rows(rows)) if has_states => {
                        take(self.rows_and_states(completers, number, rows)?)?;
                    }
                    (Some(take), made) => take(completers.complete(number, made, &to_arrow)?.0)?,
                    (None, Made::Rows(mut rows)) => completers.pass_over(number, &mut rows)?,
                    (None, Made::Piece(..)) => {}
                }
            }
            Ok(())
        };
        let bytes = Portion::GROUPS.blocks;
        self.blocks
            .for_each_run_in(&[heights], bytes, self.threads, &convert, &mut take_all)
    }
}

impl Source for BlockRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn run(&self, stop: &Arc<AtomicBool>, take: Take<'_, RecordBatch>) -> Result<(), Fault> {
        let makers = Makers::new(&[self.kind], &self.blocks);
        let mut completers = makers.completers();
        let below = self.heights.start().checked_sub(1);
        let mut done = Ok(());
        if let Some(below) = below.filter(|_| !self.is_alone && makers.rests_on_blocks_below()) {
            done = self.go(&makers, &mut completers, 0..=below, None, stop);
        }
        if done.is_ok() {
            done = self.go(&makers, &mut completers, self.heights.clone(), Some(take), stop);
        }
        // A block that cannot be read may hide others.
        if !self.may_be_partial && matches!(done, Ok(()) | Err(Fault::File(_))) {
            let hidden = self.blocks.find_hidden(stop)?.ok_or(Fault::Stopped)?;
            if let Some(reason) = hidden.reasons.first() {
                return Err(Fault::Incomplete(reason.to_string()));
            }
        }
        done
    }
}

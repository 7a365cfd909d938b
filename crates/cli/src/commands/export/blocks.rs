//! `blockmill export blocks`.

use crate::arguments::export::{ExportBlocksArguments, NestedFormat};
use crate::arguments::{chain_of, is_standard};
use crate::commands::{cores, open_newest};
#[cfg(feature = "tables")]
use crate::export::parquet::write_parquet;
use crate::export::table::{Convert, Rows, Written, say_written, write_lines};
use crate::export::target::{Target, format_of};
use crate::export::text;
use crate::export::transaction_row::{BlockRow, TransactionFields, TransactionRow, memory_of_row};
use crate::failure::Failure;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::whole;
use blockmill_block::Network;
use blockmill_chain::{ChainBlocks, Wholeness};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of the blocks whose rows are made by a thread at a time, and are a row group of a Parquet
/// file where they fit into memory.
const RUN_BYTES: u64 = 4 << 20;

/// Memory in bytes of the rows that are converted together, about. Those of a usual run take less.
const ROWS_BYTES: usize = 24 << 20;

/// What the ending of a name says of the format.
const ENDINGS: &[(&str, NestedFormat)] = &[
    #[cfg(feature = "tables")]
    ("parquet", NestedFormat::Parquet),
    ("jsonl", NestedFormat::Jsonl),
];

/// The transactions that are exported.
struct Transactions<'a> {
    blocks: ChainBlocks,
    network: Network,
    heights: RangeInclusive<u32>,
    out: &'a Path,
    stop: Arc<AtomicBool>,
    /// Whether the export begins anew where blocks hide others, of which no search knew.
    begins_anew: bool,
    /// Whether blocks hide others, once all were read.
    hidden: OnceLock<Wholeness>,
}

impl Transactions<'_> {
    /// Converts the rows of some blocks: all together, unless they take too much memory. Returns
    /// their number, too.
    fn pieces<T>(
        &self,
        heights: RangeInclusive<u32>,
        convert: Convert<'_, TransactionRow, T>,
    ) -> Result<(Vec<T>, u64), Failure> {
        let (mut pieces, mut rows) = (Vec::new(), Vec::new());
        let (mut count, mut memory) = (0, 0);
        let mut convert = |rows: &mut Vec<TransactionRow>| {
            count += rows.len() as u64;
            pieces.push(convert(&mut std::mem::take(rows).into_iter())?);
            Ok::<_, Failure>(())
        };
        for read in self.blocks.iter(heights) {
            let read = read?;
            let block = BlockRow::new(&read, self.blocks.median_time_past(read.height)?);
            for (position, spending) in (0..).zip(read.transactions()) {
                rows.push(TransactionRow {
                    block: block.clone(),
                    transaction: TransactionFields::new(position, &spending, self.network),
                });
                memory += memory_of_row(&spending);
                if memory > ROWS_BYTES {
                    convert(&mut rows)?;
                    memory = 0;
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped(self.out.to_owned()));
            }
        }
        if !rows.is_empty() {
            convert(&mut rows)?;
        }
        Ok((pieces, count))
    }
}

impl Rows for Transactions<'_> {
    type Row = TransactionRow;

    fn run<T: Send>(
        &self,
        meter: &mut EngineMeter,
        convert: Convert<'_, TransactionRow, T>,
        take: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let convert = |heights: RangeInclusive<u32>| {
            let (pieces, count) = self.pieces(heights.clone(), convert)?;
            Ok((pieces, count, *heights.end()))
        };
        let (first, last) = self.heights.clone().into_inner();
        let mut rows = 0;
        let mut take = |(pieces, count, end): (Vec<T>, u64, u32)| {
            rows += count;
            // Runs come in order, so all blocks up to the end of this one are done.
            meter.blocks((end - first + 1).into(), (last - first + 1).into(), rows);
            pieces.into_iter().try_for_each(&mut *take)
        };
        let done = self
            .blocks
            .for_each_run(self.heights.clone(), RUN_BYTES, cores(), &convert, &mut take);
        // The block that cannot be read may hide others.
        if let Ok(()) | Err(Failure::Block(_)) = done {
            let hidden = self.blocks.find_hidden(&self.stop)?;
            let hidden = hidden.ok_or_else(|| Failure::Stopped(self.out.to_owned()))?;
            if self.begins_anew && !hidden.is_whole() {
                return Err(Failure::Hidden(hidden));
            }
            let _ = self.hidden.set(hidden);
        }
        done?;
        Ok(rows)
    }
}

/// The blocks that the arguments name, and their network.
fn open(
    arguments: &ExportBlocksArguments,
    stop: &AtomicBool,
    meter: &mut EngineMeter,
) -> Result<(ChainBlocks, Network), Failure> {
    let stopped = || Failure::Stopped(arguments.out.clone());
    let chain_id = chain_of(arguments.network, arguments.signet_challenge.as_ref())?;
    let Some(data) = &arguments.data else {
        let Some(chain_id) = chain_id else {
            return Err(Failure::Usage("--blocks without --data needs --network".to_owned()));
        };
        let blocks = ChainBlocks::of_files(&arguments.blocks, &[], &chain_id.params(), stop, meter)?;
        return Ok((blocks.ok_or_else(stopped)?, chain_id.network));
    };
    let set = open_newest(data, arguments.older.reach(), cores())?;
    let own = set.directory().chain_id();
    if let Some(asked) = chain_id.filter(|asked| asked != own) {
        return Err(Failure::Usage(format!(
            "{} is of {}, not of {}",
            data.display(),
            own.text(),
            asked.text()
        )));
    }
    let mut blocks = set.blocks()?;
    match blocks.add_files(&arguments.blocks, stop, meter)? {
        true => Ok((blocks, own.network)),
        false => Err(stopped()),
    }
}

pub(crate) fn run(arguments: &ExportBlocksArguments) -> Result<u8, Failure> {
    let format = format_of(&arguments.out, arguments.format, ENDINGS)?;
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let (mut blocks, network) = open(arguments, &stop, &mut meter)?;
    loop {
        let mut transactions = transactions(arguments, blocks, network, &stop)?;
        match export(arguments, format, &transactions, &mut meter) {
            // What was written has no name yet. The chain goes on with the hidden blocks.
            Err(Failure::Hidden(_)) => {
                let again = transactions
                    .blocks
                    .with_hidden(&arguments.blocks, &[], &stop, &mut meter)?;
                blocks = again.ok_or_else(|| Failure::Stopped(arguments.out.clone()))?;
            }
            Ok(written) => {
                drop(meter);
                let hidden = transactions.hidden.take().unwrap_or_default();
                return say(arguments, &transactions, &written, hidden);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// The transactions of a chain that the arguments ask for.
fn transactions<'a>(
    arguments: &'a ExportBlocksArguments,
    blocks: ChainBlocks,
    network: Network,
    stop: &Arc<AtomicBool>,
) -> Result<Transactions<'a>, Failure> {
    let (from, tip) = (arguments.from, blocks.height());
    let to = match arguments.to {
        Some(to) => to,
        // The first block has no undo data, and needs none.
        None if from < tip => blocks.last_with_undo(from.max(1)..=tip),
        None => tip,
    };
    if from > to.min(tip) || to > tip {
        return Err(Failure::Usage(format!(
            "there are no blocks from height {from} to {to}: the chain has heights 0 to {tip}"
        )));
    }
    Ok(Transactions {
        blocks,
        network,
        heights: from..=to,
        out: &arguments.out,
        stop: Arc::clone(stop),
        // What standard output has got is not taken back.
        begins_anew: arguments.data.is_none() && !is_standard(&arguments.out),
        hidden: OnceLock::new(),
    })
}

fn export(
    arguments: &ExportBlocksArguments,
    format: NestedFormat,
    transactions: &Transactions<'_>,
    meter: &mut EngineMeter,
) -> Result<Written, Failure> {
    let target = Target::open(&arguments.out, arguments.force)?;
    match format {
        #[cfg(feature = "tables")]
        NestedFormat::Parquet => write_parquet(transactions, target, meter),
        NestedFormat::Jsonl => write_lines(transactions, target, meter, "", &text::jsonl),
    }
}

/// Reports an export. Returns the exit status.
fn say(
    arguments: &ExportBlocksArguments,
    transactions: &Transactions<'_>,
    written: &Written,
    hidden: Wholeness,
) -> Result<u8, Failure> {
    let (from, to) = transactions.heights.clone().into_inner();
    let tip = transactions.blocks.height();
    let mut wholeness = transactions.blocks.wholeness().clone();
    wholeness.join(hidden);
    whole::say(&wholeness);
    if arguments.to.is_none() && to < tip {
        whole::say_without_undo_yet(tip - to, tip);
    }
    let blocks = to - from + 1;
    let what = format!(
        "{} of {}",
        output::counted(written.rows, "transaction"),
        output::counted(blocks.into(), "block")
    );
    let fields = json!({"blocks": blocks, "transactions": written.rows});
    say_written(&what, fields, written.bytes, &arguments.out)?;
    Ok(whole::exit_status(wholeness.outcome()))
}

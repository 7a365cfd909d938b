//! `blockmill export blocks`.

use crate::arguments::{ExportBlocksArguments, NestedFormat, chain_of};
use crate::commands::cores;
use crate::export::table::{Convert, Rows, say_written, write_lines, write_parquet};
use crate::export::text;
use crate::export::transaction_row::{BlockFacts, TransactionRow};
use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::whole;
use blockmill_block::Network;
use blockmill_engine::{ChainBlocks, UtxoSet};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the blocks whose rows are made by a thread at a time, and are a row group of a Parquet
/// file.
const RUN_BYTES: u64 = 4 << 20;

/// The transactions that are exported.
struct Transactions<'a> {
    blocks: ChainBlocks,
    network: Network,
    heights: RangeInclusive<u32>,
    out: &'a Path,
    stop: Arc<AtomicBool>,
}

impl Transactions<'_> {
    /// The rows of some blocks.
    fn rows(&self, heights: RangeInclusive<u32>) -> Result<Vec<TransactionRow>, Failure> {
        let mut rows = Vec::new();
        for read in self.blocks.iter(heights) {
            let read = read?;
            let facts = BlockFacts::new(&read, self.blocks.median_time_past(read.height)?, self.network);
            let numbered = (0..).zip(read.transactions());
            rows.extend(numbered.map(|(position, spending)| TransactionRow::new(&facts, position, &spending)));
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped(self.out.to_owned()));
            }
        }
        Ok(rows)
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
            let rows = self.rows(heights.clone())?;
            let count = rows.len() as u64;
            let piece = convert(&mut rows.into_iter())?;
            Ok((piece, count, *heights.end()))
        };
        let (first, last) = self.heights.clone().into_inner();
        let mut rows = 0;
        let mut take = |(piece, count, end): (T, u64, u32)| {
            rows += count;
            meter.blocks((end - first + 1).into(), (last - first + 1).into(), rows);
            take(piece)
        };
        self.blocks
            .for_each_run(self.heights.clone(), RUN_BYTES, cores(), &convert, &mut take)?;
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
    let set = UtxoSet::open_with(data, cores(), arguments.older.reach())?;
    log::older(set.older());
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
    let out = &arguments.out;
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let (blocks, network) = open(arguments, &stop, &mut meter)?;
    let (from, tip) = (arguments.from, blocks.height());
    let to = match arguments.to {
        Some(to) => to,
        None if from < tip => blocks.last_with_undo(from.max(1)..=tip),
        None => tip,
    };
    if from > to.min(tip) || to > tip {
        return Err(Failure::Usage(format!(
            "there are no blocks from height {from} to {to}: the chain has heights 0 to {tip}"
        )));
    }
    let transactions = Transactions {
        blocks,
        network,
        heights: from..=to,
        out,
        stop,
    };
    let written = match arguments.format {
        NestedFormat::Parquet => write_parquet(&transactions, out, &mut meter)?,
        NestedFormat::Jsonl => write_lines(&transactions, out, &mut meter, "", &text::jsonl)?,
    };
    let mut wholeness = transactions.blocks.wholeness().clone();
    if let Some(hidden) = transactions.blocks.find_hidden(&transactions.stop, &mut meter)? {
        wholeness.join(hidden);
    }
    drop(meter);
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
    say_written(&what, fields, written.bytes, out)?;
    Ok(whole::exit_status(wholeness.outcome()))
}

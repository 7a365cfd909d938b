//! `blockmill export blocks`.

use super::pass::{self, Asked, OfRun, Pass};
use crate::arguments::export::{ExportBlocksArguments, NestedFormat};
#[cfg(feature = "tables")]
use crate::export::parquet::write_parquet;
use crate::export::table::{Convert, Memory, Rows, Written, write_lines};
use crate::export::target::{Target, format_of};
use crate::export::text;
use crate::failure::Failure;
use crate::progress::EngineMeter;
use blockmill_tables::pass::Portion;
use blockmill_tables::transaction_row::{BlockRow, TransactionFields, TransactionRow, memory_of_row};
use std::ops::RangeInclusive;

/// What the ending of a name says of the format.
const ENDINGS: &[(&str, NestedFormat)] = &[
    #[cfg(feature = "tables")]
    ("parquet", NestedFormat::Parquet),
    ("jsonl", NestedFormat::Jsonl),
];

/// The transactions that are exported.
struct Transactions<'a> {
    pass: &'a Pass<'a>,
    portion: Portion,
}

impl Transactions<'_> {
    /// Converts the rows of some blocks: all together, unless they take too much memory.
    fn pieces<T: Memory>(
        &self,
        heights: RangeInclusive<u32>,
        convert: Convert<'_, TransactionRow, T>,
    ) -> Result<OfRun<Vec<T>>, Failure> {
        let pass = self.pass;
        let (mut pieces, mut rows) = (Vec::new(), Vec::new());
        let (mut count, mut memory) = (0, 0);
        let mut convert = |rows: &mut Vec<TransactionRow>| {
            count += rows.len() as u64;
            pieces.push(convert(&mut std::mem::take(rows).into_iter())?);
            Ok::<_, Failure>(())
        };
        for read in pass.blocks.iter(heights) {
            let read = read?;
            let block = BlockRow::new(&read, pass.blocks.median_time_past(read.height)?);
            for (position, spending) in (0..).zip(read.transactions()) {
                rows.push(TransactionRow {
                    block: block.clone(),
                    transaction: TransactionFields::new(position, &spending, pass.network),
                });
                memory += memory_of_row(&spending);
                if memory > self.portion.rows {
                    convert(&mut rows)?;
                    memory = 0;
                }
            }
            pass.check_stop()?;
        }
        if !rows.is_empty() {
            convert(&mut rows)?;
        }
        Ok(OfRun {
            memory: pieces.iter().map(Memory::memory).sum(),
            made: pieces,
            transactions: count,
        })
    }
}

impl Rows for Transactions<'_> {
    type Row = TransactionRow;

    fn run<T: Send + Memory>(
        &self,
        meter: &mut EngineMeter,
        convert: Convert<'_, TransactionRow, T>,
        take: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let &Self { pass, portion } = self;
        let convert = |heights| self.pieces(heights, convert);
        let mut take = |_, pieces: Vec<T>| pieces.into_iter().try_for_each(&mut *take);
        pass.run(std::slice::from_ref(&pass.heights), portion, meter, &convert, &mut take)
    }
}

pub(crate) fn run(arguments: &ExportBlocksArguments) -> Result<u8, Failure> {
    let (out, force) = (&arguments.pass.out, arguments.pass.force);
    let format = format_of(out, arguments.format, ENDINGS)?;
    let asked = Asked {
        arguments: &arguments.pass,
        from: arguments.pass.from.unwrap_or(0),
        stopped: Failure::Stopped,
    };
    pass::run(&asked, &|pass, meter| {
        let target = Target::open(out, force)?;
        let portion = match format {
            #[cfg(feature = "tables")]
            NestedFormat::Parquet => Portion::GROUPS,
            NestedFormat::Jsonl => Portion::ROWS,
        };
        let transactions = Transactions { pass, portion };
        let (rows, bytes) = match format {
            #[cfg(feature = "tables")]
            NestedFormat::Parquet => write_parquet(&transactions, target, &pass.metadata()?, meter),
            NestedFormat::Jsonl => write_lines(&transactions, target, meter, &text::jsonl),
        }?;
        Ok(vec![Written {
            row: "transaction",
            rows,
            out: out.clone(),
            bytes,
            added: None,
            files: None,
        }])
    })
}

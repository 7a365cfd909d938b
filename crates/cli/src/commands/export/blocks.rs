//! `blockmill export blocks`.

use super::pass::{self, Asked, OfRun, Pass};
use crate::arguments::export::{ExportBlocksArguments, NestedFormat};
#[cfg(feature = "tables")]
use crate::export::parquet::{ColumnEncoder, ParquetWriter};
use crate::export::table::{Memory, Written};
use crate::export::target::{Target, format_of};
use crate::failure::Failure;
use crate::progress::EngineMeter;
#[cfg(feature = "tables")]
use arrow_array::RecordBatch;
#[cfg(feature = "tables")]
use arrow_schema::Schema;
#[cfg(feature = "tables")]
use blockmill_tables::column::fields_and_values;
use blockmill_tables::pass::Portion;
use blockmill_tables::transaction_row::{BlockRow, TransactionFields, TransactionRow, memory_of_row};
#[cfg(feature = "tables")]
use parquet::errors::ParquetError;
use std::io;
use std::ops::RangeInclusive;
#[cfg(feature = "tables")]
use std::sync::Arc;

/// What the ending of a name says of the format.
const ENDINGS: &[(&str, NestedFormat)] = &[
    #[cfg(feature = "tables")]
    ("parquet", NestedFormat::Parquet),
    ("jsonl", NestedFormat::Jsonl),
];

/// Turns rows into a piece of the table.
type Convert<'a, T> = &'a (dyn Fn(Vec<TransactionRow>) -> Result<T, Failure> + Sync);

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
        convert: Convert<'_, T>,
    ) -> Result<OfRun<Vec<T>>, Failure> {
        let pass = self.pass;
        let (mut pieces, mut rows) = (Vec::new(), Vec::new());
        let (mut count, mut memory) = (0, 0);
        let mut convert = |rows: &mut Vec<TransactionRow>| {
            count += rows.len() as u64;
            pieces.push(convert(std::mem::take(rows))?);
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

    /// Converts all rows, many at a time, on several threads, and gives the pieces to `take`, in
    /// order. Returns the number of rows.
    fn run<T: Send + Memory>(
        &self,
        meter: &mut EngineMeter,
        convert: Convert<'_, T>,
        take: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let &Self { pass, portion } = self;
        let convert = |heights| self.pieces(heights, convert);
        let mut take = |_, pieces: Vec<T>| pieces.into_iter().try_for_each(&mut *take);
        pass.run(std::slice::from_ref(&pass.heights), portion, meter, &convert, &mut take)
    }

    /// Writes lines of JSON. Returns the number of rows, and the length of the file, where there is
    /// one.
    fn write_lines(&self, mut target: Target, meter: &mut EngineMeter) -> Result<(u64, Option<u64>), Failure> {
        let rows = self.run(meter, &jsonl, &mut |lines: Vec<u8>| target.write_piece(&lines))?;
        Ok((rows, target.complete()?))
    }

    /// As [`write_lines`](Self::write_lines), a Parquet file.
    #[cfg(feature = "tables")]
    fn write_parquet(&self, target: Target, meter: &mut EngineMeter) -> Result<(u64, Option<u64>), Failure> {
        // The columns of no rows have the names and the types of all.
        let (fields, _) = fields_and_values(TransactionRow::columns(&[]).map_err(ParquetError::from)?);
        let (schema, without_dictionary) = (Schema::new(fields), TransactionRow::WITHOUT_DICTIONARY);
        let encoder = ColumnEncoder::new(schema.clone(), without_dictionary)?;
        let mut writer = ParquetWriter::open(target, schema, without_dictionary, &self.pass.metadata()?)?;
        let encode = |rows: Vec<TransactionRow>| {
            let batch = TransactionRow::columns(&rows).and_then(|columns| {
                let (_, values) = fields_and_values(columns);
                RecordBatch::try_new(Arc::clone(&encoder.schema), values)
            });
            // The columns have copies, and rows take more memory.
            drop(rows);
            encoder.encode(&batch.map_err(ParquetError::from)?)
        };
        let rows = self.run(meter, &encode, &mut |encoded| writer.add(encoded))?;
        Ok((rows, writer.end()?.complete()?))
    }
}

/// Rows as lines of JSON.
fn jsonl(rows: Vec<TransactionRow>) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, &row).map_err(io::Error::from)?;
        lines.push(b'\n');
    }
    Ok(lines)
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
            NestedFormat::Parquet => transactions.write_parquet(target, meter),
            NestedFormat::Jsonl => transactions.write_lines(target, meter),
        }?;
        Ok(vec![Written::whole("transaction", rows, out.clone(), bytes)])
    })
}

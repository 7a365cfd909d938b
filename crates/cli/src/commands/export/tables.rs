//! `blockmill export transactions`, and the other flat tables of a pass over blocks.

use super::pass::{self, AllWritten, OfRun, Pass, ROWS_BYTES};
use crate::arguments::export::{ExportTablesArguments, ProductKind, TableFormat};
use crate::arguments::is_standard;
use crate::export::batch::Batch;
use crate::export::flat::{self, ENDINGS, Encoder, Piece, Writer};
#[cfg(feature = "descriptors")]
use crate::export::product::filters::Filters;
use crate::export::product::inputs::Inputs;
use crate::export::product::outputs::Outputs;
use crate::export::product::spenders::Spenders;
use crate::export::product::transactions::Transactions;
use crate::export::product::{Complete, OfBlock, Product};
use crate::export::table::Written;
use crate::export::target::Target;
use crate::failure::Failure;
use crate::progress::EngineMeter;
use std::ops::RangeInclusive;
use std::path::PathBuf;

fn product(kind: ProductKind) -> Box<dyn Product> {
    match kind {
        ProductKind::Transactions => Box::new(Transactions),
        ProductKind::Inputs => Box::new(Inputs),
        ProductKind::Outputs => Box::new(Outputs),
        ProductKind::Spenders => Box::new(Spenders),
        #[cfg(feature = "descriptors")]
        ProductKind::Filters => Box::new(Filters),
    }
}

/// What threads make pieces of a table with.
struct Maker {
    product: Box<dyn Product>,
    encoder: Encoder,
    /// Whether rows are completed in the order of blocks.
    is_in_order: bool,
}

/// What threads have made for a table.
enum Made {
    Piece(Piece, u64),
    /// It is completed and encoded in the order of blocks.
    Rows(Batch),
}

impl Maker {
    fn empty(&self) -> Batch {
        Batch::new(self.product.table().columns)
    }

    fn make(&self, rows: Batch) -> Result<Made, Failure> {
        if self.is_in_order {
            return Ok(Made::Rows(rows));
        }
        let count = rows.rows() as u64;
        Ok(Made::Piece(self.encoder.encode(rows)?, count))
    }
}

/// Where the pieces go.
struct Taker {
    complete: Option<Complete>,
    writer: Writer,
    out: PathBuf,
    rows: u64,
}

/// A piece for each of some tables, with the number of the table.
type Pieces = Vec<(usize, Made)>;

/// A pass over blocks for some tables.
struct Tables<'a> {
    pass: &'a Pass<'a>,
    makers: Vec<Maker>,
    takers: Vec<Taker>,
}

/// Makes the rows of some blocks. Those that are not written are only those of tables in order.
fn pieces(pass: &Pass<'_>, makers: &[Maker], heights: RangeInclusive<u32>, is_written: bool) -> OfRun<Pieces> {
    let mut pieces = Vec::new();
    let mut tables: Vec<_> = makers.iter().map(|maker| (maker, maker.empty())).enumerate().collect();
    tables.retain(|(_, (maker, _))| is_written || maker.is_in_order);
    let mut transactions = 0;
    for read in pass.blocks.iter(heights) {
        let read = read?;
        let of = OfBlock::new(&read, pass.network);
        for (_, (maker, rows)) in &mut tables {
            maker.product.add_block(&of, &read, rows);
        }
        for (position, spending) in (0..).zip(read.transactions()) {
            transactions += 1;
            for (_, (maker, rows)) in &mut tables {
                maker.product.add_transaction(&of, position, &spending, rows);
            }
            let memory: usize = tables.iter().map(|(_, (_, rows))| rows.memory()).sum();
            if memory > ROWS_BYTES {
                for (number, (maker, rows)) in &mut tables {
                    let full = std::mem::replace(rows, maker.empty());
                    pieces.push((*number, maker.make(full)?));
                }
            }
        }
        pass.check_stop()?;
    }
    for (number, (maker, rows)) in tables {
        if rows.rows() > 0 {
            pieces.push((number, maker.make(rows)?));
        }
    }
    Ok((pieces, transactions))
}

impl Tables<'_> {
    fn run(&mut self, heights: RangeInclusive<u32>, is_written: bool, meter: &mut EngineMeter) -> Result<(), Failure> {
        let Self { pass, makers, takers } = self;
        let convert = |heights| pieces(pass, makers, heights, is_written);
        let mut take = |pieces: Pieces| {
            for (number, made) in pieces {
                let taker = &mut takers[number];
                let (piece, count) = match made {
                    Made::Piece(piece, count) => (piece, count),
                    Made::Rows(mut rows) => {
                        if let Some(complete) = &mut taker.complete {
                            complete(&mut rows);
                        }
                        if !is_written {
                            continue;
                        }
                        let count = rows.rows() as u64;
                        (makers[number].encoder.encode(rows)?, count)
                    }
                };
                taker.rows += count;
                taker.writer.add(piece)?;
            }
            Ok(())
        };
        pass.run(heights, meter, &convert, &mut take)?;
        Ok(())
    }

    /// Goes over the blocks; first over those below, where a table rests on them.
    fn run_all(&mut self, meter: &mut EngineMeter) -> Result<(), Failure> {
        let heights = self.pass.heights.clone();
        let is_in_order = self.makers.iter().any(|maker| maker.is_in_order);
        if let Some(below) = heights.start().checked_sub(1).filter(|_| is_in_order) {
            self.run(0..=below, false, meter)?;
        }
        self.run(heights, true, meter)
    }

    /// Ends all tables before the first one gets its name.
    fn complete(self) -> AllWritten {
        let mut ended = Vec::new();
        for (maker, taker) in self.makers.iter().zip(self.takers) {
            ended.push((maker.product.table().row, taker.rows, taker.out, taker.writer.end()?));
        }
        let complete = |(row, rows, out, target): (_, _, _, Target)| {
            Ok(Written {
                row,
                rows,
                out,
                bytes: target.complete()?,
            })
        };
        ended.into_iter().map(complete).collect()
    }
}

pub(crate) fn run(kind: ProductKind, arguments: &ExportTablesArguments) -> Result<u8, Failure> {
    let (out, force) = (&arguments.pass.out, arguments.pass.force);
    let files = files(kind, arguments)?;
    if !arguments.and.is_empty() {
        let usage = |error| Failure::Usage(format!("--out {}: {error}", out.display()));
        std::fs::create_dir_all(out).map_err(usage)?;
    }
    pass::run(&arguments.pass, &|pass, meter| {
        let mut tables = Tables {
            pass,
            makers: Vec::new(),
            takers: Vec::new(),
        };
        for (kind, format, out) in &files {
            let product = product(*kind);
            let (encoder, writer) = flat::open(product.table(), *format, out, force)?;
            let complete = product.completer();
            let is_in_order = complete.is_some();
            tables.takers.push(Taker {
                complete,
                writer,
                out: out.clone(),
                rows: 0,
            });
            tables.makers.push(Maker {
                product,
                encoder,
                is_in_order,
            });
        }
        tables.run_all(meter)?;
        tables.complete()
    })
}

/// The tables that are asked for, their formats and files.
fn files(
    kind: ProductKind,
    arguments: &ExportTablesArguments,
) -> Result<Vec<(ProductKind, TableFormat, PathBuf)>, Failure> {
    let out = &arguments.pass.out;
    if arguments.and.is_empty() {
        let format = flat::format_of(out, arguments.format)?;
        return Ok(vec![(kind, format, out.clone())]);
    }
    let Some(format) = arguments.format else {
        return Err(Failure::Usage("--and needs --format: --out is a folder".to_owned()));
    };
    if is_standard(out) {
        return Err(Failure::Usage(
            "--and needs a folder: standard output is one table".to_owned(),
        ));
    }
    let ending = ENDINGS.iter().find(|(_, known)| *known == format);
    let ending = ending.map_or("", |(ending, _)| ending);
    let mut files: Vec<(ProductKind, TableFormat, PathBuf)> = Vec::new();
    for &kind in std::iter::once(&kind).chain(&arguments.and) {
        if files.iter().all(|(known, ..)| *known != kind) {
            let name = format!("{}.{ending}", product(kind).table().name);
            files.push((kind, format, out.join(name)));
        }
    }
    Ok(files)
}

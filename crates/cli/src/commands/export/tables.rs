//! `blockmill export transactions`, and the other flat tables of a pass over blocks.

use super::pass::{self, AllWritten, Pass};
use crate::arguments::export::{ExportTablesArguments, TableFormat, TableKind};
use crate::arguments::is_standard;
use crate::export::flat::{self, ENDINGS, Encoder, Writer};
use crate::export::table::Written;
use crate::export::target::Target;
use crate::failure::Failure;
use crate::progress::EngineMeter;
use blockmill_tables::batch::{Batch, Table};
use blockmill_tables::pass::{Completers, Made, MadeOfBlocks, Makers};
use blockmill_tables::product::ProductKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A table that is being written.
struct Open {
    table: &'static Table,
    writer: Writer,
    out: PathBuf,
    rows: u64,
}

/// A pass over blocks for some tables.
struct Tables<'a> {
    pass: &'a Pass<'a>,
    makers: Makers,
    encoders: Vec<Encoder>,
    completers: Completers,
    open: Vec<Open>,
}

impl Tables<'_> {
    fn run(&mut self, heights: RangeInclusive<u32>, is_written: bool, meter: &mut EngineMeter) -> Result<(), Failure> {
        let Self {
            pass,
            makers,
            encoders,
            completers,
            open,
        } = self;
        let encode = |number: usize, rows: Batch| encoders[number].encode(rows);
        let convert = |heights| {
            let blocks = pass.blocks.iter(heights).map(|read| {
                pass.check_stop()?;
                Ok(read?)
            });
            let MadeOfBlocks { rows, transactions } = makers.make(blocks, pass.network, is_written, &encode)?;
            Ok((rows, transactions))
        };
        let mut take = |made: Vec<(usize, Made<_>)>| {
            for (number, made) in made {
                match made {
                    Made::Rows(mut rows) if !is_written => completers.pass_over(number, &mut rows)?,
                    made => {
                        let (piece, rows) = completers.complete(number, made, &encode)?;
                        open[number].rows += rows;
                        open[number].writer.add(piece)?;
                    }
                }
            }
            Ok(())
        };
        pass.run(heights, meter, &convert, &mut take)?;
        Ok(())
    }

    /// Goes over the blocks; first over those below, where a table rests on them.
    fn run_all(&mut self, meter: &mut EngineMeter) -> Result<(), Failure> {
        let heights = self.pass.heights.clone();
        let is_first_below = self.makers.rests_on_blocks_below();
        if let Some(below) = heights.start().checked_sub(1).filter(|_| is_first_below) {
            self.run(0..=below, false, meter)?;
        }
        self.run(heights, true, meter)
    }

    /// Ends all tables before the first one gets its name.
    fn complete(self) -> AllWritten {
        let mut ended = Vec::new();
        for open in self.open {
            ended.push((open.table.row, open.rows, open.out, open.writer.end()?));
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

pub(crate) fn run(kind: TableKind, arguments: &ExportTablesArguments) -> Result<u8, Failure> {
    let (out, force) = (&arguments.pass.out, arguments.pass.force);
    let files = files(kind, arguments)?;
    if !arguments.and.is_empty() {
        let usage = |error| Failure::Usage(format!("--out {}: {error}", out.display()));
        std::fs::create_dir_all(out).map_err(usage)?;
    }
    let kinds: Vec<ProductKind> = files.iter().map(|(kind, ..)| *kind).collect();
    pass::run(&arguments.pass, &|pass, meter| {
        let makers = Makers::new(&kinds, &pass.blocks);
        let mut tables = Tables {
            pass,
            completers: makers.completers(),
            makers,
            encoders: Vec::new(),
            open: Vec::new(),
        };
        for (kind, format, out) in &files {
            let table = kind.table();
            let (encoder, writer) = flat::open(table, *format, out, force)?;
            tables.encoders.push(encoder);
            tables.open.push(Open {
                table,
                writer,
                out: out.clone(),
                rows: 0,
            });
        }
        tables.run_all(meter)?;
        tables.complete()
    })
}

/// The tables that are asked for, their formats and files.
fn files(
    kind: TableKind,
    arguments: &ExportTablesArguments,
) -> Result<Vec<(ProductKind, TableFormat, PathBuf)>, Failure> {
    let out = &arguments.pass.out;
    if arguments.and.is_empty() {
        let format = flat::format_of(out, arguments.format)?;
        return Ok(vec![(kind.product(), format, out.clone())]);
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
    for kind in std::iter::once(&kind).chain(&arguments.and) {
        let kind = kind.product();
        if files.iter().all(|(known, ..)| *known != kind) {
            let name = format!("{}.{ending}", kind.table().name);
            files.push((kind, format, out.join(name)));
        }
    }
    Ok(files)
}

//! `blockmill export transactions`, and the other flat tables of a pass over blocks.

use super::pass::{self, AllWritten, Asked, OfRun, Pass};
use super::plan::{Plan, PlannedTable};
use crate::arguments::Force;
use crate::arguments::export::ExportTablesArguments;
#[cfg(feature = "tables")]
use crate::export::database::{Database, GrowingTable};
use crate::export::flat::{Encoder, Piece, Writer};
use crate::export::metadata::Metadata;
use crate::export::partitions::{FolderTable, Partitions};
use crate::export::table::{Memory, Written};
use crate::export::target::Target;
use crate::failure::Failure;
use crate::progress::EngineMeter;
use blockmill_chain::ChainBlocks;
use blockmill_tables::batch::{Batch, Table};
use blockmill_tables::pass::{Completers, Made, Makers, Portion};
use blockmill_tables::product::ProductKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A table of one file that is being written.
struct OpenFile {
    table: &'static Table,
    writer: Writer,
    out: PathBuf,
    rows: u64,
}

/// Where the rows of a table go.
enum Output<'a> {
    File(Box<OpenFile>),
    Folder(Box<Partitions<'a>>),
    #[cfg(feature = "tables")]
    Database(Box<GrowingTable>),
}

impl OpenFile {
    fn open(planned: &PlannedTable, force: Force, metadata: &Metadata) -> Result<Self, Failure> {
        let PlannedTable { kind, form, out } = planned;
        let table = kind.table();
        Ok(Self {
            table,
            writer: Writer::open(table, *form, Target::open(out, force)?, metadata)?,
            out: out.clone(),
            rows: 0,
        })
    }
}

impl Output<'_> {
    /// Whether rows of these heights are to be written.
    fn wants(&self, heights: &RangeInclusive<u32>) -> bool {
        match self {
            Self::Folder(partitions) => partitions.wants(heights),
            _ => true,
        }
    }

    /// Appends rows of these heights.
    fn add(&mut self, heights: &RangeInclusive<u32>, piece: Piece, rows: u64) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                file.rows += rows;
                file.writer.add(piece)
            }
            Self::Folder(partitions) => partitions.add(heights, piece, rows),
            #[cfg(feature = "tables")]
            Self::Database(table) => match piece {
                Piece::Rows(batch) => table.add(&batch, rows),
                _ => unreachable!("a database gets what its encoder has made"),
            },
        }
    }

    /// All rows of these heights are there; `state` is what those above rest on.
    #[cfg_attr(
        not(feature = "tables"),
        expect(unused_variables, reason = "folders know their blocks")
    )]
    fn end(
        &mut self,
        heights: &RangeInclusive<u32>,
        blocks: &ChainBlocks,
        state: Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        match self {
            Self::File(_) => Ok(()),
            Self::Folder(partitions) => partitions.end(heights, state),
            #[cfg(feature = "tables")]
            Self::Database(table) => table.end(heights, blocks, state),
        }
    }

    /// What rows from a height on rest on, where an earlier export has left that.
    fn state_at(&self, height: u32) -> Option<Vec<u8>> {
        match self {
            Self::File(_) => None,
            Self::Folder(partitions) => partitions.manifest.state_at(height),
            #[cfg(feature = "tables")]
            Self::Database(table) => table.manifest.state_at(height),
        }
    }
}

/// Heights that are gone over together.
struct Segment {
    heights: RangeInclusive<u32>,
    /// Else only what later rows rest on is made of them.
    is_written: bool,
    /// What the rows of each table rest on, where the blocks below are not gone over.
    states: Option<Vec<Option<Vec<u8>>>>,
}

/// A pass over blocks for some tables.
struct Tables<'a> {
    pass: &'a Pass<'a>,
    portion: Portion,
    makers: Makers,
    encoders: Vec<Encoder>,
    outputs: Vec<Output<'a>>,
    /// The one that all outputs are in.
    #[cfg(feature = "tables")]
    database: Option<Database>,
}

impl Tables<'_> {
    /// What the rows of all tables from a height on rest on, if that is known of each that rests on
    /// anything.
    fn states_at(&self, height: u32) -> Option<Vec<Option<Vec<u8>>>> {
        let states: Vec<_> = self.outputs.iter().map(|output| output.state_at(height)).collect();
        let is_known = self.makers.completers().resume(|number| states[number].as_deref());
        is_known.then_some(states)
    }

    /// What is gone over: all that is written, and what is below, where a table rests on that and
    /// no earlier export has left what it needs of it.
    fn segments(&self) -> Vec<Segment> {
        let is_wanted = |heights: &RangeInclusive<u32>| self.outputs.iter().any(|output| output.wants(heights));
        let written: Vec<_> = match self.outputs.first() {
            // All folders have partitions of the same heights.
            Some(Output::Folder(partitions)) => partitions.ranges().filter(is_wanted).collect(),
            // All tables of a database have the same blocks.
            #[cfg(feature = "tables")]
            Some(Output::Database(table)) => table.ranges(),
            _ => vec![self.pass.heights.clone()],
        };
        let (mut segments, mut next) = (Vec::new(), 0);
        for heights in written {
            let (first, last) = heights.clone().into_inner();
            let states = match first > next && self.makers.rests_on_blocks_below() {
                true => self.states_at(first),
                false => None,
            };
            if first > next && self.makers.rests_on_blocks_below() && states.is_none() {
                segments.push(Segment {
                    heights: next..=first - 1,
                    is_written: false,
                    states: None,
                });
            }
            segments.push(Segment {
                heights,
                is_written: true,
                states,
            });
            next = last.saturating_add(1);
        }
        segments
    }

    fn run(&mut self, meter: &mut EngineMeter) -> Result<(), Failure> {
        let segments = self.segments();
        let segment_of = |run: &RangeInclusive<u32>| {
            let at = segments.partition_point(|segment| segment.heights.end() < run.start());
            &segments[at]
        };
        let Self {
            pass,
            portion,
            makers,
            encoders,
            outputs,
            ..
        } = self;
        let mut completers: Completers = makers.completers();
        let keeps_partitions = outputs.iter().any(|output| matches!(output, Output::Folder(_)));
        let encode = |number: usize, rows: Batch| encoders[number].encode(rows);
        let convert = |run: RangeInclusive<u32>| {
            let is_written = segment_of(&run).is_written;
            let blocks = pass.blocks.iter(run).map(|read| {
                pass.check_stop()?;
                Ok(read?)
            });
            let made = makers.make(blocks, pass.network, is_written, &encode)?;
            Ok(OfRun {
                memory: made.memory(Memory::memory),
                made: made.rows,
                transactions: made.transactions,
            })
        };
        let mut take = |run: RangeInclusive<u32>, made: Vec<(usize, Made<_>)>| {
            let Segment {
                heights,
                is_written,
                states,
            } = segment_of(&run);
            if let Some(states) = states
                && run.start() == heights.start()
            {
                completers.resume(|number| states[number].as_deref());
            }
            for (number, made) in made {
                match made {
                    Made::Rows(mut rows) if !is_written => completers.pass_over(number, &mut rows)?,
                    made => {
                        let (piece, rows) = completers.complete(number, made, &encode)?;
                        // Another table may lack a partition that this one has.
                        if outputs[number].wants(heights) {
                            outputs[number].add(heights, piece, rows)?;
                        }
                    }
                }
            }
            if *is_written && run.end() == heights.end() {
                // Before a partition is named: a later --append does not read its blocks.
                if keeps_partitions {
                    pass.check_hidden()?;
                }
                for (number, output) in outputs.iter_mut().enumerate() {
                    if output.wants(heights) {
                        output.end(heights, &pass.blocks, completers.state(number))?;
                    }
                }
            }
            Ok(())
        };
        let ranges: Vec<_> = segments.iter().map(|segment| segment.heights.clone()).collect();
        pass.run(&ranges, *portion, meter, &convert, &mut take)?;
        Ok(())
    }

    /// Ends all tables before the first one gets its name.
    fn complete(self) -> AllWritten {
        let (mut ended, mut written) = (Vec::new(), Vec::new());
        #[cfg(feature = "tables")]
        let mut growing = Vec::new();
        for output in self.outputs {
            match output {
                Output::File(file) => ended.push((file.table.row, file.rows, file.out, file.writer.end()?)),
                Output::Folder(partitions) => written.push(partitions.written()?),
                #[cfg(feature = "tables")]
                Output::Database(table) => growing.push(*table),
            }
        }
        #[cfg(feature = "tables")]
        if let Some(database) = self.database {
            return database.written(growing, &self.pass.metadata()?);
        }
        let complete =
            |(row, rows, out, target): (_, _, _, Target)| Ok(Written::whole(row, rows, out, target.complete()?));
        let files: AllWritten = ended.into_iter().map(complete).collect();
        written.extend(files?);
        Ok(written)
    }
}

/// The outputs of tables, in order.
fn outputs<'a>(
    plan: &Plan,
    folders: Option<&'a [FolderTable]>,
    pass: &'a Pass<'a>,
    force: Force,
) -> Result<Vec<Output<'a>>, Failure> {
    if let Some(folders) = folders {
        let open = |of| {
            let heights = pass.heights.clone();
            let partitions = Partitions::open(of, &pass.blocks, &pass.origin, heights)?;
            Ok(Output::Folder(Box::new(partitions)))
        };
        return folders.iter().map(open).collect();
    }
    let metadata = pass.metadata()?;
    let open = |planned| Ok(Output::File(Box::new(OpenFile::open(planned, force, &metadata)?)));
    plan.tables.iter().map(open).collect()
}

pub(crate) fn run(kind: ProductKind, arguments: &ExportTablesArguments) -> Result<u8, Failure> {
    let plan = Plan::new(kind, arguments)?;
    let kinds: Vec<ProductKind> = plan.tables.iter().map(|table| table.kind).collect();
    let asked = Asked {
        arguments: &arguments.pass,
        from: plan.from,
        stopped: plan.stopped(),
    };
    let portions = plan.tables.iter().map(|table| table.form.portion());
    let portion = portions.min_by_key(|portion| portion.rows).unwrap_or(Portion::ROWS);
    pass::run(&asked, &|pass, meter| {
        let folders = plan.folder_tables(Some(pass.network));
        let force = arguments.pass.force;
        #[cfg(feature = "tables")]
        let (database, outputs) = match plan.database(Some(pass.network)) {
            Some(of) => {
                let (database, tables) = of.open(&pass.blocks, &pass.heights)?;
                let outputs = tables.into_iter().map(|table| Output::Database(Box::new(table)));
                (Some(database), outputs.collect())
            }
            None => (None, outputs(&plan, folders.as_deref(), pass, force)?),
        };
        #[cfg(not(feature = "tables"))]
        let outputs = outputs(&plan, folders.as_deref(), pass, force)?;
        let encoder = |table: &PlannedTable| Encoder::new(table.kind.table(), table.form);
        let mut tables = Tables {
            pass,
            portion,
            makers: Makers::new(&kinds, &pass.blocks).in_portions(portion),
            encoders: plan.tables.iter().map(encoder).collect::<Result<_, _>>()?,
            outputs,
            #[cfg(feature = "tables")]
            database,
        };
        tables.run(meter)?;
        tables.complete()
    })
}

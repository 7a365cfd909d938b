//! A pass over the blocks of a chain, with the coins that they spend.

use crate::arguments::export::PassArguments;
use crate::commands::{cores, open_newest};
use crate::export::metadata::{Metadata, Origin};
use crate::export::table::{Written, say_written};
use crate::failure::Failure;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::whole;
use blockmill_block::Network;
use blockmill_chain::ChainBlocks;
use blockmill_datadir::{ChainId, UtxoSet};
use blockmill_tables::pass::{Portion, heights};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The pass that is asked for.
pub(super) struct Asked<'a> {
    pub(super) arguments: &'a PassArguments,
    /// Height of the first block.
    pub(super) from: u32,
    /// What is said if a signal ends the pass early.
    pub(super) stopped: fn(PathBuf) -> Failure,
}

/// The blocks that a pass goes over.
pub(super) struct Pass<'a> {
    pub(super) blocks: ChainBlocks,
    pub(super) network: Network,
    pub(super) heights: RangeInclusive<u32>,
    pub(super) origin: Origin,
    out: &'a Path,
    stopped: fn(PathBuf) -> Failure,
    stop: Arc<AtomicBool>,
    /// The number of files that were searched for hidden blocks.
    searched: AtomicUsize,
}

/// The tables that a pass has written.
pub(super) type AllWritten = Result<Vec<Written>, Failure>;

/// What a thread has made of a run of blocks.
pub(super) struct OfRun<T> {
    pub(super) made: T,
    /// Of what was made, in bytes.
    pub(super) memory: usize,
    /// The number of the transactions of the run.
    pub(super) transactions: u64,
}

/// The number of blocks of a range.
fn count(heights: &RangeInclusive<u32>) -> u64 {
    (u64::from(*heights.end()) + 1).saturating_sub((*heights.start()).into())
}

impl Pass<'_> {
    /// What a table of these blocks says of itself.
    pub(super) fn metadata(&self) -> Result<Metadata, Failure> {
        let (from, to) = self.heights.clone().into_inner();
        Ok(self.origin.of_blocks(from, to, self.blocks.hash(to)?))
    }

    fn stopped(&self) -> Failure {
        (self.stopped)(self.out.to_owned())
    }

    /// Fails if the records of blocks that were read so far hide others, of which the search of the
    /// files knew nothing: the chain may go on with those.
    pub(super) fn check_hidden(&self) -> Result<(), Failure> {
        let doubtful = self.blocks.doubtful_files();
        // Files are searched again only if others than before may hide blocks. Relaxed: only the
        // thread that takes rows gets here.
        if self.searched.swap(doubtful, Ordering::Relaxed) == doubtful {
            return Ok(());
        }
        let hidden = self.blocks.find_hidden(&self.stop)?.ok_or_else(|| self.stopped())?;
        match hidden.is_whole() {
            true => Ok(()),
            false => Err(Failure::Hidden(hidden)),
        }
    }

    /// Ends the command if it is to stop.
    pub(super) fn check_stop(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(self.stopped()),
            false => Ok(()),
        }
    }

    /// Gives the blocks of some ranges of heights to `convert`, on several threads, and what comes
    /// of them to `take`, in order. No run of blocks is in two ranges. Returns the number of
    /// transactions.
    pub(super) fn run<T: Send>(
        &self,
        ranges: &[RangeInclusive<u32>],
        portion: Portion,
        meter: &mut EngineMeter,
        convert: &(dyn Fn(RangeInclusive<u32>) -> Result<OfRun<T>, Failure> + Sync),
        take: &mut dyn FnMut(RangeInclusive<u32>, T) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let all = ranges.iter().map(count).sum();
        let convert = |run: RangeInclusive<u32>| {
            let OfRun {
                made,
                memory,
                transactions,
            } = convert(run.clone())?;
            Ok(((run, made, transactions), memory))
        };
        let (mut blocks, mut transactions) = (0, 0);
        let mut take = |(run, made, more): (RangeInclusive<u32>, T, u64)| {
            blocks += count(&run);
            transactions += more;
            meter.blocks(blocks, all, transactions);
            take(run, made)
        };
        let done = self
            .blocks
            .for_each_run_in(ranges, portion.blocks, cores(), &convert, &mut take);
        // The block that cannot be read may hide others.
        if let Ok(()) | Err(Failure::Block(_)) = done {
            self.check_hidden()?;
        }
        done?;
        Ok(transactions)
    }
}

/// The blocks that the arguments name, and their network.
fn open(asked: &Asked<'_>, stop: &AtomicBool, meter: &mut EngineMeter) -> Result<(ChainBlocks, Network), Failure> {
    let arguments = asked.arguments;
    let stopped = || (asked.stopped)(arguments.out.clone());
    let chain_id = arguments.chain.id()?;
    let Some(data) = &arguments.data else {
        let Some(chain_id) = chain_id else {
            return Err(Failure::Usage("--blocks without --data needs --network".to_owned()));
        };
        let blocks = ChainBlocks::of_files(&arguments.blocks, &[], &chain_id.params(), stop, meter)?;
        return Ok((blocks.ok_or_else(stopped)?, chain_id.network));
    };
    let set = open_newest(data, cores())?;
    check_chain(&set, data, chain_id)?;
    let mut blocks = set.blocks()?;
    match blocks.add_files(&arguments.blocks, stop, meter)? {
        true => Ok((blocks, set.directory().chain_id().network)),
        false => Err(stopped()),
    }
}

/// Checks that the set of a data directory is of the chain that is asked for, if one is.
pub(super) fn check_chain(set: &UtxoSet, data: &Path, asked: Option<ChainId>) -> Result<(), Failure> {
    let own = set.directory().chain_id();
    match asked.filter(|asked| asked != own) {
        Some(asked) => Err(Failure::Usage(format!(
            "{} is of {}, not of {}",
            data.display(),
            own.text(),
            asked.text()
        ))),
        None => Ok(()),
    }
}

/// Has `export` go over the blocks that the arguments name. Returns the exit status.
pub(super) fn run(
    asked: &Asked<'_>,
    export: &dyn Fn(&Pass<'_>, &mut EngineMeter) -> AllWritten,
) -> Result<u8, Failure> {
    let arguments = asked.arguments;
    let stop = signals::stop_flag_of_output()?;
    let mut meter = EngineMeter::new();
    let (blocks, network) = open(asked, &stop, &mut meter)?;
    let pass = pass(asked, blocks, network, &stop)?;
    let written = export(&pass, &mut meter)?;
    drop(meter);
    say(arguments, &pass, &written)
}

/// The data directory and the block files, as they were given.
fn source(arguments: &PassArguments) -> String {
    let paths = arguments.data.iter().chain(&arguments.blocks);
    let paths: Vec<_> = paths.map(|path| output::path_text(path)).collect();
    paths.join("\n")
}

/// The pass over a chain that the arguments ask for.
fn pass<'a>(
    asked: &Asked<'a>,
    blocks: ChainBlocks,
    network: Network,
    stop: &Arc<AtomicBool>,
) -> Result<Pass<'a>, Failure> {
    let Asked { arguments, from, .. } = *asked;
    let heights = heights(&blocks, from, arguments.to).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Pass {
        blocks,
        network,
        heights,
        origin: Origin {
            network,
            source: source(arguments),
        },
        out: &arguments.out,
        stopped: asked.stopped,
        stop: Arc::clone(stop),
        searched: AtomicUsize::new(0),
    })
}

/// Reports an export. Returns the exit status.
fn say(arguments: &PassArguments, pass: &Pass<'_>, tables: &[Written]) -> Result<u8, Failure> {
    let (from, to) = pass.heights.clone().into_inner();
    let tip = pass.blocks.height();
    let wholeness = pass.blocks.wholeness();
    whole::say(wholeness);
    if arguments.to.is_none() && to < tip {
        whole::say_without_undo_yet(tip - to, tip);
    }
    let blocks = to - from + 1;
    for table in tables {
        let Written {
            row, rows, bytes, out, ..
        } = table;
        let mut what = format!(
            "{} of {}",
            output::counted(*rows, row),
            output::counted(blocks.into(), "block")
        );
        if let Some(added) = &table.added {
            what += &format!(", {added} of them added now");
        }
        if let Some(files) = &table.files {
            let made = files.made;
            what += &format!(" in {}, {made} of them made now", output::counted(files.all, "file"));
        }
        let mut fields = json!({"blocks": blocks});
        fields[format!("{row}s")] = (*rows).into();
        say_written(&what, fields, *bytes, out)?;
    }
    Ok(whole::exit_status(wholeness.outcome()))
}

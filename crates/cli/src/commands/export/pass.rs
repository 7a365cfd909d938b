//! A pass over the blocks of a chain, with the coins that they spend.

use crate::arguments::export::PassArguments;
use crate::arguments::{chain_of, is_standard};
use crate::commands::{cores, open_newest};
use crate::export::metadata::{Metadata, Origin};
use crate::export::table::{Written, say_written};
use crate::failure::Failure;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::whole;
use blockmill_block::Network;
use blockmill_chain::{ChainBlocks, Wholeness};
use blockmill_datadir::{ChainId, UtxoSet};
use blockmill_tables::pass::{Portion, heights};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Whether the export begins anew where blocks hide others, of which no search knew.
    begins_anew: bool,
    /// Whether it has done so.
    has_begun_anew: bool,
    /// The number of files that were looked through for hidden blocks.
    looked_through: AtomicUsize,
    /// What was found hidden among the blocks that were read.
    hidden: Mutex<Wholeness>,
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

/// Nothing panics while it is held.
fn lock(hidden: &Mutex<Wholeness>) -> MutexGuard<'_, Wholeness> {
    hidden.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether blocks that were read, in this pass or before it began anew, hide others.
    pub(super) fn has_hidden(&self) -> bool {
        self.has_begun_anew || !lock(&self.hidden).is_whole()
    }

    /// Looks whether blocks that were read so far hide others. Returns whether some do. Files are
    /// read again only if others than before may hide blocks.
    pub(super) fn look_for_hidden(&self) -> Result<bool, Failure> {
        let doubtful = self.blocks.doubtful_files();
        // Relaxed: one thread looks.
        if self.looked_through.swap(doubtful, Ordering::Relaxed) != doubtful {
            self.find_hidden()?;
        }
        Ok(self.has_hidden())
    }

    fn find_hidden(&self) -> Result<(), Failure> {
        let hidden = self.blocks.find_hidden(&self.stop)?;
        let hidden = hidden.ok_or_else(|| self.stopped())?;
        if self.begins_anew && !hidden.is_whole() {
            return Err(Failure::Hidden(hidden));
        }
        // What was found before is found again.
        *lock(&self.hidden) = hidden;
        Ok(())
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
            self.find_hidden()?;
        }
        done?;
        Ok(transactions)
    }
}

/// The blocks that the arguments name, and their network.
fn open(asked: &Asked<'_>, stop: &AtomicBool, meter: &mut EngineMeter) -> Result<(ChainBlocks, Network), Failure> {
    let arguments = asked.arguments;
    let stopped = || (asked.stopped)(arguments.out.clone());
    let chain_id = chain_of(arguments.network, arguments.signet_challenge.as_ref())?;
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
    let (mut blocks, network) = open(asked, &stop, &mut meter)?;
    let mut has_begun_anew = false;
    loop {
        let mut pass = pass(asked, blocks, network, &stop)?;
        pass.has_begun_anew = has_begun_anew;
        match export(&pass, &mut meter) {
            // What was written has no name yet, or is looked through again. The chain goes on with
            // the hidden blocks.
            Err(Failure::Hidden(_)) => {
                let again = pass.blocks.with_hidden(&arguments.blocks, &[], &stop, &mut meter)?;
                blocks = again.ok_or_else(|| (asked.stopped)(arguments.out.clone()))?;
                has_begun_anew = true;
            }
            Ok(written) => {
                drop(meter);
                let hidden = std::mem::take(&mut *lock(&pass.hidden));
                return say(arguments, &pass, &written, hidden);
            }
            Err(failure) => return Err(failure),
        }
    }
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
        // What standard output has got is not taken back.
        begins_anew: arguments.data.is_none() && !is_standard(&arguments.out),
        has_begun_anew: false,
        looked_through: AtomicUsize::new(0),
        hidden: Mutex::default(),
    })
}

/// Reports an export. Returns the exit status.
fn say(arguments: &PassArguments, pass: &Pass<'_>, tables: &[Written], hidden: Wholeness) -> Result<u8, Failure> {
    let (from, to) = pass.heights.clone().into_inner();
    let tip = pass.blocks.height();
    let mut wholeness = pass.blocks.wholeness().clone();
    wholeness.join(hidden);
    whole::say(&wholeness);
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

//! `blockmill export hints`.
//!
//! A set has the unspent outputs of all blocks. Where there is none, inputs say which outputs are
//! spent, and their undo data says in which block each was made. The block itself says what the
//! numbers of its outputs are.
//!
//! The outputs of many blocks in a row are gathered together, so that memory has a bound. Of each
//! one a number of 64 bits is kept: a hash of its outpoint, with a key that nobody can know before.

use super::pass::{self, Asked, OfRun, Pass};
use crate::arguments::export::ExportHintsArguments;
use crate::commands::{cores, open_set_at};
use crate::export::table::{Written, say_written};
use crate::export::target::Target;
use crate::failure::Failure;
use crate::output;
use crate::progress::{EngineMeter, share};
use crate::signals;
use blockmill_block::Block;
use blockmill_chain::ChainBlocks;
use blockmill_datadir::{Batch, Earlier, UtxoSet};
use blockmill_tables::hints;
use blockmill_tables::pass::Portion;
use serde_json::json;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Takes the height at which an output was made, and the hash of its outpoint.
type Take<'a> = &'a mut dyn FnMut(u32, u64) -> Result<(), Failure>;

/// Gives the outputs that the blocks of some heights have made.
type ForEach<'a> = dyn Fn(&RangeInclusive<u32>, &mut EngineMeter, Take<'_>) -> Result<(), Failure> + Sync + 'a;

/// Where the hints come from.
struct Source<'a> {
    for_each: &'a ForEach<'a>,
    /// Whether it gives the spent ones, and not the unspent ones.
    are_spent: bool,
    blocks: &'a ChainBlocks,
    /// Height of the last block.
    height: u32,
    /// The number of these outputs, by height.
    counts: Vec<u32>,
    key: &'a RandomState,
    /// What is wrong if they do not fit the blocks.
    name: String,
    out: &'a Path,
    /// Ends the command if it is to stop.
    check_stop: &'a (dyn Fn() -> Result<(), Failure> + Sync),
}

/// The outputs of some blocks in a row.
struct OutputsOfBlocks {
    heights: RangeInclusive<u32>,
    /// Where those of each block begin, and where those of the last one end.
    starts: Vec<usize>,
    hashes: Vec<u64>,
}

impl OutputsOfBlocks {
    /// The hashes of those of a block.
    fn of(&self, height: u32) -> &[u64] {
        let number = (height - self.heights.start()) as usize;
        &self.hashes[self.starts[number]..self.starts[number + 1]]
    }
}

/// Gives the coins of a set that were made at some heights.
fn for_each_coin(
    set: &UtxoSet,
    key: &RandomState,
    heights: &RangeInclusive<u32>,
    meter: &mut EngineMeter,
    take: Take<'_>,
) -> Result<(), Failure> {
    let convert = |batch: Batch| {
        let (count, share) = (batch.len() as u64, share(&batch));
        let wanted = batch.iter().filter(|(_, coin)| heights.contains(&coin.height));
        let made: Vec<_> = wanted
            .map(|(outpoint, coin)| (coin.height, key.hash_one(outpoint)))
            .collect();
        Ok::<_, Failure>((made, count, share))
    };
    let mut coins = 0;
    set.for_each_batch(&convert, &mut |(made, count, share)| {
        coins += count;
        meter.coins(coins, share);
        made.into_iter().try_for_each(|(height, hash)| take(height, hash))
    })
}

/// Gives the outputs that were made at some heights, and that blocks of a pass spend.
fn for_each_spent(
    pass: &Pass<'_>,
    key: &RandomState,
    heights: &RangeInclusive<u32>,
    meter: &mut EngineMeter,
    take: Take<'_>,
) -> Result<(), Failure> {
    let convert = |run: RangeInclusive<u32>| {
        let (mut made, mut transactions) = (Vec::new(), 0);
        for read in pass.blocks.iter(run) {
            pass.check_stop()?;
            let read = read?;
            for spending in read.transactions() {
                transactions += 1;
                let spent = spending
                    .inputs()
                    .filter_map(|(input, coin)| Some((input, coin?.height)));
                let wanted = spent.filter(|(_, height)| heights.contains(height));
                made.extend(wanted.map(|(input, height)| (height, key.hash_one(input.previous_output()))));
            }
        }
        Ok(OfRun {
            memory: size_of_val(&*made),
            made,
            transactions,
        })
    };
    let mut take = |_, made: Vec<(u32, u64)>| made.into_iter().try_for_each(|(height, hash)| take(height, hash));
    // No block below has spent them.
    let above = *heights.start()..=*pass.heights.end();
    pass.run(&[above], Portion::GROUPS, meter, &convert, &mut take)?;
    Ok(())
}

/// Cuts the blocks above the first one so that those of each part have about so many outputs.
fn parts(counts: &[u32], outputs_max: u64) -> Vec<RangeInclusive<u32>> {
    let mut parts: Vec<RangeInclusive<u32>> = Vec::new();
    let mut outputs = 0;
    for (height, &count) in (0..).zip(counts).skip(1) {
        outputs += u64::from(count);
        match parts.last_mut() {
            Some(part) if outputs <= outputs_max => *part = *part.start()..=height,
            _ => {
                parts.push(height..=height);
                outputs = count.into();
            }
        }
    }
    parts
}

impl Source<'_> {
    /// That the outputs are not those of the blocks.
    fn damaged(&self, height: u32, what: &str) -> Failure {
        Failure::Corrupt(format!("{}: height {height}: {what}", self.name))
    }

    /// Counts the outputs of each block.
    fn count(&mut self, meter: &mut EngineMeter) -> Result<(), Failure> {
        let mut counts = vec![0u32; self.height as usize + 1];
        // What is outside of the heights of the chain is damage, which is found here.
        (self.for_each)(&(0..=u32::MAX), meter, &mut |height, _| {
            (self.check_stop)()?;
            match counts.get_mut(height as usize) {
                Some(count) if height > 0 => *count += 1,
                _ => return Err(self.damaged(height, "no output that can be spent is made at this height")),
            }
            Ok(())
        })?;
        self.counts = counts;
        Ok(())
    }

    /// Gathers the outputs of some blocks.
    fn outputs_of(&self, heights: RangeInclusive<u32>, meter: &mut EngineMeter) -> Result<OutputsOfBlocks, Failure> {
        let first = *heights.start();
        let counts = &self.counts[first as usize..=*heights.end() as usize];
        let mut starts = vec![0];
        let mut end = 0;
        for &count in counts {
            end += count as usize;
            starts.push(end);
        }
        let mut next = starts.clone();
        let mut hashes = vec![0; end];
        (self.for_each)(&heights, meter, &mut |height, hash| {
            (self.check_stop)()?;
            let next = &mut next[(height - first) as usize];
            // They are the same as when they were counted.
            if let Some(entry) = hashes.get_mut(*next) {
                *entry = hash;
                *next += 1;
            }
            Ok(())
        })?;
        Ok(OutputsOfBlocks {
            heights,
            starts,
            hashes,
        })
    }

    /// Appends the list of a block. Returns how many numbers it has.
    fn list(&self, height: u32, block: &Block, outputs: &OutputsOfBlocks, file: &mut Vec<u8>) -> Result<u64, Failure> {
        let mut hashes = outputs.of(height).to_vec();
        hashes.sort_unstable();
        let replaced = self.blocks.params().bip30_overwritten;
        let is_replaced = replaced.contains(&(height, block.hash()));
        let found = Cell::new(0);
        let numbers = hints::numbers(block, is_replaced, |outpoint| {
            let is_found = hashes.binary_search(&self.key.hash_one(outpoint)).is_ok();
            found.set(found.get() + usize::from(is_found));
            is_found != self.are_spent
        });
        // Two outputs of a block with one hash show here, too; with another key there are none.
        if found.get() != hashes.len() {
            let (of, found) = (hashes.len(), found.get());
            let what = format!("of {of} outputs that are to be of this block, {found} are");
            return Err(self.damaged(height, &what));
        }
        hints::append(&numbers, file);
        Ok(numbers.len() as u64)
    }

    /// Writes the lists of some blocks. Returns how many numbers they have.
    fn write(&self, outputs: &OutputsOfBlocks, target: &mut Target, meter: &mut EngineMeter) -> Result<u64, Failure> {
        let convert = |run: RangeInclusive<u32>| {
            let (mut lists, mut unspent, mut transactions) = (Vec::new(), 0, 0);
            let end = *run.end();
            for height in run {
                (self.check_stop)()?;
                let block = self.blocks.block(height)?;
                transactions += block.transaction_count() as u64;
                unspent += self.list(height, &block, outputs, &mut lists)?;
            }
            Ok::<_, Failure>((lists, unspent, transactions, end))
        };
        let (mut unspent, mut transactions) = (0, 0);
        let mut take = |made: (Vec<u8>, u64, u64, u32)| {
            let (lists, unspent_there, transactions_there, end) = made;
            unspent += unspent_there;
            transactions += transactions_there;
            meter.blocks(end.into(), self.height.into(), transactions);
            target.write_piece(&lists)
        };
        let heights = outputs.heights.clone();
        self.blocks
            .for_each_run(heights, Portion::GROUPS.blocks, cores(), &convert, &mut take)?;
        Ok(unspent)
    }

    /// Writes the file. Returns the number of hints, and the length of the file, where there is
    /// one.
    fn write_all(
        &mut self,
        arguments: &ExportHintsArguments,
        meter: &mut EngineMeter,
    ) -> Result<(u64, Option<u64>), Failure> {
        let mut target = Target::open(self.out, arguments.force)?;
        target.write_piece(&hints::head(self.height))?;
        self.count(meter)?;
        let mut unspent = 0;
        for part in parts(&self.counts, arguments.outputs_at_once) {
            let outputs = self.outputs_of(part, meter)?;
            unspent += self.write(&outputs, &mut target, meter)?;
        }
        Ok((unspent, target.complete()?))
    }
}

/// From the set of a data directory.
fn of_data(arguments: &ExportHintsArguments, data: &Path) -> Result<u8, Failure> {
    let stop = signals::stop_flag_of_output()?;
    let mut meter = EngineMeter::new();
    let out = &arguments.out;
    let sources = &arguments.blocks;
    let at = arguments.at.map(|height| Earlier { height, sources });
    let set = open_set_at(data, at, &stop, &mut meter)?;
    pass::check_chain(&set, data, arguments.chain.id()?)?;
    let mut blocks = set.blocks()?;
    if !blocks.add_files(sources, &stop, &mut meter)? {
        return Err(Failure::Stopped(out.clone()));
    }
    let key = RandomState::new();
    let mut source = Source {
        for_each: &|heights, meter, take| for_each_coin(&set, &key, heights, meter, take),
        are_spent: false,
        blocks: &blocks,
        height: set.tip().height,
        counts: Vec::new(),
        key: &key,
        name: output::path_text(data).into_owned(),
        out,
        check_stop: &|| match stop.load(Ordering::Relaxed) {
            true => Err(Failure::Stopped(out.clone())),
            false => Ok(()),
        },
    };
    let (unspent, bytes) = source.write_all(arguments, &mut meter)?;
    drop(meter);
    // With the first one, which has no hints.
    let blocks = u64::from(set.tip().height) + 1;
    let (hints, of) = (output::counted(unspent, "hint"), output::counted(blocks, "block"));
    let fields = json!({"blocks": blocks, "hints": unspent});
    say_written(&format!("{hints} of {of}"), fields, bytes, out)?;
    Ok(0)
}

/// From block files, and the undo files beside them.
fn of_files(arguments: &ExportHintsArguments) -> Result<u8, Failure> {
    let asked = Asked {
        arguments: &arguments.pass(),
        from: 0,
        stopped: Failure::Stopped,
    };
    pass::run(&asked, &|pass, meter| {
        let key = RandomState::new();
        let mut source = Source {
            for_each: &|heights, meter, take| for_each_spent(pass, &key, heights, meter, take),
            are_spent: true,
            blocks: &pass.blocks,
            height: *pass.heights.end(),
            counts: Vec::new(),
            key: &key,
            name: "undo data".to_owned(),
            out: &arguments.out,
            check_stop: &|| pass.check_stop(),
        };
        let (rows, bytes) = source.write_all(arguments, meter)?;
        Ok(vec![Written::whole("hint", rows, arguments.out.clone(), bytes)])
    })
}

pub(crate) fn run(arguments: &ExportHintsArguments) -> Result<u8, Failure> {
    match &arguments.data {
        Some(data) => of_data(arguments, data),
        None => of_files(arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_by_their_coins() {
        let counts = [0, 2, 3, 0, 9, 1, 0, 4, 1];
        assert_eq!(parts(&counts, 100), [1..=8]);
        assert_eq!(parts(&counts, 5), [1..=3, 4..=4, 5..=7, 8..=8]);
        assert_eq!(
            parts(&counts, 0),
            (1..=8).map(|height| height..=height).collect::<Vec<_>>()
        );
        assert!(parts(&counts[..1], 5).is_empty());
    }
}

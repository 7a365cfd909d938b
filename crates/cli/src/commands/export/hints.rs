//! `blockmill export hints`.
//!
//! The set says which outputs of a block are unspent, and the block says what their numbers are.
//! The coins of many blocks in a row are taken from the set together, so that memory has a bound.
//! Of each one a number of 64 bits is kept: a hash of its outpoint, with a key that nobody can know
//! before.

use crate::arguments::export::ExportHintsArguments;
use crate::commands::{cores, open_set_at, share};
use crate::export::table::say_written;
use crate::export::target::Target;
use crate::failure::Failure;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_block::{Block, OutPoint};
use blockmill_chain::{ChainBlocks, Observer};
use blockmill_datadir::{Batch, UtxoSet};
use blockmill_tables::hints;
use blockmill_tables::pass::RUN_BYTES;
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the hints come from.
struct Source<'a> {
    set: &'a UtxoSet,
    blocks: ChainBlocks,
    /// The number of coins of each block, by height.
    counts: Vec<u32>,
    key: RandomState,
    data: &'a Path,
    out: &'a Path,
    stop: &'a AtomicBool,
}

/// The coins of some blocks in a row.
struct CoinsOfBlocks {
    heights: RangeInclusive<u32>,
    /// Where the coins of each block begin, and where those of the last one end.
    starts: Vec<usize>,
    hashes: Vec<u64>,
}

impl CoinsOfBlocks {
    /// The hashes of the coins of a block.
    fn of(&self, height: u32) -> &[u64] {
        let number = (height - self.heights.start()) as usize;
        &self.hashes[self.starts[number]..self.starts[number + 1]]
    }
}

/// Gives what `keep` makes of each coin to `take`.
fn for_each_coin<T: Send>(
    set: &UtxoSet,
    meter: &mut EngineMeter,
    check_stop: &dyn Fn() -> Result<(), Failure>,
    keep: &(dyn Fn(&OutPoint, u32) -> Option<T> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let convert = |batch: Batch| {
        let (count, share) = (batch.len() as u64, share(&batch));
        let kept: Vec<T> = batch
            .iter()
            .filter_map(|(outpoint, coin)| keep(outpoint, coin.height))
            .collect();
        Ok::<_, Failure>((kept, count, share))
    };
    let mut coins = 0;
    set.for_each_batch(&convert, &mut |(kept, count, share)| {
        check_stop()?;
        coins += count;
        meter.coins(coins, share);
        kept.into_iter().try_for_each(&mut *take)
    })
}

/// Cuts the blocks above the first one so that those of each part have about so many coins.
fn parts(counts: &[u32], coins_max: u64) -> Vec<RangeInclusive<u32>> {
    let mut parts: Vec<RangeInclusive<u32>> = Vec::new();
    let mut coins = 0;
    for (height, &count) in (0..).zip(counts).skip(1) {
        coins += u64::from(count);
        match parts.last_mut() {
            Some(part) if coins <= coins_max => *part = *part.start()..=height,
            _ => {
                parts.push(height..=height);
                coins = count.into();
            }
        }
    }
    parts
}

impl Source<'_> {
    fn check_stop(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::Stopped(self.out.to_owned())),
            false => Ok(()),
        }
    }

    /// That the set is not that of the blocks.
    fn damaged(&self, height: u32, what: &str) -> Failure {
        let data = output::path_text(self.data);
        Failure::Corrupt(format!("{data}: height {height}: {what}"))
    }

    /// Counts the coins of each block.
    fn count(&mut self, meter: &mut EngineMeter) -> Result<(), Failure> {
        let mut counts = vec![0u32; self.set.tip().height as usize + 1];
        let check_stop = || self.check_stop();
        for_each_coin(self.set, meter, &check_stop, &|_, height| Some(height), &mut |height| {
            match counts.get_mut(height as usize) {
                Some(count) if height > 0 => *count += 1,
                _ => return Err(self.damaged(height, "no block of this height can have a coin in the set")),
            }
            Ok(())
        })?;
        self.counts = counts;
        Ok(())
    }

    /// Takes the coins of some blocks from the set.
    fn coins_of(&self, heights: RangeInclusive<u32>, meter: &mut EngineMeter) -> Result<CoinsOfBlocks, Failure> {
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
        let keep = |outpoint: &OutPoint, height: u32| {
            let is_wanted = heights.contains(&height);
            is_wanted.then(|| ((height - first) as usize, self.key.hash_one(outpoint)))
        };
        let check_stop = || self.check_stop();
        for_each_coin(self.set, meter, &check_stop, &keep, &mut |(number, hash)| {
            // The set is the same as when the coins were counted.
            if let Some(entry) = hashes.get_mut(next[number]) {
                *entry = hash;
                next[number] += 1;
            }
            Ok(())
        })?;
        Ok(CoinsOfBlocks {
            heights,
            starts,
            hashes,
        })
    }

    /// The list of a block.
    fn list(&self, height: u32, block: &Block, coins: &CoinsOfBlocks, file: &mut Vec<u8>) -> Result<(), Failure> {
        let mut hashes = coins.of(height).to_vec();
        hashes.sort_unstable();
        let replaced = self.blocks.params().bip30_overwritten;
        let is_replaced = replaced.contains(&(height, block.hash()));
        let is_unspent = |outpoint: &OutPoint| hashes.binary_search(&self.key.hash_one(outpoint)).is_ok();
        let numbers = hints::numbers(block, is_replaced, is_unspent);
        // Two outputs of a block with one hash show here, too; with another key there are none.
        if numbers.len() != hashes.len() {
            let (coins, outputs) = (hashes.len(), numbers.len());
            let what = format!("the set has {coins} coins of this block, which are {outputs} of its outputs");
            return Err(self.damaged(height, &what));
        }
        hints::append(&numbers, file);
        Ok(())
    }

    /// Writes the lists of some blocks. Returns the number of their transactions.
    fn write(
        &self,
        coins: &CoinsOfBlocks,
        mut transactions: u64,
        target: &mut Target,
        meter: &mut EngineMeter,
    ) -> Result<u64, Failure> {
        let convert = |run: RangeInclusive<u32>| {
            let (mut lists, mut count) = (Vec::new(), 0);
            let end = *run.end();
            for height in run {
                self.check_stop()?;
                let block = self.blocks.block(height)?;
                count += block.transaction_count() as u64;
                self.list(height, &block, coins, &mut lists)?;
            }
            Ok::<_, Failure>((lists, count, end))
        };
        let of = u64::from(self.blocks.height());
        let mut take = |(lists, count, end): (Vec<u8>, u64, u32)| {
            transactions += count;
            meter.blocks(end.into(), of, transactions);
            target.write_piece(&lists)
        };
        let heights = coins.heights.clone();
        self.blocks
            .for_each_run(heights, RUN_BYTES, cores(), &convert, &mut take)?;
        Ok(transactions)
    }
}

pub(crate) fn run(arguments: &ExportHintsArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let (out, wanted) = (&arguments.out, &arguments.set);
    let (at, reach) = (wanted.at.earlier(), wanted.older.reach());
    let set = open_set_at(&wanted.data, at, reach, &stop, &mut meter)?;
    let mut source = Source {
        set: &set,
        blocks: set.blocks()?,
        counts: Vec::new(),
        key: RandomState::new(),
        data: &wanted.data,
        out,
        stop: &stop,
    };
    let height = set.tip().height;
    let mut target = Target::open(out, arguments.force)?;
    target.write_piece(&hints::head(height))?;
    source.count(&mut meter)?;
    let mut transactions = 0;
    for part in parts(&source.counts, arguments.coins_at_once) {
        let coins = source.coins_of(part, &mut meter)?;
        transactions = source.write(&coins, transactions, &mut target, &mut meter)?;
    }
    let bytes = target.complete()?;
    drop(meter);
    let coins: u64 = source.counts.iter().map(|&count| u64::from(count)).sum();
    let (what, blocks) = (output::counted(coins, "hint"), output::counted(height.into(), "block"));
    say_written(
        &format!("{what} of {blocks}"),
        json!({"hints": coins, "blocks": height}),
        bytes,
        out,
    )?;
    Ok(0)
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

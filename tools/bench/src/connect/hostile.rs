//! The price of a hostile block: a block that keeps all rules until its coins are looked up.
//!
//! Blocks are resolved in windows, by all threads. If a block of a window breaks a rule, the whole
//! window is taken back and resolved again, block by block. That costs most if the window is large
//! and the block is the last one. So the block here is the last one of its chain: its last
//! transaction spends a coin that its first one has spent. The runs take turns with runs over the
//! same chain without that block.

use super::contender::{CACHE_MIB, Contender, Stored, connect_observed, options, stored_by_ours};
use super::temporary_directory;
use crate::clock::{Elapsed, Spread};
use crate::error::BenchError;
use blockmill_block::Network;
use blockmill_chain::RunOutcome;
use blockmill_chaingen::bitcoin::consensus::{deserialize, serialize};
use blockmill_chaingen::builder::{repair, spend_any};
use blockmill_chaingen::{ChainSpec, Profile, bitcoin, generate};
use blockmill_engine::ConnectReport;
use blockmill_engine::engine::internals::Without;
use blockmill_engine::report::Stage;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const HOSTILE: &str = "price of a hostile block";

/// The rule that the block breaks.
const REASON: &str = "bad-txns-inputs-missingorspent";

const SEED: u64 = 1;

/// The chain of the hostile block, and the runs.
#[derive(Debug, Clone)]
pub(super) struct HostilePlan {
    pub(super) spec: ChainSpec,
    /// Number of heights, the last ones, that are tried for the block.
    pub(super) heights: u32,
    /// Numbers of threads.
    pub(super) threads: Vec<usize>,
    /// Runs with the block, and as many without it.
    pub(super) runs: usize,
}

/// A printed row.
#[derive(Debug, Clone, Serialize)]
pub(super) struct HostileRow {
    pub(super) chain: &'static str,
    pub(super) engine: &'static str,
    pub(super) threads: usize,
    pub(super) runs: usize,
    /// Height of the block.
    pub(super) blocks: u32,
    /// Inputs of the chain, those of the block included.
    pub(super) inputs: u64,
    /// Seconds of the runs with the block.
    pub(super) seconds_median: f64,
    pub(super) seconds_min: f64,
    pub(super) seconds_max: f64,
    /// Time more than without the block, of runs side by side, opening and closing not counted.
    pub(super) milliseconds_more_median: f64,
    pub(super) milliseconds_more_min: f64,
    pub(super) milliseconds_more_max: f64,
    /// The same of the time that threads worked in resolving, added up: the median.
    pub(super) resolve_milliseconds_more: f64,
    /// With one thread: blocks of the window that was resolved again, the hostile one included.
    /// With more, windows differ from run to run, so two runs do not say how many there were.
    pub(super) blocks_again: Option<u64>,
    pub(super) serial_replays: u64,
    /// Hash of the block below.
    pub(super) tip: String,
}

impl HostilePlan {
    pub(super) fn new(quick: bool, threads: Vec<usize>) -> Self {
        Self {
            // No coin can be spent below height 101. The blocks above are three windows.
            spec: ChainSpec {
                inputs: 60_000,
                coins: 60_000,
                ..ChainSpec::new(Profile::Utxo, 124, SEED)
            },
            heights: if quick { 4 } else { 12 },
            threads,
            runs: if quick { 3 } else { 11 },
        }
    }
}

/// Measures the price with each number of threads.
pub(super) fn measure(plan: &HostilePlan, progress: &mut dyn FnMut(&str)) -> Result<Vec<HostileRow>, BenchError> {
    let mut blocks = Vec::new();
    let mut keep = |_, block: &[u8]| {
        blocks.push(block.to_vec());
        Ok(())
    };
    generate(&plan.spec, &mut keep, &mut |_| ())?;
    let case = worst_case(&blocks, plan.heights)?;
    progress(&format!("{HOSTILE}: the block is at height {}", case.height));
    let rows = plan.threads.iter().map(|&threads| {
        let row = case.measure(threads, plan.runs)?;
        progress(&format!(
            "{HOSTILE}: {}: {:.1} ms more",
            Contender::Blockmill.words(threads),
            row.milliseconds_more_median
        ));
        Ok(row)
    });
    rows.collect()
}

/// The hostile block at one of the last `heights` heights: where the most blocks are resolved
/// again.
fn worst_case(blocks: &[Vec<u8>], heights: u32) -> Result<Case, BenchError> {
    let highest = blocks.len() as u32 - 1;
    let mut worst: Option<(u64, u32)> = None;
    for height in (1..=highest).rev().take(heights as usize) {
        let case = Case::write(blocks, height)?;
        let again = blocks_again(&case.connect(true, 1)?, &case.connect(false, 1)?);
        worst = worst.max(Some((again, height)));
    }
    Case::write(blocks, worst.map_or(highest, |(_, height)| height))
}

/// Blocks that were resolved again, the hostile one included, in runs with one thread.
fn blocks_again(hostile: &Outcome, sound: &Outcome) -> u64 {
    let in_shards = |outcome: &Outcome| outcome.report.totals.resolved_in_shards;
    in_shards(sound).saturating_sub(in_shards(hostile)) + 1
}

/// Two files: a chain with the hostile block on top, and the chain below it.
struct Case {
    directory: TempDir,
    height: u32,
    /// Hash of the hostile block.
    hash: String,
    /// Hash of the block below.
    parent: String,
    inputs: u64,
}

/// A run, which has ended as it should.
struct Outcome {
    elapsed: Elapsed,
    report: ConnectReport,
    coins: Option<String>,
}

impl Case {
    /// Makes the block at `height` hostile, and leaves out all above it. `blocks` begins with
    /// genesis.
    fn write(blocks: &[Vec<u8>], height: u32) -> Result<Self, BenchError> {
        let (below, rest) = blocks.split_at(height as usize);
        let mut hostile = decode(&rest[0], height)?;
        make_hostile(&mut hostile).ok_or_else(|| failed(height, "it spends nothing"))?;
        let mut inputs = 0;
        for (height, block) in (0..).zip(below) {
            inputs += inputs_of(&decode(block, height)?);
        }
        let case = Self {
            directory: temporary_directory()?,
            height,
            hash: hostile.block_hash().to_string(),
            parent: hostile.header.prev_blockhash.to_string(),
            inputs: inputs + inputs_of(&hostile),
        };
        let mut records = Vec::new();
        below.iter().for_each(|block| add_record(&mut records, block));
        write(&case.file(false), &records)?;
        add_record(&mut records, &serialize(&hostile));
        write(&case.file(true), &records)?;
        Ok(case)
    }

    fn file(&self, hostile: bool) -> PathBuf {
        self.directory
            .path()
            .join(if hostile { "hostile.dat" } else { "sound.dat" })
    }

    /// Runs with and without the block in turns.
    fn measure(&self, threads: usize, runs: usize) -> Result<HostileRow, BenchError> {
        let mut pairs = Vec::new();
        for _ in 0..runs.max(1) {
            let (sound, hostile) = (self.connect(false, threads)?, self.connect(true, threads)?);
            self.same(threads, "hash_serialized_3", &hostile.coins, &sound.coins)?;
            pairs.push((hostile, sound));
        }
        let seconds = Spread::of(pairs.iter().map(|(hostile, _)| hostile.elapsed.seconds));
        let more = |of: fn(&Outcome) -> f64| {
            Spread::of(pairs.iter().map(|(hostile, sound)| (of(hostile) - of(sound)) * 1_000.0))
        };
        let price = more(|outcome| outcome.report.seconds);
        let resolving = more(|outcome| outcome.report.totals.stages.get(Stage::Resolve).busy_seconds);
        let again = pairs.iter().map(|(hostile, sound)| blocks_again(hostile, sound)).max();
        let replays = pairs.iter().map(|(hostile, _)| hostile.report.totals.serial_replays);
        Ok(HostileRow {
            chain: HOSTILE,
            engine: Contender::Blockmill.name(),
            threads,
            runs: pairs.len(),
            blocks: self.height,
            inputs: self.inputs,
            seconds_median: seconds.median,
            seconds_min: seconds.min,
            seconds_max: seconds.max,
            milliseconds_more_median: price.median,
            milliseconds_more_min: price.min,
            milliseconds_more_max: price.max,
            resolve_milliseconds_more: resolving.median,
            blocks_again: again.filter(|_| threads == 1),
            serial_replays: replays.max().unwrap_or(0),
            tip: self.parent.clone(),
        })
    }

    /// Connects one of the files in this process, and checks the result.
    fn connect(&self, hostile: bool, threads: usize) -> Result<Outcome, BenchError> {
        let data = temporary_directory()?;
        let options = options(threads, CACHE_MIB);
        let (elapsed, report) =
            connect_observed(&self.file(hostile), data.path(), options, Without::default(), &mut ())?;
        let rejected: Vec<_> = report
            .rejected
            .iter()
            .map(|block| (block.hash.to_string(), block.height, block.reject.reason.to_string()))
            .collect();
        let (outcome, expected) = if hostile {
            let block = (self.hash.clone(), self.height, REASON.to_owned());
            (RunOutcome::Rejected, vec![block])
        } else {
            (RunOutcome::Complete, Vec::new())
        };
        let Stored { tip, hash_serialized_3 } = stored_by_ours(data.path())?;
        self.same(threads, "outcome", &report.outcome(), &outcome)?;
        self.same(threads, "rejected blocks", &rejected, &expected)?;
        self.same(threads, "height", &report.height, &(self.height - 1))?;
        self.same(threads, "tip", &report.tip.to_string(), &self.parent)?;
        self.same(threads, "stored tip", &tip, &self.parent)?;
        self.same(
            threads,
            "windows resolved again",
            &report.totals.serial_replays,
            &u64::from(hostile),
        )?;
        Ok(Outcome {
            elapsed,
            report,
            coins: hash_serialized_3,
        })
    }

    fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        threads: usize,
        what: &'static str,
        found: &T,
        wanted: &T,
    ) -> Result<(), BenchError> {
        if found == wanted {
            return Ok(());
        }
        Err(BenchError::Mismatch {
            run: format!(
                "{HOSTILE} at height {}: {}",
                self.height,
                Contender::Blockmill.words(threads)
            ),
            what,
            found: format!("{found:?}"),
            wanted: format!("{wanted:?}"),
        })
    }
}

fn failed(height: u32, detail: &str) -> BenchError {
    BenchError::Process {
        run: format!("{HOSTILE} at height {height}"),
        detail: detail.to_owned(),
    }
}

fn decode(block: &[u8], height: u32) -> Result<bitcoin::Block, BenchError> {
    deserialize(block).map_err(|error| failed(height, &error.to_string()))
}

/// Inputs of a block, the coinbase's not counted.
fn inputs_of(block: &bitcoin::Block) -> u64 {
    block
        .txdata
        .iter()
        .skip(1)
        .map(|transaction| transaction.input.len() as u64)
        .sum()
}

/// Appends a transaction that spends the first coin once more. None: the block spends nothing.
fn make_hostile(block: &mut bitcoin::Block) -> Option<()> {
    let spent = block.txdata.get(1)?.input.first()?.previous_output;
    block.txdata.push(spend_any(spent, 0));
    repair(block);
    Some(())
}

/// Adds a block in the form of `blk*.dat` files.
fn add_record(records: &mut Vec<u8>, block: &[u8]) {
    records.extend(Network::Regtest.magic().0);
    records.extend((block.len() as u32).to_le_bytes());
    records.extend(block);
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    std::fs::write(path, bytes).map_err(BenchError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks that can spend, each with enough coins for a window of its own.
    fn blocks() -> Vec<Vec<u8>> {
        let mut blocks = Vec::new();
        let spec = ChainSpec {
            inputs: 6_000,
            ..ChainSpec::new(Profile::Utxo, 103, SEED)
        };
        let mut keep = |_, block: &[u8]| {
            blocks.push(block.to_vec());
            Ok(())
        };
        generate(&spec, &mut keep, &mut |_| ()).unwrap();
        blocks
    }

    #[test]
    fn the_price_is_of_a_window_that_is_resolved_again() {
        let plan = HostilePlan {
            spec: ChainSpec {
                inputs: 6_000,
                ..ChainSpec::new(Profile::Utxo, 103, SEED)
            },
            heights: 2,
            threads: vec![1, 2],
            runs: 2,
        };
        let mut lines = Vec::new();
        let rows = measure(&plan, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(rows.len(), 2);
        for (row, threads) in rows.iter().zip([1, 2]) {
            assert_eq!((row.threads, row.runs, row.serial_replays), (threads, 2, 1));
            assert!((102..=103).contains(&row.blocks), "{row:?}");
            assert_eq!(row.blocks_again >= Some(1), threads == 1, "{row:?}");
            assert!(row.milliseconds_more_min <= row.milliseconds_more_median);
            assert!(row.milliseconds_more_median <= row.milliseconds_more_max);
            assert!(row.resolve_milliseconds_more > 0.0, "{row:?}");
        }
    }

    #[test]
    fn a_result_that_is_not_the_expected_one_is_an_error() {
        let blocks = blocks();
        let wrong = |change: fn(&mut Case), hostile: bool, what: &str| {
            let mut case = Case::write(&blocks, 103).unwrap();
            change(&mut case);
            let error = case.connect(hostile, 1).err().unwrap();
            assert!(
                matches!(&error, BenchError::Mismatch { what: found, .. } if *found == what),
                "{error}"
            );
        };
        wrong(|case| case.hash = "other".to_owned(), true, "rejected blocks");
        wrong(|case| case.height += 1, false, "height");
        wrong(|case| case.parent = "other".to_owned(), false, "tip");
        // A chain without the block.
        let swap = |case: &mut Case| {
            std::fs::copy(case.file(false), case.file(true)).unwrap();
        };
        wrong(swap, true, "outcome");
    }

    #[test]
    fn a_block_that_spends_nothing_cannot_be_hostile() {
        let error = Case::write(&blocks(), 50).err().unwrap();
        assert!(error.to_string().ends_with("height 50: it spends nothing"), "{error}");
    }
}

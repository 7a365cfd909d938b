//! `blockmill-bench fetch`: the end of a chain connected over a store with slow reads, with and
//! without fetching.
//!
//! A first run connects the chain up to a height. Each row's run goes on from a copy of that data
//! directory with an empty cache, so that nearly every coin must be read. There are two kinds of
//! slow reads: a wrapper around the embedded store sleeps for every key, inside of batches too; or
//! the store's file is dropped from the system's page cache before the run.

use crate::BenchOptions;
use crate::clock::{Spread, Stopwatch};
use crate::connect::temporary_directory;
use crate::error::BenchError;
use crate::report::{Column, Report, Target};
use blockmill_block::{Coin, Network, OutPoint};
use blockmill_chaingen::{ChainSpec, Profile, Summary, write_chain};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{Changes, CoinIterator, CoinStore, StatsBuilder, StoreError, Tip};
use blockmill_datadir::DataDir;
use blockmill_datadir::store_file::open_store;
use blockmill_engine::engine::internals::{Internals, Without};
use blockmill_engine::{Engine, Options};
use blockmill_kernel::KernelVerifier;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const SEED: u64 = 9;

/// Sleep of the wrapper for each key.
const EACH: Duration = Duration::from_micros(100);

/// Memory for coins in bytes, so small that hardly any page of the store stays in it.
const CACHE_BYTES: usize = 16 << 20;

const SLEEPING: &str = "100 us for each key";
const DROPPED: &str = "page cache dropped";

const COLUMNS: &[Column] = &[
    Column::text("fetching", "fetching"),
    Column::number("threads", "threads", 0),
    Column::number("runs", "runs", 0),
    Column::number("inputs", "inputs", 0),
    Column::number("keys_ahead", "keys read ahead", 0),
    Column::number("misses", "misses in resolve", 0),
    Column::number("reads_in_flight", "reads in flight", 0),
    Column::number("seconds_median", "seconds", 3),
    Column::number("seconds_min", "min", 3),
    Column::number("seconds_max", "max", 3),
    Column::number("cpu_seconds_median", "CPU s", 3),
    Column::number("ratio", "without/this", 2),
];

/// A printed row.
#[derive(Debug, Clone, Serialize)]
struct Row {
    store: &'static str,
    fetching: String,
    threads: usize,
    runs: usize,
    inputs: u64,
    keys_ahead: u64,
    misses: u64,
    reads_in_flight: usize,
    seconds_median: f64,
    seconds_min: f64,
    seconds_max: f64,
    cpu_seconds_median: f64,
    /// Seconds without fetching over this row's.
    ratio: Option<f64>,
}

/// The way of reading coins ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetching {
    Without,
    /// With this number of readers.
    Readers(usize),
}

const WAYS: [Fetching; 4] = [
    Fetching::Without,
    Fetching::Readers(0),
    Fetching::Readers(4),
    Fetching::Readers(16),
];

/// A store that sleeps for each key.
struct Sleeping(Arc<dyn CoinStore>);

impl CoinStore for Sleeping {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        std::thread::sleep(EACH);
        self.0.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.0.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.0.commit(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.0.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.0.disk_size()
    }
}

/// A chain, and a data directory that has connected a part of it.
struct Base {
    directory: tempfile::TempDir,
    summary: Summary,
    height: u32,
}

impl Base {
    fn new(spec: &ChainSpec, height: u32) -> Result<Self, BenchError> {
        let directory = temporary_directory()?;
        let base = Self {
            summary: write_chain(&directory.path().join("blocks"), spec, &mut |_| ())?,
            directory,
            height,
        };
        let options = Options {
            stop_at_height: Some(height),
            ..Options::default()
        };
        let mut engine = Engine::builder(base.path("data"))
            .network(Network::Regtest)
            .options(options)
            .open(KernelVerifier)?;
        engine.connect(&[base.path("blocks")], &mut ())?;
        Ok(base)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Connects the rest of the chain once.
    fn run(&self, store: &'static str, fetching: Fetching, threads: usize) -> Result<Run, BenchError> {
        let copy = temporary_directory()?;
        copy_files(&self.path("data"), copy.path())?;
        let directory = DataDir::open(copy.path(), None)?;
        if store == DROPPED {
            drop_pages(&directory.store_path())?;
        }
        let embedded = open_store(&directory, threads)?;
        let store: Arc<dyn CoinStore> = if store == SLEEPING {
            Arc::new(Sleeping(embedded))
        } else {
            embedded
        };
        let options = Options {
            threads,
            cache_bytes_max: CACHE_BYTES,
            readers: match fetching {
                Fetching::Without => 0,
                Fetching::Readers(readers) => readers,
            },
            ..Options::default()
        };
        let internals = Internals {
            without: Without {
                fetch: fetching == Fetching::Without,
                ..Without::default()
            },
            ..Internals::default()
        };
        drop(directory);
        let builder = Engine::builder(copy.path()).store(store).options(options);
        let mut engine = builder.internals(internals).open(KernelVerifier)?;
        let clock = Stopwatch::start();
        let report = engine.connect(&[self.path("blocks")], &mut ())?;
        let elapsed = clock.elapsed();
        let found = StatsBuilder::new(Hashes::Serialized)
            .add_all(engine.coins().coins()?)?
            .finish(&engine.tip())
            .hash_serialized_3
            .to_string();
        if found != self.summary.hash_serialized_3 || report.start_height != self.height {
            return Err(BenchError::Mismatch {
                run: format!("{fetching:?} with {threads} threads"),
                what: "hash_serialized_3",
                found,
                wanted: self.summary.hash_serialized_3.clone(),
            });
        }
        Ok(Run {
            elapsed,
            inputs: report.totals.inputs,
            keys_ahead: report.totals.fetch.reads.keys,
            misses: report.totals.cache.misses,
            reads_in_flight: report.totals.fetch.reads.in_flight_max,
        })
    }
}

/// The outcome of a run.
struct Run {
    elapsed: crate::clock::Elapsed,
    inputs: u64,
    keys_ahead: u64,
    misses: u64,
    reads_in_flight: usize,
}

/// What a folder has.
fn paths_in(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let entries = std::fs::read_dir(folder).map_err(BenchError::file(folder))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths.collect::<std::io::Result<_>>().map_err(BenchError::file(folder))
}

/// Copies a folder with all that is in it.
fn copy_files(from: &Path, to: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(to).map_err(BenchError::file(to))?;
    for path in paths_in(from)? {
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_files(&path, &copy)?;
        } else {
            std::fs::copy(&path, copy).map_err(BenchError::file(path))?;
        }
    }
    Ok(())
}

/// Syncs a file, or those in a folder, and drops their pages from the page cache.
fn drop_pages(path: &Path) -> Result<(), BenchError> {
    if path.is_dir() {
        return paths_in(path)?.iter().try_for_each(|path| drop_pages(path));
    }
    let file = File::open(path).map_err(BenchError::file(path))?;
    file.sync_all().map_err(BenchError::file(path))?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| BenchError::file(path)(error.into()))
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let (blocks, inputs, coins, height, runs) = if options.quick {
        (150, 10_000, 6_000, 130, 2)
    } else {
        (500, 200_000, 150_000, 450, 5)
    };
    let spec = ChainSpec {
        inputs,
        coins,
        ..ChainSpec::new(Profile::Utxo, blocks, SEED)
    };
    let base = Base::new(&spec, height)?;
    progress(&format!("connected a chain up to height {height}"));
    let rows = rows(&base, &[1, 2], runs, progress)?;
    let mut report = Report::new(
        "fetch",
        "the end of a chain over a store with slow reads, with and without fetching",
        &options.command,
    );
    report.notes = vec![
        format!(
            "chain utxo, seed {SEED}: blocks {} to {}, the cache empty at first, {} MiB for coins",
            height + 1,
            base.summary.height,
            CACHE_BYTES >> 20
        ),
        "the keys are the outpoints of spent coins, and those that BIP 30 requires to be absent".to_owned(),
    ];
    report.group = Some("store");
    report.columns = COLUMNS.to_vec();
    let best = rows
        .iter()
        .find(|row| row.store == SLEEPING && row.threads == 2 && row.fetching == Fetching::Readers(16).words());
    report.targets = vec![Target::at_least(
        "100 us for each key, 2 threads: seconds without fetching over those with it",
        best.and_then(|row| row.ratio).unwrap_or(f64::NAN),
        6.0,
    )];
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    Ok(report)
}

impl Fetching {
    fn words(self) -> String {
        match self {
            Self::Without => "none: resolve reads".to_owned(),
            Self::Readers(0) => "by the pool".to_owned(),
            Self::Readers(readers) => format!("{readers} readers when reads block"),
        }
    }
}

fn rows(base: &Base, threads: &[usize], runs: usize, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for store in [SLEEPING, DROPPED] {
        for &threads in threads {
            let mut all: Vec<(Fetching, Vec<Run>)> = WAYS.map(|way| (way, Vec::new())).into();
            for _ in 0..runs {
                for (way, outcomes) in &mut all {
                    outcomes.push(base.run(store, *way, threads)?);
                }
            }
            progress(&format!("{store}: {threads} threads"));
            let seconds = |outcomes: &[Run]| Spread::of(outcomes.iter().map(|run| run.elapsed.seconds));
            let without = seconds(&all[0].1).median;
            rows.extend(all.iter().map(|(way, outcomes)| {
                let spread = seconds(outcomes);
                let last = &outcomes[outcomes.len() - 1];
                Row {
                    store,
                    fetching: way.words(),
                    threads,
                    runs: outcomes.len(),
                    inputs: last.inputs,
                    keys_ahead: last.keys_ahead,
                    misses: last.misses,
                    reads_in_flight: last.reads_in_flight,
                    seconds_median: spread.median,
                    seconds_min: spread.min,
                    seconds_max: spread.max,
                    cpu_seconds_median: Spread::of(outcomes.iter().map(|run| run.elapsed.cpu_seconds)).median,
                    ratio: (*way != Fetching::Without).then(|| without / spread.median),
                }
            }));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_end_alike() {
        let spec = ChainSpec {
            inputs: 600,
            coins: 400,
            ..ChainSpec::new(Profile::Utxo, 115, 3)
        };
        let base = Base::new(&spec, 108).unwrap();
        let rows = rows(&base, &[2], 1, &mut |_| ()).unwrap();
        assert_eq!(rows.len(), 2 * WAYS.len());
        for row in &rows {
            assert_eq!(row.ratio.is_some(), row.keys_ahead > 0, "{row:?}");
            let value = serde_json::json!(row);
            for column in COLUMNS {
                assert!(value.get(column.key).is_some(), "{}", column.key);
            }
        }
    }
}

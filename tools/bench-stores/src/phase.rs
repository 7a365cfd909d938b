//! What is measured, each in a process of its own. A store's tip says how many commits it has seen,
//! and so what is in it.

mod flush;
mod read;

use crate::generator::Generator;
use crate::list::CoinList;
use crate::process::{MemoryWatch, Stopwatch, Used, disk_size, make_cold, make_warm};
use crate::stores::{Contestant, Kind, Purpose, Settings};
use crate::{Arguments, Failure, Work};
use blockmill_block::{BlockHash, OutPoint};
use blockmill_coins::{Changes, CoinRef, Tip};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Coins of a round that tell whether it is there.
const SAMPLE: usize = 2000;

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// The files are read, so that the page cache has as much of them as it can hold.
    Warm,
    /// The files are taken out of the page cache.
    Cold,
    /// Coins in the order of their keys.
    Load,
    /// Rounds of changes with warm files. They age the store for what follows.
    Flush,
    /// One round of changes with cold files.
    FlushCold,
    /// Reads of coins that are there, by 1, 2 and 8 threads, then of coins that are not, with warm
    /// files.
    Read,
    /// Reads with cold files.
    ReadCold1,
    /// The same by 2 threads.
    ReadCold2,
    /// The same by 8 threads.
    ReadCold8,
    /// Reads of absent coins with cold files.
    AbsentCold,
    /// A round of changes, which is cut short from outside.
    Commit,
    /// Opening what a kill left.
    Reopen,
    /// Opening without what only saves time.
    Rebuild,
    /// All coins in the order of their keys.
    Scan,
}

/// Bytes of keys and values of changes, as every store writes them.
fn change_bytes(changes: &dyn Changes) -> u64 {
    let mut value = Vec::new();
    let mut bytes = 0;
    changes.visit_all(&mut |change| {
        value.clear();
        if let Some(coin) = change.coin {
            coin.write_compressed(&mut value);
        }
        bytes += (OutPoint::LENGTH + value.len()) as u64;
    });
    bytes
}

fn tip(commits: u64) -> Tip {
    Tip {
        hash: BlockHash([commits as u8; 32]),
        height: commits as u32,
    }
}

fn figures(used: Used) -> Value {
    json!({
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "written_bytes": used.written_bytes,
        "read_bytes": used.read_bytes,
    })
}

/// A phase under way.
struct Run<'a> {
    work: &'a Work,
    kind: Kind,
    directory: PathBuf,
    generator: Generator,
}

/// Runs a phase on the first of the named stores.
pub(crate) fn run(phase: Phase, arguments: &Arguments) -> Result<Value, Failure> {
    let kind = *arguments.stores.first().ok_or("no store is named")?;
    let work = &arguments.work;
    let run = Run {
        work,
        kind,
        directory: directory(arguments, kind),
        generator: work.generator(),
    };
    match phase {
        Phase::Warm => Ok(json!({"warmed": make_warm(&run.directory)?})),
        Phase::Cold => Ok(json!({"cooled": make_cold(&run.directory)?})),
        Phase::Load => run.load(),
        Phase::Flush => run.flush(work.rounds),
        Phase::FlushCold => run.flush(1),
        Phase::Read => run.read(work.reads, &[1, 2, 8], work.reads),
        Phase::ReadCold1 => run.read(work.cold_reads, &[1], 0),
        Phase::ReadCold2 => run.read(work.cold_reads, &[2], 0),
        Phase::ReadCold8 => run.read(work.cold_reads, &[8], 0),
        Phase::AbsentCold => run.read(0, &[], work.cold_reads),
        Phase::Commit => run.commit(),
        Phase::Reopen => run.reopen(),
        Phase::Rebuild => {
            std::fs::remove_file(kind.checkpoint(&run.directory).ok_or("there is no checkpoint")?)?;
            run.reopen()
        }
        Phase::Scan => run.scan(),
    }
}

/// The directory of a store.
pub(crate) fn directory(arguments: &Arguments, kind: Kind) -> PathBuf {
    arguments.dir.join(kind.name())
}

impl Run<'_> {
    fn open(&self, purpose: Purpose) -> Result<Box<dyn Contestant>, Failure> {
        let settings = Settings {
            purpose,
            cache_bytes: self.work.cache_mib << 20,
            coins_max: self.work.coins,
        };
        Ok(self.kind.open(&self.directory, settings)?)
    }

    fn load_commits(&self) -> u64 {
        self.work.coins.div_ceil(self.work.changes)
    }

    /// Rounds that a store has seen, by its tip.
    fn rounds(&self, store: &dyn Contestant) -> Result<u64, Failure> {
        let tip = store.tip()?.ok_or("the store has no tip")?;
        let rounds = u64::from(tip.height).checked_sub(self.load_commits());
        Ok(rounds.ok_or("the load was not finished")?)
    }

    fn load(&self) -> Result<Value, Failure> {
        let memory = MemoryWatch::start();
        let store = self.open(Purpose::Load)?;
        let watch = Stopwatch::start();
        for commit in 0..self.load_commits() {
            let start = commit * self.work.changes;
            let end = (start + self.work.changes).min(self.work.coins);
            store.commit(&self.generator.load(start..end), &tip(commit + 1))?;
        }
        let loaded = watch.used();
        store.settle()?;
        drop(store);
        let all = watch.used();
        let peaks = memory.finish();
        let bytes = change_bytes(&self.generator.load(0..self.work.coins));
        Ok(json!({
            "commits": figures(loaded),
            "with_settling": figures(all),
            "change_bytes": bytes,
            "write_ratio": all.written_bytes as f64 / bytes as f64,
            "anonymous_bytes": peaks.anonymous_bytes,
            "file_bytes": peaks.file_bytes,
            "resident_bytes": peaks.resident_bytes,
            "disk_bytes": disk_size(&self.directory)?,
        }))
    }

    fn commit(&self) -> Result<Value, Failure> {
        let store = self.open(Purpose::Use)?;
        let round = self.rounds(store.as_ref())?;
        let changes = self.generator.round(round);
        let mut out = std::io::stdout();
        writeln!(out, "begin")?;
        out.flush()?;
        store.commit(&changes, &tip(self.load_commits() + round + 1))?;
        Ok(json!({"committed": true}))
    }

    fn reopen(&self) -> Result<Value, Failure> {
        let watch = Stopwatch::start();
        let store = self.open(Purpose::Use)?;
        let used = watch.used();
        let rounds = self.rounds(store.as_ref())?;
        // Of the last round all must be there, of the one after it nothing.
        for (round, is_there) in [(rounds.checked_sub(1), true), (Some(rounds), false)] {
            let Some(round) = round else { continue };
            self.check_round(store.as_ref(), &self.generator.round(round), is_there)
                .map_err(|error| format!("round {round} is there in part: {error}"))?;
        }
        Ok(json!({"open": figures(used), "rounds": rounds}))
    }

    /// Whether all changes of a round are in the store, or none, by a sample of them.
    fn check_round(&self, store: &dyn Contestant, changes: &CoinList, is_there: bool) -> Result<(), Failure> {
        let step = (self.work.changes as usize / SAMPLE).max(1);
        for position in (0..changes.count()).step_by(step) {
            let (outpoint, coin) = changes.entry(position);
            let found = store.get(&outpoint)?;
            let is_right = if is_there {
                found.as_ref().map(CoinRef::from) == coin
            } else {
                found.is_some() != coin.is_some()
            };
            if !is_right {
                return Err(outpoint.to_string().into());
            }
        }
        Ok(())
    }

    fn scan(&self) -> Result<Value, Failure> {
        let store = self.open(Purpose::Use)?;
        let watch = Stopwatch::start();
        let (mut count, mut total, mut last) = (0, 0, None);
        for entry in store.coins()? {
            let (outpoint, coin) = entry?;
            if last.replace(outpoint) >= Some(outpoint) {
                return Err(format!("{outpoint} is out of order").into());
            }
            count += 1;
            total += coin.value;
        }
        let used = watch.used();
        let wanted = (
            self.generator.count(),
            self.generator.total(self.rounds(store.as_ref())?),
        );
        if (count, total) != wanted {
            return Err(format!("{count} coins of {total} instead of {wanted:?}").into());
        }
        Ok(json!({"scan": figures(used), "coins": count}))
    }
}

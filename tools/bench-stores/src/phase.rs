//! What is measured, each in a process of its own. A store's tip says how many commits it has seen,
//! and so what is in it.

use crate::arguments::{Arguments, Phase, Work};
use crate::generator::{CoinList, Generator};
use crate::meter::{Meter, disk_size};
use crate::stores::{Contestant, Kind, Settings};
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_coins::{Changes, Tip};
use blockmill_harness::{Failure, Run, print, process_cpu_seconds, same, status_bytes};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Barrier;

/// Coins of a round that tell whether it is there.
const SAMPLE: usize = 2000;

/// Outpoints asked for at once, about those of a block's transactions that one worker fetches.
const BATCH: usize = 64;

/// Slices in which reads are timed, for their spread.
const SLICES: usize = 10;

/// What a commit says before it begins, so that it can be killed.
pub(crate) const BEGIN: &str = "begin";

/// The runs of a phase by the table to which they belong.
pub(crate) type Tables = Vec<(String, Vec<Run>)>;

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
        // Any hash will do: the height counts commits.
        hash: BlockHash([commits as u8; 32]),
        height: commits as u32,
    }
}

/// A run over changes: bytes written for each of theirs, and bytes of the store for each coin.
fn per_byte(run: Run, change_bytes: u64, disk_bytes: f64, coins: u64) -> Run {
    let written = run.figures["written_bytes"];
    run.with("written_per_byte", written / change_bytes as f64)
        .with("disk_bytes_each", disk_bytes / coins as f64)
}

/// A phase under way.
struct Phased<'a> {
    work: &'a Work,
    kind: Kind,
    directory: PathBuf,
    generator: Generator,
}

/// Runs a phase on the first of the named stores.
pub(crate) fn run(phase: Phase, arguments: &Arguments) -> Result<Tables, Failure> {
    let kind = *arguments.stores.first().ok_or("no store is named")?;
    let work = &arguments.work;
    let run = Phased {
        work,
        kind,
        directory: directory(arguments, kind),
        generator: work.generator(),
    };
    match phase {
        Phase::Load => run.load(),
        Phase::Flush => run.flush("flush, warm", work.rounds),
        Phase::FlushCold => run.flush("flush, cold", 1),
        Phase::Read => run.read("warm", work.reads, &[1, 2], work.reads),
        Phase::ReadCold => run.read("cold", work.cold_reads, &[1], 0),
        Phase::AbsentCold => run.read("cold", 0, &[], work.cold_reads),
        Phase::Commit => run.commit(),
        Phase::Reopen => run.reopen("open after a kill"),
        Phase::Rebuild => {
            let checkpoint = kind.checkpoint(&run.directory).ok_or("there is no checkpoint")?;
            match std::fs::remove_file(checkpoint) {
                // After few changes a clean end leaves none.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
            run.reopen("open without a checkpoint")
        }
        Phase::Scan => run.scan(),
    }
}

/// The directory of a store.
pub(crate) fn directory(arguments: &Arguments, kind: Kind) -> PathBuf {
    arguments.dir.join(kind.name())
}

impl Phased<'_> {
    fn open(&self) -> Result<Box<dyn Contestant>, Failure> {
        let settings = Settings {
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

    fn disk_bytes(&self) -> Result<f64, Failure> {
        Ok(disk_size(&self.directory)? as f64)
    }

    /// Loads until the store is at rest and closed.
    fn load(&self) -> Result<Tables, Failure> {
        let store = self.open()?;
        let meter = Meter::start();
        let mut bytes = 0;
        for commit in 0..self.load_commits() {
            let start = commit * self.work.changes;
            let end = (start + self.work.changes).min(self.work.coins);
            let changes = self.generator.load(start..end);
            bytes += change_bytes(&changes);
            store.commit(&changes, &tip(commit + 1))?;
        }
        // A load ends when nothing is left to do: else the flushes would pay for it.
        store.wait_until_idle()?;
        drop(store);
        let run = meter.run(self.work.coins);
        let run = per_byte(run, bytes, self.disk_bytes()?, self.work.coins);
        Ok(vec![("load".to_owned(), vec![run])])
    }

    /// Flushes, one after the other. A round is made between two flushes: its CPU time is taken
    /// out, its wall time is time for work in the background. The CPU time of a flush reaches to
    /// the beginning of the next one; that of the last, until the store is at rest and closed.
    fn flush(&self, table: &str, rounds: u64) -> Result<Tables, Failure> {
        let store = self.open()?;
        let first = self.rounds(store.as_ref())?;
        let mut runs: Vec<Run> = Vec::new();
        let (mut begun, mut bytes) = (0.0, 0);
        let all = Meter::start();
        for round in first..first + rounds {
            if let Some(run) = runs.last_mut() {
                run.cpu_seconds = process_cpu_seconds() - begun;
            }
            let changes = self.generator.round(round);
            bytes += change_bytes(&changes);
            // From here on CPU time is the flush's, or of work that it has left to the background.
            begun = process_cpu_seconds();
            let meter = Meter::start();
            store.commit(&changes, &tip(self.load_commits() + round + 1))?;
            runs.push(meter.run(self.work.changes));
        }
        store.wait_until_idle()?;
        drop(store);
        let (written, disk) = (all.run(0).figures["written_bytes"], self.disk_bytes()?);
        if let Some(run) = runs.last_mut() {
            run.cpu_seconds = process_cpu_seconds() - begun;
        }
        // Written and kept in all, not by the one flush.
        let whole = |mut run: Run| {
            run.figures.insert("written_bytes".to_owned(), written);
            per_byte(run, bytes, disk, self.work.coins)
        };
        Ok(vec![(table.to_owned(), runs.into_iter().map(whole).collect())])
    }

    fn commit(&self) -> Result<Tables, Failure> {
        let store = self.open()?;
        let round = self.rounds(store.as_ref())?;
        let changes = self.generator.round(round);
        print(&mut std::io::stdout(), &BEGIN)?;
        store.commit(&changes, &tip(self.load_commits() + round + 1))?;
        Ok(Tables::new())
    }

    fn reopen(&self, table: &str) -> Result<Tables, Failure> {
        let meter = Meter::start();
        let store = self.open()?;
        let run = meter.run(0);
        let rounds = self.rounds(store.as_ref())?;
        // Of the last round all must be there, of the one after it nothing.
        for (round, is_there) in [(rounds.checked_sub(1), true), (Some(rounds), false)] {
            let Some(round) = round else { continue };
            self.check_round(store.as_ref(), &self.generator.round(round), is_there)
                .map_err(|error| format!("round {round} is there in part: {error}"))?;
        }
        Ok(vec![(table.to_owned(), vec![run])])
    }

    /// Whether all changes of a round are in the store, or none, by a sample of them.
    fn check_round(&self, store: &dyn Contestant, changes: &CoinList, is_there: bool) -> Result<(), Failure> {
        let step = (self.work.changes as usize / SAMPLE).max(1);
        for (outpoint, coin) in changes.0.iter().step_by(step) {
            let found = store.get(outpoint)?;
            let is_right = if is_there {
                found == *coin
            } else {
                found.is_some() != coin.is_some()
            };
            if !is_right {
                return Err(outpoint.to_string().into());
            }
        }
        Ok(())
    }

    fn scan(&self) -> Result<Tables, Failure> {
        let store = self.open()?;
        let meter = Meter::start();
        let (mut count, mut total, mut last) = (0, 0, None);
        for entry in store.coins()? {
            let (outpoint, coin) = entry?;
            if last.replace(outpoint) >= Some(outpoint) {
                return Err(format!("{outpoint} is out of order").into());
            }
            count += 1;
            total += coin.value;
        }
        let run = meter.run(count);
        let rounds = self.rounds(store.as_ref())?;
        let wanted = (self.generator.count(), self.generator.total(rounds));
        same("scan", "coins and their sum", (count, total), wanted)?;
        Ok(vec![("all coins in order".to_owned(), vec![run])])
    }

    /// Reads coins that are there with each number of threads, then as many that are not. Work that
    /// the open has begun in the background is awaited first.
    fn read(&self, files: &str, reads: u64, threads: &[u64], absent: u64) -> Result<Tables, Failure> {
        let anonymous = status_bytes("RssAnon");
        let meter = Meter::start();
        let store = self.open()?;
        let mut open = meter.run(0);
        store.wait_until_idle()?;
        let each = |bytes: u64| bytes as f64 / self.work.coins as f64;
        open = open.with(
            "memory_bytes_each",
            each(status_bytes("RssAnon").saturating_sub(anonymous)),
        );
        let mut tables = vec![(format!("open, {files}"), vec![open])];
        let rounds = self.rounds(store.as_ref())?;
        for &threads in threads {
            let numbers = (threads << 32)..(threads << 32) + reads;
            let present = |number| self.generator.present(number, rounds);
            let wanted = numbers.map(|number| Some(present(number)).map(|(outpoint, coin)| (outpoint, Some(coin))));
            let wanted: Vec<_> = wanted.flatten().collect();
            let runs = read_all(store.as_ref(), &wanted, threads as usize)?;
            tables.push((format!("read, {files}, {threads} threads"), runs));
        }
        if absent > 0 {
            let wanted: Vec<_> = (0..absent).map(|number| (Generator::absent(number), None)).collect();
            tables.push((format!("absent, {files}"), read_all(store.as_ref(), &wanted, 1)?));
        }
        Ok(tables)
    }
}

/// Reads what is wanted in slices, each divided among the threads, and compares it.
fn read_all(store: &dyn Contestant, wanted: &[(OutPoint, Option<Coin>)], threads: usize) -> Result<Vec<Run>, Failure> {
    let barrier = Barrier::new(threads + 1);
    let slices: Vec<_> = wanted.chunks(wanted.len().div_ceil(SLICES).max(1)).collect();
    std::thread::scope(|scope| {
        let (slices, barrier) = (&slices, &barrier);
        let readers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut result = Ok(());
                    for slice in slices {
                        // All threads begin a slice together, and the meter with them.
                        barrier.wait();
                        let own = slice.chunks(slice.len().div_ceil(threads)).nth(thread);
                        let read = own.map_or(Ok(()), |own| own.chunks(BATCH).try_for_each(|batch| read(store, batch)));
                        // A thread that has failed goes on waiting, or the others would never end.
                        result = result.and(read);
                        barrier.wait();
                    }
                    result
                })
            })
            .collect();
        let runs = slices.iter().map(|slice| {
            let meter = Meter::start();
            // The first one begins the slice, the second one ends it.
            barrier.wait();
            barrier.wait();
            let run = meter.run(slice.len() as u64);
            let each = |name: &str| run.figures[name] / slice.len() as f64;
            let (bytes, fetches) = (each("read_bytes"), each("fetches"));
            run.with("disk_bytes_each", bytes).with("fetches_each", fetches)
        });
        let runs = runs.collect();
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        Ok(runs)
    })
}

/// Reads a batch, and compares it.
fn read(store: &dyn Contestant, batch: &[(OutPoint, Option<Coin>)]) -> Result<(), Failure> {
    let outpoints: Vec<OutPoint> = batch.iter().map(|entry| entry.0).collect();
    let mut coins = Vec::with_capacity(batch.len());
    store.get_many(&outpoints, &mut coins)?;
    if !coins.iter().eq(batch.iter().map(|entry| &entry.1)) {
        return Err("a coin read is not what was written".into());
    }
    Ok(())
}

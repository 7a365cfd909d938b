//! Starts the phases of each store, each in a process of its own, with warm or cold files, and
//! makes the rows and the claims.

use crate::arguments::{Arguments, Phase};
use crate::meter::{make_cold, make_warm};
use crate::phase::{BEGIN, Tables, directory};
use crate::stores::Kind;
use blockmill_harness::{Clock, Failure, Report, Row, Run, finish, ratio};
use clap::ValueEnum;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Makes the files of a store warm or cold.
type Prepare = fn(&Path) -> io::Result<()>;

/// The phases in their order; kills follow.
const PHASES: [(Option<Prepare>, Phase); 7] = [
    (None, Phase::Load),
    (Some(make_warm), Phase::Flush),
    (Some(make_warm), Phase::Read),
    (Some(make_warm), Phase::Scan),
    (Some(make_cold), Phase::ReadCold),
    (Some(make_cold), Phase::AbsentCold),
    (Some(make_cold), Phase::FlushCold),
];

/// The store of ours.
const OURS: &str = "log";

/// How many times cheaper than its peers a flush of ours must be.
const FLUSH_TIMES: [(&str, f64); 2] = [("redb", 30.0), ("lmdb", 15.0)];

/// Runs everything.
pub(crate) fn run(arguments: &Arguments) -> Result<Report, Failure> {
    let work = &arguments.work;
    // Beside the rounds: the one with cold files, one for each kill, and one that must not be
    // there.
    let rounds = work.rounds + work.kills + 2;
    if work.generator().rounds_max() < rounds {
        return Err(format!("{} coins are too few for {rounds} rounds", work.coins).into());
    }
    let words: Vec<String> = std::env::args().collect();
    let mut report = Report::new("stores", "coin stores with the same work", &words.join(" "));
    report.notes.push(format!(
        "{} coins, {} flushes of {} changes, {} MiB for a store's own cache; every coin read is compared",
        work.coins, work.rounds, work.changes, work.cache_mib
    ));
    report.note(&[
        "CPU seconds of a flush reach to the next one, without those of making rounds; written: until rest",
        "reads come in batches of 64, in ten slices; fetches: calls that read, and faults that waited for the disk",
        "ratio: the store's CPU time over that of the log, of the same rounds or slices",
    ]);
    let mut stores: Vec<(String, Tables)> = Vec::new();
    for &kind in &arguments.stores {
        let directory = directory(arguments, kind);
        if directory.exists() {
            return Err(format!("{} exists already", directory.display()).into());
        }
        let tables = run_store(arguments, kind);
        // There is room for one store at a time.
        fs::remove_dir_all(&directory)?;
        stores.push((kind.name(), tables?));
    }
    report.rows = rows(&stores);
    claims(&mut report);
    Ok(report)
}

/// A row for each table and store, the tables in the order of the store that has most.
fn rows(stores: &[(String, Tables)]) -> Vec<Row> {
    let find = |store: &str, table: &str| -> Option<&Vec<Run>> {
        let (_, tables) = stores.iter().find(|other| other.0 == store)?;
        tables.iter().find(|other| other.0 == table).map(|found| &found.1)
    };
    let longest = stores.iter().max_by_key(|store| store.1.len());
    let mut rows = Vec::new();
    for (table, _) in longest.map_or(&[][..], |store| &store.1) {
        for (store, _) in stores {
            let Some(runs) = find(store, table) else { continue };
            let mut row = Row::new(table).with("store", store.as_str()).timed(runs);
            let ours = find(OURS, table).filter(|_| store != OURS);
            if let Some(ratio) = ours.and_then(|ours| ratio(Clock::Cpu, runs, ours)) {
                row.set_spread("ratio", ratio);
            }
            rows.push(row);
        }
    }
    rows
}

fn claims(report: &mut Report) {
    let of = |report: &Report, table: &str, store: &str, name: &str| {
        report.least(name, |row| row.table() == table && row.is("store", store))
    };
    let own = |report: &Report, table: &str, name: &str| of(report, table, OURS, name);
    for (store, wanted) in FLUSH_TIMES {
        let times = of(report, "flush, warm", store, "ratio_median");
        report.at_least(&format!("flush: CPU time of {store} over ours"), times, wanted);
    }
    for (table, wanted) in [("read, warm, 1 threads", 1.4), ("read, cold, 1 threads", 1.4)] {
        let times = of(report, table, "lmdb", "ratio_median");
        report.at_least(&format!("{table}: CPU time of lmdb over ours"), times, wanted);
    }
    for (table, name, wanted) in [
        ("flush, warm", "cpu_seconds_median", 0.6),
        ("flush, warm", "written_per_byte", 4.0),
        ("flush, warm", "disk_bytes_each", 110.0),
        ("read, cold, 1 threads", "fetches_each", 1.05),
        ("read, cold, 1 threads", "disk_bytes_each", 4500.0),
        ("absent, cold", "fetches_each", 0.0001),
        ("open, warm", "memory_bytes_each", 10.0),
        ("open, warm", "seconds_max", 5.0),
        ("open after a kill", "seconds_max", 12.0),
        ("open without a checkpoint", "seconds_max", 180.0),
    ] {
        let figure = own(report, table, name);
        report.at_most(&format!("{table}: {}", name.replace('_', " ")), figure, wanted);
    }
    let ends = own(report, "flush, warm", "seconds_max").zip(own(report, "flush, warm", "seconds_median"));
    report.at_most(
        "flush: worst wall time in medians",
        ends.map(|(max, median)| max / median),
        3.0,
    );
    let speed = |threads: u32| own(report, &format!("read, warm, {threads} threads"), "per_second");
    let times = speed(1).zip(speed(2)).map(|(one, two)| two / one);
    report.at_least("read, warm: speed of 2 threads over one", times, 1.8);
}

fn name(phase: Phase) -> String {
    let value = phase.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn run_store(arguments: &Arguments, kind: Kind) -> Result<Tables, Failure> {
    let run = |phase| run_phase(arguments, kind, phase);
    let mut tables = Tables::new();
    let files = directory(arguments, kind);
    for (prepare, phase) in PHASES {
        prepare.map_or(Ok(()), |prepare| prepare(&files))?;
        tables.extend(run(phase)?);
    }
    let flush = tables.iter().find(|table| table.0 == "flush, warm");
    let seconds = flush.and_then(|flush| flush.1.last()).map_or(0.0, |run| run.seconds);
    let kills = arguments.work.kills;
    let mut opens = Vec::new();
    for kill in 1..=kills {
        // At several moments of a commit.
        let delay = Duration::from_secs_f64(seconds * kill as f64 / (kills + 1) as f64);
        kill_after(command(arguments, kind, Phase::Commit)?.spawn()?, delay)?;
        opens.extend(run(Phase::Reopen)?.into_iter().flat_map(|table| table.1));
        if arguments.work.scan_after_kills {
            run(Phase::Scan)?;
        }
    }
    // One table with all kills, so that its worst case is the worst of them.
    tables.push(("open after a kill".to_owned(), opens));
    if kind.checkpoint(&arguments.dir).is_some() {
        make_warm(&files)?;
        tables.extend(run(Phase::Rebuild)?);
    }
    // After all that, the set is still what it should be.
    run(Phase::Scan)?;
    Ok(tables)
}

/// Runs a phase to its end. Its first run has the peak of its memory.
fn run_phase(arguments: &Arguments, kind: Kind, phase: Phase) -> Result<Tables, Failure> {
    let name = format!("{} {}", kind.name(), name(phase));
    let finished = finish(&mut command(arguments, kind, phase)?, &name)?;
    let mut tables: Tables = finished.json(0)?;
    for runs in tables.iter_mut().map(|table| &mut table.1) {
        let memory = [
            ("anonymous_mib", finished.anonymous_mib),
            ("file_mib", finished.file_mib),
        ];
        for (name, mib) in memory {
            runs.iter_mut()
                .take(1)
                .for_each(|run| *run = run.clone().with(name, mib));
        }
    }
    writeln!(io::stderr(), "{name}: {:.1} s", finished.run.seconds)?;
    Ok(tables)
}

fn command(arguments: &Arguments, kind: Kind, phase: Phase) -> Result<Command, Failure> {
    let work = &arguments.work;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--stores", &kind.name(), "--phase", &name(phase), "--dir"]);
    command.arg(&arguments.dir).stdout(Stdio::piped());
    if matches!(phase, Phase::Read) {
        // What an open has given back counts as given back at once.
        command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");
    }
    for (option, number) in [
        ("--coins", work.coins),
        ("--changes", work.changes),
        ("--rounds", work.rounds),
        ("--reads", work.reads),
        ("--cold-reads", work.cold_reads),
        ("--cache-mib", work.cache_mib as u64),
    ] {
        command.arg(option).arg(number.to_string());
    }
    Ok(command)
}

/// Waits until the commit begins, then so long, then kills.
fn kill_after(mut child: Child, delay: Duration) -> Result<(), Failure> {
    let mut line = String::new();
    // Kept until the end: a child that finishes before it is killed may still write.
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    output.read_line(&mut line)?;
    if !line.contains(BEGIN) {
        child.wait()?;
        return Err("the commit did not begin".into());
    }
    std::thread::sleep(delay);
    // It may be done by now, which is a moment like any other.
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(seconds: f64) -> Tables {
        let run = Run {
            seconds,
            cpu_seconds: seconds,
            count: 10,
            ..Run::default()
        };
        vec![(
            "flush, warm".to_owned(),
            vec![run.with("written_per_byte", 5.0 * seconds)],
        )]
    }

    #[test]
    fn claims_are_about_what_was_measured() {
        let mut report = Report::new("stores", "", "");
        report.rows = rows(&[(OURS.to_owned(), tables(0.5)), ("redb".to_owned(), tables(10.0))]);
        claims(&mut report);
        let found: Vec<_> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(20.0, false), (0.5, true), (2.5, true), (1.0, true)]);
        report.rows = rows(&[("redb".to_owned(), tables(10.0))]);
        report.claims.clear();
        claims(&mut report);
        assert_eq!(report.claims, []);
    }
}

//! `blockmill-bench race`: `connect`, `audit` and Core's daemon over somebody's own block files.
//!
//! Nothing is written where the files are. The daemon writes to block files and beside them, so it
//! gets a copy: the blocks of the chain up to the last height, and no others. Then all contenders
//! read the copy. Without a daemon there is no copy.
//!
//! A contender that fails has a row that says so, and the others go on. The report is meant to be
//! sent to others, so it has no path and no name of the user's.
//!
//! In reading order: `setup`, what the options come to; `chain`, the blocks; `ours` and `daemon`,
//! the contenders; `runs`, a process whose progress is shown; `verdict`, whether all have the same
//! set.

mod chain;
mod daemon;
mod ours;
mod runs;
mod setup;
mod verdict;

use crate::options::Options;
use crate::signatures::backend;
use blockmill_harness::{Contender, Failure, Progress, Report, Row, Turns, disk_of, operating_system};
use chain::Chain;
use daemon::Racer;
use ours::Ours;
use runs::{Say, version};
use setup::Setup;
use std::cell::RefCell;
use verdict::{Set, verdict};

pub(crate) use setup::with_files;

/// Name of the benchmark, and of its files.
pub(crate) const NAME: &str = "race";

/// The contenders.
const CONNECT: &str = "connect";
const AUDIT: &str = "audit";
const BITCOIND: &str = "bitcoind -reindex-chainstate";

/// The tables.
const RUNS: &str = "runs";
const SETS: &str = "sets";
const STAGES: &str = "stages of connect";
const BLOCKS: &str = "blocks";
const MACHINE: &str = "machine";

const NOTES: [&str; 6] = [
    "connect: block files into a new data directory, every script checked; audit: the same blocks in any order, against the set that \
     connect has left; bitcoind: the chainstate anew from indexed block files, every script checked, its undo files written by the first \
     run; ratio: seconds of bitcoind over those of ours; without bitcoind, those of audit over those of connect",
    "count: inputs, coinbases not counted; anonymous mib: largest anonymous memory that was seen in samples",
    "stages: of the fastest run, threads added up; cpu s: the share of the stage in busy s, of the CPU seconds of the run",
    "the first run after the blocks were read or copied finds them in the memory of the system, as far as they fit",
    "sets: what stats and gettxoutsetinfo say after the run; bitcoind must have the same set",
    "this page and the JSON have figures, versions, and kinds of processor, system and disk. They have no path, and no name of a person, a \
     machine or a volume",
];

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let setup = Setup::new(options)?;
    let say = Say::new(progress);
    let mut report = Report::new(NAME, "the blocks of a node, validated by each contender", "");
    let program = options.blockmill()?;
    // Programs that do not start are found before hours of work.
    let mut versions = vec![("blockmill", version(&program, "--version")?)];
    if let Some(bitcoind) = &setup.bitcoind {
        versions.push(("bitcoind", version(bitcoind, "-version")?));
    }
    let chain = Chain::find(&setup, &say)?;
    report.command = setup.words(chain.height);
    let work = setup.make_work(chain.bytes)?;
    let racer = setup.bitcoind.as_deref();
    let racer = racer.map(|program| Racer::prepare(program, &setup, &chain, work.path(), &say));
    let racer = racer.transpose()?;
    let ours = Ours {
        program: &program,
        blocks: racer.as_ref().map_or_else(|| setup.blocks.clone(), Racer::blocks),
        setup: &setup,
        chain: &chain,
        work: work.path(),
        say: &say,
        connected: RefCell::default(),
    };
    let sets = RefCell::new(Vec::new());
    // Runs of a contender may differ, too.
    let note = |who: &'static str, set: Set| {
        let mut sets = sets.borrow_mut();
        if !sets.contains(&(who, set.clone())) {
            sets.push((who, set));
        }
    };
    let row = |who: &str| Row::new(RUNS).with("who", who);
    let connect = || {
        let run = ours.connect()?;
        note(CONNECT, ours.set()?);
        Ok(run)
    };
    let audit = Contender::new(AUDIT, row(AUDIT), || ours.audit()).may_fail();
    let mut contenders = vec![
        Contender::new(CONNECT, row(CONNECT), connect)
            .beside_peer(BITCOIND)
            .may_fail(),
    ];
    match &racer {
        Some(racer) => {
            let run = move || {
                let run = racer.run()?;
                note(BITCOIND, racer.set()?);
                Ok(run)
            };
            contenders.push(audit.beside_peer(BITCOIND));
            contenders.push(Contender::new(BITCOIND, row(BITCOIND), run).may_fail());
        }
        None => contenders.push(audit.beside_ours(CONNECT)),
    }
    report.rows = Turns::new(setup.runs).take(NAME, contenders, &mut |line| say.line(line))?;
    report.wrong = verdict(&mut report.rows, &sets.borrow());
    report.rows.extend(ours.rows());
    report.rows.extend(machine_rows(&setup, work.path(), versions));
    report.note(&NOTES);
    Ok(report)
}

/// What is said of the machine beside processor, cores and memory.
fn machine_rows(setup: &Setup, work: &std::path::Path, versions: Vec<(&'static str, String)>) -> Vec<Row> {
    let facts = [
        ("operating system", operating_system()),
        ("disk of the block files", disk_of(&setup.blocks)),
        ("disk of the sets and copies", disk_of(work)),
        ("lanes of signatures", backend().to_owned()),
    ];
    let facts = facts.into_iter().chain(versions);
    facts
        .map(|(what, is)| Row::new(MACHINE).with("what", what).with("is", is))
        .collect()
}

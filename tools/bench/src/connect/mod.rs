//! `blockmill-bench connect`: block files to a validated UTXO set on disk, ours beside Core's
//! ChainstateManager.
//!
//! Both read the same generated files, check every script, flush everything and close. The runs
//! take turns, each in a process of its own and in a fresh directory, and the result is read back
//! from there. Bitcoin Core's daemon, if given, adds rows of its own, and a chain whose scripts are
//! assumed to be valid. With an earlier `blockmill`, the two commands run in turns and nothing else
//! does.
//!
//! In reading order: `site`, a chain in files and our command over it; `manager`, the
//! ChainstateManager; `bitcoind`, the daemon.

mod bitcoind;
mod manager;
mod site;

pub(crate) use bitcoind::CACHE_MIB;
pub(crate) use site::{Connect, IN_LANES, ONE_BY_ONE, STAGES, Site, call};

use crate::options::Options;
use crate::signatures::wanted_of_lanes;
use blockmill_chaingen::{ChainSpec, Profile};
use blockmill_harness::{Axes, Contender, Failure, Progress, Report, Row, Turns, part, print, same};
use manager::Part;
use std::io::Write;
use std::path::PathBuf;

pub(crate) const MIXED: &str = "mixed";
pub(crate) const UTXO: &str = "utxo";
const MIXED_SMALL: &str = "mixed, small blocks";
const UTXO_SMALL: &str = "utxo, small blocks";
const UTXO_ASSUMED: &str = "utxo, assumed valid";
const UTXO_BIG: &str = "utxo, big";
const UTXO_BIG_CACHED: &str = "utxo, big, 4000 MiB";

/// Ours by signatures, and the peers.
const SINGLY: &str = "blockmill, signatures one by one";
const LANES: &str = "blockmill, signatures lanes";
const MANAGER: &str = "ChainstateManager";
const BITCOIND: &str = "bitcoind";

const SEED: u64 = 1;

/// Empty blocks that bury the others under more than two weeks of work. Scripts of blocks with less
/// work above them are not assumed to be valid.
const BURYING_BLOCKS: u32 = 2_100;

/// Memory for coins that holds the whole big chain.
const LARGE_CACHE_MIB: u32 = 4_000;

/// Memory for coins that those of `utxo` outgrow, with the names of the tables.
const SMALL_CACHES: [(&str, u32); 3] = [("utxo, 16 MiB", 16), ("utxo, 64 MiB", 64), ("utxo, 256 MiB", 256)];

/// Anonymous memory for anything but coins, in MiB: the verifier's tables, the header index, blocks
/// ahead and in flight, stacks, and free memory that the allocator keeps.
const CONSTANT_MIB: f64 = 48.0;

/// Longest pause of the connecting thread for a flush.
const PAUSE_MAX_MS: f64 = 50.0;

const NOTES: [&str; 7] = [
    "seconds: from start to end of a process, of ChainstateManager from opening to closing; ratio: the peer's seconds over ours with as \
     many threads, of runs side by side",
    "on regtest Core scans its whole block index after every block, which costs time with many small blocks",
    "read to flush: share of each stage in the time that threads worked in all of them, percent; with more threads than cores that time \
     has waits for a core in it",
    "us/input: microseconds that threads worked in resolving, for each input; replays: windows of blocks that were resolved again",
    "hit rate to pause: of the cache, with its flushes; waits are pauses because it was full; written: by the process, undo data included",
    "signatures one by one: by libsecp256k1; signatures lanes: many at once, on chains with signatures",
    "bitcoind: -reindex-chainstate with -checkblockindex=0; -assumevalid=0 but where scripts are assumed",
];

/// A table over a chain.
#[derive(Debug, Clone, Copy)]
struct Table {
    name: &'static str,
    cache_mib: u32,
    runs: usize,
}

impl Table {
    fn has_signatures(self) -> bool {
        [MIXED, MIXED_SMALL].contains(&self.name)
    }

    fn is_big(self) -> bool {
        [UTXO_BIG, UTXO_BIG_CACHED].contains(&self.name)
    }

    /// Whether the cache is smaller than its peers can have it.
    fn is_small(self) -> bool {
        self.cache_mib < CACHE_MIB
    }

    /// Numbers of threads.
    fn threads(self, cores: usize) -> Vec<usize> {
        match (self.is_small(), self.is_big()) {
            (true, _) => vec![cores],
            (_, true) => up_to_cores(cores),
            _ => threads(cores),
        }
    }
}

/// A chain of transactions of a profile.
pub(crate) fn spec(profile: Profile, blocks: u32, inputs: u64, coins: u64) -> ChainSpec {
    ChainSpec {
        inputs,
        coins,
        ..ChainSpec::new(profile, blocks, SEED)
    }
}

/// The chains, each with its tables.
fn chains(options: &Options) -> Vec<(ChainSpec, Vec<Table>)> {
    use Profile::{Mixed, Utxo};
    let runs = options.size(1, 3, 5);
    let table = |name, cache_mib, runs| Table { name, cache_mib, runs };
    let of = |name, spec| (spec, vec![table(name, CACHE_MIB, runs)]);
    let mixed = options.size((110, 60), (130, 6_000), (300, 100_000));
    let (blocks, inputs, coins) = options.size((110, 60, 60), (130, 60_000, 40_000), (400, 3_000_000, 2_000_000));
    let mut chains = vec![
        of(MIXED, spec(Mixed, mixed.0, mixed.1, 0)),
        of(UTXO, spec(Utxo, blocks, inputs, coins)),
    ];
    let small = SMALL_CACHES.map(|(name, cache_mib)| table(name, cache_mib, 1));
    chains[1].1.extend(small);
    // Thousands of blocks take long, so only figures for documents have them.
    if runs == 5 {
        chains.insert(1, of(MIXED_SMALL, spec(Mixed, 2_000, 20_000, 0)));
        chains.push(of(UTXO_SMALL, spec(Utxo, 2_000, 20_000, 10_000)));
    }
    if options.bitcoind.is_some() {
        let buried = ChainSpec {
            empty_blocks: BURYING_BLOCKS,
            ..spec(Utxo, blocks + BURYING_BLOCKS, inputs, coins)
        };
        chains.push(of(UTXO_ASSUMED, buried));
    }
    if options.big {
        let (blocks, inputs, coins) =
            options.size((110, 60, 90), (150, 20_000, 60_000), (1_200, 6_000_000, 23_000_000));
        let tables = vec![
            table(UTXO_BIG, CACHE_MIB, 2),
            table(UTXO_BIG_CACHED, LARGE_CACHE_MIB, 2),
        ];
        chains.push((spec(Utxo, blocks, inputs, coins), tables));
    }
    chains
}

/// 1, 2, 4, 8, and further powers of two up to the cores.
fn threads(cores: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |threads| Some(threads * 2));
    doubled.take_while(|&threads| threads <= cores.max(8)).collect()
}

/// 1, 2, and further powers of two up to the cores.
fn up_to_cores(cores: usize) -> Vec<usize> {
    threads(cores)
        .into_iter()
        .filter(|&threads| threads <= cores.max(2))
        .collect()
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "block files to a validated UTXO set on disk, every script checked";
    let mut report = Report::new("connect", title, &options.command());
    report.note(&NOTES);
    report.axes = Some(Axes {
        series: "engine",
        x: "threads",
        y: "seconds_median",
    });
    let cores = report.machine.cores;
    for (spec, tables) in chains(options) {
        let site = Site::make(&spec, options.bitcoind.as_deref())?;
        let summary = &site.summary;
        report.notes.push(format!(
            "{}: {} blocks, seed {}, {} transactions, {} inputs, {} outputs, {} bytes, {} coins at the end, tip {}",
            tables[0].name,
            summary.height,
            summary.seed,
            summary.transactions,
            summary.inputs,
            summary.outputs,
            summary.bytes,
            summary.coins,
            summary.tip
        ));
        for table in tables {
            let all = table.threads(cores);
            // Without this the rows of 4 and 8 threads would make a short form long.
            let most = options.size(2, 2, usize::MAX);
            for &threads in all.iter().filter(|&&threads| threads <= most) {
                let is_last = threads == all[all.len() - 1];
                let contenders = contenders(table, threads, is_last, &site, options)?;
                let title = format!("{}, {threads} threads", table.name);
                report
                    .rows
                    .extend(Turns::new(table.runs).take(&title, contenders, progress)?);
            }
        }
    }
    claims(&mut report);
    Ok(report)
}

/// All that connect a chain with as many threads. `is_last`: no larger number of threads follows.
fn contenders<'a>(
    table: Table,
    threads: usize,
    is_last: bool,
    site: &'a Site,
    options: &'a Options,
) -> Result<Vec<Contender<'a>>, Failure> {
    let row = |engine: &str| {
        let mut row = Row::new(table.name).with("engine", engine).with("threads", threads);
        row.set_hidden("cache_mib", table.cache_mib);
        row.set_hidden("blocks", site.summary.height);
        row.set_hidden("bytes", site.summary.bytes);
        row.set_hidden("tip", site.summary.tip.as_str());
        row
    };
    let assumed = (table.name == UTXO_ASSUMED).then_some(site.summary.tip.as_str());
    let connect = |program: PathBuf, signatures| Connect {
        program,
        threads,
        cache_mib: table.cache_mib,
        signatures,
        assumed,
    };
    let in_lanes = table.has_signatures().then_some((LANES, IN_LANES));
    let ours = [Some((SINGLY, ONE_BY_ONE)), in_lanes];
    let has_daemon = options.bitcoind.is_some() && !table.is_small() && (!table.is_big() || threads == 2 || is_last);
    // The manager's library offers no other size of the cache, and checks no assumed block.
    let has_manager = threads <= manager::THREADS_MAX
        && assumed.is_none()
        && table.cache_mib == CACHE_MIB
        && (!table.is_big() || is_last);
    // Minutes of the daemon are spent where it is the peer that counts.
    let over_daemon = has_daemon && (table.is_big() || assumed.is_some());
    let peer = if over_daemon { BITCOIND } else { MANAGER };
    let mut all = Vec::new();
    for (name, signatures) in ours.into_iter().flatten() {
        let now = connect(options.blockmill()?, signatures);
        let contender = Contender::new(name, row(name), move || site.connect(&now));
        let Some(before) = &options.before else {
            all.push(contender.beside_peer(peer));
            continue;
        };
        let earlier = connect(before.clone(), signatures);
        let before = name.replace("blockmill", "before");
        all.push(contender);
        all.push(Contender::new(&before, row(&before), move || site.connect(&earlier)).beside_ours(name));
    }
    // Two commands run alone: a peer between them would only take time.
    if options.before.is_some() {
        return Ok(all);
    }
    let limited = |contender: Contender<'a>| match table.is_big() {
        true => contender.at_most(1),
        false => contender,
    };
    if has_daemon {
        let run = move || site.reindex(threads, table.cache_mib, assumed);
        all.push(limited(Contender::new(BITCOIND, row(BITCOIND), run)));
    }
    if has_manager {
        let run = move || {
            let blocks = site.blocks();
            let (run, tip): (_, String) = part(&mut options.part("connect", &Part { blocks, threads })?, MANAGER)?;
            same(MANAGER, "tip", &tip, &site.summary.tip)?;
            Ok(blockmill_harness::Run {
                count: site.summary.inputs,
                ..run
            })
        };
        all.push(limited(Contender::new(MANAGER, row(MANAGER), run)));
    }
    Ok(all)
}

/// The claims about rows that are there.
fn claims(report: &mut Report) {
    for (engine, table, threads, wanted) in [
        (SINGLY, MIXED, 2.0, 1.2),
        (LANES, MIXED, 1.0, wanted_of_lanes(4.0, 2.6, 1.2)),
        (LANES, MIXED, 2.0, wanted_of_lanes(4.0, 2.6, 1.2)),
        (SINGLY, UTXO, 1.0, 2.0),
        (SINGLY, UTXO, 2.0, 6.0),
        (SINGLY, UTXO_ASSUMED, 2.0, 8.0),
        (SINGLY, UTXO_BIG, 2.0, 6.0),
    ] {
        let which =
            |row: &Row| row.table() == table && row.is("engine", engine) && row.number("threads") == Some(threads);
        let name = format!("{table}, {threads} threads, {engine}: the peer's seconds over ours");
        report.at_least(&name, report.least("ratio_median", which), wanted);
    }
    let before = |row: &Row| {
        row.value("engine")
            .as_str()
            .is_some_and(|name| name.starts_with("before"))
    };
    let name = "seconds of the earlier command over those of this one, worst row";
    report.at_least(name, report.least("ratio_median", before), 0.98);
    let one = |row: &Row| row.table() == UTXO && row.number("threads") == Some(1.0);
    let cost = report.least("resolve_us_per_input", one);
    report.at_most("utxo, 1 thread: microseconds of resolving for each input", cost, 0.35);
    for (table, cache_mib) in SMALL_CACHES {
        let limit = f64::from(cache_mib) * 1.1 + CONSTANT_MIB;
        let memory = report.most("anonymous_mib", |row| row.table() == table);
        report.at_most(&format!("{table}: anonymous MiB"), memory, limit);
        let pause = report.most("pause_max_ms", |row| row.table() == table);
        report.at_most(&format!("{table}: longest pause for a flush, ms"), pause, PAUSE_MAX_MS);
    }
    let replays = report.most("windows_rolled_back", |_| true);
    report.at_most("windows of blocks that were resolved again", replays, 0.0);
}

/// Connects with the ChainstateManager in this process.
pub(crate) fn run_part(text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let part: Part = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    let data = crate::options::temporary_directory()?;
    print(out, &part.connect(data.path())?)?;
    Ok(print(out, &part.tip(data.path())?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_powers_of_two() {
        assert_eq!(threads(2), [1, 2, 4, 8]);
        assert_eq!(threads(24), [1, 2, 4, 8, 16]);
        assert_eq!(up_to_cores(1), [1, 2]);
        assert_eq!(up_to_cores(6), [1, 2, 4]);
    }

    fn row(table: &str, engine: &str, ratio: f64) -> Row {
        let row = Row::new(table).with("engine", engine).with("threads", 2);
        row.with("ratio_median", ratio).with("windows_rolled_back", 1)
    }

    #[test]
    fn claims_are_about_their_rows() {
        let mut report = Report::new("connect", "", "");
        report.rows = vec![
            row(MIXED, LANES, 4.5),
            row(UTXO, SINGLY, 5.0),
            row(UTXO, "before, signatures one by one", 0.9),
        ];
        claims(&mut report);
        let found: Vec<_> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(4.5, true), (5.0, false), (0.9, false), (1.0, false)]);
    }
}

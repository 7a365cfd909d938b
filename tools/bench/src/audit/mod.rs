//! `blockmill-bench audit`: whole chains validated in any order, beside `connect` and Bitcoin
//! Core's daemon, and what that says of the main network.
//!
//! Each run is a process of its own, over the same block files. One more run of ours, in this
//! process, says what the time goes into. In reading order: `shares`, that run; `projection`, the
//! main network.

mod projection;
mod shares;

use crate::connect::{CACHE_MIB, Connect, MIXED, Site, UTXO, call, spec};
use crate::signatures::lanes_are_fast;
use crate::{Failure, Options, temporary_directory};
use blockmill_chaingen::{ChainSpec, Profile};
use blockmill_harness::{Contender, Progress, Report, Row, Run, Turns, at, same};
use projection::projection;
use shares::Shares;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Memory of an audit in MiB at most, whatever the chain.
const MEMORY_MAX_MIB: f64 = 300.0;

/// Share of the time that each thread works at least.
const BUSY_MIN: f64 = 0.97;

const AUDIT: &str = "audit";
const BITCOIND: &str = "bitcoind";

/// A chain in files as Bitcoin Core has them, with a snapshot of its set.
struct Audited<'a> {
    program: &'a Path,
    site: Site,
    signatures: &'static str,
}

impl<'a> Audited<'a> {
    /// Makes a chain. Its undo data is that of `connect`, or of the daemon.
    fn make(options: &'a Options, spec: &ChainSpec, signatures: &'static str) -> Result<Self, Failure> {
        let program = options.blockmill()?;
        let site = Site::make(spec, options.bitcoind.as_deref())?;
        let this = Self {
            program,
            site,
            signatures,
        };
        let data = this.site.path("data");
        this.connect(1).run(&this.site.blocks(), &data)?;
        let dump: [&OsStr; 6] = [
            "snapshot".as_ref(),
            "dump".as_ref(),
            "--json".as_ref(),
            "--data".as_ref(),
            data.as_ref(),
            &this.snapshot().into_os_string(),
        ];
        call(program, &dump)?;
        if this.site.daemon.is_none() {
            this.write_core_folder(&data)?;
        }
        Ok(this)
    }

    /// One block file with all blocks, and the undo data as its undo file: they have Core's form.
    fn write_core_folder(&self, data: &Path) -> Result<(), Failure> {
        let folder = self.site.path("core");
        std::fs::create_dir(&folder).map_err(at(&folder))?;
        let path = folder.join("blk00000.dat");
        let mut blocks = File::create(&path).map_err(at(&path))?;
        for name in &self.site.summary.files {
            let path = self.site.blocks().join(name);
            let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, &mut blocks));
            copied.map_err(at(&path))?;
        }
        let undo = data.join("undo.dat");
        std::fs::copy(&undo, folder.join("rev00000.dat")).map_err(at(&undo))?;
        Ok(())
    }

    fn connect(&self, threads: usize) -> Connect<'_> {
        Connect {
            program: self.program,
            threads,
            cache_mib: CACHE_MIB,
            signatures: self.signatures,
            assumed: None,
        }
    }

    /// The folder with block files and undo files.
    fn blocks(&self) -> PathBuf {
        self.site
            .daemon
            .as_ref()
            .map_or_else(|| self.site.path("core"), |daemon| daemon.blocks())
    }

    fn snapshot(&self) -> PathBuf {
        self.site.path("set")
    }

    fn run_audit(&self, threads: usize) -> Result<Run, Failure> {
        let par = threads.to_string();
        let (blocks, snapshot) = (self.blocks(), self.snapshot());
        let mut words: Vec<&OsStr> = vec!["audit".as_ref(), "--blocks".as_ref(), blocks.as_ref()];
        words.extend(["--snapshot".as_ref(), snapshot.as_os_str()]);
        words.extend(["--json", "--network", "regtest", "--par", &par].map(OsStr::new));
        words.extend(["--signatures", self.signatures].map(OsStr::new));
        let (finished, report) = call(self.program, &words)?;
        let summary = &self.site.summary;
        same(AUDIT, "verdict", &report["verdict"], "proved")?;
        same(AUDIT, "inputs", &report["inputs"], summary.inputs)?;
        same(AUDIT, "coins", &report["coins"], summary.coins)?;
        let run = Run {
            count: summary.inputs,
            ..finished.run.clone()
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    fn run_connect(&self, threads: usize) -> Result<Run, Failure> {
        let data = temporary_directory()?;
        let (finished, report) = self.connect(threads).run(&self.blocks(), data.path())?;
        same("connect", "tip", &report["tip"], self.site.summary.tip.as_str())?;
        let run = Run {
            count: self.site.summary.inputs,
            ..finished.run.clone()
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    fn contenders(&self, chain: &str, threads: usize) -> Vec<Contender<'_>> {
        let row = |what: &str, signatures: &str| {
            let row = Row::new(chain).with("what", what).with("signatures", signatures);
            row.with("threads", threads)
        };
        let ours = |what| row(what, self.signatures);
        let mut contenders = vec![
            Contender::new(AUDIT, ours(AUDIT), move || self.run_audit(threads)),
            Contender::new("connect", ours("connect"), move || self.run_connect(threads)).beside_ours(AUDIT),
        ];
        if self.site.daemon.is_some() {
            let run = move || self.site.reindex(threads, CACHE_MIB, None);
            contenders.push(Contender::new(BITCOIND, row(BITCOIND, "kernel"), run).beside_ours(AUDIT));
        }
        contenders
    }
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "whole chains validated in any order, and their sets proved";
    let mut report = Report::new(AUDIT, title, &options.command);
    let (size, cores) = (options.size, report.machine.cores);
    let mut threads = vec![1, cores];
    threads.dedup();
    let utxo = size.of((110, 600, 900), (120, 60_000, 100_000), (600, 3_000_000, 8_000_000));
    let mixed = size.of((110, 60), (130, 8_000), (600, 200_000));
    let fast = if lanes_are_fast() { "lanes" } else { "kernel" };
    let mut all = Vec::new();
    for (chain, spec, signatures, sums_max) in [
        (UTXO, spec(Profile::Utxo, utxo.0, utxo.1, utxo.2), "kernel", 0.08),
        (MIXED, spec(Profile::Mixed, mixed.0, mixed.1, 0), fast, 0.01),
    ] {
        let audited = Audited::make(options, &spec, signatures)?;
        let summary = &audited.site.summary;
        report.notes.push(format!(
            "{chain}: {} blocks, seed {}, {} bytes, {} inputs, {} outputs, {} coins at the end",
            summary.height, summary.seed, summary.bytes, summary.inputs, summary.outputs, summary.coins
        ));
        for &threads in &threads {
            let contenders = audited.contenders(chain, threads);
            let title = format!("{chain}, {threads} threads");
            report
                .rows
                .extend(Turns::new(size.of(1, 1, 3)).take(&title, contenders, progress)?);
        }
        claims(&mut report, chain, cores as f64);
        let shares = Shares::measure(&audited, cores)?;
        report.notes.push(format!("{chain}: {shares}"));
        share_claims(&mut report, &shares, chain, sums_max);
        all.push(shares);
    }
    if let [utxo, mixed] = &all[..] {
        report.notes.extend(projection(utxo, mixed, cores));
    }
    report.note(&[
        "bitcoind: -reindex-chainstate of the same files; connect: into a new data directory; ratio: seconds over those of audit",
    ]);
    Ok(report)
}

fn claims(report: &mut Report, chain: &str, cores: f64) {
    let of = |what: &'static str, threads: Option<f64>| {
        move |row: &Row| {
            row.table() == chain && row.is("what", what) && (threads.is_none() || row.number("threads") == threads)
        }
    };
    let memory = report.most("anonymous_mib", of(AUDIT, None));
    report.at_most(&format!("MiB of audit, {chain}, worst row"), memory, MEMORY_MAX_MIB);
    if chain == UTXO {
        let ratio = report.least("ratio_median", of(BITCOIND, Some(cores)));
        report.at_least(
            &format!("seconds of bitcoind over audit, utxo, {cores} threads"),
            ratio,
            10.0,
        );
    }
    let seconds = |threads| report.least("seconds_median", of(AUDIT, Some(threads)));
    let speed = seconds(1.0).zip(seconds(cores)).map(|(one, all)| one / all);
    report.at_least(
        &format!("audit, {chain}: {cores} threads over one"),
        speed,
        cores * 15.0 / 16.0,
    );
}

fn share_claims(report: &mut Report, shares: &Shares, chain: &str, sums_max: f64) {
    report.at_most(
        &format!("share of sums in the CPU time, {chain}"),
        Some(shares.sums),
        sums_max,
    );
    let name = format!("share of the time that each thread works, {chain}");
    report.at_least(&name, Some(shares.busy), BUSY_MIN);
    if chain == MIXED {
        let name = "share of script checks in the CPU time, mixed";
        report.at_least(name, Some(shares.scripts), 0.97);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_meet_what_is_wanted() {
        let row = |what: &str, threads: usize, seconds: f64, ratio: Option<f64>| {
            let row = Row::new(UTXO).with("what", what).with("threads", threads);
            let row = row.with("seconds_median", seconds).with("ratio_median", ratio);
            row.with("anonymous_mib", 301.0)
        };
        let mut report = Report::new(AUDIT, "", "");
        report.rows = vec![
            row(AUDIT, 1, 8.0, None),
            row(AUDIT, 4, 2.0, None),
            row(BITCOIND, 4, 21.0, Some(9.5)),
        ];
        claims(&mut report, UTXO, 4.0);
        let found: Vec<_> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(301.0, false), (9.5, false), (4.0, true)]);
    }
}

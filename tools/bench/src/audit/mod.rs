//! `blockmill-bench audit`: whole chains validated in any order, beside `connect` and Bitcoin
//! Core's daemon, and what that says of the main network.
//!
//! Each run is a process of its own, over the same block files. `audited` has a chain and what runs
//! over it.

mod audited;

use crate::connect::{IN_LANES, MIXED, ONE_BY_ONE, UTXO, spec};
use crate::options::Options;
pub(crate) use audited::Audited;
use audited::{AUDIT, BITCOIND};
use blockmill_chaingen::Profile;
use blockmill_harness::{Failure, Progress, Report, Row, Turns};

/// Memory of an audit in MiB at most, whatever the chain.
const MEMORY_MAX_MIB: f64 = 300.0;

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "whole chains validated in any order, and their sets proved";
    let mut report = Report::new(AUDIT, title, &options.command());
    let cores = report.machine.cores;
    let mut threads = vec![1, cores];
    // On one core they are the same.
    threads.dedup();
    let utxo = options.size((110, 600, 900), (120, 60_000, 100_000), (600, 3_000_000, 8_000_000));
    let mixed = options.size((110, 60), (130, 8_000), (600, 200_000));
    for (chain, spec, signatures) in [
        (UTXO, spec(Profile::Utxo, utxo.0, utxo.1, utxo.2), ONE_BY_ONE),
        (MIXED, spec(Profile::Mixed, mixed.0, mixed.1, 0), IN_LANES),
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
                .extend(Turns::new(options.size(1, 1, 3)).take(&title, contenders, progress)?);
        }
        claims(&mut report, chain, cores as f64);
    }
    report.notes.extend(projection(&report));
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

/// What the rows say of the main network in 2026: an input of `mixed`, all work included.
fn projection(report: &Report) -> Option<String> {
    const INPUTS: f64 = 3.3e9;
    let us = report.least("cpu_us_each", |row| row.table() == MIXED && row.is("what", AUDIT))?;
    let hours = us * INPUTS / 3.6e9;
    Some(format!(
        "main network, projected: {hours:.1} CPU hours ({:.1} billion inputs of {us:.1} us, as those of mixed), {:.0} minutes \
         on 16 such cores, if the files come as fast",
        INPUTS / 1e9,
        hours * 60.0 / 16.0
    ))
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

//! `blockmill-bench signatures`: signature checks deferred and verified many at once, beside
//! libsecp256k1 and the interface of Core's kernel library; and hashes, beside `sha2`.
//!
//! All on one thread:
//! - lanes alone, beside libsecp256k1: `checks` makes the checks, `lanes` runs them;
//! - whole script checks of real blocks: `blocks`, by the script kinds of `kinds`;
//! - inputs that cost a deferring verifier more than an ordinary one: `hostile`, built with
//!   `forge`.
//!
//! `work` runs script checks both ways, as an engine would. `plan` has the size, and what all
//! share.

mod blocks;
mod checks;
mod forge;
mod hostile;
mod kinds;
mod lanes;
mod plan;
mod work;

use crate::options::Options;
use blockmill_harness::{Axes, Failure, Progress, Report, Row};
use plan::{ALL, BLOCKS, HOSTILE, KINDS_TABLE, LANES, Plan};
use secp256k1_lanes::{Backend, Verifier};
use std::path::Path;

/// Segregated witness is active on mainnet from this height on.
const SEGWIT_HEIGHT: f64 = 481_824.0;

/// The backend of the lanes on this machine.
fn backend() -> &'static str {
    match Verifier::new().backend() {
        Backend::Avx512 => "AVX-512 with IFMA",
        Backend::AvxIfma => "AVX-IFMA",
        Backend::Avx2 => "AVX2 with FMA",
        Backend::Portable => "plain integers",
    }
}

/// Whether the lanes are faster than libsecp256k1 on this machine.
pub(crate) fn lanes_are_fast() -> bool {
    Verifier::new().backend().is_fast()
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let plan = Plan {
        checks: options.size(40, 1024, 1024),
        lanes_runs: options.size(1, 3, 9),
        blocks_runs: options.size(1, 2, 5),
        hostile_runs: options.size(1, 2, 5),
        block_inputs_max: options.size(1_000, usize::MAX, usize::MAX),
        hostile_tenths: options.size(0, 5, 10),
    };
    let title = "signature checks verified many at once, on one thread";
    let mut report = Report::new("signatures", title, &options.command());
    report.rows = lanes::rows(plan, progress)?;
    match blocks::load(Path::new(""))? {
        Some(blocks) => report.rows.extend(blocks::rows(plan, &blocks, progress)?),
        None => report.notes.push(format!(
            "skipped: {} is missing, so no real blocks were run",
            blocks::FOLDER
        )),
    }
    report.rows.extend(hostile::rows(plan, progress)?);
    report.rows.extend(lanes::hash_rows(plan, progress)?);
    report.notes.push(format!(
        "lanes: {}; libsecp256k1: that of the secp256k1 crate 0.29",
        backend()
    ));
    report.note(&[
        "ratio: the peer's CPU time over ours, of neighbouring runs; of hostile inputs: deferred runs over ordinary ones",
        "by block: the row of all blocks gathers signature checks over blocks; a row of one block settles the rest at its end",
        "by script kind: only the inputs of that kind, with the preparation of their transactions",
        "in lanes to cannot tell: signature checks of a run by their way, and scripts that ran again",
    ]);
    report.axes = Some(Axes {
        series: "what",
        x: "batch",
        y: "ratio_median",
    });
    claims(&mut report);
    Ok(report)
}

fn claims(report: &mut Report) {
    let ratio_of = |report: &Report, table: &str, which: &dyn Fn(&Row) -> bool| {
        report.least("ratio_median", |row| row.table() == table && which(row))
    };
    if lanes_are_fast() {
        for (kind, wanted) in [("ecdsa", 7.5), ("bip340", 7.5), ("tweak", 5.0)] {
            let which = |row: &Row| row.is("what", kind) && row.number("batch") == Some(256.0);
            let name = format!("{kind}, batches of 256: libsecp256k1's time over that of the lanes");
            report.at_least(&name, ratio_of(report, LANES, &which), wanted);
        }
    }
    let unknown = report.most("cannot_tell", |row| row.table() == LANES);
    report.at_most("random checks that the lanes could not tell", unknown, 0.0);
    let name = format!(
        "blocks of {} inputs and more: the time of Core's interface over ours",
        blocks::INPUTS_MIN
    );
    report.at_least(&name, ratio_of(report, BLOCKS, &|row| row.is("what", ALL)), 5.0);
    let old = |row: &Row| row.number("height").is_some_and(|height| height < SEGWIT_HEIGHT);
    let name = "old blocks, worst row: the time of Core's interface over ours";
    report.at_least(name, ratio_of(report, BLOCKS, &old), 3.5);
    let name = "P2TR script: the time of Core's interface over ours";
    report.at_least(
        name,
        ratio_of(report, KINDS_TABLE, &|row| row.is("what", kinds::P2TR_SCRIPT)),
        4.0,
    );
    let worst = report.most("ratio_median", |row| row.table() == HOSTILE);
    report.at_most("hostile inputs, worst row: over ordinary runs", worst, 1.3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_about_their_rows() {
        let row = |table: &str, what: &str, ratio: f64| Row::new(table).with("what", what).with("ratio_median", ratio);
        let mut report = Report::new("signatures", "", "");
        report.rows = vec![
            row(LANES, "ecdsa", 7.0).with("batch", 64).with("cannot_tell", 0.0),
            row(BLOCKS, "old", 3.0).with("height", 400_000),
            row(BLOCKS, ALL, 5.5),
            row(HOSTILE, "worst", 1.4),
        ];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(0.0, true), (5.5, true), (3.0, false), (1.4, false)]);
    }
}

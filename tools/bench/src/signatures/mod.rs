//! `blockmill-bench signatures`: signature checks deferred and verified many at once, beside Core's
//! kernel library. The example `lanes_beside_libsecp256k1` of `lib/secp256k1-lanes` measures the
//! lanes alone.
//!
//! All on one thread:
//! - whole script checks of real blocks: `blocks`, by the script kinds of `kinds`;
//! - the same blocks, validated with given coins by every rule: `given`;
//! - inputs that cost a deferring verifier more than an ordinary one: `hostile`, built with
//!   `forge`.
//!
//! `work` runs script checks both ways, as an engine would.

mod blocks;
mod forge;
mod given;
mod hostile;
mod kinds;
mod work;

use crate::options::Options;
use blockmill_harness::{Failure, Progress, Report, Run};
use blockmill_rules::ScriptVerifier;
use blockmill_script::{CoreVerifier, Signatures};
use secp256k1_lanes::{Backend, Verifier};
use std::path::Path;

/// The tables.
const BLOCKS: &str = "whole script checks of real blocks, beside Core's kernel library";
const GIVEN: &str = "real blocks from their bytes, validated with given coins, beside Core's kernel library";
const HOSTILE: &str = "hostile inputs, deferred and resolved, beside ordinary runs";

/// Name of the row of all inputs.
const ALL: &str = "all";

/// The size of the benchmark.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Runs of each side.
    runs: usize,
    /// Largest number of inputs of a block; larger blocks are left out.
    block_inputs_max: usize,
    /// Passes over the hostile transactions, in tenths of a full run; at least one pass.
    hostile_tenths: usize,
}

/// The backend of the lanes on this machine.
pub(crate) fn backend() -> &'static str {
    match Verifier::new().backend() {
        Backend::Avx512 => "AVX-512 with IFMA",
        Backend::Avx512F => "AVX-512 without IFMA",
        Backend::AvxIfma => "AVX-IFMA",
        Backend::Avx2 => "AVX2 with FMA",
        Backend::Neon => "NEON",
        Backend::Portable => "plain integers",
    }
}

/// What is claimed of lanes: with IFMA, with other vectors of x86-64, and of all others.
pub(crate) fn wanted_of_lanes(ifma: f64, x86: f64, others: f64) -> f64 {
    match Verifier::new().backend() {
        Backend::Avx512 | Backend::AvxIfma => ifma,
        Backend::Avx512F | Backend::Avx2 => x86,
        Backend::Neon | Backend::Portable => others,
    }
}

/// Our verifier. It defers on any machine.
fn ours() -> CoreVerifier {
    CoreVerifier::new(Signatures::Lanes)
}

/// A run with the signature checks that it made, by their way.
fn counted(verifier: &CoreVerifier, run: impl FnOnce() -> Result<Run, Failure>) -> Result<Run, Failure> {
    let before = verifier.signature_counts();
    let run = run()?;
    let after = verifier.signature_counts();
    Ok(run
        .with("in_lanes", (after.lanes - before.lanes) as f64)
        .with("ordinary", (after.libsecp256k1 - before.libsecp256k1) as f64)
        .with("again", (after.again - before.again) as f64)
        .with("cannot_tell", (after.cannot_tell - before.cannot_tell) as f64))
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let plan = Plan {
        runs: options.size(1, 2, 5),
        block_inputs_max: options.size(1_000, usize::MAX, usize::MAX),
        hostile_tenths: options.size(0, 5, 10),
    };
    let title = "signature checks verified many at once, on one thread";
    let mut report = Report::new("signatures", title, &options.command());
    match blocks::load(Path::new(""))? {
        Some(blocks) => {
            report.rows = blocks::rows(plan, &blocks, progress)?;
            report.rows.extend(given::rows(plan, &blocks, progress)?);
        }
        None => report.notes.push(format!(
            "skipped: {} is missing, so no real blocks were run",
            blocks::FOLDER
        )),
    }
    report.rows.extend(hostile::rows(plan, progress)?);
    report.notes.push(format!("lanes: {}", backend()));
    report.note(&[
        "ratio: the peer's CPU time over ours, of neighbouring runs; of hostile inputs: deferred runs over ordinary ones",
        "all: the blocks with 700 inputs and more; a script kind: only its inputs, with the preparation of their transactions",
        "validated with given coins: ours decodes blocks and undo data and checks every rule, the peer runs scripts alone",
        "in lanes to cannot tell: signature checks of a run by their way, and scripts that ran again",
    ]);
    claims(&mut report);
    Ok(report)
}

fn claims(report: &mut Report) {
    for (what, wanted) in [
        (ALL, wanted_of_lanes(5.0, 2.2, 1.1)),
        (kinds::P2TR_SCRIPT, wanted_of_lanes(4.0, 2.0, 1.1)),
    ] {
        let ratio = report.least("ratio_median", |row| row.table() == BLOCKS && row.is("what", what));
        report.at_least(&format!("{what}: the kernel library's time over ours"), ratio, wanted);
    }
    let ratio = report.least("ratio_median", |row| row.table() == GIVEN);
    let wanted = wanted_of_lanes(4.0, 2.0, 1.1);
    report.at_least(
        "validated with given coins: the kernel library's time over ours",
        ratio,
        wanted,
    );
    let worst = report.most("ratio_median", |row| row.table() == HOSTILE);
    report.at_most("hostile inputs, worst row: over ordinary runs", worst, 1.3);
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_harness::Row;

    #[test]
    fn claims_are_about_their_rows() {
        let row = |table: &str, what: &str, ratio: f64| Row::new(table).with("what", what).with("ratio_median", ratio);
        let mut report = Report::new("signatures", "", "");
        report.rows = vec![
            row(BLOCKS, "P2PKH", 3.0),
            row(BLOCKS, ALL, 5.5),
            row(BLOCKS, kinds::P2TR_SCRIPT, 1.0),
            row(GIVEN, ALL, 4.5),
            row(HOSTILE, "worst", 1.4),
        ];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(5.5, true), (1.0, false), (4.5, true), (1.4, false)]);
    }
}

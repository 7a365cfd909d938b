//! `blockmill-bench signatures`: signature checks deferred and verified many at once, beside
//! libsecp256k1 and the kernel's interface.
//!
//! There are three parts, all on one thread:
//! - lanes alone, beside libsecp256k1: `checks` makes the checks, `lanes` runs them;
//! - whole script checks of real blocks, beside the kernel's interface: `blocks`, by the script
//!   kinds of `kinds`;
//! - inputs that cost a deferring verifier more than an ordinary one: `hostile`, built with
//!   `forge`.
//!
//! `work` runs script checks both ways, as an engine would. `sides` has the contenders, `rows` the
//! printed rows.

mod blocks;
mod checks;
mod forge;
mod hostile;
mod kinds;
mod lanes;
mod rows;
mod sides;
mod work;

pub(crate) use sides::lanes_are_fast;

use crate::BenchOptions;
use crate::error::BenchError;
use crate::report::Report;
use rows::{CHART, COLUMNS, targets};
use std::path::Path;

/// The size of the benchmark.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Checks of each kind for the lanes.
    checks: usize,
    /// Runs of each side over the lanes' checks.
    lanes_runs: usize,
    /// Runs of each side over the real blocks.
    blocks_runs: usize,
    /// Largest number of inputs of a block; larger blocks are left out.
    block_inputs_max: usize,
    /// Runs of each way over the hostile inputs.
    hostile_runs: usize,
    /// Passes over the hostile transactions, in tenths of a full run; at least one pass.
    hostile_tenths: usize,
}

impl Plan {
    const FULL: Self = Self {
        checks: 1024,
        lanes_runs: 9,
        blocks_runs: 5,
        block_inputs_max: usize::MAX,
        hostile_runs: 5,
        hostile_tenths: 10,
    };

    const QUICK: Self = Self {
        lanes_runs: 3,
        blocks_runs: 2,
        hostile_runs: 2,
        hostile_tenths: 5,
        ..Self::FULL
    };
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Mismatch`] for a wrong verdict, [`BenchError::Verifier`],
/// [`BenchError::File`].
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    run(plan, Path::new(""), &options.command, progress)
}

/// Runs the benchmark. `root` is the project's root; the folder of real blocks may be beside it.
fn run(plan: Plan, root: &Path, command: &str, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let mut report = Report::new(
        "signatures",
        "signature checks verified many at once, on one thread",
        command,
    );
    let mut rows = lanes::rows(plan, progress)?;
    match blocks::load(root)? {
        Some(blocks) => rows.extend(blocks::rows(plan, &blocks, progress)?),
        None => {
            let skipped = format!("skipped: {} is missing, so no real blocks were run", blocks::FOLDER);
            progress(&skipped);
            report.notes.push(skipped);
        }
    }
    rows.extend(hostile::rows(plan, progress)?);
    report.notes.extend([
        format!("lanes: {}; libsecp256k1: {}", sides::backend(), sides::ONE_BY_ONE),
        "us: wall time of the median run, for each check or input; ratio: the peer's CPU time over ours, of neighbouring runs"
            .to_owned(),
        "by block: the row of all blocks gathers signature checks over blocks; a row of one block settles the rest at its end".to_owned(),
        "by script kind: only the inputs of that kind, with the preparation of their transactions"
            .to_owned(),
        "hostile: scripts deferred and settled, beside ordinary runs of the same code; over ordinary: CPU time of the deferred over that of the ordinary runs"
            .to_owned(),
    ]);
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = vec![CHART];
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tiny benchmark: every verdict is checked, and each row has its columns.
    #[test]
    fn a_tiny_run_has_all_tables() {
        let plan = Plan {
            checks: 40,
            lanes_runs: 2,
            blocks_runs: 1,
            block_inputs_max: 1_000,
            hostile_runs: 1,
            hostile_tenths: 0,
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut lines = Vec::new();
        let report = run(plan, &root, "", &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(!lines.is_empty());
        for row in &report.rows {
            for column in COLUMNS {
                assert!(row.get(column.key).is_some(), "{}", column.key);
            }
        }
        let of = |table: &str| report.rows.iter().filter(|row| row["table"] == table).count();
        assert_eq!(of(rows::LANES), 3 * lanes::BATCHES.len());
        assert_eq!(of(rows::HOSTILE), hostile::SCENARIOS.len());
        let real = root.join(blocks::FOLDER).is_dir();
        assert_eq!(of(rows::BLOCKS) > 0 && of(rows::KINDS) > 0, real);
        assert!(
            report.targets.iter().all(|target| target.value.is_finite()),
            "{:?}",
            report.targets
        );
    }

    #[test]
    fn without_real_blocks_the_rest_is_run() {
        let plan = Plan {
            checks: 16,
            lanes_runs: 1,
            hostile_runs: 1,
            hostile_tenths: 0,
            ..Plan::QUICK
        };
        let folder = tempfile::tempdir().unwrap();
        // Not `folder` itself: what is beside it is not the test's.
        let root = folder.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let report = run(plan, &root, "", &mut |_| ()).unwrap();
        assert!(report.notes[0].starts_with("skipped: "), "{:?}", report.notes);
        assert!(report.rows.iter().all(|row| row["table"] != rows::BLOCKS));
    }
}

//! The claims, computed from the rows.

use super::table::{EMPTY, LOCKED, LOCKED_SINGLE, OURS, Row, SCRIPT, SMALL, SMALL_TIME};
use crate::report::Target;

/// Whether `slower` of `runs` is beyond chance: two equal queues differ this much in less than one
/// of a hundred tables.
fn beyond_chance(slower: usize, runs: usize) -> bool {
    let mut ways = 1.0;
    let mut as_often = 0.0;
    for often in 0..=runs {
        if often >= slower {
            as_often += ways;
        }
        ways *= (runs - often) as f64 / (often + 1) as f64;
    }
    as_often / 2f64.powi(runs as i32) < 0.01
}

/// The claims, computed from the rows.
pub(super) fn targets(rows: &[Row], cores: usize) -> Vec<Target> {
    let least = |ratios: &mut dyn Iterator<Item = f64>| ratios.fold(f64::INFINITY, f64::min);
    let over = |table: &[&str], queues: &[&str], threads_min: usize| {
        let chosen = rows
            .iter()
            .filter(|row| table.contains(&row.table) && queues.contains(&row.queue) && row.threads >= threads_min);
        least(&mut chosen.filter_map(|row| row.ours_over_this))
    };
    // The bound for small checks is 2.9 times the locked queue, or 95% of the cores' speed.
    let small = rows
        .iter()
        .filter(|row| row.table == SMALL && row.queue == LOCKED)
        .filter_map(|row| {
            let ours = row.ours_over_this? * row.checks_per_second;
            let most = 0.95 * row.threads.min(cores) as f64 / SMALL_TIME.as_secs_f64();
            Some(ours / most.min(2.9 * row.checks_per_second))
        });
    let script = rows
        .iter()
        .filter(|row| row.table == SCRIPT && row.queue == OURS && row.threads <= cores);
    let slower_than_locked = rows
        .iter()
        .filter(|row| [LOCKED, LOCKED_SINGLE].contains(&row.queue))
        .filter(|row| row.ours_slower.is_some_and(|slower| beyond_chance(slower, row.runs)))
        .count();
    let mut targets = vec![
        Target::at_least(
            "empty: over the locked queue, worst of 8 and more threads",
            over(&[EMPTY], &[LOCKED], 8),
            5.7,
        ),
        Target::at_least(
            "empty: over the locked queue, worst row",
            over(&[EMPTY], &[LOCKED], 1),
            1.0,
        ),
        Target::at_least(
            "small: of the smaller of 2.9 times the locked queue and 95% of the cores, worst row",
            least(&mut { small }),
            1.0,
        ),
        Target::at_most(
            "rows of all in which ours is slower than a locked queue beyond chance",
            slower_than_locked as f64,
            0.0,
        ),
        Target::at_least(
            "empty and small: over rayon and crossbeam-channel, worst row",
            over(&[EMPTY, SMALL], &["rayon", "crossbeam-channel"], 1),
            1.0,
        ),
        // chili runs empty checks as a loop on one thread.
        Target::at_least("small: over chili, worst row", over(&[SMALL], &["chili"], 1), 1.0),
    ];
    let parallel = least(&mut script.map(|row| row.times_one_thread / row.threads as f64));
    if parallel.is_finite() {
        targets.push(Target::at_least(
            "script checks: of N times one thread, worst N up to the cores",
            parallel,
            0.97,
        ));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::super::table::{EMPTY, SCRIPT, SMALL};
    use super::*;

    #[test]
    fn chance() {
        assert!(!beyond_chance(3, 3) && !beyond_chance(0, 11) && !beyond_chance(9, 11));
        assert!(beyond_chance(7, 7) && beyond_chance(10, 11) && beyond_chance(11, 11));
    }

    fn row(table: &'static str, queue: &'static str, threads: usize, ratio: Option<f64>, speed: f64) -> Row {
        Row {
            table,
            queue,
            threads,
            runs: 11,
            checks: 1,
            seconds_median: 1.0,
            seconds_min: 1.0,
            seconds_max: 1.0,
            cpu_seconds_median: 1.0,
            checks_per_second: speed,
            ours_over_this: ratio,
            ours_slower: ratio.map(|ratio| usize::from(ratio < 1.0) * 11),
            times_one_thread: 1.9,
        }
    }

    #[test]
    fn targets_take_the_worst_row() {
        let rows = [
            row(EMPTY, OURS, 2, None, 1.0),
            row(EMPTY, LOCKED, 2, Some(1.5), 1.0),
            row(EMPTY, LOCKED, 8, Some(6.0), 1.0),
            row(EMPTY, "rayon", 8, Some(0.9), 1.0),
            row(SMALL, "chili", 8, Some(1.2), 1.0),
            // Ours does 1.8 million a second; 95% of two cores are 1.9 million.
            row(SMALL, LOCKED, 8, Some(2.0), 900_000.0),
            // Ours does 3 times the locked queue.
            row(SMALL, LOCKED, 16, Some(3.0), 100_000.0),
            row(SCRIPT, OURS, 2, None, 1.0),
            row(SCRIPT, LOCKED_SINGLE, 2, Some(0.99), 1.0),
        ];
        let found: Vec<(f64, bool)> = targets(&rows, 2)
            .iter()
            .map(|target| (target.value, target.met))
            .collect();
        let expected = [
            (6.0, true),
            (1.5, true),
            (1.8 / 1.9, false),
            (1.0, false),
            (0.9, false),
            (1.2, true),
            (0.95, false),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found.0 - expected.0).abs() < 1e-9 && found.1 == expected.1,
                "{found:?} {expected:?}"
            );
        }
        assert_eq!(found.len(), expected.len());
    }
}

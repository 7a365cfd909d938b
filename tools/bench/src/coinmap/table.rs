//! The plan of the runs, and the report.

use super::coins::SHARES;
use super::hostile::Attack;
use super::rows::{COLUMNS, collided, documented, grown, targets, worked};
use super::subprocess::{Map, Part, Runner, in_own_process};
use super::{document, hostile, work};
use crate::BenchOptions;
use crate::error::BenchError;
use crate::report::Report;
use serde::de::DeserializeOwned;

/// The size of the benchmark.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Entries of the document's table.
    pub(super) entries: u64,
    /// Coins of the second table.
    pub(super) coins: u64,
    pub(super) runs: usize,
    pub(super) attacks: Vec<Attack>,
}

impl Plan {
    fn new(quick: bool) -> Self {
        let attack = |bits, outpoints: usize, known| Attack {
            bits,
            outpoints: if quick { outpoints / 10 } else { outpoints },
            known,
        };
        Self {
            entries: if quick { 200_000 } else { 1_000_000 },
            coins: if quick { 200_000 } else { 20_000_000 },
            runs: if quick { 2 } else { 3 },
            attacks: vec![
                attack(0, 100_000, true),
                attack(10, 100_000, true),
                attack(10, 100_000, false),
                attack(14, 20_000, true),
                attack(14, 20_000, false),
                attack(16, 5_000, true),
                attack(16, 5_000, false),
            ],
        }
    }
}

/// The maps whose growth is measured.
pub(super) const GROWTH: [Map; 2] = [Map::Ours, Map::HashbrownSip];

/// All measurements: the outcomes of the runs of each map.
pub(super) struct Measured {
    /// The tables after the document, with scripts and without.
    pub(super) document: Vec<Documented>,
    pub(super) work: Vec<(Map, Vec<work::Outcome>)>,
    pub(super) growth: Vec<(Map, Vec<work::Growth>)>,
    /// Pages without a map.
    pub(super) pages: Vec<work::Growth>,
    pub(super) hostile: Vec<(Attack, Vec<hostile::Outcome>)>,
}

/// One of the two tables that follow the document.
pub(super) struct Documented {
    pub(super) scripts: bool,
    pub(super) without_map: Vec<document::Outcome>,
    pub(super) maps: Vec<(Map, Vec<document::Outcome>)>,
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let Some(executable) = &options.executable else {
        return Err(BenchError::Process {
            run: "coinmap".to_owned(),
            detail: "the runs of this benchmark need the blockmill-bench command".to_owned(),
        });
    };
    let plan = Plan::new(options.quick);
    let mut report = Report::new(
        "coinmap",
        "maps from outpoints to coins: ours and peers, with the same coins",
        &options.command,
    );
    let measured = measure(&plan, &|part| in_own_process(executable, part), progress)?;
    report.notes = vec![
        "each run of a map is a process of its own; the maps take turns".to_owned(),
        format!("scripts of the mixed coins: {SHARES}"),
        "peers have `Coin` values, the script in a box; those with SipHash-1-3 hash the 36 bytes in one call, with a key from the system".to_owned(),
        "document: its own figures, from another machine; it does not say what its entries held, so its rows stand in both tables".to_owned(),
        "bytes: the peak of the process above that of a process without a map, by coins; accounted: the map's own figure; allocator: that of mallinfo2".to_owned(),
        "longest: the thread's CPU time for one insertion, the reading of the clock included; no map: as much fresh memory, written in as many steps with some arithmetic".to_owned(),
    ];
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    let mut rows = documented(&measured, &plan);
    rows.extend(worked(&measured, &plan));
    rows.extend(grown(&measured, &plan));
    rows.extend(collided(&measured));
    report.targets = targets(&rows, &plan);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    Ok(report)
}

fn run<T: DeserializeOwned>(runner: &Runner<'_>, part: Part) -> Result<T, BenchError> {
    serde_json::from_value(runner(part)?).map_err(|error| BenchError::Process {
        run: format!("{part:?}"),
        detail: error.to_string(),
    })
}

/// Runs several parts in turns, `runs` times each, and returns the outcomes of each.
fn in_turns<K: Copy, T: DeserializeOwned>(
    runner: &Runner<'_>,
    runs: usize,
    parts: &[(K, Part)],
) -> Result<Vec<(K, Vec<T>)>, BenchError> {
    let mut outcomes: Vec<(K, Vec<T>)> = parts.iter().map(|&(key, _)| (key, Vec::new())).collect();
    for _ in 0..runs {
        for (&(_, part), (_, outcomes)) in parts.iter().zip(&mut outcomes) {
            outcomes.push(run(runner, part)?);
        }
    }
    Ok(outcomes)
}

pub(super) fn measure(
    plan: &Plan,
    runner: &Runner<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Measured, BenchError> {
    let mut document = Vec::new();
    for scripts in [true, false] {
        let part = |map, with_map| Part::Document {
            map,
            entries: plan.entries,
            scripts,
            with_map,
        };
        let mut parts = vec![(None, part(Map::Ours, false))];
        parts.extend(Map::ALL.map(|map| (Some(map), part(map, true))));
        let mut outcomes = in_turns(runner, plan.runs, &parts)?.into_iter();
        let without_map = outcomes.next().map(|(_, outcomes)| outcomes).unwrap_or_default();
        document.push(Documented {
            scripts,
            without_map,
            maps: outcomes.filter_map(|(map, outcomes)| Some((map?, outcomes))).collect(),
        });
        progress(if scripts {
            "the document's table, with scripts"
        } else {
            "the document's table, without"
        });
    }
    let coins = plan.coins;
    let work = in_turns(runner, plan.runs, &Map::ALL.map(|map| (map, Part::Work { map, coins })))?;
    progress("all operations");
    let mut parts = vec![(None, Part::Pages { coins })];
    parts.extend(GROWTH.map(|map| (Some(map), Part::Growth { map, coins })));
    let mut outcomes = in_turns(runner, plan.runs, &parts)?.into_iter();
    let pages = outcomes.next().map(|(_, outcomes)| outcomes).unwrap_or_default();
    let growth = outcomes.filter_map(|(map, outcomes)| Some((map?, outcomes))).collect();
    progress("growth");
    let attacks: Vec<(Attack, Part)> = plan
        .attacks
        .iter()
        .map(|&attack| (attack, Part::Hostile(attack)))
        .collect();
    let hostile = in_turns(runner, plan.runs, &attacks)?;
    progress("outpoints that collide");
    Ok(Measured {
        document,
        work,
        growth,
        pages,
        hostile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tiny benchmark in this process: every map answers right, and each row has its columns.
    #[test]
    fn all_maps_do_the_same() {
        let plan = Plan {
            entries: 3000,
            coins: 12_000,
            runs: 2,
            attacks: vec![Attack {
                bits: 10,
                outpoints: 200,
                known: true,
            }],
        };
        let mut lines = 0;
        let measured = measure(&plan, &Part::run, &mut |_| lines += 1).unwrap();
        assert_eq!(lines, 5);
        let mut rows = documented(&measured, &plan);
        assert_eq!(rows.len(), 2 * (Map::ALL.len() + document::PUBLISHED.len()));
        let before = rows.len();
        rows.extend(worked(&measured, &plan));
        assert_eq!(rows.len() - before, Map::ALL.len() * work::OPERATIONS.len());
        rows.extend(grown(&measured, &plan));
        rows.extend(collided(&measured));
        for row in &rows {
            assert!(row.ns_median.is_none_or(|ns| ns > 0.0), "{row:?}");
            let value = serde_json::json!(row);
            for column in COLUMNS {
                assert!(value.get(column.key).is_some(), "{}", column.key);
            }
        }
        let targets = targets(&rows, &plan);
        assert_eq!(targets.len(), 9);
        assert!(
            targets[..4].iter().all(|target| target.value.is_finite()),
            "{targets:?}"
        );
    }

    #[test]
    fn what_is_no_part_is_refused() {
        let error = super::super::run_part("{\"Work\":{}}").unwrap_err();
        assert!(error.to_string().contains("Work"), "{error}");
    }
}

//! The printed rows, and the targets computed from them.

use super::document::{PUBLISHED, PUBLISHED_ENTRIES, ROUNDS};
use super::subprocess::Map;
use super::table::{Measured, Plan};
use super::work::{ERASE, FIND, FIND_ABSENT, FIND_MANY, INSERT, OPERATIONS, Phase};
use crate::clock::Spread;
use crate::report::{Column, Target};
use serde::Serialize;

pub(super) const COLUMNS: &[Column] = &[
    Column::text("map", "map"),
    Column::number("runs", "runs", 0),
    Column::number("operations", "operations", 0),
    Column::number("ns_median", "ns each", 1),
    Column::number("ns_min", "min", 1),
    Column::number("ns_max", "max", 1),
    Column::number("cpu_ns_median", "CPU ns", 1),
    Column::number("this_over_ours", "this/ours", 2),
    Column::number("std_sip_over_this", "std SipHash/this", 2),
    Column::number("bytes_per_entry", "bytes", 1),
    Column::number("accounted_bytes_per_entry", "accounted", 1),
    Column::number("allocator_bytes_per_entry", "allocator", 1),
    Column::number("longest_us_median", "longest us", 1),
    Column::number("longest_us_min", "min us", 1),
    Column::number("longest_us_max", "max us", 1),
    Column::number("over_1_ms_each", "over 1 ms", 1),
    Column::number("clock_us", "clock us", 2),
    Column::number("find_ns_median", "find ns", 1),
    Column::number("remove_ns_median", "remove ns", 1),
    Column::number("distance_mean", "mean distance", 2),
    Column::number("distance_max", "longest", 0),
    Column::number("overflowed", "overflowed", 0),
];

/// A printed row. Figures that a table lacks are null.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Row {
    pub(super) table: String,
    pub(super) map: String,
    runs: Option<usize>,
    /// Operations of a run.
    operations: Option<u64>,
    pub(super) ns_median: Option<f64>,
    ns_min: Option<f64>,
    ns_max: Option<f64>,
    cpu_ns_median: Option<f64>,
    this_over_ours: Option<f64>,
    std_sip_over_this: Option<f64>,
    bytes_per_entry: Option<f64>,
    accounted_bytes_per_entry: Option<f64>,
    allocator_bytes_per_entry: Option<f64>,
    longest_us_median: Option<f64>,
    longest_us_min: Option<f64>,
    longest_us_max: Option<f64>,
    /// Number of insertions of a run that took more than a millisecond.
    over_1_ms_each: Option<f64>,
    /// The shortest insertion, about the cost of reading the clock.
    clock_us: Option<f64>,
    find_ns_median: Option<f64>,
    remove_ns_median: Option<f64>,
    distance_mean: Option<f64>,
    distance_max: Option<usize>,
    overflowed: Option<usize>,
}

impl Row {
    fn new(table: String, map: impl Into<String>) -> Self {
        Self {
            table,
            map: map.into(),
            ..Self::default()
        }
    }

    /// A row of the times of an operation in several runs.
    fn timed<'p>(table: String, map: impl Into<String>, phases: impl Iterator<Item = &'p Phase> + Clone) -> Self {
        let each = |seconds: f64, count: u64| seconds * 1e9 / count as f64;
        let wall = Spread::of(phases.clone().map(|phase| each(phase.seconds, phase.count)));
        let cpu = Spread::of(phases.clone().map(|phase| each(phase.cpu_seconds, phase.count)));
        Self {
            runs: Some(phases.clone().count()),
            operations: phases.map(|phase| phase.count).next(),
            ns_median: Some(wall.median),
            ns_min: Some(wall.min),
            ns_max: Some(wall.max),
            cpu_ns_median: Some(cpu.median),
            ..Self::new(table, map)
        }
    }
}

/// The median of the known values.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Option<Vec<f64>> = values.collect();
    known
        .filter(|known| !known.is_empty())
        .map(|known| Spread::of(known).median)
}

fn millions(count: u64) -> String {
    format!("{} million", count as f64 / 1e6)
}

/// Fills in the ratios of a table.
fn compare(rows: &mut [Row]) {
    let of = |map: Map, rows: &[Row]| rows.iter().find(|row| row.map == map.name())?.ns_median;
    let (ours, sip) = (of(Map::Ours, rows), of(Map::StdSip, rows));
    for row in rows {
        let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
        row.this_over_ours = ratio(row.ns_median, ours).filter(|_| row.map != Map::Ours.name());
        row.std_sip_over_this = ratio(sip, row.ns_median);
    }
}

/// The name of a table that follows the document.
fn document_table(plan: &Plan, scripts: bool) -> String {
    let what = if scripts {
        "P2PKH coins"
    } else {
        "coins without a script"
    };
    let count = millions(plan.entries);
    format!("{count} {what} inserted, {ROUNDS} times, cleared in between")
}

pub(super) fn documented(measured: &Measured, plan: &Plan) -> Vec<Row> {
    let mut all = Vec::new();
    for documented in &measured.document {
        let table = document_table(plan, documented.scripts);
        let idle = median(
            documented
                .without_map
                .iter()
                .map(|outcome| Some(outcome.peak_bytes? as f64)),
        );
        let row = |(map, outcomes): &(Map, Vec<super::document::Outcome>)| Row {
            bytes_per_entry: median(
                outcomes
                    .iter()
                    .map(|outcome| Some((outcome.peak_bytes? as f64 - idle?) / plan.entries as f64)),
            ),
            ..Row::timed(
                table.clone(),
                map.name(),
                outcomes.iter().map(|outcome| &outcome.insert),
            )
        };
        let mut rows: Vec<Row> = documented.maps.iter().map(row).collect();
        compare(&mut rows);
        // The last row of the document is its reference.
        let reference = PUBLISHED[PUBLISHED.len() - 1].ns;
        rows.extend(PUBLISHED.iter().map(|published| Row {
            ns_median: Some(published.ns),
            std_sip_over_this: Some(reference / published.ns),
            bytes_per_entry: Some(published.resident_kb * 1000.0 / PUBLISHED_ENTRIES),
            ..Row::new(table.clone(), format!("document: {}", published.map))
        }));
        all.extend(rows);
    }
    all
}

fn work_table(plan: &Plan, operation: &str) -> String {
    format!("{} mixed coins: {operation}", millions(plan.coins))
}

pub(super) fn worked(measured: &Measured, plan: &Plan) -> Vec<Row> {
    let coins = plan.coins as f64;
    let mut all = Vec::new();
    for operation in OPERATIONS {
        let row = |(map, outcomes): &(Map, Vec<super::work::Outcome>)| {
            let phases = outcomes.iter().flat_map(|outcome| &outcome.phases);
            let phases = phases.filter(|phase| phase.operation == operation);
            let mut row = Row::timed(work_table(plan, operation), map.name(), phases);
            if operation == INSERT {
                let bytes = |choose: fn(&super::work::Outcome) -> Option<u64>| {
                    median(outcomes.iter().map(|outcome| Some(choose(outcome)? as f64 / coins)))
                };
                row.bytes_per_entry = bytes(|outcome| outcome.peak_bytes);
                row.accounted_bytes_per_entry = bytes(|outcome| outcome.accounted_bytes);
                row.allocator_bytes_per_entry = bytes(|outcome| outcome.allocator_bytes);
            }
            row
        };
        let mut rows: Vec<Row> = measured.work.iter().map(row).collect();
        compare(&mut rows);
        all.extend(rows);
    }
    all
}

fn growth_table(plan: &Plan) -> String {
    format!("growth to {} mixed coins: the longest insertion", millions(plan.coins))
}

pub(super) fn grown(measured: &Measured, plan: &Plan) -> Vec<Row> {
    let row = |name: &str, growth: &[super::work::Growth]| {
        let longest = Spread::of(growth.iter().map(|growth| growth.longest_ns as f64 / 1e3));
        Row {
            runs: Some(growth.len()),
            operations: Some(plan.coins),
            longest_us_median: Some(longest.median),
            longest_us_min: Some(longest.min),
            longest_us_max: Some(longest.max),
            over_1_ms_each: median(growth.iter().map(|growth| Some(growth.over_1_ms as f64))),
            clock_us: median(growth.iter().map(|growth| Some(growth.shortest_ns as f64 / 1e3))),
            ..Row::new(growth_table(plan), name)
        }
    };
    let maps = measured.growth.iter().map(|(map, growth)| row(map.name(), growth));
    maps.chain([row("no map, as much fresh memory", &measured.pages)])
        .collect()
}

const HOSTILE: &str = "outpoints whose hashes begin alike, in our map";

pub(super) fn collided(measured: &Measured) -> Vec<Row> {
    let row = |(attack, outcomes): &(super::hostile::Attack, Vec<super::hostile::Outcome>)| {
        let name = match (attack.bits, attack.known) {
            (0, _) => "as they come".to_owned(),
            (bits, true) => format!("{bits} bits alike, the key known"),
            (bits, false) => format!("{bits} bits alike, another key"),
        };
        let each = |choose: fn(&super::hostile::Outcome) -> &Phase| {
            let phases = outcomes.iter().map(choose);
            median(phases.map(|phase| Some(phase.seconds * 1e9 / phase.count as f64)))
        };
        Row {
            find_ns_median: each(|outcome| &outcome.find),
            remove_ns_median: each(|outcome| &outcome.remove),
            accounted_bytes_per_entry: median(
                outcomes
                    .iter()
                    .map(|outcome| Some(outcome.accounted_bytes as f64 / attack.outpoints as f64)),
            ),
            distance_mean: median(outcomes.iter().map(|outcome| Some(outcome.distance_mean))),
            distance_max: outcomes.iter().map(|outcome| outcome.distance_max).max(),
            overflowed: outcomes.iter().map(|outcome| outcome.overflowed).max(),
            ..Row::timed(HOSTILE.to_owned(), name, outcomes.iter().map(|outcome| &outcome.insert))
        }
    };
    measured.hostile.iter().map(row).collect()
}

/// The claims, computed from the rows. A claim whose figures the system does not report has the
/// value NaN, and is not met.
pub(super) fn targets(rows: &[Row], plan: &Plan) -> Vec<Target> {
    let peer = Map::HashbrownSip;
    let find = |table: &str, map: Map| rows.iter().find(|row| row.table == table && row.map == map.name());
    let ratio = |operation| {
        let row = find(&work_table(plan, operation), peer);
        row.and_then(|row| row.this_over_ours).unwrap_or(f64::NAN)
    };
    let insert = work_table(plan, INSERT);
    let ours = find(&insert, Map::Ours);
    let bytes = |row: Option<&Row>| row.and_then(|row| row.bytes_per_entry).unwrap_or(f64::NAN);
    let leanest = PUBLISHED
        .iter()
        .map(|row| row.resident_kb * 1000.0 / PUBLISHED_ENTRIES)
        .fold(f64::INFINITY, f64::min);
    let most = bytes(ours)
        .max(bytes(find(&document_table(plan, true), Map::Ours)))
        .max(bytes(find(&document_table(plan, false), Map::Ours)));
    let longest = find(&growth_table(plan), Map::Ours).and_then(|row| row.longest_us_median);
    let off = ours.and_then(|row| {
        let (accounted, allocator) = (row.accounted_bytes_per_entry?, row.allocator_bytes_per_entry?);
        Some((accounted / allocator - 1.0).abs() * 100.0)
    });
    let over = |what: &str, operation| Target::at_least(what, ratio(operation), 1.0);
    vec![
        Target::at_least("insert: hashbrown with SipHash-1-3 over ours", ratio(INSERT), 1.5),
        Target::at_least(
            "find, 5,000 at a time: hashbrown with SipHash-1-3 over ours",
            ratio(FIND_MANY),
            1.5,
        ),
        over("find, one by one: hashbrown with SipHash-1-3 over ours", FIND),
        over(
            "find, one by one, absent: hashbrown with SipHash-1-3 over ours",
            FIND_ABSENT,
        ),
        over("erase: hashbrown with SipHash-1-3 over ours", ERASE),
        Target::at_most(
            "bytes per coin at the peak: ours over hashbrown",
            bytes(ours) / bytes(find(&insert, peer)),
            0.6,
        ),
        Target::at_most(
            "bytes per entry: our largest row, against the document's leanest",
            most,
            leanest,
        ),
        Target::at_most(
            "longest insertion while growing, us of CPU time",
            longest.unwrap_or(f64::NAN),
            1000.0,
        ),
        Target::at_most(
            "accounted bytes off the allocator's, percent",
            off.unwrap_or(f64::NAN),
            2.0,
        ),
    ]
}

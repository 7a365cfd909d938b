//! `blockmill-bench coinmap`: our coin map beside hashbrown.
//!
//! One table has the operations of a coins cache, with many coins of mixed scripts; one has the
//! longest insertion while a map grows. Each run of a map is a process of its own, so that its
//! memory can be measured.
//!
//! In reading order: `coins`, the content; `maps`, the contenders; `work`, the operations and the
//! growth.

mod coins;
mod maps;
mod work;

use crate::options::Options;
use blockmill_harness::{Contender, Failure, Progress, Report, Row, Turns, part, print};
use maps::{Hashbrown, Ours};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The contenders.
const OURS: &str = "blockmill";
const PEER: &str = "hashbrown, SipHash-1-3";
const NO_MAP: &str = "no map, as much fresh memory";

/// The tables.
const OPERATIONS: &str = "operations on mixed coins, ns each";
const GROWTH: &str = "growth: the longest insertion";

/// The work of a process of its own: a table's row.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    table: String,
    map: String,
    coins: u64,
}

/// Does the work of this process, and prints its run.
pub(crate) fn run_part(text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let part: Part = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    let run = match (part.table.as_str(), part.map.as_str()) {
        (OPERATIONS, OURS) => work::run::<Ours>(part.coins)?,
        (OPERATIONS, _) => work::run::<Hashbrown>(part.coins)?,
        (_, NO_MAP) => work::touch_pages(part.coins),
        (_, OURS) => work::grow::<Ours>(part.coins)?,
        _ => work::grow::<Hashbrown>(part.coins)?,
    };
    print(out, &run)?;
    // The run has checked its results: there is nothing left for the caller.
    Ok(print(out, &())?)
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "maps from outpoints to coins: ours and a peer, with the same coins";
    let mut report = Report::new("coinmap", title, &options.command());
    let coins = options.size(12_000, 200_000, 20_000_000);
    for (table, maps) in [(OPERATIONS, &[OURS, PEER][..]), (GROWTH, &[OURS, PEER, NO_MAP])] {
        let contenders = maps.iter().map(|&map| {
            let run = move || {
                let part_of = Part {
                    table: table.to_owned(),
                    map: map.to_owned(),
                    coins,
                };
                Ok(part::<()>(&mut options.part("coinmap", &part_of)?, map)?.0)
            };
            Contender::new(map, Row::new(table).with("map", map), run)
        });
        let turns = Turns::new(options.size(1, 2, 3));
        report.rows.extend(turns.take(table, contenders.collect(), progress)?);
    }
    report
        .notes
        .push(format!("{coins} coins; scripts: {}", blockmill_harness::coins::SHARES));
    report.note(&[
        "each run of a map is a process of its own; the maps take turns",
        "find many: 5,000 at a time; connect: as blocks spend and create coins",
        "the peer has `Coin` values, the script in a box; it hashes the 36 bytes in one call, with a key from the system",
        "bytes each: the peak of the process above what it had before the map, by coins",
        "longest: the thread's CPU time for one insertion, the reading of the clock included; no map: as much fresh memory, written in as \
         many steps with some arithmetic",
    ]);
    claims(&mut report);
    Ok(report)
}

fn claims(report: &mut Report) {
    let of = |report: &Report, map: &str, name: &str| report.least(name, |row| row.is("map", map));
    // Single lookups and removals, which no block does, are faster in hashbrown on most machines.
    for (operation, wanted) in [(work::INSERT, 1.2), (work::FIND_MANY, 1.5), (work::CONNECT, 1.0)] {
        let both = of(report, PEER, operation).zip(of(report, OURS, operation));
        let name = format!("{operation}: {PEER} over ours");
        report.at_least(&name, both.map(|(peer, ours)| peer / ours), wanted);
    }
    let both = of(report, OURS, "bytes_each").zip(of(report, PEER, "bytes_each"));
    let share = both.map(|(ours, peer)| ours / peer);
    report.at_most("bytes for each coin at the peak: ours over hashbrown", share, 0.6);
    // How long fresh memory takes depends on the system: from 0.5 to 5 ms.
    let longest = of(report, PEER, "longest_us").zip(of(report, OURS, "longest_us"));
    let times = longest.map(|(peer, ours)| peer / ours);
    report.at_least("longest insertion while growing: hashbrown over ours", times, 100.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_part_is_refused() {
        let error = run_part("{\"Work\":{}}", &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("Work"), "{error}");
    }

    #[test]
    fn claims_are_about_their_rows() {
        let row = |map: &str, ns: f64, bytes: f64| {
            let row = Row::new(OPERATIONS).with("map", map);
            row.with(work::INSERT, ns).with("bytes_each", bytes)
        };
        let mut report = Report::new("coinmap", "", "");
        report.rows = vec![row(OURS, 100.0, 90.0), row(PEER, 110.0, 100.0)];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(1.1, false), (0.9, false)]);
    }
}

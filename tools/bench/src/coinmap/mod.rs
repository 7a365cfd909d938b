//! `blockmill-bench coinmap`: our coin map beside hashbrown.
//!
//! There is a table for each operation of a coins cache, with many coins of mixed scripts, and one
//! for the longest insertion while a map grows. Each run of a map is a process of its own, so that
//! its memory can be measured.
//!
//! In reading order: `coins`, the content; `maps`, the contenders; `work`, the operations and the
//! growth.

mod coins;
mod maps;
mod work;

use crate::options::Options;
use blockmill_harness::{Contender, Failure, Progress, Report, Row, Run, Turns, part, print};
use maps::{HashbrownFold, HashbrownSip, Map, Ours};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::Write;
use work::Phases;

const OURS: &str = "blockmill";
const SIP: &str = "hashbrown, SipHash-1-3";
const FOLD: &str = "hashbrown, foldhash";
const NO_MAP: &str = "no map, as much fresh memory";

/// The table beside those of the operations.
const GROWTH: &str = "growth: the longest insertion";

/// The work of a process of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Part {
    /// All operations on a map.
    Work { map: String, coins: u64 },
    /// Growth; each insertion is timed.
    Growth { map: String, coins: u64 },
}

/// Does the work of this process, and prints its runs.
pub(crate) fn run_part(text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let part: Part = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    let (first, more) = match part {
        Part::Growth { map, coins } if map == NO_MAP => (work::touch_pages(coins), Phases::new()),
        Part::Growth { map, coins } if map == OURS => (work::grow::<Ours>(coins)?, Phases::new()),
        Part::Growth { coins, .. } => (work::grow::<HashbrownSip>(coins)?, Phases::new()),
        Part::Work { map, coins } if map == OURS => run_work::<Ours>(coins)?,
        Part::Work { map, coins } if map == FOLD => run_work::<HashbrownFold>(coins)?,
        Part::Work { coins, .. } => run_work::<HashbrownSip>(coins)?,
    };
    print(out, &first)?;
    Ok(print(out, &more)?)
}

/// The insertion, and the other operations.
fn run_work<M: Map>(coins: u64) -> Result<(Run, Phases), Failure> {
    let mut phases = work::run::<M>(coins)?;
    let insert = phases.remove(work::INSERT).ok_or("nothing was inserted")?;
    Ok((insert, phases))
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "maps from outpoints to coins: ours and peers, with the same coins";
    let mut report = Report::new("coinmap", title, &options.command());
    let coins = options.size(12_000, 200_000, 20_000_000);
    let turns = Turns::new(options.size(1, 2, 3));
    report.rows = operations(options, turns, coins, progress)?;
    let growth = [OURS, SIP, NO_MAP].map(|map| {
        let run = move || {
            let name = map.to_owned();
            Ok(part::<Phases>(&mut options.part("coinmap", &Part::Growth { map: name, coins })?, map)?.0)
        };
        Contender::new(map, Row::new(GROWTH).with("map", map), run)
    });
    report.rows.extend(turns.take("growth", growth.into(), progress)?);
    report
        .notes
        .push(format!("scripts of the coins: {}", blockmill_harness::coins::SHARES));
    report.note(&[
        "each run of a map is a process of its own; the maps take turns; ratio: the peer's time over ours",
        "peers have `Coin` values, the script in a box; SipHash-1-3 hashes the 36 bytes in one call, with a key from the system",
        "bytes each: the peak of the process above what it had before the map, by coins; accounted: the map's own figure",
        "longest: the thread's CPU time for one insertion, the reading of the clock included; no map: as much fresh memory, written in as \
         many steps with some arithmetic",
    ]);
    claims(&mut report);
    Ok(report)
}

/// The rows of all operations. Each run of a map does all of them; the first table runs it.
fn operations(options: &Options, turns: Turns, coins: u64, progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    const MAPS: [&str; 3] = [OURS, SIP, FOLD];
    let all = RefCell::new([Vec::new(), Vec::new(), Vec::new()]);
    let row = |operation: &str, map: &str| Row::new(&format!("{coins} mixed coins: {operation}")).with("map", map);
    let mut rows = Vec::new();
    for operation in work::OPERATIONS {
        let contenders = MAPS.iter().enumerate().map(|(index, &map)| {
            let mut turn = 0..;
            let all = &all;
            let run = move || {
                if operation != work::INSERT {
                    // The run that inserted has done this operation, too.
                    let known: &Vec<Phases> = &all.borrow()[index];
                    let phases = turn.next().and_then(|turn: usize| known.get(turn));
                    return Ok(phases
                        .and_then(|phases| phases.get(operation))
                        .cloned()
                        .ok_or("not run")?);
                }
                let name = map.to_owned();
                let (insert, phases) = part(&mut options.part("coinmap", &Part::Work { map: name, coins })?, map)?;
                all.borrow_mut()[index].push(phases);
                Ok(insert)
            };
            contender_beside(Contender::new(map, row(operation, map), run), map)
        });
        rows.extend(turns.take(operation, contenders.collect(), progress)?);
    }
    Ok(rows)
}

/// Peers are compared with ours.
fn contender_beside<'a>(contender: Contender<'a>, map: &str) -> Contender<'a> {
    if map == OURS {
        contender
    } else {
        contender.beside_ours(OURS)
    }
}

fn claims(report: &mut Report) {
    let is = |row: &Row, operation: &str| row.table().ends_with(&format!("coins: {operation}"));
    for (operation, wanted) in [
        (work::INSERT, 1.5),
        (work::FIND_MANY, 1.5),
        (work::FIND, 1.0),
        (work::FIND_ABSENT, 1.0),
        (work::ERASE, 1.0),
    ] {
        let ratio = report.least("ratio_median", |row| is(row, operation) && row.is("map", SIP));
        report.at_least(&format!("{operation}: {SIP} over ours"), ratio, wanted);
    }
    let bytes = |map: &str| report.least("bytes_each", |row| is(row, work::INSERT) && row.is("map", map));
    let share = bytes(OURS).zip(bytes(SIP)).map(|(ours, peer)| ours / peer);
    report.at_most("bytes for each coin at the peak: ours over hashbrown", share, 0.6);
    let longest = report.least("longest_us", |row| row.is("map", OURS));
    report.at_most("longest insertion while growing, us of CPU time", longest, 1000.0);
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
        let row = |map: &str, ratio: Option<f64>, bytes: f64| {
            let row = Row::new("20 mixed coins: insert").with("map", map);
            row.with("ratio_median", ratio).with("bytes_each", bytes)
        };
        let mut report = Report::new("coinmap", "", "");
        report.rows = vec![row(OURS, None, 90.0), row(SIP, Some(1.4), 100.0)];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(1.4, false), (0.9, false)]);
    }
}

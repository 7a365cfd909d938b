//! Tiny chains through all of it.

use super::bitcoind::tests::stand_in;
use super::figures::Figures;
use super::plan::{Choices, MIXED, UTXO, UTXO_BIG, UTXO_BIG_CACHED};
use super::targets::same_tip;
use super::*;
use crate::clock::Elapsed;
use crate::report::{Column, Target};
use blockmill_chaingen::{ChainSpec, Profile, generate};
use hostile::HostilePlan;

fn choices() -> Choices {
    Choices {
        threads: vec![1, 2],
        without: PARTS.to_vec(),
        runs: 2,
        with_bitcoind: false,
        lanes: true,
        cores: 2,
    }
}

fn plan_of(profile: Profile, tables: Vec<Table>) -> Plan {
    Plan {
        chains: vec![PlannedChain {
            spec: ChainSpec {
                inputs: 60,
                ..ChainSpec::new(profile, 110, 7)
            },
            tables,
        }],
        hostile: HostilePlan::new(true, vec![1]),
        bitcoind: None,
        executable: None,
        cores: 2,
    }
}

#[test]
fn both_engines_end_at_the_generated_tip() {
    let mut lines = Vec::new();
    let plan = plan_of(Profile::Mixed, vec![choices().table(MIXED)]);
    let mut progress = |line: &str| lines.push(line.to_owned());
    let (summary, rows) = run_chain(&plan, &plan.chains[0], &mut progress).unwrap();
    assert!(same_tip(&rows));
    assert_eq!((summary.height, rows.len()), (110, 6 + PARTS.len()));
    assert_eq!(lines.len(), 1 + 2 * (6 + PARTS.len()));
    assert!(
        lines[3].starts_with("mixed, run 1 of 2: bitcoinkernel with 1 thread: "),
        "{}",
        lines[3]
    );
    for (row, threads) in rows.iter().zip([1, 1, 1, 2, 2, 2]) {
        assert_eq!((row.threads, row.runs, row.blocks), (threads, 2, 110));
        assert_eq!((row.inputs, row.bytes), (summary.inputs, summary.bytes));
        assert!(row.seconds_min <= row.seconds_median && row.seconds_median <= row.seconds_max);
        assert!(row.seconds_min > 0.0 && row.cpu_seconds_median > 0.0);
        let ours = row.engine.starts_with("blockmill");
        assert_eq!((row.ratio.is_some(), row.at_work_percent.is_some()), (ours, ours));
        assert!(row.ratio_min <= row.ratio && row.ratio <= row.ratio_max);
        assert_eq!(
            (row.resolve_seconds > Some(0.0), row.serial_replays),
            (ours, ours.then_some(0))
        );
        assert_eq!(row.resolve_us_per_input > Some(0.0), ours);
        check_stages(&serde_json::json!(row), ours);
    }
    for (row, part) in rows[6..].iter().zip(PARTS) {
        assert_eq!((row.threads, row.engine), (2, &*format!("blockmill without {part}")));
        assert!(row.ratio.is_some());
    }
    for row in &rows[..6] {
        assert_eq!(row.bound_percent.is_some(), row.engine.starts_with("blockmill"));
    }
    assert_eq!(rows[3].bound_seconds, Some(rows[0].cpu_seconds_median / 2.0));
    assert_eq!(rows[4].engine, Contender::Lanes.name());
    let targets = targets(&rows);
    assert_eq!(targets.len(), 7);
    assert!(targets[0].met && targets[1].value == rows[3].ratio.unwrap());
    assert_eq!(targets[2].value, rows[1].ratio.unwrap());
    assert_eq!(targets[3].value, rows[4].ratio.unwrap());
}

/// Of ours each stage has its seconds and its share; peers have none.
#[track_caller]
fn check_stages(row: &serde_json::Value, ours: bool) {
    let mut percent = 0.0;
    for stage in ["read", "decode", "fetch", "resolve", "check", "commit", "flush"] {
        let value = |end: &str| row[format!("{stage}_{end}")].as_f64();
        assert_eq!(
            (value("busy_seconds") >= Some(0.0), value("percent").is_some()),
            (ours, ours)
        );
        percent += value("percent").unwrap_or(0.0);
    }
    assert_eq!((percent - 100.0).abs() < 1e-6, ours, "{row}");
}

#[test]
fn the_big_chain_has_a_table_for_each_size_of_the_cache() {
    let tables = [(UTXO_BIG, 450), (UTXO_BIG_CACHED, 4_000)];
    let tables = tables.map(|(name, cache_mib)| choices().big_table(name, cache_mib));
    let plan = plan_of(Profile::Utxo, tables.to_vec());
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let (summary, rows) = run_chain(&plan, &plan.chains[0], &mut progress).unwrap();
    let (ours, kernel) = (Contender::Blockmill.name(), Contender::Bitcoinkernel.name());
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.chain, row.engine, row.threads, row.cache_mib, row.runs))
        .collect();
    let expected = [
        (UTXO_BIG, ours, 1, 450, 2),
        (UTXO_BIG, ours, 2, 450, 2),
        (UTXO_BIG, kernel, 2, 450, 1),
        (UTXO_BIG_CACHED, ours, 1, 4_000, 2),
        (UTXO_BIG_CACHED, ours, 2, 4_000, 2),
    ];
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| row.tip == summary.tip));
    let ratios: Vec<bool> = rows.iter().map(|row| row.ratio.is_some()).collect();
    assert_eq!(ratios, [false, true, false, false, false]);
    // The chain is made once, and the first round has all contenders.
    assert_eq!(lines.len(), 1 + 5 + 4);
    assert!(
        lines[3].starts_with("utxo, big, run 1 of 1: bitcoinkernel"),
        "{lines:?}"
    );
}

#[test]
fn the_daemon_indexes_the_big_chain_once() {
    let with_bitcoind = Choices {
        with_bitcoind: true,
        ..choices()
    };
    let tables = [(UTXO_BIG, 450), (UTXO_BIG_CACHED, 4_000)];
    let tables = tables.map(|(name, cache_mib)| with_bitcoind.big_table(name, cache_mib));
    let mut plan = plan_of(Profile::Utxo, tables.to_vec());
    let summary = generate(&plan.chains[0].spec, &mut |_, _| Ok(()), &mut |_| ()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    plan.bitcoind = Some(stand_in(directory.path(), &summary.tip, 0));
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let (_, rows) = run_chain(&plan, &plan.chains[0], &mut progress).unwrap();
    let indexed = lines
        .iter()
        .filter(|line| line.ends_with("bitcoind indexes the blocks"));
    assert_eq!(indexed.count(), 1, "{lines:?}");
    for table in [UTXO_BIG, UTXO_BIG_CACHED] {
        let rows = || rows.iter().filter(|row| row.chain == table);
        let daemon = rows().find(|row| row.engine == Contender::Bitcoind.name()).unwrap();
        assert_eq!((daemon.threads, daemon.runs), (2, 1));
        let ours = rows().find(|row| row.engine == Contender::Blockmill.name() && row.threads == 2);
        assert!(ours.unwrap().ratio_min > Some(0.0));
    }
}

/// A series whose runs took these seconds. One of ours has worked a tenth of a second in each stage
/// and half a second in resolving.
fn series(contender: Contender, threads: usize, seconds: &[f64]) -> Series {
    let run = |&seconds: &f64| Run {
        elapsed: Elapsed {
            seconds,
            cpu_seconds: 1.0,
        },
        anonymous_bytes: Some(3 << 20),
        traced: None,
        figures: contender
            .is_ours()
            .then(|| Figures::of_seconds([0.1, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1])),
        tip: "00".to_owned(),
    };
    Series {
        planned: PlannedSeries {
            contender,
            threads,
            runs: seconds.len(),
        },
        runs: seconds.iter().map(run).collect(),
        traced: None,
        tip: "00".to_owned(),
    }
}

#[test]
fn every_column_and_axis_is_in_the_rows() {
    let series = [series(Contender::Blockmill, 1, &[2.0])];
    let rows = rows(&choices().table(MIXED), &series, &summary_without_chain(), 2);
    assert!(rows[0].ratio.is_none() && !same_tip(&rows));
    assert_eq!((rows[0].anonymous_mib, rows[0].bound_percent), (Some(3.0), Some(50.0)));
    assert_eq!(rows[0].resolve_us_per_input, Some(25_000.0));
    let row = serde_json::json!(rows[0]);
    check_stages(&row, true);
    let plan = HostilePlan {
        spec: ChainSpec {
            inputs: 2_000,
            ..ChainSpec::new(Profile::Utxo, 102, 1)
        },
        heights: 1,
        threads: vec![1],
        runs: 1,
    };
    let hostile = serde_json::json!(hostile::measure(&plan, &mut |_| ()).unwrap()[0]);
    for Column { key, .. } in COLUMNS {
        assert!(row.get(key).or(hostile.get(key)).is_some(), "{key}");
    }
    for key in CHARTS.iter().flat_map(|chart| [chart.series, chart.x, chart.y]) {
        assert!(row.get(key).is_some(), "{key}");
    }
    assert_eq!(row["inputs_per_second"], 10.0);
    assert!((row["resolve_percent"].as_f64().unwrap() - 500.0 / 11.0).abs() < 1e-9);
}

#[test]
fn ratios_of_the_big_chain_are_to_the_daemon_if_there_is_one() {
    let wanted = |with_bitcoind, expected: Option<(f64, f64, f64)>, claims: usize| {
        let choices = Choices {
            with_bitcoind,
            ..choices()
        };
        let mut all = vec![
            series(Contender::Blockmill, 2, &[2.0, 4.0]),
            series(Contender::Bitcoinkernel, 2, &[8.0]),
        ];
        if with_bitcoind {
            all.push(series(Contender::Bitcoind, 2, &[24.0]));
        }
        let rows = rows(&choices.big_table(UTXO_BIG, 450), &all, &summary_without_chain(), 2);
        let ratio = rows[0].ratio_min.zip(rows[0].ratio).zip(rows[0].ratio_max);
        assert_eq!(ratio.map(|((min, ratio), max)| (min, ratio, max)), expected);
        let of_big = |target: &&Target| target.name.starts_with(UTXO_BIG);
        assert_eq!(targets(&rows).iter().filter(of_big).count(), claims);
    };
    wanted(false, Some((2.0, 3.0, 4.0)), 0);
    wanted(true, Some((6.0, 9.0, 12.0)), 1);
}

#[test]
fn claims_about_resolving() {
    let all = [
        series(Contender::Blockmill, 1, &[2.0]),
        series(Contender::Blockmill, 2, &[1.0]),
    ];
    let mut rows = rows(&choices().table(UTXO), &all, &summary_without_chain(), 2);
    let claims = |rows: &[Row]| -> Vec<(f64, bool)> {
        let targets = targets(rows);
        let resolving = targets.iter().filter(|target| target.name.contains("resolv"));
        resolving.map(|target| (target.value, target.met)).collect()
    };
    assert_eq!(claims(&rows), [(25_000.0, false), (0.0, true)]);
    rows[0].resolve_us_per_input = Some(0.35);
    rows[0].resolve_seconds = Some(1.8);
    rows[1].resolve_seconds = Some(1.0);
    assert_eq!(claims(&rows), [(0.35, true), (1.8, true), (0.0, true)]);
    rows[1].resolve_seconds = Some(1.2);
    rows[1].serial_replays = Some(2);
    assert_eq!(claims(&rows), [(0.35, true), (1.5, false), (2.0, false)]);
}

fn summary_without_chain() -> Summary {
    Summary {
        profile: "mixed".to_owned(),
        seed: 1,
        network: "regtest".to_owned(),
        height: 10,
        tip: "00".to_owned(),
        blocks: 11,
        transactions: 11,
        inputs: 20,
        outputs: 30,
        bytes: 1_000,
        coins: 10,
        total_amount: 1,
        hash_serialized_3: "00".to_owned(),
        files: Vec::new(),
    }
}

#[test]
fn a_result_that_is_not_the_expected_one_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = directory.path().join("blocks");
    let spec = ChainSpec::new(Profile::Utxo, 3, 1);
    let summary = write_chain(&blocks, &spec, &mut |_| ()).unwrap();
    let check = |contender: Contender, expected: &Summary, wrong: &str| {
        let runner = Runner {
            executable: None,
            daemon: None,
            expected,
        };
        let planned = PlannedSeries {
            contender,
            threads: 1,
            runs: 1,
        };
        let part = Part::new(&choices().table(UTXO), planned, &blocks, expected);
        let error = runner.run(&part).unwrap_err();
        assert!(
            matches!(&error, BenchError::Mismatch { what, .. } if *what == wrong),
            "{error}"
        );
        assert!(error.to_string().starts_with(contender.name()), "{error}");
    };
    let other_tip = Summary {
        tip: "11".repeat(32),
        ..summary.clone()
    };
    check(Contender::Blockmill, &other_tip, "tip");
    check(Contender::Bitcoinkernel, &other_tip, "tip");
    let other_coins = Summary {
        hash_serialized_3: "22".repeat(32),
        ..summary
    };
    check(Contender::Blockmill, &other_coins, "hash_serialized_3");
}

//! `blockmill-bench cache`: a chain of many coins, connected under limits of memory that the coins
//! outgrow. The result of each run is checked as in `connect`.

use crate::connect::{Connect, Site, spec};
use crate::{Failure, Options, temporary_directory};
use blockmill_chaingen::Profile;
use blockmill_harness::{Axes, Contender, Finished, Progress, Report, Row, Run, Turns};
use serde_json::Value;

/// Anonymous memory for anything but coins, in MiB: the verifier's tables, the header index, blocks
/// ahead and in flight, stacks, and free memory that the allocator keeps.
const CONSTANT_MIB: f64 = 48.0;

/// Longest pause of the connecting thread for a flush.
const PAUSE_MAX_MS: f64 = 50.0;

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "a chain of many coins connected under different limits of memory";
    let mut report = Report::new("cache", title, &options.command);
    let size = options.size;
    let (blocks, inputs, coins) = size.of((110, 600, 900), (120, 60_000, 100_000), (400, 3_000_000, 2_000_000));
    let limits = size.of(vec![2, 8], vec![2, 8, 64], vec![16, 64, 256, 1000]);
    let site = Site::make(&spec(Profile::Utxo, blocks, inputs, coins), None)?;
    let mut contenders = Vec::new();
    for &cache_mib in &limits {
        let how = Connect {
            program: options.blockmill()?,
            threads: report.machine.cores,
            cache_mib,
            signatures: "kernel",
            assumed: None,
        };
        let row = Row::new("utxo").with("chain", "utxo").with("dbcache_mib", cache_mib);
        let site = &site;
        contenders.push(Contender::new(&format!("--dbcache {cache_mib}"), row, move || {
            let data = temporary_directory()?;
            let (finished, report) = how.run(&site.blocks(), data.path())?;
            site.check("cache", &report["tip"], &how, data.path())?;
            Ok(figures(&finished, &report))
        }));
    }
    report.rows = Turns::new(1).take("cache", contenders, progress)?;
    report.note(&[
        "written: by the process, undo data and headers included; pause: of the connecting thread, for a flush; wait: a pause because \
         the cache was full",
        "cache: peak of the memory that the cache reports; anonymous: peak of the process",
    ]);
    report.axes = Some(Axes {
        series: "chain",
        x: "dbcache_mib",
        y: "anonymous_mib",
    });
    for limit in limits.into_iter().map(f64::from) {
        let of = |row: &Row| row.number("dbcache_mib") == Some(limit);
        let name = format!("anonymous MiB at --dbcache {limit}: 110%, and {CONSTANT_MIB} for all else");
        report.at_most(&name, report.most("anonymous_mib", of), limit * 1.1 + CONSTANT_MIB);
        let name = format!("longest pause in ms at --dbcache {limit}");
        report.at_most(&name, report.most("pause_max_ms", of), PAUSE_MAX_MS);
    }
    Ok(report)
}

fn figures(finished: &Finished, report: &Value) -> Run {
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let (hits, misses) = (number("/cache/hits"), number("/cache/misses"));
    let run = Run {
        count: number("/inputs") as u64,
        ..finished.run.clone()
    };
    run.with("hit_rate", hits / (hits + misses).max(1.0))
        .with("flushes", number("/flushes"))
        .with("changes_written", number("/flush/changes"))
        .with("pause_max_ms", number("/flush/pause_max_s") * 1e3)
        .with("waits", number("/flush/waits"))
        .with("cache_mib", number("/cache/bytes") / f64::from(1 << 20))
        .with("written_mib", finished.written_mib)
        .with("anonymous_mib", finished.anonymous_mib)
        .with("file_pages_mib", finished.file_mib)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_of_a_report() {
        let report = json!({
            "inputs": 7, "cache": {"hits": 3, "misses": 1, "bytes": 1 << 20},
            "flushes": 4, "flush": {"changes": 5, "waits": 6, "pause_max_s": 0.25},
        });
        let run = figures(&Finished::default(), &report);
        for (name, wanted) in [
            ("hit_rate", 0.75),
            ("pause_max_ms", 250.0),
            ("waits", 6.0),
            ("cache_mib", 1.0),
        ] {
            assert_eq!(run.figures[name], wanted, "{name}");
        }
        assert_eq!(run.count, 7);
    }

    #[test]
    fn it_needs_the_command() {
        let error = report(&Options::default(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("blockmill command"), "{error}");
    }
}

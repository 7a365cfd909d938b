//! `blockmill-bench tables`: the flat tables of `export`, each alone and all in one pass, and
//! filters and statistics beside the indexes of Core's daemon over the same files.

use crate::audit::Audited;
use crate::connect::{MIXED, ONE_BY_ONE, call, spec};
use crate::options::Options;
use blockmill_chaingen::Profile;
use blockmill_harness::{Contender, Failure, Progress, Report, Row, Run, Turns, finish, same};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Name of the benchmark, and of its table.
pub(crate) const NAME: &str = "tables";

/// The tables of `export`, each called like its rows.
const TABLES: [&str; 7] = [
    "transactions",
    "inputs",
    "outputs",
    "spenders",
    "positions",
    FILTERS,
    STATISTICS,
];

const FILTERS: &str = "filters";
const STATISTICS: &str = "statistics";

/// All tables in one pass.
const ALL: &str = "all in one pass";

/// The indexes of the daemon, each with its option, its thread, and the table that has the same.
const INDEXES: [(&str, &str, &str, &str); 2] = [
    ("block filter index", "-blockfilterindex=1", "blkfltbscidx", FILTERS),
    ("coin statistics index", "-coinstatsindex=1", "coinstatsidx", STATISTICS),
];

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "flat tables of blocks, each alone and all in one pass";
    let mut report = Report::new(NAME, title, &options.command());
    let (height, inputs) = options.size((110, 60), (200, 20_000), (2_000, 400_000));
    let spec = spec(Profile::Mixed, height, inputs, 0);
    let audited = Audited::make(options, &spec, ONE_BY_ONE)?;
    let exports = Exports {
        program: options.blockmill()?,
        audited: &audited,
    };
    exports.check_statistics()?;
    let contenders = exports.contenders(report.machine.cores);
    report.rows = Turns::new(options.size(1, 2, 5)).take(NAME, contenders, progress)?;
    let summary = &audited.site.summary;
    claims(&mut report);
    report.notes.push(format!(
        "{MIXED}: {} blocks, seed {}, {} bytes, {} inputs, {} outputs",
        summary.height, summary.seed, summary.bytes, summary.inputs, summary.outputs
    ));
    report.note(&[
        "tables: Parquet files, written by processes of their own; count: bytes of the blocks",
        "indexes: from the start of the index's thread to its end, as the daemon's log has them, and the CPU time of the whole daemon; \
         ratio: seconds over those of the table that has the same",
    ]);
    Ok(report)
}

fn claims(report: &mut Report) {
    let of = |what: &'static str| move |row: &Row| row.is("what", what);
    for (index, _, _, table) in INDEXES {
        let ratio = report.least("ratio_median", of(index));
        if ratio.is_some() {
            report.at_least(&format!("seconds of the {index} over {table}"), ratio, 10.0);
        }
    }
    let seconds = |which: &dyn Fn(&Row) -> bool| report.most("seconds_median", which);
    let alone = seconds(&|row| TABLES.iter().any(|table| row.is("what", table)));
    let ratio = seconds(&of(ALL)).zip(alone).map(|(all, alone)| all / alone);
    report.at_most("seconds of all in one pass over the slowest alone", ratio, 1.5);
    let memory = report.most("anonymous_mib", of(ALL));
    report.at_most("MiB of all in one pass", memory, 400.0);
}

/// What runs over a chain.
struct Exports<'a> {
    program: PathBuf,
    audited: &'a Audited,
}

impl Exports<'_> {
    /// The rows that a table must have, where the summary of the chain says it.
    fn rows_of(&self, table: &str) -> Option<u64> {
        let summary = &self.audited.site.summary;
        match table {
            FILTERS | STATISTICS => Some(summary.blocks),
            "transactions" | "positions" => Some(summary.transactions),
            "inputs" => Some(summary.inputs + summary.blocks),
            "spenders" => Some(summary.inputs),
            "outputs" => Some(summary.outputs),
            _ => None,
        }
    }

    /// Writes tables. What is said of each is the number of its rows.
    fn export(&self, tables: &[&str], out: &str) -> Result<Run, Failure> {
        let mut command = Command::new(&self.program);
        command.arg("export").arg(tables[0]);
        if let more @ [_, ..] = &tables[1..] {
            command.args(["--and", &more.join(",")]);
        }
        command.args(["--format", "parquet", "--network", "regtest", "--force", "--blocks"]);
        command.arg(self.audited.blocks());
        command.arg("--out").arg(self.audited.site.path(out));
        let finished = finish(&mut command, "export")?;
        same("export", "tables", finished.lines.len(), tables.len())?;
        for (line, table) in finished.lines.iter().zip(tables) {
            let mut words = line.split(' ');
            let rows = words
                .next()
                .map(|number| number.replace(',', ""))
                .and_then(|number| number.parse().ok());
            same(table, "name", words.next(), Some(*table))?;
            same(table, "rows", rows, self.rows_of(table))?;
        }
        let run = Run {
            count: self.audited.site.summary.bytes,
            ..finished.run.clone()
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    /// The last row of statistics has the figures of the set that `connect` has left.
    fn check_statistics(&self) -> Result<(), Failure> {
        let height = self.audited.site.summary.height.to_string();
        let mut command = Command::new(&self.program);
        command.args([
            "export",
            STATISTICS,
            "--format",
            "jsonl",
            "--network",
            "regtest",
            "--out",
            "-",
        ]);
        command.args(["--from", &height, "--blocks"]).arg(self.audited.blocks());
        let row: serde_json::Value = finish(&mut command, STATISTICS)?.json(0)?;
        let data = self.audited.site.path("data");
        let mut words = ["stats", "--json", "--hash", "muhash", "--data"]
            .map(OsStr::new)
            .to_vec();
        words.push(data.as_os_str());
        let (_, set) = call(&self.program, &words)?;
        for name in ["txouts", "muhash", "bogosize"] {
            same(STATISTICS, name, &row[name], &set[name])?;
        }
        Ok(())
    }

    fn contenders(&self, threads: usize) -> Vec<Contender<'_>> {
        let row = |what: &str| Row::new(NAME).with("what", what).with("threads", threads);
        let alone = TABLES.iter().map(|table| {
            let run = move || self.export(&[*table], &format!("{table}.parquet"));
            Contender::new(table, row(table), run)
        });
        let mut contenders: Vec<_> = alone.collect();
        contenders.push(Contender::new(ALL, row(ALL), || self.export(&TABLES, "all")));
        if let Some(daemon) = &self.audited.site.daemon {
            let bytes = self.audited.site.summary.bytes;
            for (name, option, thread, table) in INDEXES {
                let run = move || {
                    let run = daemon.index(option, thread)?;
                    Ok(Run { count: bytes, ..run })
                };
                contenders.push(Contender::new(name, row(name), run).beside_ours(table));
            }
        }
        contenders
    }
}

//! Starts the phases of each store, each in a process of its own, with warm or cold files, all
//! within the same bound of memory.

use crate::bound::Bound;
use crate::phase::{Phase, directory};
use crate::report::Comparison;
use crate::stores::Kind;
use crate::{Arguments, Failure};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The state of the files before a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    AsTheyAre,
    Warm,
    Cold,
}

/// The phases in their order; kills follow.
const PHASES: [(Phase, Files); 9] = [
    (Phase::Load, Files::AsTheyAre),
    (Phase::Flush, Files::Warm),
    (Phase::Read, Files::Warm),
    (Phase::Scan, Files::Warm),
    (Phase::ReadCold1, Files::Cold),
    (Phase::ReadCold2, Files::Cold),
    (Phase::ReadCold8, Files::Cold),
    (Phase::AbsentCold, Files::Cold),
    (Phase::FlushCold, Files::Cold),
];

/// A comparison under way.
struct Runner<'a> {
    arguments: &'a Arguments,
    bound: Bound,
}

/// Runs everything.
pub(crate) fn run(arguments: &Arguments) -> Result<Comparison, Failure> {
    let work = &arguments.work;
    // Beside the rounds: the one with cold files, one for each kill, and one that must not be
    // there.
    let rounds = work.rounds + work.kills + 2;
    if work.generator().rounds_max() < rounds {
        return Err(format!("{} coins are too few for {rounds} rounds", work.coins).into());
    }
    let mut runner = Runner {
        arguments,
        bound: Bound::new(arguments.memory_mib)?,
    };
    let memory = runner.bound.text();
    writeln!(std::io::stderr(), "{memory}")?;
    let mut stores = Vec::new();
    for &kind in &arguments.stores {
        let directory = directory(arguments, kind);
        if directory.exists() {
            return Err(format!("{} exists already", directory.display()).into());
        }
        let result = runner.run_store(kind);
        fs::remove_dir_all(&directory)?;
        stores.push((kind.name(), result?));
    }
    Ok(Comparison {
        work: work.clone(),
        memory_mib: arguments.memory_mib,
        memory,
        stores,
    })
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

fn name(phase: Phase) -> String {
    let value = phase.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Runner<'_> {
    fn run_store(&mut self, kind: Kind) -> Result<Value, Failure> {
        let mut result = Map::new();
        for (phase, files) in PHASES {
            match files {
                Files::AsTheyAre => {}
                Files::Warm => drop(self.run(kind, Phase::Warm)?),
                Files::Cold => drop(self.run(kind, Phase::Cold)?),
            }
            let mut figures = self.run(kind, phase)?;
            figures["load_average"] = json!(load_average());
            progress(kind, &name(phase), &figures)?;
            result.insert(name(phase), figures);
        }
        let commit_seconds = result["flush"]["seconds"]["mean"].as_f64().unwrap_or(0.0);
        let kills = self.kill(kind, commit_seconds)?;
        result.insert("reopen".to_owned(), Value::Array(kills));
        if kind.checkpoint(&self.arguments.dir).is_some() {
            self.run(kind, Phase::Warm)?;
            result.insert("rebuild".to_owned(), self.run(kind, Phase::Rebuild)?);
        }
        // After all that, the set is still what it should be.
        result.insert("last-scan".to_owned(), self.run(kind, Phase::Scan)?);
        Ok(Value::Object(result))
    }

    /// Kills commits at several moments, and looks at what each kill left.
    fn kill(&mut self, kind: Kind, commit_seconds: f64) -> Result<Vec<Value>, Failure> {
        let kills = self.arguments.work.kills;
        let mut figures = Vec::new();
        for kill in 0..kills {
            let part = (kill + 1) as f64 / (kills + 1) as f64;
            let child = self.start(kind, Phase::Commit)?;
            kill_after(child, Duration::from_secs_f64(commit_seconds * part))?;
            let left = self.run(kind, Phase::Reopen)?;
            progress(kind, "reopen", &left)?;
            figures.push(left);
            if self.arguments.work.scan_after_kills {
                progress(kind, "scan", &self.run(kind, Phase::Scan)?)?;
            }
        }
        Ok(figures)
    }

    /// Runs a phase to its end.
    fn run(&mut self, kind: Kind, phase: Phase) -> Result<Value, Failure> {
        let figures = finish(self.start(kind, phase)?);
        self.bound.check()?;
        figures.map_err(|error| format!("{} {}: {error}", kind.name(), name(phase)).into())
    }

    fn start(&self, kind: Kind, phase: Phase) -> Result<Child, Failure> {
        let work = &self.arguments.work;
        let numbers = [
            ("--coins", work.coins),
            ("--changes", work.changes),
            ("--rounds", work.rounds),
            ("--reads", work.reads),
            ("--cold-reads", work.cold_reads),
            ("--kills", work.kills),
            ("--cache-mib", work.cache_mib as u64),
        ];
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--stores", &kind.name(), "--phase", &name(phase), "--dir"]);
        command.arg(&self.arguments.dir).args(self.bound.arguments());
        if matches!(phase, Phase::Read) {
            // What an open has given back counts as given back at once.
            command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");
        }
        for (option, number) in numbers {
            command.arg(option).arg(number.to_string());
        }
        Ok(command.stdout(Stdio::piped()).spawn()?)
    }
}

fn progress(kind: Kind, phase: &str, figures: &Value) -> Result<(), Failure> {
    writeln!(std::io::stderr(), "{} {phase}: {figures}", kind.name())?;
    Ok(())
}

fn finish(mut child: Child) -> Result<Value, Failure> {
    let mut text = String::new();
    child.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
    let status = child.wait()?;
    if !status.success() {
        return Err(status.to_string().into());
    }
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Waits until the commit begins, then so long, then kills.
fn kill_after(mut child: Child, delay: Duration) -> Result<(), Failure> {
    let mut line = String::new();
    // Kept until the end: a child that finishes before it is killed may still write.
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    output.read_line(&mut line)?;
    if line.trim() != "begin" {
        child.wait()?;
        return Err("the commit did not begin".into());
    }
    std::thread::sleep(delay);
    child.kill()?;
    child.wait()?;
    Ok(())
}

//! Starts the phases of each store, each in a process of its own, with warm or cold files.

use crate::phase::{Phase, directory};
use crate::process::{make_cold, make_warm};
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

/// Runs everything; the figures of each store with its name.
pub(crate) fn run(arguments: &Arguments) -> Result<Vec<(String, Value)>, Failure> {
    let mut results = Vec::new();
    for &kind in &arguments.stores {
        let directory = directory(arguments, kind);
        if directory.exists() {
            return Err(format!("{} exists already", directory.display()).into());
        }
        let result = run_store(arguments, kind);
        fs::remove_dir_all(&directory)?;
        results.push((kind.name(), result?));
    }
    Ok(results)
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

fn name(phase: Phase) -> String {
    let value = phase.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn run_store(arguments: &Arguments, kind: Kind) -> Result<Value, Failure> {
    let directory = directory(arguments, kind);
    let mut result = Map::new();
    for (phase, files) in PHASES {
        match files {
            Files::AsTheyAre => {}
            Files::Warm => make_warm(&directory)?,
            Files::Cold => make_cold(&directory)?,
        }
        let mut figures = finish(start(arguments, kind, phase)?)?;
        figures["load_average"] = json!(load_average());
        progress(kind, &name(phase), &figures)?;
        result.insert(name(phase), figures);
    }
    let commit_seconds =
        result["flush"]["all_commits"]["seconds"].as_f64().unwrap_or(0.0) / arguments.work.rounds as f64;
    let mut kills = Vec::new();
    for kill in 0..arguments.work.kills {
        let part = (kill + 1) as f64 / (arguments.work.kills + 1) as f64;
        kill_after(
            start(arguments, kind, Phase::Commit)?,
            Duration::from_secs_f64(commit_seconds * part),
        )?;
        let figures = finish(start(arguments, kind, Phase::Reopen)?)?;
        progress(kind, "reopen", &figures)?;
        kills.push(figures);
    }
    result.insert("reopen".to_owned(), Value::Array(kills));
    // After all that, the set is still what it should be.
    let figures = finish(start(arguments, kind, Phase::Scan)?)?;
    result.insert("last-scan".to_owned(), figures);
    Ok(Value::Object(result))
}

fn progress(kind: Kind, phase: &str, figures: &Value) -> Result<(), Failure> {
    writeln!(std::io::stderr(), "{} {phase}: {figures}", kind.name())?;
    Ok(())
}

fn start(arguments: &Arguments, kind: Kind, phase: Phase) -> Result<Child, Failure> {
    let work = &arguments.work;
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
    command.arg(&arguments.dir);
    for (option, number) in numbers {
        command.arg(option).arg(number.to_string());
    }
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

fn finish(mut child: Child) -> Result<Value, Failure> {
    let mut text = String::new();
    child.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
    if !child.wait()?.success() {
        return Err("a phase failed".into());
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

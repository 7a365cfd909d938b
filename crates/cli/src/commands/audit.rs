//! `blockmill audit`.

use crate::arguments::audit::{
    AuditArguments, AuditCommand, AuditKeyArguments, AuditMergeArguments, AuditPartArguments, AuditWork,
};
use crate::arguments::params_of;
use crate::commands::{open_newest, threads};
use crate::failure::Failure;
use crate::headers;
use crate::listener::{Command, Listener};
use crate::log;
use crate::output::{self, Facts, cpu_seconds, grouped};
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::verifier;
use blockmill_audit::{
    AuditError, AuditedSet, Auditor, Finding, Key, Mark, Report, Sources, Verdict, merge, read_parts,
};
use blockmill_block::Header;
use blockmill_datadir::UtxoSet;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Findings that are shown without `--json`.
const SHOWN_MAX: usize = 20;

pub(crate) fn run(arguments: &AuditArguments) -> Result<u8, Failure> {
    match &arguments.command {
        None => with_page(&arguments.work, |stop, threads, live| {
            whole(arguments, stop, threads, live)
        }),
        Some(AuditCommand::Key(arguments)) => key(arguments),
        Some(AuditCommand::Part(arguments)) => with_page(&arguments.work, |stop, threads, live| {
            part(arguments, stop, threads, live)
        }),
        Some(AuditCommand::Merge(arguments)) => merged(arguments),
    }
}

/// Does the work of an audit, and serves its figures meanwhile if that is asked for.
fn with_page(
    work: &AuditWork,
    audit: impl FnOnce(&Arc<AtomicBool>, usize, Option<Arc<dyn Listener>>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let (stop, threads) = (signals::stop_flag()?, threads(work.par));
    let command = Command {
        name: "audit",
        threads,
        cache_bytes_max: None,
        data: None,
        stop: &stop,
    };
    work.page.during(&command, |live| audit(&stop, threads, live))
}

fn whole(
    arguments: &AuditArguments,
    stop: &Arc<AtomicBool>,
    threads: usize,
    live: Option<Arc<dyn Listener>>,
) -> Result<u8, Failure> {
    let (start, signatures) = (Instant::now(), arguments.work.signatures);
    let mut meter = EngineMeter::with_live(live.clone());
    let verifier = Arc::new(verifier(signatures));
    let auditor = Auditor::new(&verifier, threads, signatures, stop);
    let resume = arguments.resume.as_deref();
    let mut said = None;
    let report = match (&arguments.data, &arguments.snapshot) {
        (Some(data), _) => {
            let set = open_newest(data, threads)?;
            if let Some(live) = &live {
                live.network(set.directory().chain_id().network.name());
            }
            said = say_where_no_note_is_left(&set);
            auditor.set(&set, &arguments.blocks, resume, &mut meter)?
        }
        (None, Some(snapshot)) => {
            let params = params_of(arguments.network, arguments.signet_challenge.as_ref())?;
            if let Some(live) = &live {
                live.network(params.network.name());
            }
            let sources = Sources {
                blocks: &arguments.blocks,
                headers: &[],
                params: &params,
            };
            auditor.files(&sources, snapshot, resume, &mut meter)?
        }
        (None, None) => return Err(Failure::Usage("--snapshot or --data is needed".to_owned())),
    };
    drop(meter);
    say(&report, said.as_deref(), arguments.json, start)
}

fn key(arguments: &AuditKeyArguments) -> Result<u8, Failure> {
    let key = Key::draw()?;
    key.write(&arguments.file)?;
    let mut out = output::stdout();
    writeln!(out, "run {}: its key is in {}", key.run(), arguments.file.display())?;
    Ok(0)
}

fn part(
    arguments: &AuditPartArguments,
    stop: &Arc<AtomicBool>,
    threads: usize,
    live: Option<Arc<dyn Listener>>,
) -> Result<u8, Failure> {
    let key = Key::read(&arguments.key)?;
    // A name that is taken is refused before hours of work.
    let mut new = arguments.force.begin(&arguments.out)?;
    let signatures = arguments.work.signatures;
    if let Some(live) = &live {
        live.network(arguments.network.name());
    }
    let mut meter = EngineMeter::with_live(live);
    let verifier = Arc::new(verifier(signatures));
    let auditor = Auditor::new(&verifier, threads, signatures, stop);
    let params = params_of(Some(arguments.network), arguments.signet_challenge.as_ref())?;
    let mut headers = Vec::new();
    if let Some(source) = &arguments.headers {
        // All at once: a chain is made of them below.
        let mut add = |more: Vec<Header>, _: &mut EngineMeter| {
            headers.extend(more);
            Ok(())
        };
        if !headers::read(source, &params, stop, &mut meter, &mut add)? {
            return Err(AuditError::Stopped.into());
        }
    }
    let sources = Sources {
        blocks: &arguments.blocks,
        headers: &headers,
        params: &params,
    };
    let blocks = auditor.chain(&sources, &mut meter)?;
    let report = auditor.part(&blocks, &key, arguments.from..=arguments.to, &mut meter)?;
    drop(meter);
    say_findings(&report.unreadable);
    // What was said above is why there is none.
    let Some(part) = report.part else {
        return Ok(3);
    };
    new.write_all(&part.encode(&key))
        .map_err(Failure::file(&arguments.out))?;
    new.complete()?;
    say_findings(part.findings());
    let mut out = output::stdout();
    writeln!(
        out,
        "heights {} to {}: {} transactions, {} inputs, {}; to {}",
        arguments.from,
        arguments.to,
        grouped(part.transactions()),
        grouped(part.inputs()),
        if part.is_clean() {
            "nothing against a proof"
        } else {
            "refuted"
        },
        arguments.out.display()
    )?;
    Ok(u8::from(!part.is_clean()))
}

fn merged(arguments: &AuditMergeArguments) -> Result<u8, Failure> {
    let (start, stop) = (Instant::now(), signals::stop_flag()?);
    let key = Key::read(&arguments.key)?;
    let threads = threads(arguments.par);
    let open = |data| open_newest(data, threads);
    let data = arguments.data.as_deref().map(open).transpose()?;
    // Before hours of work.
    let said = data.as_ref().and_then(say_where_no_note_is_left);
    let set = match (&data, &arguments.snapshot) {
        (Some(data), _) => AuditedSet::Data(data),
        (None, Some(snapshot)) => AuditedSet::Snapshot(snapshot),
        (None, None) => return Err(Failure::Usage("--snapshot or --data is needed".to_owned())),
    };
    let parts = read_parts(&arguments.parts)?;
    let mut meter = EngineMeter::new();
    let report = merge(&key, &parts, set, threads, &stop, &mut meter)?;
    drop(meter);
    say(&report, said.as_deref(), arguments.json, start)
}

/// Says before the work that a data directory will have no word of a proof. Returns why.
fn say_where_no_note_is_left(set: &UtxoSet) -> Option<String> {
    let problem = Mark::check(set).err()?.to_string();
    say_not_noted(&problem);
    Some(problem)
}

fn say_not_noted(problem: &str) {
    log::warning(
        "not_noted",
        &format!("{problem}: a proof is not noted in the data directory, and stats will not know of it"),
        json!({"problem": problem}),
    );
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.name(),
        "height": finding.height,
        "hash": finding.hash.map(|hash| hash.to_string()),
        "reason": finding.reason,
    })
}

fn say_findings(findings: &[Finding]) {
    for finding in findings.iter().take(SHOWN_MAX) {
        log::warning("finding", &finding.to_string(), finding_json(finding));
    }
    let more = findings.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        log::warning("findings", &format!("{more} more findings"), json!({"more": more}));
    }
}

/// Prints a report. `said` was said before the work. Returns the exit status.
fn say(report: &Report, said: Option<&str>, as_json: bool, start: Instant) -> Result<u8, Failure> {
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds());
    if let Some(problem) = report.not_noted.as_deref().filter(|&problem| said != Some(problem)) {
        say_not_noted(problem);
    }
    // JSON has a field for them.
    if !as_json {
        say_findings(&report.findings);
    }
    let height = report.height.map_or("unknown".to_owned(), |height| height.to_string());
    let why = report.why_not_whole();
    Facts::default()
        .both("verdict", report.verdict.name())
        .both("network", report.network.name())
        .both_as("height", report.height, height)
        .both("hash", report.hash.to_string())
        .both_as("blocks", report.blocks, grouped(report.blocks))
        .both_as("transactions", report.transactions, grouped(report.transactions))
        .both_as("inputs", report.inputs, grouped(report.inputs))
        .both_as("coins", report.coins, grouped(report.coins))
        .both_as("seconds", seconds, format!("{seconds:.1} (CPU {cpu:.1})"))
        .field("cpu_seconds", cpu)
        .field("findings", report.findings.iter().map(finding_json).collect::<Vec<_>>())
        .field("whole", why.is_empty())
        .field("why", why)
        .print(as_json)?;
    Ok(match report.verdict {
        Verdict::Proved => 0,
        Verdict::Refuted => 1,
        Verdict::Incomplete => 3,
    })
}

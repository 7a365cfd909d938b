//! `blockmill audit`.

use crate::arguments::audit::{
    AuditArguments, AuditCommand, AuditKeyArguments, AuditMergeArguments, AuditPartArguments, AuditWork,
};
use crate::arguments::chain_of;
use crate::failure::Failure;
use crate::headers;
use crate::log;
use crate::output::{self, cpu_seconds, grouped};
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::verifier;
use blockmill_audit::{
    AuditError, AuditedSet, Auditor, Finding, Key, Mark, Report, Sources, Verdict, merge, read_parts,
};
use blockmill_block::{Header, Network};
use blockmill_chain::Signatures;
use blockmill_datadir::UtxoSet;
use blockmill_rules::Params;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// Findings that are shown without `--json`.
const SHOWN_MAX: usize = 20;

pub(crate) fn run(arguments: &AuditArguments) -> Result<u8, Failure> {
    match &arguments.command {
        None => whole(arguments),
        Some(AuditCommand::Key(arguments)) => key(arguments),
        Some(AuditCommand::Part(arguments)) => part(arguments),
        Some(AuditCommand::Merge(arguments)) => merged(arguments),
    }
}

fn threads(par: Option<usize>) -> usize {
    par.unwrap_or(super::cores())
}

fn signatures(work: &AuditWork) -> Signatures {
    work.signatures.into()
}

fn params(network: Option<Network>, challenge: Option<&crate::arguments::HexBytes>) -> Result<Params, Failure> {
    let chain_id = chain_of(network, challenge)?;
    let chain_id = chain_id.ok_or_else(|| Failure::Usage("--network is needed".to_owned()))?;
    Ok(chain_id.params())
}

fn whole(arguments: &AuditArguments) -> Result<u8, Failure> {
    let (start, stop) = (Instant::now(), signals::stop_flag()?);
    let mut meter = EngineMeter::new();
    let verifier = Arc::new(verifier(signatures(&arguments.work)));
    let auditor = Auditor::new(
        &verifier,
        threads(arguments.work.par),
        signatures(&arguments.work),
        &stop,
    );
    let resume = arguments.resume.as_deref();
    let report = match (&arguments.data, &arguments.snapshot) {
        (Some(data), _) => {
            let set = UtxoSet::open_with(data, threads(arguments.work.par), arguments.older.reach())?;
            log::older(set.older());
            say_where_no_note_is_left(&set);
            auditor.set(&set, &arguments.blocks, resume, &mut meter)?
        }
        (None, Some(snapshot)) => {
            let params = params(arguments.network, arguments.signet_challenge.as_ref())?;
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
    say(&report, arguments.json, start)
}

fn key(arguments: &AuditKeyArguments) -> Result<u8, Failure> {
    let key = Key::draw()?;
    key.write(&arguments.file)?;
    let mut out = output::stdout();
    writeln!(out, "run {}: its key is in {}", key.run(), arguments.file.display())?;
    Ok(0)
}

fn part(arguments: &AuditPartArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let key = Key::read(&arguments.key)?;
    let mut new = arguments.force.begin(&arguments.out)?;
    let mut meter = EngineMeter::new();
    let verifier = Arc::new(verifier(signatures(&arguments.work)));
    let auditor = Auditor::new(
        &verifier,
        threads(arguments.work.par),
        signatures(&arguments.work),
        &stop,
    );
    let params = params(Some(arguments.network), arguments.signet_challenge.as_ref())?;
    let mut headers = Vec::new();
    if let Some(source) = &arguments.headers {
        let mut add = |more: Vec<Header>, _: &mut EngineMeter| {
            headers.extend(more);
            Ok(())
        };
        if !headers::read(source, &params, &stop, &mut meter, &mut add)? {
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
    let data = arguments.data.as_deref();
    let reach = arguments.older.reach();
    let data = data.map(|data| UtxoSet::open_with(data, threads, reach)).transpose()?;
    log::older(data.as_ref().and_then(UtxoSet::older));
    data.iter().for_each(say_where_no_note_is_left);
    let set = match (&data, &arguments.snapshot) {
        (Some(data), _) => AuditedSet::Data(data),
        (None, Some(snapshot)) => AuditedSet::Snapshot(snapshot),
        (None, None) => return Err(Failure::Usage("--snapshot or --data is needed".to_owned())),
    };
    let parts = read_parts(&arguments.parts)?;
    let mut meter = EngineMeter::new();
    let report = merge(&key, &parts, set, threads, &stop, &mut meter)?;
    drop(meter);
    say(&report, arguments.json, start)
}

/// Says before the work that a data directory will have no word of a proof.
fn say_where_no_note_is_left(set: &UtxoSet) {
    if let Err(problem) = Mark::check(set) {
        say_not_noted(&problem.to_string());
    }
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

/// Prints a report. Returns the exit status.
fn say(report: &Report, as_json: bool, start: Instant) -> Result<u8, Failure> {
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds());
    if let Some(problem) = &report.not_noted {
        say_not_noted(problem);
    }
    let mut out = output::stdout();
    if as_json {
        let findings: Vec<Value> = report.findings.iter().map(finding_json).collect();
        let mut value = json!({
            "verdict": report.verdict.name(),
            "network": report.network.name(),
            "height": report.height,
            "hash": report.hash.to_string(),
            "blocks": report.blocks,
            "transactions": report.transactions,
            "inputs": report.inputs,
            "coins": report.coins,
            "seconds": seconds,
            "cpu_seconds": cpu,
            "findings": findings,
        });
        let why = report.why_not_whole();
        value["whole"] = json!(why.is_empty());
        value["why"] = json!(why);
        output::json_line(&mut out, &value)?;
    } else {
        say_findings(&report.findings);
        let height = report.height.map_or("unknown".to_owned(), |height| height.to_string());
        let rows = [
            ("verdict", report.verdict.name().to_owned()),
            ("network", report.network.name().to_owned()),
            ("height", height),
            ("hash", report.hash.to_string()),
            ("blocks", grouped(report.blocks)),
            ("transactions", grouped(report.transactions)),
            ("inputs", grouped(report.inputs)),
            ("coins", grouped(report.coins)),
            ("seconds", format!("{seconds:.1} (CPU {cpu:.1})")),
        ];
        output::table(&mut out, &rows)?;
    }
    out.flush()?;
    Ok(match report.verdict {
        Verdict::Proved => 0,
        Verdict::Refuted => 1,
        Verdict::Incomplete => 3,
    })
}

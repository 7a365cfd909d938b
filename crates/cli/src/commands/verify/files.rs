//! The blocks of block files against the undo data beside them.

use super::{params, threads};
use crate::arguments::VerifyArguments;
use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::{signatures_json, signatures_text, verifier};
use crate::whole;
use blockmill_chain::Signatures;
use blockmill_checks::verify_blocks::{Problem, Unverified};
use blockmill_checks::verify_files::{FilesOptions, FilesReport, Stopped, verify_files};
use blockmill_rules::{ScriptVerifier, SignatureCounts};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Reports a stop by a signal, if there was one; returns the number of blocks that remain.
fn say_stopped(report: &FilesReport) -> String {
    if report.stopped.is_some() {
        signals::answer();
    }
    let (text, remaining) = match report.stopped {
        None => return "0".to_owned(),
        Some(Stopped::Indexing) => ("stopped while headers were read: no block is verified".to_owned(), None),
        Some(Stopped::Before(blocks)) => (format!("stopped: {blocks} blocks remain unverified"), Some(blocks)),
    };
    log::info("stopped", &text, json!({"remaining": remaining}));
    remaining.map_or_else(|| "all".to_owned(), |blocks| blocks.to_string())
}

/// What keeps a block from being verified, in words.
fn problem_text(problem: &Problem) -> String {
    match problem {
        Problem::Reject(reject) => reject.to_string(),
        Problem::Unreadable(detail) | Problem::NoUndoFile(detail) | Problem::NoUndo(detail) => detail.clone(),
    }
}

/// Reports the blocks that are not verified; once for all of those without an undo file, or whose
/// undo file cannot be read.
fn say_unverified(report: &FilesReport) {
    let mut without: BTreeMap<&str, Vec<&Unverified>> = BTreeMap::new();
    for unverified in &report.unverified {
        let problem = match &unverified.problem {
            Problem::NoUndoFile(why) => {
                without.entry(why).or_default().push(unverified);
                continue;
            }
            problem => problem_text(problem),
        };
        let (path, offset) = &unverified.found_at;
        let text = format!(
            "{}: offset {offset}: block {} (height {}): {problem}",
            path.display(),
            unverified.hash,
            unverified.height
        );
        let fields = json!({
            "file": output::path_text(path),
            "offset": offset,
            "hash": unverified.hash.to_string(),
            "height": unverified.height,
            "detail": problem,
        });
        log::warning("unverified", &text, fields);
    }
    for (why, blocks) in without {
        say_without_undo_file(why, &blocks);
    }
}

/// Reports blocks that have no undo file, for one reason.
fn say_without_undo_file(why: &str, without: &[&Unverified]) {
    let Some(first) = without.first() else { return };
    let files: BTreeSet<&Path> = without.iter().map(|unverified| &*unverified.found_at.0).collect();
    let path = &first.found_at.0;
    let others = match files.len() as u64 - 1 {
        0 => String::new(),
        others => format!(", nor beside {}", output::counted(others, "other block file")),
    };
    let text = format!(
        "{}: {why}{others}: {} not verified",
        path.display(),
        match without.len() {
            1 => "1 block is".to_owned(),
            count => format!("{count} blocks are"),
        }
    );
    let fields = json!({
        "file": output::path_text(path),
        "files": files.len(),
        "blocks": without.len(),
    });
    log::warning("no_undo_file", &text, fields);
}

/// The report as JSON. The fees stand beside the rest: a [`Value`] has no room for a sum beyond 64
/// bits, which false undo data may lead to.
#[derive(Serialize)]
struct ReportJson {
    fees: i128,
    #[serde(flatten)]
    rest: Value,
}

/// The report as JSON, but for the fees.
fn report_json(report: &FilesReport, counts: &SignatureCounts, seconds: f64) -> Value {
    let unverified = report.unverified.iter().map(|unverified| {
        let (path, offset) = &unverified.found_at;
        json!({
            "hash": unverified.hash.to_string(),
            "height": unverified.height,
            "file": output::path_text(path),
            "offset": offset,
            "verdict": match unverified.problem {
                Problem::Reject(_) => "invalid",
                Problem::Unreadable(_) | Problem::NoUndoFile(_) | Problem::NoUndo(_) => "unreadable",
            },
            "detail": problem_text(&unverified.problem),
        })
    });
    let mut json = json!({
        "best_height": report.best_height,
        "without_undo_yet": report.without_undo_yet,
        "valid": report.totals.blocks,
        "remaining": match report.stopped {
            None => Some(0),
            Some(Stopped::Indexing) => None,
            Some(Stopped::Before(blocks)) => Some(blocks),
        },
        "transactions": report.totals.transactions,
        "inputs": report.totals.inputs,
        "weight": report.totals.weight,
        "signatures": signatures_json(counts),
        "seconds": seconds,
        "unverified": unverified.collect::<Vec<_>>(),
    });
    whole::add_json(&mut json, &report.wholeness);
    json
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let start = Instant::now();
    let options = FilesOptions {
        only: arguments.hash,
        threads: threads(arguments),
        signatures: arguments.signatures.map_or(Signatures::Auto, Into::into),
    };
    let verifier = Arc::new(verifier(options.signatures));
    let report = verify_files(
        &arguments.blocks,
        &params(arguments)?,
        options,
        &verifier,
        &stop,
        &mut meter,
    )?;
    drop(meter);
    say_unverified(&report);
    whole::say(&report.wholeness);
    if report.without_undo_yet > 0 {
        whole::say_without_undo_yet(report.without_undo_yet, report.best_height);
    }
    let remaining = say_stopped(&report);
    let counts = verifier.signature_counts();
    let seconds = start.elapsed().as_secs_f64();
    let mut out = output::stdout();
    if arguments.json {
        let fees = report.totals.fees;
        let rest = report_json(&report, &counts, seconds);
        output::json_line(&mut out, &ReportJson { fees, rest })?;
        return Ok(exit_status(&report));
    }
    let rejected = |unverified: &&Unverified| matches!(unverified.problem, Problem::Reject(_));
    let invalid = report.unverified.iter().filter(rejected).count();
    let rows = [
        ("best height", report.best_height.to_string()),
        ("valid", report.totals.blocks.to_string()),
        ("invalid", invalid.to_string()),
        ("unreadable", (report.unverified.len() - invalid).to_string()),
        ("remaining", remaining),
        ("transactions", report.totals.transactions.to_string()),
        ("inputs", report.totals.inputs.to_string()),
        ("fees", format!("{} satoshi", report.totals.fees)),
        ("weight", report.totals.weight.to_string()),
        ("signatures", signatures_text(&report.signatures, &counts)),
        ("seconds", format!("{seconds:.3}")),
    ];
    output::table(&mut out, &rows)?;
    out.flush()?;
    Ok(exit_status(&report))
}

/// 1 if a block breaks a rule, 3 if something cannot be read, that of a signal where one stopped
/// it, else 0.
fn exit_status(report: &FilesReport) -> u8 {
    let rejected = |unverified: &Unverified| matches!(unverified.problem, Problem::Reject(_));
    match &report.unverified[..] {
        [] if report.stopped.is_some() => signals::status(),
        [] => whole::exit_status(report.wholeness.outcome()),
        some if some.iter().any(rejected) => 1,
        _ => 3,
    }
}

//! The blocks of block files against the undo data beside them.

use crate::arguments::{VerifyArguments, params_of};
use crate::commands::threads;
use crate::failure::Failure;
use crate::log;
use crate::output::{self, Facts};
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::{hashes_json, signatures_json, signatures_text, verifier};
use crate::whole;
use blockmill_chain::Signatures;
use blockmill_checks::verify_blocks::{Problem, Unverified};
use blockmill_checks::verify_files::{FilesOptions, FilesReport, Stopped, verify_files};
use blockmill_rules::ScriptVerifier;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Reports a stop by a signal, if there was one; returns the number of blocks that remain, none for
/// all.
fn say_stopped(report: &FilesReport) -> Option<usize> {
    if report.stopped.is_some() {
        signals::answer();
    }
    let (text, remaining) = match report.stopped {
        None => return Some(0),
        Some(Stopped::Indexing) => ("stopped while headers were read: no block is verified".to_owned(), None),
        Some(Stopped::Before(blocks)) => (format!("stopped: {blocks} blocks remain unverified"), Some(blocks)),
    };
    log::info("stopped", &text, json!({"remaining": remaining}));
    remaining
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
    // One file is named, the others are counted.
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

/// The blocks that are not verified, as JSON.
fn unverified_json(unverified: &Unverified) -> Value {
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
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let start = Instant::now();
    let options = FilesOptions {
        only: arguments.hash,
        threads: threads(arguments.par),
        signatures: arguments.signatures.unwrap_or(Signatures::Auto),
    };
    let verifier = Arc::new(verifier(options.signatures));
    let report = verify_files(
        &arguments.blocks,
        &params_of(Some(arguments.network), arguments.signet_challenge.as_ref())?,
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
    let remaining_text = remaining.map_or("all".to_owned(), |blocks| blocks.to_string());
    let counts = verifier.signature_counts();
    let seconds = start.elapsed().as_secs_f64();
    let totals = &report.totals;
    let rejected = |unverified: &&Unverified| matches!(unverified.problem, Problem::Reject(_));
    let invalid = report.unverified.iter().filter(rejected).count();
    let unverified: Vec<Value> = report.unverified.iter().map(unverified_json).collect();
    Facts::default()
        .field("best_height", report.best_height)
        .row("best height", report.best_height)
        .field("without_undo_yet", report.without_undo_yet)
        .both("valid", totals.blocks)
        .row("invalid", invalid)
        .row("unreadable", report.unverified.len() - invalid)
        .both_as("remaining", remaining, remaining_text)
        .both("transactions", totals.transactions)
        .both("inputs", totals.inputs)
        .both_as("fees", totals.fees, format!("{} satoshi", totals.fees))
        .both("weight", totals.weight)
        .both_as(
            "signatures",
            signatures_json(&counts),
            signatures_text(&report.signatures, &counts),
        )
        .both_as("hashes", hashes_json(), sha256_lanes::Backend::detect().name())
        .both_as("seconds", seconds, format!("{seconds:.3}"))
        .field("unverified", unverified)
        .field("whole", report.wholeness.is_whole())
        .field("why", whole::why(&report.wholeness))
        .print(arguments.json)?;
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

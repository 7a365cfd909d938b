//! `blockmill doctor`.

use crate::advice;
use crate::arguments::LookArguments;
use crate::failure::Failure;
use crate::feed::exec;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use crate::terminal::{bad, good, stdout_columns, wrapped};
use blockmill_audit::{Mark, Noted};
use blockmill_datadir::doctor::{self, Finding, Findings, Health};
use serde_json::json;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Column at which the details begin.
const DETAIL_AT: usize = 26;

/// Columns by which their further lines are indented on a terminal.
const INDENT: usize = 4;

pub(crate) fn run(arguments: &LookArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter::new();
    let mut findings = doctor::examine(&arguments.data, &stop, &mut meter)?;
    drop(meter);
    // The note of an audit, of which the data directory's own examination knows nothing.
    match Noted::read(&arguments.data) {
        Noted::Nothing | Noted::Proof(_) => {}
        Noted::Damaged(problem) => {
            let detail = format!("{problem}; remove it, or audit again");
            findings.add(Mark::FILE, Health::Damaged, detail);
        }
        Noted::Unreadable(problem) => findings.add(Mark::FILE, Health::Unreadable, problem),
    }
    exec::examine(&arguments.data, &mut findings);
    let mut out = output::stdout();
    if arguments.json {
        let parts: Vec<_> = findings
            .0
            .iter()
            .map(|finding| {
                json!({
                    "part": finding.part,
                    "health": finding.health.to_string().to_lowercase(),
                    "detail": detail(finding),
                })
            })
            .collect();
        output::json_line(&mut out, &json!({"sound": findings.is_sound(), "parts": parts}))?;
    } else {
        for finding in &findings.0 {
            // Padded before it has a colour, whose characters have no width.
            let health = format!("{:12}", finding.health);
            let health = match finding.health {
                Health::Sound => good(&health),
                Health::Damaged => bad(&health),
                _ => health,
            };
            let part = format!("{:12} {health} ", finding.part);
            let detail = wrapped(&detail(finding), stdout_columns(), DETAIL_AT, INDENT);
            writeln!(out, "{part}{detail}")?;
        }
    }
    out.flush()?;
    Ok(exit_status(&findings, &stop))
}

/// What was found, and what to do about it.
fn detail(finding: &Finding) -> String {
    let advice = finding.remedy.map(advice::of_remedy);
    advice::with_advice(finding.detail.clone(), advice)
}

/// 3 where something is damaged, else 4 where the store cannot be read and 3 where another part
/// cannot, else 0; that of a signal where one stopped it before it found a fault.
fn exit_status(findings: &Findings, stop: &AtomicBool) -> u8 {
    let unreadable = findings.0.iter().any(|finding| finding.health == Health::Unreadable);
    let store_failed = findings.0.iter().any(Finding::is_store_failure);
    match findings.is_sound() {
        Some(false) => 3,
        _ if store_failed => 4,
        _ if unreadable => 3,
        _ if stop.load(Ordering::Relaxed) => signals::status(),
        _ => 0,
    }
}

//! `blockmill doctor`.

use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use crate::output;
use crate::progress::{EngineMeter, Meter};
use crate::signals;
use blockmill_engine::inspect::doctor;
use serde_json::json;
use std::io::Write;

pub(crate) fn run(arguments: &DoctorArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter(Meter::new());
    let findings = doctor::examine(&arguments.data, &stop, &mut meter)?;
    drop(meter);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let parts: Vec<_> = findings
            .0
            .iter()
            .map(|finding| {
                json!({
                    "part": finding.part,
                    "health": finding.health.to_string().to_lowercase(),
                    "detail": finding.detail,
                })
            })
            .collect();
        output::json_line(&mut out, &json!({"sound": findings.is_sound(), "parts": parts}))?;
    } else {
        for finding in &findings.0 {
            writeln!(out, "{:12} {:12} {}", finding.part, finding.health, finding.detail)?;
        }
    }
    out.flush()?;
    Ok(findings.exit_status())
}

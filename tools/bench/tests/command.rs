//! The command `blockmill-bench`: every benchmark once, as small as can be; wrong usage, files that
//! cannot be written, and names that are no text.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

#[track_caller]
fn run(arguments: &[&OsStr], status: i32, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blockmill-bench"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = command
        .current_dir(root)
        .args(arguments)
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    for word in words {
        assert!(said.contains(word), "not said: {word}: {said}");
    }
    output
}

/// Runs a benchmark, which checks its own results. Each row must have run, and each claim a figure.
#[track_caller]
fn check(name: &str, more: &[&str], tables: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name);
    let (json, html, svg) = (file("report.json"), file("report.html"), file("chart.svg"));
    let mut arguments: Vec<&OsStr> = [name, "--tiny", "--targets"].map(OsStr::new).into();
    arguments.extend(more.iter().map(OsStr::new));
    for (option, path) in [("--json", &json), ("--html", &html), ("--svg", &svg)] {
        arguments.extend([OsStr::new(option), path.as_os_str()]);
    }
    let output = run(&arguments, 0, &[]);
    let table = String::from_utf8(output.stdout).expect("a table is text");
    assert!(table.contains("machine: "), "{table}");
    let report: Value = serde_json::from_slice(&std::fs::read(json).expect("a report")).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let mut found: Vec<&str> = rows.iter().filter_map(|row| row["table"].as_str()).collect();
    found.dedup();
    assert!(found.len() >= tables, "{found:?}");
    for row in rows {
        assert!(
            row["runs"].as_u64() >= Some(1) && row["seconds_median"].as_f64() > Some(0.0),
            "{row}"
        );
    }
    for target in report["targets"].as_array().expect("targets") {
        assert!(target["value"].is_number(), "{target}");
    }
    assert!(std::fs::read_to_string(html).expect("a page").contains("<table>"));
}

#[test]
fn parts_run() {
    check("semaphore", &[], 2);
    check("checkqueue", &[], 1);
    check("workqueue", &[], 1);
    check("coinmap", &[], 2);
    check("signatures", &[], 3);
}

#[test]
fn chains_run_if_the_command_is_there() {
    let own = Path::new(env!("CARGO_BIN_EXE_blockmill-bench"));
    let blockmill = own.with_file_name("blockmill");
    if !blockmill.is_file() {
        eprintln!("skipped: the command blockmill is not built");
        return;
    }
    check("connect", &["--big"], 7);
    check("connect", &["--before", blockmill.to_str().expect("a path")], 5);
    check("audit", &[], 2);
    check("tables", &[], 1);
}

/// Wrong usage: nothing on standard output, and these words said.
#[track_caller]
fn check_wrong(arguments: &[&str], words: &[&str]) {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    assert_eq!(run(&arguments, 2, words).stdout, b"");
}

#[test]
fn wrong_usage_is_status_2() {
    check_wrong(&[], &["Usage"]);
    check_wrong(&["no-such-bench"], &["no-such-bench", "connect", "signatures"]);
    check_wrong(&["connect", "--nothing"], &["--nothing"]);
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_benchmark() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let nowhere = directory.path().join("nowhere/report");
    for option in ["--json", "--html", "--svg"] {
        let arguments = ["semaphore", "--quick", option].map(OsStr::new);
        let arguments = [&arguments[..], &[nowhere.as_os_str()]].concat();
        let refused = run(&arguments, 3, &[nowhere.to_str().expect("text")]);
        assert_eq!(refused.stdout, b"");
    }
}

#[test]
fn an_error_is_a_line_of_json_if_wanted() {
    let refused = run(&["connect", "--part", "none", "--log", "json"].map(OsStr::new), 3, &[]);
    let line: Value = serde_json::from_slice(&refused.stderr).expect("one line of JSON");
    assert_eq!((&line["level"], &line["event"]), (&"error".into(), &"failed".into()));
}

#[cfg(unix)]
#[test]
fn the_command_line_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let arguments = ["connect", "--part", "none", "--json"].map(OsStr::new);
    let odd = OsStr::from_bytes(b"nu\xff/report");
    run(&[&arguments[..], &[odd]].concat(), 3, &["none"]);
}

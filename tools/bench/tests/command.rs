//! The command `blockmill-bench`: wrong usage, files that cannot be written, and names that are no
//! text.

use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Output};

#[track_caller]
fn run(arguments: &[&OsStr], status: i32, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blockmill-bench"));
    let output = command.args(arguments).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    for word in words {
        assert!(said.contains(word), "not said: {word}: {said}");
    }
    output
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
    check_wrong(&["connect", "--without", "checks"], &["checks", "overlap"]);
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

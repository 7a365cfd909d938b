//! `--par N` means N threads that validate and prepare flushes. A thread that mostly waits for the
//! disk or for a signal has another name, and is counted apart.

use crate::common::{Scratch, blockmill, connect, generate_command, run};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// Threads that do no validation, beside the readers.
const WAITING: [&str; 2] = ["flush", "signals"];

/// The names of a process's threads by id, at this moment.
fn threads(process: u32) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        // It may have ended meanwhile.
        if let Ok(name) = std::fs::read_to_string(task.path().join("comm")) {
            let id = task.file_name().into_string().unwrap();
            names.insert(id, name.trim_end().to_owned());
        }
    }
    names
}

/// Runs a command, which must succeed. Returns the last name of each thread that was seen.
fn names_of_threads(command: &mut Command) -> BTreeSet<String> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A thread has the name of its parent at first.
    let mut names = BTreeMap::new();
    let status = loop {
        names.extend(threads(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success(), "{command:?}: {status}");
    names.into_values().collect()
}

#[test]
fn as_many_threads_as_asked_for_validate_and_prepare_flushes() {
    let scratch = Scratch::new();
    let chain = scratch.join("chain");
    let mut generate = generate_command(&chain, "utxo", 130);
    run(generate.args(["--coins", "400000", "--inputs", "100000"])).ends_with(0);
    let main = blockmill().get_program().to_owned();
    let main = std::path::Path::new(&main)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    for threads in [1, 2, 4] {
        // Where this thread gets no turn while a flush goes on, it does not see it.
        let has_seen_flush = (0..20).any(|number| {
            let data = scratch.join(&format!("{threads}-{number}"));
            let mut connect = connect(&chain, &data, "regtest");
            connect.args(["--par", &threads.to_string(), "--flush-seconds", "0.05"]);
            let names = names_of_threads(&mut connect);
            let is_waiting = |name: &str| WAITING.contains(&name) || name.starts_with("reader-");
            let working: BTreeSet<String> = names.iter().filter(|name| !is_waiting(name)).cloned().collect();
            let workers = (0..threads - 1).map(|number| format!("worker-{number}"));
            assert_eq!(working, workers.chain([main.clone()]).collect(), "--par {threads}");
            names.contains("flush")
        });
        assert!(has_seen_flush, "--par {threads}");
    }
}

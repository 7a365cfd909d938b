//! Exports in partitions that are killed before any of their file-system calls, or that the file
//! system refuses one: what later calls make of the folder has exactly the rows, or is refused.

use crate::common::branches::{branch, genesis};
use crate::common::{Run, Scratch, blockmill, connect, on_threads, record, run};
use bitcoin::consensus::serialize;
use blockmill_block::Network;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The calls that change a file system, and those that decide whether one is changed.
const CALLS: &str = "mkdir,mkdirat,openat,write,pwrite64,ftruncate,fsync,fdatasync,flock,rename,renameat,renameat2,\
                     link,linkat,unlink,unlinkat";

const MANIFEST: &str = "_blockmill.json";

/// What an export in partitions is begun with.
#[derive(Debug, Clone, Copy)]
enum Begun {
    /// A folder that is not there.
    Fresh,
    /// `--append` to a table whose last partition is not full.
    Append,
    /// `--force` over a table with other partitions.
    Force,
}

/// A call of the main thread, and which of these it is.
type Step = (String, usize);

struct Site {
    scratch: Scratch,
    /// Data directories: of all blocks, and of fewer.
    long: PathBuf,
    short: PathBuf,
    /// The rows of all blocks.
    rows: Vec<String>,
}

fn export(data: &Path, out: &Path, more: &str) -> Command {
    let mut command = blockmill();
    command.args(["export", "statistics", "--format", "jsonl", "--data"]);
    command.arg(data).arg("--out").arg(out).args(more.split_whitespace());
    command
}

/// The files of a folder that programs read, in order.
fn read(folder: &Path) -> Vec<String> {
    let mut names = crate::common::names_in(folder);
    names.retain(|name| !name.starts_with(['_', '.']));
    names.sort();
    names
}

fn rows(folder: &Path) -> Vec<String> {
    let lines = |name: String| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    read(folder).into_iter().flat_map(lines).collect()
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    if from.exists() {
        std::fs::create_dir(to).unwrap();
        for name in crate::common::names_in(from) {
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new();
        let chain = branch(&genesis(), 1, 7, 0, None);
        let connected = |name: &str, count: usize| {
            let blocks: Vec<u8> = chain[..count]
                .iter()
                .flat_map(|block| record(Network::Regtest.magic(), &serialize(block)))
                .collect();
            let folder = scratch.folder(&format!("{name}-blocks"));
            std::fs::write(folder.join("blk00000.dat"), blocks).unwrap();
            let data = scratch.join(name);
            run(&mut connect(&folder, &data, "regtest")).ends_with(0);
            data
        };
        let (long, short) = (connected("long", 7), connected("short", 4));
        let all = run(&mut export(&long, Path::new("-"), "")).ends_with(0).stdout;
        Self {
            rows: all.lines().map(str::to_owned).collect(),
            scratch,
            long,
            short,
        }
    }

    /// Leaves what an export is begun with, and returns the export.
    fn begin(&self, begun: Begun, out: &Path) -> Command {
        let _ = std::fs::remove_dir_all(out);
        match begun {
            Begun::Fresh => export(&self.long, out, "--partition 3"),
            Begun::Append => {
                run(&mut export(&self.short, out, "--partition 3")).ends_with(0);
                export(&self.long, out, "--append")
            }
            Begun::Force => {
                run(&mut export(&self.long, out, "--partition 4")).ends_with(0);
                export(&self.long, out, "--partition 3 --force")
            }
        }
    }

    /// The calls of an export that have to do with its folder.
    fn steps(&self, begun: Begun, out: &Path) -> Vec<Step> {
        let (command, log) = (self.begin(begun, out), self.scratch.join("strace.log"));
        let mut traced = Command::new("strace");
        traced.args(["-y", "-e", &format!("trace={CALLS}"), "-o"]).arg(&log);
        run(traced.arg(command.get_program()).args(command.get_args())).ends_with(0);
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut steps = Vec::new();
        for line in std::fs::read_to_string(&log).unwrap().lines() {
            let Some((call, _)) = line.split_once('(') else {
                continue;
            };
            let count = counts.entry(call.to_owned()).or_default();
            *count += 1;
            if line.contains(out.to_str().unwrap()) {
                steps.push((call.to_owned(), *count));
            }
        }
        steps
    }

    /// The folder has exactly the rows, in the files that its manifest names.
    #[track_caller]
    fn check_whole(&self, folder: &Path, context: &str) {
        assert!(rows(folder) == self.rows, "{context}: {:?}", read(folder));
        let manifest = std::fs::read(folder.join(MANIFEST)).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let partitions = manifest["partitions"].as_array().unwrap();
        let named: Vec<&str> = partitions
            .iter()
            .map(|partition| partition["file"].as_str().unwrap())
            .collect();
        assert_eq!(named, read(folder), "{context}");
        assert_eq!(manifest["unfinished"], Value::Null, "{context}");
        let all = crate::common::names_in(folder);
        assert_eq!(all.len(), named.len() + 1, "{context}: {all:?}");
    }

    /// Whatever is called next leaves exactly the rows, or is refused and changes nothing.
    fn check_left(&self, left: &Path, work: &Path, context: &str) {
        // No reader gets a row twice.
        if left.exists() {
            let found = rows(left);
            let distinct: BTreeSet<_> = found.iter().collect();
            assert_eq!(distinct.len(), found.len(), "{context}: {:?}", read(left));
            assert!(found.iter().all(|row| self.rows.contains(row)), "{context}");
        }
        for next in [
            "--partition 3 --append",
            "--partition 3 --force",
            "--partition 5 --append",
            "--partition 5 --force",
            "--partition 5",
        ] {
            let context = format!("{context}, then {next}");
            copy(left, work);
            let Run { status, stderr, .. } = run(&mut export(&self.long, work, next));
            assert!(!stderr.contains("no manifest"), "{context}: {stderr}");
            match status {
                0 => self.check_whole(work, &context),
                2 => {
                    assert!(!next.ends_with("--force"), "{context}: {stderr}");
                    assert_eq!(rows(work), rows(left), "{context}");
                }
                _ => panic!("{context}: status {status}, {stderr}"),
            }
        }
    }

    /// Does to an export what `fault` says, at each of its steps.
    fn check_each_step(&self, begun: Begun, fault: &(dyn Fn(&str) -> Option<String> + Sync)) {
        let steps = self.steps(begun, &self.scratch.join("steps"));
        assert!(steps.len() > 40, "{steps:?}");
        let numbered: Vec<(usize, Step)> = steps.into_iter().enumerate().collect();
        on_threads(&numbered, |(number, (call, which))| {
            let Some(fault) = fault(call) else {
                return;
            };
            let context = format!("{begun:?}, step {number}: {call} {which}, {fault}");
            let out = self.scratch.join(&format!("out-{number}"));
            let command = self.begin(begun, &out);
            let mut struck = Command::new("strace");
            struck.args(["-o", "/dev/null", "-e", &format!("inject={call}:{fault}:when={which}")]);
            struck.arg(command.get_program()).args(command.get_args());
            let ended = struck.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            if ended.success() {
                // A lock that there is none of, say.
                self.check_whole(&out, &context);
            }
            let work = self.scratch.join(&format!("work-{number}"));
            self.check_left(&out, &work, &context);
            let _ = (std::fs::remove_dir_all(&out), std::fs::remove_dir_all(&work));
        });
    }
}

/// Without strace, or where it may trace nothing, these tests are left out.
fn has_strace() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let has_strace = traced.is_ok_and(|traced| traced.status.success());
    if !has_strace {
        eprintln!("skipped: strace is not there, or may not trace");
    }
    has_strace
}

const BEGUN: [Begun; 3] = [Begun::Fresh, Begun::Append, Begun::Force];

#[test]
fn killed_before_any_call() {
    if !has_strace() {
        return;
    }
    let site = Site::new();
    for begun in BEGUN {
        site.check_each_step(begun, &|_| Some("signal=KILL".to_owned()));
    }
}

#[test]
fn a_disk_that_is_full_at_any_call() {
    if !has_strace() {
        return;
    }
    let site = Site::new();
    for begun in BEGUN {
        site.check_each_step(begun, &|call| match call {
            "fsync" | "fdatasync" => Some("error=EIO".to_owned()),
            _ => Some("error=ENOSPC".to_owned()),
        });
    }
}

/// Several exports with other partitions into one folder, at the same time: each is exact or
/// refused.
#[test]
fn several_writers_of_one_folder() {
    let site = Site::new();
    let out = site.scratch.join("out");
    for round in 0..10 {
        let spawn = |size: &str| {
            let mut command = export(&site.long, &out, &format!("--force --partition {size}"));
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let writers = ["2", "3", "5"].map(spawn);
        let ended = writers.map(|writer| writer.wait_with_output().unwrap());
        let statuses: Vec<_> = ended.iter().map(|ended| ended.status.code()).collect();
        assert!(
            statuses.contains(&Some(0)) && statuses.iter().all(|status| matches!(status, Some(0 | 2))),
            "{round}: {ended:?}"
        );
        site.check_whole(&out, &format!("round {round}"));
    }
}

//! `blockmill-bench race` over a generated chain, with a stand-in for Core's daemon: scripts that
//! write the log and give the answers that a test wants. What a real daemon does is not shown here.

#![cfg(unix)]

use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use blockmill_chaingen::{ChainSpec, Profile, Summary, write_chain};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;
use tempfile::TempDir;

/// The daemon. It appends its options to `calls`. `-reindex` and `-reindex-chainstate` are lines
/// of shell for the runs that have this option; `tip` is the last block that its log names.
const BITCOIND: &str = r#"#!/bin/sh
here=${0%/*}
[ "$1" = -version ] && { echo 'Bitcoin Core daemon version v99.0.0'; exit 0; }
serves=; how=
for word; do case $word in
    -datadir=*) data=${word#-datadir=};;
    -server=1) serves=yes;;
    -reindex|-reindex-chainstate) how=$word;;
esac; done
echo "$@" >> "$here/calls"
[ -s "$data/regtest/blocks/blk00000.dat" ] || { echo 'no blocks' >&2; exit 1; }
if [ "$serves" ]; then
    [ -e "$here/set.json" ] || exit 1
    : > "$data/ready"
    while [ ! -e "$data/stopped" ]; do sleep 0.05; done
    rm "$data/ready" "$data/stopped"
    exit 0
fi
echo written >> "$data/regtest/blocks/rev00000.dat"
[ ! -e "$here/$how" ] || . "$here/$how"
echo "2026-01-01T00:00:00Z UpdateTip: new best=$(cat "$here/tip") height=2 version=0x1" > "$data/regtest/debug.log"
"#;

/// What asks it.
const CLI: &str = r#"#!/bin/sh
here=${0%/*}
for word; do case $word in -datadir=*) data=${word#-datadir=};; esac; done
[ -e "$data/ready" ] || { echo 'could not connect' >&2; exit 1; }
case $word in
    getblockcount) echo 2;;
    gettxoutsetinfo) cat "$here/set.json";;
    stop) : > "$data/stopped";;
    *) exit 1;;
esac
"#;

/// A chain, a stand-in for the daemon, and a folder for results.
struct Scene {
    directory: TempDir,
    summary: Summary,
}

impl Scene {
    /// None where the command that races is not built.
    fn new() -> Option<Self> {
        let own = Path::new(env!("CARGO_BIN_EXE_blockmill-bench"));
        if !own.with_file_name("blockmill").is_file() {
            eprintln!("skipped: the command blockmill is not built");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut spec = ChainSpec::new(Profile::Mixed, 110, 1);
        spec.inputs = 60;
        let plain = directory.path().join("plain");
        let summary = write_chain(&plain, &spec, &mut |_| ()).expect("a chain");
        // As a node has them: three files under a key, with undo files and zeros at the end.
        let bytes = fs::read(plain.join(&summary.files[0])).expect("a block file");
        let written = CoreChain::of_file(&bytes).write(&directory.path().join("secret-blocks"), &CoreLayout::default());
        written.expect("block files");
        let scene = Self { directory, summary };
        scene.script("bitcoind", BITCOIND);
        scene.script("bitcoin-cli", CLI);
        scene.write("tip", &scene.summary.tip);
        let hash = scene.summary.hash_serialized_3.clone();
        scene.answer(scene.summary.height, &scene.summary.tip, scene.summary.coins, &hash);
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a script");
    }

    /// What the daemon says of its set.
    fn answer(&self, height: u32, block: &str, coins: u64, hash: &str) {
        let set = json!({"height": height, "bestblock": block, "txouts": coins, "hash_serialized_3": hash});
        self.write("set.json", &set.to_string());
    }

    /// Names, lengths and times of the user's files, of links those of the link.
    fn blocks(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
        let entries = fs::read_dir(self.path("secret-blocks")).expect("a folder");
        let facts = |entry: fs::DirEntry| {
            let metadata = entry.path().symlink_metadata().expect("metadata");
            (entry.path(), (metadata.len(), metadata.modified().expect("a time")))
        };
        entries.map(|entry| facts(entry.expect("an entry"))).collect()
    }

    /// Races. The user's files stay as they are, and nothing is left but the results.
    #[track_caller]
    fn race(&self, with_daemon: bool, more: &[&str], status: i32) -> Output {
        let before = self.blocks();
        let mut command = Command::new(env!("CARGO_BIN_EXE_blockmill-bench"));
        command
            .args(["race", "--network", "regtest", "--blocks"])
            .arg(self.path("secret-blocks"));
        command.arg("--out").arg(self.path("out")).args(more);
        if with_daemon {
            command.arg("--bitcoind").arg(self.path("bitcoind"));
        }
        let output = command.output().expect("the command starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert_eq!(self.blocks(), before);
        assert!(!self.path("out/work").exists());
        output
    }

    /// The results, of which neither file has a path.
    #[track_caller]
    fn results(&self) -> (Value, String) {
        let read = |name: &str| fs::read_to_string(self.path("out").join(name)).expect("results");
        let (json, page) = (read("race.json"), read("race.html"));
        let folder = self.directory.path().to_str().expect("text");
        for text in [&json, &page] {
            assert!(!text.contains(folder) && !text.contains("secret"), "{text}");
        }
        (serde_json::from_str(&json).expect("JSON"), page)
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).expect("calls");
        calls.lines().map(str::to_owned).collect()
    }
}

/// The rows of a table.
fn rows<'a>(report: &'a Value, table: &str) -> Vec<&'a Value> {
    let all = report["rows"].as_array().expect("rows").iter();
    all.filter(|row| row["table"] == table).collect()
}

/// The option of the runs that are timed.
const TIMED: &str = "-reindex-chainstate";

const BITCOIND_ROW: &str = "bitcoind -reindex-chainstate";

#[test]
fn all_contenders_have_the_same_set() {
    let Some(scene) = Scene::new() else { return };
    let output = scene.race(true, &["--runs", "2", "--dbcache", "64"], 0);
    let (report, page) = scene.results();
    let runs = rows(&report, "runs");
    assert_eq!(
        runs.iter().map(|row| &row["who"]).collect::<Vec<_>>(),
        ["connect", "audit", BITCOIND_ROW]
    );
    for row in &runs {
        assert!(row["runs"] == 2 && row["seconds_min"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(runs[0]["count"], scene.summary.inputs);
    for ours in &runs[..2] {
        let seconds = |row: &Value, end: &str| row[format!("seconds_{end}")].as_f64().expect("seconds");
        let least = seconds(runs[2], "min") / seconds(ours, "max");
        let most = seconds(runs[2], "max") / seconds(ours, "min");
        let ratio = ours["ratio_median"].as_f64().expect("a ratio");
        assert!(
            least * 0.999 <= ratio && ratio <= most * 1.001,
            "{least} {ratio} {most}"
        );
    }
    let sets = rows(&report, "sets");
    assert_eq!(sets.len(), 2);
    for (set, who) in sets.iter().zip(["connect", BITCOIND_ROW]) {
        assert_eq!(
            (&set["who"], &set["same"], &set["height"]),
            (&json!(who), &json!("yes"), &json!(110))
        );
        assert_eq!(set["hash_serialized_3"], scene.summary.hash_serialized_3);
    }
    assert_eq!(rows(&report, "blocks")[0]["height"], 110);
    assert_eq!(rows(&report, "stages of connect").len(), 7);
    let machine = rows(&report, "machine");
    let is = |what: &str| machine.iter().find(|row| row["what"] == what).map(|row| &row["is"]);
    assert_eq!(is("bitcoind"), Some(&json!("Bitcoin Core daemon version v99.0.0")));
    assert!(is("operating system").is_some() && report["machine"]["cores"].is_number());
    let words = "blockmill-bench race --blocks DIR --bitcoind PATH --network regtest --to 110 --dbcache 64 --runs 2";
    assert_eq!(report["command"], words);
    assert!(page.contains("<table>") && String::from_utf8_lossy(&output.stdout).contains(BITCOIND_ROW));
    let ends = [
        "-server=0 -dbcache=64 -par=0 -stopatheight=1 -reindex -assumevalid=0",
        "-server=0 -dbcache=64 -par=0 -stopatheight=110 -reindex-chainstate -assumevalid=0",
    ];
    let timed: Vec<String> = scene
        .calls()
        .into_iter()
        .filter(|call| call.contains("-server=0"))
        .collect();
    for (call, end) in timed.iter().zip([ends[0], ends[1], ends[1]]) {
        assert!(
            call.ends_with(end) && call.contains("-connect=0") && call.contains("-chain=regtest"),
            "{call}"
        );
    }
    assert_eq!(timed.len(), 3);
}

#[test]
fn the_last_height_limits_all() {
    let Some(scene) = Scene::new() else { return };
    scene.race(false, &["--to", "50"], 0);
    let (report, _) = scene.results();
    let set = rows(&report, "sets")[0].clone();
    assert_eq!((&set["height"], rows(&report, "runs").len()), (&json!(50), 2));
    let text = |key: &str| set[key].as_str().expect("text").to_owned();
    let coins = set["coins"].as_u64().expect("a number");
    scene.answer(50, &text("block"), coins, &text("hash_serialized_3"));
    scene.write("tip", &text("block"));
    // A node that has more blocks would go on with them.
    scene.write(TIMED, r#"wc -c < "$data/regtest/blocks/blk00000.dat" > "$here/bytes""#);
    scene.race(true, &["--to", "50"], 0);
    let bytes: u64 = fs::read_to_string(scene.path("bytes"))
        .expect("a length")
        .trim()
        .parse()
        .expect("a number");
    assert!(bytes > 50 * 80 && bytes < scene.summary.bytes, "{bytes}");
    assert!(
        scene
            .calls()
            .iter()
            .any(|call| call.contains("-stopatheight=50 -reindex-chainstate"))
    );
    let refused = scene.race(false, &["--to", "111"], 3);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("end at height 110"));
}

#[test]
fn another_set_is_status_1() {
    let Some(scene) = Scene::new() else { return };
    scene.answer(110, &scene.summary.tip, scene.summary.coins, &"00".repeat(32));
    let output = scene.race(true, &[], 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not that of connect"));
    let (report, page) = scene.results();
    assert_eq!(rows(&report, "sets")[1]["same"], "NO");
    assert!(page.contains("<td>NO</td>"));
}

#[test]
fn a_set_that_differs_in_one_run_only_is_found() {
    let Some(scene) = Scene::new() else { return };
    // The second run has another set.
    scene.write(
        TIMED,
        r#"[ -e "$here/ran" ] && sed -i 's/"txouts":/"txouts":1/' "$here/set.json"; : > "$here/ran""#,
    );
    scene.race(true, &["--runs", "2"], 1);
    let (report, _) = scene.results();
    let same: Vec<_> = rows(&report, "sets").iter().map(|set| set["same"].clone()).collect();
    assert_eq!(same, ["yes", "yes", "NO"]);
}

/// A daemon that fails has a row that says how, and no figure. The others have theirs.
#[track_caller]
fn check_failing(option: &str, how: &str, words: &str) {
    let Some(scene) = Scene::new() else { return };
    scene.write(option, how);
    let output = scene.race(true, &[], 3);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(words), "{said}");
    let (report, page) = scene.results();
    let runs = rows(&report, "runs");
    let failed = runs[2]["failed"].as_str().expect("words");
    assert!(
        failed.contains(words) && runs[2]["seconds_median"].is_null(),
        "{failed}"
    );
    assert!(runs[0]["seconds_median"].is_number() && runs[1]["seconds_median"].is_number());
    assert!(page.contains(failed) && rows(&report, "sets").len() == 1);
}

#[test]
fn a_daemon_that_fails_is_said() {
    check_failing(TIMED, "echo \"Error: $data\" >&2; exit 1", "exit status: 1");
    check_failing(TIMED, "kill -9 $$", "signal: 9");
    check_failing("-reindex", "exit 2", "-reindex: exit status: 2");
    check_failing(TIMED, "echo aa > \"$here/tip\"", "ended below the last block");
    check_failing(TIMED, "rm \"$here/set.json\"", "ended before it answered");
}

#[test]
fn what_cannot_be_raced_is_said_before_anything_runs() {
    let Some(scene) = Scene::new() else { return };
    let check = |with_daemon: bool, more: &[&str], status: i32, words: &str| {
        let said = scene.race(with_daemon, more, status).stderr;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(words), "{said}");
        assert!(!scene.path("calls").exists());
    };
    fs::rename(scene.path("bitcoin-cli"), scene.path("cli")).expect("a file");
    check(true, &[], 2, "bitcoin-cli must be beside");
    check(false, &["--to", "0"], 2, "--to");
    fs::rename(scene.path("cli"), scene.path("bitcoin-cli")).expect("a file");
    scene.script("bitcoind", "#!/bin/sh\nexit 1\n");
    check(true, &[], 3, "-version");
    let second = scene.path("secret-blocks/blk00001.dat");
    fs::rename(&second, scene.path("second")).expect("a file");
    check(false, &[], 3, "do not hold a whole chain");
    std::os::unix::fs::symlink(scene.path("nowhere"), second).expect("a link");
    check(false, &[], 3, "missing");
    fs::remove_dir_all(scene.path("secret-blocks")).expect("a folder");
    fs::create_dir(scene.path("secret-blocks")).expect("a folder");
    check(false, &[], 3, "no blk*.dat files");
}

#[test]
fn a_race_that_goes_on_is_left_alone() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir_all(scene.path("out/work/kept")).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_blockmill-bench"));
    command
        .args(["race", "--network", "regtest", "--blocks"])
        .arg(scene.path("secret-blocks"));
    let output = command
        .arg("--out")
        .arg(scene.path("out"))
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another race"));
    assert!(scene.path("out/work/kept").is_dir());
}

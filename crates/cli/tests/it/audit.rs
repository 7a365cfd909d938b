//! `audit`, over real and generated chains in files of Core's form.

mod half;
mod marks;
mod resume;

use crate::common::{Rng, Run, Scratch, blockmill, connect, generate_command, run, shared_data};
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A chain in a folder `blocks`, and its set in `set`.
struct Site {
    scratch: Scratch,
    network: &'static str,
    chain: CoreChain,
}

impl Site {
    fn of_file(network: &'static str, file: &Path) -> Self {
        Self {
            scratch: Scratch::new(),
            network,
            chain: CoreChain::of_file(&std::fs::read(file).unwrap()),
        }
    }

    /// A generated chain with signatures of all kinds.
    fn generated() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.join("generated");
        run(generate_command(&folder, "mixed", 140).args(["--inputs", "2000"])).ends_with(0);
        let file = std::fs::read(folder.join("blk00000.dat")).unwrap();
        let site = Self {
            scratch,
            network: "regtest",
            chain: CoreChain::of_file(&file),
        };
        site.write(&CoreLayout::default());
        site
    }

    fn write(&self, layout: &CoreLayout) {
        self.chain.write(&self.blocks(), layout).unwrap();
        self.chain.write_snapshot(&self.set()).unwrap();
    }

    fn blocks(&self) -> PathBuf {
        self.scratch.join("blocks")
    }

    fn set(&self) -> PathBuf {
        self.scratch.join("set")
    }

    fn audit(&self) -> Command {
        let mut command = blockmill();
        command.args(["audit", "--json", "--network", self.network, "--blocks"]);
        command.arg(self.blocks()).arg("--snapshot").arg(self.set());
        command
    }

    fn part(&self, from: u32, to: u32) -> (PathBuf, Run) {
        let path = self.scratch.join(&format!("{from}-{to}.part"));
        let mut command = blockmill();
        command.args(["audit", "part", "--network", self.network, "--blocks"]);
        command.arg(self.blocks()).arg("--key").arg(self.scratch.join("key"));
        command.args(["--from", &from.to_string(), "--to", &to.to_string(), "--out"]);
        let run = run(command.arg(&path));
        (path, run)
    }

    fn merge(&self, parts: &[&Path]) -> Run {
        let mut command = blockmill();
        command
            .args(["audit", "merge", "--json", "--key"])
            .arg(self.scratch.join("key"));
        run(command.arg("--snapshot").arg(self.set()).args(parts))
    }
}

#[track_caller]
fn is(json: &Value, verdict: &str, kinds: &[&str]) {
    let findings = json["findings"].as_array().unwrap();
    let found: Vec<&str> = findings
        .iter()
        .map(|finding| finding["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        (json["verdict"].as_str().unwrap(), &found[..]),
        (verdict, kinds),
        "{json}"
    );
}

#[test]
fn real_chains_are_proved_against_snapshots_of_core() {
    let Some(folder) = shared_data("chains") else { return };
    for (network, blocks, set, coins) in [
        ("bitcoin", "mainnet_0_14131.dat", "mainnet_14131.utxo", 13_416),
        ("testnet3", "testnet3_0_4000.dat", "testnet3_4000.utxo", 4_197),
    ] {
        let site = Site::of_file(network, &folder.join(blocks));
        site.write(&CoreLayout {
            blocks_per_file: 3_000,
            ..CoreLayout::default()
        });
        // The tests' own reader of blocks and writer of sets comes to Core's bytes.
        let of_core = std::fs::read(folder.join(set)).unwrap();
        assert!(std::fs::read(site.set()).unwrap() == of_core, "{network}");
        let report = run(&mut site.audit()).ends_with(0).json();
        is(&report, "proved", &[]);
        let tip = site.chain.blocks.len() - 1;
        assert_eq!(
            (
                &report["network"],
                &report["height"],
                &report["blocks"],
                &report["coins"]
            ),
            (&network.into(), &tip.into(), &(tip + 1).into(), &coins.into())
        );
        assert_eq!(report["hash"], site.chain.tip().block_hash().to_string());
        // The set of a block below.
        let mut below = site.chain.clone();
        below.blocks.pop();
        let mut earlier = CoreChain::new(below.magic, below.blocks.into_iter().map(|block| block.block));
        earlier.write_snapshot(&site.set()).unwrap();
        let report = run(&mut site.audit()).ends_with(0).json();
        is(&report, "proved", &[]);
        assert_eq!(report["height"], tip - 1);
        earlier.coins.pop_first();
        earlier.write_snapshot(&site.set()).unwrap();
        is(&run(&mut site.audit()).ends_with(1).json(), "refuted", &["sums"]);
    }
}

#[test]
fn generated_chains_are_proved_in_any_layout() {
    let site = Site::generated();
    let transactions: usize = site.chain.blocks.iter().map(|block| block.block.txdata.len()).sum();
    let inputs: usize = site.chain.blocks.iter().map(|block| block.spent.len()).sum();
    for (number, layout) in [
        CoreLayout::default(),
        CoreLayout {
            key: None,
            reversed: true,
            blocks_per_file: 7,
            ..CoreLayout::default()
        },
        CoreLayout {
            blocks_per_file: 1_000,
            ..CoreLayout::default()
        },
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::remove_dir_all(site.blocks()).unwrap();
        site.write(&layout);
        for how in [
            &["--par", "1"][..],
            &["--par", "2", "--signatures", "lanes"],
            &["--par", "5", "--signatures", "one-by-one"],
        ] {
            let report = run(site.audit().args(how)).ends_with(0).json();
            is(&report, "proved", &[]);
            assert_eq!(
                (&report["transactions"], &report["inputs"]),
                (&transactions.into(), &inputs.into()),
                "layout {number}"
            );
        }
    }
    let table = run(site.audit().args(["--par", "2"])).ends_with(0);
    assert!(table.seconds < 60.0);
}

#[test]
fn a_wrong_coin_fails_its_scripts() {
    let mut site = Site::generated();
    let changed = site
        .chain
        .blocks
        .iter()
        .position(|block| block.spent.len() > 3)
        .unwrap();
    site.chain.blocks[changed].spent[1].script = bitcoin::ScriptBuf::new_op_return([1]);
    site.write(&CoreLayout::default());
    let report = run(&mut site.audit()).ends_with(1).json();
    is(&report, "refuted", &["block"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["height"], changed);
    assert!(finding["reason"].as_str().unwrap().contains("script"), "{finding}");
}

#[test]
fn a_data_directory_is_proved() {
    let site = Site::generated();
    let data = site.scratch.join("data");
    run(&mut connect(&site.scratch.join("generated"), &data, "regtest")).ends_with(0);
    let audit = || {
        let mut command = blockmill();
        command.args(["audit", "--json", "--data"]).arg(&data);
        command
    };
    is(&run(&mut audit()).ends_with(0).json(), "proved", &[]);
    // Its undo data is gone; that of Core's files does, too.
    std::fs::rename(data.join("undo.dat"), site.scratch.join("undo.dat")).unwrap();
    let alone = run(&mut audit()).ends_with(3).json();
    assert_eq!(alone["verdict"], "incomplete");
    std::fs::rename(site.scratch.join("undo.dat"), data.join("undo.dat")).unwrap();
    // Its blocks have gone away, and are elsewhere.
    std::fs::rename(site.scratch.join("generated"), site.scratch.join("elsewhere")).unwrap();
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let gone = run(&mut audit()).ends_with(3).json();
    is(&gone, "incomplete", &["unreadable"]);
    assert!(
        gone["findings"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("heights 1 to 140"),
        "{gone}"
    );
    let elsewhere = run(audit().arg("--blocks").arg(site.blocks())).ends_with(0).json();
    is(&elsewhere, "proved", &[]);
}

#[test]
fn a_snapshot_that_was_proved_is_loaded() {
    let site = Site::generated();
    let stats = |data: &Path, text: bool| {
        let mut command = blockmill();
        command.arg("stats").arg("--data").arg(data);
        if !text {
            command.arg("--json");
        }
        run(&mut command).ends_with(0)
    };
    let connected = site.scratch.join("connected");
    run(&mut connect(&site.scratch.join("generated"), &connected, "regtest")).ends_with(0);
    assert_eq!(stats(&connected, false).json()["audited_height"], Value::Null);
    let parts = site.scratch.join("parts");
    let proved = run(site.audit().arg("--resume").arg(&parts)).ends_with(0).json();
    is(&proved, "proved", &[]);
    let data = site.scratch.join("data");
    let mut load = blockmill();
    load.args(["snapshot", "load", "--network", "regtest", "--blocks"]);
    load.arg(site.blocks()).arg("--data").arg(&data);
    let hash = stats(&connected, false).json()["hash_serialized_3"].clone();
    run(load.args(["--hash", hash.as_str().unwrap()]).arg(site.set())).ends_with(0);
    let shows = |words: &str| {
        let shown = stats(&data, true).stdout;
        assert!(shown.contains(words), "{shown}");
    };
    shows("above height 140; a snapshot gave the coins up to there, unvalidated");
    // What was done for the snapshot does for the set that was loaded.
    let audit = |parts: &Path, blocks: &Path| {
        let mut command = blockmill();
        command.args(["audit", "--json", "--data"]).arg(&data).arg("--blocks");
        run(command.arg(blocks).arg("--resume").arg(parts))
    };
    is(&audit(&parts, &site.blocks()).ends_with(0).json(), "proved", &[]);
    let key = std::fs::read_to_string(parts.join("key")).unwrap();
    let of_loaded = stats(&data, false).json();
    assert_eq!(
        (&of_loaded["snapshot_height"], &of_loaded["audited_height"]),
        (&140.into(), &140.into())
    );
    let id = of_loaded["audit_run"].as_str().unwrap().to_owned();
    assert!(!key.contains(&id));
    let words = format!("from the first block on; up to height 140 by audit run {id}");
    shows(&words);
    let mark = data.join("audit.txt");
    // Parts that others made prove it as well.
    std::fs::remove_file(&mark).unwrap();
    run(blockmill().args(["audit", "key"]).arg(site.scratch.join("key"))).ends_with(0);
    let (low, high) = (site.part(0, 70).0, site.part(71, 140).0);
    let merge = |parts: &[&Path]| {
        let mut command = blockmill();
        command
            .args(["audit", "merge", "--json", "--key"])
            .arg(site.scratch.join("key"));
        run(command.arg("--data").arg(&data).args(parts))
    };
    is(&merge(&[&low]).ends_with(3).json(), "incomplete", &["parts"]);
    assert!(!mark.exists());
    is(&merge(&[&high, &low]).ends_with(0).json(), "proved", &[]);
    assert_eq!(stats(&data, false).json()["audited_height"], 140);
}

#[test]
fn a_part_needs_its_own_blocks_and_all_headers() {
    let site = Site::generated();
    run(blockmill().args(["audit", "key"]).arg(site.scratch.join("key"))).ends_with(0);
    let whole: Vec<PathBuf> = [(0, 49), (50, 99), (100, 140)]
        .map(|(from, to)| site.part(from, to).0)
        .into();
    let headers: Vec<u8> = site
        .chain
        .blocks
        .iter()
        .skip(1)
        .flat_map(|block| serialize(&block.block.header))
        .collect();
    std::fs::write(site.scratch.join("headers"), headers).unwrap();
    // The files of the blocks from 50 to 99.
    let own = site.scratch.join("own");
    std::fs::create_dir(&own).unwrap();
    for name in ["blk00001.dat", "rev00001.dat", "xor.dat"] {
        std::fs::copy(site.blocks().join(name), own.join(name)).unwrap();
    }
    let part = |from: u32, to: u32, with_headers: bool| {
        let mut command = blockmill();
        command
            .args(["audit", "part", "--network", "regtest", "--blocks"])
            .arg(&own);
        command.arg("--key").arg(site.scratch.join("key"));
        if with_headers {
            command.arg("--headers").arg(site.scratch.join("headers"));
        }
        command.args(["--from", &from.to_string(), "--to", &to.to_string(), "--out"]);
        run(command.arg(site.scratch.join("alone")))
    };
    part(50, 99, false)
        .ends_with(2)
        .says(&["heights 50 to 99 are not in the chain", "height 0"]);
    part(50, 100, true)
        .ends_with(3)
        .says(&["the block of height 100: in none of the block files"]);
    part(50, 99, true).ends_with(0);
    let alone = std::fs::read(site.scratch.join("alone")).unwrap();
    assert!(alone == std::fs::read(&whole[1]).unwrap());
}

#[test]
fn parts_are_made_alone_and_joined() {
    let site = Site::generated();
    let key = site.scratch.join("key");
    let drawn = run(blockmill().args(["audit", "key"]).arg(&key)).ends_with(0);
    let mode = std::fs::metadata(&key).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    run(blockmill().args(["audit", "key"]).arg(&key))
        .ends_with(2)
        .says(&["there is a file of this name already"]);
    let parts: Vec<_> = [(0, 60), (61, 61), (62, 139), (140, 140)]
        .map(|(from, to)| site.part(from, to))
        .into();
    let paths: Vec<&Path> = parts.iter().map(|(path, _)| path.as_path()).collect();
    let mut said = drawn.stdout + &drawn.stderr;
    for (_, run) in &parts {
        assert_eq!(run.status, 0, "{run:?}");
        said += &(run.stdout.clone() + &run.stderr);
    }
    let length = std::fs::metadata(paths[0]).unwrap().len();
    assert!(length < 600 + 61 * 32, "{length}");
    let merged = site.merge(&[paths[2], paths[0], paths[3], paths[1]]).ends_with(0);
    is(&merged.json(), "proved", &[]);
    is(&site.merge(&paths[..3]).ends_with(3).json(), "incomplete", &["parts"]);
    // Nobody prints a key.
    said += &(merged.stdout + &merged.stderr);
    let secret = std::fs::read_to_string(&key).unwrap();
    let secret = secret.lines().last().unwrap();
    assert!(
        (0..secret.len() - 12).all(|at| !said.contains(&secret[at..at + 12])),
        "{said}"
    );
    // Wrong usage.
    let (_, again) = site.part(0, 60);
    again.ends_with(2).says(&["there is a file of this name already"]);
    let (path, beyond) = site.part(100, 141);
    beyond.ends_with(2).says(&["heights 100 to 141", "height 140"]);
    assert!(!path.exists());
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let (_, exposed) = site.part(1, 2);
    exposed.ends_with(3).says(&["others than its owner can read this key"]);
}

#[test]
fn what_is_missing_is_found_before_the_work() {
    let site = Site::generated();
    let audit = |kinds: &[&str]| {
        let report = run(&mut site.audit()).ends_with(3).json();
        is(&report, "incomplete", kinds);
        assert_eq!(report["blocks"], 0);
        report["findings"].to_string()
    };
    let moved = site.scratch.join("moved");
    let (blk, rev) = (site.blocks().join("blk00001.dat"), site.blocks().join("rev00001.dat"));
    std::fs::rename(&rev, &moved).unwrap();
    let reason = audit(&["unreadable"]);
    assert!(
        reason.contains("heights 50 to 99") && reason.contains("no file of undo data"),
        "{reason}"
    );
    std::fs::rename(&moved, &rev).unwrap();
    // Without these blocks, those above have no parents.
    std::fs::rename(&blk, &moved).unwrap();
    let reasons = audit(&["unreadable", "unreadable"]);
    assert!(
        reasons.contains("are left over") && reasons.contains("whose header is in none"),
        "{reasons}"
    );
    std::fs::rename(&moved, &blk).unwrap();
    run(&mut site.audit()).ends_with(0);
}

#[test]
fn damaged_undo_data_is_named_and_what_was_done_is_kept() {
    let site = Site::generated();
    let resume = site.scratch.join("resume");
    let rev = site.blocks().join("rev00002.dat");
    let good = std::fs::read(&rev).unwrap();
    let mut bad = good.clone();
    bad[2_000] ^= 1;
    std::fs::write(&rev, bad).unwrap();
    let report = run(site.audit().arg("--resume").arg(&resume)).ends_with(3).json();
    is(&report, "incomplete", &["unreadable"]);
    let reason = report["findings"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("rev00002.dat"), "{reason}");
    std::fs::write(&rev, good).unwrap();
    is(
        &run(site.audit().arg("--resume").arg(&resume)).ends_with(0).json(),
        "proved",
        &[],
    );
    // Everything is there now; not even the blocks are read.
    std::fs::write(site.blocks().join("rev00002.dat"), []).unwrap();
    is(
        &run(site.audit().arg("--resume").arg(&resume)).ends_with(0).json(),
        "proved",
        &[],
    );
}

#[test]
fn a_set_that_is_damaged_or_of_another_chain() {
    let site = Site::generated();
    let good = std::fs::read(site.set()).unwrap();
    std::fs::write(site.set(), &good[..good.len() - 1]).unwrap();
    is(&run(&mut site.audit()).ends_with(3).json(), "incomplete", &["set"]);
    std::fs::write(site.set(), b"no set").unwrap();
    run(&mut site.audit()).ends_with(3).says(&["not a UTXO snapshot"]);
    let mut other = good;
    other[20] ^= 1;
    std::fs::write(site.set(), other).unwrap();
    is(
        &run(&mut site.audit()).ends_with(3).json(),
        "incomplete",
        &["unreadable"],
    );
    std::fs::remove_file(site.set()).unwrap();
    run(&mut site.audit()).ends_with(3).says(&["No such file"]);
}

#[test]
fn a_run_that_is_killed_goes_on() {
    let Some(folder) = shared_data("chains") else { return };
    let site = Site::of_file("bitcoin", &folder.join("mainnet_0_14131.dat"));
    site.write(&CoreLayout {
        blocks_per_file: 5_000,
        ..CoreLayout::default()
    });
    let resume = site.scratch.join("resume");
    let mut rng = Rng::new(5);
    let mut killed = 0;
    for _ in 0..40 {
        let mut command = site.audit();
        command
            .arg("--resume")
            .arg(&resume)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.below(150) as u64));
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().code().is_none());
        if killed > 12 {
            break;
        }
    }
    assert!(killed > 3, "{killed} kills");
    is(
        &run(site.audit().arg("--resume").arg(&resume)).ends_with(0).json(),
        "proved",
        &[],
    );
    let left: Vec<_> = std::fs::read_dir(&resume)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        left.iter().all(|name| !name.to_str().unwrap().ends_with(".incomplete")),
        "{left:?}"
    );
}

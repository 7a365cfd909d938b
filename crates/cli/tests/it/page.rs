//! The page of `connect`, `follow` and `audit`: what it answers, and what clients cannot do to it.

mod client;
mod hostile;

use crate::common::{Scratch, blockmill, check_seconds, connect, generate_command, manifest, run};
use crate::follow::node::Node;
use client::{Answer, PATIENCE, Served, follow};
use serde_json::Value;
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

#[test]
fn answers_and_their_heads() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/?x=1", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4"),
        ("/status.json", "application/json"),
    ] {
        let answer = served.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind)),
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert_eq!(
            policy.contains("script-src 'sha256-"),
            path.starts_with("/?") || path == "/"
        );
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert!(!answer.body.is_empty());
        // The same without the body.
        let head = served.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((head.status, head.header("content-type")), (200, Some(kind)));
    }
    let page = served.get("/").body;
    // All that it needs is in it.
    for word in [" src=", "<link rel=\"stylesheet\"", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /metrics/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("DELETE /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (
            "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            405,
        ),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            413,
        ),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n", 403),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:9332\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: [::1]:9332\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ] {
        let answer = served.ask(request);
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let refused = served.ask("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn old_and_new_versions_of_the_protocol() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let old = served.ask("GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(old.status, 200);
    assert!(old.body.contains("\nblockmill_height 30\n"));
    // Several requests, one after the other and at once, come in order in one connection.
    let mut stream = served.connect();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(ask("/metrics").as_bytes()).unwrap();
    assert!(Answer::read(&mut lines, false).body.starts_with("# HELP"));
    stream
        .write_all([ask("/status.json"), ask("/"), ask("/metrics")].concat().as_bytes())
        .unwrap();
    for begin in ["{", "<!doctype html>", "# HELP"] {
        assert!(Answer::read(&mut lines, false).body.starts_with(begin), "{begin}");
    }
}

/// A chain that takes some seconds, and its manifest.
fn long_chain(scratch: &Scratch) -> (std::path::PathBuf, Value) {
    let blocks = scratch.join("blocks");
    run(generate_command(&blocks, "mixed", 400).args(["--inputs", "20000"])).ends_with(0);
    let manifest = manifest(&blocks);
    (blocks, manifest)
}

#[test]
fn figures_move_until_the_command_ends() {
    let scratch = Scratch::new();
    let (blocks, manifest) = long_chain(&scratch);
    let mut command = connect(&blocks, &scratch.join("data"), "regtest");
    let mut served = Served::start(command.args(["--par", "1"]));
    let (mut heights, mut states) = (Vec::new(), Vec::new());
    while let Some(status) = served.status_if_served() {
        heights.extend(status["height"].as_u64());
        states.push(status["state"].as_str().unwrap().to_owned());
        assert!(status.get("history").is_none());
    }
    assert_eq!(served.end(), Some(0));
    assert!(heights.is_sorted() && heights.len() > 2, "{heights:?}");
    assert!(heights.last() <= manifest["height"].as_u64().as_ref(), "{heights:?}");
    assert!(states.contains(&"connecting".to_owned()), "{states:?}");
}

#[test]
fn a_follower_shows_blocks_and_reorganisations() {
    let scratch = Scratch::new();
    let blocks = scratch.join("blocks");
    let mut node = Node::new(&blocks, 5);
    let served = Served::start(&mut follow(&blocks, &scratch.join("data")));
    let before = served.wait_for_state("at_the_tip");
    assert_eq!(before["tip"], node.hash());
    assert_eq!(before["reorganisations_total"], 0);
    let (left, height) = (node.hash(), node.chain.len() - 1);
    node.chain.truncate(height + 1 - 3);
    (0..4).for_each(|_| node.mine());
    let after = served.wait_for(|status| status["tip"] == *node.hash() && status["state"] == "at_the_tip");
    assert_eq!(after["reorganisations_total"], 1);
    let reorganisation = &after["reorganisations"][0];
    assert_eq!(reorganisation["depth"], 3);
    assert_eq!(reorganisation["fork_height"], height - 3);
    assert_eq!(reorganisation["from"], left);
    assert_eq!(after["height"], height + 1);
    assert_eq!(after["last_blocks"][0]["block_hash"], node.hash());
    assert_eq!(after["last_blocks"][0]["height"], height + 1);
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn the_lock_is_waited_for_in_sight() {
    let scratch = Scratch::new();
    let folder = scratch.folder("here");
    let first = Served::follow(&folder);
    let mut command = follow(&folder.join("blocks"), &folder.join("data"));
    let second = Served::start(command.arg("--wait"));
    second.wait_for_state("waiting_for_lock");
    assert_eq!(first.stop(), Some(0));
    second.wait_for_state("at_the_tip");
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn an_audit_shows_what_it_has() {
    let scratch = Scratch::new();
    let (blocks, data) = (scratch.join("blocks"), scratch.join("data"));
    run(generate_command(&blocks, "mixed", 200).args(["--inputs", "20000"])).ends_with(0);
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    let mut command = blockmill();
    command
        .arg("audit")
        .arg("--data")
        .arg(&data)
        .arg("--blocks")
        .arg(&blocks);
    let mut served = Served::start(command.args(["--par", "1"]));
    let last = served.wait_for(|status| status["state"] == "verifying" && status["blocks"] != 0);
    assert_eq!(served.end(), Some(0));
    assert_eq!(
        (&last["command"], &last["network"]),
        (&"audit".into(), &"regtest".into())
    );
    // It has no cache and no stages.
    assert!(last["stages"].is_null() && last["cache_coins"].is_null() && last["flushes"].is_null());
}

#[test]
fn metrics_are_whole_and_each_once() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let text = served.get("/metrics").body;
    let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut names: Vec<_> = types.iter().filter_map(|line| line.split(' ').next()).collect();
    let helps = text.lines().filter(|line| line.starts_with("# HELP ")).count();
    assert_eq!(names.len(), helps);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), helps);
    for name in [
        "build_info",
        "height",
        "best_height",
        "tip_time_seconds",
        "share",
        "bytes_remaining",
        "cache_coins",
        "cache_bytes",
        "elapsed_seconds",
        "blocks_per_second",
        "inputs_per_second",
        "blocks_total",
        "inputs_total",
        "cache_hits_total",
        "flushes_total",
        "flush_pause_max_seconds",
        "signatures_lanes_total",
        "scripts_again_total",
        "blocks_in_flight",
        "stage_busy_seconds_total",
        "stage_wait_seconds_total",
        "store_bytes",
        "state",
        "warnings_total",
        "disk_free_bytes",
    ] {
        assert!(names.contains(&&*format!("blockmill_{name}")), "{name}: {names:?}");
    }
    for stage in ["read", "decode", "fetch", "resolve", "check", "commit", "flush"] {
        let line = format!("\nblockmill_stage_busy_seconds_total{{stage=\"{stage}\"}} ");
        assert!(text.contains(&line), "{stage}");
    }
    assert!(text.contains("\nblockmill_state{state=\"at_the_tip\"} 1\n"), "{text}");
    assert!(text.contains("\nblockmill_height 30\n") && text.contains("\nblockmill_blocks_total 30\n"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

/// A figure of the metrics.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Of a first start, of one at the tip, and of one that waits for the directory.
#[test]
fn figures_of_alerts_are_there_from_the_first_scrape_on() {
    let scratch = Scratch::new();
    let [blocks, data] = ["blocks", "data"].map(|name| scratch.join(name));
    run(&mut generate_command(&blocks, "utxo", 30)).ends_with(0);
    // Names of all metrics, and the values that alerts compare.
    let look = |served: &Served| {
        let text = served.get("/metrics").body;
        let names: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE "))
            .map(str::to_owned)
            .collect();
        let height = metric(&text, "blockmill_height").expect("a height");
        let best = metric(&text, "blockmill_best_height").expect("the best height");
        let time = metric(&text, "blockmill_tip_time_seconds").expect("a time");
        for name in ["warnings_total", "disk_free_bytes", "directory_bytes", "flushed_height"] {
            assert!(metric(&text, &format!("blockmill_{name}")).is_some(), "{name}: {text}");
        }
        (names, (height, best, time))
    };
    let first = Served::start(&mut follow(&blocks, &data));
    look(&first);
    first.wait_for_state("at_the_tip");
    let (names, figures) = look(&first);
    assert_eq!((figures.0, figures.1), (30.0, 30.0));
    let waiting = Served::start(follow(&blocks, &data).arg("--wait"));
    waiting.wait_for_state("waiting_for_lock");
    let (names_waiting, figures_waiting) = look(&waiting);
    assert_eq!(figures_waiting, figures);
    assert_eq!(first.stop(), Some(0));
    waiting.wait_for_state("at_the_tip");
    let (names_at_tip, figures_at_tip) = look(&waiting);
    assert_eq!(figures_at_tip, figures);
    let is_there_while_working = |name: &&String| !name.contains("remaining_seconds");
    let all: Vec<_> = names.iter().filter(is_there_while_working).collect();
    assert_eq!(
        all,
        names_waiting.iter().filter(is_there_while_working).collect::<Vec<_>>()
    );
    assert_eq!(
        all,
        names_at_tip.iter().filter(is_there_while_working).collect::<Vec<_>>()
    );
    assert_eq!(waiting.stop(), Some(0));
}

/// Adds the paths of all names in an object, and of those in lists of objects.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.push(name.clone());
            names(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn every_name_is_in_the_document() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page.md");
    let document = std::fs::read_to_string(document).unwrap();
    let mut found = Vec::new();
    names(&served.status(), &mut found);
    assert!(found.len() > 80, "{found:?}");
    for name in found {
        assert!(
            document.contains(&format!("`{name}`")),
            "docs/page.md does not say what {name} is"
        );
    }
}

#[test]
fn an_address_in_use_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let blocks = scratch.join("blocks");
    run(&mut generate_command(&blocks, "utxo", 5)).ends_with(0);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = scratch.join("data");
    let mut command = connect(&blocks, &data, "regtest");
    run(command.args(["--http", &address]))
        .ends_with(2)
        .says(&[&format!("--http {address}: "), "in use"]);
    assert!(!data.exists());
}

/// A command of a second ends at once, whoever watches.
#[test]
fn the_end_waits_for_nobody() {
    let scratch = Scratch::new();
    let served = Served::follow(&scratch.folder("here"));
    // They never read.
    let silent: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let start = Instant::now();
    assert_eq!(served.stop(), Some(0));
    check_seconds(start.elapsed().as_secs_f64(), PATIENCE.as_secs_f64() / 20.0);
    drop(silent);
}

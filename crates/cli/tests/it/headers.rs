//! `snapshot load` without the old block files, as at a pruned node: headers from a file, or from
//! the REST interface of a node, whose part a server of the tests plays.

use crate::common::own_set::OwnChain;
use crate::common::{Run, Scratch, blockmill, connect, peak_memory_and_status, run};
use bitcoin::block::{Header, Version};
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, TxMerkleNode};
use blockmill_chaingen::builder::mine;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// More headers than an answer of a node has.
const HEIGHT: u32 = 2_100;

/// Headers of an answer at most.
const TOGETHER: usize = 2_000;

const HEADER: usize = 80;

/// A chain, the headers from the first block on, and a snapshot of its end.
struct Made {
    scratch: Scratch,
    chain: OwnChain,
    headers: Vec<u8>,
    snapshot: PathBuf,
    hash: String,
}

impl Made {
    fn new() -> Self {
        let scratch = Scratch::new();
        let chain = OwnChain::generate(&scratch, "utxo", HEIGHT, &["--inputs", "200"]);
        let data = scratch.join("whole");
        run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
        let snapshot = scratch.join("snapshot.dat");
        let mut dump = blockmill();
        dump.args(["snapshot", "dump", "--json", "--data"])
            .arg(&data)
            .arg(&snapshot);
        let dumped = run(&mut dump).ends_with(0).json();
        Self {
            headers: chain.blocks.iter().flat_map(|block| serialize(&block.header)).collect(),
            hash: dumped["txoutset_hash"].as_str().unwrap().to_owned(),
            scratch,
            chain,
            snapshot,
        }
    }

    fn load(&self, data: &str, headers: &str) -> Command {
        let mut command = blockmill();
        command.args(["snapshot", "load", "--network", "regtest", "--hash", &self.hash]);
        command
            .args(["--headers", headers, "--data"])
            .arg(self.scratch.join(data));
        command
    }

    fn load_file(&self, data: &str, headers: &str) -> Run {
        run(self.load(data, headers).arg(&self.snapshot))
    }

    /// Fails unless the data directory has the set of the snapshot.
    #[track_caller]
    fn check_loaded(&self, data: &str) {
        let mut stats = blockmill();
        stats.args(["stats", "--json", "--data"]).arg(self.scratch.join(data));
        let stats = run(&mut stats).ends_with(0).json();
        assert_eq!(
            (&stats["hash_serialized_3"], &stats["height"]),
            (&self.hash.clone().into(), &HEIGHT.into())
        );
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn headers_come_from_a_file() {
    let made = Made::new();
    // In any order, without the first one, which is known; and in hex, as an answer of REST may be.
    let mut turned: Vec<u8> = Vec::new();
    made.headers[HEADER..]
        .chunks(HEADER)
        .rev()
        .for_each(|header| turned.extend(header));
    let binary = made.scratch.write("headers.bin", &turned);
    made.load_file("of_binary", text(&binary)).ends_with(0);
    made.check_loaded("of_binary");
    let digits: String = made.headers.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = made.scratch.write("headers.hex", format!("{digits}\n").as_bytes());
    made.load_file("of_hex", text(&hex)).ends_with(0);
    made.check_loaded("of_hex");
    // Blocks above it are connected with the headers below it alone.
    let none_new = run(&mut connect(
        &made.chain.folder,
        &made.scratch.join("of_hex"),
        "regtest",
    ));
    assert_eq!(none_new.ends_with(0).json()["blocks"], 0);

    let part = made.scratch.write("part.bin", &made.headers[HEADER..HEADER * 2_000]);
    made.load_file("part", text(&part))
        .ends_with(3)
        .says(&["is in none of the sources", "--headers"]);
    let gap: Vec<u8> = [&made.headers[HEADER..HEADER * 50], &made.headers[HEADER * 51..]].concat();
    let gap = made.scratch.write("gap.bin", &gap);
    made.load_file("gap", text(&gap))
        .ends_with(3)
        .says(&["2,050 headers without a known parent"]);
    let cut = made.scratch.write("cut.bin", &made.headers[..HEADER * 3 + 1]);
    made.load_file("cut", text(&cut))
        .ends_with(3)
        .says(&["cut.bin: 241 bytes are no headers of 80 bytes each"]);
    assert!(!made.scratch.join("cut").exists());
    made.load_file("nowhere", text(&made.scratch.join("nowhere")))
        .ends_with(3)
        .says(&["nowhere"]);
}

#[test]
fn the_snapshot_may_be_a_stream() {
    let made = Made::new();
    let headers = made.scratch.write("headers", &made.headers);
    let mut command = made.load("streamed", text(&headers));
    let mut child = command
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let snapshot = std::fs::read(&made.snapshot).unwrap();
    child.stdin.take().unwrap().write_all(&snapshot).unwrap();
    assert!(child.wait().unwrap().success());
    made.check_loaded("streamed");
    // And it goes to one.
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "-", "--data"])
        .arg(made.scratch.join("streamed"));
    let dumped = dump.output().unwrap();
    assert!(dumped.status.success() && dumped.stdout == snapshot);
    // A table is made of one.
    let coins = |from: Stdio, name: &str| {
        let mut export = blockmill();
        export.args(["export", "coins", "--format", "csv", "--out", "-", "--snapshot", name]);
        let done = export.stdin(from).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    let file = std::fs::File::open(&made.snapshot).unwrap();
    assert!(coins(file.into(), "-") == coins(Stdio::null(), text(&made.snapshot)));
}

/// The block that a request for headers names, and the stream that it came by.
fn request(stream: &TcpStream) -> (String, String) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.find(|line| line.is_empty());
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let hash = path
        .strip_prefix("/rest/headers/2000/")
        .and_then(|rest| rest.strip_suffix(".bin"))
        .unwrap_or_default()
        .to_owned();
    (path, hash)
}

/// A server of headers, which answers as a node does, and what it was asked for.
fn node(headers: Vec<u8>, status: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = channel();
    let hashes: Vec<String> = headers
        .chunks(HEADER)
        .map(|bytes| {
            bitcoin::consensus::deserialize::<Header>(bytes)
                .unwrap()
                .block_hash()
                .to_string()
        })
        .collect();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (path, hash) = request(&stream);
            let at = hashes.iter().position(|known| hash == *known);
            let body = at.map_or(&headers[..0], |at| {
                &headers[at * HEADER..headers.len().min((at + TOGETHER) * HEADER)]
            });
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body].concat());
            if sender.send(path).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

#[test]
fn headers_come_from_a_node() {
    let made = Made::new();
    let (url, asked) = node(made.headers.clone(), "200 OK");
    made.load_file("of_node", &format!("{url}/")).ends_with(0);
    made.check_loaded("of_node");
    let asked: Vec<String> = asked.try_iter().collect();
    let first = made.chain.blocks[0].block_hash();
    let second = made.chain.blocks[TOGETHER - 1].block_hash();
    let paths = [first, second].map(|hash| format!("/rest/headers/2000/{hash}.bin"));
    assert_eq!(asked, paths);

    let (url, _asked) = node(made.headers[HEADER..].to_vec(), "200 OK");
    made.load_file("other", &url)
        .ends_with(3)
        .says(&[&url, "the node has another chain"]);
    let (url, _asked) = node(made.headers.clone(), "404 Not Found");
    made.load_file("off", &url)
        .ends_with(3)
        .says(&["status 404", "the node needs -rest=1"]);
    let (url, _asked) = node(made.headers.clone(), "503 Service Unavailable");
    made.load_file("busy", &url).ends_with(3).says(&["status 503"]);
    made.load_file("nobody", "http://127.0.0.1:1")
        .ends_with(3)
        .says(&["http://127.0.0.1:1/rest/headers"]);
    // None of them has left anything.
    for data in ["other", "off", "busy", "nobody"] {
        assert!(!made.scratch.join(data).exists(), "{data}");
    }
    let mut without = blockmill();
    without.args(["snapshot", "load", "--network", "regtest", "--data"]);
    run(without.arg(made.scratch.join("none")).arg(&made.snapshot)).ends_with(2);
}

/// What a node says is one line of a message, and commands no terminal.
#[test]
fn what_a_node_says_is_one_line() {
    let made = Made::new();
    for log in ["text", "json"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = request(&stream);
            let body = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2Jno\r\nblockmill: loaded\u{202e}";
            let head = format!("HTTP/1.1 500 X\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
        });
        let mut load = blockmill();
        load.args([
            "snapshot",
            "load",
            "--network",
            "regtest",
            "--log",
            log,
            "--headers",
            &url,
        ]);
        load.args(["--hash", &"00".repeat(32), "--data"])
            .arg(made.scratch.join(log));
        let refused = run(load.arg(&made.snapshot)).ends_with(3);
        let lines: Vec<&str> = refused.stderr.lines().filter(|line| line.contains("owned")).collect();
        let [line] = lines[..] else { panic!("{refused:#?}") };
        assert!(line.contains("loaded") && line.contains("status 500"), "{refused:#?}");
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{refused:#?}"
        );
    }
}

/// A server whose headers never end: `next` makes each of its parent. Returns the number of its
/// answers, too.
fn endless(next: impl Fn(&Header, u32) -> Header + Send + 'static) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&answers);
    std::thread::spawn(move || {
        let mut last = bitcoin::constants::genesis_block(bitcoin::Network::Regtest).header;
        let mut height = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = request(&stream);
            let mut body = serialize(&last);
            for _ in 1..TOGETHER {
                height += 1;
                last = next(&last, height);
                body.extend(serialize(&last));
            }
            count.fetch_add(1, Ordering::Relaxed);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, answers)
}

fn child_of(parent: BlockHash, time: u32) -> Header {
    Header {
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: parent,
        merkle_root: TxMerkleNode::all_zeros(),
        time,
        bits: bitcoin::CompactTarget::from_consensus(0x207f_ffff),
        nonce: 0,
    }
}

fn mined(mut header: Header) -> Header {
    mine(&mut header);
    header
}

/// A node is not trusted: the first header that breaks a rule ends it.
#[test]
fn headers_of_a_node_are_judged_as_they_come() {
    let made = Made::new();
    type Next = fn(&Header, u32) -> Header;
    let cases: [(&str, Next, &str); 5] = [
        (
            "work",
            |last, height| child_of(last.block_hash(), last.time + height % 600 + 1),
            "high-hash",
        ),
        (
            "old",
            |last, _| mined(child_of(last.block_hash(), last.time)),
            "time-too-old",
        ),
        (
            "new",
            |last, _| mined(child_of(last.block_hash(), u32::MAX)),
            "time-too-new",
        ),
        (
            "apart",
            |last, _| mined(child_of(BlockHash::all_zeros(), last.time + 1)),
            "prev-blk-not-found",
        ),
        (
            "bits",
            |last, _| {
                let mut header = child_of(last.block_hash(), last.time + 1);
                header.bits = bitcoin::CompactTarget::from_consensus(0x207f_fffe);
                mined(header)
            },
            "bad-diffbits",
        ),
    ];
    for (name, next, reason) in cases {
        let (url, answers) = endless(next);
        made.load_file(name, &url)
            .ends_with(3)
            .says(&[&url, "(height ", reason]);
        assert_eq!(answers.load(Ordering::Relaxed), 1, "{name}");
        assert!(!made.scratch.join(name).exists(), "{name}");
    }
}

/// Headers with work that never end, in answers and in a file: there are no more than a chain can
/// have by now, and memory keeps to the bound.
#[test]
fn headers_that_never_end_are_refused() {
    let made = Made::new();
    let (url, answers) = endless(|last, _| mined(child_of(last.block_hash(), last.time + 1)));
    let mut load = made.load("endless", &url);
    let (peak, status) = peak_memory_and_status(load.args(["--dbcache", "16"]).arg(&made.snapshot));
    let headers = u64::from(answers.load(Ordering::Relaxed)) * TOGETHER as u64;
    assert_eq!(status.code(), Some(3));
    assert!(headers > 500_000 && headers < 5_000_000, "{headers}");
    let limit = (16 << 20) * 11 / 10 + (96 << 20) + headers * 350;
    eprintln!("{} MiB at the most, {} allowed", peak >> 20, limit >> 20);
    assert!(peak <= limit, "{} MiB, {} allowed", peak >> 20, limit >> 20);
    made.load_file("zeros", "/dev/zero")
        .ends_with(3)
        .says(&["/dev/zero: more than", "no chain of this network can have"]);
}

/// An answer that never ends, and words that never end.
#[test]
fn answers_that_never_end_are_refused() {
    let made = Made::new();
    for (status, said) in [
        ("200 OK", "the answer is not made of headers"),
        ("500 No", "status 500"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = request(&stream);
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes());
            while stream.write_all(&[7; 1 << 16]).is_ok() {}
        });
        made.load_file("answer", &url).ends_with(3).says(&[said]);
    }
}

#[test]
fn a_password_of_the_url_is_not_repeated() {
    let made = Made::new();
    let mut load = blockmill();
    load.args(["snapshot", "load", "--network", "regtest"]);
    // Nothing listens there.
    load.args([
        "--headers",
        "http://me:hunter2@127.0.0.1:1",
        "--hash",
        &"00".repeat(32),
        "--data",
    ])
    .arg(made.scratch.join("data"));
    let refused = run(load.arg(&made.snapshot))
        .ends_with(3)
        .says(&["http://127.0.0.1:1/rest"]);
    assert!(!refused.stderr.contains("hunter2"), "{refused:#?}");
}

//! The consumers of docs/feed.md.

use super::consumer::{Coin, set_of};
use super::node::Node;
use super::{PATIENCE, Place, Running, TRUNK, steps, stop};
use crate::common::{Rng, Scratch, connect, record, run};
use blockmill_block::BlockUndo;
use blockmill_chain::index::HeaderIndex;
use blockmill_chaingen::bitcoin::Block;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_coins::{OwnedChange, Tip};
use blockmill_datadir::DataDir;
use blockmill_datadir::chain_log::ChainLog;
use blockmill_datadir::store_file::open_store;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Prints what the consumer has: one transaction holds both of its tables.
const QUERY: &str = "
import json, sqlite3
try:
    db = sqlite3.connect('file:coins.db?mode=ro', uri=True)
    db.execute('BEGIN')
    handled = db.execute('SELECT hash FROM handled').fetchone()
    print(json.dumps([handled, db.execute('SELECT * FROM coins').fetchall()]))
except sqlite3.Error:
    print('[null, []]')
";

/// The last block of code of a language in docs/feed.md that begins with some words.
pub(super) fn code_of_document(language: &str, begin: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/feed.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, begun) = text.rsplit_once(&format!("```{language}\n{begin}")).unwrap();
    begin.to_owned() + begun.split("```").next().unwrap()
}

/// Folders of commands, with ours.
pub(super) fn path_with_command() -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_blockmill"));
    format!(
        "{}:{}",
        command.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    )
}

/// Whether a program is there.
fn is_installed(name: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {name} is missing");
    }
    found
}

/// Runs a program in a folder.
fn begin(folder: &Path, program: &str, arguments: &[&str], out: Stdio) -> Running {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdout(out);
    Running::of(command.env("PATH", path_with_command()))
}

/// Begins the consumer in Python, in the folder of its table.
fn begin_in_python(folder: &Path) -> Running {
    let program = code_of_document("python", "import json, sqlite3");
    begin(folder, "python3", &["-c", &program], Stdio::null())
}

/// Kills what a process has started.
fn kill_children(process: u32) {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
        // It may have ended.
        let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
    }
}

/// A coin in the table, as [`set_of`] has it.
fn coin(row: &Value) -> ((String, u64), Coin) {
    let text = |at: usize| row[at].as_str().unwrap().to_owned();
    let is_coinbase = row[5].as_u64() == Some(1);
    let height = row[4].as_u64().unwrap();
    (
        (text(0), row[1].as_u64().unwrap()),
        (row[2].as_i64().unwrap(), text(3), height, is_coinbase),
    )
}

/// Two blocks of mainnet repeat the coinbase of an older one (BIP 30), and one coin takes the place
/// of another. On regtest no such block is valid, so the last blocks are put into the directory by
/// hand, as far as a feed reads it.
#[test]
fn a_repeated_coinbase_replaces_the_coin_of_the_first() {
    if !is_installed("python3") {
        return;
    }
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let node = Node::new(&place.blocks, 8);
    run(&mut connect(&place.blocks, &place.data, "regtest")).ends_with(0);
    let repeated = &node.chain[TRUNK - 30].txdata[0];
    let mut blocks = Vec::new();
    for height in TRUNK + 1..=TRUNK + 3 {
        let last = blocks.last().unwrap_or(&node.chain[TRUNK]);
        let mut builder = BlockBuilder::new(last.block_hash(), height as u32, last.header.time + 600);
        if height == TRUNK + 2 {
            builder = builder.coinbase(|coinbase| *coinbase = repeated.clone());
        }
        blocks.push(builder.build());
    }
    put_into_directory(&place.data, &blocks);
    let _consumer = begin_in_python(&scratch.join(""));
    let end = Instant::now() + PATIENCE;
    let last = blocks[2].block_hash().to_string();
    let coins = loop {
        assert!(Instant::now() < end, "the consumer does not come to {last}");
        if let (Some(handled), coins) = table(&scratch.join(""))
            && handled == last
        {
            break coins;
        }
    };
    let mut expected = set_of(&place.data).0;
    for (height, block) in (TRUNK as u64 + 1..).zip(&blocks) {
        let coinbase = &block.txdata[0];
        for (vout, output) in (0..).zip(&coinbase.output) {
            let script = output.script_pubkey.to_hex_string();
            let coin = (output.value.to_sat() as i64, script, height, true);
            expected.insert((coinbase.compute_txid().to_string(), vout), coin);
        }
    }
    expected.retain(|_, (_, script, ..)| !script.starts_with("6a"));
    assert_eq!(coins, expected);
}

/// Appends blocks without spends to the chain of a data directory, unvalidated.
fn put_into_directory(data: &Path, blocks: &[Block]) {
    let directory = DataDir::open(data, None).unwrap();
    let store = open_store(&directory, Default::default()).unwrap();
    let params = directory.chain_id().params();
    let magic = params.magic();
    let mut log = ChainLog::open(&directory, magic, &mut HeaderIndex::new(params)).unwrap();
    let mut records = Vec::new();
    let mut tip = store.tip().unwrap().unwrap();
    for block in blocks {
        let bytes = serialize(block);
        records.extend(record(magic, &bytes));
        let header = *blockmill_block::Block::decode(bytes).unwrap().header();
        log.append(&header, &BlockUndo::default()).unwrap();
        tip = Tip {
            hash: header.hash(),
            height: tip.height + 1,
        };
    }
    std::fs::create_dir(data.join("blocks")).unwrap();
    std::fs::write(data.join("blocks/blk00000.dat"), records).unwrap();
    log.sync().unwrap();
    store.commit(&Vec::<OwnedChange>::new(), &tip).unwrap();
}

/// What the consumer in Python has: the block that it handled last, and its coins.
fn table(folder: &Path) -> (Option<String>, BTreeMap<(String, u64), Coin>) {
    let mut asked = Command::new("python3");
    let out = asked.args(["-c", QUERY]).current_dir(folder).output().unwrap().stdout;
    let found: Value = serde_json::from_slice(&out).unwrap();
    let coins = found[1].as_array().unwrap().iter().map(coin).collect();
    (found[0][0].as_str().map(ToOwned::to_owned), coins)
}

/// Killed at any moment, and so are its feed and the writer, the table is the set.
#[test]
fn a_table_in_sqlite_has_the_coins_whoever_is_killed() {
    if !is_installed("python3") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 8);
    let mut follower = place.follow();
    place.wait_for_data();
    let mut random = Rng::new(29);
    let mut consumer = begin_in_python(&folder);
    let (mut consumers, mut feeds, mut followers) = (0, 0, 0);
    // Each takes as long as several of the test with a consumer in memory.
    for _ in 0..steps().div_ceil(3) {
        node.step();
        std::thread::sleep(Duration::from_millis(random.below(80) as u64));
        match random.below(4) {
            0 => {
                consumers += 1;
                drop(consumer);
                consumer = begin_in_python(&folder);
            }
            1 => {
                feeds += 1;
                kill_children(consumer.0.id());
            }
            2 => {
                followers += 1;
                drop(follower);
                follower = place.follow();
            }
            _ => {}
        }
        let end = Instant::now() + PATIENCE;
        let coins = loop {
            // It ends with its feed.
            if consumer.0.try_wait().unwrap().is_some() {
                consumer = begin_in_python(&folder);
            }
            assert!(Instant::now() < end, "the consumer does not come to {}", node.hash());
            if let (Some(handled), coins) = table(&folder)
                && handled == node.hash()
            {
                break coins;
            }
        };
        assert!(coins == set_of(&place.data).0, "the coins differ at {}", node.hash());
    }
    eprintln!("killed: the consumer {consumers} times, its feed {feeds}, follow {followers}");
    assert!(consumers > 0 && feeds > 0 && followers > 0);
    assert_eq!(stop(follower), Some(0));
}

#[test]
fn the_consumer_in_shell_works() {
    if !is_installed("jq") {
        return;
    }
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 8);
    (0..20).for_each(|_| node.mine());
    let follower = place.follow();
    place.wait_for_data();
    // The chain of the document is longer.
    let program = code_of_document("sh", "# A line").replace("--from 840000", "--from 110");
    let mut running = begin(&scratch.join(""), "sh", &["-c", &program], Stdio::piped());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("connected 111 "), "{first}");
    assert_eq!(stop(follower), Some(0));
}

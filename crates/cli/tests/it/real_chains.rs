//! Real chains from genesis: the answers are those of Bitcoin Core.

use crate::common::{
    RECORD_HEAD, Rng, Run, Scratch, blockmill, check_seconds, connect, records, run, shared_data, stats,
    without_vectors,
};
use blockmill_block::Network;
use serde_json::Value;
use std::path::Path;

const SECONDS_MAX: f64 = 20.0;

/// Blocks in two weeks of work.
const TWO_WEEKS: u32 = 2_016;

struct Chain {
    file: &'static str,
    network: Network,
    height: u32,
    transactions: u64,
    inputs: u64,
    tip: &'static str,
    txouts: u64,
    hash_serialized_3: &'static str,
    muhash: &'static str,
}

const MAINNET: Chain = Chain {
    file: "mainnet_0_14131.dat",
    network: Network::Bitcoin,
    height: 14_131,
    transactions: 14_247,
    inputs: 865,
    tip: "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
    txouts: 13_416,
    hash_serialized_3: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
    muhash: "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
};

const TESTNET3: Chain = Chain {
    file: "testnet3_0_4000.dat",
    network: Network::Testnet3,
    height: 4_000,
    transactions: 4_942,
    inputs: 1_919,
    tip: "00000000185b36fa6e406626a722793bea80531515e0b2a99ff05b73738901f1",
    txouts: 4_197,
    hash_serialized_3: "d47a6ca2d786f0db1f8ce4bb8d56d5b26778c8dff317f62036e56b9d7ea0e82c",
    muhash: "6a155d607dccdf17321178f9598283ca7d2b05cc7fa64f8cc4293f2533ff7124",
};

const STAGES: [&str; 7] = ["read", "decode", "fetch", "resolve", "check", "commit", "flush"];

/// A number of seconds that is not negative.
#[track_caller]
fn seconds(value: &Value) -> f64 {
    let seconds = value.as_f64().unwrap_or_else(|| panic!("no number: {value}"));
    assert!(seconds >= 0.0, "{seconds}");
    seconds
}

fn check_connect(chain: &Chain, connected: &Run) {
    check_seconds(connected.seconds, SECONDS_MAX);
    let json = connected.json();
    assert_eq!(json["network"], chain.network.name());
    assert_eq!(json["tip"], chain.tip);
    assert_eq!(json["height"], chain.height);
    // The first block is not connected: its output cannot be spent.
    assert_eq!(json["blocks"], chain.height);
    assert_eq!(json["transactions"], chain.transactions - 1);
    assert_eq!(json["inputs"], chain.inputs);
    assert_eq!(json["rejected"], Value::Array(vec![]));
    let stages = json["stages"].as_object().expect("an object of stages");
    assert_eq!(stages.len(), STAGES.len());
    for stage in STAGES {
        seconds(&stages[stage]["busy_s"]);
        seconds(&stages[stage]["wait_s"]);
    }
    assert!(seconds(&stages["check"]["busy_s"]) > 0.0, "no scripts were run");
    assert!(seconds(&json["seconds"]) > 0.0 && seconds(&json["cpu_seconds"]) > 0.0);
    let cache = json["cache"].as_object().expect("an object about the cache");
    let figure = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("cache: no {name}"));
    assert!(figure("hits") + figure("misses") >= chain.inputs);
    assert!(figure("coins") > 0 && figure("bytes") > 0);
}

fn check_stats(chain: &Chain, data: &Path) {
    let start = std::time::Instant::now();
    let figures = stats(data);
    check_seconds(start.elapsed().as_secs_f64(), SECONDS_MAX);
    assert_eq!(figures["height"], chain.height);
    assert_eq!(figures["bestblock"], chain.tip);
    assert_eq!(figures["txouts"], chain.txouts);
    assert_eq!(figures["hash_serialized_3"], chain.hash_serialized_3);
    assert_eq!(figures["muhash"], chain.muhash);
    // In both chains every coinbase takes the whole subsidy, 50 BTC, and all fees.
    assert_eq!(figures["total_amount"], f64::from(chain.height) * 50.0);
    let figure = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("no {name}: {figures}"));
    assert!(figure("transactions") > 0 && figure("transactions") <= chain.txouts);
    // 50 bytes a coin, and its script.
    assert!(figure("bogosize") > 50 * chain.txouts);
    assert!(figure("disk_size") > 0);
    let keys = figures.as_object().unwrap().len();
    // The index in memory.
    assert!(keys == 10 && figure("store_memory") > 0, "{figures}");
}

fn check_chain(chain: &Chain) {
    let Some(chains) = shared_data("chains") else { return };
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let connected = run(&mut connect(&chains.join(chain.file), &data, chain.network.name())).ends_with(0);
    check_connect(chain, &connected);
    let json = connected.json();
    // Magic and length of each record and the whole record of the first block do not count.
    let file = std::fs::read(chains.join(chain.file)).unwrap();
    let records = records(&file);
    assert_eq!(
        json["bytes"],
        file.len() - records[0].len() - RECORD_HEAD * (records.len() - 1)
    );
    check_stats(chain, &data);
    // Without --json the same figures stand in a table.
    let table = run(blockmill().arg("stats").arg("--data").arg(&data)).ends_with(0);
    for text in [chain.hash_serialized_3, chain.muhash, chain.tip] {
        assert!(table.stdout.contains(text), "{table:#?}");
    }
}

#[test]
fn mainnet() {
    check_chain(&MAINNET);
}

#[test]
fn testnet3() {
    check_chain(&TESTNET3);
}

/// How many signatures of a chain were verified in lanes, and how many by libsecp256k1, after the
/// same figures as ever.
fn verified(chain: &Chain, more: &[&str], vectors: bool) -> (u64, u64) {
    let Some(chains) = shared_data("chains") else {
        return (0, 0);
    };
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let mut command = connect(&chains.join(chain.file), &data, chain.network.name());
    if !vectors {
        without_vectors(&mut command);
    }
    let connected = run(command.args(more)).ends_with(0);
    check_connect(chain, &connected);
    check_stats(chain, &data);
    let counts = &connected.json()["signatures"];
    // What could not be told, or was decided in an ordinary run, is not much.
    assert!(counts["cannot_tell"].as_u64() <= Some(chain.inputs / 100), "{counts}");
    (counts["lanes"].as_u64().unwrap(), counts["kernel"].as_u64().unwrap())
}

#[test]
fn each_way_to_verify_signatures() {
    if shared_data("chains").is_none() {
        return;
    }
    for chain in [MAINNET, TESTNET3] {
        // Every input of the first years has a signature, but for a few.
        let most = chain.inputs * 9 / 10;
        for threads in ["1", "2"] {
            let verified = |way: &str, vectors| verified(&chain, &["--par", threads, "--signatures", way], vectors);
            let (in_lanes, by_kernel) = verified("one-by-one", true);
            assert!(in_lanes == 0 && by_kernel > most, "{in_lanes} {by_kernel}");
            for vectors in [true, false] {
                let (in_lanes, by_kernel) = verified("lanes", vectors);
                assert!(
                    in_lanes > most && by_kernel < chain.inputs / 10,
                    "{in_lanes} {by_kernel}"
                );
            }
            // The last two weeks of the chain are left to libsecp256k1.
            let (in_lanes, by_kernel) = verified("auto", false);
            assert!(
                in_lanes > chain.inputs / 4 && in_lanes + by_kernel > most,
                "{in_lanes} {by_kernel}"
            );
        }
    }
}

/// Without being asked to, the command verifies in lanes what is old.
#[test]
fn old_blocks_of_mainnet_are_verified_in_lanes() {
    let Some(chains) = shared_data("chains") else { return };
    let scratch = Scratch::new();
    let said = |name: &str, vectors: bool| {
        let mut command = blockmill();
        command.args(["connect", "-v", "--network", MAINNET.network.name(), "--blocks"]);
        command
            .arg(chains.join(MAINNET.file))
            .arg("--data")
            .arg(scratch.join(name));
        if !vectors {
            without_vectors(&mut command);
        }
        run(&mut command).ends_with(0).stdout
    };
    let height = MAINNET.height;
    let (last, first) = (height - TWO_WEEKS - 1, height - TWO_WEEKS);
    let text = format!(
        "lanes for heights 1 to {last}, libsecp256k1 for {first} to {height} (less than two weeks of work above)"
    );
    for (name, vectors) in [("with", true), ("without", false)] {
        let said = said(name, vectors);
        assert!(said.contains(&text), "{said}");
    }
}

/// Bytes of padding at the end of a file.
const PADDING: usize = 100_003;

/// Writes the blocks of a chain to a directory as Core might have them: several files, in any
/// order, some blocks twice, zeros at the end of each file, obfuscated if there is a key.
fn scatter(chain: &[u8], directory: &Path, key: Option<[u8; 8]>, seed: u64) {
    let mut dice = Rng::new(seed);
    let mut records = records(chain);
    for _ in 0..records.len() / 20 {
        records.push(records[dice.below(records.len())].clone());
    }
    dice.shuffle(&mut records);
    std::fs::create_dir(directory).unwrap();
    let per_file = records.len().div_ceil(4);
    for (number, records) in records.chunks(per_file).enumerate() {
        let mut file: Vec<u8> = records
            .iter()
            .flat_map(|record| &chain[record.clone()])
            .copied()
            .collect();
        // Zeros that were written as data in every other file, zeros that were only allocated in
        // the others.
        if number % 2 == 0 {
            file.resize(file.len() + PADDING, 0);
        }
        let key = key.unwrap_or_default();
        for (at, byte) in file.iter_mut().enumerate() {
            *byte ^= key[at % key.len()];
        }
        if number % 2 == 1 {
            file.resize(file.len() + PADDING, 0);
        }
        std::fs::write(directory.join(format!("blk{:05}.dat", number * 3)), file).unwrap();
    }
    if let Some(key) = key {
        std::fs::write(directory.join("xor.dat"), key).unwrap();
    }
}

fn check_scattered(chain: &Chain, key: Option<[u8; 8]>, seed: u64) {
    let Some(chains) = shared_data("chains") else { return };
    let scratch = Scratch::new();
    let (blocks, data) = (scratch.join("blocks"), scratch.join("data"));
    scatter(&std::fs::read(chains.join(chain.file)).unwrap(), &blocks, key, seed);
    let connected = run(&mut connect(&blocks, &data, chain.network.name())).ends_with(0);
    check_connect(chain, &connected);
    check_stats(chain, &data);
}

#[test]
fn scattered_files_without_a_key() {
    check_scattered(&TESTNET3, None, 1);
}

#[test]
fn scattered_files_with_a_key_of_zeros() {
    check_scattered(&TESTNET3, Some([0; 8]), 2);
}

#[test]
fn scattered_and_obfuscated_files() {
    check_scattered(&TESTNET3, Some([0x9d, 0x03, 0xfe, 0x51, 0x00, 0xc2, 0x77, 0x1a]), 3);
    check_scattered(&MAINNET, Some([1, 2, 3, 4, 5, 6, 7, 8]), 4);
}

#[test]
fn a_key_of_the_wrong_length_is_refused() {
    let Some(chains) = shared_data("chains") else { return };
    let scratch = Scratch::new();
    let (blocks, data) = (scratch.join("blocks"), scratch.join("data"));
    scatter(&std::fs::read(chains.join(TESTNET3.file)).unwrap(), &blocks, None, 5);
    let key = blocks.join("xor.dat");
    std::fs::write(&key, [7; 7]).unwrap();
    run(&mut connect(&blocks, &data, "testnet3"))
        .ends_with(3)
        .says(&[key.to_str().unwrap()]);
}

//! Beside a real node with an index of figures, `-coinstatsindex`.

use super::{odd_blocks, statistics};
use crate::common::lying::LyingChain;
use crate::common::{Scratch, connect, record, run, shared_data};
use crate::follow::bitcoind::program;
use crate::follow::bitcoind::rpc::Bitcoind;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest that a test waits for a node.
const PATIENCE: Duration = Duration::from_secs(300);

/// Columns that `gettxoutsetinfo` has under the same names, those of amounts apart.
const NUMBERS: [&str; 4] = ["height", "txouts", "bogosize", "muhash"];

/// Columns of `getblockstats`.
const OF_BLOCK: [&str; 13] = [
    "txs",
    "ins",
    "outs",
    "subsidy",
    "totalfee",
    "medianfee",
    "minfee",
    "maxfee",
    "total_size",
    "total_weight",
    "swtxs",
    "utxo_increase",
    "height",
];

fn satoshi(bitcoins: &Value) -> Value {
    let bitcoins = bitcoins.as_f64().unwrap_or_else(|| panic!("no amount: {bitcoins}"));
    json!((bitcoins * 1e8).round() as i64)
}

/// Compares the figures of all blocks with those of a node.
pub(crate) fn compare_statistics(node: &Bitcoind, source: &[&str]) {
    let rows = statistics(source, &[]);
    assert_eq!(rows.len(), node.height() + 1);
    for row in rows {
        let height = &row["height"];
        let info = node.call("gettxoutsetinfo", json!(["muhash", height]));
        assert_eq!(row["block_hash"], info["bestblock"], "height {height}");
        for name in NUMBERS {
            assert_eq!(row[name], info[name], "{name}, height {height}");
        }
        for name in ["total_amount", "total_unspendable_amount"] {
            assert_eq!(row[name], satoshi(&info[name]), "{name}, height {height}");
        }
        let mut amounts = info["block_info"].as_object().unwrap().clone();
        let unspendables = amounts.remove("unspendables").unwrap();
        amounts.extend(unspendables.as_object().unwrap().clone());
        assert_eq!(amounts.len(), 8, "{amounts:?}");
        for (name, bitcoins) in amounts {
            assert_eq!(row[&name], satoshi(&bitcoins), "{name}, height {height}");
        }
        let of_block = node.call("getblockstats", json!([height]));
        for name in OF_BLOCK {
            assert_eq!(row[name], of_block[name], "{name}, height {height}");
        }
        for (number, name) in ["p10", "p25", "p50", "p75", "p90"].iter().enumerate() {
            let (own, node) = (
                &row[format!("feerate_{name}")],
                &of_block["feerate_percentiles"][number],
            );
            assert_eq!(own, node, "{name}, height {height}");
        }
        // The node counts those that stay.
        let grown = row["coins_made"].as_i64().unwrap() - row["coins_spent"].as_i64().unwrap();
        assert_eq!(json!(grown), of_block["utxo_increase_actual"], "height {height}");
    }
}

/// Gives a node a file of blocks, and compares all figures. Skipped without a node.
fn beside_a_node(file: &[u8], folder: &str, chain: &str, network: &str, height: usize) {
    let Some(program) = program() else {
        return;
    };
    let scratch = Scratch::new();
    let (node_folder, data) = (scratch.folder("node"), scratch.join("data"));
    let blocks = node_folder.join(folder).join("blocks");
    std::fs::create_dir_all(&blocks).unwrap();
    std::fs::write(blocks.join("blk00000.dat"), file).unwrap();
    let own = scratch.write("blk00000.dat", file);
    let node = Bitcoind::of_chain(&program, &node_folder, chain);
    let start = Instant::now();
    let is_synced = || node.call("getindexinfo", json!([]))["coinstatsindex"]["synced"] == true;
    while node.height() < height || !is_synced() {
        assert!(start.elapsed() < PATIENCE, "the node is at height {}", node.height());
        std::thread::sleep(Duration::from_millis(200));
    }
    run(&mut connect(&own, &data, network)).ends_with(0);
    compare_statistics(&node, &["--data", data.to_str().unwrap()]);
    // Its own files, with its own undo data.
    let of_node = ["--network", network, "--blocks", blocks.to_str().unwrap()];
    assert!(statistics(&of_node, &[]) == statistics(&["--data", data.to_str().unwrap()], &[]));
}

#[test]
fn figures_are_those_of_a_node_of_a_real_chain() {
    let Some(path) = shared_data("chains/testnet3_0_4000.dat") else {
        return;
    };
    beside_a_node(
        &std::fs::read(Path::new(&path)).unwrap(),
        "testnet3",
        "test",
        "testnet3",
        4_000,
    );
}

#[test]
fn figures_of_odd_blocks_are_those_of_a_node() {
    let blocks = odd_blocks();
    let file = blocks
        .iter()
        .flat_map(|block| record(LyingChain::magic(), &bitcoin::consensus::serialize(block)));
    beside_a_node(
        &file.collect::<Vec<u8>>(),
        "regtest",
        "regtest",
        "regtest",
        blocks.len() - 1,
    );
}

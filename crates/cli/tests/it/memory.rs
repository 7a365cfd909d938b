//! A chain whose coins outgrow the cache many times: anonymous memory stays within the promise
//! of the engine, whatever allocator and threads do.
//!
//! By default the chain has a quarter of the blocks and `--dbcache` a quarter of its usual size.

use crate::common::{Scratch, connect, generate_command, manifest, peak_memory, run};
use blockmill_engine::Plan;

/// A chain, and how it is connected.
struct Case {
    blocks: u32,
    coins: u64,
    inputs: u64,
    dbcache_mib: u64,
}

/// 29 million outputs, 23 million coins left: three times what the cache holds.
const WHOLE: Case = Case {
    blocks: 1_200,
    coins: 40_000_000,
    inputs: 6_000_000,
    dbcache_mib: 450,
};

const QUARTER: Case = Case {
    blocks: 300,
    coins: 10_000_000,
    inputs: 1_500_000,
    dbcache_mib: 112,
};

/// The store has an index in memory.
const INDEX_BYTES_PER_COIN: u64 = 10;

#[test]
fn memory_is_bounded_where_coins_outgrow_the_cache() {
    let case = if std::env::var_os("BLOCKMILL_TEST_MEMORY").is_some_and(|size| size == "whole") {
        WHOLE
    } else {
        eprintln!("short: a quarter of the chain; BLOCKMILL_TEST_MEMORY=whole takes all of it");
        QUARTER
    };
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    let mut generate = generate_command(&out, "utxo", case.blocks);
    generate.args(["--seed", "7", "--coins", &case.coins.to_string()]);
    run(generate.args(["--inputs", &case.inputs.to_string()])).ends_with(0);
    let coins = manifest(&out)["coins"].as_u64().unwrap();
    let data = scratch.join("data");
    let mut connect = connect(&out, &data, "regtest");
    connect.args(["--par", "2", "--dbcache", &case.dbcache_mib.to_string()]);
    let peak = peak_memory(&mut connect);
    let cache_bytes = (case.dbcache_mib << 20) as usize;
    let limit = Plan::promised_bytes(cache_bytes) as u64 + coins * INDEX_BYTES_PER_COIN;
    eprintln!("{} MiB at the most, {} allowed", peak >> 20, limit >> 20);
    assert!(peak <= limit, "{} MiB, {} allowed", peak >> 20, limit >> 20);
    // The cache was full, or this shows nothing.
    assert!(peak > case.dbcache_mib << 20, "{} MiB", peak >> 20);
}

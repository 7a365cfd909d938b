//! Rules of headers.

use super::scenario::{Scenario, orphan_of};
use bitcoin::block::Version;
use bitcoin::{Block, CompactTarget, Transaction, TxMerkleNode, hashes::Hash};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds that a block may be ahead of the clock.
const AHEAD_MAX: u32 = 2 * 60 * 60;

/// Seconds by which the test stays away from that limit, since the clock goes on.
const MARGIN: u32 = 300;

/// A block that an edit of the header has spoilt and that is mined again.
fn edited(scenario: &Scenario, edit: impl FnOnce(&mut bitcoin::block::Header)) -> Block {
    scenario.next().header(edit).build()
}

/// The same block under a hash above its target.
fn without_work(mut block: Block) -> Block {
    while block.header.target().is_met_by(block.block_hash()) {
        block.header.nonce += 1;
    }
    block
}

fn coinbase_without_height(coinbase: &mut Transaction) {
    coinbase.input[0].script_sig = vec![0, 0].into();
}

pub(crate) fn describe(scenario: &mut Scenario) {
    scenario.refused("high-hash", "no work", &without_work(scenario.next().build()));
    for (name, bits) in [
        ("negative target", 0x2080_0001),
        ("no target", 0x2000_0000),
        ("target above the limit", 0x2100_ffff),
        ("target above 256 bits", 0x23ff_ffff),
    ] {
        let bits = CompactTarget::from_consensus(bits);
        let block = edited(scenario, |header| header.bits = bits);
        scenario.refused("high-hash", name, &block);
    }
    for bits in [0x207f_fffe, 0x1f00_ffff] {
        let bits = CompactTarget::from_consensus(bits);
        let block = edited(scenario, |header| header.bits = bits);
        scenario.refused("bad-diffbits", "a harder target", &block);
    }
    for version in [-1, 0, 1, 2, 3] {
        let block = edited(scenario, |header| header.version = Version::from_consensus(version));
        let reason = match version {
            -1 => "bad-version(0xffffffff)",
            0 => "bad-version(0x00000000)",
            1 => "bad-version(0x00000001)",
            2 => "bad-version(0x00000002)",
            _ => "bad-version(0x00000003)",
        };
        scenario.refused(reason, "an old version", &block);
    }
    let version_4 = edited(scenario, |header| header.version = Version::from_consensus(4));
    scenario.good("version 4", version_4);
    let median = scenario.chain.median_time_past();
    let old = edited(scenario, |header| header.time = median);
    scenario.refused("time-too-old", "the median time", &old);
    describe_order(scenario);
    scenario.orphan("the parent is unknown", &orphan_of(&scenario.chain));
    let just_later = edited(scenario, |header| header.time = median + 1);
    scenario.good("a second after the median time", just_later);
    scenario.good("goes on", scenario.next().build());
}

/// Blocks that break two rules: the one that Core comes to first is named.
fn describe_order(scenario: &mut Scenario) {
    let median = scenario.chain.median_time_past();
    let harder = CompactTarget::from_consensus(0x207f_fffe);
    let bits_and_time = edited(scenario, |header| {
        header.bits = harder;
        header.time = median;
    });
    scenario.refused("bad-diffbits", "bits and time", &bits_and_time);
    let time_and_version = edited(scenario, |header| {
        header.time = median;
        header.version = Version::from_consensus(1);
    });
    scenario.refused("time-too-old", "time and version", &time_and_version);
    let old_version = |header: &mut bitcoin::block::Header| {
        header.version = Version::from_consensus(1);
    };
    let version_and_height = scenario
        .next()
        .coinbase(coinbase_without_height)
        .header(old_version)
        .build();
    scenario.refused("bad-version(0x00000001)", "version and height", &version_and_height);
    // A block is looked at by itself before its header is looked at among others.
    let root_and_version = edited(scenario, |header| {
        header.merkle_root = TxMerkleNode::all_zeros();
        header.version = Version::from_consensus(1);
    });
    scenario.refused("bad-txnmrklroot", "root and version", &root_and_version);
    let mut orphan = orphan_of(&scenario.chain);
    orphan = without_work(orphan);
    scenario.refused("high-hash", "work and parent", &orphan);
}

pub(crate) fn describe_future(scenario: &mut Scenario) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    // The test fails if the scenario takes longer than the margin.
    let late = edited(scenario, |header| header.time = now + AHEAD_MAX + MARGIN);
    scenario.refused("time-too-new", "too far ahead", &late);
    let ahead = edited(scenario, |header| header.time = now + AHEAD_MAX);
    scenario.good("two hours ahead", ahead);
}

//! Rules of a block by itself: its merkle root and its size.

use super::scenario::Scenario;
use crate::common::{output_to, spend_into};
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{Block, OutPoint, ScriptBuf, TxMerkleNode};
use blockmill_chaingen::builder::{mine, spend_any};

/// Bytes that a block may have without witnesses.
const SIZE_MAX: usize = 1_000_000;

pub(crate) fn describe(scenario: &mut Scenario) {
    let other_root = TxMerkleNode::from_byte_array([7; 32]);
    let block = scenario.next().header(|header| header.merkle_root = other_root).build();
    scenario.refused("bad-txnmrklroot", "another root", &block);
    describe_mutations(scenario);
    let mut empty = scenario.next().build();
    empty.txdata.clear();
    empty.header.merkle_root = TxMerkleNode::all_zeros();
    mine(&mut empty.header);
    scenario.refused("bad-blk-length", "no transaction", &empty);
    let coin = scenario.coin();
    let block = sized(scenario, coin, SIZE_MAX + 1);
    scenario.refused("bad-blk-length", "one byte too many", &block);
    let block = sized(scenario, coin, SIZE_MAX);
    scenario.good("the largest block", block);
    let bytes = serialize(&scenario.next().build());
    scenario.malformed("cut off", bytes[..bytes.len() - 1].to_vec());
    scenario.malformed("a header alone", bytes[..80].to_vec());
    scenario.malformed("nothing", Vec::new());
    scenario.good("goes on", scenario.next().build());
}

/// Bodies that are not those of their headers, each followed by the one that is.
fn describe_mutations(scenario: &mut Scenario) {
    let coins: Vec<_> = (0..5).map(|_| scenario.coin()).collect();
    let spends = coins.iter().map(|&coin| spend_any(coin, 1));
    let block = spends
        .clone()
        .take(1)
        .fold(scenario.next(), |block, spend| block.transaction(spend));
    let good = block.build();
    let mut other = good.clone();
    other.txdata[1].output[0].value = bitcoin::Amount::from_sat(2);
    scenario.refused("bad-txnmrklroot", "another transaction", &other);
    let mut shorter = good.clone();
    shorter.txdata.pop();
    scenario.refused("bad-txnmrklroot", "a transaction is missing", &shorter);
    scenario.good("the right body", good);
    // CVE-2012-2459: with an odd number on a level, the last ones doubled give the same root.
    for count in [1, 3] {
        let spends = coins[1..].iter().take(count).map(|&coin| spend_any(coin, 1));
        let good = spends
            .fold(scenario.next(), |block, spend| block.transaction(spend))
            .build();
        if count == 1 {
            // Two leaves: nothing can be doubled without a trace.
            let mut doubled = good.clone();
            doubled.txdata.push(doubled.txdata[1].clone());
            scenario.refused("bad-txnmrklroot", "two leaves", &doubled);
            continue;
        }
        let mut odd = good.clone();
        odd.txdata.pop();
        odd.header.merkle_root = odd.compute_merkle_root().unwrap();
        mine(&mut odd.header);
        let mut doubled = odd.clone();
        doubled.txdata.push(doubled.txdata[2].clone());
        assert_eq!(doubled.compute_merkle_root().unwrap(), odd.header.merkle_root);
        scenario.refused("bad-txns-duplicate", "the third of three doubled", &doubled);
        scenario.good("three transactions", odd);
    }
    let spends = coins[3..].iter().map(|&coin| spend_any(coin, 1));
    let mut six = spends
        .fold(scenario.next(), |block, spend| block.transaction(spend))
        .build();
    // A chain of spends fills the block up to six.
    for _ in 0..3 {
        let last = six.txdata.last().unwrap();
        six.txdata.push(spend_any(crate::common::outpoint(last, 0), 1));
    }
    assert_eq!(six.txdata.len(), 6);
    six.header.merkle_root = six.compute_merkle_root().unwrap();
    mine(&mut six.header);
    let mut doubled = six.clone();
    doubled.txdata.extend_from_slice(&six.txdata[4..]);
    assert_eq!(doubled.compute_merkle_root().unwrap(), six.header.merkle_root);
    scenario.refused("bad-txns-duplicate", "the last two of six doubled", &doubled);
    scenario.good("six transactions", six);
}

/// A block of exactly this many bytes, filled with scripts that nobody can spend.
fn sized(scenario: &Scenario, coin: OutPoint, size: usize) -> Block {
    let with = |length: usize| {
        let filler = ScriptBuf::from_bytes(vec![0x6a; length]);
        let transaction = spend_into(coin, vec![output_to(0, filler)]);
        scenario.next().transaction(transaction).build()
    };
    let length = 900_000;
    let block = with(length + size - with(length).total_size());
    assert_eq!(block.total_size(), size);
    block
}

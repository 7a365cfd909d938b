//! The witness commitment, and the weight of a block.

use super::scenario::Scenario;
use bitcoin::{Block, OutPoint, ScriptBuf, Transaction, Witness};
use blockmill_chaingen::builder::{mine, repair, spend_any};

const NONCE_SIZE: &str = "bad-witness-nonce-size";
const MERKLE_MATCH: &str = "bad-witness-merkle-match";
const UNEXPECTED: &str = "unexpected-witness";

/// Weight that a block may have.
const WEIGHT_MAX: u64 = 4_000_000;

/// A witness program of a version that has no rules yet: any witness spends it.
fn program() -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x60, 2, 7, 7])
}

fn spend_with_witness(coin: OutPoint, items: &[&[u8]]) -> Transaction {
    let mut transaction = spend_any(coin, 1);
    transaction.input[0].witness = Witness::from_slice(items);
    transaction
}

/// The same block, with another witness in its coinbase; neither root nor hash change.
fn with_reserved(block: &Block, items: &[&[u8]]) -> Block {
    let mut block = block.clone();
    block.txdata[0].input[0].witness = Witness::from_slice(items);
    block
}

pub(crate) fn describe(scenario: &mut Scenario) {
    let coins = scenario.coins_to(&program(), 5, 10);
    let good = scenario
        .next()
        .transaction(spend_with_witness(coins[0], &[&[1, 2, 3]]))
        .build();
    for (name, items) in [
        ("no reserved value", &[][..]),
        ("31 bytes", &[&[0; 31][..]]),
        ("33 bytes", &[&[0; 33]]),
        ("two values", &[&[0; 32], &[0; 32]]),
    ] {
        scenario.refused(NONCE_SIZE, name, &with_reserved(&good, items));
    }
    scenario.refused(
        MERKLE_MATCH,
        "another reserved value",
        &with_reserved(&good, &[&[1; 32]]),
    );
    let mut other = good.clone();
    other.txdata[1].input[0].witness = Witness::from_slice(&[&[1, 2, 4]]);
    scenario.refused(MERKLE_MATCH, "another witness", &other);
    other.txdata[1].input[0].witness = Witness::new();
    scenario.refused(MERKLE_MATCH, "no witness", &other);
    // All of them had this header: none may stand in the way of the block that belongs to it.
    scenario.good("the witness that is committed to", good);
    let without = scenario.next().transaction(spend_with_witness(coins[1], &[])).build();
    let mut with = without.clone();
    with.txdata[1].input[0].witness = Witness::from_slice(&[&[5]]);
    assert_eq!(with.block_hash(), without.block_hash());
    scenario.refused(UNEXPECTED, "a witness without a commitment", &with);
    scenario.refused(
        UNEXPECTED,
        "a coinbase with a witness",
        &with_reserved(&without, &[&[0; 32]]),
    );
    scenario.good("the block without witnesses", without);
    describe_commitments(scenario, &coins[2..]);
}

/// Which output of the coinbase is the commitment.
fn describe_commitments(scenario: &mut Scenario, coins: &[OutPoint]) {
    let good = scenario
        .next()
        .transaction(spend_with_witness(coins[0], &[&[6]]))
        .build();
    let mut wrong_last = good.clone();
    let mut commitment = wrong_last.txdata[0].output[1].clone();
    let mut bytes = commitment.script_pubkey.to_bytes();
    bytes[20] ^= 1;
    commitment.script_pubkey = ScriptBuf::from_bytes(bytes);
    wrong_last.txdata[0].output.push(commitment.clone());
    wrong_last.header.merkle_root = wrong_last.compute_merkle_root().unwrap();
    mine(&mut wrong_last.header);
    scenario.refused(MERKLE_MATCH, "a wrong commitment after the right one", &wrong_last);
    // A script of 37 bytes is too short for one.
    let mut short = wrong_last.clone();
    let output = &mut short.txdata[0].output[2].script_pubkey;
    *output = ScriptBuf::from_bytes(output.as_bytes()[..37].to_vec());
    repair(&mut short);
    scenario.good("what is too short for a commitment", short);
    let mut right_last = scenario
        .next()
        .transaction(spend_with_witness(coins[1], &[&[6]]))
        .build();
    right_last.txdata[0].output.insert(0, commitment);
    repair(&mut right_last);
    scenario.good("the right commitment after a wrong one", right_last);
    // A commitment to nothing but transactions without witnesses.
    let mut empty = scenario
        .next()
        .transaction(spend_with_witness(coins[2], &[&[6]]))
        .build();
    empty.txdata.pop();
    repair(&mut empty);
    scenario.good("a commitment without witnesses", empty);
}

/// A block of exactly this weight.
fn weighing(scenario: &Scenario, coin: OutPoint, weight: u64) -> Block {
    let with = |length: usize| {
        let spend = spend_with_witness(coin, &[&vec![0; length]]);
        scenario.next().transaction(spend).build()
    };
    let length = 3_900_000;
    let missing = weight - with(length).weight().to_wu();
    let block = with(length + missing as usize);
    assert_eq!(block.weight().to_wu(), weight);
    block
}

pub(crate) fn describe_weight(scenario: &mut Scenario) {
    let coin = scenario.coins_to(&program(), 1, 10)[0];
    let block = weighing(scenario, coin, WEIGHT_MAX + 1);
    scenario.failed("bad-blk-weight", "one too many", &block);
    let block = weighing(scenario, coin, WEIGHT_MAX);
    scenario.good("the heaviest block", block);
    scenario.good("goes on", scenario.next().build());
}

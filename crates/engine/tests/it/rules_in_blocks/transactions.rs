//! Rules of transactions by themselves.

use super::scenario::Scenario;
use crate::common::{SUBSIDY, output, spend_into};
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{Block, OutPoint, Transaction, TxMerkleNode};
use blockmill_chaingen::builder::{mine, spend_any};

/// The most satoshi that there may be.
const MAX_MONEY: u64 = 2_100_000_000_000_000;

/// A transaction that spends several outpoints.
fn spend_all(coins: &[OutPoint], value: u64) -> Transaction {
    let mut transaction = spend_any(coins[0], value);
    transaction.input = coins.iter().map(|&coin| spend_any(coin, 0).input.remove(0)).collect();
    transaction
}

/// A block with a transaction that has neither inputs nor outputs. The `bitcoin` crate writes such
/// a transaction in a form that does not decode.
fn with_nothing(scenario: &Scenario) -> Vec<u8> {
    let Block { mut header, txdata } = scenario.next().build();
    let nothing = [2, 0, 0, 0, 0, 0, 9, 0, 0, 0];
    let leaves = [
        txdata[0].compute_txid().to_byte_array(),
        sha256d::Hash::hash(&nothing).to_byte_array(),
    ];
    header.merkle_root = TxMerkleNode::from_byte_array(sha256d::Hash::hash(&leaves.concat()).to_byte_array());
    mine(&mut header);
    [serialize(&header), vec![2], serialize(&txdata[0]), nothing.to_vec()].concat()
}

pub(crate) fn describe(scenario: &mut Scenario) {
    scenario.refused_bytes("bad-txns-vin-empty", "nothing at all", with_nothing(scenario));
    let coin = scenario.coin();
    let block = |transaction| scenario.next().transaction(transaction).build();
    let no_output = block(spend_into(coin, Vec::new()));
    let negative = block(spend_any(coin, u64::MAX));
    let most_negative = block(spend_any(coin, 1 << 63));
    let too_large = block(spend_any(coin, MAX_MONEY + 1));
    let largest = block(spend_any(coin, MAX_MONEY));
    let total_too_large = block(spend_into(coin, vec![output(MAX_MONEY), output(1)]));
    let largest_total = block(spend_into(coin, vec![output(MAX_MONEY - 1), output(1)]));
    // The first output that breaks a rule decides.
    let total_first = block(spend_into(coin, vec![output(MAX_MONEY), output(1), output(u64::MAX)]));
    scenario.refused("bad-txns-vout-empty", "no output", &no_output);
    scenario.refused("bad-txns-vout-negative", "-1 satoshi", &negative);
    scenario.refused("bad-txns-vout-negative", "the lowest number", &most_negative);
    scenario.refused("bad-txns-vout-toolarge", "more than all money", &too_large);
    scenario.rejected("bad-txns-in-belowout", 1, "all money", &largest);
    scenario.refused(
        "bad-txns-txouttotal-toolarge",
        "more than all money together",
        &total_too_large,
    );
    scenario.rejected("bad-txns-in-belowout", 1, "all money together", &largest_total);
    scenario.refused("bad-txns-txouttotal-toolarge", "total before negative", &total_first);
    describe_inputs(scenario);
}

fn describe_inputs(scenario: &mut Scenario) {
    // Few inputs and many inputs are compared in different ways.
    for count in [2, 3, 8, 9, 12] {
        let coins: Vec<_> = (0..count - 1).map(|_| scenario.chain.coinbase(30 + count)).collect();
        let mut coins: Vec<OutPoint> = coins
            .into_iter()
            .enumerate()
            .map(|(vout, coin)| OutPoint {
                vout: vout as u32,
                ..coin
            })
            .collect();
        coins.push(coins[0]);
        let block = scenario.next().transaction(spend_all(&coins, 1)).build();
        scenario.refused("bad-txns-inputs-duplicate", format!("{count} inputs"), &block);
    }
    let coin = scenario.coin();
    for coins in [[coin, OutPoint::null()], [OutPoint::null(), coin]] {
        let block = scenario.next().transaction(spend_all(&coins, 1)).build();
        scenario.refused("bad-txns-prevout-null", "a null outpoint", &block);
    }
    // Null is the id of zeros together with the last index.
    for nearly in [
        OutPoint {
            vout: 0,
            ..OutPoint::null()
        },
        OutPoint { vout: u32::MAX, ..coin },
    ] {
        let block = scenario.next().transaction(spend_all(&[coin, nearly], 1)).build();
        scenario.rejected_at("bad-txns-inputs-missingorspent", (1, 1), "nearly null", &block);
    }
    let other = scenario.coin();
    let both = spend_all(&[coin, other], 2 * SUBSIDY);
    scenario.good("two inputs", scenario.next().transaction(both).build());
}

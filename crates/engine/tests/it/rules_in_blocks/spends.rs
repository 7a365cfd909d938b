//! Rules among coins: they are there, mature, and worth enough.

use super::scenario::Scenario;
use crate::common::{SUBSIDY, outpoint, output, output_to, spend_into};
use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid};
use blockmill_chaingen::builder::spend_any;

const MISSING: &str = "bad-txns-inputs-missingorspent";
const PREMATURE: &str = "bad-txns-premature-spend-of-coinbase";

/// A transaction with a second input.
fn with_input(mut transaction: Transaction, coin: OutPoint) -> Transaction {
    transaction.input.push(spend_any(coin, 0).input.remove(0));
    transaction
}

pub(crate) fn describe(scenario: &mut Scenario) {
    describe_missing(scenario);
    describe_in_block(scenario);
    describe_maturity(scenario);
    describe_amounts(scenario);
}

fn describe_missing(scenario: &mut Scenario) {
    let coin = scenario.coin();
    let nowhere = OutPoint {
        txid: Txid::from_byte_array([9; 32]),
        vout: 0,
    };
    let beyond = OutPoint { vout: 1, ..coin };
    for (name, missing) in [
        ("a coin that never was", nowhere),
        ("an output that is not there", beyond),
    ] {
        let block = scenario.next().transaction(spend_any(missing, 1)).build();
        scenario.rejected_at(MISSING, (1, 0), name, &block);
        let block = scenario
            .next()
            .transaction(with_input(spend_any(coin, 1), missing))
            .build();
        scenario.rejected_at(MISSING, (1, 1), name, &block);
    }
    let genesis = outpoint(&scenario.chain.blocks[0].txdata[0], 0);
    let block = scenario.next().transaction(spend_any(genesis, 1)).build();
    scenario.rejected_at(MISSING, (1, 0), "the coin of the first block", &block);
    let return_output = output_to(5, ScriptBuf::from_bytes(vec![0x6a]));
    let long_output = output_to(5, ScriptBuf::from_bytes(vec![0x51; 10_001]));
    let longest_output = output_to(5, ScriptBuf::from_bytes([vec![0x61; 200], vec![0x51]].concat()));
    let unspendable = spend_into(coin, vec![return_output, long_output, longest_output]);
    let block = scenario.next().transaction(unspendable.clone()).build();
    scenario.good("outputs that never enter the set", block);
    for vout in [0, 1] {
        let block = scenario
            .next()
            .transaction(spend_any(outpoint(&unspendable, vout), 1))
            .build();
        scenario.rejected_at(MISSING, (1, 0), "an output that never entered the set", &block);
    }
    let block = scenario
        .next()
        .transaction(spend_any(outpoint(&unspendable, 2), 1))
        .build();
    scenario.good("the output beside them", block);
    let block = scenario.next().transaction(spend_any(coin, 1)).build();
    scenario.rejected_at(MISSING, (1, 0), "a coin that an earlier block spent", &block);
}

fn describe_in_block(scenario: &mut Scenario) {
    let coin = scenario.coin();
    let first = spend_any(coin, 10);
    let second = spend_any(outpoint(&first, 0), 9);
    let block = |transactions: [&Transaction; 2]| {
        let [one, two] = transactions.map(Clone::clone);
        scenario.next().transaction(one).transaction(two).build()
    };
    let double = block([&first, &spend_any(coin, 9)]);
    let double_of_own = scenario
        .next()
        .transaction(first.clone())
        .transaction(second.clone())
        .transaction(spend_any(outpoint(&first, 0), 8))
        .build();
    let backwards = block([&second, &first]);
    let own_coinbase = outpoint(&scenario.next().build().txdata[0], 0);
    let spends_coinbase = scenario.next().transaction(spend_any(own_coinbase, 1)).build();
    let in_order = block([&first, &second]);
    scenario.rejected_at(MISSING, (2, 0), "a coin spent twice", &double);
    scenario.rejected_at(MISSING, (3, 0), "a coin of the block spent twice", &double_of_own);
    scenario.rejected_at(MISSING, (1, 0), "a coin spent before it is made", &backwards);
    scenario.rejected_at(PREMATURE, (1, 0), "the block's own coinbase", &spends_coinbase);
    scenario.good("a coin made and spent", in_order);
}

fn describe_maturity(scenario: &mut Scenario) {
    let height = scenario.chain.height() + 1;
    let young = scenario.chain.coinbase(height - 99);
    let mature = scenario.chain.coinbase(height - 100);
    let block = scenario.next().transaction(spend_any(young, 1)).build();
    scenario.rejected_at(PREMATURE, (1, 0), "99 confirmations", &block);
    let block = scenario
        .next()
        .transaction(with_input(spend_any(mature, 1), young))
        .build();
    scenario.rejected_at(PREMATURE, (1, 1), "100 and 99 confirmations", &block);
    // Core looks for all coins of a transaction before it asks for their age.
    let gone = OutPoint { vout: 3, ..mature };
    let block = scenario
        .next()
        .transaction(with_input(spend_any(young, 1), gone))
        .build();
    scenario.rejected_at(MISSING, (1, 1), "too young and missing", &block);
    let block = scenario.next().transaction(spend_any(mature, 1)).build();
    scenario.good("100 confirmations", block);
}

fn describe_amounts(scenario: &mut Scenario) {
    let (coin, other) = (scenario.coin(), scenario.coin());
    let reason = "bad-txns-in-belowout";
    let block = scenario.next().transaction(spend_any(coin, SUBSIDY + 1)).build();
    scenario.rejected(reason, 1, "a satoshi too much", &block);
    let outputs = vec![output(SUBSIDY), output(SUBSIDY), output(1)];
    let block = scenario
        .next()
        .transaction(with_input(spend_into(coin, outputs), other))
        .build();
    scenario.rejected(reason, 1, "a satoshi too much of two", &block);
    // The fee of one transaction does not pay for another.
    let block = scenario
        .next()
        .transaction(spend_any(coin, 1))
        .transaction(spend_any(other, SUBSIDY + 1))
        .build();
    scenario.rejected(reason, 2, "a satoshi too much in the second", &block);
    let outputs = vec![output(SUBSIDY), output(0), output(SUBSIDY)];
    let block = scenario
        .next()
        .transaction(with_input(spend_into(coin, outputs), other))
        .build();
    scenario.good("all there is", block);
}

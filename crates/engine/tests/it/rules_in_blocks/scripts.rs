//! Scripts, and that every other rule comes before them.

use super::scenario::Scenario;
use crate::common::{SUBSIDY, outpoint, output, spend_failing, spend_into, spend_locked};
use bitcoin::{OutPoint, ScriptBuf, Transaction};
use blockmill_chaingen::builder::{any_script, spend_any};

const REASON: &str = "block-script-verify-flag-failed";

/// OP_RETURN, as the script of an input.
fn failing() -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x6a])
}

/// A transaction that spends these coins, and fails at some of them.
fn spend_many(coins: &[OutPoint], failing_inputs: &[usize]) -> Transaction {
    let mut transaction = spend_any(coins[0], 1);
    transaction.input = coins.iter().map(|&coin| spend_any(coin, 0).input.remove(0)).collect();
    for &input in failing_inputs {
        transaction.input[input].script_sig = failing();
    }
    transaction
}

pub(crate) fn describe(scenario: &mut Scenario) {
    let truth = any_script();
    for (name, script) in [
        ("OP_FALSE", ScriptBuf::from_bytes(vec![0])),
        ("an empty stack", ScriptBuf::from_bytes(vec![0x51, 0x75])),
        ("a bad opcode", ScriptBuf::from_bytes(vec![0xff])),
        ("a push that is cut off", ScriptBuf::from_bytes(vec![0x51, 5])),
        ("nothing for a hash", truth.to_p2sh()),
        ("nothing for a witness program", truth.to_p2wsh()),
    ] {
        let coin = scenario.coins_to(&script, 1, 10)[0];
        let block = scenario.next().transaction(spend_any(coin, 1)).build();
        scenario.rejected_at(REASON, (1, 0), name, &block);
    }
    let own = spend_into(
        scenario.coin(),
        vec![crate::common::output_to(5, ScriptBuf::from_bytes(vec![0]))],
    );
    let block = scenario
        .next()
        .transaction(own.clone())
        .transaction(spend_any(outpoint(&own, 0), 1))
        .build();
    scenario.rejected_at(REASON, (2, 0), "a coin of the same block", &block);
    describe_lowest(scenario);
}

/// Several inputs fail: the lowest is named.
fn describe_lowest(scenario: &mut Scenario) {
    const EACH: usize = 40;
    let coins = scenario.coins_to(&any_script(), 3 * EACH as u32, 10);
    let [first, second, third] = [0, 1, 2].map(|part| &coins[part * EACH..(part + 1) * EACH]);
    let block = |one: &[usize], two: &[usize], three: &[usize]| {
        scenario
            .next()
            .transaction(spend_many(first, one))
            .transaction(spend_many(second, two))
            .transaction(spend_many(third, three))
            .build()
    };
    let cases = [
        ((1, 0), block(&[0, 39], &[], &[])),
        ((1, 39), block(&[39], &[0], &[])),
        ((2, 17), block(&[], &[17, 30], &[0])),
        ((2, 8), block(&[], &[8, 9, 10, 11, 12, 13, 14, 15, 16], &[1, 2, 3])),
        ((3, 39), block(&[], &[], &[39])),
    ];
    let good = block(&[], &[], &[]);
    for (blamed, block) in cases {
        scenario.rejected_at(REASON, blamed, "inputs that fail", &block);
    }
    scenario.good("no input fails", good);
}

/// Blocks whose first script fails, and that break another rule further on.
pub(crate) fn describe_order(scenario: &mut Scenario) {
    let (bad, coin, other) = (scenario.coin(), scenario.coin(), scenario.coin());
    let missing = OutPoint { vout: 7, ..coin };
    let young = scenario.chain.coinbase(scenario.chain.height() - 50);
    let start = || scenario.next().transaction(spend_failing(bad, SUBSIDY));
    let operations = ScriptBuf::from_bytes(vec![0xac; 20_000]);
    let witness_script = ScriptBuf::from_bytes(vec![0x00, 0x63, 0xac, 0x68, 0x51]);
    let pays = spend_into(other, vec![crate::common::output_to(9, witness_script.to_p2wsh())]);
    let mut one_operation = spend_any(outpoint(&pays, 0), 1);
    one_operation.input[0].witness.push(witness_script.as_bytes());
    let sigops = start()
        .transaction(spend_into(coin, vec![crate::common::output_to(1, operations)]))
        .transaction(pays)
        .transaction(one_operation)
        .build();
    let amount = start().fees(1).build();
    let amount_of_fees = start().transaction(spend_any(coin, SUBSIDY - 9)).fees(10).build();
    let below = start().transaction(spend_any(coin, SUBSIDY + 1)).build();
    let locked = start()
        .transaction(spend_locked(young_fan_out(scenario), 1, 50))
        .build();
    let missing = start().transaction(spend_any(missing, 1)).build();
    let premature = start().transaction(spend_any(young, 1)).build();
    let height = start()
        .coinbase(|coinbase| coinbase.input[0].script_sig = vec![0, 0].into())
        .build();
    let empty = start().transaction(spend_into(coin, Vec::new())).build();
    let alone = start().transaction(spend_into(coin, vec![output(SUBSIDY)])).build();
    scenario.rejected("bad-cb-amount", 0, "amount", &amount);
    scenario.rejected("bad-cb-amount", 0, "amount with fees", &amount_of_fees);
    scenario.rejected("bad-blk-sigops", 4, "signature operations", &sigops);
    scenario.rejected("bad-txns-in-belowout", 2, "more out than in", &below);
    scenario.rejected("bad-txns-nonfinal", 2, "sequence lock", &locked);
    scenario.rejected_at("bad-txns-inputs-missingorspent", (2, 0), "missing", &missing);
    scenario.rejected_at("bad-txns-premature-spend-of-coinbase", (2, 0), "too young", &premature);
    scenario.failed("bad-cb-height", "height", &height);
    scenario.refused("bad-txns-vout-empty", "no output", &empty);
    scenario.rejected_at(REASON, (1, 0), "the script alone", &alone);
    let good = scenario.next().transaction(spend_any(bad, SUBSIDY)).build();
    scenario.good("nothing fails", good);
}

/// A coin that the last block made.
fn young_fan_out(scenario: &Scenario) -> OutPoint {
    let fan_out = &scenario.chain.tip().txdata[1];
    outpoint(fan_out, 0)
}

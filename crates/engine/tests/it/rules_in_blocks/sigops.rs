//! The cost of signature operations in a block.

use super::scenario::Scenario;
use crate::common::{output_to, spend_into};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{Block, OutPoint, ScriptBuf, Transaction};
use blockmill_chaingen::builder::spend_any;

const REASON: &str = "bad-blk-sigops";

/// Number of OP_CHECKSIG that reach the limit of a block, at a cost of four each.
const CHECKSIGS_MAX: usize = 20_000;

/// A script that succeeds and counts `operations` signature operations, none of which is run.
fn idle(operations: usize) -> ScriptBuf {
    let checks = vec![0xac; operations];
    ScriptBuf::from_bytes([&[0x00, 0x63][..], &checks, &[0x68, 0x51]].concat())
}

/// A transaction with `operations` signature operations in the script of its output.
fn with_operations(coin: OutPoint, operations: usize) -> Transaction {
    let script = ScriptBuf::from_bytes(vec![0xac; operations]);
    spend_into(coin, vec![output_to(1, script)])
}

fn spend_witness_script(coin: OutPoint, script: &ScriptBuf) -> Transaction {
    let mut transaction = spend_any(coin, 1);
    transaction.input[0].witness.push(script.as_bytes());
    transaction
}

fn spend_script_hash(coin: OutPoint, script: &ScriptBuf) -> Transaction {
    let mut transaction = spend_any(coin, 1);
    let push = PushBytesBuf::try_from(script.to_bytes()).unwrap();
    transaction.input[0].script_sig = Builder::new().push_slice(push).into_script();
    transaction
}

pub(crate) fn describe(scenario: &mut Scenario) {
    let coins = [4, 5].map(|operations| scenario.coins_to(&idle(operations).to_p2wsh(), 1, 10)[0]);
    let hashed = [2, 3].map(|operations| scenario.coins_to(&idle(operations).to_p2sh(), 1, 10)[0]);
    let block = |scenario: &mut Scenario, operations: usize, more: Option<Transaction>| -> Block {
        let coin = scenario.chain.coinbase(35);
        let block = scenario.next().transaction(with_operations(coin, operations));
        more.into_iter()
            .fold(block, |block, spend| block.transaction(spend))
            .build()
    };
    let too_many = block(scenario, CHECKSIGS_MAX + 1, None);
    scenario.refused(REASON, "20,001 operations", &too_many);
    // Multisig without a number before it counts twenty keys.
    let script = ScriptBuf::from_bytes(vec![0xae; CHECKSIGS_MAX / 20 + 1]);
    let multisigs = spend_into(scenario.chain.coinbase(36), vec![output_to(1, script)]);
    scenario.refused(
        REASON,
        "1,001 multisigs",
        &scenario.next().transaction(multisigs).build(),
    );
    let five = spend_witness_script(coins[1], &idle(5));
    let over = block(scenario, CHECKSIGS_MAX - 1, Some(five));
    scenario.rejected(REASON, 2, "80,001 with witness scripts", &over);
    let three = spend_script_hash(hashed[1], &idle(3));
    let over = block(scenario, CHECKSIGS_MAX - 2, Some(three));
    scenario.rejected(REASON, 2, "80,004 with script hashes", &over);
    // The verdict names the transaction that exceeds the limit, not the one with the most
    // operations.
    let four = spend_witness_script(coins[0], &idle(4));
    let over = scenario
        .next()
        .transaction(four.clone())
        .transaction(spend_witness_script(coins[1], &idle(5)))
        .transaction(with_operations(scenario.chain.coinbase(35), CHECKSIGS_MAX - 2))
        .build();
    scenario.rejected(REASON, 3, "80,001 at the last transaction", &over);
    let exact = block(scenario, CHECKSIGS_MAX - 1, Some(four));
    scenario.good("80,000 with witness scripts", exact);
    let coin = scenario.chain.coinbase(34);
    let two = spend_script_hash(hashed[0], &idle(2));
    let exact = scenario
        .next()
        .transaction(with_operations(coin, CHECKSIGS_MAX - 2))
        .transaction(two)
        .build();
    scenario.good("80,000 with script hashes", exact);
    let coin = scenario.chain.coinbase(33);
    let exact = scenario
        .next()
        .transaction(with_operations(coin, CHECKSIGS_MAX))
        .build();
    scenario.good("20,000 operations", exact);
}

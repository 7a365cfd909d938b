//! Rules of the coinbase.

use super::scenario::Scenario;
use crate::common::{SUBSIDY, outpoint, spend_into};
use bitcoin::script::Builder;
use bitcoin::{Amount, ScriptBuf, Transaction};
use blockmill_chaingen::builder::{repair, spend_any};

/// Satoshi that the coinbase of heights 150 to 299 may take.
const SUBSIDY_HALVED: u64 = SUBSIDY / 2;

fn with_script(script: ScriptBuf) -> impl FnOnce(&mut Transaction) {
    move |coinbase| coinbase.input[0].script_sig = script
}

/// The height, then zeros up to `length` bytes.
fn script_of_length(height: u32, length: usize) -> ScriptBuf {
    let mut bytes = Builder::new().push_int(height.into()).into_bytes();
    assert!(bytes.len() <= length);
    bytes.resize(length, 0);
    ScriptBuf::from_bytes(bytes)
}

pub(crate) fn describe(scenario: &mut Scenario) {
    let coin = scenario.coin();
    let mut block = scenario.next().transaction(spend_any(coin, 1)).build();
    block.txdata.remove(0);
    repair(&mut block);
    scenario.refused("bad-cb-missing", "a spend comes first", &block);
    let mut block = scenario.next().transaction(spend_any(coin, 1)).build();
    block.txdata.swap(0, 1);
    repair(&mut block);
    scenario.refused("bad-cb-missing", "the coinbase comes second", &block);
    let second = scenario.next().fees(1).build().txdata[0].clone();
    let block = scenario.next().transaction(second).build();
    scenario.refused("bad-cb-multiple", "two coinbases", &block);
    let height = scenario.chain.height() + 1;
    for (reason, length) in [("bad-cb-length", 101), ("bad-cb-length", 1), ("bad-cb-length", 0)] {
        let script = ScriptBuf::from_bytes(vec![0; length]);
        let block = scenario.next().coinbase(with_script(script)).build();
        scenario.refused(reason, format!("{length} bytes"), &block);
    }
    let script = script_of_length(height, 101);
    scenario.refused(
        "bad-cb-length",
        "the height and more than 100 bytes",
        &scenario.next().coinbase(with_script(script)).build(),
    );
    describe_height(scenario);
    let height = scenario.chain.height() + 1;
    let block = scenario
        .next()
        .coinbase(with_script(script_of_length(height, 100)))
        .build();
    scenario.good("100 bytes", block);
    describe_amount(scenario);
}

fn describe_height(scenario: &mut Scenario) {
    let height = scenario.chain.height() + 1;
    assert!((0x80..0xff).contains(&height));
    let low = height as u8;
    for (name, script) in [
        ("the height before", script_of_length(height - 1, 5)),
        ("the height after", script_of_length(height + 1, 5)),
        ("the height without its sign byte", vec![1, low, 0, 0].into()),
        ("the height with a byte too many", vec![3, low, 0, 0, 0].into()),
        ("the height after something else", vec![0, 2, low, 0].into()),
        ("the height in a longer push", vec![0x4c, 2, low, 0].into()),
    ] {
        let block = scenario.next().coinbase(with_script(script)).build();
        scenario.failed("bad-cb-height", name, &block);
    }
    let exact = script_of_length(height, 3);
    scenario.good("the height alone", scenario.next().coinbase(with_script(exact)).build());
}

fn describe_amount(scenario: &mut Scenario) {
    while scenario.chain.height() < 148 {
        scenario.good("on to the halving", scenario.next().build());
    }
    scenario.rejected(
        "bad-cb-amount",
        0,
        "the last full subsidy and 1",
        &scenario.next().fees(1).build(),
    );
    scenario.good("the last full subsidy", scenario.next().build());
    let whole = |coinbase: &mut Transaction| coinbase.output[0].value = Amount::from_sat(SUBSIDY_HALVED + 1);
    let block = scenario.next().coinbase(whole).build();
    scenario.rejected("bad-cb-amount", 0, "half the subsidy and 1", &block);
    let exact = |coinbase: &mut Transaction| coinbase.output[0].value = Amount::from_sat(SUBSIDY_HALVED);
    scenario.good("half the subsidy", scenario.next().coinbase(exact).build());
    let first = spend_any(scenario.coin(), SUBSIDY - 30);
    let second = spend_any(outpoint(&first, 0), SUBSIDY - 42);
    let block = || scenario.next().transaction(first.clone()).transaction(second.clone());
    let (greedy, exact) = (block().fees(43).build(), block().fees(42).build());
    scenario.rejected("bad-cb-amount", 0, "the fees and 1", &greedy);
    scenario.good("the fees", exact);
    // What is too much may also stand in another output.
    let more = |coinbase: &mut Transaction| {
        let mut output = coinbase.output[0].clone();
        output.value = Amount::from_sat(1);
        coinbase.output.push(output);
    };
    let block = scenario.next().coinbase(more).build();
    scenario.rejected("bad-cb-amount", 0, "a second output of 1", &block);
    let fee = spend_into(scenario.coin(), vec![crate::common::output(SUBSIDY - 5)]);
    let block = scenario.next().transaction(fee).fees(4).build();
    scenario.good("less than the fees", block);
}

/// At heights whose number takes two bytes of script.
pub(crate) fn describe_short(scenario: &mut Scenario) {
    let height = scenario.chain.height() + 1;
    let one = ScriptBuf::from_bytes(vec![1]);
    scenario.refused(
        "bad-cb-length",
        "1 byte",
        &scenario.next().coinbase(with_script(one)).build(),
    );
    let two = script_of_length(height, 2);
    scenario.good("2 bytes", scenario.next().coinbase(with_script(two)).build());
}

//! Lock times and sequence locks.

use super::scenario::Scenario;
use crate::common::{SUBSIDY, outpoint, spend_locked};
use bitcoin::{OutPoint, Sequence, Transaction, absolute, transaction};
use blockmill_chaingen::builder::{any_script, spend_any};

const NONFINAL: &str = "bad-txns-nonfinal";

/// A bit of a sequence number: the lock counts units of 512 seconds.
const BY_TIME: u32 = 1 << 22;
/// A bit of a sequence number: there is no lock.
const DISABLED: u32 = 1 << 31;

/// A spend under a lock time, with a sequence number that lets it hold or not.
fn locked_until(coin: OutPoint, lock_time: u32, holds: bool) -> Transaction {
    let mut transaction = spend_any(coin, SUBSIDY);
    transaction.lock_time = absolute::LockTime::from_consensus(lock_time);
    transaction.input[0].sequence = if holds { Sequence(u32::MAX - 1) } else { Sequence::MAX };
    transaction
}

pub(crate) fn describe(scenario: &mut Scenario) {
    describe_lock_times(scenario);
    describe_locks_by_height(scenario);
    describe_locks_by_time(scenario);
}

fn describe_lock_times(scenario: &mut Scenario) {
    let coins = [scenario.coin(), scenario.coin()];
    let height = scenario.chain.height() + 1;
    let block = scenario
        .next()
        .transaction(locked_until(coins[0], height, true))
        .build();
    scenario.failed(NONFINAL, "locked until this height", &block);
    let block = scenario
        .next()
        .transaction(locked_until(coins[0], height - 1, true))
        .build();
    scenario.good("locked until the height before", block);
    let median = scenario.chain.median_time_past();
    let block = scenario
        .next()
        .transaction(locked_until(coins[1], median, true))
        .build();
    scenario.failed(NONFINAL, "locked until the median time", &block);
    let block = scenario
        .next()
        .transaction(locked_until(coins[1], median - 1, true))
        .build();
    scenario.good("locked until the second before", block);
    let coin = scenario.coin();
    let block = scenario.next().transaction(locked_until(coin, u32::MAX, false)).build();
    scenario.good("a lock that its sequence numbers switch off", block);
    let late = scenario.next().coinbase(|coinbase| {
        coinbase.lock_time = absolute::LockTime::from_consensus(height + 10);
        coinbase.input[0].sequence = Sequence(0);
    });
    scenario.failed(NONFINAL, "a coinbase under a lock", &late.build());
}

fn describe_locks_by_height(scenario: &mut Scenario) {
    const BLOCKS: u32 = 10;
    let coins = scenario.coins_to(&any_script(), 4, 1_000);
    let made_at = scenario.chain.height();
    // A lock of 0 blocks opens at once, and so does a coin of the same block; one of 1 block does
    // not.
    let parent = spend_any(scenario.coin(), 100);
    let own = |sequence| {
        let child = spend_locked(outpoint(&parent, 0), 100, sequence);
        scenario.next().transaction(parent.clone()).transaction(child).build()
    };
    let (closed, open) = (own(1), own(0));
    scenario.rejected(NONFINAL, 2, "1 block, in the same block", &closed);
    scenario.good("0 blocks, in the same block", open);
    while scenario.chain.height() + 1 < made_at + BLOCKS - 1 {
        scenario.good("goes on", scenario.next().build());
    }
    let block = |transaction| scenario.next().transaction(transaction).build();
    let closed = block(spend_locked(coins[0], 1_000, BLOCKS));
    // Bits beyond the mask and the two that mean something do not count.
    let masked = block(spend_locked(coins[0], 1_000, 0x003f_0000 | BLOCKS));
    let disabled = block(spend_locked(coins[1], 1_000, DISABLED | BLOCKS));
    scenario.rejected(NONFINAL, 1, "9 of 10 blocks", &closed);
    scenario.rejected(NONFINAL, 1, "9 of 10 blocks, with other bits", &masked);
    let mut old_version = spend_locked(coins[2], 1_000, BLOCKS + 1);
    old_version.version = transaction::Version::ONE;
    scenario.good("9 of 10 blocks, without a lock", disabled);
    // A second input under a longer lock.
    let mut both = spend_locked(coins[0], 2_000, BLOCKS);
    both.input.push(spend_locked(coins[3], 0, BLOCKS + 1).input.remove(0));
    let block = scenario.next().transaction(both.clone()).build();
    scenario.rejected(NONFINAL, 1, "10 of 10 and 10 of 11 blocks", &block);
    both.input[1].sequence = Sequence(BLOCKS);
    let block = scenario.next().transaction(both).transaction(old_version).build();
    scenario.good("10 of 10 blocks, and version 1", block);
}

fn describe_locks_by_time(scenario: &mut Scenario) {
    const UNITS: u32 = 8;
    // Six blocks at least with the same distance, so that the median time is that of the sixth last
    // block.
    for _ in 0..12 {
        scenario.good("goes on", scenario.next().build());
    }
    // The time counts from the median time before the block that makes the coin.
    let from = scenario.chain.median_time_past();
    let coins = scenario.coins_to(&any_script(), 1, 1_000);
    let open_at = from + UNITS * 512;
    for time in [open_at - 1, open_at] {
        let block = scenario.next().header(|header| header.time = time).build();
        scenario.good("a time of its own", block);
    }
    while scenario.chain.median_time_past() < open_at - 1 {
        scenario.good("goes on", scenario.next().build());
    }
    assert_eq!(scenario.chain.median_time_past(), open_at - 1);
    let block = |units| {
        let spend = spend_locked(coins[0], 1_000, BY_TIME | units);
        scenario.next().transaction(spend).build()
    };
    let closed = block(UNITS);
    scenario.rejected(NONFINAL, 1, "a second too early", &closed);
    scenario.good("goes on", scenario.next().build());
    assert_eq!(scenario.chain.median_time_past(), open_at);
    let block = |units| {
        let spend = spend_locked(coins[0], 1_000, BY_TIME | units);
        scenario.next().transaction(spend).build()
    };
    let (longer, open) = (block(UNITS + 1), block(UNITS));
    scenario.rejected(NONFINAL, 1, "a unit too early", &longer);
    scenario.good("at the second", open);
}

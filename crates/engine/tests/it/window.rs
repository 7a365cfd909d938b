//! A bad block at each position among the blocks in flight. The report names the earliest bad
//! block, and the set is that of the chain before it, for any number of threads.

use super::options;
use crate::common::grower::{Grower, SPARE_COINBASE, spend_wrongly_signed};
use crate::common::{LARGE, Node, SUBSIDY, figures_of, hash_of, spend_failing, write_blocks};
use blockmill_block::BlockHash;
use blockmill_engine::Options;
use std::time::Duration;

/// Blocks before the branch.
const TRUNK: u32 = 112;

/// More blocks than have rounds at once.
const LENGTH: u32 = 40;

/// A branch with two bad blocks. Block number `script_fails` has a script that fails. The coinbase
/// of block number `takes_too_much` takes a satoshi too much. Numbers count from 1, and 0 is none.
fn branch(trunk: &Grower, script_fails: u32, takes_too_much: u32) -> Grower {
    let mut grower = trunk.fork(3);
    for number in 1..=LENGTH {
        let mut block = grower.next();
        if number == script_fails {
            let spare = grower.chain.coinbase(SPARE_COINBASE);
            // In turns a script that fails by itself, and one whose signature is wrong.
            block = if number % 2 == 0 {
                block.transaction(spend_failing(spare, SUBSIDY))
            } else {
                let [made, wrong] = spend_wrongly_signed(spare, SUBSIDY);
                block.transaction(made).transaction(wrong)
            };
        }
        if number == takes_too_much {
            block = block.fees(1);
        }
        let block = block.build();
        grower.chain.push(block);
    }
    grower
}

/// What a run says: the rejected block with the reason, and the tip.
type Outcome = (Vec<(BlockHash, String)>, BlockHash);

fn run(grower: &Grower, options: Options) -> (Outcome, Node) {
    let mut node = Node::new(options);
    let file = write_blocks(&node.file("blocks.dat"), &grower.chain.blocks);
    let report = node.connect(&[&file]);
    let rejected = report.rejected.iter();
    let rejected = rejected.map(|block| (block.hash, block.reject.reason.to_string()));
    ((rejected.collect(), report.tip), node)
}

fn check(trunk: &Grower, script_fails: u32, takes_too_much: u32, options: Options) {
    let grower = branch(trunk, script_fails, takes_too_much);
    let first = [script_fails, takes_too_much]
        .into_iter()
        .filter(|&number| number > 0)
        .min()
        .unwrap();
    let reason = if first == takes_too_much {
        // All rules that are not scripts come first.
        "bad-cb-amount"
    } else {
        "block-script-verify-flag-failed"
    };
    let culprit = &grower.chain.blocks[(TRUNK + first) as usize];
    let good = grower.chain.up_to(TRUNK + first - 1);
    let (outcome, node) = run(&grower, options);
    assert_eq!(
        outcome,
        (vec![(hash_of(culprit), reason.to_owned())], good.hash()),
        "{script_fails} {takes_too_much}"
    );
    assert_eq!(node.figures(), figures_of(&good));
    // What the store has is the same.
    assert_eq!(node.restart().figures(), figures_of(&good));
}

#[test]
fn a_bad_block_at_each_position_of_the_window() {
    let trunk = Grower::of(TRUNK);
    for number in 1..=LENGTH {
        let threads = [1, 2, 4][number as usize % 3];
        check(&trunk, number, 0, options(threads, LARGE));
        check(&trunk, 0, number, options(4 - threads / 2, LARGE));
    }
}

#[test]
fn of_two_bad_blocks_the_earlier_one_is_named() {
    let trunk = Grower::of(TRUNK);
    for (one, other) in [(1, 2), (3, 3), (5, 30), (20, 21), (31, 33), (39, 40)] {
        for threads in [1, 2, 5] {
            check(&trunk, one, other, options(threads, LARGE));
            check(&trunk, other, one, options(threads, LARGE));
        }
    }
}

#[test]
fn flushes_and_small_caches_change_nothing() {
    let trunk = Grower::of(TRUNK);
    for (script_fails, takes_too_much) in [(17, 0), (0, 17), (9, 12), (12, 9)] {
        for cache_bytes_max in [0, 1 << 20] {
            for flush_interval in [Duration::ZERO, Duration::from_micros(300), Duration::from_secs(60)] {
                let options = Options {
                    flush_interval,
                    ..options(3, cache_bytes_max)
                };
                check(&trunk, script_fails, takes_too_much, options);
            }
        }
    }
}

//! Reports are about their own run alone.

use crate::common::{Chain, LARGE, Node, SUBSIDY, options, spend_failing, submit, submit_good, write_blocks};
use bitcoin::Block;
use blockmill_engine::{RunOutcome, Verdict};

/// A block on a chain of more than a hundred blocks whose script fails. `value` makes it another
/// one.
fn bad_block(chain: &Chain, value: u64) -> Block {
    chain
        .next()
        .transaction(spend_failing(chain.coinbase(1), value))
        .build()
}

#[test]
fn a_second_run_reports_nothing_of_the_first() {
    let mut chain = Chain::of(110);
    let bad = bad_block(&chain, SUBSIDY);
    let mut node = Node::new(options(2, LARGE));
    let first = write_blocks(&node.file("first.dat"), chain.blocks.iter().chain([&bad]));
    let report = node.connect(&[&first]);
    assert_eq!(
        (report.rejected.len(), report.outcome()),
        (1, RunOutcome::Rejected),
        "{report:?}"
    );
    assert_eq!((report.totals.blocks, report.height), (110, 110));
    assert!(report.totals.queues.in_flight.max() > 0 && report.cache_coins_max > 0);
    let all_before = *node.engine.totals();

    chain.mine(5);
    let second = write_blocks(&node.file("second.dat"), &chain.blocks[111..]);
    let report = node.connect(&[&second]);
    assert_eq!(
        (report.rejected.len(), report.outcome()),
        (0, RunOutcome::Complete),
        "{report:?}"
    );
    assert_eq!(
        (report.start_height, report.height, report.tip),
        (110, 115, chain.hash())
    );
    let totals = report.totals;
    assert_eq!((totals.blocks, totals.inputs, totals.flushes), (5, 0, 1));
    assert_eq!(
        totals.bytes,
        chain.blocks[111..]
            .iter()
            .map(|block| block.total_size() as u64)
            .sum::<u64>()
    );
    assert!(totals.queues.in_flight.max() <= 5 && totals.queues.in_flight.mean() <= 5.0);
    let ranges = report.signatures.ranges();
    assert_eq!((ranges[0].first, ranges[ranges.len() - 1].last), (111, 115));
    let all = *node.engine.totals();
    assert_eq!(all.blocks, all_before.blocks + 5);
    assert!(all.queues.in_flight.max() >= all_before.queues.in_flight.max());

    let report = node.connect(&[]);
    assert_eq!((report.totals.blocks, report.totals.flushes), (0, 0));
    assert!(report.signatures.ranges().is_empty());
    assert_eq!(
        (
            report.totals.cache.hits,
            report.totals.cache.misses,
            report.cache_coins_max
        ),
        (0, 0, 0)
    );
}

#[test]
fn rejected_submissions_are_not_kept() {
    let mut chain = Chain::of(110);
    let mut node = Node::on(&chain, options(1, LARGE));
    for number in 0..20 {
        let submission = submit(&mut node.engine, &bad_block(&chain, SUBSIDY - number));
        assert_eq!(submission.verdict, Verdict::Invalid, "{submission:?}");
        assert_eq!(submission.reason.as_deref(), Some("block-script-verify-flag-failed"));
    }
    chain.mine(1);
    submit_good(&mut node.engine, chain.tip());
    let report = node.connect(&[]);
    assert_eq!(
        (report.rejected.len(), report.outcome()),
        (0, RunOutcome::Complete),
        "{report:?}"
    );
}

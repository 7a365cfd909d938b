//! Branches with an invalid block in their middle. The engine goes back to the best chain that
//! remains, names the invalid block, and refuses all blocks on top of it.

use super::options;
use crate::common::grower::{Grower, SPARE_COINBASE, spend_wrongly_signed};
use crate::common::{
    Chain, LARGE, Node, SUBSIDY, figures_of, hash_of, spend_failing, submit, submit_good, submit_side, write_blocks,
};
use bitcoin::Block;
use blockmill_block::BlockHash;
use blockmill_chaingen::builder::spend_any;
use blockmill_engine::{RunOutcome, Submission, Verdict};

/// Height at which the branches part.
const FORK: u32 = 112;

/// Blocks of the branch that is connected first.
const FIRST_LENGTH: u32 = 5;

/// What is wrong with a block.
#[derive(Clone, Copy)]
enum Fault {
    Script,
    Signature,
    Amount,
    BelowOut,
}

impl Fault {
    const ALL: [Self; 4] = [Self::Script, Self::Signature, Self::Amount, Self::BelowOut];

    fn reason(self) -> &'static str {
        match self {
            Self::Script | Self::Signature => "block-script-verify-flag-failed",
            Self::Amount => "bad-cb-amount",
            Self::BelowOut => "bad-txns-in-belowout",
        }
    }
}

/// A branch with one invalid block.
struct BadBranch {
    chain: Chain,
    /// The invalid block's number in the branch, counted from 1.
    bad_at: u32,
    reason: &'static str,
    /// The transaction and the input that are to blame, where there are such.
    blamed: (Option<usize>, Option<usize>),
}

impl BadBranch {
    /// A branch of `length` blocks with a fault in its block number `bad_at`.
    fn new(trunk: &Grower, length: u32, bad_at: u32, fault: Fault) -> Self {
        let reason = fault.reason();
        let mut grower = trunk.fork(3);
        let mut blamed = (None, None);
        for number in 1..=length {
            let mut block = grower.next();
            if number == bad_at {
                let spare = grower.chain.coinbase(SPARE_COINBASE);
                let transactions = block.clone().build().txdata.len();
                blamed = (Some(transactions), None);
                block = match fault {
                    Fault::Amount => {
                        blamed = (Some(0), None);
                        block.fees(1)
                    }
                    Fault::BelowOut => block.transaction(spend_any(spare, SUBSIDY + 1)),
                    Fault::Script => {
                        blamed = (Some(transactions), Some(0));
                        block.transaction(spend_failing(spare, SUBSIDY))
                    }
                    Fault::Signature => {
                        blamed = (Some(transactions + 1), Some(0));
                        let [made, wrong] = spend_wrongly_signed(spare, SUBSIDY);
                        block.transaction(made).transaction(wrong)
                    }
                };
            }
            let block = block.build();
            grower.chain.push(block);
        }
        Self {
            chain: grower.chain,
            bad_at,
            reason,
            blamed,
        }
    }

    fn blocks(&self) -> &[Block] {
        &self.chain.blocks[FORK as usize + 1..]
    }

    fn culprit(&self) -> &Block {
        &self.blocks()[self.bad_at as usize - 1]
    }

    /// The branch up to the last valid block.
    fn valid_part(&self) -> Chain {
        self.chain.up_to(FORK + self.bad_at - 1)
    }
}

fn first_branch() -> (Grower, Grower) {
    let trunk = Grower::of(FORK);
    let mut first = trunk.fork(1);
    first.grow(FIRST_LENGTH);
    (trunk, first)
}

fn check_refused(submission: &Submission, reason: &str, failed: Option<BlockHash>) {
    assert_eq!(submission.verdict, Verdict::Invalid, "{submission:?}");
    assert_eq!(submission.reason.as_deref(), Some(reason));
    assert_eq!(submission.failed, failed);
}

/// What the engine says of blocks in and on the branch once it is known to be invalid.
fn check_descendants(node: &mut Node, bad: &BadBranch) {
    let tip = node.engine.tip_hash();
    for block in &bad.blocks()[bad.bad_at as usize - 1..] {
        check_refused(&submit(&mut node.engine, block), "duplicate-invalid", None);
    }
    for height in FORK + bad.bad_at..=bad.chain.height() {
        let child = bad
            .chain
            .up_to(height)
            .next()
            .fees(0)
            .header(|header| header.time += 1)
            .build();
        check_refused(&submit(&mut node.engine, &child), "bad-prevblk", None);
    }
    for block in &bad.blocks()[..bad.bad_at as usize - 1] {
        assert_eq!(submit(&mut node.engine, block).verdict, Verdict::Duplicate);
    }
    assert_eq!(node.engine.tip_hash(), tip);
}

/// The first branch is submitted, too, or was connected from a file in an earlier run.
fn check_submit(trunk: &Grower, first: &Grower, bad: &BadBranch, (cache_bytes_max, is_connected): (usize, bool)) {
    let options = options(2, cache_bytes_max);
    let mut node = if is_connected {
        Node::on(&first.chain, options).restart()
    } else {
        let mut node = Node::on(&trunk.chain, options);
        for block in first.above(FORK) {
            submit_good(&mut node.engine, block);
        }
        node
    };
    let (last, side) = bad.blocks().split_last().unwrap();
    for block in side {
        submit_side(&mut node.engine, block);
    }
    let submission = submit(&mut node.engine, last);
    let failed = (bad.culprit() != last).then(|| hash_of(bad.culprit()));
    check_refused(&submission, bad.reason, failed);
    let disconnected = u64::from(FIRST_LENGTH + bad.bad_at - 1);
    assert_eq!(node.engine.totals().disconnected, disconnected);
    assert_eq!(node.figures(), figures_of(&first.chain));
    check_descendants(&mut node, bad);
    // The same after a restart, which judges the blocks that it kept anew.
    let mut node = node.restart();
    let report = node.connect(&[]);
    assert_eq!(
        (report.outcome(), report.tip),
        (RunOutcome::Rejected, first.chain.hash())
    );
    let rejected = &report.rejected[0];
    assert_eq!(
        (rejected.hash, rejected.height),
        (hash_of(bad.culprit()), FORK + bad.bad_at)
    );
    assert_eq!(rejected.reject.reason, bad.reason);
    assert_eq!((rejected.reject.transaction, rejected.reject.input), bad.blamed);
    assert_eq!(report.rejected.len(), 1);
    assert_eq!(node.figures(), figures_of(&first.chain));
    check_descendants(&mut node, bad);
    // The part of the branch that is valid may still win.
    let mut other = trunk.fork(3);
    other.grow(bad.bad_at - 1);
    assert_eq!(other.chain.hash(), bad.valid_part().hash());
    let mut other = other.fork(4);
    other.grow(FIRST_LENGTH + 2 - bad.bad_at);
    for block in other.above(FORK + bad.bad_at - 1) {
        submit(&mut node.engine, block);
    }
    assert_eq!(node.figures(), figures_of(&other.chain));
}

#[test]
fn a_branch_that_proves_invalid_is_left_by_submit() {
    let (trunk, first) = first_branch();
    for fault in Fault::ALL {
        for bad_at in [1, 3, FIRST_LENGTH, FIRST_LENGTH + 1] {
            let bad = BadBranch::new(&trunk, FIRST_LENGTH + 1, bad_at, fault);
            for way in [(0, false), (LARGE, false), (LARGE, true)] {
                check_submit(&trunk, &first, &bad, way);
            }
        }
    }
}

#[test]
fn a_branch_that_proves_invalid_is_left_by_connect() {
    let (trunk, first) = first_branch();
    for fault in Fault::ALL {
        // Up to here the branch has less work than the other one, then as much, then more.
        for bad_at in [1, FIRST_LENGTH, FIRST_LENGTH + 1, FIRST_LENGTH + 2, FIRST_LENGTH + 4] {
            let bad = BadBranch::new(&trunk, FIRST_LENGTH + 5, bad_at, fault);
            let expected = if bad_at - 1 > FIRST_LENGTH {
                bad.valid_part()
            } else {
                first.chain.clone()
            };
            for step_by_step in [true, false] {
                let mut node = Node::new(options(2, LARGE));
                let good = write_blocks(&node.file("good.dat"), &first.chain.blocks);
                let branch = write_blocks(&node.file("branch.dat"), bad.blocks());
                if step_by_step {
                    node.connect(&[&good]);
                    node = node.restart();
                }
                let report = node.connect(&[&good, &branch]);
                assert_eq!(report.outcome(), RunOutcome::Rejected);
                let [rejected] = &report.rejected[..] else {
                    panic!("{:?}", report.rejected);
                };
                assert_eq!(rejected.hash, hash_of(bad.culprit()));
                assert_eq!(rejected.reject.reason, bad.reason);
                assert_eq!((rejected.reject.transaction, rejected.reject.input), bad.blamed);
                assert_eq!(rejected.path, std::fs::canonicalize(&branch).unwrap());
                assert_eq!(report.tip, expected.hash());
                assert_eq!(node.figures(), figures_of(&expected));
            }
        }
    }
}

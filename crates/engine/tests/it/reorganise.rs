//! Reorganisations. On any way to a tip, the UTXO set is that of a fresh engine that connects the
//! same chain alone.

use super::options;
use crate::common::grower::Grower;
use crate::common::{LARGE, Node, figures_of, hash_of, submit, submit_good, submit_side, write_blocks};
use blockmill_block::BlockHash;
use blockmill_engine::report::Halt;
use blockmill_engine::{ConnectError, RunOutcome, Verdict};

/// Height at which the branches part: some coinbases are mature, so that coins are made and spent
/// before it.
const FORK: u32 = 112;

/// Two branches: A of `depth` blocks, B with one more, and A again with one more than that.
struct Branches {
    depth: u32,
    trunk: Grower,
    first: Grower,
    second: Grower,
    first_longer: Grower,
}

impl Branches {
    fn new(depth: u32) -> Self {
        let trunk = Grower::of(FORK);
        let mut first = trunk.fork(1);
        first.grow(depth);
        let mut second = trunk.fork(2);
        second.grow(depth + 1);
        let mut first_longer = first.clone();
        first_longer.grow(2);
        Self {
            depth,
            trunk,
            first,
            second,
            first_longer,
        }
    }
}

/// What happens to the engine between two branches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    Nothing,
    /// It is flushed, dropped and opened.
    Restart,
    /// It is dropped without a flush and opened.
    Crash,
}

impl Between {
    const ALL: [Self; 3] = [Self::Nothing, Self::Restart, Self::Crash];

    fn apply(self, mut node: Node) -> Node {
        match self {
            Self::Nothing => return node,
            Self::Restart => node.engine.flush().unwrap(),
            Self::Crash => {}
        }
        let tip = node.engine.tip_hash();
        let mut node = node.restart();
        if self == Self::Crash {
            assert_ne!(durable_tip(&node), Some(tip), "nothing was lost");
        }
        let report = node.connect(&[]);
        assert_eq!(report.outcome(), RunOutcome::Complete, "{report:?}");
        assert_eq!(node.engine.tip_hash(), tip);
        node
    }
}

/// The tip of the last flush.
fn durable_tip(node: &Node) -> Option<BlockHash> {
    node.engine.coins().store().tip().unwrap().map(|tip| tip.hash)
}

/// Submits both branches, A, B and the rest of A, and compares the set at every turn.
fn check_submit(branches: &Branches, cache_bytes_max: usize, between: Between) {
    let Branches { depth, .. } = *branches;
    let fork = FORK;
    let mut node = Node::on(&branches.trunk.chain, options(2, cache_bytes_max));
    for block in branches.first.above(fork) {
        submit_good(&mut node.engine, block);
    }
    assert_eq!(node.figures(), figures_of(&branches.first.chain));
    node = between.apply(node);
    let disconnected_before = node.engine.totals().disconnected;
    let (last, side) = branches.second.above(fork).split_last().unwrap();
    for block in side {
        submit_side(&mut node.engine, block);
    }
    assert_eq!(node.figures(), figures_of(&branches.first.chain));
    submit_good(&mut node.engine, last);
    assert_eq!(
        node.engine.totals().disconnected - disconnected_before,
        u64::from(depth)
    );
    assert_eq!(node.figures(), figures_of(&branches.second.chain));
    node = between.apply(node);
    let [side @ .., last] = branches.first_longer.above(fork + depth) else {
        panic!("two blocks");
    };
    for block in side {
        submit_side(&mut node.engine, block);
    }
    submit_good(&mut node.engine, last);
    assert_eq!(node.figures(), figures_of(&branches.first_longer.chain));
    let node = between.apply(node);
    assert_eq!(node.figures(), figures_of(&branches.first_longer.chain));
}

#[test]
fn there_and_back_by_submit() {
    for depth in [1, 5, 120] {
        let branches = Branches::new(depth);
        for between in Between::ALL {
            check_submit(&branches, LARGE, between);
        }
        // With no room for coins there is a flush after every block that is submitted.
        for between in [Between::Nothing, Between::Restart] {
            check_submit(&branches, 0, between);
        }
    }
}

/// The same branches in files. Each file is given when the engine is to switch to its branch.
fn check_connect(branches: &Branches, cache_bytes_max: usize, restart: bool) {
    let mut node = Node::new(options(2, cache_bytes_max));
    let trunk = write_blocks(&node.file("trunk.dat"), &branches.trunk.chain.blocks);
    let first = write_blocks(&node.file("first.dat"), branches.first.above(FORK));
    let second = write_blocks(&node.file("second.dat"), branches.second.above(FORK));
    let rest = branches.first_longer.above(FORK + branches.depth);
    let rest = write_blocks(&node.file("rest.dat"), rest);
    let files = [&*trunk, &first, &second, &rest];
    let chains = [
        (2, &branches.first.chain),
        (3, &branches.second.chain),
        (4, &branches.first_longer.chain),
    ];
    for (count, chain) in chains {
        let report = node.connect(&files[..count]);
        assert_eq!(
            (report.outcome(), report.halt),
            (RunOutcome::Complete, Halt::Finished),
            "{report:?}"
        );
        assert_eq!(report.tip, chain.hash());
        assert_eq!(node.figures(), figures_of(chain));
        if restart {
            node = node.restart();
        }
    }
    // All of it at once goes straight to the chain of most work.
    let mut node = Node::new(options(1, cache_bytes_max));
    let report = node.connect(&files);
    assert_eq!((report.tip, report.totals.disconnected), (chains[2].1.hash(), 0));
    assert_eq!(node.figures(), figures_of(chains[2].1));
}

#[test]
fn there_and_back_by_connect() {
    for depth in [1, 5, 120] {
        let branches = Branches::new(depth);
        for cache_bytes_max in [0, LARGE] {
            for restart in [false, true] {
                check_connect(&branches, cache_bytes_max, restart);
            }
        }
    }
}

#[test]
fn blocks_that_cannot_be_read_back_stop_a_reorganisation() {
    let branches = Branches::new(5);
    let mut node = Node::new(options(2, LARGE));
    let first = write_blocks(&node.file("first.dat"), &branches.first.chain.blocks);
    let second = write_blocks(&node.file("second.dat"), &branches.second.chain.blocks);
    node.connect(&[&first]);
    std::fs::remove_dir_all(node.file("data/kept")).unwrap();
    let mut node = node.restart();
    let away = node.file("away.dat");
    std::fs::rename(&first, &away).unwrap();
    // Without the first file there are no blocks to disconnect.
    let error = node.engine.connect(std::slice::from_ref(&second), &mut ()).unwrap_err();
    assert!(
        matches!(&error, ConnectError::CannotDisconnect { hash, height, .. }
            if *hash == branches.first.chain.hash() && *height == FORK + 5),
        "{error}"
    );
    let mut node = node.restart();
    assert_eq!(node.figures(), figures_of(&branches.first.chain));
    assert_eq!(node.connect(&[&away, &second]).outcome(), RunOutcome::Complete);
    assert_eq!(node.figures(), figures_of(&branches.second.chain));
}

/// Blocks that lie where an earlier run has found them need not be named again.
#[test]
fn blocks_of_an_earlier_run_are_read_back() {
    let branches = Branches::new(5);
    let connected = || {
        let mut node = Node::new(options(2, LARGE));
        let first = write_blocks(&node.file("first.dat"), &branches.first.chain.blocks);
        node.connect(&[&first]);
        node.restart()
    };
    let mut node = connected();
    let (last, side) = branches.second.above(FORK).split_last().unwrap();
    for block in side {
        submit_side(&mut node.engine, block);
    }
    submit_good(&mut node.engine, last);
    assert_eq!(node.figures(), figures_of(&branches.second.chain));
    let mut node = connected();
    // They are known, and need not be kept once more.
    for block in branches.first.chain.blocks[1..].iter() {
        assert_eq!(submit(&mut node.engine, block).verdict, Verdict::Duplicate);
    }
    assert!(!node.file("data").join("blocks").exists());
    let mut node = connected();
    let second = write_blocks(&node.file("second.dat"), &branches.second.chain.blocks);
    assert_eq!(node.connect(&[&second]).outcome(), RunOutcome::Complete);
    assert_eq!(node.figures(), figures_of(&branches.second.chain));
}

/// Submitting a block again, after a crash, brings the engine to where it was.
#[test]
fn blocks_submitted_again_after_a_crash() {
    let branches = Branches::new(5);
    let mut node = Node::on(&branches.trunk.chain, options(2, LARGE));
    for block in branches.first.above(FORK).iter().chain(branches.second.above(FORK)) {
        submit(&mut node.engine, block);
    }
    assert_eq!(node.engine.tip_hash(), branches.second.chain.hash());
    let mut node = node.restart();
    assert_eq!(durable_tip(&node), Some(branches.trunk.chain.hash()));
    for block in branches.first.above(FORK).iter().chain(branches.second.above(FORK)) {
        let submission = submit(&mut node.engine, block);
        assert_eq!(submission.verdict, Verdict::Duplicate);
    }
    assert_eq!(node.figures(), figures_of(&branches.second.chain));
}

#[test]
fn the_first_seen_wins_among_equals() {
    let branches = Branches::new(5);
    let first = &branches.first.chain;
    let mut node = Node::on(&branches.trunk.chain, options(1, LARGE));
    for block in branches.first.above(FORK) {
        submit_good(&mut node.engine, block);
    }
    let [equal @ .., longer] = branches.second.above(FORK) else {
        panic!("six blocks");
    };
    for block in equal {
        submit_side(&mut node.engine, block);
    }
    for between in [Between::Crash, Between::Restart] {
        node = between.apply(node);
        assert_eq!(node.connect(&[]).tip, first.hash());
        assert_eq!(node.figures(), figures_of(first));
    }
    submit_good(&mut node.engine, longer);
    // And the other way round: the branch that comes back with as much work does not win.
    submit_side(&mut node.engine, &branches.first_longer.above(FORK)[5]);
    let mut node = Between::Crash.apply(node);
    assert_eq!(node.connect(&[]).tip, branches.second.chain.hash());
}

#[test]
fn files_decide_ties_by_their_order_and_a_restart_keeps_its_tip() {
    let branches = Branches::new(4);
    let first = &branches.first.chain;
    let second = branches.second.chain.up_to(FORK + 4);
    for names in [["a.dat", "b.dat"], ["b.dat", "a.dat"]] {
        let mut node = Node::new(options(1, LARGE));
        let a = write_blocks(&node.file("a.dat"), &first.blocks);
        let b = write_blocks(&node.file("b.dat"), &second.blocks);
        let (winner, files) = if names[0] == "a.dat" {
            (first, [&*a, &b])
        } else {
            (&second, [&*b, &a])
        };
        assert_eq!(node.connect(&files).tip, winner.hash());
        assert_eq!(node.figures(), figures_of(winner));
        let mut node = node.restart();
        let [seen_first, seen_last] = files;
        let report = node.connect(&[seen_last, seen_first]);
        assert_eq!((report.tip, report.totals.disconnected), (winner.hash(), 0));
        assert_eq!(node.figures(), figures_of(winner));
    }
}

/// The node has only the better branch: it was pruned, killed or reindexed. The blocks of the other
/// branch are those that `connect` has retained, as far back as Core retains blocks.
#[test]
fn the_branch_left_is_in_no_file_any_more() {
    let trunk = Grower::of(FORK);
    for (depth, is_restarted) in [(1, false), (1, true), (10, true), (288, true), (289, true)] {
        let (mut first, mut second) = (trunk.fork(1), trunk.fork(2));
        first.grow(depth);
        second.grow(depth + 1);
        let mut node = Node::new(options(2, LARGE));
        let below = write_blocks(&node.file("trunk.dat"), &trunk.chain.blocks);
        let file = write_blocks(&node.file("first.dat"), first.above(FORK));
        assert_eq!(node.connect(&[&below, &file]).tip, first.chain.hash());
        std::fs::remove_file(below).unwrap();
        std::fs::remove_file(file).unwrap();
        if is_restarted {
            node = node.restart();
        }
        let file = write_blocks(&node.file("second.dat"), second.above(FORK));
        if depth <= 288 {
            let report = node.connect(&[&file]);
            assert_eq!(
                (report.tip, report.outcome()),
                (second.chain.hash(), RunOutcome::Complete)
            );
            assert_eq!(node.figures(), figures_of(&second.chain));
            // And back, with what was retained of both.
            first.grow(2);
            let file = write_blocks(&node.file("more.dat"), first.above(FORK + depth));
            assert_eq!(node.connect(&[&file]).tip, first.chain.hash());
            assert_eq!(node.figures(), figures_of(&first.chain));
            continue;
        }
        let lost = hash_of(&first.above(FORK)[0]);
        let refused = node.engine.connect(&[file], &mut ()).unwrap_err();
        assert!(
            matches!(refused, ConnectError::CannotDisconnect { hash, .. } if hash == lost),
            "{refused}"
        );
        assert_eq!(node.restart().figures(), figures_of(&first.chain));
    }
}

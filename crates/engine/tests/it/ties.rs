//! Chains of equal work: the one that is linked first is the best one, whatever the files, the
//! command and the run. `differential` compares the same with Core.

use super::options;
use crate::common::{Chain, LARGE, Node, hash_of, submit, write_blocks, write_records};
use bitcoin::Block;
use bitcoin::consensus::serialize;
use blockmill_block::{BlockHash, Network};
use blockmill_chaingen::bitcoin;
use blockmill_engine::{ChainBlocks, Options, RunOutcome, Verdict};
use blockmill_rules::Params;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Height at which the branches part.
const FORK: u32 = 3;

/// A block on a chain that differs from those with another mark.
fn grow(chain: &mut Chain, mark: u32) {
    let block = chain.next().header(|header| header.time += mark).build();
    chain.push(block);
}

/// The trunk, and branches of `length` blocks on it.
fn branches<const COUNT: usize>(length: u32) -> (Chain, [Vec<Block>; COUNT]) {
    let trunk = Chain::of(FORK);
    let branch = |mark: usize| {
        let mut chain = trunk.clone();
        (0..length).for_each(|_| grow(&mut chain, mark as u32));
        chain.blocks.split_off(FORK as usize + 1)
    };
    let branches = std::array::from_fn(branch);
    (trunk, branches)
}

/// The same header over other transactions: its merkle root is not theirs.
fn wrong_copy(block: &Block) -> Vec<u8> {
    let mut copy = block.clone();
    copy.txdata[0].output[0].value -= bitcoin::Amount::ONE_SAT;
    serialize(&copy)
}

/// A block that is cut off within its transactions.
fn cut_copy(block: &Block) -> Vec<u8> {
    let mut bytes = serialize(block);
    bytes.truncate(100);
    bytes
}

/// All orders of some numbers.
fn orders(numbers: &[usize]) -> Vec<Vec<usize>> {
    let Some((&first, rest)) = numbers.split_first() else {
        return vec![Vec::new()];
    };
    let insert = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let mut order = order.clone();
            order.insert(at, first);
            order
        })
    };
    orders(rest).into_iter().flat_map(insert).collect()
}

/// Of the blocks X1, X2, Y1, Y2, numbered from 0, which second one is linked first.
fn first_linked(order: &[usize]) -> usize {
    let mut come = [false; 4];
    for &number in order {
        come[number] = true;
        let first = number & !1;
        if come[first] && come[first + 1] {
            return first + 1;
        }
    }
    unreachable!("all blocks come");
}

/// The tip of the chain that readers of files take.
fn tip_of_files(sources: &[PathBuf]) -> BlockHash {
    let params = Params::new(Network::Regtest, None);
    let opened = ChainBlocks::of_files(sources, &[], &params, &AtomicBool::new(false), &mut ());
    let blocks = opened.unwrap().unwrap();
    blocks.hash(blocks.height()).unwrap()
}

/// Connects blocks that lie in one file, and in a file each, after the trunk. Returns the tip,
/// which is the same for all, and the outcome.
fn connect_in_order(trunk: &Chain, records: &[Vec<u8>]) -> (BlockHash, RunOutcome) {
    let mut results = Vec::new();
    for files in [vec![records], records.chunks(1).collect()] {
        let mut node = Node::new(options(1, LARGE));
        let mut sources = vec![write_blocks(&node.file("trunk.dat"), &trunk.blocks)];
        // The names are in the other order: what counts is the order in which files are given.
        for (number, records) in files.into_iter().enumerate() {
            let path = node.file(&format!("{}.dat", 99 - number));
            sources.push(write_records(&path, records.iter().cloned()));
        }
        let paths: Vec<_> = sources.iter().map(PathBuf::as_path).collect();
        let report = node.connect(&paths);
        if report.rejected.is_empty() {
            assert_eq!(tip_of_files(&sources), report.tip);
        }
        results.push((report.tip, report.outcome()));
    }
    assert_eq!(results[0], results[1]);
    results[0]
}

#[test]
fn the_branch_that_is_linked_first_wins_in_any_order() {
    let (trunk, [x, y]) = branches(2);
    let blocks = [&x[0], &x[1], &y[0], &y[1]];
    for order in orders(&[0, 1, 2, 3]) {
        let records: Vec<_> = order.iter().map(|&number| serialize(blocks[number])).collect();
        let expected = hash_of(blocks[first_linked(&order)]);
        let result = connect_in_order(&trunk, &records);
        assert_eq!(result, (expected, RunOutcome::Complete), "{order:?}");
    }
}

/// Blocks that wait for the same block follow it by height, and children of one parent in their
/// order.
#[test]
fn blocks_that_are_linked_together_keep_their_order() {
    let (trunk, [x, y]) = branches(3);
    let mut root = trunk.clone();
    let last = root.blocks.pop().unwrap();
    let orders = [
        ([&y[2], &y[1], &x[0], &x[1], &x[2], &y[0]], &x[2]),
        ([&x[2], &x[1], &y[0], &y[1], &y[2], &x[0]], &y[2]),
        ([&x[1], &x[2], &y[0], &y[2], &y[1], &x[0]], &y[2]),
    ];
    for (order, first) in orders {
        let records: Vec<_> = order.into_iter().chain([&last]).map(serialize).collect();
        assert_eq!(
            connect_in_order(&root, &records),
            (hash_of(first), RunOutcome::Complete)
        );
    }
}

/// Files that are read again are given in another order. Blocks whose parent comes last follow it
/// in the order in which they were found first.
#[test]
fn blocks_that_wait_keep_their_order_when_files_are_read_again() {
    let (trunk, branches) = branches::<2>(1);
    let mut root = trunk.clone();
    let last = root.blocks.pop().unwrap();
    let mut node = Node::new(options(1, LARGE));
    let trunk = write_blocks(&node.file("trunk.dat"), &root.blocks);
    let [x, y] = [0, 1].map(|number| write_blocks(&node.file(&format!("{number}.dat")), &branches[number]));
    let fork = write_blocks(&node.file("fork.dat"), &[last]);
    assert_eq!(node.connect(&[&trunk, &x, &y]).tip, root.hash());
    assert_eq!(node.connect(&[&trunk, &y, &x]).tip, root.hash());
    assert_eq!(node.connect(&[&trunk, &y, &x, &fork]).tip, hash_of(&branches[0][0]));
}

/// A copy that is not the block's content gives it no rank. The one that is sound does.
#[test]
fn a_wrong_copy_that_comes_first_does_not_count() {
    let (trunk, [x, y]) = branches(2);
    let mut root = trunk.clone();
    let fork = root.blocks.pop().unwrap();
    for wrong in [wrong_copy, cut_copy] {
        let good = |block: &Block| serialize(block);
        let cases = [
            (
                vec![wrong(&x[0]), good(&x[1]), good(&y[0]), good(&y[1]), good(&x[0])],
                &y,
            ),
            (
                vec![good(&x[0]), wrong(&x[1]), good(&y[0]), good(&y[1]), good(&x[1])],
                &y,
            ),
            (
                vec![wrong(&x[0]), good(&x[0]), good(&x[1]), good(&y[0]), good(&y[1])],
                &x,
            ),
            (
                vec![good(&x[0]), good(&x[1]), wrong(&x[1]), good(&y[0]), good(&y[1])],
                &x,
            ),
            (
                vec![
                    wrong(&x[0]),
                    wrong(&x[1]),
                    good(&y[0]),
                    wrong(&y[1]),
                    good(&x[1]),
                    good(&x[0]),
                    good(&y[1]),
                ],
                &x,
            ),
        ];
        for (records, first) in cases {
            let records: Vec<_> = [good(&fork)].into_iter().chain(records).collect();
            let result = connect_in_order(&root, &records);
            assert_eq!(result, (hash_of(&first[1]), RunOutcome::Complete));
        }
        // The block before the branches links all of them: by height, then in their order.
        let records = [
            wrong(&fork),
            good(&x[0]),
            good(&y[0]),
            good(&y[1]),
            good(&x[1]),
            good(&fork),
        ];
        let result = connect_in_order(&root, &records);
        assert_eq!(result, (hash_of(&x[1]), RunOutcome::Complete));
    }
}

/// A branch that is refused was the best one only if it would have been linked first.
#[test]
fn a_branch_with_a_fault_was_the_best_one_if_it_came_first() {
    let (trunk, [x, _]) = branches(2);
    let on_trunk = |edit: fn(&mut bitcoin::block::Header)| trunk.next().header(edit).build();
    let bad_header = on_trunk(|header| header.version = bitcoin::block::Version::ONE);
    let greedy = trunk.next().fees(1).build();
    for bad in [bad_header, greedy] {
        let mut branch = trunk.clone();
        branch.push(bad);
        grow(&mut branch, 7);
        let bad = &branch.blocks[FORK as usize + 1..];
        let blocks = [&x[0], &x[1], &bad[0], &bad[1]];
        for order in orders(&[0, 1, 2, 3]) {
            let records: Vec<_> = order.iter().map(|&number| serialize(blocks[number])).collect();
            let expected = if first_linked(&order) == 1 {
                RunOutcome::Complete
            } else {
                RunOutcome::Rejected
            };
            let result = connect_in_order(&trunk, &records);
            assert_eq!(result, (hash_of(&x[1]), expected), "{order:?}");
        }
    }
}

/// The active chain of an earlier run comes before all that a later run finds, and nothing else
/// does.
#[test]
fn the_active_chain_of_an_earlier_run_comes_first() {
    let (trunk, [x, y, z]) = branches(2);
    for restart in [false, true] {
        let mut node = Node::new(options(1, LARGE));
        let mut run = |names: &str, blocks: &[&Block]| {
            let path = node.file(names);
            write_blocks(&path, trunk.blocks.iter().chain(blocks.iter().copied()));
            let tip = node.connect(&[&path]).tip;
            if restart {
                node = std::mem::replace(&mut node, Node::new(options(1, LARGE))).restart();
            }
            tip
        };
        // X1 is active, and Y2 is linked before X2.
        assert_eq!(run("first", &[&x[0], &y[0]]), hash_of(&x[0]));
        assert_eq!(run("second", &[&y[0], &y[1], &x[0], &x[1]]), hash_of(&y[1]));
        assert_eq!(
            run("third", &[&z[0], &z[1], &x[0], &x[1], &y[0], &y[1]]),
            hash_of(&y[1])
        );
    }
}

/// Blocks that were submitted come before those in files: they are known when the engine opens. One
/// whose parent is known from files alone waits for it, and is then the first of its children.
#[test]
fn submitted_blocks_come_before_files() {
    let (trunk, [x, y]) = branches(4);
    let mut other = trunk.clone();
    other.push(y[0].clone());
    (0..4).for_each(|_| grow(&mut other, 9));
    let other = &other.blocks[FORK as usize + 2..];
    let mut last = trunk.clone();
    last.blocks.extend(y.iter().cloned());
    grow(&mut last, 1);
    let mut node = Node::new(options(1, LARGE));
    let file = write_blocks(&node.file("first.dat"), trunk.blocks.iter().chain(&x).chain(&y[..1]));
    assert_eq!(node.connect(&[&file]).tip, hash_of(&x[3]));
    for block in &y[1..] {
        assert_eq!(submit(&mut node.engine, block).verdict, Verdict::Side);
    }
    let mut node = node.restart();
    let blocks = trunk.blocks.iter().chain(&y[..1]).chain([last.tip()]);
    let second = write_blocks(&node.file("second.dat"), blocks.chain(&other[..4]));
    let report = node.connect(&[&file, &second]);
    assert_eq!((report.tip, report.outcome()), (last.hash(), RunOutcome::Complete));
}

/// A block is no duplicate if all that files had of it was a wrong copy.
#[test]
fn a_block_is_submitted_instead_of_a_wrong_copy() {
    let (trunk, [x, y]) = branches(2);
    for wrong in [wrong_copy, cut_copy] {
        let mut node = Node::new(options(1, LARGE));
        let trunk = trunk.blocks.iter().map(serialize);
        let records = trunk.chain([serialize(&x[0]), serialize(&x[1]), wrong(&y[0]), serialize(&y[1])]);
        let file = write_records(&node.file("blocks.dat"), records);
        node.connect(&[&file]);
        assert_eq!(node.engine.tip_hash(), hash_of(&x[1]));
        assert_eq!(submit(&mut node.engine, &y[1]).verdict, Verdict::Duplicate);
        assert_eq!(submit(&mut node.engine, &y[0]).verdict, Verdict::Side);
        assert_eq!(submit(&mut node.engine, &y[0]).verdict, Verdict::Duplicate);
        let mut chain = Chain::of(FORK);
        chain.blocks.extend(y.iter().cloned());
        grow(&mut chain, 1);
        assert_eq!(submit(&mut node.engine, chain.tip()).verdict, Verdict::Connected);
    }
}

/// What is found again, in files that are given in another order, keeps its rank.
#[test]
fn files_that_are_given_again_change_no_rank() {
    let (trunk, [x, y, z]) = branches(2);
    let mut node = Node::new(options(1, LARGE));
    let trunk = write_blocks(&node.file("trunk.dat"), &trunk.blocks);
    let greedy = {
        let mut chain = Chain::of(FORK);
        chain.blocks.extend(z.iter().cloned());
        let block = chain.next().fees(1).build();
        chain.push(block);
        chain.tip().clone()
    };
    let left = write_records(&node.file("x.dat"), [serialize(&x[0]), serialize(&x[1])]);
    let records = [wrong_copy(&y[0]), serialize(&y[0]), serialize(&y[1])];
    let right = write_records(&node.file("y.dat"), records);
    let third = write_blocks(&node.file("z.dat"), &z);
    assert_eq!(node.connect(&[&trunk, &third, &left, &right]).tip, hash_of(&z[1]));
    // Z is left for a moment, and the first of the others comes up for it.
    let longer = write_blocks(&node.file("longer.dat"), [&greedy]);
    for files in [[&right, &left, &third], [&left, &third, &right]] {
        let report = node.connect(&[&trunk, files[0], files[1], files[2], &longer]);
        assert_eq!(report.tip, hash_of(&z[1]));
    }
}

/// A block whose parent comes in a later run of the same engine waits for it, in its order.
#[test]
fn blocks_wait_for_later_runs() {
    let (trunk, [x, y]) = branches(2);
    let mut node = Node::new(options(1, LARGE));
    let trunk = write_blocks(&node.file("trunk.dat"), &trunk.blocks);
    let first = write_blocks(&node.file("first.dat"), [&y[1], &x[1]]);
    let second = write_blocks(&node.file("second.dat"), [&x[0], &y[0]]);
    let report = node.connect(&[&trunk, &first]);
    assert_eq!((report.height, report.leftovers), (FORK, 2));
    assert_eq!(report.first_leftover.map(|left| left.hash), Some(hash_of(&y[1])));
    assert_eq!(node.connect(&[]).leftovers, 2);
    let report = node.connect(&[&first, &second]);
    assert_eq!((report.tip, report.leftovers), (hash_of(&x[1]), 0));
    // A block that is submitted ends the wait, too.
    let mut node = Node::new(options(1, LARGE));
    let report = node.connect(&[&trunk, &first]);
    assert_eq!((report.height, report.leftovers), (FORK, 2));
    assert_eq!(submit(&mut node.engine, &y[0]).verdict, Verdict::Connected);
    assert_eq!(node.engine.tip_hash(), hash_of(&y[1]));
    assert_eq!(node.connect(&[]).leftovers, 1);
}

/// A run that ends at the height of the tie has the block that came first, too, though a wrong copy
/// of the other one came before it.
#[test]
fn a_tie_at_the_last_height() {
    let (trunk, [x, y]) = branches(2);
    let mut root = trunk.clone();
    let last = root.blocks.pop().unwrap();
    let records = [wrong_copy(&x[0]), serialize(&y[0]), serialize(&x[0]), serialize(&last)];
    for stop_at_height in [None, Some(FORK + 1)] {
        let mut node = Node::new(Options {
            stop_at_height,
            ..options(1, LARGE)
        });
        let trunk = write_blocks(&node.file("trunk.dat"), &root.blocks);
        let tie = write_records(&node.file("tie.dat"), records.iter().cloned());
        assert_eq!(node.connect(&[&trunk, &tie]).tip, hash_of(&y[0]));
        // Another run keeps it, and goes on from there.
        let more = write_blocks(&node.file("more.dat"), &y[1..]);
        let tip = node.connect(&[&trunk, &tie, &more]).tip;
        assert_eq!(tip, hash_of(&y[usize::from(stop_at_height.is_none())]));
    }
}

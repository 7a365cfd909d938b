//! Trees of headers, their candidates, and failures in them.

use super::*;
use blockmill_block::{MerkleRoot, Network};
use std::cmp::Reverse;

pub(super) fn index() -> HeaderIndex {
    HeaderIndex::new(Params::new(Network::Regtest, None))
}

pub(super) const POSITION: Position = Position {
    file: 0,
    length: 100,
    offset: 8,
};

/// A child of `parent`, told apart by `mark`; put in without judging it.
pub(super) fn child(index: &mut HeaderIndex, parent: BlockId, mark: u32) -> BlockId {
    let header = Header {
        version: 4,
        prev_block_hash: index.entry(parent).hash,
        merkle_root: MerkleRoot::ZERO,
        time: index.entry(parent).time + 600,
        bits: 0x207f_ffff,
        nonce: mark,
    };
    index.insert_trusted(&header, header.hash()).unwrap()
}

pub(super) fn chain(index: &mut HeaderIndex, parent: BlockId, length: u32, mark: u32) -> Vec<BlockId> {
    let mut last = parent;
    (0..length)
        .map(|_| {
            last = child(index, last, mark);
            last
        })
        .collect()
}

#[test]
fn ancestors_and_forks() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 300, 0);
    let side = chain(&mut index, main[99], 50, 1);
    for height in 0..=300 {
        let expected = if height == 0 {
            genesis
        } else {
            main[height as usize - 1]
        };
        assert_eq!(index.ancestor(main[299], height), Some(expected));
    }
    assert_eq!(index.ancestor(main[9], 11), None);
    assert_eq!(index.ancestor(side[49], 100), Some(main[99]));
    assert_eq!(index.fork(main[299], side[49]), main[99]);
    assert_eq!(index.fork(main[5], main[50]), main[5]);
    assert_eq!(index.fork(genesis, side[0]), genesis);
}

#[test]
fn content_may_come_in_any_order() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 4, 0);
    index.receive(main[3], POSITION);
    index.receive(main[1], POSITION);
    assert_eq!(index.best_candidate(), genesis);
    index.receive(main[0], POSITION);
    assert_eq!(index.best_candidate(), main[1]);
    index.receive(main[2], POSITION);
    assert_eq!(index.best_candidate(), main[3]);
    assert_eq!(index.candidates.len(), 1);
}

#[test]
fn the_first_that_is_linked_wins_among_equals() {
    let mut index = index();
    let genesis = index.genesis();
    let left = child(&mut index, genesis, 0);
    let right = child(&mut index, genesis, 1);
    index.receive(right, POSITION);
    index.receive(left, POSITION);
    assert_eq!(index.best_candidate(), right);
    let longer = child(&mut index, left, 0);
    index.receive(longer, POSITION);
    assert_eq!(index.best_candidate(), longer);
}

#[test]
fn blocks_count_from_when_they_can_be_connected() {
    let mut index = index();
    let genesis = index.genesis();
    let left = chain(&mut index, genesis, 2, 0);
    let right = chain(&mut index, genesis, 2, 1);
    // The left end comes first, but its parent comes last.
    for id in [left[1], right[0], right[1], left[0]] {
        index.receive(id, POSITION);
    }
    assert_eq!(index.best_candidate(), right[1]);
}

#[test]
fn among_children_that_waited_the_first_to_come_is_first() {
    for order in [[0, 1], [1, 0]] {
        let mut index = index();
        let genesis = index.genesis();
        let parent = child(&mut index, genesis, 0);
        // The headers are known in one order, the content comes in either.
        let children = [child(&mut index, parent, 1), child(&mut index, parent, 2)];
        for number in order {
            index.receive(children[number], POSITION);
        }
        index.receive(parent, POSITION);
        assert_eq!(index.best_candidate(), children[order[0]]);
    }
}

/// A block came with its sound copy, in the search that found that first.
#[test]
fn copies_that_are_found_again_came_before() {
    let at = |offset| Position { offset, ..POSITION };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut index = index();
        let genesis = index.genesis();
        let [left, right] = [0, 1].map(|mark| child(&mut index, genesis, mark));
        let found = [(left, at(0)), (left, at(1)), (right, at(2))];
        for (id, position) in found {
            index.receive(id, position);
        }
        assert_eq!(index.forget_files(|file| file == POSITION.file), [left, right]);
        for (id, position) in order.map(|number| found[number]) {
            index.receive(id, position);
        }
        index.order_copies();
        assert_eq!(index.positions(left).collect::<Vec<_>>(), [at(0), at(1)]);
        assert_eq!(index.best_candidate(), left);
        // The first copy of `left` proves wrong.
        assert!(index.found_at(left, at(1)));
        index.resolve_order();
        assert_eq!(index.best_candidate(), left);
    }
}

/// A header whose block is nowhere is the best one if it has more work, and not if a block with as
/// much work is linked.
#[test]
fn headers_without_blocks_give_way_to_blocks() {
    let mut index = index();
    let genesis = index.genesis();
    let [x, y] = [0, 1].map(|mark| chain(&mut index, genesis, 2, mark));
    assert_eq!(index.best_header(), x[1]);
    for &id in &y {
        index.receive(id, POSITION);
    }
    assert_eq!(index.best_header(), y[1]);
    let longer = child(&mut index, x[1], 0);
    assert_eq!((index.best_header(), index.best_candidate()), (longer, y[1]));
}

#[test]
fn all_copies_are_kept() {
    let mut index = index();
    let genesis = index.genesis();
    let block = child(&mut index, genesis, 0);
    for offset in 0..100_000 {
        index.receive(block, Position { offset, ..POSITION });
    }
    assert_eq!(index.positions(block).count(), 100_000);
    let offsets: Vec<u64> = index.positions(block).map(|position| position.offset).collect();
    assert!(offsets.is_sorted());
    // Those of one file go, and those of others stay.
    index.receive(block, Position { file: 1, ..POSITION });
    assert!(index.forget_files(|file| file == 0).is_empty());
    assert_eq!(index.positions(block).count(), 1);
    assert_eq!(index.forget_files(|_| true), [block]);
    assert_eq!(index.positions(block).count(), 0);
}

/// A new run judges failed blocks again.
#[test]
fn failures_are_forgotten() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 3, 0);
    let side = chain(&mut index, genesis, 2, 1);
    for &id in main.iter().chain(&side) {
        index.receive(id, POSITION);
    }
    assert_eq!(index.best_candidate(), main[2]);
    index.mark_failed(main[0]);
    assert_eq!((index.best_candidate(), index.best_header()), (side[1], side[1]));
    index.forget_failures(genesis);
    assert_eq!((index.best_candidate(), index.best_header()), (main[2], main[2]));
    // Among equals the first is first again.
    index.mark_failed(main[2]);
    index.resolve_order();
    assert_eq!((index.best_candidate(), index.best_header()), (main[1], main[1]));
    // The active chain comes before all that is checked again.
    index.mark_failed(main[0]);
    index.forget_failures(side[1]);
    index.mark_failed(main[2]);
    index.resolve_order();
    assert_eq!((index.best_candidate(), index.best_header()), (side[1], side[1]));
}

#[test]
fn a_failed_block_takes_its_descendants_with_it() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 5, 0);
    let side = chain(&mut index, main[0], 2, 1);
    for &id in main.iter().chain(&side) {
        index.receive(id, POSITION);
    }
    assert_eq!(index.best_candidate(), main[4]);
    assert_eq!(index.best_header(), main[4]);
    index.mark_failed(main[2]);
    assert_eq!(index.best_candidate(), main[1].max(side[1]));
    assert_eq!(index.best_candidate(), side[1]);
    assert!(index.entry(main[4]).failed && !index.entry(main[1]).failed);
    assert_eq!(index.entry(index.best_header()).height, 3);
    index.mark_failed(side[0]);
    assert_eq!(index.best_candidate(), main[1]);
    index.mark_failed(main[0]);
    assert_eq!(index.best_candidate(), genesis);
    assert_eq!(index.candidates.len(), 1);
}

#[test]
fn content_that_proved_wrong_may_come_again() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 3, 0);
    for &id in &main {
        index.receive(id, POSITION);
    }
    index.forget_content(main[1]);
    assert_eq!(index.best_candidate(), main[0]);
    assert!(!index.entry(main[2]).failed);
    index.receive(main[1], POSITION);
    assert_eq!(index.best_candidate(), main[2]);
}

#[test]
fn what_was_connected_before_comes_first() {
    let mut index = index();
    let genesis = index.genesis();
    let main = chain(&mut index, genesis, 2, 0);
    let side = chain(&mut index, genesis, 2, 1);
    index.set_connected(main[1]);
    for &id in side.iter().chain(&main) {
        index.receive(id, POSITION);
    }
    assert_eq!(index.best_candidate(), main[1]);
}

#[test]
fn headers_are_judged() {
    let mut index = index();
    let mut header = Header {
        version: 4,
        prev_block_hash: BlockHash([1; 32]),
        merkle_root: MerkleRoot::ZERO,
        time: 1_300_000_000,
        bits: 0x207f_ffff,
        nonce: 0,
    };
    let accept = |index: &mut HeaderIndex, header: &Header| {
        // A hash of zero has all the work there is.
        index.accept_header(
            header,
            BlockHash([
                header.nonce as u8,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ]),
            1_400_000_000,
        )
    };
    header.nonce = 1;
    assert_eq!(accept(&mut index, &header), Err(HeaderRefusal::MissingParent));
    header.prev_block_hash = index.entry(index.genesis()).hash;
    let id = accept(&mut index, &header).unwrap();
    assert_eq!(accept(&mut index, &header), Ok(id));
    header.nonce = 2;
    header.bits = 0x1d00_ffff;
    assert!(
        matches!(accept(&mut index, &header), Err(HeaderRefusal::Invalid(reject)) if reject.reason == "bad-diffbits")
    );
    index.mark_failed(id);
    header.nonce = 1;
    assert!(
        matches!(accept(&mut index, &header), Err(HeaderRefusal::Invalid(reject)) if reject.reason == "duplicate-invalid")
    );
    header.nonce = 3;
    header.prev_block_hash = index.entry(id).hash;
    assert!(
        matches!(accept(&mut index, &header), Err(HeaderRefusal::Invalid(reject)) if reject.reason == "bad-prevblk")
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(5_000))]

    /// Whatever happens, both best blocks are those that a look at all entries finds.
    #[test]
    fn the_best_are_the_best_of_all(steps in proptest::collection::vec((0u8..9, 0usize..64), 1..80)) {
        let mut index = index();
        let mut all = vec![index.genesis()];
        for (number, (kind, pick)) in steps.into_iter().enumerate() {
            let id = all[pick % all.len()];
            match kind {
                0..4 if !index.entry(id).failed => all.push(child(&mut index, id, number as u32)),
                4..6 if id != all[0] => {
                    let offset = number as u64;
                    index.receive(id, Position { offset, ..POSITION });
                }
                8 => {
                    if let Some(last) = index.positions(id).last() {
                        index.found_at(id, last);
                    }
                }
                6 if id != all[0] => index.mark_failed(id),
                7 if id != all[0] => index.forget_content(id),
                _ => {}
            }
            index.resolve_order();
            let linked = all.iter().filter(|&&id| index.entry(id).linked);
            let best = linked.max_by_key(|&&id| (index.entry(id).work, Reverse(index.entry(id).sequence)));
            proptest::prop_assert_eq!(Some(&index.best_candidate()), best);
            let valid = all.iter().filter(|&&id| !index.entry(id).failed);
            let rank = |id: &BlockId| (index.entry(*id).work, Reverse(index.entry(*id).sequence), Reverse(*id));
            let best = valid.max_by_key(|&id| rank(id));
            proptest::prop_assert_eq!(Some(&index.best_header()), best);
        }
    }
}

/// Scripts may be left out only when the best header's chain has the network's minimum of work:
/// with one unit less they run.
#[test]
fn the_minimum_of_work_of_an_assumed_chain() {
    use crate::assume_valid::reason_to_check;
    let length = 2 * 2016;
    let work = {
        let mut index = index();
        let genesis = index.genesis();
        let all = chain(&mut index, genesis, length, 0);
        index.entry(all[length as usize - 1]).work
    };
    for (minimum, enough) in [(work, true), (work - 1u128, true), (work + 1u128, false)] {
        let mut params = Params::new(Network::Regtest, None);
        params.minimum_chain_work = minimum;
        let mut index = HeaderIndex::new(params);
        let genesis = index.genesis();
        let all = chain(&mut index, genesis, length, 0);
        let assumed = index.entry(all[length as usize - 1]).hash;
        let reason = reason_to_check(&index, all[10], Some(&assumed));
        assert_eq!(reason.is_none(), enough, "{reason:?}");
        if !enough {
            assert!(reason.is_some_and(|reason| reason.contains("minimum of work")));
        }
    }
}

/// A chain of the main network has a million headers.
#[test]
fn a_header_takes_little_room() {
    assert!(size_of::<Entry>() <= 192);
}

#[test]
fn headers_come_back_whole() {
    let mut index = index();
    let genesis = index.genesis();
    assert_eq!(index.header(genesis), index.params().genesis);
    let mut parent = genesis;
    for number in 0..5000u32 {
        let header = Header {
            version: number.cast_signed().wrapping_mul(-77_777_777),
            prev_block_hash: index.entry(parent).hash,
            merkle_root: MerkleRoot([number as u8; 32]),
            time: index.entry(parent).time + number,
            bits: 0x207f_ffff,
            nonce: number,
        };
        parent = index.insert_trusted(&header, header.hash()).unwrap();
        assert_eq!(index.header(parent), header);
        assert_eq!(index.find(&header.hash()), Some(parent));
    }
    assert_eq!(index.find(&BlockHash([7; 32])), None);
    assert_eq!(index.len(), 5001);
}

#[test]
fn every_copy_of_a_block_is_kept() {
    let mut index = index();
    let genesis = index.genesis();
    let block = child(&mut index, genesis, 0);
    let positions = [3, 1, 2].map(|file| Position { file, ..POSITION });
    for position in positions {
        index.receive(block, position);
    }
    assert!(index.positions(block).eq(positions));
    index.receive(block, positions[0]);
    assert!(index.positions(block).eq(positions));
    index.forget_content(block);
    assert_eq!(index.positions(block).count(), 0);
    index.receive(block, positions[1]);
    assert!(index.positions(block).eq([positions[1]]));
}

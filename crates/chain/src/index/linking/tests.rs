//! Copies that prove wrong, and the order of blocks without them.

use super::*;
use crate::index::tests::{POSITION, chain, child, index};
use std::collections::HashMap;

/// A block whose first copy proves wrong counts from the copy that is sound, and with it what
/// builds on it.
#[test]
fn a_wrong_copy_gives_no_number() {
    let at = |offset| Position { offset, ..POSITION };
    // X1 comes wrong, and right at the end. Without the wrong copy Y2 is first.
    for wrong in [0, 1] {
        let mut index = index();
        let genesis = index.genesis();
        let [x, y] = [0, 1].map(|mark| chain(&mut index, genesis, 2, mark));
        for (offset, id) in (0..).zip([x[0], x[1], y[0], y[1], x[wrong]]) {
            index.receive(id, at(offset));
        }
        index.resolve_order();
        assert_eq!((index.best_candidate(), index.best_header()), (x[1], x[1]));
        assert!(index.found_at(x[wrong], at(4)));
        assert!(index.positions(x[wrong]).eq([at(4)]));
        index.resolve_order();
        assert_eq!((index.best_candidate(), index.best_header()), (y[1], y[1]));
        // The other one is still there.
        index.mark_failed(y[0]);
        assert_eq!((index.best_candidate(), index.best_header()), (x[1], x[1]));
    }
}

#[test]
fn what_was_connected_before_keeps_its_rank_when_all_are_numbered_anew() {
    let mut index = index();
    let genesis = index.genesis();
    let [x, y] = [0, 1].map(|mark| chain(&mut index, genesis, 2, mark));
    index.set_connected(x[1]);
    for (offset, &id) in (0..).zip(y.iter().chain(&x).chain(&x)) {
        index.receive(id, Position { offset, ..POSITION });
    }
    index.found_at(x[1], Position { offset: 5, ..POSITION });
    index.resolve_order();
    assert_eq!((index.best_candidate(), index.best_header()), (x[1], x[1]));
    assert_eq!(index.candidates.len(), 2);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(5_000))]

    /// When the copies of the best chain are known, it is the chain that is the best one where no
    /// wrong copies come.
    #[test]
    fn wrong_copies_change_nothing(
        parents in proptest::collection::vec(0usize..64, 3..9),
        copies in proptest::collection::vec((0usize..64, proptest::bool::ANY), 1..40),
    ) {
        let (mut index, mut without) = (index(), index());
        let mut all = vec![index.genesis()];
        for (number, parent) in (0..).zip(parents) {
            // Long branches, and many of equal length.
            let parent = all[all.len() - 1 - parent % all.len().min(3)];
            child(&mut without, parent, number);
            all.push(child(&mut index, parent, number));
        }
        let mut sound = HashMap::new();
        for (offset, (pick, is_sound)) in (0..).zip(copies) {
            let (id, position) = (all[pick % all.len()], Position { offset, ..POSITION });
            if id == all[0] {
                continue;
            }
            index.receive(id, position);
            if is_sound && index.positions(id).any(|kept| kept == position) {
                without.receive(id, position);
                sound.entry(id).or_insert(position);
            }
        }
        loop {
            index.resolve_order();
            let best = index.best_candidate();
            let mut unsound = None;
            for id in (1..).map_while(|height| index.ancestor(best, height)).collect::<Vec<_>>() {
                match sound.get(&id) {
                    Some(&position) => {
                        index.found_at(id, position);
                    }
                    None => unsound = unsound.or(Some(id)),
                }
            }
            if let Some(id) = unsound {
                index.forget_content(id);
                continue;
            }
            index.resolve_order();
            if index.best_candidate() == best {
                break;
            }
        }
        proptest::prop_assert_eq!(index.best_candidate(), without.best_candidate());
    }
}

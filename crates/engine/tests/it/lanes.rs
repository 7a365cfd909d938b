//! The tests of other files once more, with signatures verified in lanes for all blocks. The tests
//! take `SIGNATURES` and `options` from their parent module, and expect the same in both.

#![allow(
    clippy::duplicate_mod,
    reason = "the tests run with both values of `super::SIGNATURES`"
)]

#[path = "assume_valid.rs"]
mod assume_valid;
#[path = "changing_files.rs"]
mod changing_files;
#[path = "failing_store.rs"]
mod failing_store;
#[path = "invalid_branches.rs"]
mod invalid_branches;
#[path = "reorganise.rs"]
mod reorganise;
#[path = "resume.rs"]
mod resume;
#[path = "snapshots.rs"]
mod snapshots;
#[path = "stops.rs"]
mod stops;
#[path = "window.rs"]
mod window;

use crate::common::grower::Grower;
use crate::common::{self, LARGE, Node, figures_of, submit_good};
use blockmill_engine::{Options, Signatures};

/// How signatures are verified in the tests of this module.
const SIGNATURES: Signatures = Signatures::Lanes;

fn options(threads: usize, cache_bytes_max: usize) -> Options {
    Options {
        signatures: SIGNATURES,
        ..common::options(threads, cache_bytes_max)
    }
}

/// In files and one by one: the blocks of these tests have enough signatures.
#[test]
fn the_lanes_are_in_use() {
    let mut grower = Grower::of(120);
    let mut node = Node::on(&grower.chain, options(2, LARGE));
    let in_file = node.engine.totals().signatures;
    grower.grow(10);
    for block in grower.above(120) {
        submit_good(&mut node.engine, block);
    }
    let counts = node.engine.totals().signatures;
    assert!(
        in_file.lanes > 100 && counts.lanes >= in_file.lanes + 100,
        "{in_file:?} {counts:?}"
    );
    assert!(counts.libsecp256k1 < counts.lanes / 10, "{counts:?}");
    // Two of three keys, and the second has not signed.
    assert!(counts.again > 0, "{counts:?}");
    assert_eq!(node.figures(), figures_of(&grower.chain));
}

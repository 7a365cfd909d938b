//! Whether a block's scripts must run, or its chain may be assumed valid (Core's conditions in
//! `ConnectBlock`).

use crate::index::{BlockId, HeaderIndex};
use crate::report::signatures::{SignatureWay, Signatures};
use blockmill_block::BlockHash;
use blockmill_rules::target::equivalent_time;

/// Seconds of work at the best header's difficulty by which a block must be buried.
const BURIED_SECONDS: i64 = 2 * 7 * 24 * 60 * 60;

/// Why the scripts of a block must run; none if they may be left out: the assumed valid block is
/// known, the block is in its chain and in the best header's, that header has the network's minimum
/// of work, and the block is buried under two weeks' worth of work.
pub fn reason_to_check(index: &HeaderIndex, id: BlockId, assumed: Option<&BlockHash>) -> Option<&'static str> {
    let Some(assumed) = assumed else {
        return Some("no block is assumed valid");
    };
    let Some(assumed) = index.find(assumed) else {
        return Some("the assumed valid block is not among the headers");
    };
    let height = index.entry(id).height;
    if index.ancestor(assumed, height) != Some(id) {
        return Some(if height > index.entry(assumed).height {
            "the block is above the assumed valid block"
        } else {
            "the block is not in the chain of the assumed valid block"
        });
    }
    let best = index.entry(index.best_header());
    if index.ancestor(index.best_header(), height) != Some(id) {
        return Some("the block is not in the chain of the best header");
    }
    if best.work < index.params().minimum_chain_work {
        return Some("the best header's chain has less than the minimum of work");
    }
    (!is_buried(index, id)).then_some("the block is too close to the best header")
}

/// How the signatures of a block are verified. `can_defer` says whether the verifier takes lanes.
pub fn signature_way(index: &HeaderIndex, id: BlockId, wanted: Signatures, can_defer: bool) -> SignatureWay {
    SignatureWay::new(wanted, can_defer, || {
        let best = index.best_header();
        index.ancestor(best, index.entry(id).height) == Some(id) && is_buried(index, id)
    })
}

/// Whether a block in the chain of the best header has more than two weeks of work above it.
fn is_buried(index: &HeaderIndex, id: BlockId) -> bool {
    let best = index.entry(index.best_header());
    equivalent_time(best.work, index.entry(id).work, best.bits, index.params()) > BURIED_SECONDS
}

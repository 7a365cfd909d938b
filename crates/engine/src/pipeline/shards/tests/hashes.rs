//! Hashes of outpoints come from the outline, and nothing else makes one.

use super::*;
use blockmill_coins::HashKey;

/// With an outline under another key than the cache's, everything that is looked for once more is
/// found only by the hashes of the outline.
#[test]
fn an_outpoint_is_hashed_in_the_outline_alone() {
    let key = HashKey::known(3, 4);
    let params = params();
    let (mut taken_back, mut disconnected) = (0, 0);
    for case in (0..200).map(|seed| Case::new(seed, 3)) {
        let (mut cache, _store) = case.cache();
        cache.finish_flush().unwrap();
        for planned in &case.blocks {
            let outline = Outline::new(&planned.block, &key);
            let entries = cache.len();
            let context = context(planned, &params);
            match resolve::resolve_block(&planned.block, &outline, &context, planned.absent_at, &mut cache) {
                Ok(undo) => {
                    disconnected += 1;
                    assert!(resolve::disconnect(&planned.block, &outline, &undo, &mut cache).unwrap());
                }
                Err(_) => {
                    taken_back += 1;
                    assert_eq!(cache.len(), entries);
                }
            }
        }
    }
    assert!(taken_back > 50 && disconnected > 50, "{taken_back} {disconnected}");
}

//! Hashes of outpoints come from the outline, and nothing else makes one.

use super::*;

/// With outlines under another key than the cache's, everything that is looked for once more is
/// found only by the hashes of the outline.
#[test]
fn an_outpoint_is_hashed_in_the_outline_alone() {
    let key = HashKey::known(3, 4);
    let pool = pool(0);
    let (mut taken_back, mut disconnected) = (0, 0);
    for case in (0..200).map(|seed| Case::new(seed, 3)) {
        let (mut cache, _store) = case.cache();
        cache.finish_flush().unwrap();
        for planned in &case.blocks {
            let entries = cache.len();
            let block = std::slice::from_ref(planned);
            match in_shards_with(block, &key, &mut cache, 64, usize::MAX, &pool, None) {
                WindowOutcome::Valid(valid) => {
                    disconnected += 1;
                    let outline = Outline::new(&planned.block, &key);
                    assert!(disconnect(&planned.block, &outline, &valid[0].undo, &mut cache).unwrap());
                }
                _ => {
                    taken_back += 1;
                    assert_eq!(cache.len(), entries);
                }
            }
        }
    }
    assert!(taken_back > 50 && disconnected > 50, "{taken_back} {disconnected}");
}

//! Windows that spend more than they may.

use super::*;
use blockmill_block::CoinList;

/// Just enough memory is enough. With less the window is too large, and the cache is as before.
#[test]
fn a_window_that_spends_too_much_is_too_large() {
    let pool = pool(1);
    let (mut checked, mut most) = (0, 0);
    let cases = (0..60).map(|seed| Case::new(seed, 1_000));
    // Shards that take their room in several steps.
    for case in cases.chain([Case::of_many_spends(2_000)]) {
        let run = |bytes: usize| {
            let (mut cache, _) = case.cache();
            let before = (coins(&cache), cache.dirty_len(), cache.counters());
            let outcome = in_shards(&case.blocks, &mut cache, 2, bytes, &pool, None);
            if matches!(outcome, WindowOutcome::TooLarge) {
                assert_eq!((coins(&cache), cache.dirty_len(), cache.counters()), before);
            }
            outcome
        };
        let WindowOutcome::Valid(valid) = run(usize::MAX) else {
            continue;
        };
        // The least that is enough.
        let (mut low, mut high) = (0, 1 << 20);
        while low < high {
            let middle = usize::midpoint(low, high);
            match run(middle) {
                WindowOutcome::Valid(_) => high = middle,
                WindowOutcome::TooLarge => low = middle + 1,
                other => panic!("a valid window: {other:?}"),
            }
        }
        let mut spent = CoinList::default();
        for block in &valid {
            block.undo.coins().iter().for_each(|coin| spent.push(coin));
        }
        assert_eq!(low, spent.used());
        most = most.max(spent.coins().len());
        checked += 1;
    }
    assert!(checked > 30 && most == 2_000, "{checked} {most}");
}

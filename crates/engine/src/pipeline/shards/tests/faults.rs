//! Planted faults are found, and faults of the store and panics change nothing.

use super::store::CheckedStore;
use super::*;

/// Each fault is found by the tests with random cases.
#[test]
fn planted_faults_are_found() {
    let pool = pool(1);
    for fault in [
        Fault::DropsSpend,
        Fault::DropsOneSpend,
        Fault::SwapsShards,
        Fault::SpendsTwice,
        Fault::SeesTooEarly,
        Fault::SeesNextTransaction,
        Fault::ForgetsToTakeBack,
        Fault::ForgetsOneToTakeBack,
        Fault::ForgetsCoinToTakeBack,
        Fault::OverwritesUnasked,
        Fault::MixesInputs,
        Fault::BelievesOldAbsence,
    ] {
        let is_found = |seed: u64| {
            let case = Case::new(seed, 3);
            matches!(check(&case, 32, 64, &pool, Some(fault)), Found::Different(_))
        };
        let found = (0..3_000).filter(|&seed| is_found(seed)).take(3).count();
        assert_eq!(found, 3, "{fault:?}");
    }
}

/// What a cache is, as far as blocks may change it.
fn state(cache: &CoinsCache) -> (Vec<(OutPoint, Coin)>, usize, usize) {
    // A running flush would move entries.
    (coins(cache), cache.dirty_len(), cache.len())
}

/// Resolves blocks one at a time. Returns their undo data, and what became of the first that is not
/// valid.
fn one_by_one(
    blocks: &[Planned],
    cache: &mut CoinsCache,
    pool: &ThreadPool,
) -> (Vec<BlockUndo>, Option<WindowOutcome>) {
    let mut undo = Vec::new();
    for planned in blocks {
        match in_shards(std::slice::from_ref(planned), cache, 0, usize::MAX, pool, None) {
            WindowOutcome::Valid(valid) => undo.extend(valid.into_iter().map(|block| block.undo)),
            other => return (undo, Some(other)),
        }
    }
    (undo, None)
}

/// What the last flush of this cache changes, after valid blocks.
fn end(
    blocks: &[Planned],
    mut cache: CoinsCache,
    store: &CheckedStore,
    pool: &ThreadPool,
) -> impl PartialEq + std::fmt::Debug + use<> {
    let (undo, wrong) = one_by_one(blocks, &mut cache, pool);
    assert!(wrong.is_none(), "{wrong:?}");
    flush(&mut cache);
    (undo, coins(&cache), store.last_commit())
}

/// Valid cases without a flush.
fn cases(count: usize) -> impl Iterator<Item = Case> {
    let is_wanted = |case: &Case| {
        let mut coins = coins(&case.cache().0).into_iter().collect();
        let is_valid = plainly(&case.blocks, &mut coins).1.is_none();
        !case.flushing && case.flushed.is_empty() && case.is_without_repeats() && is_valid
    };
    (0..).map(|seed| Case::new(seed, 1_000)).filter(is_wanted).take(count)
}

/// A block that is rejected leaves the cache as it was, and what its entries say of the store.
#[test]
fn a_rejected_block_is_taken_back() {
    let pool = pool(0);
    let mut rejected = 0;
    for case in (0..1_000).map(|seed| Case::new(seed, 3)).filter(|case| !case.flushing) {
        let (mut cache, store) = case.cache();
        let (mut twin, twin_store) = case.cache();
        for planned in &case.blocks {
            let before = state(&cache);
            let block = std::slice::from_ref(planned);
            if one_by_one(block, &mut cache, &pool).1.is_some() {
                assert_eq!(state(&cache), before);
                flush(&mut cache);
                flush(&mut twin);
                assert_eq!(store.last_commit(), twin_store.last_commit());
                rejected += 1;
                break;
            }
            assert!(one_by_one(block, &mut twin, &pool).1.is_none());
        }
    }
    assert!(rejected > 200, "{rejected}");
}

/// The window is odd, the cache is as before, and without the fault all goes on as ever.
fn is_odd_for(fault: Fault) {
    let pool = pool(1);
    let mut odd = 0;
    for case in cases(100) {
        let (cache, store) = case.cache();
        let expected = end(&case.blocks, cache, &store, &pool);
        let (mut cache, store) = case.cache();
        let before = state(&cache);
        match in_shards(&case.blocks, &mut cache, 2, usize::MAX, &pool, Some(fault)) {
            WindowOutcome::Odd if case.blocks.len() > 1 => odd += 1,
            // The rules find nothing wrong with the block.
            WindowOutcome::Contradiction if case.blocks.len() == 1 => odd += 1,
            // Nothing in the window reaches the code of the fault.
            WindowOutcome::Valid(_) => continue,
            other => panic!("{other:?}"),
        }
        assert_eq!(state(&cache), before);
        assert_eq!(end(&case.blocks, cache, &store, &pool), expected);
    }
    assert!(odd > 50, "{odd}");
}

#[test]
fn a_panic_in_a_shard_is_odd() {
    is_odd_for(Fault::PanicsWhileSpending);
    is_odd_for(Fault::PanicsWhileCreating);
}

#[test]
fn a_panic_of_a_validation_is_odd() {
    is_odd_for(Fault::PanicsInValidation);
}

/// A read of the store fails, once or for good: a window of several blocks is odd, and the cache is
/// as before. A block by itself is resolved if the read failed once. Otherwise the error is named.
#[test]
fn a_read_that_fails_is_odd() {
    let pool = pool(1);
    let (mut failed, mut singles) = (0, 0);
    for (number, case) in cases(150).enumerate() {
        let (cache, store) = case.cache();
        let expected = end(&case.blocks, cache, &store, &pool);
        let reads = {
            let (mut cache, store) = case.cache();
            let before = store.reads();
            let _ = in_shards(&case.blocks, &mut cache, 64, usize::MAX, &pool, None);
            store.reads() - before
        };
        for first in [0, reads / 2, reads.saturating_sub(1)] {
            if first >= reads {
                continue;
            }
            for is_for_good in [false, true] {
                let (mut cache, store) = case.cache();
                let before = state(&cache);
                store.fail(first..if is_for_good { u64::MAX } else { first + 1 });
                let jobs = [1, 2, 64][number % 3];
                let outcome = in_shards(&case.blocks, &mut cache, jobs, usize::MAX, &pool, None);
                match outcome {
                    WindowOutcome::Odd => assert!(case.blocks.len() > 1),
                    WindowOutcome::Failed(_) => assert!(case.blocks.len() == 1 && is_for_good),
                    WindowOutcome::Valid(_) => {
                        assert!(case.blocks.len() == 1 && !is_for_good);
                        singles += 1;
                        continue;
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(state(&cache), before);
                if is_for_good {
                    for has_markers in [false, true] {
                        store.fail(0..u64::MAX);
                        let (undo, outcome) = one_by_one(&case.blocks, &mut cache, &pool);
                        match outcome {
                            Some(WindowOutcome::Failed(error)) => {
                                assert_eq!(error.to_string(), "coin store: a fault of the test");
                            }
                            // What was disconnected is known without the store.
                            None if has_markers => {}
                            other => panic!("{other:?}"),
                        }
                        store.fail(0..0);
                        for (planned, undo) in case.blocks.iter().zip(&undo).rev() {
                            let outline = Outline::new(&planned.block, cache.hash_key());
                            assert!(disconnect(&planned.block, &outline, undo, &mut cache).unwrap());
                        }
                    }
                    assert_eq!(state(&cache).0, before.0);
                    assert!(one_by_one(&case.blocks, &mut cache, &pool).1.is_none());
                    flush(&mut cache);
                    failed += 1;
                } else {
                    assert_eq!(end(&case.blocks, cache, &store, &pool), expected);
                }
            }
        }
    }
    assert!(failed > 50 && singles > 5, "{failed} {singles}");
}

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

/// What the last flush of this cache changes, after the serial code has run the blocks.
fn serial_end(
    blocks: &[Planned],
    mut cache: CoinsCache,
    store: &CheckedStore,
) -> impl PartialEq + std::fmt::Debug + use<> {
    let verdict = serially(blocks, &mut cache);
    flush(&mut cache);
    (verdict, coins(&cache), store.last_commit())
}

/// Valid cases without a flush.
fn cases(count: usize) -> impl Iterator<Item = Case> {
    let is_wanted = |case: &Case| {
        let is_valid = || serially(&case.blocks, &mut case.cache().0).1.is_none();
        !case.flushing && case.flushed.is_empty() && case.is_without_repeats() && is_valid()
    };
    (0..).map(|seed| Case::new(seed, 1_000)).filter(is_wanted).take(count)
}

/// A block that the serial code rejects leaves the cache as it was, and what its entries say of the
/// store.
#[test]
fn a_rejected_block_is_taken_back() {
    let mut rejected = 0;
    for case in (0..1_000).map(|seed| Case::new(seed, 3)).filter(|case| !case.flushing) {
        let (mut cache, store) = case.cache();
        let (mut twin, twin_store) = case.cache();
        for planned in &case.blocks {
            let before = state(&cache);
            let block = std::slice::from_ref(planned);
            if serially(block, &mut cache).1.is_some() {
                assert_eq!(state(&cache), before);
                flush(&mut cache);
                flush(&mut twin);
                assert_eq!(store.last_commit(), twin_store.last_commit());
                rejected += 1;
                break;
            }
            let _ = serially(block, &mut twin);
        }
    }
    assert!(rejected > 200, "{rejected}");
}

/// The window is odd, the cache is as before, and the serial code then does what it always does.
fn is_odd_for(fault: Fault) {
    let pool = pool(1);
    let mut odd = 0;
    for case in cases(100) {
        let (cache, store) = case.cache();
        let expected = serial_end(&case.blocks, cache, &store);
        let (mut cache, store) = case.cache();
        let before = state(&cache);
        match in_shards(&case.blocks, &mut cache, 2, usize::MAX, &pool, Some(fault)) {
            WindowOutcome::Odd => odd += 1,
            // Nothing in the window reaches the code of the fault.
            WindowOutcome::Valid(_) => continue,
            WindowOutcome::TooLarge => panic!("no room"),
        }
        assert_eq!(state(&cache), before);
        assert_eq!(serial_end(&case.blocks, cache, &store), expected);
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

/// A read of the store fails, once or for good: the window is odd, and the cache is as before. The
/// serial code goes on, or names the error.
#[test]
fn a_read_that_fails_is_odd() {
    let pool = pool(1);
    let mut failed = 0;
    for (number, case) in cases(150).enumerate() {
        let (cache, store) = case.cache();
        let expected = serial_end(&case.blocks, cache, &store);
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
                assert!(matches!(outcome, WindowOutcome::Odd), "{outcome:?}");
                assert_eq!(state(&cache), before);
                if is_for_good {
                    store.fail(0..u64::MAX);
                    let (undo, error) = serially(&case.blocks, &mut cache);
                    assert_eq!(error.as_deref(), Some("coin store: a fault of the test"));
                    // The blocks that were resolved before it are taken back.
                    store.fail(0..0);
                    for (planned, undo) in case.blocks.iter().zip(&undo).rev() {
                        let outline = Outline::new(&planned.block, cache.hash_key());
                        assert!(resolve::disconnect(&planned.block, &outline, undo, &mut cache).unwrap());
                    }
                    assert_eq!(state(&cache).0, before.0);
                    let verdict = serially(&case.blocks, &mut cache);
                    flush(&mut cache);
                    failed += u32::from(verdict.1.is_none());
                } else {
                    assert_eq!(serial_end(&case.blocks, cache, &store), expected);
                }
            }
        }
    }
    assert!(failed > 50, "{failed}");
}

//! Deferred signature checks.

use super::*;

const THREADS: [usize; 3] = [1, 2, 8];

fn pool(threads: usize) -> (Arc<Counting>, CheckPool<Counting>) {
    let verifier = Arc::new(Counting::default());
    let pool = CheckPool::new(Arc::clone(&verifier), threads).unwrap();
    (verifier, pool)
}

fn defer(pool: &CheckPool<Counting>, inputs: &[usize], special: &[(i64, i64)]) -> Option<CheckFailure> {
    run(pool, inputs, special, true)
}

fn begin(pool: &CheckPool<Counting>, inputs: &[usize], special: &[(i64, i64)]) -> PendingChecks<Counting> {
    pool.begin(&block(inputs), &undo(inputs, special), ScriptFlags::NONE, 0, true)
}

fn once(counts: &Mutex<HashMap<i64, usize>>) -> usize {
    let counts = lock(counts);
    assert!(counts.values().all(|&count| count == 1), "{counts:?}");
    counts.len()
}

fn is_broken(failure: &CheckFailure) -> bool {
    matches!(failure.error, VerifyError::Verifier(_))
}

#[test]
fn every_script_is_run_and_decided_once() {
    for threads in THREADS {
        for inputs in [&[1][..], &[3, 500, 1, 700], &[1; 300], &[8; 40]] {
            let (verifier, pool) = pool(threads);
            let count = inputs.iter().sum::<usize>();
            // All kinds that pass, some of them at once.
            let special: Vec<_> = (1..=count as i64)
                .map(|input| (input, [0, PUT_OFF, PUT_OFF, AGAIN][input as usize % 4]))
                .collect();
            assert_eq!(defer(&pool, inputs, &special), None);
            assert_eq!(once(&verifier.verified), count);
            let deferred = special.iter().filter(|special| special.1 > 0);
            assert_eq!(once(&verifier.decided), deferred.count());
            assert_eq!(
                verifier.again.load(Ordering::Relaxed),
                special.iter().filter(|special| special.1 == AGAIN).count()
            );
            assert_eq!(pool.deferred_memory(), 0);
        }
    }
}

#[test]
fn the_lowest_failure_is_found_wherever_it_is_found() {
    let kinds = [INVALID, PUT_OFF_INVALID, AGAIN_INVALID, AGAIN_REFUSED];
    for threads in THREADS {
        let (_, pool) = pool(threads);
        for round in 0..60 {
            for (number, first) in kinds.into_iter().enumerate() {
                let second = kinds[(number + round) % kinds.len()];
                let lowest = 1 + (round as i64 * 17) % 900;
                let mut special = vec![(lowest, first), (lowest + 1, second), (1_000, second), (1_300, INVALID)];
                let background = all([PUT_OFF, AGAIN][round % 2], 1..=1_300);
                special.extend(background.into_iter().step_by(1 + round % 5));
                let failure = defer(&pool, &[10, 990, 7, 293], &special).unwrap();
                assert_eq!((failure.input, failure.error), (lowest as usize, VerifyError::Invalid));
                assert_eq!(defer(&pool, &[100, 100], &all(PUT_OFF, 1..=200)), None);
            }
        }
    }
}

#[test]
fn blocks_that_defer_and_blocks_that_do_not() {
    for threads in THREADS {
        let (_, pool) = pool(threads);
        for round in 0..50i64 {
            let inputs = [5, 20, 1];
            let pending: Vec<_> = (0..20i64)
                .map(|number| {
                    let kind = if (number + round) % 7 == 0 {
                        PUT_OFF_INVALID
                    } else {
                        AGAIN
                    };
                    let special = [all(PUT_OFF, 1..=20), vec![(21, kind)]].concat();
                    let undo = undo(&inputs, &special);
                    pool.begin(&block(&inputs), &undo, ScriptFlags::NONE, 0, (number + round) % 3 > 0)
                })
                .collect();
            for (number, pending) in (0..).zip(pending) {
                let expected = ((number + round) % 7 == 0).then_some(20 + 1);
                let failure = pending.finish().failure;
                assert_eq!(failure.map(|failure| failure.input), expected);
            }
        }
    }
}

#[test]
fn batches_gather_over_blocks() {
    for threads in [1, 2] {
        let (verifier, pool) = pool(threads);
        let blocks = 60;
        let mut pending: Vec<_> = (0..blocks).map(|_| begin(&pool, &[1], &all(PUT_OFF, 1..=1))).collect();
        for pending in &mut pending {
            pending.end_round();
        }
        let memory = pool.deferred_memory();
        assert!(memory > 0 && memory < threads * TOGETHER * 100, "{memory}");
        assert!(lock(&verifier.batches).iter().all(|&scripts| scripts == TOGETHER));
        for pending in pending {
            assert_eq!(pending.finish().failure, None);
        }
        let batches = lock(&verifier.batches).len();
        assert!(batches <= blocks / TOGETHER + threads, "{batches} batches");
    }
}

#[test]
fn a_round_gives_up_its_slot_before_its_scripts_are_decided() {
    let (_, pool) = pool(2);
    let mut pending = Vec::new();
    for _ in 0..4 {
        let mut checks = begin(&pool, &[3], &all(PUT_OFF, 1..=3));
        assert!(checks.end_round() && !checks.end_round() && checks.is_round_over());
        assert!(!checks.is_done());
        pending.push(checks);
    }
    assert_eq!(pool.verify_some(), None);
    for checks in &mut pending[1..] {
        assert!(!checks.is_done());
    }
    // One that is finished verifies all.
    assert_eq!(pending.remove(0).finish().failure, None);
    assert!(pending.iter_mut().all(PendingChecks::is_done));
}

#[test]
fn what_would_fill_lanes_is_verified_by_who_has_nothing_else_to_do() {
    let (verifier, pool) = pool(1);
    let mut checks = begin(&pool, &[TOGETHER - 1], &all(PUT_OFF, 1..=31));
    assert_eq!(pool.verify_some(), None);
    let mut more = begin(&pool, &[2], &all(PUT_OFF, 1..=2));
    assert!(checks.is_done() && !more.is_done());
    assert_eq!(*lock(&verifier.batches), [TOGETHER]);
}

#[test]
fn lost_scripts_and_panics_fail_their_blocks() {
    for threads in THREADS {
        for kind in [SETTLING_PANICS, LOST, FORGOTTEN] {
            let (_, pool) = pool(threads);
            let special = [all(PUT_OFF, 1..=100), vec![(101, kind), (102, PUT_OFF_INVALID)]].concat();
            let failure = defer(&pool, &[40, 62], &special).unwrap();
            assert!(is_broken(&failure), "{failure:?}");
            // A panic of a check, while others are deferred.
            let failure = defer(&pool, &[40, 62], &[all(PUT_OFF, 1..=100), vec![(101, PANICS)]].concat());
            assert!(is_broken(&failure.unwrap()));
            if kind != FORGOTTEN {
                assert_eq!(defer(&pool, &[50, 50], &all(AGAIN, 1..=100)), None);
                assert_eq!(pool.deferred_memory(), 0);
            }
        }
    }
}

#[test]
fn scripts_of_abandoned_blocks_are_not_run_again_and_hold_nothing() {
    for threads in THREADS {
        let (verifier, pool) = pool(threads);
        let (block, undo) = (block(&[20]), undo(&[20], &all(AGAIN, 1..=20)));
        let mut checks = pool.begin(&block, &undo, ScriptFlags::NONE, 0, true);
        checks.end_round();
        drop(checks);
        assert!(Arc::strong_count(&block) > 1);
        // They do not disturb other blocks.
        let other = begin(&pool, &[2], &all(AGAIN, 1..=2));
        pool.verify_abandoned();
        assert_eq!((Arc::strong_count(&block), Arc::strong_count(&undo)), (1, 1));
        assert_eq!(other.finish().failure, None);
        assert_eq!(verifier.again.load(Ordering::Relaxed), 2);
        assert_eq!(pool.deferred_memory(), 0);
    }
}

#[test]
fn blocks_abandoned_under_way() {
    for threads in [2, 8] {
        let (_, pool) = pool(threads);
        for round in 0..300 {
            let checks = begin(&pool, &[3, 40, 9], &all([PUT_OFF, AGAIN][round % 2], 1..=52));
            checks.help(round as u32 % 4);
            drop(checks);
            assert_eq!(defer(&pool, &[10], &all(AGAIN, 1..=10)), None);
        }
    }
}

#[test]
fn a_pool_that_goes_first_takes_its_scripts_along() {
    for threads in THREADS {
        let (_, pool) = pool(threads);
        let (block, undo) = (block(&[20]), undo(&[20], &all(AGAIN, 1..=20)));
        let checks = pool.begin(&block, &undo, ScriptFlags::NONE, 0, true);
        drop(pool);
        assert_eq!(checks.finish().failure, None);
        assert_eq!((Arc::strong_count(&block), Arc::strong_count(&undo)), (1, 1));
    }
}

#[test]
fn several_masters_share_a_pool() {
    let (_, pool) = pool(4);
    std::thread::scope(|scope| {
        for master in 0..4i64 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..200i64 {
                    let lowest = 1 + (round * 7 + master) % 60;
                    let special = [vec![(lowest, AGAIN_INVALID)], all(AGAIN, 1..=60)].concat();
                    let failure = defer(pool, &[5, 55], &special).unwrap();
                    assert_eq!((failure.input, failure.error), (lowest as usize, VerifyError::Invalid));
                }
            });
        }
    });
}

//! The queue through its public interface: the cases in the tests of `CCheckQueue`
//! (`checkqueue_tests.cpp`), and rounds that overlap.

use blockmill_checkqueue::{Check, CheckQueue, Fault, ROUNDS_MAX, Round};
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A record of what the checks of a round did.
#[derive(Default)]
struct Board {
    run: Vec<AtomicUsize>,
    destroyed: AtomicUsize,
    /// While this is set, checks with [`Act::Wait`] wait.
    frozen: AtomicBool,
}

impl Board {
    fn new(checks: usize) -> Arc<Self> {
        Arc::new(Self {
            run: (0..checks).map(|_| AtomicUsize::new(0)).collect(),
            ..Self::default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Pass,
    Fail,
    Panic,
    /// Waits while the board is frozen.
    Wait,
    /// Panics on its drop.
    PanicAtTheEnd,
}

struct TestCheck {
    index: usize,
    act: Act,
    board: Arc<Board>,
}

impl TestCheck {
    fn passing(board: &Arc<Board>) -> impl Fn(usize) -> Self + use<> {
        let board = Arc::clone(board);
        move |index| Self {
            index,
            act: Act::Pass,
            board: Arc::clone(&board),
        }
    }

    fn with(mut self, act: Act) -> Self {
        self.act = act;
        self
    }
}

impl Check for TestCheck {
    /// Dropped with the round.
    type Shared = Arc<Board>;
    type Error = usize;

    fn run(&mut self, shared: &Arc<Board>) -> Result<(), usize> {
        shared.run[self.index].fetch_add(1, Ordering::Relaxed);
        match self.act {
            Act::Pass | Act::PanicAtTheEnd => {}
            Act::Fail => return Err(self.index),
            Act::Panic => panic!("check {}", self.index),
            Act::Wait => {
                while shared.frozen.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }
}

impl Drop for TestCheck {
    fn drop(&mut self) {
        // Release: a thread that sees this count sees the check's failure too.
        self.board.destroyed.fetch_add(1, Ordering::Release);
        if self.act == Act::PanicAtTheEnd {
            panic!("end of check {}", self.index);
        }
    }
}

fn queue(workers: usize) -> CheckQueue<TestCheck> {
    CheckQueue::with_own_threads(workers).unwrap()
}

fn begin(queue: &CheckQueue<TestCheck>, capacity: usize, board: &Arc<Board>) -> Round<TestCheck> {
    queue.begin(capacity, Arc::clone(board)).unwrap()
}

/// A generator of its own, so that failures can be reproduced.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Adds `checks` checks in groups of 1 to 10, as real masters do.
fn add_in_groups(round: &mut Round<TestCheck>, checks: usize, rng: &mut Rng, check: impl Fn(usize) -> TestCheck) {
    let mut added = 0;
    while added < checks {
        let group = (1 + rng.below(10)).min(checks - added);
        round.add((added..added + group).map(&check));
        added += group;
    }
}

/// Runs a round of `checks` checks. All run once and are destroyed, and the memory of the round is
/// freed.
fn correct_round(queue: &CheckQueue<TestCheck>, checks: usize, capacity: usize) {
    let board = Board::new(checks);
    let mut round = begin(queue, capacity, &board);
    let mut rng = Rng(checks as u64 + 1);
    add_in_groups(&mut round, checks, &mut rng, TestCheck::passing(&board));
    assert_eq!((round.len(), round.is_empty()), (checks, checks == 0));
    round.complete().unwrap();
    assert!(board.run.iter().all(|run| run.load(Ordering::Relaxed) == 1));
    assert_eq!(board.destroyed.load(Ordering::Relaxed), checks);
    // Neither the checks nor the round hold the board any more.
    assert_eq!(Arc::strong_count(&board), 1);
}

#[test]
fn every_check_runs_once_and_is_gone_at_the_end() {
    for workers in [0, 1, 3, 16] {
        let queue = queue(workers);
        let mut rng = Rng(7);
        for checks in [0, 1, 2, 1_000, 100_000] {
            correct_round(&queue, checks, checks);
        }
        for _ in 0..20 {
            let checks = rng.below(3_000);
            correct_round(&queue, checks, checks);
        }
    }
}

#[test]
fn checks_beyond_the_capacity_are_run_too() {
    for workers in [0, 2] {
        let queue = queue(workers);
        for capacity in [0, 1, 99, 100] {
            correct_round(&queue, 100, capacity);
        }
        let board = Board::new(100);
        let mut round = begin(&queue, 10, &board);
        let check = TestCheck::passing(&board);
        round.add((0..100).map(|index| {
            check(index).with(if index == 50 || index == 70 {
                Act::Fail
            } else {
                Act::Pass
            })
        }));
        assert_eq!(round.complete().unwrap_err().index, 50);
        assert_eq!(board.run[70].load(Ordering::Relaxed), 0);
    }
}

#[test]
fn the_lowest_failure_is_returned_and_the_next_round_is_sound() {
    for workers in [0, 1, 4, 16] {
        let queue = queue(workers);
        let mut rng = Rng(11 + workers as u64);
        for _ in 0..300 {
            let checks = 1 + rng.below(200);
            let acts: Vec<Act> = (0..checks)
                .map(|_| match rng.below(40) {
                    0 => Act::Fail,
                    1 => Act::Panic,
                    2 => Act::PanicAtTheEnd,
                    _ => Act::Pass,
                })
                .collect();
            let board = Board::new(checks);
            let mut round = begin(&queue, checks, &board);
            let check = TestCheck::passing(&board);
            add_in_groups(&mut round, checks, &mut rng, |index| check(index).with(acts[index]));
            let expected = acts.iter().position(|&act| act == Act::Fail || act == Act::Panic);
            let verdict = round.complete();
            // A check that panics on its drop may do so without having run.
            let at_the_end = acts.iter().position(|&act| act == Act::PanicAtTheEnd);
            let lowest = [expected, at_the_end].into_iter().flatten().min();
            match (verdict, lowest) {
                (Ok(()), None) => {}
                (Err(failure), Some(index)) => {
                    assert_eq!(failure.index, index);
                    match failure.fault {
                        Fault::Failed(found) => assert_eq!((found, acts[index]), (index, Act::Fail)),
                        Fault::Panicked(panic) => {
                            assert!(panic.message().ends_with(&format!("check {index}")), "{panic}");
                        }
                    }
                }
                (verdict, lowest) => panic!("{verdict:?}, expected {lowest:?}"),
            }
            assert_eq!(board.destroyed.load(Ordering::Relaxed), checks);
            let before = lowest.unwrap_or(checks);
            assert!(board.run[..before].iter().all(|run| run.load(Ordering::Relaxed) == 1));
            assert!(board.run[before..].iter().all(|run| run.load(Ordering::Relaxed) <= 1));
            correct_round(&queue, 50, 50);
        }
    }
}

#[test]
fn checks_after_a_failure_are_not_run() {
    let queue = queue(2);
    let board = Board::new(10_000);
    let mut round = begin(&queue, 10_000, &board);
    let check = TestCheck::passing(&board);
    round.add([check(0).with(Act::Fail)]);
    let start = Instant::now();
    while board.destroyed.load(Ordering::Acquire) == 0 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "workers do not begin with the first check"
        );
        std::thread::yield_now();
    }
    round.add((1..10_000).map(check));
    assert_eq!(round.complete().unwrap_err().index, 0);
    assert!(board.run[1..].iter().all(|run| run.load(Ordering::Relaxed) == 0));
    assert_eq!(board.destroyed.load(Ordering::Relaxed), 10_000);
}

/// Workers begin during one call too. The slow iterator here waits until half of its checks have
/// run.
#[test]
fn workers_begin_while_checks_are_added() {
    let queue = queue(1);
    let board = Board::new(600);
    let mut round = begin(&queue, 600, &board);
    let check = TestCheck::passing(&board);
    let start = Instant::now();
    round.add((0..600).map(|index| {
        while board.destroyed.load(Ordering::Acquire) < index / 2 {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "of {index} checks less than half were begun"
            );
            std::thread::yield_now();
        }
        check(index)
    }));
    round.complete().unwrap();
}

/// An error that panics on its drop.
#[derive(Debug)]
struct BadError;

impl Drop for BadError {
    fn drop(&mut self) {
        panic!("an error's drop");
    }
}

struct Fails;

impl Check for Fails {
    type Shared = Arc<AtomicUsize>;
    type Error = BadError;

    fn run(&mut self, shared: &Self::Shared) -> Result<(), BadError> {
        shared.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        Err(BadError)
    }
}

/// The queue drops failures that are not the lowest. These drops may panic.
#[test]
fn errors_that_panic_when_they_are_dropped() {
    for workers in [0, 1, 4] {
        let queue = CheckQueue::with_own_threads(workers).unwrap();
        for _ in 0..20 {
            let run = Arc::default();
            let mut round = queue.begin(8, Arc::clone(&run)).unwrap();
            round.add((0..8).map(|_| Fails));
            let failure = round.complete().unwrap_err();
            assert_eq!(failure.index, 0);
            assert!(run.load(Ordering::Relaxed) > 0);
            std::mem::forget(failure);
        }
    }
}

/// A round does not end while one of its checks is running, though all others have passed.
#[test]
fn a_round_waits_for_a_frozen_check() {
    let queue = Arc::new(queue(2));
    let board = Board::new(3);
    board.frozen.store(true, Ordering::Release);
    let mut round = begin(&queue, 3, &board);
    let check = TestCheck::passing(&board);
    round.add((0..3).map(|index| check(index).with(if index == 1 { Act::Wait } else { Act::Pass })));
    let ended = Arc::new(AtomicBool::new(false));
    let master = {
        let ended = Arc::clone(&ended);
        std::thread::spawn(move || {
            round.complete().unwrap();
            ended.store(true, Ordering::Release);
        })
    };
    std::thread::sleep(Duration::from_millis(30));
    assert!(!ended.load(Ordering::Acquire));
    assert!(board.destroyed.load(Ordering::Relaxed) <= 2);
    board.frozen.store(false, Ordering::Release);
    master.join().unwrap();
    assert_eq!(board.destroyed.load(Ordering::Relaxed), 3);
}

#[test]
fn thousands_of_short_rounds() {
    for workers in [1, 8] {
        let queue = queue(workers);
        for number in 0..3_000 {
            correct_round(&queue, number % 5, 5);
        }
        assert_eq!(queue.open_rounds(), 0);
    }
}

/// Rounds that are open at once and end in any order, some with failures. Each has its own verdict.
#[test]
fn rounds_overlap_without_nesting() {
    for workers in [0, 1, 2, 8] {
        let queue = queue(workers);
        let mut rng = Rng(3 + workers as u64);
        let mut open = Vec::new();
        for number in 0..400 {
            let board = Board::new(30);
            let mut round = begin(&queue, 30, &board);
            let failing = rng.below(60);
            let check = TestCheck::passing(&board);
            add_in_groups(&mut round, 30, &mut rng, |index| {
                check(index).with(if index == failing { Act::Fail } else { Act::Pass })
            });
            drop(check);
            open.push((round.close(), board, failing));
            while open.len() > 8 || (number == 399 && !open.is_empty()) {
                let (round, board, failing) = open.swap_remove(rng.below(open.len()));
                let failure = round.wait().err().map(|failure| failure.index);
                assert_eq!(failure, Some(failing).filter(|&failing| failing < 30));
                assert_eq!(board.destroyed.load(Ordering::Relaxed), 30);
                assert_eq!(Arc::strong_count(&board), 1);
            }
        }
        assert_eq!(queue.open_rounds(), 0);
    }
}

#[test]
fn the_oldest_round_is_served_first() {
    let queue = queue(1);
    // The worker is held up in a round of its own.
    let holding = Board::new(1);
    holding.frozen.store(true, Ordering::Release);
    let mut hold = begin(&queue, 1, &holding);
    hold.add([TestCheck::passing(&holding)(0).with(Act::Wait)]);
    while holding.run[0].load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let old = Board::new(100);
    let young = Board::new(100);
    let mut old_round = begin(&queue, 100, &old);
    let mut young_round = begin(&queue, 100, &young);
    // The older round gets its checks later.
    young_round.add((0..100).map(TestCheck::passing(&young)));
    old_round.add((0..100).map(TestCheck::passing(&old)));
    holding.frozen.store(false, Ordering::Release);
    let young_round = young_round.close();
    let start = Instant::now();
    while !young_round.is_done() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(old.destroyed.load(Ordering::Relaxed), 100);
    for round in [hold.close(), old_round.close(), young_round] {
        round.wait().unwrap();
    }
}

#[test]
fn several_masters_and_another_work_source() {
    let pool = ThreadPool::new(&ThreadPoolOptions::workers(3)).unwrap();
    let first = CheckQueue::<TestCheck>::new(&pool, 1);
    let second = CheckQueue::<TestCheck>::new(&pool, 0);
    assert_eq!(first.workers(), 3);
    std::thread::scope(|scope| {
        for master in 0..4 {
            let queue = if master % 2 == 0 { &first } else { &second };
            scope.spawn(move || {
                for number in 0..200 {
                    correct_round(queue, number, number);
                }
            });
        }
    });
}

#[test]
fn a_round_that_is_dropped_is_abandoned() {
    for workers in [0, 2] {
        let queue = queue(workers);
        for closed in [false, true] {
            let board = Board::new(1_000);
            let mut round = begin(&queue, 1_000, &board);
            round.add((0..1_000).map(TestCheck::passing(&board)));
            if closed {
                drop(round.close());
            } else {
                drop(round);
            }
            assert_eq!(board.destroyed.load(Ordering::Relaxed), 1_000);
            assert_eq!(Arc::strong_count(&board), 1);
            assert_eq!(queue.open_rounds(), 0);
        }
    }
}

/// Leaking a round leaks at most its slot, and nothing is used after it is freed.
#[test]
fn a_round_can_be_forgotten() {
    let queue = queue(2);
    let boards: Vec<_> = (0..3).map(|_| Board::new(500)).collect();
    for (number, board) in boards.iter().enumerate() {
        let mut round = begin(&queue, 500, board);
        round.add((0..500).map(TestCheck::passing(board)));
        if number == 0 {
            std::mem::forget(round);
        } else {
            std::mem::forget(round.close());
        }
        correct_round(&queue, 100, 100);
    }
    assert_eq!(queue.open_rounds(), 3);
    for board in &boards {
        let start = Instant::now();
        while board.destroyed.load(Ordering::Relaxed) < 500 {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
    }
}

#[test]
fn no_more_rounds_than_slots() {
    let queue = queue(1);
    let board = Board::new(0);
    let mut rounds: Vec<_> = (0..ROUNDS_MAX).map(|_| begin(&queue, 0, &board)).collect();
    let error = queue.begin(0, Arc::clone(&board)).unwrap_err();
    assert!(Arc::ptr_eq(&error.0, &board));
    assert_eq!(error.to_string(), "64 rounds are open already");
    rounds.swap_remove(17).complete().unwrap();
    correct_round(&queue, 10, 10);
    drop(rounds);
    assert_eq!(queue.open_rounds(), 0);
}

#[test]
fn a_round_outlives_its_queue() {
    let queue = queue(2);
    let board = Board::new(1_000);
    let mut round = begin(&queue, 1_000, &board);
    round.add((0..500).map(TestCheck::passing(&board)));
    drop(queue);
    round.add((500..1_000).map(TestCheck::passing(&board)));
    round.complete().unwrap();
    assert_eq!(board.destroyed.load(Ordering::Relaxed), 1_000);
    assert!(board.run.iter().all(|run| run.load(Ordering::Relaxed) == 1));
}

#[test]
fn checks_made_before_an_iterator_panics_are_kept() {
    let queue = queue(1);
    let board = Board::new(10);
    let mut round = begin(&queue, 10, &board);
    let check = TestCheck::passing(&board);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        round.add((0..10).map(|index| {
            assert!(index < 4, "no check {index}");
            check(index)
        }));
    }));
    assert!(caught.is_err());
    assert_eq!(round.len(), 4);
    round.complete().unwrap();
    assert_eq!(board.destroyed.load(Ordering::Relaxed), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The verdict on any checks in any groups is that of running them one by one.
    #[test]
    fn verdicts_are_those_of_one_thread(
        groups in proptest::collection::vec(proptest::collection::vec(0u8..30, 0..12), 0..20),
        workers in 0usize..5,
        spare in 0usize..10,
    ) {
        let queue = queue(workers);
        let acts: Vec<u8> = groups.concat();
        let board = Board::new(acts.len());
        let mut round = begin(&queue, acts.len().saturating_sub(spare), &board);
        let mut index = 0;
        for group in &groups {
            let check = TestCheck::passing(&board);
            let first = index;
            round.add(group.iter().enumerate().map(|(offset, &act)| check(first + offset).with(if act == 0 { Act::Fail } else { Act::Pass })));
            index += group.len();
        }
        let found = round.complete().err().map(|failure| failure.index);
        prop_assert_eq!(found, acts.iter().position(|&act| act == 0));
        prop_assert_eq!(board.destroyed.load(Ordering::Relaxed), acts.len());
    }
}

/// A check that needs no drop and does next to nothing. It fails at the given indexes.
struct Cheap(u32);

impl Check for Cheap {
    type Shared = [u32; 3];
    type Error = u32;

    fn run(&mut self, failing: &[u32; 3]) -> Result<(), u32> {
        if failing.contains(&self.0) { Err(self.0) } else { Ok(()) }
    }
}

#[test]
fn verdicts_on_checks_that_need_no_drop() {
    const CHECKS: u32 = 3_000;
    for workers in [0, 1, 2, 8] {
        let queue = CheckQueue::<Cheap>::with_own_threads(workers).unwrap();
        let mut rng = Rng(5 + workers as u64);
        for number in 0..200 {
            let mut failing = [0; 3].map(|_| rng.below(4 * CHECKS as usize) as u32);
            if number % 3 == 0 {
                failing = [CHECKS; 3];
            }
            let mut round = queue.begin(CHECKS as usize, failing).unwrap();
            let mut added = 0;
            while added < CHECKS {
                let group = (1 + rng.below(400) as u32).min(CHECKS - added);
                round.add((added..added + group).map(Cheap));
                added += group;
            }
            let expected = failing.into_iter().min().filter(|&lowest| lowest < CHECKS);
            let found = round.complete().err().map(|failure| {
                assert!(matches!(failure.fault, Fault::Failed(index) if index as usize == failure.index));
                failure.index as u32
            });
            assert_eq!(found, expected);
        }
    }
}

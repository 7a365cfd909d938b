//! Models of a round. Loom reports each access without an order, to a check, to what checks share,
//! or to freed entries.

use super::{WEAKENED, Weakened, model};
use crate::check::{Check, Fault};
use crate::round::{RoundSlot, WorkerSlots, all_idle};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// What a round shares: a cell that checks read, and that the master writes after the round.
struct Board {
    cell: Arc<UnsafeCell<u32>>,
    run: Arc<AtomicUsize>,
}

#[expect(unsafe_code, reason = "the model is about this access")]
// SAFETY: loom checks the accesses to the cell.
unsafe impl Sync for Board {}
#[expect(unsafe_code, reason = "the model is about this access")]
// SAFETY: as for Sync.
unsafe impl Send for Board {}

/// A check that fails if `fails` is set.
struct TestCheck {
    fails: bool,
    destroyed: Arc<AtomicUsize>,
}

impl Check for TestCheck {
    type Shared = Board;
    type Error = u32;

    fn run(&mut self, board: &Board) -> Result<(), u32> {
        board.run.fetch_add(1, Ordering::Relaxed);
        let value = board.cell.with(|cell| {
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: loom checks the access.
            unsafe {
                *cell
            }
        });
        if self.fails { Err(value) } else { Ok(()) }
    }
}

impl Drop for TestCheck {
    fn drop(&mut self) {
        self.destroyed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A slot, and the state of its workers. Leaked: where loom reports a fault, a drop would panic
/// once more.
struct Fixture {
    slot: RoundSlot<TestCheck>,
    worker_slots: Box<WorkerSlots>,
}

impl Fixture {
    fn new(workers: usize) -> &'static Self {
        Box::leak(Box::new(Self {
            slot: RoundSlot::new(workers + 1),
            worker_slots: all_idle(workers),
        }))
    }

    /// Serves `times` times as a worker does.
    fn serve(&self, worker: usize, times: usize) {
        for _ in 0..times {
            if self.slot.pending() > 0 {
                self.slot.serve(0, &self.worker_slots[worker], 2);
            }
        }
    }

    /// Runs a round of checks, some of which fail, and publishes `together` checks at a time.
    /// Returns the lowest failure.
    fn round(&self, fails: &[bool], capacity: u32, together: u32) -> Option<usize> {
        let cell = Arc::new(UnsafeCell::new(5));
        let run = Arc::new(AtomicUsize::new(0));
        let destroyed = Arc::new(AtomicUsize::new(0));
        let board = Board {
            cell: Arc::clone(&cell),
            run: Arc::clone(&run),
        };
        self.slot.begin(board);
        self.slot.allocate(capacity);
        for (index, &fails) in (0..).zip(fails) {
            let check = TestCheck {
                fails,
                destroyed: Arc::clone(&destroyed),
            };
            match self.slot.construct(index, index, check) {
                Ok(()) if (index + 1) % together == 0 => self.slot.publish(index + 1),
                Ok(()) => {}
                Err(check) => self.slot.run_and_drop(index, check),
            }
        }
        self.slot.run_claimed(u32::MAX);
        self.slot.wait_until_done(0, &self.worker_slots);
        let failure = self.slot.end();
        // All checks are destroyed, and no thread reads what they shared.
        assert_eq!(destroyed.load(Ordering::Relaxed), fails.len());
        if failure.is_none() {
            assert_eq!(run.load(Ordering::Relaxed), fails.len());
        }
        cell.with_mut(|cell| {
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: loom checks the access.
            unsafe {
                *cell = 6;
            }
        });
        failure.map(|failure| {
            assert!(matches!(failure.fault, Fault::Failed(5)));
            failure.index
        })
    }
}

fn rounds(workers: usize, preemptions: usize, fails: &'static [&'static [bool]], capacity: u32) {
    rounds_in_groups(workers, preemptions, fails, capacity, 1);
}

/// With 4 checks published together, a claim takes 2 of them.
fn rounds_in_groups(
    workers: usize,
    preemptions: usize,
    fails: &'static [&'static [bool]],
    capacity: u32,
    together: u32,
) {
    model(preemptions, move || {
        let fixture = Fixture::new(workers);
        let threads: Vec<_> = (0..workers)
            .map(|worker| thread::spawn(move || fixture.serve(worker, 3 - workers)))
            .collect();
        for fails in fails {
            let expected = fails.iter().position(|&fails| fails);
            assert_eq!(fixture.round(fails, capacity, together), expected);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_worker_and_the_master_share_a_round() {
    rounds(1, 3, &[&[false, false]], 2);
}

#[test]
fn two_workers_and_the_master_share_a_round() {
    rounds(2, 2, &[&[false, false]], 2);
}

#[test]
fn a_slot_is_used_again() {
    rounds(1, 3, &[&[false], &[false]], 1);
}

#[test]
fn the_lowest_failure_is_found() {
    rounds(1, 2, &[&[false, true, true]], 3);
    rounds(2, 1, &[&[true, true]], 2);
}

#[test]
fn checks_run_inline_count_too() {
    rounds(1, 3, &[&[false, true, true]], 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_publication_is_caught() {
    WEAKENED.set(Weakened::Publish);
    rounds(1, 3, &[&[false, false]], 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_leave_is_caught() {
    WEAKENED.set(Weakened::Leave);
    rounds(1, 3, &[&[false, false]], 2);
}

#[test]
fn several_are_claimed_at_once() {
    rounds_in_groups(1, 2, &[&[false; 4]], 4, 4);
    rounds_in_groups(2, 1, &[&[false; 4]], 4, 4);
}

#[test]
fn a_slot_is_used_again_after_claims_of_several() {
    rounds_in_groups(1, 1, &[&[false; 4], &[false; 4]], 4, 4);
}

#[test]
fn the_lowest_failure_is_found_among_claims_of_several() {
    rounds_in_groups(1, 2, &[&[false, true, false, true]], 4, 4);
    rounds_in_groups(1, 2, &[&[false, false, true, true]], 4, 4);
    rounds_in_groups(2, 1, &[&[true, true, false, true]], 4, 4);
}

/// The indexes of entries have gaps where the master ran a check itself.
#[test]
fn indexes_may_have_gaps() {
    model(2, || {
        let fixture = Fixture::new(1);
        let worker = thread::spawn(move || fixture.serve(0, 2));
        let cell = Arc::new(UnsafeCell::new(5));
        let run = Arc::new(AtomicUsize::new(0));
        let destroyed = Arc::new(AtomicUsize::new(0));
        let check = |fails| TestCheck {
            fails,
            destroyed: Arc::clone(&destroyed),
        };
        fixture.slot.begin(Board { cell, run });
        fixture.slot.allocate(2);
        assert!(fixture.slot.construct(0, 0, check(false)).is_ok());
        fixture.slot.publish(1);
        fixture.slot.run_and_drop(1, check(true));
        assert!(fixture.slot.construct(1, 2, check(true)).is_ok());
        fixture.slot.publish(2);
        fixture.slot.run_claimed(u32::MAX);
        fixture.slot.wait_until_done(0, &fixture.worker_slots);
        assert_eq!(fixture.slot.end().map(|failure| failure.index), Some(1));
        assert_eq!(destroyed.load(Ordering::Relaxed), 3);
        worker.join().unwrap();
    });
}

/// The planted weakening: the master sees the last claim, and ends the round while a worker still
/// runs what it claimed.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_claim_of_several_is_caught() {
    WEAKENED.set(Weakened::Claim);
    rounds_in_groups(1, 3, &[&[false; 4]], 4, 4);
}

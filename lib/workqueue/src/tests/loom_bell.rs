//! Models of a requester that sleeps against servers that finish. A model in which a wake is lost ends in a deadlock, which loom reports.

use super::{WEAKENED, Weakened, model};
use crate::bell::{ANY, Bell, CLAIM, is_among, slot_of};
use blockmill_sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Bits of jobs that are done.
struct Desk {
    bell: Bell,
    done: AtomicU32,
}

impl Desk {
    /// Leaked: where loom reports a deadlock, dropping it would panic once more.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            bell: Bell::new(),
            done: AtomicU32::new(0),
        }))
    }

    fn finish(&self, slot: u32) {
        self.done.fetch_or(1 << slot, Ordering::Release);
        self.bell.tinkle(slot_of(0, slot));
        self.bell.ring(|target| target == ANY || is_among(target, 0, 1 << slot));
    }

    fn wait(&self, target: u64, bits: u32) {
        while self.done.load(Ordering::Acquire) & bits == 0 {
            self.bell
                .sleep(target, || self.done.load(Ordering::Acquire) & bits != 0);
        }
    }
}

fn one_job() {
    model(3, || {
        let desk = Desk::new();
        let server = thread::spawn(move || desk.finish(0));
        desk.wait(slot_of(0, 0), 1);
        server.join().unwrap();
    });
}

#[test]
fn a_requester_that_sleeps_is_woken_by_its_job() {
    one_job();
}

/// The planted weakening: without the fences the requester may sleep although its job is done.
#[test]
#[should_panic(expected = "deadlock")]
fn a_weaker_fence_is_caught() {
    WEAKENED.set(Weakened::Fence);
    one_job();
}

#[test]
fn a_requester_sleeps_again_and_again() {
    model(3, || {
        let desk = Desk::new();
        let server = thread::spawn(move || {
            desk.finish(0);
            desk.finish(1);
        });
        desk.wait(slot_of(0, 0), 1);
        desk.wait(slot_of(0, 1), 2);
        server.join().unwrap();
    });
}

#[test]
fn one_of_two_servers_wakes() {
    model(2, || {
        let desk = Desk::new();
        let servers = [0, 1].map(|slot| thread::spawn(move || desk.finish(slot)));
        desk.wait(ANY, 3);
        desk.wait(slot_of(0, 1), 2);
        for server in servers {
            server.join().unwrap();
        }
    });
}

#[test]
fn a_lane_that_is_left_wakes_who_wants_it() {
    model(3, || {
        let desk = Desk::new();
        let server = thread::spawn(move || {
            desk.done.store(1, Ordering::Release);
            desk.bell.ring(|target| target == CLAIM);
        });
        desk.wait(CLAIM, 1);
        server.join().unwrap();
    });
}

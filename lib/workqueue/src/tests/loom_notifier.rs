//! Models of a requester that sleeps and of servers that finish. A lost wake ends in a deadlock,
//! which loom reports.

use super::{WEAKENED, Weakened, model};
use crate::notifier::{ANY, CLAIM, Notifier, is_among, slot_target};
use blockmill_sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// The notifier, and the bits of finished jobs.
struct Fixture {
    notifier: Notifier,
    done: AtomicU32,
}

impl Fixture {
    /// Leaked: where loom reports a deadlock, a drop would panic once more.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            notifier: Notifier::new(),
            done: AtomicU32::new(0),
        }))
    }

    fn finish(&self, slot: u32) {
        self.done.fetch_or(1 << slot, Ordering::Release);
        self.notifier.try_notify(slot_target(0, slot));
        self.notifier
            .notify(|target| target == ANY || is_among(target, 0, 1 << slot));
    }

    fn wait(&self, target: u64, bits: u32) {
        while self.done.load(Ordering::Acquire) & bits == 0 {
            self.notifier
                .sleep(target, || self.done.load(Ordering::Acquire) & bits != 0);
        }
    }
}

fn one_job() {
    model(3, || {
        let fixture = Fixture::new();
        let server = thread::spawn(move || fixture.finish(0));
        fixture.wait(slot_target(0, 0), 1);
        server.join().unwrap();
    });
}

#[test]
fn a_requester_that_sleeps_is_woken_by_its_job() {
    one_job();
}

/// The planted weakening: without the fences the requester may sleep although its job is finished.
#[test]
#[should_panic(expected = "deadlock")]
fn a_weaker_fence_is_caught() {
    WEAKENED.set(Weakened::Fence);
    one_job();
}

#[test]
fn a_requester_sleeps_again_and_again() {
    model(3, || {
        let fixture = Fixture::new();
        let server = thread::spawn(move || {
            fixture.finish(0);
            fixture.finish(1);
        });
        fixture.wait(slot_target(0, 0), 1);
        fixture.wait(slot_target(0, 1), 2);
        server.join().unwrap();
    });
}

#[test]
fn one_of_two_servers_wakes() {
    model(2, || {
        let fixture = Fixture::new();
        let servers = [0, 1].map(|slot| thread::spawn(move || fixture.finish(slot)));
        fixture.wait(ANY, 3);
        fixture.wait(slot_target(0, 1), 2);
        for server in servers {
            server.join().unwrap();
        }
    });
}

#[test]
fn a_released_ring_wakes_the_requester_that_claims() {
    model(3, || {
        let fixture = Fixture::new();
        let server = thread::spawn(move || {
            fixture.done.store(1, Ordering::Release);
            fixture.notifier.notify(|target| target == CLAIM);
        });
        fixture.wait(CLAIM, 1);
        server.join().unwrap();
    });
}

//! Models of the events.

use super::{WEAKENED, model};
use crate::atomic::{AtomicU32, Ordering};
use crate::{AutoResetEvent, ManualResetEvent};
use loom::sync::Arc;
use loom::thread;

/// Two waiters see after `wait` what the main thread did before `set`.
fn two_waiters() {
    model(3, || {
        let shared = Arc::new((ManualResetEvent::new(), AtomicU32::new(0)));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.wait();
                    assert_eq!(shared.1.load(Ordering::Relaxed), 7);
                })
            })
            .collect();
        shared.1.store(7, Ordering::Relaxed);
        shared.0.set();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn a_manual_event_releases_all_waiters_and_publishes_earlier_writes() {
    two_waiters();
}

/// The planted weakening: without Acquire a waiter may miss the earlier write.
#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_weaker_wait_is_caught() {
    WEAKENED.set(true);
    two_waiters();
}

#[test]
fn an_auto_event_releases_one_waiter_for_each_set() {
    model(3, || {
        let shared = Arc::new((AutoResetEvent::new(), AtomicU32::new(0)));
        let waiter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.wait();
                assert_eq!(shared.1.load(Ordering::Relaxed), 7);
            })
        };
        shared.1.store(7, Ordering::Relaxed);
        shared.0.set();
        waiter.join().unwrap();
        // The event is clear again.
        shared.0.set();
        shared.0.wait();
    });
}

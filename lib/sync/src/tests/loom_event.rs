//! Models of the events.

use super::{WEAKENED, model};
use crate::atomic::{AtomicU32, Ordering};
use crate::{AutoResetEvent, ManualResetEvent};
use loom::sync::Arc;
use loom::thread;

/// What was done before `set` is seen after `wait`, by two who wait.
fn two_wait() {
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
fn a_manual_event_lets_all_go_on_and_shows_what_came_before() {
    two_wait();
}

/// The planted weakening: without Acquire what came before is not seen.
#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_weaker_wait_is_caught() {
    WEAKENED.set(true);
    two_wait();
}

#[test]
fn an_auto_event_lets_one_go_on_for_each_time() {
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
        // It has reset itself.
        shared.0.set();
        shared.0.wait();
    });
}

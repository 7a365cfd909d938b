//! Events on the real machine: hand-overs back and forth, and a completion signal whose waiter
//! frees it at once.

use blockmill_sync::{AutoResetEvent, ManualResetEvent};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn ping_and_pong() {
    let (ping, pong) = (AutoResetEvent::new(), AutoResetEvent::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                ping.wait();
                pong.set();
            }
        });
        for _ in 0..20_000 {
            ping.set();
            pong.wait();
        }
    });
    assert!(!ping.wait_timeout(Duration::ZERO));
    assert!(!pong.wait_timeout(Duration::ZERO));
}

#[test]
fn setting_twice_counts_once() {
    let event = AutoResetEvent::new();
    event.set();
    event.set();
    assert!(event.wait_timeout(Duration::ZERO));
    assert!(!event.wait_timeout(Duration::from_millis(1)));
}

/// The waiter may free the event after the swap in `set`, before the wake.
#[test]
fn a_waiter_may_free_the_event_as_soon_as_it_is_set() {
    for _ in 0..2_000 {
        let done = Arc::new(ManualResetEvent::new());
        let setter = Arc::clone(&done);
        let thread = std::thread::spawn(move || setter.set());
        done.wait();
        drop(done);
        thread.join().unwrap();
    }
}

//! What a service manager is told: when the command is ready, what it does, that it is alive.
//! Outside of a service (`NOTIFY_SOCKET`) nothing is said.

use sd_notify::NotifyState;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Least time between two messages that the command is alive.
const INTERVAL: Duration = Duration::from_secs(1);

static LAST: Mutex<Option<Instant>> = Mutex::new(None);

/// The command has caught up with its node.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The command ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The command does something, in words.
pub(crate) fn alive(status: &str) {
    let Ok(mut last) = LAST.lock() else {
        return;
    };
    if last.is_none_or(|last| last.elapsed() >= INTERVAL) {
        *last = Some(Instant::now());
        tell(&[NotifyState::Watchdog, NotifyState::Status(status)]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    // A manager that does not listen is no reason to stop.
    let _ = sd_notify::notify(states);
}

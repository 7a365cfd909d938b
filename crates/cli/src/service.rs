//! Notifications to a service manager: when the command is ready, what it does, that it is alive.
//! Outside of a service (`NOTIFY_SOCKET`) nothing is sent.
//!
//! The main loop of `follow` gives a sign of life wherever it passes: blocks, headers, a retry of
//! files that cannot be read, a lock that is in use. Between two signs may lie one long call: a
//! flush, an fsync of a slow disk, the opening of a large store. So a thread of its own sends
//! `WATCHDOG=1`, until the last sign is older than any such call.

use sd_notify::NotifyState;
use std::sync::Mutex;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time between two messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// A loop without a sign of life for this long counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(1_800);

/// When the last sign of life was, and when the last status was sent.
static LAST: Mutex<Option<(Instant, Instant)>> = Mutex::new(None);

/// Sends `WATCHDOG=1` from now on, while there are signs of life.
pub(crate) fn begin() {
    alive("starting");
    let interval = sd_notify::watchdog_enabled().map_or(INTERVAL, |limit| INTERVAL.min(limit / 3));
    let ping = move || {
        loop {
            let last = LAST.lock().ok().and_then(|last| *last);
            if last.is_some_and(|(sign, _)| sign.elapsed() < SILENCE_MAX) {
                send(&[NotifyState::Watchdog]);
            }
            std::thread::sleep(interval);
        }
    };
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        // Without a thread there are no messages, and the manager starts the command again.
        let _ = Builder::new().name("service".to_owned()).spawn(ping);
    }
}

/// The command has caught up with its node.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// The command ends.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Notes a sign of life. `status` says what the command does.
pub(crate) fn alive(status: &str) {
    let Ok(mut last) = LAST.lock() else {
        return;
    };
    let now = Instant::now();
    let sent = last.map(|(_, sent)| sent).filter(|sent| now - *sent < INTERVAL);
    *last = Some((now, sent.unwrap_or(now)));
    if sent.is_none() {
        send(&[NotifyState::Status(status)]);
    }
}

fn send(states: &[NotifyState<'_>]) {
    // A manager that does not listen is no reason to stop.
    let _ = sd_notify::notify(states);
}

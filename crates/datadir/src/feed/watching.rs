//! How feeds hear that there is more to tell.
//!
//! The process that connects blocks pays for each watch of its file, and for each thread that it
//! wakes. A feed alone has a watch of its own. The consumers of a server share one: a single thread
//! waits for the system, looks once for all, and wakes the consumers if there is more. It watches
//! while there are consumers.
//!
//! A waking has a number. A consumer notes the number before it looks, and waits for a later one,
//! so it misses no waking that comes while it tells of the one before.

use super::{Feed, FeedError};
use blockmill_blockfiles::{Watch, Woken};
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Before a feed tries again to tell what it could not.
const RETRY: Duration = Duration::from_millis(1_200);

/// What a feed waits for.
pub trait Watching {
    /// Waits until there may be more, or it is time to see whether the feed is wanted still. With
    /// `is_due` the feed could not tell what it has, and is to try again. False says that the
    /// process is to stop.
    fn wait(&mut self, is_due: bool) -> bool;

    /// Returns whether the feed has something to tell.
    ///
    /// # Errors
    /// As [`Feed::poll`].
    fn poll(&mut self, feed: &mut Feed) -> Result<bool, FeedError>;
}

/// Why a consumer does not take what a feed tells.
pub trait TellError: Display + From<FeedError> {
    /// Whether the consumer is to stop.
    fn is_stop(&self) -> bool;

    /// Whether the error may pass while the directory's writer goes on.
    fn may_pass(&self) -> bool;
}

/// Has `tell` tell what a feed has, and again each time there is more, until the watch ends or
/// `is_wanted` says no. What cannot be read for a while is told to `waits`, once, and tried again.
///
/// # Errors
/// What `tell` returns, or the feed, where it stays whatever the writer does.
pub fn follow<E: TellError>(
    feed: &mut Feed,
    watching: &mut dyn Watching,
    tell: &mut dyn FnMut(&mut Feed) -> Result<(), E>,
    is_wanted: &mut dyn FnMut() -> bool,
    waits: &dyn Fn(&str),
) -> Result<(), E> {
    let mut said = None;
    // Something may have come before the watch began.
    let mut polled = feed.poll();
    loop {
        let told = match polled {
            Ok(false) => None,
            Ok(true) => Some(tell(feed)),
            Err(error) => Some(Err(error.into())),
        };
        match told {
            None => {}
            Some(Ok(())) => said = None,
            Some(Err(error)) if error.is_stop() => return Ok(()),
            Some(Err(error)) if error.may_pass() => {
                let text = format!("{error}; it is tried again");
                if said.as_ref() != Some(&text) {
                    waits(&text);
                    said = Some(text);
                }
            }
            Some(Err(error)) => return Err(error),
        }
        if !watching.wait(feed.has_more()) || !is_wanted() {
            return Ok(());
        }
        polled = watching.poll(feed);
    }
}

/// The watch of a feed alone.
pub struct OwnWatch<'a> {
    watch: Watch,
    woken: Woken,
    stop: &'a AtomicBool,
}

impl<'a> OwnWatch<'a> {
    /// A watch of the directory `data`, until `stop` is set.
    pub fn new(data: &Path, stop: &'a AtomicBool) -> Self {
        Self {
            watch: Watch::of_file(&Feed::file_to_watch(data)),
            woken: Woken::Told,
            stop,
        }
    }
}

impl Watching for OwnWatch<'_> {
    fn wait(&mut self, _: bool) -> bool {
        self.woken = self.watch.wait(self.stop);
        self.woken != Woken::Stopped
    }

    fn poll(&mut self, feed: &mut Feed) -> Result<bool, FeedError> {
        let polled = feed.poll();
        if matches!(polled, Ok(true)) {
            self.watch.note_change(self.woken);
        }
        polled
    }
}

/// What the thread that looks for all has found.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    /// The number of the last waking.
    waking: u64,
    /// Whether the directory could not be read: each consumer looks, and says so.
    has_failed: bool,
    /// Whether there are no more wakings.
    has_ended: bool,
    /// How many consumers share the watch.
    consumers: usize,
}

/// The watch that the consumers of a server share.
#[derive(Debug, Default)]
pub struct SharedWatch {
    found: Mutex<Found>,
    woken: Condvar,
}

impl SharedWatch {
    /// Watches the directory `data` for all feeds that share what `feed` knows, until `stop` is
    /// set. Without consumers there is no watch, and [`EndOfWatch`] ends the wait for one.
    pub fn run(&self, feed: &Feed, data: &Path, stop: &AtomicBool) {
        let _end = EndOfWatch(self);
        while self.has_begun() {
            let mut watch = Watch::of_file(&Feed::file_to_watch(data));
            // Consumers may have looked before the watch began, so the first look wakes them.
            let (mut known, mut woken) = (None, Woken::Told);
            while self.found().consumers > 0 {
                let looked = feed.poll_shared().ok();
                let is_new = looked.is_some() && looked != known;
                if is_new {
                    known = looked;
                    watch.note_change(woken);
                }
                // When it is time to look, consumers see whether they are wanted still.
                if is_new || looked.is_none() || woken == Woken::Look {
                    self.wake(looked.is_none());
                }
                woken = watch.wait(stop);
                if woken == Woken::Stopped {
                    return;
                }
            }
        }
    }

    /// Waits for a consumer. False says that none will come.
    fn has_begun(&self) -> bool {
        let is_idle = |found: &mut Found| found.consumers == 0 && !found.has_ended;
        let waited = self.woken.wait_while(self.found(), is_idle);
        !waited.unwrap_or_else(PoisonError::into_inner).has_ended
    }

    fn wake(&self, has_failed: bool) {
        let mut found = self.found();
        (found.waking, found.has_failed) = (found.waking + 1, has_failed);
        drop(found);
        self.woken.notify_all();
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends all waits when it is dropped, also by a panic.
pub struct EndOfWatch<'a>(pub &'a SharedWatch);

impl Drop for EndOfWatch<'_> {
    fn drop(&mut self) {
        self.0.found().has_ended = true;
        self.0.woken.notify_all();
    }
}

/// A consumer's part of the shared watch.
pub struct WatchShare<'a> {
    shared: &'a SharedWatch,
    /// What was found at the waking that the consumer has answered last.
    seen: Found,
}

impl<'a> WatchShare<'a> {
    /// A consumer that has not looked yet.
    pub fn new(shared: &'a SharedWatch) -> Self {
        let mut found = shared.found();
        found.consumers += 1;
        let seen = *found;
        drop(found);
        if seen.consumers == 1 {
            shared.woken.notify_all();
        }
        Self { shared, seen }
    }
}

impl Drop for WatchShare<'_> {
    fn drop(&mut self) {
        self.shared.found().consumers -= 1;
    }
}

impl Watching for WatchShare<'_> {
    fn wait(&mut self, is_due: bool) -> bool {
        let pause = if is_due { RETRY } else { Duration::MAX };
        let is_old = |found: &mut Found| found.waking == self.seen.waking && !found.has_ended;
        let waited = self.shared.woken.wait_timeout_while(self.shared.found(), pause, is_old);
        self.seen = *waited.unwrap_or_else(PoisonError::into_inner).0;
        !self.seen.has_ended
    }

    fn poll(&mut self, feed: &mut Feed) -> Result<bool, FeedError> {
        if self.seen.has_failed {
            feed.poll()
        } else {
            Ok(feed.has_more())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Longer than a wait that ends at once, and shorter than one that ends by itself.
    const SOON: Duration = Duration::from_millis(600);

    fn waits(share: &mut WatchShare<'_>) -> (bool, Duration) {
        let start = Instant::now();
        (share.wait(false), start.elapsed())
    }

    #[test]
    fn a_waking_wakes_all_once_also_those_that_come_to_wait_later() {
        let shared = SharedWatch::default();
        let mut late = WatchShare::new(&shared);
        let waiting: Vec<_> = (0..5).map(|_| WatchShare::new(&shared)).collect();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = waiting
                .into_iter()
                .map(|mut share| scope.spawn(move || (waits(&mut share).0, share.seen)))
                .collect();
            std::thread::sleep(Duration::from_millis(50));
            assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
            shared.wake(true);
            for waiting in waiting {
                let (goes_on, seen) = waiting.join().unwrap();
                assert!(goes_on && seen.has_failed);
            }
        });
        shared.wake(false);
        let (goes_on, took) = waits(&mut late);
        assert!(goes_on && took < SOON && !late.seen.has_failed);
        // Both wakings are answered.
        let start = Instant::now();
        assert!(late.wait(true));
        assert!(start.elapsed() >= RETRY);
    }

    #[test]
    fn the_end_of_the_watch_ends_all_waits() {
        let shared = SharedWatch::default();
        let (mut waiting, mut late) = (WatchShare::new(&shared), WatchShare::new(&shared));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || waiting.wait(false));
            let ended = scope.spawn(|| {
                let _end = EndOfWatch(&shared);
                panic!("planted");
            });
            assert!(ended.join().is_err());
            assert!(!waiting.join().unwrap());
        });
        let (goes_on, took) = waits(&mut late);
        assert!(!goes_on && took < SOON);
        assert!(!shared.has_begun());
        assert!(!WatchShare::new(&shared).wait(true));
    }
}

//! Waiting for changes of files and folders, as another process makes them.
//!
//! The system tells of changes at once, where it can (inotify, FSEvents). It says nothing of a
//! network drive that another machine writes to, and does not say that it will not. So the watcher
//! also has its caller look by itself: every half second until the system has told of a change, and
//! every five seconds from then on. It looks often again once a change was found that nobody told
//! of.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use system::Watcher;

/// Between two looks, where the system has told of no change yet.
const LOOK_OFTEN: Duration = Duration::from_millis(500);

/// Between two looks, where it has.
const LOOK_SELDOM: Duration = Duration::from_secs(5);

/// After a change: files that have just changed may have changed again within a tick of their
/// clock.
const LOOK_AGAIN: Duration = Duration::from_millis(1_200);

/// Between two looks at the stop flag.
const STEP: Duration = Duration::from_millis(50);

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The system has told of a change.
    Told,
    /// It is time to look.
    Look,
    /// The caller's flag is set.
    Stopped,
}

/// Waits for changes of files and folders.
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    /// Whether these are files that are written where they lie.
    are_files: bool,
    watcher: Watcher,
    looks_often: bool,
    /// Whether the next look is soon, since something has changed.
    looks_again: bool,
    /// Whether the last look was such a one.
    has_looked_again: bool,
}

impl Watch {
    /// A watcher of some folders, and of the folders of single files.
    pub fn new(paths: &[PathBuf]) -> Self {
        Self::of(paths.to_owned(), false)
    }

    /// A watcher of the content of a file. It hears at once of what is written to the file that
    /// has the name, and not of others beside it, nor of a new file with that name.
    pub fn of_file(path: &Path) -> Self {
        Self::of(vec![path.to_owned()], true)
    }

    fn of(paths: Vec<PathBuf>, are_files: bool) -> Self {
        let mut watch = Self {
            paths,
            are_files,
            watcher: Watcher::new(),
            looks_often: true,
            looks_again: true,
            has_looked_again: false,
        };
        watch.begin();
        watch
    }

    /// Has the system tell of each path. A folder may have been made anew.
    fn begin(&mut self) {
        for path in &self.paths {
            let blocks = path.join("blocks");
            let folders = if self.are_files {
                vec![path.as_path()]
            } else if path.is_dir() {
                // The directory of a node has its block files in a folder.
                vec![path.as_path(), &blocks]
            } else {
                vec![
                    path.parent()
                        .filter(|parent| *parent != Path::new(""))
                        .unwrap_or(Path::new(".")),
                ]
            };
            for folder in folders {
                self.watcher.watch(folder);
            }
        }
    }

    /// Waits until it is worth looking for changes, or until `stop` is set.
    pub fn wait(&mut self, stop: &AtomicBool) -> Woken {
        let pause = if self.looks_often { LOOK_OFTEN } else { LOOK_SELDOM };
        let pause = if self.looks_again { pause.min(LOOK_AGAIN) } else { pause };
        let end = Instant::now() + pause;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Woken::Stopped;
            }
            let left = end.saturating_duration_since(Instant::now());
            if self.watcher.wait(left.min(STEP)) {
                (self.looks_often, self.looks_again) = (false, true);
                return Woken::Told;
            }
            if left.is_zero() {
                self.has_looked_again = std::mem::take(&mut self.looks_again);
                self.begin();
                return Woken::Look;
            }
        }
    }

    /// Notes that a look has found a change.
    pub fn note_change(&mut self, woken: Woken) {
        // One that nobody has told of.
        self.looks_often |= woken == Woken::Look && !self.has_looked_again;
        self.looks_again = true;
    }
}

/// Linux is asked without a thread between, and for changes alone. A library asks for each file
/// that is opened, too, so all readers of a node's blocks would wake its follower.
#[cfg(all(feature = "notify", target_os = "linux"))]
mod system {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use std::fs::File;
    use std::io::Read;
    use std::path::Path;
    use std::time::Duration;

    /// What the system tells of: all that changes a file, a folder, or who has the name.
    const CHANGES: WatchFlags = WatchFlags::MODIFY
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::CREATE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVE)
        .union(WatchFlags::DELETE_SELF)
        .union(WatchFlags::MOVE_SELF);

    /// None where the system tells of nothing.
    #[derive(Debug)]
    pub(super) struct Watcher {
        pub(super) system: Option<File>,
    }

    impl Watcher {
        pub(super) fn new() -> Self {
            let system = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
            Self {
                system: system.ok().map(File::from),
            }
        }

        pub(super) fn watch(&mut self, path: &Path) {
            if let Some(system) = &self.system {
                // What the system cannot watch is looked at.
                let _ = add_watch(system, path, CHANGES);
            }
        }

        /// Waits for a change. Returns whether one was told of.
        pub(super) fn wait(&mut self, pause: Duration) -> bool {
            let Some(system) = &mut self.system else {
                std::thread::sleep(pause);
                return false;
            };
            let mut polled = [PollFd::new(system, PollFlags::IN)];
            let is_told = Timespec::try_from(pause).is_ok_and(|pause| poll(&mut polled, Some(&pause)) == Ok(1));
            // What has changed, the caller finds out.
            while is_told && matches!(system.read(&mut [0; 4096]), Ok(1..)) {}
            is_told
        }
    }
}

#[cfg(all(feature = "notify", not(target_os = "linux")))]
mod system {
    use notify::event::{AccessKind, AccessMode};
    use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
    use std::path::Path;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
    use std::time::Duration;

    /// None where the system tells of nothing.
    #[derive(Debug)]
    pub(super) struct Watcher {
        pub(super) system: Option<RecommendedWatcher>,
        told: Receiver<()>,
    }

    impl Watcher {
        pub(super) fn new() -> Self {
            // One message says all: what has changed, the caller finds out.
            let (tell, told) = sync_channel(1);
            let handler = move |event: notify::Result<Event>| {
                // An error says that something was lost.
                if event.is_ok_and(|event| !is_change(event.kind)) {
                    return;
                }
                // Full: the caller has not looked since the message before.
                let _ = tell.try_send(());
            };
            let system = notify::recommended_watcher(handler).ok();
            Self { system, told }
        }

        pub(super) fn watch(&mut self, path: &Path) {
            if let Some(system) = &mut self.system {
                // What the system cannot watch is looked at.
                let _ = system.watch(path, RecursiveMode::NonRecursive);
            }
        }

        /// Waits for a change. Returns whether one was told of.
        pub(super) fn wait(&mut self, pause: Duration) -> bool {
            let told = self.told.recv_timeout(pause);
            if told == Err(RecvTimeoutError::Disconnected) {
                // Without a watcher nobody sends.
                std::thread::sleep(pause);
            }
            told.is_ok()
        }
    }

    fn is_change(kind: EventKind) -> bool {
        match kind {
            // Those of readers, this process among them.
            EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
            _ => true,
        }
    }
}

/// The system is not asked.
#[cfg(not(feature = "notify"))]
mod system {
    use std::path::Path;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Watcher;

    impl Watcher {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn watch(&mut self, _: &Path) {}

        /// Waits. Nobody tells of a change.
        pub(super) fn wait(&mut self, pause: Duration) -> bool {
            std::thread::sleep(pause);
            false
        }
    }
}

#[cfg(all(test, feature = "notify"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_is_told_of_and_a_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blk00000.dat");
        fs::write(&path, [1]).unwrap();
        let stop = AtomicBool::new(false);
        for source in [folder.path().to_owned(), path.clone()] {
            let mut watch = Watch::new(&[source]);
            fs::read(&path).unwrap();
            assert_eq!(watch.wait(&stop), Woken::Look);
            fs::write(&path, [2]).unwrap();
            assert_eq!(watch.wait(&stop), Woken::Told);
            while watch.wait(&stop) == Woken::Told {}
            // From now on the system is trusted.
            let start = Instant::now();
            stop.store(false, Ordering::Relaxed);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(2 * LOOK_OFTEN);
                    stop.store(true, Ordering::Relaxed);
                });
                assert_eq!(watch.wait(&stop), Woken::Stopped);
            });
            assert!(start.elapsed() < LOOK_SELDOM);
            stop.store(false, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_change_that_nobody_tells_of_is_looked_for_often() {
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut watch = Watch::new(&[folder.path().to_owned()]);
        fs::write(folder.path().join("a"), [2]).unwrap();
        assert_eq!(watch.wait(&stop), Woken::Told);
        while watch.wait(&stop) == Woken::Told {}
        watch.watcher.system = None;
        watch.note_change(Woken::Look);
        let start = Instant::now();
        assert_eq!(watch.wait(&stop), Woken::Look);
        assert!(start.elapsed() < LOOK_SELDOM);
    }

    /// The folder of a node that begins anew.
    #[test]
    fn a_folder_that_is_made_anew_is_watched_again() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("blocks");
        fs::create_dir(&folder).unwrap();
        let stop = AtomicBool::new(false);
        let mut watch = Watch::new(std::slice::from_ref(&folder));
        fs::remove_dir(&folder).unwrap();
        assert_eq!(watch.wait(&stop), Woken::Told);
        fs::create_dir(&folder).unwrap();
        // A look finds the folder.
        while watch.wait(&stop) == Woken::Told {}
        fs::write(folder.join("a"), [1]).unwrap();
        assert_eq!(watch.wait(&stop), Woken::Told);
    }

    #[test]
    fn of_a_file_only_its_own_content_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| folder.path().join(name));
        let stop = AtomicBool::new(false);
        // It may come later, and go.
        let mut watch = Watch::of_file(&path);
        for _ in 0..2 {
            fs::write(&path, [1]).unwrap();
            while watch.wait(&stop) == Woken::Told {}
            fs::write(&other, [2]).unwrap();
            assert_eq!(watch.wait(&stop), Woken::Look);
            fs::write(&path, [3]).unwrap();
            assert_eq!(watch.wait(&stop), Woken::Told);
            while watch.wait(&stop) == Woken::Told {}
            fs::remove_file(&path).unwrap();
            while watch.wait(&stop) == Woken::Told {}
        }
    }
}

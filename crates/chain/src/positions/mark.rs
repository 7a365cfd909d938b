//! When a block file counts as unchanged.
//!
//! A change shows in the times of a file only if they differ from those before it. File systems have
//! times in grains (FAT of 2 s, many network drives of 1 s), by a clock that may be another machine's.
//! So a search is trusted only once the file is *settled*: seen with the same length and times
//! `SETTLED_AFTER` before the search, by the clock of this machine alone, or older than another
//! file of its file system. Until then it is searched again.

use blockmill_blockfiles::XorKey;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// Between two searches that have seen a file the same, before it is settled. More than the grain
/// of the times of any file system, so that a change after the second has another time.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A file that has not changed for so long before the last change of another one, both by the clock
/// of their file system, is settled without a second search: a change from now on is later than both.
const OLDER_BY: Duration = Duration::from_secs(3_600);

/// What tells whether a block file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) length: u64,
    pub(super) modified: i128,
    pub(super) changed: i128,
    pub(super) key: XorKey,
}

impl Mark {
    pub(super) fn new(metadata: &Metadata, key: XorKey) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            key,
        }
    }

    pub(super) fn last_change(&self) -> i128 {
        self.modified.max(self.changed)
    }
}

/// A moment by the monotonic clock, which the processes of a machine share until it boots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) boot: u64,
    pub(super) nanoseconds: u64,
}

impl Moment {
    pub(super) fn now() -> Self {
        static BOOT: LazyLock<u64> = LazyLock::new(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let digits = id.replace('-', "");
            let boot = digits.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            // Moments of other processes are not compared where the boot has no name.
            boot.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()))
        });
        let time = clock_gettime(ClockId::Monotonic);
        Self {
            boot: *BOOT,
            nanoseconds: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        }
    }

    /// The time since an earlier moment, if that is known.
    pub(super) fn since(&self, earlier: &Self) -> Option<Duration> {
        let nanoseconds = self.nanoseconds.checked_sub(earlier.nanoseconds);
        nanoseconds
            .filter(|_| self.boot == earlier.boot)
            .map(Duration::from_nanos)
    }
}

/// Begins a search of a block file: says what the file is before it is read.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(super) path: PathBuf,
    pub(super) mark: Mark,
    /// After the file was looked at, and before it is read.
    pub(super) at: Moment,
    /// Whether it is older than another file by [`OLDER_BY`].
    pub(super) is_old: bool,
}

impl Begun {
    /// Whether nothing has changed the file between two beginnings.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

/// Notes which files are older than others by [`OLDER_BY`]. Each file system has a clock of its own.
pub(super) fn note_old(begun: &mut [Begun]) {
    let mut newest: HashMap<u64, i128> = HashMap::new();
    for Begun { mark, .. } in &*begun {
        let newest = newest.entry(mark.device).or_insert(i128::MIN);
        *newest = mark.last_change().max(*newest);
    }
    for Begun { mark, is_old, .. } in begun {
        *is_old = mark.last_change() + OLDER_BY.as_nanos() as i128 <= newest[&mark.device];
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Folder, note, record};
    use super::super::{Change, FoundPositions};
    use super::*;
    use blockmill_blockfiles::BlockFiles;
    use std::time::SystemTime;

    /// A search counts once an earlier one has seen the file the same, long enough before it; whichever
    /// process that was, but of this boot.
    #[test]
    fn file_is_settled_by_two_searches_apart() {
        let folder = Folder::new();
        let at = |seconds: u64| Moment {
            boot: 1,
            nanoseconds: seconds * 1_000_000_000,
        };
        let note_at = |at| {
            let mut positions = folder.open();
            let begun = positions.begin(&folder.files, 0).unwrap();
            note(&mut positions, Begun { at, ..begun }, &[record(8)]);
            let change = positions.change(&folder.files, 0).unwrap();
            let is_known = folder.begin(&folder.open()).is_ok();
            assert_eq!(is_known, change == Change::None);
            is_known
        };
        assert!(!note_at(at(100)));
        assert!(!note_at(at(104)));
        assert!(note_at(at(105)));
        // A change begins it again, and so does a boot, or a clock that went back.
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(folder.files.path(0))
            .unwrap();
        file.set_len(108).unwrap();
        let other_boot = Moment { boot: 2, ..at(300) };
        for moment in [at(200), at(204), other_boot, at(206), at(100), at(104)] {
            assert!(!note_at(moment), "{moment:?}");
        }
        assert!(note_at(at(105)));
    }

    /// What lay still while another file of the file system changed is trusted at once, by the clock of
    /// the file system, wherever that is. The newest file is not.
    #[test]
    fn file_older_than_another_is_settled() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = BlockFiles::new();
        let now = SystemTime::now();
        for (number, age) in [(0, 3 * OLDER_BY), (1, OLDER_BY / 2), (2, Duration::ZERO)] {
            let path = directory.path().join(format!("blk{number:05}.dat"));
            std::fs::write(&path, []).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_modified(now - age).unwrap();
        }
        let numbers = files.add(directory.path()).unwrap();
        let positions = FoundPositions::default();
        let of_marks = |change: &dyn Fn(&mut Mark)| {
            let mut begun: Vec<Begun> = numbers
                .iter()
                .map(|&file| positions.begin(&files, file).unwrap())
                .collect();
            begun.iter_mut().for_each(|begun| change(&mut begun.mark));
            note_old(&mut begun);
            begun.iter().map(|begun| begun.is_old).collect::<Vec<_>>()
        };
        // The inodes have changed a moment ago.
        assert_eq!(of_marks(&|_| ()), [false; 3]);
        let without_ctime = |mark: &mut Mark| mark.changed = 0;
        assert_eq!(of_marks(&without_ctime), [true, false, false]);
        let long_ago = |mark: &mut Mark| (mark.changed, mark.modified) = (0, mark.modified - (1 << 60));
        assert_eq!(of_marks(&long_ago), [true, false, false]);
        // File systems of their own have clocks of their own.
        let apart = |mark: &mut Mark| (mark.changed, mark.device) = (0, mark.inode);
        assert_eq!(of_marks(&apart), [false; 3]);
    }
}

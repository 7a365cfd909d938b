//! The bound of memory that all phases of all stores run within, page cache included.
//!
//! A cgroup v2 with a limit of its own is the better way: it counts what the phases use, and the
//! pages of the files that they read and write, and nothing else. Where none can be made, a second
//! process takes the rest of the machine's memory and locks it, so that the kernel, all other
//! processes and the page cache share what is left. That bound is a little tighter, and it
//! moves with what the others use: the machine must be idle.

use crate::Failure;
use rustix::mm::{MlockAllFlags, mlockall};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Left free by a balloon beside the bound, so that a machine that is in use is left alone.
const SPARE_BYTES: u64 = 256 * MIB;

/// The system's files that tell about control groups.
const SELF_GROUPS: &str = "/proc/self/cgroup";
const SELF_MOUNTS: &str = "/proc/self/mountinfo";

/// How memory is bounded, until it is dropped.
#[derive(Debug)]
pub(crate) enum Bound {
    /// Not at all.
    None,
    /// By a control group, which the phases enter.
    Group {
        /// Its directory.
        group: PathBuf,
        /// Its limit.
        bytes: u64,
    },
    /// By a process that has locked the rest of the memory.
    Balloon {
        /// The process. It ends when its input does.
        process: Child,
        /// What it has locked.
        bytes: u64,
        /// What was in use of the rest at the start, in bytes.
        used_by_others: u64,
    },
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> u64 {
    crate::process::number("/proc/meminfo", name) * 1024
}

impl Bound {
    /// Bounds the memory by a number of MiB.
    ///
    /// # Errors
    /// If neither way works; the error says why for each.
    pub(crate) fn new(memory_mib: Option<u64>) -> Result<Self, Failure> {
        let Some(bytes) = memory_mib.map(|mib| mib * MIB) else {
            return Ok(Self::None);
        };
        let group = own_group().and_then(|(mount, own)| make_group(&mount, &own, bytes));
        let why_no_group = match group {
            Ok(group) => return Ok(Self::Group { group, bytes }),
            Err(error) => error,
        };
        Self::balloon(bytes).map_err(|error| {
            format!("memory cannot be bounded here: no cgroup v2 ({why_no_group}), and no balloon ({error})").into()
        })
    }

    fn balloon(bound: u64) -> Result<Self, Failure> {
        let (total, available) = (meminfo("MemTotal"), meminfo("MemAvailable"));
        let bytes = total.checked_sub(bound).ok_or("the machine has less memory")?;
        if available < bytes + SPARE_BYTES {
            return Err(format!(
                "{} of {} MiB are available",
                available / MIB,
                (bytes + SPARE_BYTES) / MIB
            )
            .into());
        }
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--dir", "/", "--balloon", &bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != READY {
            process.wait()?;
            return Err("it could not lock its memory".into());
        }
        Ok(Self::Balloon {
            process,
            bytes,
            used_by_others: total - available,
        })
    }

    /// In words.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::None => "memory is not bounded".to_owned(),
            Self::Group { bytes, .. } => {
                format!("a cgroup v2 bounds memory, page cache included, by {} MiB", bytes / MIB)
            }
            Self::Balloon {
                bytes, used_by_others, ..
            } => format!(
                "a balloon has locked {} MiB; the rest is for the page cache, the stores and all others, who had {} MiB \
                 at the start",
                bytes / MIB,
                used_by_others / MIB
            ),
        }
    }

    /// Arguments that put a phase within the bound.
    pub(crate) fn arguments(&self) -> Vec<PathBuf> {
        match self {
            Self::Group { group, .. } => vec!["--group".into(), group.clone()],
            Self::None | Self::Balloon { .. } => Vec::new(),
        }
    }

    /// Checks that the bound still holds.
    ///
    /// # Errors
    /// If the balloon is gone: the system needed its memory.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        if let Self::Balloon { process, .. } = self
            && let Some(status) = process.try_wait()?
        {
            return Err(format!("the balloon ended ({status}): memory was too short, so the figures are void").into());
        }
        Ok(())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        match self {
            Self::None => {}
            Self::Group { group, .. } => remove_group(group),
            Self::Balloon { process, .. } => {
                drop(process.stdin.take());
                process.wait().ok();
            }
        }
    }
}

/// Removes a group; the kernel takes a moment to see that its last process has ended.
fn remove_group(group: &Path) {
    for _ in 0..50 {
        if fs::remove_dir(group).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where cgroup v2 is mounted, and the group of this process below that.
fn own_group() -> Result<(PathBuf, PathBuf), Failure> {
    let mounts = fs::read_to_string(SELF_MOUNTS)?;
    let mount = mounts.lines().find_map(mount_of_groups).ok_or("not mounted")?;
    let groups = fs::read_to_string(SELF_GROUPS)?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok((mount, own.ok_or("this process is in none")?.into()))
}

/// The mount point, if a line of mounts is one of cgroup v2.
fn mount_of_groups(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    (after.split(' ').next()? == "cgroup2").then(|| before.split(' ').nth(4).map(PathBuf::from))?
}

/// Makes a group with a limit of memory and no swap: below the nearest group above `own` that hands
/// the control of memory down.
fn make_group(mount: &Path, own: &Path, bytes: u64) -> Result<PathBuf, Failure> {
    for above in own.ancestors() {
        let parent = mount.join(above);
        let controls = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        if !controls.split_whitespace().any(|control| control == "memory") {
            continue;
        }
        let group = parent.join(format!("bench-stores-{}", std::process::id()));
        fs::create_dir(&group)?;
        let limited = fs::write(group.join("memory.max"), bytes.to_string());
        // There is no such file where the kernel has no swap.
        let unswapped = fs::write(group.join("memory.swap.max"), "0");
        return match (limited, unswapped) {
            (Ok(()), Ok(())) => Ok(group),
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(group),
            (Err(error), _) | (_, Err(error)) => {
                remove_group(&group);
                Err(error.into())
            }
        };
    }
    Err("no group hands down the control of memory".into())
}

/// Moves this process into a group.
pub(crate) fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// What a balloon says when its memory is locked.
const READY: &str = "locked";

/// Takes memory and locks it until the input ends: what the balloon's process does.
pub(crate) fn hold(bytes: u64) -> Result<(), Failure> {
    // If memory runs out, the balloon goes first.
    fs::write("/proc/self/oom_score_adj", "1000")?;
    mlockall(MlockAllFlags::FUTURE)?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes as usize)?;
    memory.resize(bytes as usize, 1_u8);
    if crate::process::status_bytes("VmLck") < bytes {
        return Err("the memory is not locked".into());
    }
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    std::hint::black_box(&memory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_groups_is_found() {
        let second = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(mount_of_groups(second), Some("/sys/fs/cgroup".into()));
        let first = "36 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        assert_eq!(mount_of_groups(first), None);
        assert_eq!(mount_of_groups(""), None);
    }

    #[test]
    fn a_group_is_made_below_the_nearest_that_controls_memory() {
        let mount = tempfile::tempdir().unwrap();
        let session = mount.path().join("user/session");
        fs::create_dir_all(&session).unwrap();
        let own = Path::new("user/session");
        assert!(make_group(mount.path(), own, 1).is_err());
        fs::write(mount.path().join("cgroup.subtree_control"), "cpu memory").unwrap();
        fs::write(session.join("cgroup.subtree_control"), "cpu").unwrap();
        let outer = make_group(mount.path(), own, 5 * MIB).unwrap();
        assert_eq!(outer.parent().unwrap(), mount.path());
        assert_eq!(fs::read_to_string(outer.join("memory.max")).unwrap(), "5242880");
        assert_eq!(fs::read_to_string(outer.join("memory.swap.max")).unwrap(), "0");
        fs::write(mount.path().join("user/cgroup.subtree_control"), "memory").unwrap();
        let inner = make_group(mount.path(), own, 1).unwrap();
        assert_eq!(inner.parent().unwrap(), mount.path().join("user"));
    }

    #[test]
    fn more_memory_than_there_is_cannot_be_a_bound_of_a_balloon() {
        let total = meminfo("MemTotal");
        assert!(total > 0);
        let error = Bound::balloon(total + 1).unwrap_err();
        assert!(error.to_string().contains("less memory"), "{error}");
    }
}

//! The operating system and the disks, in words that name nothing of the user's: no path, no host,
//! no volume.

use crate::failure::{Failure, at};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name and version of the operating system, and the architecture.
pub fn operating_system() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    system_words(&read("/etc/os-release"), &read("/proc/sys/kernel/osrelease"))
}

fn system_words(os_release: &str, kernel: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    // What follows the version may be a word of whoever built the kernel.
    let version: String = kernel.chars().take_while(|&c| c.is_ascii_digit() || c == '.').collect();
    let kernel = if version.is_empty() {
        String::new()
    } else {
        format!(", Linux {version}")
    };
    format!("{name}{kernel}, {}", std::env::consts::ARCH)
}

/// Bytes that are free for the user on the file system of `path`.
///
/// # Errors
/// That of the operating system, with the path.
pub fn free_bytes(path: &Path) -> Result<u64, Failure> {
    let free = rustix::fs::statvfs(path).map_err(|error| at(path)(error.into()))?;
    Ok(free.f_bavail.saturating_mul(free.f_frsize))
}

/// The file system of `path`, and the kind of its disk as far as the system says it.
pub fn disk_of(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some((file_system, source)) = mount_of(&mounts, &path) else {
        return "unknown".to_owned();
    };
    // A name of a volume is a link to the device.
    let device = fs::canonicalize(source).unwrap_or_default();
    if !device.starts_with("/dev") {
        return file_system.to_owned();
    }
    let device = device.file_name().unwrap_or_default();
    disk_words(file_system, &device.to_string_lossy(), is_rotating(device))
}

const VIRTUAL: &str = "virtual";

/// Beginnings of the names of devices, and what they say.
const KINDS: [(&str, &str); 7] = [
    ("nvme", "NVMe"),
    ("sd", "SATA, SAS or USB"),
    ("vd", VIRTUAL),
    ("xvd", VIRTUAL),
    ("mmcblk", "SD or eMMC"),
    ("dm-", "mapped"),
    ("md", "RAID"),
];

fn disk_words(file_system: &str, device: &str, is_rotating: Option<bool>) -> String {
    let kind = KINDS.iter().find(|(beginning, _)| device.starts_with(beginning));
    let kind = kind.map_or("other", |&(_, kind)| kind);
    let turns = match is_rotating {
        // What a virtual disk says of itself is a default.
        _ if kind == VIRTUAL => "",
        Some(true) => ", rotating",
        Some(false) => ", not rotating",
        None => "",
    };
    format!("{file_system}, {kind} disk{turns}")
}

/// What the system says of a device, or else of the disk that the device is a part of.
fn is_rotating(device: &OsStr) -> Option<bool> {
    let folder = fs::canonicalize(Path::new("/sys/class/block").join(device)).ok()?;
    let text = [Some(folder.as_path()), folder.parent()]
        .into_iter()
        .flatten()
        .find_map(|folder| fs::read_to_string(folder.join("queue/rotational")).ok())?;
    Some(text.trim() == "1")
}

/// File system and source of the mount that has a path: the last one of the longest mount point.
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    let mut found: Option<(usize, &str, &str)> = None;
    for line in mounts.lines() {
        // The mount point is the fifth word. File system and source follow a lone dash.
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let (Some(point), Some((file_system, rest))) = (before.split(' ').nth(4), after.split_once(' ')) else {
            continue;
        };
        let (point, source) = (unescaped(point), rest.split(' ').next().unwrap_or_default());
        let length = point.as_os_str().len();
        if path.starts_with(&point) && found.is_none_or(|(longest, ..)| length >= longest) {
            found = Some((length, file_system, source));
        }
    }
    found.map(|(_, file_system, source)| (file_system, source))
}

/// A path of the list of mounts, which has blanks, tabs, line ends and backslashes as octal
/// numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let number = after.get(..3).filter(|_| first == b'\\');
        let number = number.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = &after[if number.is_some() { 3 } else { 0 }..];
    }
    OsStr::from_bytes(&bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_in_words() {
        let words = system_words("ID=x\nPRETTY_NAME=\"Some Linux 12\"\n", "6.1.0-9-of-alice\n");
        assert_eq!(words, format!("Some Linux 12, Linux 6.1.0, {}", std::env::consts::ARCH));
        assert!(system_words("", "").starts_with(std::env::consts::OS));
        assert!(!operating_system().is_empty() && !disk_of(Path::new("/")).is_empty());
        assert!(free_bytes(Path::new("/")).is_ok());
        assert!(
            free_bytes(Path::new("/nowhere/at/all"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere")
        );
    }

    #[test]
    fn the_mount_of_a_path_is_the_nearest_one() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      2 1 0:5 / /mnt/my\\040disk rw shared:1 - xfs /dev/nvme0n1p2 rw\n\
                      3 1 0:6 / /mnt/net rw - nfs4 alice:/export rw\nno mount\n";
        let of = |path: &str| mount_of(mounts, Path::new(path)).unwrap();
        assert_eq!(of("/home/a"), ("ext4", "/dev/sda1"));
        assert_eq!(of("/mnt/my disk/blocks"), ("xfs", "/dev/nvme0n1p2"));
        assert_eq!(of("/mnt/network"), ("ext4", "/dev/sda1"));
        assert_eq!(of("/mnt/net/x"), ("nfs4", "alice:/export"));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn a_disk_in_words() {
        for (kind, rotating, words) in [
            ("nvme0n1p2", Some(false), "ext4, NVMe disk, not rotating"),
            ("sda1", Some(true), "ext4, SATA, SAS or USB disk, rotating"),
            ("vda", Some(true), "ext4, virtual disk"),
            ("mmcblk0p1", None, "ext4, SD or eMMC disk"),
            ("dm-0", Some(false), "ext4, mapped disk, not rotating"),
            ("zram0", None, "ext4, other disk"),
        ] {
            assert_eq!(disk_words("ext4", kind, rotating), words);
        }
    }
}

//! Time, and what the system says about files and the disk.

use blockmill_harness::{Run, Stopwatch, number_in};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What the process has read and written so far.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    written_bytes: u64,
    read_bytes: u64,
    read_calls: u64,
    major_faults: u64,
}

/// The tenth field after the name, which ends with the last parenthesis.
fn major_faults(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

impl Traffic {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Self {
            written_bytes: number_in(&text, "write_bytes"),
            read_bytes: number_in(&text, "read_bytes"),
            read_calls: number_in(&text, "syscr"),
            major_faults: major_faults(&stat).unwrap_or(0),
        }
    }
}

/// A running measurement of the whole process.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Stopwatch,
    traffic: Traffic,
    /// Calls that looking at the traffic takes by itself.
    own_calls: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        // A reading is traffic, too: the second one shows how much.
        let before = Traffic::now();
        let traffic = Traffic::now();
        Self {
            traffic,
            own_calls: traffic.read_calls - before.read_calls,
            clock: Stopwatch::start(),
        }
    }

    /// The run until now over `count` units of work. Bytes are those sent towards the disk and
    /// fetched from it; fetches are calls that read, and faults of mapped pages that waited.
    pub(crate) fn run(&self, count: u64) -> Run {
        let run = self.clock.run(count);
        let (now, before) = (Traffic::now(), self.traffic);
        let calls = (now.read_calls - before.read_calls).saturating_sub(self.own_calls);
        let fetches = calls + now.major_faults - before.major_faults;
        run.with("written_bytes", (now.written_bytes - before.written_bytes) as f64)
            .with("read_bytes", (now.read_bytes - before.read_bytes) as f64)
            .with("fetches", fetches as f64)
    }
}

fn files(directory: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// Does something with each file below a directory.
fn each_file(directory: &Path, mut work: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    paths.iter().try_for_each(|path| work(path))
}

/// Bytes on disk of all files below a directory, holes not counted.
pub(crate) fn disk_size(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    each_file(directory, |path| {
        // The system counts units of 512 bytes, whatever the file system has.
        bytes += fs::metadata(path)?.blocks() * 512;
        Ok(())
    })?;
    Ok(bytes)
}

/// Writes back all files below a directory and takes them out of the page cache.
pub(crate) fn make_cold(directory: &Path) -> io::Result<()> {
    each_file(directory, |path| {
        let file = File::open(path)?;
        // Pages that are not written yet would stay.
        file.sync_all()?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    })
}

/// Reads all files below a directory, so that the page cache holds them, or as much as it can.
pub(crate) fn make_warm(directory: &Path) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    each_file(directory, |path| {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_after_a_name_with_parentheses() {
        let stat = "77 (a) b) c) S 1 77 77 0 -1 4194560 500 0 42 7 1 2";
        assert_eq!(major_faults(stat), Some(42));
        assert_eq!(major_faults(""), None);
    }

    #[test]
    fn the_calls_of_the_meter_itself_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [1; 50]).unwrap();
        let mut file = File::open(&path).unwrap();
        // Other tests of this process read, too, but not all the time.
        let is_counted_once = (0..50).any(|_| {
            let meter = Meter::start();
            file.read_exact(&mut [0; 1]).unwrap();
            meter.run(0).figures["fetches"] == 1.0
        });
        assert!(is_counted_once);
    }
}

//! What the system says about this process, and about files.

use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often memory is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// The number after `name:` in text of lines `name: number`.
fn number_in(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The same of a file.
pub(crate) fn number(path: &str, name: &str) -> u64 {
    number_in(&fs::read_to_string(path).unwrap_or_default(), name)
}

const STATUS: &str = "/proc/self/status";

/// A line of the process's status that is in KiB, in bytes.
pub(crate) fn status_bytes(name: &str) -> u64 {
    number(STATUS, name) * 1024
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU time of all threads so far.
pub(crate) fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

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

/// Bytes that the process has moved to the disk and from it so far.
#[cfg(feature = "leveldb")]
pub(crate) fn disk_bytes() -> u64 {
    let traffic = Traffic::now();
    traffic.written_bytes + traffic.read_bytes
}

/// A running measurement of the whole process.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    cpu_seconds: f64,
    traffic: Traffic,
    /// Calls that looking at the traffic takes by itself.
    own_calls: u64,
}

/// What was used since a measurement began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    /// Bytes sent towards the disk.
    pub(crate) written_bytes: u64,
    /// Bytes fetched from the disk.
    pub(crate) read_bytes: u64,
    /// System calls that read, of files and all else.
    pub(crate) read_calls: u64,
    /// Faults of mapped pages that waited for the disk.
    pub(crate) major_faults: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let before = Traffic::now();
        let traffic = Traffic::now();
        Self {
            traffic,
            own_calls: traffic.read_calls - before.read_calls,
            cpu_seconds: process_cpu_seconds(),
            start: Instant::now(),
        }
    }

    pub(crate) fn used(&self) -> Used {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_seconds = process_cpu_seconds() - self.cpu_seconds;
        let traffic = Traffic::now();
        Used {
            seconds,
            cpu_seconds,
            written_bytes: traffic.written_bytes - self.traffic.written_bytes,
            read_bytes: traffic.read_bytes - self.traffic.read_bytes,
            read_calls: (traffic.read_calls - self.traffic.read_calls).saturating_sub(self.own_calls),
            major_faults: traffic.major_faults - self.traffic.major_faults,
        }
    }
}

/// Looks at the memory of the process until it is asked for the peaks.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    stop: Arc<AtomicBool>,
    peaks: Arc<[AtomicU64; 2]>,
    anonymous_before: u64,
    thread: JoinHandle<()>,
}

/// The largest amounts of memory seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peaks {
    /// Anonymous memory above what there was at the start.
    pub(crate) anonymous_bytes: u64,
    /// Pages of mapped files.
    pub(crate) file_bytes: u64,
    /// All resident memory, as the system itself keeps it.
    pub(crate) resident_bytes: u64,
}

impl MemoryWatch {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peaks = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (flag, into) = (Arc::clone(&stop), Arc::clone(&peaks));
        let thread = std::thread::spawn(move || {
            loop {
                let last = flag.load(Ordering::Relaxed);
                let status = fs::read_to_string(STATUS).unwrap_or_default();
                into[0].fetch_max(number_in(&status, "RssAnon") * 1024, Ordering::Relaxed);
                into[1].fetch_max(number_in(&status, "RssFile") * 1024, Ordering::Relaxed);
                if last {
                    break;
                }
                std::thread::sleep(SAMPLE_EVERY);
            }
        });
        Self {
            stop,
            peaks,
            anonymous_before: status_bytes("RssAnon"),
            thread,
        }
    }

    pub(crate) fn finish(self) -> Peaks {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch does not panic");
        Peaks {
            anonymous_bytes: self.peaks[0]
                .load(Ordering::Relaxed)
                .saturating_sub(self.anonymous_before),
            file_bytes: self.peaks[1].load(Ordering::Relaxed),
            resident_bytes: status_bytes("VmHWM"),
        }
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

/// Bytes on disk of all files below a directory, holes not counted.
pub(crate) fn disk_size(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    let mut bytes = 0;
    for path in paths {
        bytes += fs::metadata(path)?.blocks() * 512;
    }
    Ok(bytes)
}

/// Writes back all files below a directory and takes them out of the page cache; their number.
pub(crate) fn make_cold(directory: &Path) -> io::Result<usize> {
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    for path in &paths {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(paths.len())
}

/// Reads all files below a directory, so that the page cache holds them, or as much as it can;
/// their number.
pub(crate) fn make_warm(directory: &Path) -> io::Result<usize> {
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    let mut buffer = vec![0; 1 << 20];
    for path in &paths {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(paths.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_behind_a_name_with_parentheses() {
        let stat = "77 (a) b) c) S 1 77 77 0 -1 4194560 500 0 42 7 1 2";
        assert_eq!(major_faults(stat), Some(42));
        assert_eq!(major_faults(""), None);
    }

    #[test]
    fn the_calls_of_the_watch_itself_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [1; 50]).unwrap();
        let mut file = File::open(&path).unwrap();
        // Other tests of this process read, too, but not all the time.
        let is_counted_once = (0..50).any(|_| {
            let watch = Stopwatch::start();
            file.read_exact(&mut [0; 1]).unwrap();
            watch.used().read_calls == 1
        });
        assert!(is_counted_once);
    }
}

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

/// The number after `name:` in a file of lines `name: number`.
fn number(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// A line of the process's status that is in KiB, in bytes.
pub(crate) fn status_bytes(name: &str) -> u64 {
    number("/proc/self/status", name) * 1024
}

/// A line of the process's input and output.
fn io_bytes(name: &str) -> u64 {
    number("/proc/self/io", name)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A running measurement of the whole process.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    cpu_seconds: f64,
    written: u64,
    read: u64,
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
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            cpu_seconds: cpu_seconds(),
            written: io_bytes("write_bytes"),
            read: io_bytes("read_bytes"),
            start: Instant::now(),
        }
    }

    pub(crate) fn used(&self) -> Used {
        Used {
            seconds: self.start.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            written_bytes: io_bytes("write_bytes") - self.written,
            read_bytes: io_bytes("read_bytes") - self.read,
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
                into[0].fetch_max(status_bytes("RssAnon"), Ordering::Relaxed);
                into[1].fetch_max(status_bytes("RssFile"), Ordering::Relaxed);
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

/// Writes back all files below a directory and takes them out of the page cache.
pub(crate) fn make_cold(directory: &Path) -> io::Result<()> {
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    for path in paths {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Reads all files below a directory, so that the page cache holds them.
pub(crate) fn make_warm(directory: &Path) -> io::Result<()> {
    let mut paths = Vec::new();
    files(directory, &mut paths)?;
    let mut buffer = vec![0; 1 << 20];
    for path in paths {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

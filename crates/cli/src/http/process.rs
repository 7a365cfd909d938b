//! This process, as the system sees it. Only Linux has these figures as files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Instant, UNIX_EPOCH};

/// Figures of this process.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) open_files: u64,
    pub(super) threads: u64,
    /// In seconds since 1970.
    pub(super) start_time: f64,
}

impl Process {
    pub(super) fn read() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let started = fs::metadata("/proc/self").ok()?.modified().ok()?;
        Some(Self {
            // The system counts in KiB.
            resident_bytes: number("VmRSS:")? << 10,
            virtual_bytes: number("VmSize:")? << 10,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as u64,
            threads: number("Threads:")?,
            start_time: started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64(),
        })
    }
}

/// Threads whose names differ in a number alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThreadGroup {
    pub(super) name: String,
    pub(super) count: u64,
    /// How many of them had a processor, on average.
    pub(super) busy: f64,
}

/// The CPU times of threads at the last look.
#[derive(Debug, Default)]
pub(super) struct ThreadTimes {
    at: Option<Instant>,
    /// Nanoseconds, by the number of the thread.
    times: HashMap<String, u64>,
}

impl ThreadTimes {
    /// The threads of this process, and what they did since the last look.
    pub(super) fn look(&mut self, at: Instant) -> Vec<ThreadGroup> {
        let seconds = self.at.map(|before| at.duration_since(before).as_secs_f64());
        let mut groups = BTreeMap::<String, (u64, f64)>::new();
        let mut times = HashMap::new();
        let own = std::process::id().to_string();
        for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let (Ok(number), Some((name, nanoseconds))) = (entry.file_name().into_string(), thread(&entry.path()))
            else {
                continue;
            };
            let name = if number == own { "main".to_owned() } else { name };
            let (count, busy) = groups.entry(group(&name).to_owned()).or_default();
            *count += 1;
            if let (Some(before), Some(seconds)) = (self.times.get(&number), seconds) {
                *busy += nanoseconds.saturating_sub(*before) as f64 / 1e9 / seconds.max(1e-3);
            }
            times.insert(number, nanoseconds);
        }
        (self.at, self.times) = (Some(at), times);
        let group = |(name, (count, busy))| ThreadGroup { name, count, busy };
        groups.into_iter().map(group).collect()
    }
}

/// The name of a thread, and the nanoseconds for which it had a processor.
fn thread(folder: &std::path::Path) -> Option<(String, u64)> {
    let name = fs::read_to_string(folder.join("comm")).ok()?;
    let times = fs::read_to_string(folder.join("schedstat")).ok()?;
    let nanoseconds = times.split_whitespace().next()?.parse().ok()?;
    Some((name.trim_end().to_owned(), nanoseconds))
}

/// A name without a number at its end.
fn group(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_part_of_a_group() {
        for (name, of) in [
            ("worker-12", "worker"),
            ("flush", "flush"),
            ("a-b", "a-b"),
            ("x-", "x-"),
        ] {
            assert_eq!(group(name), of);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_busy_thread_is_seen() {
        let mut times = ThreadTimes::default();
        let start = Instant::now();
        times.look(start);
        let mut sum = 0u64;
        while start.elapsed().as_millis() < 200 {
            sum = std::hint::black_box(sum + 1);
        }
        let groups = times.look(Instant::now());
        let busy: f64 = groups.iter().map(|group| group.busy).sum();
        assert!(busy > 0.1, "{groups:?}");
        assert!(groups.iter().any(|group| group.name == "main"), "{groups:?}");
    }
}

//! Memory, files and threads of processes that go on for long.

use std::time::Duration;

/// What a long run may take more at its end than at its beginning, in bytes: the allocators' pools.
const GROWTH_MAX: u64 = 16 << 20;

/// And for each block that was submitted: its entry in the header index and what the index of all
/// files knows of it.
const BYTES_PER_BLOCK: u64 = 1024;

/// Threads of a process at the most beside one for each core: four of its own, and the fetcher's
/// readers, which come when the store is slow.
const THREADS_MAX: usize = 4 + 16;

/// A process as the system sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Anonymous memory in bytes.
    pub(crate) anonymous: u64,
    /// Memory in bytes, pages of files included.
    pub(crate) resident: u64,
    pub(crate) files: u64,
    pub(crate) threads: u64,
    /// What was done so far.
    pub(crate) blocks: u64,
}

impl Sample {
    /// The most of both, figure by figure: they have their peaks at different moments.
    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            anonymous: self.anonymous.max(other.anonymous),
            resident: self.resident.max(other.resident),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
            blocks: self.blocks.max(other.blocks),
        }
    }
}

pub(crate) fn sample(process: u32, blocks: u64) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Sample {
        anonymous: number("RssAnon:")? * 1024,
        resident: number("VmRSS:")? * 1024,
        files: std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64,
        threads: number("Threads:")?,
        blocks,
    })
}

/// CPU time that a process has had, its threads that have ended included.
pub(crate) fn cpu_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name before it may hold anything.
    let (_, rest) = text.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Fails if the last third is more than the first by what it may not be.
pub(crate) fn check_growth(name: &str, samples: &[Sample]) {
    assert!(samples.len() >= 3, "{name}: too few samples: {samples:?}");
    let most = |samples: &[Sample], of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
    let (first, last) = (&samples[..samples.len() / 3], &samples[samples.len() * 2 / 3..]);
    let [first_blocks, last_blocks] = [first, last].map(|part| most(part, |sample| sample.blocks));
    let [early, late] = [first, last].map(|part| most(part, |sample| sample.anonymous));
    eprintln!(
        "{name}: {} samples, anonymous memory {:.1} MiB at first, {:.1} at last; {} and {} files; {} and {} threads; {} blocks between",
        samples.len(),
        early as f64 / f64::from(1 << 20),
        late as f64 / f64::from(1 << 20),
        most(first, |sample| sample.files),
        most(last, |sample| sample.files),
        most(first, |sample| sample.threads),
        most(last, |sample| sample.threads),
        last_blocks - first_blocks,
    );
    let allowed = early + GROWTH_MAX + (last_blocks - first_blocks) * BYTES_PER_BLOCK;
    assert!(
        late <= allowed,
        "{name} grows: {early} bytes, then {late}, {allowed} allowed"
    );
    assert!(
        most(last, |sample| sample.files) <= most(first, |sample| sample.files) + 2,
        "{name}: more and more files"
    );
    let threads = most(samples, |sample| sample.threads) as usize;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    assert!(threads <= THREADS_MAX + cores, "{name}: more and more threads");
}

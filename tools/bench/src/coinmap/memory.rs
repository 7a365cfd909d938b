//! Memory of this process and CPU time of this thread, as the system reports them.

use rustix::time::{ClockId, clock_gettime};

/// A line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    bytes_of(&status, name)
}

fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Peak of this process's memory in RAM.
pub(super) fn resident_peak_bytes() -> Option<u64> {
    status_bytes("VmHWM")
}

/// This process's memory in RAM now.
pub(super) fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS")
}

/// CPU time of this thread.
#[inline]
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_status_is_read() {
        let status = "VmPeak:\t  900 kB\nVmHWM:\t    12 kB\nVmRSS:\t 8 kB\n";
        assert_eq!(bytes_of(status, "VmHWM"), Some(12 << 10));
        assert_eq!(bytes_of(status, "VmHW"), None);
        assert_eq!(bytes_of("VmRSS: many kB", "VmRSS"), None);
    }
}

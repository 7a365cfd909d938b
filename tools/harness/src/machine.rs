//! The machine of a benchmark.

use serde::Serialize;

/// The facts that decide figures of speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Name of the processor, or else of its architecture.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes, where the system reports it.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            // On ARM the file names no model.
            cpu: cpu_name(&read("/proc/cpuinfo")).unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} cores", self.cpu, self.cores)?;
        match self.memory_bytes {
            Some(bytes) => write!(f, ", {:.1} GiB", bytes as f64 / f64::from(1 << 30)),
            None => Ok(()),
        }
    }
}

/// The value of the first line `name : value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    let name = value(cpuinfo, "model name").filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = value(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_words() {
        let mut machine = Machine {
            cpu: cpu_name("processor : 0\nmodel name\t: Some CPU\n").unwrap(),
            cores: 2,
            memory_bytes: memory_bytes("MemFree: 1 kB\nMemTotal:  1572864 kB\n"),
        };
        assert_eq!(machine.to_string(), "Some CPU, 2 cores, 1.5 GiB");
        machine.memory_bytes = memory_bytes("MemTotal: 1 MB");
        assert_eq!(machine.to_string(), "Some CPU, 2 cores");
        assert!(Machine::this().cores > 0 && cpu_name("model name\t:\n").is_none());
    }
}

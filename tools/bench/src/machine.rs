//! The machine of a benchmark.

use serde::Serialize;

/// A machine: the facts that decide figures of speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    /// Name of the processor, or else of its architecture.
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Memory in bytes, where the system reports it.
    pub(crate) memory_bytes: Option<u64>,
}

impl Machine {
    /// This machine.
    pub(crate) fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
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
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    value(cpuinfo, "model name")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = value(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_files_are_read() {
        let cpuinfo =
            "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(cpu_name(cpuinfo).as_deref(), Some("Some CPU @ 2.00GHz"));
        assert_eq!(
            memory_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
            Some(16 << 20)
        );
        for text in ["", "model name\t:\n", "no colon", "MemTotal: many kB", "MemTotal: 1 MB"] {
            assert_eq!(cpu_name(text), None);
            assert_eq!(memory_bytes(text), None);
        }
    }

    #[test]
    fn a_machine_in_words() {
        let mut machine = Machine {
            cpu: "Some CPU".to_owned(),
            cores: 2,
            memory_bytes: Some(3 << 29),
        };
        assert_eq!(machine.to_string(), "Some CPU, 2 cores, 1.5 GiB");
        machine.memory_bytes = None;
        assert_eq!(machine.to_string(), "Some CPU, 2 cores");
        assert!(Machine::this().cores > 0);
    }
}

//! Memory and CPU time of a running process, as the system reports them.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between samples. Sampling takes hardly one percent of a core.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Clock ticks per second in Linux's figures of a process.
const TICKS: f64 = 100.0;

/// The largest values seen in the samples of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessStats {
    pub(crate) anonymous_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) written_bytes: u64,
    /// CPU time of the process in seconds, to a hundredth.
    pub(crate) cpu_seconds: f64,
}

impl ProcessStats {
    /// Samples the memory of a process.
    fn look(&mut self, process: u32) {
        let status = read(process, "status");
        self.anonymous_bytes = self.anonymous_bytes.max(1024 * number(&status, "RssAnon:"));
        self.file_bytes = self.file_bytes.max(1024 * number(&status, "RssFile:"));
    }

    /// Reads the counters of a process, which only grow. A process that has ended keeps them until
    /// its exit status is read.
    fn count(&mut self, process: u32) {
        self.written_bytes = self.written_bytes.max(number(&read(process, "io"), "write_bytes:"));
        self.cpu_seconds = self.cpu_seconds.max(cpu_seconds(&read(process, "stat")));
    }
}

fn read(process: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// The number after a name at the beginning of a line; 0 if there is none.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The sum of fields 14 and 15: ticks in the program and in the system. Field 2 is a name that may
/// have spaces.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS
}

/// Reads the output of a process. Samples the process until it has printed a line or has ended.
pub(crate) fn watch(child: &mut Child) -> (String, ProcessStats) {
    let mut stats = ProcessStats::default();
    let process = child.id();
    let (sender, printed) = mpsc::channel::<()>();
    let out = child.stdout.take();
    let text = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut text = String::new();
            // A text that cannot be read is no report, which is an error later on.
            if let Some(mut out) = out.map(BufReader::new) {
                let _ = out.read_line(&mut text);
                drop(sender);
                let _ = out.read_to_string(&mut text);
            }
            text
        });
        while printed.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Disconnected) {
            stats.look(process);
        }
        reader.join().unwrap_or_default()
    });
    stats.count(process);
    (text, stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn figures_of_a_process_are_found() {
        let mut stats = ProcessStats::default();
        stats.look(std::process::id());
        assert!(stats.anonymous_bytes > 0 && stats.file_bytes > 0);
        assert_eq!(number("a: 5 kB\nb:\t7\n", "b:"), 7);
        assert_eq!(number("a: 5 kB\n", "c:"), 0);
        let stat = "77 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14";
        assert_eq!(cpu_seconds(stat), 3.0);
        assert_eq!(cpu_seconds(""), 0.0);
    }

    #[test]
    fn a_process_is_watched_until_its_first_line_and_read_to_its_end() {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo one; echo two",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (text, stats) = watch(&mut child);
        assert!(child.wait().unwrap().success());
        assert_eq!(text, "one\ntwo\n");
        assert!(stats.anonymous_bytes > 0 && stats.cpu_seconds > 0.0, "{stats:?}");
    }
}

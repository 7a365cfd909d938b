//! What the system says of a process while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often a process is looked at: rarely enough that it takes hardly one percent of a core.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Clock ticks in a second, in what Linux says of a process.
const TICKS: f64 = 100.0;

/// The largest figures that a process has shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watched {
    pub(crate) anonymous_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) written_bytes: u64,
    /// CPU time of the process in seconds, to a hundredth.
    pub(crate) cpu_seconds: f64,
}

impl Watched {
    /// Looks at a process.
    fn look(&mut self, process: u32) {
        let status = read(process, "status");
        self.anonymous_bytes = self.anonymous_bytes.max(1024 * number(&status, "RssAnon:"));
        self.file_bytes = self.file_bytes.max(1024 * number(&status, "RssFile:"));
    }

    /// Looks at what is only ever added to. One that has ended has no memory any more, but its
    /// counts until it is waited for.
    fn count(&mut self, process: u32) {
        self.written_bytes = self.written_bytes.max(number(&read(process, "io"), "write_bytes:"));
        self.cpu_seconds = self.cpu_seconds.max(cpu_seconds(&read(process, "stat")));
    }
}

fn read(process: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// The number after a name at the beginning of a line; 0 if it is not there.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The 14th and 15th field: ticks in the program and in the system for it. The second one is a
/// name, which may have spaces.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS
}

/// Reads what a process prints, and looks at it until it has printed a line, or has ended.
pub(crate) fn watch(child: &mut Child) -> (String, Watched) {
    let mut watched = Watched::default();
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
            watched.look(process);
        }
        reader.join().unwrap_or_default()
    });
    watched.count(process);
    (text, watched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn figures_of_a_process_are_found() {
        let mut watched = Watched::default();
        watched.look(std::process::id());
        assert!(watched.anonymous_bytes > 0 && watched.file_bytes > 0);
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
        let (text, watched) = watch(&mut child);
        assert!(child.wait().unwrap().success());
        assert_eq!(text, "one\ntwo\n");
        assert!(watched.anonymous_bytes > 0 && watched.cpu_seconds > 0.0, "{watched:?}");
    }
}

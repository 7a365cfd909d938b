//! Runs in processes of their own, so that memory and CPU time are those of one contender, and what
//! the system says about a process.
//!
//! There is one protocol. A program prints lines on standard output. The first one ends the time
//! that is measured; memory is sampled until then. For a *part* of a benchmark the first line is a
//! [`Run`], and the second what the run has left behind, for its check.

use crate::failure::{Failure, at};
use crate::run::Run;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between samples of memory. Sampling takes hardly one percent of a core.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Clock ticks per second in Linux's figures of a process.
const TICKS: f64 = 100.0;

const MIB: f64 = (1 << 20) as f64;

/// A process that has ended.
#[derive(Debug, Clone, Default)]
pub struct Finished {
    /// What it printed.
    pub lines: Vec<String>,
    /// Wall time from its start to its end, CPU time to a hundredth of a second.
    pub run: Run,
    /// Largest anonymous memory seen in the samples.
    pub anonymous_mib: f64,
    /// The same of resident pages of files.
    pub file_mib: f64,
    /// What it sent towards the disk.
    pub written_mib: f64,
}

impl Finished {
    /// A line of the output as JSON.
    ///
    /// # Errors
    /// If there is no such line, or other JSON.
    pub fn json<T: DeserializeOwned>(&self, line: usize) -> Result<T, Failure> {
        let text = self.lines.get(line).map_or("", String::as_str);
        serde_json::from_str(text).map_err(|error| format!("'{text}': {error}").into())
    }

    fn sample(&mut self, process: u32) {
        let status = read(process, "status");
        // The system counts in KiB.
        let mib = |name| 1024.0 * number_in(&status, name) as f64 / MIB;
        self.anonymous_mib = self.anonymous_mib.max(mib("RssAnon"));
        self.file_mib = self.file_mib.max(mib("RssFile"));
    }
}

fn read(process: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// The number after `name:` in text of lines `name: number`; 0 if there is none.
pub fn number_in(text: &str, name: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
    value
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// A line of this process's status that is in KiB, in bytes.
pub fn status_bytes(name: &str) -> u64 {
    number_in(&fs::read_to_string("/proc/self/status").unwrap_or_default(), name) * 1024
}

/// The sum of fields 14 and 15: ticks in the program and in the system. Field 2 is a name that may
/// have spaces.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    // Fields 3 to 13 come first after the name.
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// Runs a command to its end. `name` is the run's name in errors.
///
/// # Errors
/// If the command does not start, or fails.
pub fn finish(command: &mut Command, name: &str) -> Result<Finished, Failure> {
    let (finished, status) = finish_watched(command, &mut || ())?;
    if status.success() {
        return Ok(finished);
    }
    Err(format!("{name}: {status}: {}", finished.lines.join(" ")).into())
}

/// Runs a command to its end, whatever its exit status. `tick` is called with every sample of its
/// memory, so that it can say how far the command is.
///
/// # Errors
/// If the command does not start.
pub fn finish_watched(command: &mut Command, tick: &mut dyn FnMut()) -> Result<(Finished, ExitStatus), Failure> {
    let start = Instant::now();
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(at(program))?;
    // The exit status is read after the counters, which go with it.
    let mut finished = watch(&mut child, tick);
    let status = child.wait()?;
    finished.run.seconds = start.elapsed().as_secs_f64();
    Ok((finished, status))
}

/// Reads all that a process prints. Samples it until it has printed a line or has ended.
fn watch(child: &mut Child, tick: &mut dyn FnMut()) -> Finished {
    let (sender, printed) = mpsc::channel::<()>();
    let out = child.stdout.take();
    let process = child.id();
    let mut finished = Finished::default();
    let text = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut text = String::new();
            // A text that cannot be read is no result, which is an error later on.
            if let Some(mut out) = out.map(BufReader::new) {
                let _ = out.read_line(&mut text);
                // The first line is there: sampling ends.
                drop(sender);
                let _ = out.read_to_string(&mut text);
            }
            text
        });
        // Nothing is ever sent: the reader drops its end after the first line.
        while printed.recv_timeout(SAMPLE_EVERY) != Err(RecvTimeoutError::Disconnected) {
            finished.sample(process);
            tick();
        }
        reader.join().unwrap_or_default()
    });
    // A process that has ended keeps its counters until its exit status is read.
    finished.written_mib = number_in(&read(process, "io"), "write_bytes") as f64 / MIB;
    finished.run.cpu_seconds = cpu_seconds(&read(process, "stat"));
    finished.lines = text.lines().map(str::to_owned).collect();
    finished
}

/// Runs a part of a benchmark: the command's first line is a [`Run`], its second is the result,
/// which the caller checks.
///
/// # Errors
/// Those of [`finish`]; if a line is not there.
pub fn part<T: DeserializeOwned>(command: &mut Command, name: &str) -> Result<(Run, T), Failure> {
    let finished = finish(command, name)?;
    let run: Run = finished.json(0)?;
    // A process that ends before the first sample has no figure.
    let memory = Some(finished.anonymous_mib).filter(|&mib| mib > 0.0);
    Ok((run.with("anonymous_mib", memory), finished.json(1)?))
}

/// Prints a line of the protocol.
///
/// # Errors
/// Those of `out`.
pub fn print(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn figures_of_a_process_are_found() {
        let mut finished = Finished::default();
        finished.sample(std::process::id());
        assert!(finished.anonymous_mib > 0.0 && finished.file_mib > 0.0);
        assert_eq!(
            (number_in("a: 5 kB\nb:\t7\n", "b"), number_in("a: 5 kB\n", "c")),
            (7, 0)
        );
        assert_eq!(cpu_seconds("77 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14"), 3.0);
        assert_eq!(cpu_seconds(""), 0.0);
        assert!(status_bytes("VmRSS") > 0);
    }

    #[test]
    fn a_part_is_watched_until_its_first_line_and_read_to_its_end() {
        let mut lines = Vec::new();
        print(&mut lines, &Run::default().with("figure", 7.0)).unwrap();
        print(&mut lines, &"left").unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let mut command = shell(&format!("{busy}; printf '%s' \"$LINES\""));
        let (run, left): (Run, String) = part(command.env("LINES", lines), "part").unwrap();
        assert_eq!((run.figures["figure"], left.as_str()), (7.0, "left"));
        assert!(run.figures["anonymous_mib"] > 0.0, "{run:?}");
        let finished = finish(&mut shell(busy), "busy").unwrap();
        assert!(
            finished.run.cpu_seconds > 0.0 && finished.run.seconds > 0.0,
            "{finished:?}"
        );
    }

    #[test]
    fn a_process_that_fails_is_named_with_its_words() {
        let error = finish(&mut shell("echo said; exit 3"), "a run").unwrap_err();
        assert_eq!(error.to_string(), "a run: exit status: 3: said");
        assert!(part::<String>(&mut shell("echo 7"), "a run").is_err());
        let error = finish(&mut Command::new("/nowhere/program"), "a run").unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/program: "), "{error}");
    }

    #[test]
    fn a_watcher_hears_while_the_process_runs_and_gets_its_status() {
        let mut ticks = 0;
        let (finished, status) =
            finish_watched(&mut shell("sleep 0.2; echo said; exit 3"), &mut || ticks += 1).unwrap();
        assert_eq!((finished.lines, status.code()), (vec!["said".to_owned()], Some(3)));
        assert!(ticks > 1, "{ticks}");
    }
}

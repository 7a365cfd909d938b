//! A process that may run for hours: its progress, and the last words of one that has failed.

use blockmill_harness::{Failure, Finished, Progress, at, finish_watched};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time between lines about the same work.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Bytes of the end of a log that are read for its last lines.
const END_BYTES: u64 = 4096;

/// Lines of a log that are shown of a process that has failed.
const LINES_SHOWN: usize = 5;

/// Says lines to whoever waits.
pub(super) struct Say<'p> {
    progress: RefCell<Progress<'p>>,
    last: Cell<Instant>,
}

impl<'p> Say<'p> {
    pub(super) fn new(progress: Progress<'p>) -> Self {
        Self {
            progress: RefCell::new(progress),
            last: Cell::new(Instant::now()),
        }
    }

    pub(super) fn line(&self, line: &str) {
        self.last.set(Instant::now());
        (self.progress.borrow_mut())(line);
    }

    /// Says a line if the last one is a while ago.
    pub(super) fn now_and_then(&self, line: impl FnOnce() -> String) {
        if self.last.get().elapsed() >= SAY_EVERY {
            self.line(&line());
        }
    }
}

/// A process of a contender.
pub(super) struct Watched<'a, 'p> {
    pub(super) name: &'a str,
    /// Where its standard error goes.
    pub(super) errors: &'a Path,
    /// The log that says how far it is.
    pub(super) log: &'a Path,
    pub(super) say: &'a Say<'p>,
}

impl Watched<'_, '_> {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// If it fails: how it ended, in words without paths. What it said goes to the user.
    pub(super) fn run(&self, command: &mut Command) -> Result<Finished, Failure> {
        let errors = File::create(self.errors).map_err(at(self.errors))?;
        let mut said = String::new();
        let mut tick = || {
            if self.say.last.get().elapsed() < SAY_EVERY {
                return;
            }
            let lines = last_lines(self.log);
            let line = lines.last().map_or("at work", String::as_str);
            // A log that stands still is said, too: the process may hang.
            let words = if line == said { "still: " } else { "" };
            self.say.line(&format!("{}: {words}{line}", self.name));
            said = line.to_owned();
        };
        let ended = finish_watched(command.stderr(errors), &mut tick);
        let (finished, status) = ended.map_err(|error| {
            self.say.line(&error.to_string());
            "does not start"
        })?;
        if status.success() {
            return Ok(finished);
        }
        for log in [self.errors, self.log] {
            for line in last_lines(log) {
                self.say.line(&format!("{}: {line}", self.name));
            }
            if self.errors == self.log {
                break;
            }
        }
        Err(status.to_string().into())
    }
}

/// The last whole lines of a log. None if it is not there yet.
fn last_lines(log: &Path) -> Vec<String> {
    let end = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(END_BYTES).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let bytes = end().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // The last one may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Vec<&str> = whole.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(LINES_SHOWN);
    lines[first..].iter().map(|&line| short(line).to_owned()).collect()
}

/// A line of the daemon's log: what it says of a new tip, shortened.
fn short(line: &str) -> &str {
    let Some((_, tip)) = line.split_once("UpdateTip: ") else {
        return line;
    };
    // The hash says nothing to a reader.
    tip.split_once(" height=")
        .map_or(tip, |(best, _)| &tip[best.len() + 1..])
}

/// The first line that a program prints about its version.
pub(super) fn version(program: &Path, option: &str) -> Result<String, Failure> {
    let output = Command::new(program).arg(option).output().map_err(at(program))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => Err(format!("{} {option}: {}", program.display(), output.status).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(last_lines(&log), Vec::<String>::new());
        let many: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        std::fs::write(
            &log,
            format!("{many}\nt UpdateTip: new best=aa height=7 version=1\nhalf a li"),
        )
        .unwrap();
        let lines = last_lines(&log);
        assert_eq!((lines.len(), lines[0].as_str()), (LINES_SHOWN, "line 996"));
        assert_eq!(lines[4], "height=7 version=1");
    }

    #[test]
    fn a_process_that_fails_says_how_it_ended_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (errors, log) = (directory.path().join("errors"), directory.path().join("log"));
        let mut said = Vec::new();
        let mut progress = |line: &str| said.push(line.to_owned());
        let say = Say::new(&mut progress);
        let watched = Watched {
            name: "it",
            errors: &errors,
            log: &log,
            say: &say,
        };
        let run = |script: &str| {
            watched
                .run(Command::new("sh").args(["-c", script]))
                .map(|done| done.lines)
        };
        assert_eq!(run("echo out; echo err >&2").unwrap(), ["out"]);
        assert_eq!(
            run("echo /home/me >&2; exit 3").unwrap_err().to_string(),
            "exit status: 3"
        );
        assert!(run("kill -9 $$").unwrap_err().to_string().starts_with("signal: 9"));
        let error = watched.run(&mut Command::new("/nowhere/it")).unwrap_err();
        assert_eq!(error.to_string(), "does not start");
        assert!(said.contains(&"it: /home/me".to_owned()), "{said:?}");
        assert!(said.iter().any(|line| line.starts_with("/nowhere/it: ")), "{said:?}");
    }

    #[test]
    fn a_version_is_the_first_line() {
        let directory = tempfile::tempdir().unwrap();
        let echo = |word: &str| version(Path::new("echo"), word);
        assert_eq!(echo("one\ntwo").unwrap(), "one");
        assert!(version(Path::new("false"), "-version").is_err());
        assert!(version(&directory.path().join("none"), "-version").is_err());
    }
}

//! A client of the page that sends what it wants to, and a command that serves one.

use crate::common::{blockmill, generate_command, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a test waits for something.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A command with a page. It is killed with its owner.
pub(super) struct Served {
    child: Child,
    pub(super) address: String,
    lines: BufReader<ChildStderr>,
}

impl Served {
    /// Starts a command, whose lines are JSON, and waits until it serves.
    pub(super) fn start(command: &mut Command) -> Self {
        let command = command.args(["--http", "0", "--log", "json"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it does not serve");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["event"] == "http" {
                break line["address"].as_str().unwrap().to_owned();
            }
        };
        Self { child, address, lines }
    }

    /// `follow` on a few blocks, which serves until it is stopped.
    pub(super) fn follow(folder: &Path) -> Self {
        let blocks = folder.join("blocks");
        run(generate_command(&blocks, "utxo", 30).args(["--inputs", "3000"])).ends_with(0);
        let served = Self::start(&mut follow(&blocks, &folder.join("data")));
        served.wait_for_state("at_the_tip");
        served
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a request, which is sent as it is.
    pub(super) fn ask(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Answer::read(&mut BufReader::new(stream), request.starts_with("HEAD"))
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    pub(super) fn status(&self) -> Value {
        let answer = self.get("/status.json");
        assert_eq!(answer.status, 200);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Waits for the figures to be as they are wanted.
    #[track_caller]
    pub(super) fn wait_for(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if is_wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "{status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(super) fn wait_for_state(&self, state: &str) -> Value {
        self.wait_for(|status| status["state"] == state)
    }

    /// The figures, as long as the command serves them.
    pub(super) fn status_if_served(&self) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(b"GET /status.json HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Asks the command to end. Returns its status.
    pub(super) fn stop(mut self) -> Option<i32> {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        self.end()
    }

    /// Waits for the end of the command. Returns its status.
    pub(super) fn end(&mut self) -> Option<i32> {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn follow(blocks: &Path, data: &Path) -> Command {
    let mut command = blockmill();
    command.args(["follow", "--network", "regtest", "--blocks"]).arg(blocks);
    command.arg("--data").arg(data);
    command
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

/// The lines up to an empty one.
fn read_head(lines: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
    head
}

impl Answer {
    /// Reads an answer, and no more. `is_head` says that it has no body.
    pub(super) fn read(lines: &mut impl BufRead, is_head: bool) -> Self {
        let head = read_head(lines);
        let status = head.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {head}"));
        let mut answer = Self {
            status: status.parse().unwrap(),
            body: String::new(),
            head,
        };
        if !is_head {
            let length = answer
                .header("content-length")
                .map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            lines.read_exact(&mut body).unwrap();
            answer.body = String::from_utf8(body).unwrap();
        }
        answer
    }

    /// The value of a line of the head.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

//! A node of Core's, and its calls over HTTP.

use crate::follow::{PATIENCE, Running};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The user and the password of the node's calls, `u:p` in the form of HTTP.
const RIGHTS: &str = "dTpw";

/// A node on its own regtest chain.
pub(crate) struct Bitcoind {
    program: String,
    folder: PathBuf,
    running: Running,
    port: u16,
    pub(super) kind: NodeKind,
    /// The node's clock, in seconds since 1970.
    now: u64,
}

/// What a node does besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// It has an index of filters, and one of figures of the set.
    Indexing,
    Pruning,
    /// It is killed at any time, and forgets blocks. An index that knows more than the node would
    /// keep it from starting.
    Forgetting,
}

/// The arguments of every node.
fn arguments(folder: &Path, port: u16) -> [String; 8] {
    [
        &format!("-datadir={}", folder.display()),
        &format!("-rpcport={port}"),
        "-listen=0",
        "-rpcuser=u",
        "-rpcpassword=p",
        "-server",
        "-dnsseed=0",
        "-printtoconsole=0",
    ]
    .map(str::to_owned)
}

fn spawn(program: &str, folder: &Path, port: u16, kind: NodeKind, now: u64) -> Running {
    let mut command = Command::new(program);
    command.arg("-regtest").args(arguments(folder, port));
    command.arg(format!("-mocktime={now}"));
    if kind == NodeKind::Pruning {
        // Files of 64 KiB, and calls that remove them.
        command.args(["-prune=1", "-fastprune"]);
    } else if kind == NodeKind::Indexing {
        command.args(["-blockfilterindex=1", "-coinstatsindex=1"]);
    }
    Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Bitcoind {
    /// A node of a real chain, without a network, that has an index of figures of the set. It reads
    /// the blocks that lie in its folder.
    pub(crate) fn of_chain(program: &str, folder: &Path, chain: &str) -> Self {
        let port = free_port();
        let mut command = Command::new(program);
        command.arg(format!("-chain={chain}")).args(arguments(folder, port));
        command.args(["-connect=0", "-reindex", "-coinstatsindex=1"]);
        let node = Self {
            running: Running::of(command.stdout(Stdio::null()).stderr(Stdio::null())),
            program: program.to_owned(),
            folder: folder.to_owned(),
            port,
            kind: NodeKind::Indexing,
            now: 0,
        };
        node.wait_until_ready();
        node
    }

    pub(super) fn start(program: &str, folder: &Path, kind: NodeKind) -> Self {
        let port = free_port();
        // No block is from the future of anybody.
        let now = 1_700_000_000;
        let node = Self {
            running: spawn(program, folder, port, kind, now),
            program: program.to_owned(),
            folder: folder.to_owned(),
            port,
            kind,
            now,
        };
        node.wait_until_ready();
        node
    }

    /// Where it writes blocks.
    pub(super) fn blocks(&self) -> PathBuf {
        self.folder.join("regtest/blocks")
    }

    /// The answer to a call, with an error in place of a result.
    fn ask(&self, method: &str, parameters: &Value) -> std::io::Result<Result<Value, String>> {
        let body = json!({"id": 0, "method": method, "params": parameters}).to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {RIGHTS}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let Ok(answer) = serde_json::from_str::<Value>(body) else {
            return Ok(Err(format!("{head}\n{body}")));
        };
        Ok(match &answer["error"] {
            Value::Null => Ok(answer["result"].clone()),
            error => Err(error.to_string()),
        })
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, parameters: Value) -> Value {
        let answer = self.ask(method, &parameters).unwrap();
        answer.unwrap_or_else(|error| panic!("{method} {parameters}: {error}"))
    }

    pub(crate) fn height(&self) -> usize {
        self.call("getblockcount", json!([])).as_u64().unwrap() as usize
    }

    pub(super) fn block_hash(&self, height: usize) -> String {
        self.call("getblockhash", json!([height])).as_str().unwrap().to_owned()
    }

    pub(super) fn best(&self) -> String {
        self.call("getbestblockhash", json!([])).as_str().unwrap().to_owned()
    }

    /// Moves the node's clock on, so that no two blocks are the same.
    pub(super) fn pass_time(&mut self, seconds: u64) {
        self.now += seconds;
        self.call("setmocktime", json!([self.now]));
    }

    fn wait_until_ready(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.ask("getblockcount", &json!([])) {
                Ok(Ok(_)) => return,
                answer => assert!(Instant::now() < end, "the node does not start: {answer:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start_again(&mut self) {
        self.running = spawn(&self.program, &self.folder, self.port, self.kind, self.now);
        self.wait_until_ready();
    }

    pub(super) fn kill_and_start(&mut self) {
        let _ = self.running.0.kill();
        let _ = self.running.0.wait();
        self.start_again();
    }

    pub(super) fn stop_and_start(&mut self) {
        self.call("stop", json!([]));
        let _ = self.running.0.wait();
        self.start_again();
    }
}

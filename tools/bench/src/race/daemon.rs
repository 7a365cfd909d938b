//! Core's daemon as a contender: it indexes the copy of the blocks once, then each run makes the
//! chainstate anew.

use super::chain::Chain;
use super::runs::{Say, Watched};
use super::setup::Setup;
use super::verdict::Set;
use crate::node::{Node, last_tip};
use blockmill_harness::{Failure, Finished, Run, at};
use serde_json::Value;
use std::cell::Cell;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Time between questions to a daemon that starts or ends.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// The daemon with its copy of the blocks.
pub(super) struct Racer<'a, 'p> {
    node: Node,
    cli: PathBuf,
    chain: &'a Chain,
    cache_mib: u32,
    errors: PathBuf,
    say: &'a Say<'p>,
    is_indexed: Cell<bool>,
}

/// A daemon that answers. It does not outlive this.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a, 'p> Racer<'a, 'p> {
    /// Copies the blocks into the data directory of a daemon.
    pub(super) fn prepare(
        program: &Path,
        setup: &Setup,
        chain: &'a Chain,
        work: &Path,
        say: &'a Say<'p>,
    ) -> Result<Self, Failure> {
        // The daemon has another folder at hand when it is started.
        let program = std::path::absolute(program).map_err(at(program))?;
        let racer = Self {
            cli: Setup::cli(&program),
            node: Node {
                program,
                data: work.join("node"),
                network: setup.network,
            },
            chain,
            cache_mib: setup.cache_mib,
            errors: work.join("bitcoind.log"),
            say,
            is_indexed: Cell::new(false),
        };
        chain.copy(&racer.blocks(), say)?;
        Ok(racer)
    }

    /// The folder with the copy of the blocks.
    pub(super) fn blocks(&self) -> PathBuf {
        self.node.blocks()
    }

    fn until(&self, height: u32, how: &str) -> Result<Finished, Failure> {
        // The daemon would append to the log of an earlier run.
        let _ = std::fs::remove_file(self.node.log());
        let log = self.node.log();
        let watched = Watched {
            name: "bitcoind",
            errors: &self.errors,
            log: &log,
            say: self.say,
        };
        // With 0 threads it takes all cores, as ours does.
        let mut command = self.node.until(height, 0, self.cache_mib);
        watched.run(command.args([how, "-assumevalid=0"]))
    }

    /// Indexes the blocks. One of them is connected: the runs connect the others.
    fn index(&self) -> Result<(), Failure> {
        self.say.line("bitcoind: indexing the copy of the blocks");
        let indexed = self.until(1, "-reindex");
        indexed.map_err(|error| format!("-reindex: {error}"))?;
        self.is_indexed.set(true);
        Ok(())
    }

    /// Makes the chainstate anew. The first run indexes the blocks before its time begins.
    pub(super) fn run(&self) -> Result<Run, Failure> {
        if !self.is_indexed.get() {
            self.index()?;
        }
        let finished = self.until(self.chain.height, "-reindex-chainstate")?;
        let log = std::fs::read(self.node.log()).map_err(|_| "has left no log")?;
        if last_tip(&String::from_utf8_lossy(&log)) != self.chain.tip {
            return Err("ended below the last block".into());
        }
        let known = |mib: f64| Some(mib).filter(|&mib| mib > 0.0);
        Ok(finished
            .run
            .with("anonymous_mib", known(finished.anonymous_mib))
            .with("written_mib", known(finished.written_mib)))
    }

    /// What the daemon says of its set. It has no block to go on with.
    pub(super) fn set(&self) -> Result<Set, Failure> {
        self.say.line("bitcoind: hash of its set");
        let port = free_port()?;
        let errors = std::fs::File::create(&self.errors).map_err(at(&self.errors))?;
        let mut daemon = self.node.daemon();
        daemon.args(["-server=1", &format!("-rpcport={port}"), "-assumevalid=0"]);
        let daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let mut daemon = Serving(daemon.map_err(|_| "does not start")?);
        let ask = |call: &str| {
            let mut command = self.node.command(&self.cli);
            command.args([&format!("-rpcport={port}"), "-rpcclienttimeout=0", call]);
            command.stdin(Stdio::null()).output()
        };
        while !ask("getblockcount")
            .map_err(|_| "bitcoin-cli does not start")?
            .status
            .success()
        {
            if let Some(status) = daemon.0.try_wait()? {
                return Err(format!("ended before it answered: {status}").into());
            }
            std::thread::sleep(ASK_EVERY);
        }
        let answer = ask("gettxoutsetinfo")?;
        if !answer.status.success() {
            let words = String::from_utf8_lossy(&answer.stderr);
            self.say.line(&format!("bitcoin-cli: {}", words.trim()));
            return Err(format!("gettxoutsetinfo: {}", answer.status).into());
        }
        let set: Value = serde_json::from_slice(&answer.stdout).map_err(|_| "gettxoutsetinfo: no JSON")?;
        let set = Set::of(&set);
        // It is stopped as a user would: the next run must not find it damaged.
        ask("stop")?;
        daemon.0.wait()?;
        set
    }
}

/// A port of this machine that nobody listens at.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

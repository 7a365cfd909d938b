//! Bitcoin Core's daemon as a peer. It indexes the block files before the runs. A run rebuilds the
//! chainstate from them.

use crate::node::{Node, last_tip};
use crate::options::temporary_directory;
use blockmill_block::Network;
use blockmill_chaingen::Summary;
use blockmill_harness::{Failure, Run, at, finish, finish_watched};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Memory for coins in MiB where nothing else is said: Core's default, and its library offers no
/// other.
pub(crate) const CACHE_MIB: u32 = 450;

/// A daemon with a data directory of its own, which holds the blocks.
pub(crate) struct Daemon {
    node: Node,
    /// Its data directory, which goes with it.
    _data: TempDir,
    height: u32,
}

impl Daemon {
    /// Copies the blocks, and lets the daemon index them.
    pub(super) fn prepare(program: &Path, blocks: &Path, expected: &Summary) -> Result<Self, Failure> {
        let data = temporary_directory()?;
        let node = Node {
            program: program.to_owned(),
            data: data.path().to_owned(),
            network: Network::Regtest,
        };
        let daemon = Self {
            node,
            _data: data,
            height: expected.height,
        };
        let folder = daemon.blocks();
        std::fs::create_dir_all(&folder).map_err(at(&folder))?;
        for name in &expected.files {
            let from = blocks.join(name);
            std::fs::copy(&from, folder.join(name)).map_err(at(from))?;
        }
        // This also writes undo files, which an audit of the same folder reads.
        daemon.run(&["-reindex", "-assumevalid=0"], 0, CACHE_MIB)?;
        Ok(daemon)
    }

    /// The folder with its block files and undo files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.node.blocks()
    }

    /// Rebuilds the chainstate, with `cache_mib` MiB for coins, and returns the tip. With
    /// `assumed`, scripts up to this block are assumed to be valid.
    pub(super) fn connect(
        &self,
        threads: usize,
        cache_mib: u32,
        assumed: Option<&str>,
    ) -> Result<(Run, String), Failure> {
        let assumed = format!("-assumevalid={}", assumed.unwrap_or("0"));
        let run = self.run(&["-reindex-chainstate", &assumed], threads, cache_mib)?;
        // The daemon answers no call here: it has no server, and has ended.
        let log = std::fs::read_to_string(self.node.log()).map_err(at(self.node.log()))?;
        Ok((run, last_tip(&log).to_owned()))
    }

    /// Makes an index anew, which `option` turns on. The time is that of the index's thread, and
    /// the CPU time that of the daemon, which starts, and ends when the thread has.
    pub(crate) fn index(&self, option: &str, thread: &str) -> Result<Run, Failure> {
        let _ = std::fs::remove_file(self.node.log());
        let indexes = self.blocks().with_file_name("indexes");
        match std::fs::remove_dir_all(&indexes) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(&indexes)(error)),
            _ => {}
        }
        let said = || std::fs::read_to_string(self.node.log()).unwrap_or_default();
        let pid = self.blocks().with_file_name("bitcoind.pid");
        let mut is_told = false;
        let mut tick = || {
            if !is_told && said().contains(&format!("{thread} thread exit")) {
                let process = std::fs::read_to_string(&pid).unwrap_or_default();
                is_told = Command::new("kill")
                    .arg(process.trim())
                    .status()
                    .is_ok_and(|done| done.success());
            }
        };
        let mut daemon = self.node.daemon();
        daemon.args(["-server=0", "-logtimemicros=1", option]);
        let (finished, status) = finish_watched(&mut daemon, &mut tick)?;
        if !status.success() {
            return Err(format!("bitcoind {option}: {status}").into());
        }
        let seconds = seconds_of(&said(), thread).ok_or("the log does not say when the index was made")?;
        let run = Run {
            seconds,
            ..finished.run
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    /// Runs the daemon until it has reached the height of the chain.
    fn run(&self, more: &[&str], threads: usize, cache_mib: u32) -> Result<Run, Failure> {
        // The daemon would append to the log of an earlier run.
        let _ = std::fs::remove_file(self.node.log());
        let mut command = self.node.until(self.height, threads, cache_mib);
        let finished = finish(command.args(more), "bitcoind")?;
        Ok(finished.run.with("anonymous_mib", finished.anonymous_mib))
    }
}

/// The time from the start of a thread to its end, by a log with microseconds. The thread takes
/// less than a day.
fn seconds_of(log: &str, thread: &str) -> Option<f64> {
    let moment = |what: &str| {
        let line = log
            .lines()
            .find(|line| line.ends_with(&format!("{thread} thread {what}")))?;
        let mut clock = line.get(11..26)?.split(':').map(|part| part.parse::<f64>().ok());
        let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
        Some(hours * 3600.0 + minutes * 60.0 + seconds)
    };
    Some((moment("exit")? - moment("start")?).rem_euclid(86_400.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_chaingen::{ChainSpec, Profile, write_chain};
    use std::os::unix::fs::PermissionsExt;

    /// A program that writes its arguments into its directory, and a log like the daemon's, which
    /// ends with `tip`.
    fn stand_in(directory: &Path, tip: &str, status: u8) -> PathBuf {
        let path = directory.join("bitcoind");
        let text = format!(
            "#!/bin/sh\nfor word; do case $word in -datadir=*) data=${{word#-datadir=}};; esac; done\n\
             echo \"$@\" >> $data/calls\necho '2026-01-01T00:00:00Z UpdateTip: new best=aa height=1 version=0x1' > $data/regtest/debug.log\n\
             echo '2026-01-01T00:00:00Z UpdateTip: new best={tip} height=2' >> $data/regtest/debug.log\necho said\nexit {status}\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_time_of_a_thread() {
        let log = "2026-11-26T23:59:59.500000Z [x] x thread start\n2026-11-26T23:59:59.600000Z [y] y thread start\n\
                   2026-11-27T00:00:01.250000Z [y] y thread exit\n";
        assert!((seconds_of(log, "y").unwrap() - 1.65).abs() < 1e-6);
        assert_eq!(seconds_of(log, "x"), None);
    }

    #[test]
    fn the_daemon_indexes_once_and_connects_as_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("blocks");
        let summary = write_chain(&blocks, &ChainSpec::new(Profile::Utxo, 3, 1), &mut |_| ()).unwrap();
        let daemon = Daemon::prepare(&stand_in(directory.path(), "bb", 0), &blocks, &summary).unwrap();
        let copied = std::fs::read(daemon.blocks().join(&summary.files[0])).unwrap();
        assert_eq!(copied, std::fs::read(blocks.join(&summary.files[0])).unwrap());
        assert_eq!(daemon.connect(3, 4_000, Some("cc")).unwrap().1, "bb");
        let calls = std::fs::read_to_string(daemon.node.data.join("calls")).unwrap();
        let calls: Vec<_> = calls.lines().collect();
        for (call, end) in calls.iter().zip([
            "-dbcache=450 -par=0 -stopatheight=3 -reindex -assumevalid=0",
            "-dbcache=4000 -par=3 -stopatheight=3 -reindex-chainstate -assumevalid=cc",
        ]) {
            assert!(call.ends_with(end), "{call}");
        }
        let error = Daemon::prepare(&stand_in(directory.path(), "bb", 3), &blocks, &summary);
        assert!(error.err().unwrap().to_string().contains("said"));
    }
}

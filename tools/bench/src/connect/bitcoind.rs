//! Bitcoin Core's daemon as a peer. It indexes the block files before the runs. A run rebuilds the
//! chainstate from them.

use super::contender::CACHE_MIB;
use super::subprocess::Run;
use super::temporary_directory;
use crate::clock::Elapsed;
use crate::error::BenchError;
use crate::process_stats::{ProcessStats, watch};
use blockmill_chaingen::Summary;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// A daemon with a data directory of its own, which holds the blocks.
pub(crate) struct Daemon {
    executable: PathBuf,
    data: TempDir,
    height: u32,
}

impl Daemon {
    /// Copies the blocks, and lets the daemon index them.
    pub(crate) fn prepare(executable: &Path, blocks: &Path, expected: &Summary) -> Result<Self, BenchError> {
        let daemon = Self {
            executable: executable.to_owned(),
            data: temporary_directory()?,
            height: expected.height,
        };
        let folder = daemon.blocks();
        std::fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
        for name in &expected.files {
            let (from, to) = (blocks.join(name), folder.join(name));
            std::fs::copy(&from, &to).map_err(BenchError::file(from))?;
        }
        daemon.run(&["-reindex", "-assumevalid=0"], 0, CACHE_MIB)?;
        Ok(daemon)
    }

    fn folder(&self) -> PathBuf {
        self.data.path().join("regtest")
    }

    /// The folder with its block files and undo files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.folder().join("blocks")
    }

    /// Rebuilds the chainstate, with `cache_mib` MiB for coins. The whole process is timed. With
    /// `assumed`, scripts up to this block are assumed to be valid.
    pub(crate) fn connect(&self, threads: usize, cache_mib: u32, assumed: Option<&str>) -> Result<Run, BenchError> {
        let assumed = format!("-assumevalid={}", assumed.unwrap_or("0"));
        let start = Instant::now();
        let stats = self.run(&["-reindex-chainstate", &assumed], threads, cache_mib)?;
        let seconds = start.elapsed().as_secs_f64();
        let path = self.log();
        let log = std::fs::read_to_string(&path).map_err(BenchError::file(&path))?;
        Ok(Run {
            elapsed: Elapsed {
                seconds,
                cpu_seconds: stats.cpu_seconds,
            },
            anonymous_bytes: Some(stats.anonymous_bytes),
            traced: None,
            figures: None,
            tip: last_tip(&log).to_owned(),
        })
    }

    fn log(&self) -> PathBuf {
        self.folder().join("debug.log")
    }

    /// Runs the daemon until it has reached the height of the chain. With 0 threads it chooses the
    /// number of threads for scripts.
    fn run(&self, more: &[&str], threads: usize, cache_mib: u32) -> Result<ProcessStats, BenchError> {
        // The daemon would append to the log of an earlier run.
        let _ = std::fs::remove_file(self.log());
        let mut child = Command::new(&self.executable)
            .args(["-regtest", "-server=0", "-listen=0", "-connect=0", "-dnsseed=0"])
            .args(["-printtoconsole=0", "-persistmempool=0", "-checkblockindex=0"])
            .arg(format!("-datadir={}", self.data.path().display()))
            .arg(format!("-dbcache={cache_mib}"))
            .arg(format!("-par={threads}"))
            .arg(format!("-stopatheight={}", self.height))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::file(&self.executable))?;
        let (text, stats) = watch(&mut child);
        let status = child.wait().map_err(BenchError::file(&self.executable))?;
        if status.success() {
            return Ok(stats);
        }
        Err(BenchError::Process {
            run: format!("bitcoind {}", more.join(" ")),
            detail: format!("{status}: {}", text.trim()),
        })
    }
}

/// The last tip that a log names.
fn last_tip(log: &str) -> &str {
    let lines = log.lines().rev();
    let mut tips = lines.filter_map(|line| line.split("UpdateTip: new best=").nth(1));
    tips.next()
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or("")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use blockmill_chaingen::{ChainSpec, Profile, write_chain};
    use std::os::unix::fs::PermissionsExt;

    /// A program that writes its arguments into its directory, and a log like the daemon's, which
    /// ends with `tip`.
    pub(in super::super) fn stand_in(directory: &Path, tip: &str, status: u8) -> PathBuf {
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
    fn the_daemon_indexes_once_and_connects_as_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("blocks");
        let summary = write_chain(&blocks, &ChainSpec::new(Profile::Utxo, 3, 1), &mut |_| ()).unwrap();
        let daemon = Daemon::prepare(&stand_in(directory.path(), "bb", 0), &blocks, &summary).unwrap();
        let copied = std::fs::read(daemon.folder().join("blocks").join(&summary.files[0])).unwrap();
        assert_eq!(copied, std::fs::read(blocks.join(&summary.files[0])).unwrap());
        let run = daemon.connect(3, 4_000, Some("cc")).unwrap();
        assert_eq!(run.tip, "bb");
        daemon.connect(1, 450, None).unwrap();
        let calls = std::fs::read_to_string(daemon.data.path().join("calls")).unwrap();
        let calls: Vec<_> = calls.lines().collect();
        assert!(
            calls[0].ends_with("-dbcache=450 -par=0 -stopatheight=3 -reindex -assumevalid=0"),
            "{calls:?}"
        );
        assert!(
            calls[1].ends_with("-dbcache=4000 -par=3 -stopatheight=3 -reindex-chainstate -assumevalid=cc"),
            "{calls:?}"
        );
        assert!(
            calls[2].ends_with("-dbcache=450 -par=1 -stopatheight=3 -reindex-chainstate -assumevalid=0"),
            "{calls:?}"
        );

        let error = Daemon::prepare(&stand_in(directory.path(), "bb", 3), &blocks, &summary)
            .err()
            .unwrap();
        assert!(error.to_string().contains("said"), "{error}");
    }

    #[test]
    fn the_last_tip_of_a_log_counts() {
        assert_eq!(
            last_tip("UpdateTip: new best=aa height=1\nUpdateTip: new best=bb\nDone"),
            "bb"
        );
        assert_eq!(last_tip("nothing"), "");
    }
}

//! A chain with undo files and a snapshot, and what runs over it.

use crate::connect::{CACHE_MIB, Connect, ONE_BY_ONE, Site, call};
use crate::options::{Options, temporary_directory};
use blockmill_chaingen::ChainSpec;
use blockmill_harness::{Contender, Failure, Row, Run, at, same};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(super) const AUDIT: &str = "audit";
pub(super) const BITCOIND: &str = "bitcoind";

/// A chain in files as Bitcoin Core has them, with a snapshot of its set.
pub(crate) struct Audited {
    program: PathBuf,
    pub(crate) site: Site,
    signatures: &'static str,
}

impl Audited {
    /// Makes a chain. Its undo data is that of `connect`, or of the daemon.
    pub(crate) fn make(options: &Options, spec: &ChainSpec, signatures: &'static str) -> Result<Self, Failure> {
        let program = options.blockmill()?;
        let site = Site::make(spec, options.bitcoind.as_deref())?;
        let this = Self {
            program,
            site,
            signatures,
        };
        let data = this.site.path("data");
        // It leaves the set to dump and the undo data.
        this.connect(1).run(&this.site.blocks(), &data)?;
        let dump: [&OsStr; 6] = [
            "snapshot".as_ref(),
            "dump".as_ref(),
            "--json".as_ref(),
            "--data".as_ref(),
            data.as_ref(),
            &this.snapshot().into_os_string(),
        ];
        call(&this.program, &dump)?;
        // A daemon has written undo files itself.
        if this.site.daemon.is_none() {
            this.write_core_folder(&data)?;
        }
        Ok(this)
    }

    /// One block file with all blocks, and the undo data as its undo file: they have Core's form.
    fn write_core_folder(&self, data: &Path) -> Result<(), Failure> {
        let folder = self.site.path("core");
        std::fs::create_dir(&folder).map_err(at(&folder))?;
        let path = folder.join("blk00000.dat");
        let mut blocks = File::create(&path).map_err(at(&path))?;
        for name in &self.site.summary.files {
            let path = self.site.blocks().join(name);
            let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, &mut blocks));
            copied.map_err(at(&path))?;
        }
        // Our log has the records of undo files in the order of the blocks.
        let undo = data.join("undo.dat");
        std::fs::copy(&undo, folder.join("rev00000.dat")).map_err(at(&undo))?;
        Ok(())
    }

    fn connect(&self, threads: usize) -> Connect<'_> {
        Connect {
            program: self.program.clone(),
            threads,
            cache_mib: CACHE_MIB,
            signatures: self.signatures,
            assumed: None,
        }
    }

    /// The folder with block files and undo files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.site
            .daemon
            .as_ref()
            .map_or_else(|| self.site.path("core"), |daemon| daemon.blocks())
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.site.path("set")
    }

    fn run_audit(&self, threads: usize) -> Result<Run, Failure> {
        let par = threads.to_string();
        let (blocks, snapshot) = (self.blocks(), self.snapshot());
        let mut words: Vec<&OsStr> = vec!["audit".as_ref(), "--blocks".as_ref(), blocks.as_ref()];
        words.extend(["--snapshot".as_ref(), snapshot.as_os_str()]);
        words.extend(["--json", "--network", "regtest", "--par", &par].map(OsStr::new));
        words.extend(["--signatures", self.signatures].map(OsStr::new));
        let (finished, report) = call(&self.program, &words)?;
        let summary = &self.site.summary;
        same(AUDIT, "verdict", &report["verdict"], "proved")?;
        same(AUDIT, "inputs", &report["inputs"], summary.inputs)?;
        same(AUDIT, "coins", &report["coins"], summary.coins)?;
        let run = Run {
            count: summary.inputs,
            ..finished.run.clone()
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    fn run_connect(&self, threads: usize) -> Result<Run, Failure> {
        let data = temporary_directory()?;
        let (finished, report) = self.connect(threads).run(&self.blocks(), data.path())?;
        same("connect", "tip", &report["tip"], self.site.summary.tip.as_str())?;
        let run = Run {
            count: self.site.summary.inputs,
            ..finished.run.clone()
        };
        Ok(run.with("anonymous_mib", finished.anonymous_mib))
    }

    pub(super) fn contenders(&self, chain: &str, threads: usize) -> Vec<Contender<'_>> {
        let row = |what: &str, signatures: &str| {
            let way = if signatures == ONE_BY_ONE {
                "one by one"
            } else {
                signatures
            };
            let row = Row::new(chain).with("what", what).with("signatures", way);
            row.with("threads", threads)
        };
        let ours = |what| row(what, self.signatures);
        let mut contenders = vec![
            Contender::new(AUDIT, ours(AUDIT), move || self.run_audit(threads)),
            Contender::new("connect", ours("connect"), move || self.run_connect(threads)).beside_ours(AUDIT),
        ];
        if self.site.daemon.is_some() {
            let run = move || self.site.reindex(threads, CACHE_MIB, None);
            contenders.push(Contender::new(BITCOIND, row(BITCOIND, ONE_BY_ONE), run).beside_ours(AUDIT));
        }
        contenders
    }
}

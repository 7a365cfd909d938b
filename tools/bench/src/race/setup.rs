//! What the options of a race come to, and the folder for what is made on the way.

use super::NAME;
use crate::connect::CACHE_MIB;
use crate::options::{Options, Usage};
use blockmill_block::Network;
use blockmill_harness::{Failure, at, free_bytes};
use std::path::{Path, PathBuf};

/// The folder for the results where none is named.
const OUT: &str = "blockmill-race";

/// The program that asks Core's daemon; it lies beside the daemon.
const CLI: &str = "bitcoin-cli";

/// The options, checked.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) blocks: PathBuf,
    pub(super) network: Network,
    pub(super) to: Option<u32>,
    pub(super) bitcoind: Option<PathBuf>,
    pub(super) cache_mib: u32,
    pub(super) runs: usize,
    out: PathBuf,
}

/// A folder that is removed with all that is in it.
pub(super) struct Work(PathBuf);

impl Work {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Nobody can do anything about it here. The next run names the folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The options with the files of the results. Makes their folder.
pub(crate) fn with_files(options: &Options) -> Result<Options, Failure> {
    let setup = Setup::new(options)?;
    std::fs::create_dir_all(&setup.out).map_err(at(&setup.out))?;
    let file = |given: &Option<PathBuf>, ending: &str| {
        let own = setup.out.join(NAME).with_extension(ending);
        Some(given.clone().unwrap_or(own))
    };
    Ok(Options {
        json: file(&options.json, "json"),
        html: file(&options.html, "html"),
        ..options.clone()
    })
}

impl Setup {
    pub(super) fn new(options: &Options) -> Result<Self, Failure> {
        let usage = |words: &str| Failure::from(Usage(words.to_owned()));
        let blocks = options.blocks.clone();
        let blocks = blocks.ok_or_else(|| usage("race needs --blocks DIR, the folder with your block files"))?;
        let blocks = blocks.canonicalize().map_err(at(&blocks))?;
        let out = options.out.clone().unwrap_or_else(|| OUT.into());
        let out = std::path::absolute(&out).map_err(at(&out))?;
        // Links are followed as far as the folder is there.
        let real = out.ancestors().find_map(|folder| folder.canonicalize().ok());
        if real.is_some_and(|real| real.starts_with(&blocks)) {
            return Err(usage("--out is in the folder of the blocks, where nothing is written"));
        }
        if let Some(bitcoind) = &options.bitcoind
            && !bitcoind.with_file_name(CLI).is_file()
        {
            return Err(usage(&format!("{CLI} must be beside {}", bitcoind.display())));
        }
        if options.to == Some(0) {
            return Err(usage(
                "--to must be 1 at least: there is nothing to validate in the first block",
            ));
        }
        Ok(Self {
            blocks,
            network: options.network.unwrap_or(Network::Bitcoin),
            to: options.to,
            bitcoind: options.bitcoind.clone(),
            cache_mib: options.dbcache.unwrap_or(CACHE_MIB),
            runs: options.runs.unwrap_or(1),
            out,
        })
    }

    /// The program that asks the daemon.
    pub(super) fn cli(bitcoind: &Path) -> PathBuf {
        bitcoind.with_file_name(CLI)
    }

    /// The command line for the report, without the user's paths.
    pub(super) fn words(&self, height: u32) -> String {
        let bitcoind = self.bitcoind.as_ref().map_or("", |_| " --bitcoind PATH");
        let (network, cache_mib, runs) = (self.network.name(), self.cache_mib, self.runs);
        format!(
            "blockmill-bench race --blocks DIR{bitcoind} --network {network} --to {height} --dbcache {cache_mib} --runs {runs}"
        )
    }

    /// Makes the folder for sets and copies of a chain of `bytes` bytes. There must be room for
    /// them.
    pub(super) fn make_work(&self, bytes: u64) -> Result<Work, Failure> {
        let path = self.out.join("work");
        std::fs::create_dir(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::from(format!(
                "{} is there: another race goes on, or one was stopped; remove the folder then",
                path.display()
            )),
            _ => at(&path)(error),
        })?;
        let work = Work(path);
        // A set and undo data take a seventh of the blocks on the main network.
        let sets = bytes / 5;
        let needed = match self.bitcoind {
            Some(_) => bytes + 2 * sets,
            None => sets,
        };
        let free = free_bytes(work.path())?;
        if free < needed {
            let gb = |bytes: u64| bytes as f64 / 1e9;
            return Err(format!(
                "{}: {:.1} GB are free, and {:.1} GB are needed; choose another --out, or a lower --to",
                self.out.display(),
                gb(free),
                gb(needed)
            )
            .into());
        }
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_before_anything_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("blocks");
        std::fs::create_dir(&blocks).unwrap();
        let options = Options {
            blocks: Some(blocks.clone()),
            out: Some(directory.path().join("out")),
            ..Options::default()
        };
        let words = Setup::new(&options).unwrap().words(7);
        assert_eq!(
            words,
            "blockmill-bench race --blocks DIR --network bitcoin --to 7 --dbcache 450 --runs 1"
        );
        let check = |change: &dyn Fn(&mut Options), words: &str| {
            let mut options = options.clone();
            change(&mut options);
            let error = with_files(&options).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains(words), "{error}");
        };
        check(&|options| options.blocks = None, "--blocks");
        check(&|options| options.out = Some(blocks.join("new/out")), "--out");
        check(
            &|options| options.bitcoind = Some(blocks.join("bitcoind")),
            "bitcoin-cli",
        );
        check(&|options| options.to = Some(0), "--to");
        assert!(!directory.path().join("out").exists());
        let named = with_files(&options).unwrap();
        assert_eq!(named.json.unwrap(), directory.path().join("out/race.json"));
    }
}

//! Runs that go on: what of an earlier call still counts.

use super::{Site, is};
use crate::common::{Run, run};
use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A height whose block spends coins.
const LIED: usize = 130;

fn resume(site: &Site) -> Run {
    run(site.audit().arg("--resume").arg(site.scratch.join("resume")))
}

/// The undo file of a height.
fn rev(site: &Site, height: usize) -> PathBuf {
    site.blocks().join(format!("rev{:05}.dat", height / 50))
}

/// Writes the files of a chain that lies, audits them, and brings back the true ones.
#[track_caller]
fn lie_and_mend(tell: impl Fn(&mut Site), verdict: &str, status: i32, kinds: &[&str]) {
    let mut site = Site::generated();
    assert!(site.chain.blocks[LIED].spent.len() > 3);
    let honest = site.chain.clone();
    tell(&mut site);
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    for _ in 0..2 {
        // While the files stay, so does the verdict.
        is(&resume(&site).ends_with(status).json(), verdict, kinds);
    }
    site.chain = honest;
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    is(&resume(&site).ends_with(0).json(), "proved", &[]);
}

#[test]
fn a_broken_rule_of_other_files() {
    let tell = |site: &mut Site| site.chain.blocks[LIED].spent[1].script = bitcoin::ScriptBuf::new_op_return([1]);
    lie_and_mend(tell, "refuted", 1, &["block"]);
}

#[test]
fn wrong_sums_of_other_files() {
    let tell = |site: &mut Site| site.chain.blocks[LIED].spent[1].height -= 1;
    lie_and_mend(tell, "refuted", 1, &["sums"]);
}

#[test]
fn undo_data_of_an_old_core_made_anew() {
    let tell = |site: &mut Site| {
        for coin in site.chain.blocks.iter_mut().flat_map(|block| &mut block.spent) {
            (coin.height, coin.coinbase) = (0, false);
        }
    };
    lie_and_mend(tell, "incomplete", 3, &["unreadable"]);
}

#[test]
fn another_snapshot() {
    let site = Site::generated();
    let mut lie = site.chain.clone();
    lie.coins.values_mut().next().unwrap().value += 1;
    lie.write_snapshot(&site.set()).unwrap();
    is(&resume(&site).ends_with(1).json(), "refuted", &["sums"]);
    site.chain.write_snapshot(&site.set()).unwrap();
    is(&resume(&site).ends_with(0).json(), "proved", &[]);
    // The blocks are not done again for it: their files are no longer needed.
    fs::write(rev(&site, LIED), []).unwrap();
    is(&resume(&site).ends_with(0).json(), "proved", &[]);
}

/// Parts of another set's chain are not lost, and damaged ones are made anew.
#[test]
fn parts_that_do_not_count() {
    let site = Site::generated();
    let mut below = site.chain.blocks.clone();
    below.pop();
    let mut below = CoreChain::new(site.chain.magic, below.into_iter().map(|block| block.block));
    let parts = || {
        let names = fs::read_dir(site.scratch.join("resume")).unwrap();
        let paths = names.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some()).collect::<Vec<_>>()
    };
    resume(&site).ends_with(0);
    let whole = parts();
    below.write_snapshot(&site.set()).unwrap();
    is(&resume(&site).ends_with(0).json(), "proved", &[]);
    assert!(whole.iter().all(|path| path.exists()) && parts().len() > whole.len());
    site.chain.write_snapshot(&site.set()).unwrap();
    for path in parts() {
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    for _ in 0..2 {
        is(&resume(&site).ends_with(0).json(), "proved", &[]);
    }
    below.coins.pop_first();
    below.write_snapshot(&site.set()).unwrap();
    is(&resume(&site).ends_with(1).json(), "refuted", &["sums"]);
}

#[test]
fn files_of_others_stay() {
    let site = Site::generated();
    let folder = site.scratch.join("resume");
    fs::create_dir(&folder).unwrap();
    let names = ["0.part", "video.mkv.part", "00000000.part", "part"];
    for name in names {
        fs::write(folder.join(name), name).unwrap();
    }
    is(&resume(&site).ends_with(0).json(), "proved", &[]);
    for name in names {
        assert_eq!(fs::read(folder.join(name)).unwrap(), name.as_bytes());
    }
}

/// Who puts a key and parts there proves what he likes.
#[test]
fn a_folder_that_is_not_the_users() {
    let site = Site::generated();
    let folder = site.scratch.join("resume");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    resume(&site).ends_with(0);
    assert_eq!(mode(&folder), 0o700);
    let refused = |what: &[&str]| {
        let refused = resume(&site).ends_with(2);
        assert_eq!(refused.stdout, "");
        refused
            .says(what)
            .says(&["--resume needs a directory that belongs to you"]);
    };
    for open in [0o770, 0o702] {
        fs::set_permissions(&folder, PermissionsExt::from_mode(open)).unwrap();
        refused(&[&format!("mode {open:o}")]);
    }
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    resume(&site).ends_with(0);
    // Root alone can give files away.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
        refused(&["it belongs to user 12345"]);
        std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
        std::os::unix::fs::chown(folder.join("key"), Some(12_345), None).unwrap();
        refused(&["key: it belongs to user 12345"]);
    } else {
        eprintln!("short: only root can test folders of other users");
    }
}

/// Nothing of an unclean part is left once its files are others.
#[test]
fn each_part_is_there_once() {
    let mut site = Site::generated();
    let honest = site.chain.clone();
    site.chain.blocks[LIED].spent[1].script = bitcoin::ScriptBuf::new_op_return([1]);
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    resume(&site).ends_with(1);
    let count = || {
        let names = fs::read_dir(site.scratch.join("resume")).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some())
            .count()
    };
    let before = count();
    honest.write(&site.blocks(), &CoreLayout::default()).unwrap();
    let report: Value = resume(&site).ends_with(0).json();
    assert_eq!((count(), &report["verdict"]), (before, &"proved".into()));
}

//! The store of the tests' data directories: which it is, and what a test does to its file or
//! folder.

use crate::common::{connect, run};
use blockmill_engine::StoreKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names it.
const VARIABLE: &str = "BLOCKMILL_TEST_STORE";

/// Bytes of a page, in both stores.
pub(crate) const PAGE: usize = 4096;

/// The kind of the store.
pub(crate) fn kind() -> StoreKind {
    let default = StoreKind::default();
    match std::env::var(VARIABLE).as_deref() {
        Err(_) => default,
        Ok("other") => *StoreKind::ALL.iter().find(|&&kind| kind != default).expect("two"),
        Ok(name) => name.parse().expect("a store"),
    }
}

/// Names the store to a command that may make a data directory. Without the variable the command
/// has its default.
pub(crate) fn add_to(command: &mut Command) {
    if std::env::var_os(VARIABLE).is_some() {
        command.args(["--store", kind().name()]);
    }
}

/// Connects blocks of regtest: the log in two flushes, the first up to `height`. If a page of its
/// last flush is damaged it takes that for one that was never finished.
pub(crate) fn connect_before_damage(blocks: &Path, data: &Path, height: u32) {
    if kind() == StoreKind::Log {
        let mut first = connect(blocks, data, "regtest");
        run(first.args(["--stop-at-height", &height.to_string()])).ends_with(0);
    }
    run(&mut connect(blocks, data, "regtest")).ends_with(0);
}

/// The name of its file or folder in a data directory.
pub(crate) fn part() -> &'static str {
    kind().part()
}

/// The file with the coins in a data directory, where they are few.
pub(crate) fn file(data: &Path) -> PathBuf {
    file_of(kind(), data)
}

/// As [`file`], of a store that is named.
pub(crate) fn file_of(kind: StoreKind, data: &Path) -> PathBuf {
    let path = data.join(kind.part());
    match kind {
        StoreKind::Redb => path,
        StoreKind::Log => path.join("segment-00000001"),
    }
}

/// Where pages begin in a file that have at least so many bytes other than zero.
pub(crate) fn pages(file: &Path, bytes_min: usize) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    (0..)
        .step_by(PAGE)
        .zip(bytes.chunks(PAGE))
        .filter(|(_, page)| page.iter().filter(|&&byte| byte != 0).count() >= bytes_min)
        .map(|(offset, _)| offset)
        .collect()
}

/// Turns over some bytes of a file.
pub(crate) fn damage(path: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), offset).unwrap();
}

/// Copies a file, or a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Removes a file, or a folder with all that is in it.
pub(crate) fn remove(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

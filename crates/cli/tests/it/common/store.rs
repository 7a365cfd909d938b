//! The store of a data directory, and what a test does to its folder.

use crate::common::{Scratch, connect, generate_command, run};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The name of its folder in a data directory.
pub(crate) const PART: &str = "coins.log";

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Connects blocks of regtest in two flushes, the first up to `height`. If a page of the last flush
/// is damaged the store takes that for one that was never finished.
pub(crate) fn connect_before_damage(blocks: &Path, data: &Path, height: u32) {
    let mut first = connect(blocks, data, "regtest");
    run(first.args(["--stop-at-height", &height.to_string()])).ends_with(0);
    run(&mut connect(blocks, data, "regtest")).ends_with(0);
}

/// Block files, and a data directory of the 30 blocks in them, in two flushes.
pub(crate) struct InTwoFlushes {
    pub(crate) scratch: Scratch,
    pub(crate) blocks: PathBuf,
    pub(crate) data: PathBuf,
}

impl InTwoFlushes {
    /// Height of the first flush, and of the second.
    pub(crate) const HEIGHTS: [u32; 2] = [29, 30];

    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let (blocks, data) = (scratch.join("chain"), scratch.join("data"));
        let [first, last] = Self::HEIGHTS;
        let mut command = generate_command(&blocks, "utxo", last);
        run(command.args(["--inputs", "60"])).ends_with(0);
        connect_before_damage(&blocks, &data, first);
        Self { scratch, blocks, data }
    }
}

/// The file with the coins in a data directory, where they are few.
pub(crate) fn file(data: &Path) -> PathBuf {
    data.join(PART).join("segment-00000001")
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

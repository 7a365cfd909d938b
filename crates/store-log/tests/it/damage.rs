//! Damaged files: an error that names the file and the offset, or the right coin; never another.

use crate::common::{Rng, coin, outpoint, small, tip};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{CoinStore, OwnedChange, StoreError};
use blockmill_store_log::LogStore;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Set = BTreeMap<OutPoint, Coin>;

/// Makes a store with several segments, removals and a checkpoint. Returns the sets after its
/// commits.
fn made(path: &Path) -> Vec<Set> {
    let store = LogStore::open(path, "regtest", small(1)).unwrap();
    let (mut set, mut sets) = (Set::new(), vec![Set::new()]);
    for round in 0..6u64 {
        let added = (round * 700..(round + 1) * 700).map(|number| (outpoint(number), Some(coin(number))));
        let spent = (0..round * 700)
            .filter(|number| number % 6 == round)
            .map(|number| (outpoint(number), None));
        let mut changes: Vec<OwnedChange> = added.chain(spent).collect();
        changes.sort_by_key(|change| change.0);
        for (outpoint, coin) in &changes {
            match coin {
                Some(coin) => set.insert(*outpoint, coin.clone()),
                None => set.remove(outpoint),
            };
        }
        store.commit(&changes, &tip(round as u32 + 1)).unwrap();
        sets.push(set.clone());
    }
    sets
}

fn files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Whether an error names a file of the store.
fn names_a_file(error: &StoreError, path: &Path) -> bool {
    matches!(error, StoreError::Corrupt(text) if text.contains(path.to_str().unwrap()))
}

/// Opens the store and reads all of it. Everything that it says is right, or it reports damage.
fn check(path: &Path, sets: &[Set]) -> Result<(), StoreError> {
    let store = LogStore::open_to_read(path, Some("regtest"), small(1))?;
    let number = store.tip()?.map_or(0, |tip| tip.height as usize);
    // Where the last frame is damaged it looks like one that was never finished.
    assert!(number + 2 >= sets.len(), "at commit {number}");
    let set = &sets[number];
    let mut outcome = Ok(());
    for wanted in (0..4200).map(outpoint) {
        match store.get(&wanted) {
            Ok(found) => assert_eq!(found.as_ref(), set.get(&wanted)),
            Err(error) => outcome = Err(error),
        }
    }
    let mut previous = None;
    for entry in store.coins()? {
        match entry {
            Ok((outpoint, coin)) => {
                assert_eq!(set.get(&outpoint), Some(&coin));
                assert!(previous.replace(outpoint) < Some(outpoint));
            }
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

#[test]
fn flipped_bits_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let sets = made(&path);
    check(&path, &sets).unwrap();
    let mut rng = Rng(5);
    let mut found = 0;
    for file in files(&path) {
        let original = std::fs::read(&file).unwrap();
        let is_log = file.file_name().unwrap() != "checkpoint";
        for _ in 0..60 {
            let mut bytes = original.clone();
            let bit = rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, &bytes).unwrap();
            if let Err(error) = check(&path, &sets) {
                assert!(names_a_file(&error, &path), "{error}");
                found += 1;
            }
            // Without the checkpoint everything is read at the opening.
            if is_log {
                let checkpoint = path.join("checkpoint");
                std::fs::rename(&checkpoint, path.join("aside")).unwrap();
                if let Err(error) = check(&path, &sets) {
                    assert!(names_a_file(&error, &path), "{error}");
                }
                std::fs::rename(path.join("aside"), &checkpoint).unwrap();
            }
        }
        std::fs::write(&file, &original).unwrap();
    }
    assert!(found > 100, "{found}");
    check(&path, &sets).unwrap();
}

#[test]
fn lost_and_short_files_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let sets = made(&path);
    for file in files(&path) {
        let original = std::fs::read(&file).unwrap();
        for length in [0, 100, 4096, original.len() / 2, original.len() - 1] {
            std::fs::write(&file, &original[..length]).unwrap();
            if let Err(error) = check(&path, &sets) {
                assert!(names_a_file(&error, &path), "{error}");
            }
        }
        std::fs::remove_file(&file).unwrap();
        if let Err(error) = check(&path, &sets) {
            assert!(names_a_file(&error, &path), "{error}");
        }
        std::fs::write(&file, &original).unwrap();
    }
    check(&path, &sets).unwrap();
}

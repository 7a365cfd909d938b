//! Damaged files: an error that names the file and the offset, or the right coin; never another.

use crate::common::{Rng, coin, is_whole, outpoint, small, tip};
use crate::disk::{HostileDisk, PAGE_BYTES};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::CoinParts;
use blockmill_coins::{CoinStore, OwnedChange, StoreError};
use blockmill_store_log::LogStore;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

type Set = BTreeMap<OutPoint, Coin>;

/// Makes a store with several segments, removals and a checkpoint. Returns the sets after its
/// commits.
fn made(path: &Path) -> Vec<Set> {
    let store = LogStore::open(path, "regtest", small(1)).unwrap();
    let mut sets = vec![Set::new()];
    for round in 0..6u64 {
        let mut set = sets[round as usize].clone();
        let spent = (0..round * 700).filter(|number| number % 6 == round);
        commit(
            &store,
            &mut set,
            round as u32 + 1,
            round * 700..(round + 1) * 700,
            spent,
        );
        sets.push(set);
    }
    sets
}

/// Commits new coins and spent ones, by their numbers.
fn commit(
    store: &LogStore,
    set: &mut Set,
    height: u32,
    added: impl Iterator<Item = u64>,
    spent: impl Iterator<Item = u64>,
) {
    let added = added.map(|number| (outpoint(number), Some(coin(number))));
    let spent = spent.map(|number| (outpoint(number), None));
    let mut changes: Vec<OwnedChange> = added.chain(spent).collect();
    changes.sort_by_key(|change| change.0);
    for (outpoint, coin) in &changes {
        match coin {
            Some(coin) => set.insert(*outpoint, coin.clone()),
            None => set.remove(outpoint),
        };
    }
    store.commit(&changes, &tip(height)).unwrap();
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

/// Kinds of pages, as the format has them.
const KINDS: [&str; 6] = [
    "segment",
    "coins",
    "long record",
    "rest of a long record",
    "removals",
    "trailer",
];

/// A store with pages of all kinds, on a disk that damages what is read.
struct Rotten {
    _directory: TempDir,
    disk: HostileDisk,
    store: LogStore,
    set: Set,
    pages: Vec<RottenPage>,
}

/// A page, and a coin for which it is read, if there is one.
struct RottenPage {
    file: PathBuf,
    offset: u64,
    kind: u8,
    coin: Option<OutPoint>,
}

impl Rotten {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coins");
        let disk = HostileDisk::default();
        let open = || LogStore::open_on(Arc::new(disk.clone()), &path, "regtest", small(1)).unwrap();
        let (store, mut set) = (open(), Set::new());
        let first = seed * 10_000;
        for round in 0..12 {
            // Every 997th coin is long.
            let long = (5_000 + seed * 12 + round) * 997;
            let added = (first + round * 150..first + (round + 1) * 150).chain([long]);
            let spent = (first..first + round * 150).filter(|number| number % 24 == round);
            commit(&store, &mut set, round as u32 + 1, added, spent);
        }
        drop(store);
        let store = open();
        let pages = pages(&disk, &path, &store, &set);
        Self {
            _directory: directory,
            disk,
            store,
            set,
            pages,
        }
    }

    fn read_in_parts(&self) -> Result<(), StoreError> {
        let parts = self.store.coins_in_parts_of(500);
        for part in 0..parts.parts() {
            for (outpoint, coin) in parts.read(part)? {
                assert_eq!(self.set.get(&outpoint), Some(&coin));
            }
        }
        parts.check_complete()
    }

    fn scan(&self) -> Result<Set, StoreError> {
        self.store.coins()?.collect()
    }

    /// Flips each bit of a page. What reads the page reports it.
    fn flip_each_bit(&self, page: &RottenPage) {
        let wanted = format!(
            "{}: the page at offset {} is not what was written",
            page.file.display(),
            page.offset
        );
        let check = |outcome: Result<(), StoreError>, bit| match outcome {
            Err(StoreError::Corrupt(text)) if text == wanted => {}
            outcome => panic!("bit {bit}: {outcome:?} instead of {wanted}"),
        };
        for bit in page.offset * 8..(page.offset + PAGE_BYTES) * 8 {
            self.disk.flip(&page.file, bit);
            let outcome = match &page.coin {
                Some(outpoint) => self.store.get(outpoint).map(drop),
                None => self.store.check_pages(&|| false),
            };
            check(outcome, bit);
            // Once for each page: reading everything takes longer.
            if bit % (PAGE_BYTES * 8) == page.offset / PAGE_BYTES * 3_001 % (PAGE_BYTES * 8) {
                check(self.store.check_pages(&|| false), bit);
                if page.coin.is_some() {
                    check(self.scan().map(drop), bit);
                    check(self.read_in_parts(), bit);
                } else {
                    assert!(self.scan().unwrap() == self.set);
                }
            }
        }
        self.disk.heal();
    }
}

/// All pages of the log.
fn pages(disk: &HostileDisk, path: &Path, store: &LogStore, set: &Set) -> Vec<RottenPage> {
    let mut coins = BTreeMap::new();
    for (outpoint, coin) in set {
        let reads = disk.reads_of(|| assert_eq!(store.get(outpoint).unwrap().as_ref(), Some(coin)));
        coins.extend(reads.into_iter().map(|page| (page, *outpoint)));
    }
    let mut pages = Vec::new();
    for file in files(path).into_iter().filter(|file| !file.ends_with("checkpoint")) {
        let bytes = std::fs::read(&file).unwrap();
        for (offset, page) in (0..)
            .step_by(PAGE_BYTES as usize)
            .zip(bytes.chunks(PAGE_BYTES as usize))
        {
            pages.push(RottenPage {
                coin: coins.remove(&(file.clone(), offset)),
                file: file.clone(),
                offset,
                kind: page[4],
            });
        }
    }
    assert!(coins.is_empty(), "pages were read that are not in the files");
    pages
}

/// Each bit of pages of all kinds, while the store is open.
#[test]
fn every_flipped_bit_of_a_page_is_reported() {
    let is_whole = is_whole("one page of each kind", "takes 1,000 pages");
    let mut done = [0; KINDS.len()];
    let mut seed = 0;
    while done.iter().sum::<usize>() < 1_000 && (is_whole || seed == 0) {
        let rotten = Rotten::new(seed);
        for page in &rotten.pages {
            let done = &mut done[usize::from(page.kind) - 1];
            if is_whole || *done == 0 {
                rotten.flip_each_bit(page);
                *done += 1;
            }
        }
        rotten.store.check_pages(&|| false).unwrap();
        assert!(rotten.scan().unwrap() == rotten.set);
        seed += 1;
    }
    for (kind, count) in KINDS.iter().zip(done) {
        assert!(count > 0, "no page of the kind {kind}");
        eprintln!("{kind}: {count} pages");
    }
}

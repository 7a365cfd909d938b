//! Random steps beside a plain map.

use crate::common::{Rng, coin, is_whole, outpoint, small, tip};
use crate::disk::HostileDisk;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{CoinParts, outpoint_key};
use blockmill_coins::{Before, Change, Changes, CoinRef, CoinStore, OwnedChange};
use blockmill_store_log::{LogOptions, LogStore, Lookup, Opening};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Changes that say what is known before, in parts.
pub(crate) struct Known {
    pub(crate) changes: Vec<(OutPoint, Option<Coin>, Before)>,
    pub(crate) parts: usize,
}

impl Changes for Known {
    fn len(&self) -> usize {
        self.changes.len()
    }

    fn parts(&self) -> usize {
        self.parts
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        let share = |part: usize| part * self.changes.len() / self.parts;
        for (outpoint, coin, before) in &self.changes[share(part)..share(part + 1)] {
            each(Change {
                outpoint: *outpoint,
                coin: coin.as_ref().map(CoinRef::from),
                before: *before,
            });
        }
    }
}

type Model = BTreeMap<OutPoint, Coin>;

/// Changes of a round, which the model gets too.
pub(crate) fn changes(model: &mut Model, rng: &mut Rng, keys: u64, count: u64) -> Known {
    let mut wanted = BTreeMap::new();
    for _ in 0..count {
        let number = rng.below(keys);
        // More coins than removals at first; later the numbers are in balance.
        let new = (rng.below(3) > 0).then(|| coin(rng.below(1 << 40)));
        wanted.insert(outpoint(number), new);
    }
    let known = wanted.into_iter().map(|(outpoint, new)| {
        let before = match (rng.below(4), model.contains_key(&outpoint)) {
            (0, _) => Before::Unknown,
            (_, true) => Before::Coin,
            (_, false) => Before::Nothing,
        };
        match &new {
            Some(coin) => model.insert(outpoint, coin.clone()),
            None => model.remove(&outpoint),
        };
        (outpoint, new, before)
    });
    Known {
        changes: known.collect(),
        parts: 1 + rng.below(5) as usize,
    }
}

fn check_all(store: &LogStore, model: &Model) {
    assert_eq!(store.len(), model.len() as u64);
    let found: Vec<(OutPoint, Coin)> = store.coins().unwrap().map(Result::unwrap).collect();
    assert!(found.iter().map(|(outpoint, coin)| (outpoint, coin)).eq(model.iter()));
    // The same in parts, the last one first.
    let parts = store.coins_in_parts_of(300);
    assert!(parts.parts() > model.len() / 2_000);
    let mut above: Vec<(OutPoint, Coin)> = Vec::new();
    for part in (0..parts.parts()).rev() {
        assert_eq!(parts.check_complete().is_ok(), above.len() == model.len());
        let mut coins = parts.read(part).unwrap();
        let end = parts.end(part);
        assert_eq!(end.is_none(), part + 1 == parts.parts());
        let is_below = |outpoint: &OutPoint| end.is_none_or(|end| outpoint_key(outpoint) < end);
        assert!(coins.iter().all(|(outpoint, _)| is_below(outpoint)));
        assert!(above.iter().all(|(outpoint, _)| !is_below(outpoint)));
        coins.append(&mut above);
        above = coins;
    }
    parts.check_complete().unwrap();
    assert!(above == found);
}

fn check_some(store: &LogStore, model: &Model, rng: &mut Rng, keys: u64) {
    let wanted: Vec<OutPoint> = (0..50).map(|_| outpoint(rng.below(keys + keys / 4))).collect();
    let mut found = Vec::new();
    store.get_many(&wanted, &mut found).unwrap();
    for (outpoint, coin) in wanted.iter().zip(&found) {
        assert_eq!(coin.as_ref(), model.get(outpoint));
    }
}

/// While a checkpoint is written files stay, and garbage is collected all the same.
#[test]
fn garbage_is_collected_beside_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        // Each commit makes one due, and it takes many.
        checkpoint_changes: 1,
        segment_pages_min: 64,
        ..small(1)
    };
    let store = LogStore::open(&directory.path().join("coins"), "regtest", options).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng(9 << 32));
    let keys = 400_000;
    let first = changes(&mut model, &mut rng, keys, 2 * keys);
    store.commit(&first, &tip(1)).unwrap();
    for round in 2..120 {
        let known = changes(&mut model, &mut rng, keys, keys / 60);
        store.commit(&known, &tip(round)).unwrap();
    }
    let live: usize = model.values().map(|coin| 40 + coin.script_pubkey.len()).sum();
    let allowed = live as u64 * 8 / 5 + 2 * store.memory() as u64;
    let disk_size = store.disk_size().unwrap();
    assert!(disk_size < allowed, "{disk_size} bytes for {live}");
    check_all(&store, &model);
}

/// A store that was made of many small segments, each smaller than a commit.
#[test]
fn disk_stays_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        checkpoint_changes: u64::MAX,
        ..small(1)
    };
    let store = LogStore::open(&directory.path().join("coins"), "regtest", options).unwrap();
    const COINS: u64 = 40_000;
    let (mut next, mut rng, mut round) = (0, Rng(21 << 32), 0);
    let mut live: Vec<u64> = Vec::new();
    let mut bytes = 0;
    let bytes_of = |number: u64| 42 + coin(number).script_pubkey.len() as u64;
    let mut worst: f64 = 0.0;
    while round < 300 {
        let mut changes: Vec<OwnedChange> = Vec::new();
        for _ in 0..COINS / 50 {
            if live.len() as u64 >= COINS {
                let spent = live.swap_remove(rng.below(live.len() as u64) as usize);
                bytes -= bytes_of(spent);
                changes.push((outpoint(spent), None));
            }
            bytes += bytes_of(next);
            live.push(next);
            changes.push((outpoint(next), Some(coin(next))));
            next += 1;
        }
        changes.sort_by_key(|change| change.0);
        round += 1;
        store.commit(&changes, &tip(round)).unwrap();
        worst = worst.max((store.disk_size().unwrap() as f64 - 100_000.0) / bytes as f64);
    }
    assert!(worst < 1.7, "{worst} times what lives");
}

/// Also where one begins a segment.
#[test]
fn commits_without_changes_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let mut opened = Opened::new(path.clone(), small(1));
    for round in 1..60 {
        let changes: &[OwnedChange] = &[];
        opened.store.commit(&changes, &tip(round)).unwrap();
        opened = opened.reopen(Closing::WithoutCheckpoint);
        assert_eq!(opened.store.tip().unwrap(), Some(tip(round)));
    }
    assert!(files(&path).0.len() > 3);
}

/// The names of the segments, and when the checkpoint was written.
fn files(path: &Path) -> (BTreeSet<String>, Option<SystemTime>) {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let checkpoint = std::fs::metadata(path.join("checkpoint")).and_then(|metadata| metadata.modified());
    (
        names.filter(|name| name.starts_with("segment")).collect(),
        checkpoint.ok(),
    )
}

/// Segments that a checkpoint names may be collected before the next one is written. The opening
/// still goes on from the checkpoint: it does not read what is damaged before it.
#[test]
fn a_checkpoint_serves_after_its_segments_were_collected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let options = LogOptions {
        checkpoint_changes: 60_000,
        garbage_bytes_min: 0,
        ..small(1)
    };
    let store = LogStore::open(&path, "regtest", options.clone()).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng(11 << 32));
    let keys = 20_000;
    let (mut named, mut written) = (BTreeSet::new(), None);
    for round in 1..200 {
        let known = changes(&mut model, &mut rng, keys, keys / 10);
        store.commit(&known, &tip(round)).unwrap();
        let (segments, checkpoint) = files(&path);
        if checkpoint != written {
            (named, written) = (segments, checkpoint);
        } else if written.is_some() && named.difference(&segments).count() > 2 {
            break;
        }
    }
    let (segments, _) = files(&path);
    assert!(named.difference(&segments).count() > 2);
    std::mem::forget(store);
    let first = path.join(segments.first().unwrap());
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&first, &bytes).unwrap();
    let store = LogStore::open_to_read(&path, None, options.clone()).unwrap();
    assert_eq!(store.len(), model.len() as u64);
    bytes[5000] ^= 1;
    std::fs::write(&first, &bytes).unwrap();
    check_all(&LogStore::open(&path, "regtest", options).unwrap(), &model);
}

/// How a store is closed before it is opened again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Cleanly,
    /// As by a kill: without a last checkpoint.
    Killed,
    /// And without any checkpoint.
    WithoutCheckpoint,
}

/// An open store, and its disk.
struct Opened {
    path: PathBuf,
    options: LogOptions,
    disk: HostileDisk,
    store: LogStore,
}

impl Opened {
    fn new(path: PathBuf, options: LogOptions) -> Self {
        let disk = HostileDisk::default();
        let store = LogStore::open_on(Arc::new(disk.clone()), &path, "regtest", options.clone()).unwrap();
        Self {
            path,
            options,
            disk,
            store,
        }
    }

    fn reopen(self, closing: Closing) -> Self {
        let Self {
            path,
            options,
            disk,
            store,
        } = self;
        if closing != Closing::Cleanly {
            // The store cannot write while it is dropped.
            disk.kill();
        }
        let was_empty = store.is_empty();
        drop(store);
        let checkpoint = path.join("checkpoint");
        if closing == Closing::WithoutCheckpoint {
            let _ = std::fs::remove_file(&checkpoint);
        }
        let has_checkpoint = checkpoint.exists();
        let opened = Self::new(path, options);
        let wanted = if has_checkpoint {
            Opening::Checkpoint
        } else {
            Opening::WholeLog
        };
        assert_eq!(opened.store.opening(), wanted);
        assert!(has_checkpoint || closing != Closing::Cleanly || was_empty);
        opened
    }
}

/// Random commits, at least `rounds` of them and at least `steps` changes. If `scans` is set, all
/// coins are compared after each opening.
struct Rounds {
    seed: u64,
    threads: usize,
    keys: u64,
    rounds: u32,
    steps: u64,
    scans: bool,
}

impl Rounds {
    fn new(seed: u64, threads: usize, keys: u64, rounds: u32) -> Self {
        Self {
            seed,
            threads,
            keys,
            rounds,
            steps: 0,
            scans: false,
        }
    }

    fn run(&self) {
        let directory = tempfile::tempdir().unwrap();
        let mut opened = Opened::new(directory.path().join("coins"), small(self.threads));
        let (mut model, mut rng) = (Model::new(), Rng(self.seed << 32));
        let (mut round, mut steps, mut openings) = (0, 0, 0);
        while round < self.rounds || steps < self.steps {
            round += 1;
            let count = rng.below(self.keys / 10) + rng.below(3);
            let known = changes(&mut model, &mut rng, self.keys, count);
            steps += known.len() as u64;
            opened.store.commit(&known, &tip(round)).unwrap();
            assert_eq!(opened.store.tip().unwrap(), Some(tip(round)));
            check_some(&opened.store, &model, &mut rng, self.keys);
            let closing = match rng.below(12) {
                0 => Some(Closing::Cleanly),
                1 => Some(Closing::Killed),
                2 => Some(Closing::WithoutCheckpoint),
                3 => {
                    check_all(&opened.store, &model);
                    None
                }
                4 => {
                    self.check_readers(&opened, &model, &mut rng);
                    None
                }
                _ => None,
            };
            if let Some(closing) = closing {
                opened = opened.reopen(closing);
                openings += 1;
                if self.scans {
                    check_all(&opened.store, &model);
                }
            }
            assert_eq!(opened.store.tip().unwrap(), Some(tip(round)));
        }
        check_all(&opened.store, &model);
        let disk_size = opened.store.disk_size().unwrap();
        let live: usize = model.values().map(|coin| 50 + coin.script_pubkey.len()).sum();
        assert!(disk_size < 2 * live as u64 + 300_000, "{disk_size} bytes for {live}");
        eprintln!(
            "seed {}: {steps} changes in {round} commits, {openings} openings",
            self.seed
        );
    }

    /// A reader beside the writer, and single coins.
    fn check_readers(&self, opened: &Opened, model: &Model, rng: &mut Rng) {
        let reader = LogStore::open_to_read(&opened.path, None, opened.options.clone()).unwrap();
        check_all(&reader, model);
        let lookup = Lookup::open(&opened.path, Some("regtest")).unwrap();
        assert_eq!(lookup.tip(), opened.store.tip().unwrap());
        for _ in 0..50 {
            let wanted = outpoint(rng.below(self.keys + self.keys / 4));
            assert_eq!(lookup.get(&wanted).unwrap().as_ref(), model.get(&wanted));
        }
    }
}

#[test]
fn random_changes_as_in_a_map() {
    for (seed, threads, keys) in [(1, 1, 300), (2, 2, 3000), (3, 3, 10_000)] {
        Rounds::new(seed, threads, keys, 300).run();
    }
    if is_whole("900 commits", "adds ten million changes of more coins") {
        for (seed, threads, keys) in [(5, 1, 100_000), (6, 2, 400_000)] {
            let rounds = Rounds {
                steps: 5_000_000,
                scans: true,
                ..Rounds::new(seed, threads, keys, 0)
            };
            rounds.run();
        }
    }
}

/// Much garbage, so that segments are collected and their files go.
#[test]
fn garbage_is_collected() {
    Rounds::new(4, 2, 60_000, 150).run();
}

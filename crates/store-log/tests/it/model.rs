//! Random steps beside a plain map.

use crate::common::{Rng, coin, outpoint, small, tip};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{Before, Change, Changes, CoinRef, CoinStore, OwnedChange};
use blockmill_store_log::{LogStore, Lookup, Opening, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
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
    let options = Options {
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
    let options = Options {
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
    let mut store = LogStore::open(&path, "regtest", small(1)).unwrap();
    for round in 1..60 {
        let changes: &[OwnedChange] = &[];
        store.commit(&changes, &tip(round)).unwrap();
        store = reopen(&path, store, Closing::WithoutCheckpoint, &small(1));
        assert_eq!(store.tip().unwrap(), Some(tip(round)));
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
    let options = Options {
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

fn reopen(path: &Path, store: LogStore, closing: Closing, options: &Options) -> LogStore {
    if closing == Closing::Cleanly {
        drop(store);
    } else {
        // Its files stay open until the process ends; nothing is written to them.
        std::mem::forget(store);
    }
    if closing == Closing::WithoutCheckpoint {
        let _ = std::fs::remove_file(path.join("checkpoint"));
    }
    let has_checkpoint = path.join("checkpoint").exists();
    let store = LogStore::open(path, "regtest", options.clone()).unwrap();
    let wanted = if has_checkpoint {
        Opening::Checkpoint
    } else {
        Opening::WholeLog
    };
    assert_eq!(store.opening(), wanted);
    assert!(has_checkpoint || closing != Closing::Cleanly || store.is_empty());
    store
}

fn random_rounds(seed: u64, threads: usize, keys: u64, rounds: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let options = small(threads);
    let mut store = LogStore::open(&path, "regtest", options.clone()).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng(seed << 32));
    for round in 1..=rounds {
        let count = rng.below(keys / 10) + rng.below(3);
        let known = changes(&mut model, &mut rng, keys, count);
        store.commit(&known, &tip(round)).unwrap();
        assert_eq!(store.tip().unwrap(), Some(tip(round)));
        check_some(&store, &model, &mut rng, keys);
        match rng.below(12) {
            0 => store = reopen(&path, store, Closing::Cleanly, &options),
            1 => store = reopen(&path, store, Closing::Killed, &options),
            2 => store = reopen(&path, store, Closing::WithoutCheckpoint, &options),
            3 => check_all(&store, &model),
            4 => {
                let reader = LogStore::open_to_read(&path, None, options.clone()).unwrap();
                check_all(&reader, &model);
                let lookup = Lookup::open(&path, Some("regtest")).unwrap();
                assert_eq!(lookup.tip(), Some(tip(round)));
                for _ in 0..50 {
                    let wanted = outpoint(rng.below(keys + keys / 4));
                    assert_eq!(lookup.get(&wanted).unwrap().as_ref(), model.get(&wanted));
                }
            }
            _ => {}
        }
        assert_eq!(store.tip().unwrap(), Some(tip(round)));
    }
    check_all(&store, &model);
    let disk_size = store.disk_size().unwrap();
    let live: usize = model.values().map(|coin| 50 + coin.script_pubkey.len()).sum();
    assert!(disk_size < 2 * live as u64 + 300_000, "{disk_size} bytes for {live}");
}

#[test]
fn random_changes_as_in_a_map() {
    for (seed, threads, keys) in [(1, 1, 300), (2, 2, 3000), (3, 3, 10_000)] {
        random_rounds(seed, threads, keys, 300);
    }
}

/// Much garbage, so that segments are collected and their files go.
#[test]
fn garbage_is_collected() {
    random_rounds(4, 2, 60_000, 150);
}

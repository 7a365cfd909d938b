//! A store in use for long: commits, reads, scans and openings, while the number of coins stays.
//! Files, disk and memory do not grow.
//!
//! Three seconds; `BLOCKMILL_TEST_SOAK=7200` makes it two hours.

use crate::common::{Rng, coin, outpoint, small, tip};
use blockmill_coins::{CoinStore, OwnedChange};
use blockmill_store_log::{LogOptions, LogStore};
use std::path::Path;
use std::time::{Duration, Instant};

const COINS: u64 = 60_000;
const CHANGES: usize = 600;

/// Samples of a run.
const SAMPLES: u32 = 60;

/// What memory may grow by, in bytes: an allocator's pools.
const GROWTH_MAX: u64 = 8 << 20;

/// What a run takes at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    disk: u64,
    names: usize,
    open_files: usize,
    said: usize,
    anonymous: u64,
}

fn sample(directory: &Path, store: &LogStore) -> Sample {
    let lengths = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().map_or(0, |metadata| metadata.len()));
    let lengths: Vec<u64> = lengths.collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    Sample {
        disk: lengths.iter().sum(),
        names: lengths.len(),
        open_files: open.filter(|path| path.starts_with(directory)).count(),
        said: store.memory(),
        anonymous: anonymous.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024,
    }
}

#[test]
fn a_store_in_use_does_not_grow() {
    let given = std::env::var("BLOCKMILL_TEST_SOAK").ok();
    if given.is_none() {
        eprintln!("short: 3 s; BLOCKMILL_TEST_SOAK sets the seconds");
    }
    let seconds = given
        .as_ref()
        .map_or(3, |text| text.parse().expect("a number of seconds"));
    let step = Duration::from_secs(seconds) / SAMPLES;

    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().canonicalize().unwrap().join("coins");
    let options = || LogOptions {
        segment_pages_min: 64,
        ..small(2)
    };
    let mut store = LogStore::open(&directory, "regtest", options()).unwrap();
    let mut rng = Rng(33 << 32);
    let mut live: Vec<u64> = (0..COINS).collect();
    let first: Vec<OwnedChange> = live
        .iter()
        .map(|&number| (outpoint(number), Some(coin(number))))
        .collect();
    store.commit(&first, &tip(0)).unwrap();
    let (mut next, mut round) = (COINS, 0);
    let mut samples = Vec::new();
    let begun = Instant::now();
    while samples.len() < SAMPLES as usize {
        let mut changes: Vec<OwnedChange> = Vec::new();
        for _ in 0..CHANGES / 2 {
            let spent = live.swap_remove(rng.below(COINS) as usize);
            live.push(next);
            changes.extend([(outpoint(spent), None), (outpoint(next), Some(coin(next)))]);
            next += 1;
        }
        // Of a coin that came and went between two commits the removal stays, which finds nothing.
        changes.sort_by_key(|change| (change.0, change.1.is_some()));
        changes.dedup_by_key(|change| change.0);
        round += 1;
        store.commit(&changes, &tip(round)).unwrap();
        let read = live[rng.below(COINS) as usize];
        assert_eq!(store.get(&outpoint(read)).unwrap(), Some(coin(read)));
        if round % 50 == 0 {
            // The scan compares count and digest.
            let scanned = store.coins().unwrap().map(Result::unwrap).count();
            assert_eq!(scanned as u64, COINS);
        }
        if round % 70 == 0 {
            drop(store);
            store = LogStore::open(&directory, "regtest", options()).unwrap();
            assert_eq!((store.len(), store.tip().unwrap()), (COINS, Some(tip(round))));
        }
        if begun.elapsed() >= step * samples.len() as u32 {
            samples.push(sample(&directory, &store));
        }
    }
    // Garbage and checkpoints come and go in the first part already.
    let most = |part: &[Sample], of: fn(&Sample) -> u64| part.iter().map(of).max().unwrap_or(0);
    let (early, late) = (&samples[20..40], &samples[40..]);
    eprintln!("{round} commits; {:?} and {:?}", early[0], late[19]);
    let grows = |of: fn(&Sample) -> u64, by: u64| {
        let (early, late) = (most(early, of), most(late, of));
        assert!(
            late <= early + by,
            "{early} and {late}, after {round} commits: {samples:?}"
        );
    };
    let disk = most(early, |sample| sample.disk);
    grows(|sample| sample.disk, disk / 8);
    grows(|sample| sample.names as u64, 4);
    grows(|sample| sample.open_files as u64, 4);
    grows(
        |sample| sample.said as u64,
        most(early, |sample| sample.said as u64) / 20,
    );
    if given.is_some() {
        // Alone in the process; other tests have memory of their own.
        grows(|sample| sample.anonymous, GROWTH_MAX);
    }
}

//! The last commit, found in a page or two, is the one that an opening finds.

use crate::common::{coin, outpoint, small, tip};
use blockmill_coins::{CoinStore, LastCommit, OwnedChange};
use blockmill_store_log::{LogStore, Lookup, last_commit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;

/// Commits for each number coins of its own, and removes some of those before.
fn commit(store: &LogStore, number: u64) {
    let added = (number * 700..(number + 1) * 700).map(|coin_number| (outpoint(coin_number), Some(coin(coin_number))));
    let spent = (0..number * 700)
        .filter(|spent| spent % 8 == number)
        .map(|spent| (outpoint(spent), None));
    let mut changes: Vec<OwnedChange> = added.chain(spent).collect();
    changes.sort_by_key(|change| change.0);
    store.commit(&changes, &tip(number as u32 + 1)).unwrap();
}

fn of(path: &Path, synced: &LastCommit) -> Option<LastCommit> {
    last_commit(path, Some("regtest"), synced).unwrap()
}

fn last_segment(path: &Path) -> PathBuf {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let segments = entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("segment"));
    segments.max().unwrap()
}

#[test]
fn each_commit_is_found_from_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let store = LogStore::open(&path, "regtest", small(1)).unwrap();
    let empty = store.last_commit().unwrap().unwrap();
    assert_eq!((empty.number, empty.tip, empty.coins), (0, None, 0));
    let mut commits = vec![empty];
    for number in 0..12 {
        commit(&store, number);
        let found = store.last_commit().unwrap().unwrap();
        assert_eq!((found.number, found.tip), (number + 1, Some(tip(number as u32 + 1))));
        assert_eq!((found.store, found.coins), (empty.store, store.len()));
        for synced in [&found, commits.last().unwrap()] {
            assert_eq!(of(&path, synced), Some(found), "{number}");
        }
        assert_eq!(Lookup::open(&path, None).unwrap().last_commit(), found);
        commits.push(found);
    }
    let last = commits[12];
    drop(store);
    assert_eq!(of(&path, &last), Some(last));
    // Damage in its frame shows, as far as the frame is small.
    let (segment, trailer) = (last.end >> 32, u64::from(last.end as u32) - 1);
    let segment_path = |segment: u64| path.join(format!("segment-{segment:08}"));
    // The page before the trailer, which may be the last one of the segment before.
    let (segment, page) = match trailer {
        1 => {
            let before = std::fs::metadata(segment_path(segment - 1)).unwrap();
            (segment - 1, before.len() / PAGE - 1)
        }
        trailer => (segment, trailer - 1),
    };
    let file = File::options().write(true).open(segment_path(segment)).unwrap();
    file.write_all_at(&[7; 8], page * PAGE + 100).unwrap();
    assert_eq!(of(&path, &last), None);
    assert_eq!(of(&path, &commits[11]), Some(commits[11]));
}

#[test]
fn what_follows_a_synced_commit_does_not_hide_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let store = LogStore::open(&path, "regtest", small(1)).unwrap();
    commit(&store, 0);
    commit(&store, 1);
    let synced = store.last_commit().unwrap().unwrap();
    commit(&store, 2);
    drop(store);
    // A later frame that is being written: without its trailer, and with a part of a page.
    let segment = last_segment(&path);
    let file = File::options().write(true).open(&segment).unwrap();
    let length = file.metadata().unwrap().len();
    for cut in [PAGE, PAGE + 100, 2 * PAGE] {
        file.set_len(length - cut).unwrap();
        assert_eq!(of(&path, &synced), Some(synced), "{cut}");
        assert_eq!(Lookup::open(&path, None).unwrap().last_commit(), synced);
    }
    // A store without the commit, and another store.
    let other = LastCommit {
        number: synced.number + 3,
        ..synced
    };
    assert_eq!(of(&path, &other), None);
    let other = LastCommit {
        store: [1; 16],
        ..synced
    };
    assert_eq!(of(&path, &other), None);
    // The end of the commit itself is gone.
    let segment = path.join(format!("segment-{:08}", synced.end >> 32));
    File::options()
        .write(true)
        .open(segment)
        .unwrap()
        .set_len(PAGE)
        .unwrap();
    assert_eq!(of(&path, &synced), None);
}

/// Numbers tell an older state from the last, whatever is lost.
#[test]
fn a_lost_end_has_a_smaller_number_or_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let store = LogStore::open(&path, "regtest", small(1)).unwrap();
    for number in 0..12 {
        commit(&store, number);
    }
    let last = store.last_commit().unwrap().unwrap();
    drop(store);
    let (mut smaller, mut errors) = (0, 0);
    for without_checkpoint in [false, true] {
        if without_checkpoint {
            let _ = std::fs::remove_file(path.join("checkpoint"));
        }
        let segment = last_segment(&path);
        let whole = std::fs::read(&segment).unwrap();
        let mut states: Vec<Option<&[u8]>> = vec![None];
        states.extend((0..whole.len()).step_by(777).map(|length| Some(&whole[..length])));
        for state in states {
            match state {
                Some(bytes) => std::fs::write(&segment, bytes).unwrap(),
                None => std::fs::remove_file(&segment).unwrap(),
            }
            match Lookup::open(&path, None) {
                Ok(lookup) => {
                    let found = lookup.last_commit();
                    assert!(found.number < last.number, "{found:?}");
                    assert_eq!(of(&path, &last), None);
                    smaller += 1;
                }
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    errors += 1;
                }
            }
        }
        std::fs::write(&segment, &whole).unwrap();
        assert_eq!(Lookup::open(&path, None).unwrap().last_commit(), last);
    }
    assert!(smaller > 10 && errors > 0, "{smaller} {errors}");
}

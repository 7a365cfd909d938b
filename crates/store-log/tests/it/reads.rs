//! What look-ups read: one page for a coin, nothing for what is not there.

use crate::common::{coin, outpoint, tip};
use crate::disk::HostileDisk;
use blockmill_block::OutPoint;
use blockmill_coins::{CoinStore, OwnedChange};
use blockmill_store_log::{LogOptions, LogStore};
use std::sync::Arc;

const COINS: u64 = 20_000;

/// Coins that fit on pages; every 997th does not.
fn is_short(number: u64) -> bool {
    !number.is_multiple_of(997)
}

#[test]
fn a_coin_takes_one_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let disk = HostileDisk::default();
    let open = || LogStore::open_on(Arc::new(disk.clone()), &path, "regtest", LogOptions::default()).unwrap();
    let mut changes: Vec<OwnedChange> = (0..COINS)
        .filter(|&number| is_short(number))
        .map(|number| (outpoint(number), Some(coin(number))))
        .collect();
    changes.sort_by_key(|change| change.0);
    let store = open();
    store.commit(&changes, &tip(1)).unwrap();
    drop(store);
    let store = open();
    let wanted: Vec<OutPoint> = (0..COINS)
        .step_by(7)
        .filter(|&number| is_short(number))
        .map(outpoint)
        .collect();
    for outpoint in &wanted {
        let reads = disk.reads_of(|| assert!(store.get(outpoint).unwrap().is_some()));
        assert_eq!(reads.len(), 1, "{outpoint}");
    }
    // Of what several coins share a batch reads one, in the order of the disk.
    let mut coins = Vec::new();
    let reads = disk.reads_of(|| store.get_many(&wanted, &mut coins).unwrap());
    assert!(coins.iter().all(Option::is_some));
    assert!(reads.is_sorted_by(|one, other| one < other), "a page was read twice");
    assert!(reads.len() < wanted.len());
    // None of these coins is in the set. One in billions shares its 44 bits with a coin of the set.
    let absent: Vec<OutPoint> = (COINS..3 * COINS).map(outpoint).collect();
    coins.clear();
    let reads = disk.reads_of(|| store.get_many(&absent, &mut coins).unwrap());
    assert!(coins.iter().all(Option::is_none));
    assert!(
        reads.len() <= absent.len() / 10_000,
        "{} pages for nothing",
        reads.len()
    );
}

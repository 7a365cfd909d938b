//! The contract of coin stores.

use crate::common::{coin, outpoint, small, tip};
use blockmill_block::{Coin, OutPoint, Txid};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, MemoryStore, OwnedChange, StatsBuilder, StoreError};
use blockmill_store_log::{LogOptions, LogStore, is_there};

/// What every store does.
fn check(store: &dyn CoinStore) {
    assert_eq!(store.tip().unwrap(), None);
    assert_eq!(store.get(&outpoint(1)).unwrap(), None);
    let numbers = [0, 1, 255, 256, 16_512, 70_000];
    let coins: Vec<_> = numbers.iter().map(|&number| (outpoint(number), coin(number))).collect();
    let mut changes: Vec<OwnedChange> = coins
        .into_iter()
        .map(|(outpoint, coin)| (outpoint, Some(coin)))
        .collect();
    changes.sort_by_key(|change| change.0);
    store.commit(&changes, &tip(1)).unwrap();
    assert_eq!(store.tip().unwrap(), Some(tip(1)));
    let mut found = Vec::new();
    store
        .get_many(&[outpoint(256), outpoint(2), outpoint(0)], &mut found)
        .unwrap();
    assert_eq!(found, [Some(coin(256)), None, Some(coin(0))]);

    // A snapshot does not show later commits, and is sorted by key.
    let snapshot = store.coins().unwrap();
    let spent = [(outpoint(256), None), (outpoint(999), None)];
    store.commit(&spent, &tip(2)).unwrap();
    let seen: Vec<_> = snapshot.map(|entry| entry.unwrap().0).collect();
    assert_eq!(seen, changes.iter().map(|change| change.0).collect::<Vec<_>>());
    assert_eq!(store.get(&outpoint(256)).unwrap(), None);
    assert_eq!(store.coins().unwrap().count(), numbers.len() - 1);

    let stats = StatsBuilder::new(Hashes::Both)
        .add_all(store.coins().unwrap())
        .unwrap()
        .finish(&tip(2));
    assert_eq!(stats.txouts, 5);
    let left = numbers.into_iter().filter(|&number| number != 256).map(coin);
    assert_eq!(
        stats.total_amount,
        left.map(|coin| i128::from(coin.value)).sum::<i128>()
    );
}

#[test]
fn memory_store() {
    check(&MemoryStore::new());
}

#[test]
fn coin_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    check(&LogStore::open(&path, "regtest", small(1)).unwrap());
    let store = LogStore::open(&path, "regtest", small(1)).unwrap();
    assert_eq!(store.tip().unwrap(), Some(tip(2)));
    assert_eq!(store.coins().unwrap().count(), 5);
}

#[test]
fn commits_reads_and_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    assert!(!is_there(&path).unwrap());
    let store = LogStore::open(&path, "regtest", small(1)).unwrap();
    assert!(is_there(&path).unwrap());
    assert_eq!(store.tip().unwrap(), None);
    assert_eq!(store.get(&outpoint(1)).unwrap(), None);
    assert_eq!(store.coins().unwrap().count(), 0);

    let mut changes: Vec<OwnedChange> = (0..2000).map(|number| (outpoint(number), Some(coin(number)))).collect();
    changes.sort_by_key(|change| change.0);
    store.commit(&changes, &tip(1)).unwrap();
    let mut found = Vec::new();
    let wanted = [outpoint(256), outpoint(5000), outpoint(0), outpoint(997)];
    store.get_many(&wanted, &mut found).unwrap();
    assert_eq!(found, [Some(coin(256)), None, Some(coin(0)), Some(coin(997))]);

    let snapshot = store.coins().unwrap();
    let replaced = Coin { value: 1, ..coin(256) };
    let mut later = vec![
        (outpoint(0), None),
        (outpoint(256), Some(replaced.clone())),
        (outpoint(9999), None),
    ];
    later.sort_by_key(|change| change.0);
    store.commit(&later, &tip(2)).unwrap();
    assert!(
        snapshot
            .map(Result::unwrap)
            .map(|(outpoint, coin)| (outpoint, Some(coin)))
            .eq(changes)
    );
    assert_eq!(store.get(&outpoint(0)).unwrap(), None);
    assert_eq!(store.get(&outpoint(256)).unwrap(), Some(replaced.clone()));
    assert_eq!((store.len(), store.coins().unwrap().count()), (1999, 1999));
    assert!(store.disk_size().unwrap() > 0);

    let reader = LogStore::open_to_read(&path, Some("regtest"), LogOptions::default()).unwrap();
    assert_eq!(reader.tip().unwrap(), Some(tip(2)));
    assert!(matches!(reader.commit(&later, &tip(3)), Err(StoreError::Backend(_))));
    drop(store);
    assert_eq!(reader.get(&outpoint(256)).unwrap(), Some(replaced));

    let other = LogStore::open(&path, "bitcoin", small(1));
    assert!(matches!(other, Err(StoreError::Network { found, .. }) if found == "regtest"));
}

#[test]
fn each_store_has_an_identity_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| LogStore::open(&directory.path().join(name), "regtest", small(1)).unwrap();
    let store = open("coins");
    let made = store.identity().unwrap();
    assert!(made.is_some());
    store.commit(&Vec::<OwnedChange>::new(), &tip(1)).unwrap();
    drop(store);
    assert_eq!(open("coins").identity().unwrap(), made);
    let copy = directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(directory.path().join("coins")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let copied = LogStore::open_to_read(&copy, None, LogOptions::default()).unwrap();
    assert_eq!(copied.identity().unwrap(), made);
    assert_ne!(open("other").identity().unwrap(), made);
}

/// A name is kept whole, or nothing is made.
#[test]
fn long_names_of_networks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let too_long = LogStore::open(&path, &"n".repeat(2049), small(1));
    assert!(matches!(too_long, Err(StoreError::Backend(text)) if text.contains("2048 bytes")));
    assert!(!path.exists());
    let name = "n".repeat(2048);
    let store = LogStore::open(&path, &name, small(1)).unwrap();
    let changes: Vec<OwnedChange> = vec![(outpoint(1), Some(coin(1)))];
    store.commit(&changes, &tip(1)).unwrap();
    drop(store);
    let store = LogStore::open(&path, &name, small(1)).unwrap();
    assert_eq!((store.network(), store.len()), (&*name, 1));
}

/// All outputs of one transaction, and ids that begin with the same bytes.
#[test]
fn keys_that_are_alike_are_kept_apart() {
    let directory = tempfile::tempdir().unwrap();
    let store = LogStore::open(&directory.path().join("coins"), "regtest", small(2)).unwrap();
    let alike = |id: u8, vout: u32| {
        let mut txid = [7; 32];
        txid[31] = id;
        OutPoint { txid: Txid(txid), vout }
    };
    let mut changes: Vec<OwnedChange> = (0..30_000)
        .map(|number| (alike((number % 4) as u8, number * 3), Some(coin(number.into()))))
        .collect();
    changes.sort_by_key(|change| change.0);
    store.commit(&changes, &tip(1)).unwrap();
    let found: Vec<OwnedChange> = store
        .coins()
        .unwrap()
        .map(|entry| entry.map(|(outpoint, coin)| (outpoint, Some(coin))).unwrap())
        .collect();
    assert!(found == changes);
    for (outpoint, coin) in changes.iter().step_by(77) {
        assert_eq!(store.get(outpoint).unwrap(), *coin);
    }
}

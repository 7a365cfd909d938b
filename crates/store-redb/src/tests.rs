//! Tests of the store that read its file.

use super::*;
use blockmill_coins::OwnedChange;

const NOTHING: [OwnedChange; 0] = [];

#[test]
fn format_and_network_are_kept_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let open = |network| RedbStore::open(&path, network, 1 << 20);
    let tip = Tip {
        hash: BlockHash([5; 32]),
        height: 77,
    };
    let store = open("regtest").unwrap();
    assert_eq!(store.tip().unwrap(), None);
    store.commit(&NOTHING, &tip).unwrap();
    drop(store);
    assert_eq!(open("regtest").unwrap().tip().unwrap(), Some(tip));
    assert!(matches!(open("bitcoin"), Err(StoreError::Network { found, .. }) if found == "regtest"));
}

#[test]
fn another_format_and_another_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    let write = store.database.begin_write().unwrap();
    write
        .open_table(VALUES)
        .unwrap()
        .insert("format", &[9, 0, 0, 0][..])
        .unwrap();
    write.commit().unwrap();
    drop(store);
    assert!(matches!(
        RedbStore::open(&path, "regtest", 1 << 20),
        Err(StoreError::Format { .. })
    ));
    std::fs::write(&path, [7; 10_000]).unwrap();
    assert!(matches!(
        RedbStore::open(&path, "regtest", 1 << 20),
        Err(StoreError::Corrupt(_))
    ));
}

#[test]
fn after_a_kill_the_file_is_not_walked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let tip = Tip {
        hash: BlockHash([5; 32]),
        height: 77,
    };
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    store.commit(&NOTHING, &tip).unwrap();
    drop(store);
    // What a kill leaves: after an open, and in the middle of the first commit after it.
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    let check = |name: &str| {
        let copy = directory.path().join(name);
        std::fs::copy(&path, &copy).unwrap();
        let mut builder = Database::builder();
        builder.set_repair_callback(redb::RepairSession::abort);
        builder.open(&copy).unwrap();
        assert_eq!(
            RedbStore::open(&copy, "regtest", 1 << 20).unwrap().tip().unwrap(),
            Some(tip)
        );
    };
    check("opened");
    let write = store.database.begin_write().unwrap();
    let mut values = write.open_table(VALUES).unwrap();
    values.insert("tip", &[0; 36][..]).unwrap();
    check("writing");
}

#[test]
fn each_store_has_an_identity_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let identity = |path: &Path| {
        RedbStore::open_to_read(path, None, 1 << 20)
            .unwrap()
            .identity()
            .unwrap()
    };
    let tip = Tip {
        hash: BlockHash([5; 32]),
        height: 77,
    };
    drop(RedbStore::open(&path, "regtest", 1 << 20).unwrap());
    let made = identity(&path);
    assert!(made.is_some());
    RedbStore::open(&path, "regtest", 1 << 20)
        .unwrap()
        .commit(&NOTHING, &tip)
        .unwrap();
    assert_eq!(identity(&path), made);
    let copy = directory.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(identity(&copy), made);
    let other = directory.path().join("other");
    drop(RedbStore::open(&other, "regtest", 1 << 20).unwrap());
    assert_ne!(identity(&other), made);
    // A store of an earlier version gets one with its next commit.
    let store = RedbStore::open(&copy, "regtest", 1 << 20).unwrap();
    let write = store.database.begin_write().unwrap();
    write.open_table(VALUES).unwrap().remove(IDENTITY).unwrap();
    write.commit().unwrap();
    drop(store);
    assert_eq!(identity(&copy), None);
    RedbStore::open(&copy, "regtest", 1 << 20)
        .unwrap()
        .commit(&NOTHING, &tip)
        .unwrap();
    assert!(identity(&copy).is_some_and(|found| Some(found) != made));
}

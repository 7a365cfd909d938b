//! Both stores keep the same contract.

use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, MemoryStore, OwnedChange, StatsBuilder, Tip};
use blockmill_store_redb::RedbStore;

fn outpoint(number: u32) -> OutPoint {
    OutPoint {
        txid: Txid([(number % 7) as u8; 32]),
        vout: number,
    }
}

fn coin(number: u32) -> Coin {
    Coin {
        value: i64::from(number) * 1000,
        height: number,
        is_coinbase: number.is_multiple_of(2),
        script_pubkey: vec![0x51; number as usize % 50].into(),
    }
}

fn tip(height: u32) -> Tip {
    Tip {
        hash: BlockHash([height as u8; 32]),
        height,
    }
}

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
    assert_eq!(stats.total_amount, (1 + 255 + 16_512 + 70_000) * 1000);
    let scripts: u64 = [0u64, 1, 255, 16_512, 70_000].iter().map(|number| number % 50).sum();
    assert_eq!(stats.bogosize, 5 * 50 + scripts);
}

#[test]
fn memory_store() {
    check(&MemoryStore::new());
}

#[test]
fn redb_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    check(&store);
    assert!(store.disk_size().unwrap() > 0);
    drop(store);
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    assert_eq!(store.tip().unwrap(), Some(tip(2)));
    assert_eq!(store.coins().unwrap().count(), 5);
}

//! A locked shard beside the map itself.

use super::*;

/// Shards that are locked between two comparisons.
const ROUNDS: usize = 60;

/// A change of an entry, as [`Update`] with a coin of its own.
#[derive(Debug, Clone, Copy)]
enum Change {
    Keep,
    SetFlags,
    Put { number: u64 },
    PutMarker,
    Remove,
}

fn change(numbers: &mut Numbers) -> Change {
    match numbers.below(10) {
        0 => Change::Keep,
        1 => Change::SetFlags,
        // Of any length, so that some records move when they are replaced.
        2..=5 => Change::Put {
            number: numbers.below(1 << 20),
        },
        6 => Change::PutMarker,
        _ => Change::Remove,
    }
}

/// What a map is in numbers and in entries.
fn state(map: &CoinMap) -> (usize, usize, Model) {
    let mut entries = Model::new();
    map.for_each(|entry| {
        entries.insert(entry.outpoint(), (entry.flags(), entry.coin()));
    });
    (map.len(), map.bytes(), entries)
}

/// Makes the same changes through locked shards and through the map.
fn same_through_both(key: HashKey, seed: u64, keys: u64) {
    let (locked, plain) = (CoinMap::with_key(key), CoinMap::with_key(key));
    let mut numbers = Numbers(seed);
    let (mut replaced, mut removed) = (0, 0);
    for round in 0..ROUNDS {
        let number = CoinMap::shard_of(key.hash(&outpoint(numbers.below(keys))));
        let before = (locked.len(), locked.bytes());
        let mut shard = locked.lock_shard(number);
        for _ in 0..keys {
            let at = key.hashed(&outpoint(numbers.below(keys)));
            if CoinMap::shard_of(at.hash()) != number {
                continue;
            }
            let flags = EntryFlags::bit(numbers.below(4) as u8);
            let change = change(&mut numbers);
            let coin = match change {
                Change::Put { number } => Some(coin(number)),
                _ => None,
            };
            let update = match change {
                Change::Keep => Update::Keep,
                Change::SetFlags => Update::SetFlags(flags),
                Change::Put { .. } | Change::PutMarker => Update::Put(flags, coin.as_ref().map(CoinRef::from)),
                Change::Remove => Update::Remove,
            };
            let found = |entry: Option<EntryRef<'_>>| (update, entry.map(|entry| (entry.flags(), entry.coin())));
            let seen = shard.with(&at, |entry| found(entry).1);
            assert_eq!(plain.update_hashed(&at, found), seen);
            assert_eq!(shard.update(&at, found), seen);
            replaced += usize::from(seen.is_some() && matches!(change, Change::Put { .. }));
            removed += usize::from(seen.is_some() && matches!(change, Change::Remove));
        }
        // The lengths follow when the shard is given back.
        assert_eq!((locked.len(), locked.bytes()), before, "round {round}");
        drop(shard);
        assert!(state(&locked) == state(&plain), "round {round}");
    }
    assert!(replaced > 100 && removed > 100, "{replaced} {removed}");
    let (len, bytes, model) = state(&plain);
    assert_eq!((locked.len(), locked.bytes()), (len, bytes));
    check_all(&locked, &model);
}

#[test]
fn a_shard_that_is_read_answers_as_the_map_does() {
    let (map, mut model) = (CoinMap::new(), Model::new());
    let mut numbers = Numbers(3);
    for _ in 0..20_000 {
        step(&map, &mut model, &mut numbers, 5_000);
    }
    for number in 0..SHARDS {
        let shard = map.read_shard(number);
        for at in (0..6_000).map(|number| map.hash_key().hashed(&outpoint(number))) {
            if CoinMap::shard_of(at.hash()) == number {
                let found = shard.with(&at, |entry| entry.map(|entry| (entry.flags(), entry.coin())));
                assert_eq!(found.as_ref(), model.get(at.outpoint()));
            }
        }
    }
}

#[test]
fn a_locked_shard_counts_as_the_map_does() {
    same_through_both(HashKey::known(5, 6), 7, 20_000);
    same_through_both(HashKey::random(), 8, 3_000);
    // Most words are in the overflow.
    same_through_both(HashKey::colliding(0), 9, 300);
}

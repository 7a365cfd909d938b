//! Entries that move from one map to another.

use super::*;

/// A map and its model after random steps.
fn random_map(key: HashKey, numbers: &mut Numbers, keys: u64, steps: u64) -> (CoinMap, Model) {
    let (map, mut model) = (CoinMap::with_key(key), Model::new());
    for _ in 0..steps {
        step(&map, &mut model, numbers, keys);
    }
    (map, model)
}

fn moves_what_is_chosen(key: HashKey, seed: u64, keys: u64, steps: [u64; 2]) {
    let mut numbers = Numbers(seed);
    let (live, mut expected) = random_map(key, &mut numbers, keys, steps[0]);
    let (older, entries) = random_map(key, &mut numbers, keys, steps[1]);
    let is_wanted = |entry: EntryRef<'_>| !entry.flags().has(EntryFlags::bit(1));
    let mut wanted = Vec::new();
    older.for_each(|entry| wanted.extend(is_wanted(entry).then(|| entry.outpoint())));
    let mut moved = 0;
    for outpoint in wanted {
        expected.entry(outpoint).or_insert_with(|| {
            moved += 1;
            (EntryFlags::bit(3), entries[&outpoint].1.clone())
        });
    }

    let mut seen = BTreeMap::new();
    let mut adopted = 0;
    for shard in 0..SHARDS {
        let left = older.len();
        let mut here = 0;
        adopted += live.adopt_shard(&older, shard, |entry| {
            here += 1;
            assert_eq!(shard_of(key.hash(&entry.outpoint())), shard);
            assert!(seen.insert(entry.outpoint(), (entry.flags(), entry.coin())).is_none());
            is_wanted(entry).then_some(EntryFlags::bit(3))
        });
        assert_eq!(older.len(), left - here);
    }
    assert!(seen == entries);
    assert_eq!(adopted, moved);
    assert_eq!((older.len(), older.bytes()), (0, CoinMap::EMPTY_BYTES));
    check_all(&live, &expected);
    // The map is whole: further steps do as they should.
    for _ in 0..steps[0] {
        step(&live, &mut expected, &mut numbers, keys);
    }
    check_all(&live, &expected);
}

#[test]
fn chosen_entries_move_where_there_are_none() {
    for (number, steps) in [[30_000, 30_000], [300, 60_000], [60_000, 300], [0, 30_000], [30_000, 0]]
        .into_iter()
        .enumerate()
    {
        moves_what_is_chosen(HashKey::known(5, 6), number as u64, 20_000, steps);
        moves_what_is_chosen(HashKey::random(), number as u64, 3_000, steps);
        // Most words are in the overflow.
        moves_what_is_chosen(HashKey::colliding(0), number as u64, 300, steps.map(|steps| steps / 30));
    }
}

/// Entries come in the order of their hashes. A table that grew step by step would hold all of them
/// in its first part for a while. So it grows once.
#[test]
fn tables_grow_once_for_all_entries() {
    const ENTRIES: u64 = 200_000;
    let key = HashKey::known(5, 6);
    let (live, older) = (CoinMap::with_key(key), CoinMap::with_key(key));
    for number in 0..ENTRIES {
        let map = if number % 10 == 0 { &live } else { &older };
        map.insert(&outpoint(number), EntryFlags::NONE, None);
    }
    let before = live.bytes();
    for shard in 0..SHARDS {
        live.adopt_shard(&older, shard, |_| Some(EntryFlags::NONE));
    }
    assert_eq!(live.len() as u64, ENTRIES);
    let statistics = live.index_statistics();
    let mean = statistics.distance_sum as f64 / statistics.words as f64;
    assert!(mean < 4.0 && statistics.overflowed == 0, "{statistics:?}");
    let homes = statistics.homes as f64 / ENTRIES as f64;
    assert!((1.24..1.26).contains(&homes), "{statistics:?}");
    // An entry takes a record of 40 bytes and less than 12 bytes of the index.
    let bytes = (live.bytes() - before) as f64 / (ENTRIES as f64 * 0.9);
    assert!((47.0..56.0).contains(&bytes), "{bytes}");
}

#[test]
#[should_panic(expected = "different hash keys")]
fn maps_with_different_keys_share_nothing() {
    CoinMap::with_key(HashKey::known(1, 2)).adopt_shard(&CoinMap::with_key(HashKey::known(1, 3)), 0, |_| None);
}

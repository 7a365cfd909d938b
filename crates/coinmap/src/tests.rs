//! The map against a model: random steps, colliding outpoints, threads.

use super::*;
use blockmill_block::Txid;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod adopted;
mod locked;

/// Pseudorandom numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Several outpoints share a transaction.
fn outpoint(number: u64) -> OutPoint {
    let mut txid = [0; 32];
    let mut numbers = Numbers(number / 3);
    for chunk in txid.chunks_mut(8) {
        chunk.copy_from_slice(&numbers.next().to_le_bytes());
    }
    OutPoint {
        txid: Txid(txid),
        vout: (number % 3) as u32,
    }
}

/// A coin of any of the usual forms, rarely a long one.
fn coin(number: u64) -> Coin {
    let mut numbers = Numbers(number);
    let filler = numbers.next() as u8;
    let script = match number % 8 {
        0 => [&[0x76, 0xa9, 20], &[filler; 20][..], &[0x88, 0xac]].concat(),
        1 => [&[0xa9, 20], &[filler; 20][..], &[0x87]].concat(),
        2 => [&[0, 32], &[filler; 32][..]].concat(),
        3 => [&[0x51, 32], &[filler; 32][..]].concat(),
        4 => [&[33, 2], &[filler; 32][..], &[0xac]].concat(),
        5 if number.is_multiple_of(64) => vec![filler; numbers.below(9000) as usize],
        5 => vec![filler; numbers.below(120) as usize],
        _ => [&[0, 20], &[filler; 20][..]].concat(),
    };
    Coin {
        value: (numbers.next() >> 13) as i64,
        height: numbers.next() as u32 >> 12,
        is_coinbase: number.is_multiple_of(5),
        script_pubkey: script.into(),
    }
}

type Model = BTreeMap<OutPoint, (EntryFlags, Option<Coin>)>;

/// One step on map and model.
fn step(map: &CoinMap, model: &mut Model, numbers: &mut Numbers, keys: u64) {
    let outpoint = outpoint(numbers.below(keys));
    let flags = EntryFlags::bit((numbers.next() % 4) as u8);
    match numbers.below(16) {
        0..=6 => {
            let coin = coin(numbers.below(1 << 20));
            let new = model.insert(outpoint, (flags, Some(coin.clone()))).is_none();
            assert_eq!(map.insert(&outpoint, flags, Some(CoinRef::from(&coin))), !new);
        }
        7..=10 => assert_eq!(map.remove(&outpoint), model.remove(&outpoint).is_some()),
        11 => {
            let new = model.insert(outpoint, (flags, None)).is_none();
            assert_eq!(map.insert(&outpoint, flags, None), !new);
        }
        12 => {
            map.update(&outpoint, |_| (Update::SetFlags(flags), ()));
            if let Some(entry) = model.get_mut(&outpoint) {
                entry.0 = flags;
            }
        }
        13 => map.update(&outpoint, |entry| {
            assert_eq!(
                entry.map(|entry| entry.outpoint()),
                model.get(&outpoint).map(|_| outpoint)
            );
            (Update::Keep, ())
        }),
        _ => {
            let found = map.get(&outpoint).map(|entry| (entry.flags, entry.coin));
            assert_eq!(found.as_ref(), model.get(&outpoint));
        }
    }
}

fn check_all(map: &CoinMap, model: &Model) {
    assert_eq!(map.len(), model.len());
    let mut seen = BTreeMap::new();
    map.for_each(|entry| {
        assert!(seen.insert(entry.outpoint(), (entry.flags(), entry.coin())).is_none());
    });
    assert!(&seen == model);
    let absent = (0..50).map(|number| outpoint(u64::MAX - number));
    let outpoints = model.keys().copied().chain(absent);
    let outpoints: Vec<HashedOutPoint> = outpoints.map(|outpoint| map.hash_key().hashed(&outpoint)).collect();
    let mut answers = 0;
    map.get_many(&outpoints, |number, entry| {
        let found = entry.map(|entry| (entry.flags(), entry.coin()));
        assert_eq!(found.as_ref(), model.get(outpoints[number].outpoint()));
        answers += 1;
    });
    assert_eq!(answers, outpoints.len());
    let mut bytes = CoinMap::EMPTY_BYTES;
    for shard in &map.shards {
        let shard = shard.read().unwrap();
        shard.check();
        bytes += shard.bytes();
    }
    assert_eq!(map.bytes(), bytes);
}

/// The entries of all parts.
fn all(entries: &SortedEntries) -> Vec<(OutPoint, Option<Coin>)> {
    let mut found = Vec::new();
    for part in 0..entries.parts() {
        entries.visit(part, |entry| found.push((entry.outpoint(), entry.coin())));
    }
    found
}

fn random_steps(key: HashKey, seed: u64, keys: u64, steps: u64) {
    let map = CoinMap::with_key(key);
    let mut model = Model::new();
    let mut numbers = Numbers(seed);
    for number in 0..steps {
        step(&map, &mut model, &mut numbers, keys);
        if number % (steps / 3) == 0 {
            check_all(&map, &model);
        }
    }
    check_all(&map, &model);
    let ordered: Vec<OutPoint> = model.keys().copied().collect();
    let map = Arc::new(map);
    // One part, and many.
    for expected in [0, ordered.len(), 1 << 20] {
        let wanted = SortedEntries::new(Arc::clone(&map), expected, |_| true);
        assert_eq!(wanted.len(), ordered.len());
        assert!(expected < 1 << 20 || wanted.parts() == 256, "{}", wanted.parts());
        assert!(
            all(&wanted)
                .into_iter()
                .eq(model.iter().map(|(outpoint, entry)| (*outpoint, entry.1.clone())))
        );
    }
    let first = SortedEntries::new(Arc::clone(&map), 100, |entry| entry.flags().has(EntryFlags::bit(0)));
    assert!(
        all(&first).into_iter().eq(model
            .iter()
            .filter(|(_, entry)| entry.0.has(EntryFlags::bit(0)))
            .map(|(outpoint, entry)| (*outpoint, entry.1.clone())))
    );
    map.clear();
    assert_eq!((map.len(), map.bytes()), (0, CoinMap::EMPTY_BYTES));
}

#[test]
fn millions_of_steps_as_in_the_model() {
    random_steps(HashKey::known(5, 6), 1, 100_000, 1_500_000);
    random_steps(HashKey::random(), 2, 300, 1_000_000);
}

/// The lowest of the bits by which a segment sorts. Above those bits are segment and shard.
const SORTED_BITS_START: u32 = 64 - 32 - 10;

#[test]
fn colliding_outpoints_are_distinguished() {
    // All hashes are equal: the overflow gets nearly all words.
    random_steps(HashKey::colliding(0), 3, 20_000, 200_000);
    // All words are at the end of the table.
    random_steps(
        HashKey::colliding(u64::MAX << (SORTED_BITS_START + 10)),
        4,
        20_000,
        200_000,
    );
    // A few thousand neighbouring hashes: words get too far from their homes.
    random_steps(HashKey::colliding(0xfff << SORTED_BITS_START), 5, 20_000, 200_000);
    // One segment only, with random hashes in it.
    random_steps(HashKey::colliding(u64::MAX >> 10), 6, 20_000, 200_000);
}

/// A million outpoints with one hash: slower, but each is found, and removed.
#[test]
#[ignore = "takes seconds"]
fn a_million_outpoints_with_one_hash() {
    const COUNT: u64 = 1_000_000;
    let map = CoinMap::with_key(HashKey::colliding(0));
    for number in 0..COUNT {
        let coin = coin(number * 8);
        assert!(!map.insert(&outpoint(number), EntryFlags::NONE, Some(CoinRef::from(&coin))));
    }
    for number in 0..COUNT {
        let value = map.with(&outpoint(number), |entry| entry.map(|entry| entry.value()));
        assert_eq!(value, Some(coin(number * 8).value));
    }
    assert!(map.get(&outpoint(COUNT + 1)).is_none());
    let statistics = map.index_statistics();
    assert!(statistics.overflowed as u64 > COUNT - 100, "{statistics:?}");
    for number in 0..COUNT {
        assert!(map.remove(&outpoint(number)));
    }
    assert!(map.is_empty());
}

/// Memory stays bounded even if the key is known.
#[test]
fn colliding_outpoints_take_no_more_memory_than_others() {
    let fill = |key| {
        let map = CoinMap::with_key(key);
        for number in 0..50_000 {
            map.insert(&outpoint(number), EntryFlags::NONE, Some(CoinRef::from(&coin(number))));
        }
        map
    };
    let usual = fill(HashKey::known(1, 2));
    for kept in [0, 0xfff << SORTED_BITS_START, 0xffff << SORTED_BITS_START] {
        let map = fill(HashKey::colliding(kept));
        assert!(
            map.bytes() < usual.bytes() * 5 / 4,
            "{} against {}",
            map.bytes(),
            usual.bytes()
        );
    }
}

/// An attacker without the key cannot make searches long: distances are those of random outpoints.
#[test]
fn distances_are_those_of_random_hashes() {
    for (what, outpoint) in [
        ("random ids", outpoint as fn(u64) -> OutPoint),
        ("one transaction", |number| OutPoint {
            txid: Txid([7; 32]),
            vout: number as u32,
        }),
        ("ids that count", |number| {
            let mut txid = [0; 32];
            txid[24..].copy_from_slice(&number.to_be_bytes());
            OutPoint {
                txid: Txid(txid),
                vout: 0,
            }
        }),
    ] {
        let map = CoinMap::new();
        for number in 0..1_000_000 {
            map.insert(&outpoint(number), EntryFlags::NONE, None);
        }
        let statistics = map.index_statistics();
        assert_eq!(statistics.words + statistics.overflowed, 1_000_000, "{what}");
        let mean = statistics.distance_sum as f64 / statistics.words as f64;
        let load = statistics.words as f64 / statistics.homes as f64;
        // Linear probing: half of load / (1 - load) on average. The loads of the tables differ, so
        // the mean is a little above.
        let expected = load / (1.0 - load) / 2.0;
        assert!(
            (expected * 0.95..expected * 1.35).contains(&mean),
            "{what}: {mean} at {load}, not {expected}"
        );
        assert!(statistics.distance_max < 256, "{what}: {statistics:?}");
        assert_eq!(statistics.overflowed, 0, "{what}");
    }
}

#[test]
fn lengths_are_those_of_the_shards() {
    let map = CoinMap::new();
    for number in 0..1000 {
        assert!(!map.insert(&outpoint(number), EntryFlags::NONE, Some(CoinRef::from(&coin(number)))));
    }
    assert!(map.remove(&outpoint(5)));
    assert!(map.get(&outpoint(5)).is_none());
    assert_eq!(map.get(&outpoint(6)).and_then(|entry| entry.coin), Some(coin(6)));
    assert_eq!(map.len(), 999);
    let bytes: usize = map.shards.iter().map(|shard| shard.read().unwrap().bytes()).sum();
    assert_eq!(map.bytes(), bytes + CoinMap::EMPTY_BYTES);
}

#[test]
fn readers_beside_writers() {
    const KEYS: u64 = 2000;
    const ROUNDS: u32 = 40;
    let map = CoinMap::new();
    let done = AtomicBool::new(false);
    // The height is the number of the write. Value and script follow from it.
    let version = |round: u32, number: u64| Coin {
        height: round,
        value: i64::from(round) + number as i64,
        ..coin(u64::from(round) * KEYS + number)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let map = &map;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        for number in (writer..KEYS).step_by(2) {
                            let coin = version(round, number);
                            map.insert(&outpoint(number), EntryFlags::NONE, Some(CoinRef::from(&coin)));
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                let hashed = |key| map.hash_key().hashed(&outpoint(key));
                let outpoints: Vec<HashedOutPoint> = (0..KEYS).map(hashed).collect();
                let mut seen = vec![0; outpoints.len()];
                loop {
                    let last = done.load(Ordering::Acquire);
                    let mut look = |number: usize, entry: Option<EntryRef<'_>>| {
                        if let Some(found) = entry.and_then(|entry| entry.coin()) {
                            assert_eq!(found, version(found.height, number as u64));
                            assert!(found.height >= seen[number]);
                            seen[number] = found.height;
                        }
                    };
                    if reader == 0 {
                        map.get_many(&outpoints, &mut look);
                    } else {
                        for (number, outpoint) in outpoints.iter().enumerate() {
                            map.with_hashed(outpoint, |entry| look(number, entry));
                        }
                    }
                    if last {
                        assert!(seen.iter().all(|&round| round == ROUNDS));
                        return;
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(map.len() as u64, KEYS);
}

/// Transactions whose ids begin with the same bytes are kept apart.
#[test]
fn entries_with_one_prefix_are_sorted_by_their_keys() {
    let mut outpoints: Vec<OutPoint> = (0..600u32)
        .map(|number| {
            let mut txid = [7; 32];
            txid[31] = (number % 3) as u8;
            OutPoint {
                txid: Txid(txid),
                vout: number.wrapping_mul(0x9e37_79b9),
            }
        })
        .collect();
    // With one transaction that has a prefix for itself.
    outpoints.extend((0..200u32).map(|vout| OutPoint {
        txid: Txid([8; 32]),
        vout: vout.reverse_bits(),
    }));
    let map = Arc::new(CoinMap::new());
    for outpoint in &outpoints {
        map.insert(outpoint, EntryFlags::NONE, None);
    }
    outpoints.sort_unstable();
    for expected in [0, 1 << 20] {
        let entries = SortedEntries::new(Arc::clone(&map), expected, |_| true);
        let found: Vec<OutPoint> = all(&entries).into_iter().map(|(outpoint, _)| outpoint).collect();
        assert_eq!(found, outpoints);
    }
}

/// Of a shard whose entries are all left out every entry is shown, and its memory is freed.
#[test]
fn shards_are_drained_one_by_one() {
    let map = CoinMap::new();
    let other = CoinMap::with_key(*map.hash_key());
    for number in 0..5000 {
        map.insert(
            &outpoint(number),
            EntryFlags::bit(2),
            Some(CoinRef::from(&coin(number))),
        );
    }
    let mut shown = 0;
    for shard in 0..SHARDS {
        let before = (map.len(), map.bytes());
        let mut here = 0;
        other.adopt_shard(&map, shard, |entry| {
            assert!(entry.flags() == EntryFlags::bit(2) && !entry.is_spent());
            here += 1;
            None
        });
        assert_eq!(map.len(), before.0 - here);
        assert!(here == 0 || map.bytes() < before.1);
        shown += here;
    }
    assert_eq!((shown, map.len(), map.bytes()), (5000, 0, CoinMap::EMPTY_BYTES));
}

proptest! {
    #[test]
    fn any_steps_under_any_key(seed: u64, kept in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX)], keys in 1u64..500) {
        random_steps(HashKey::colliding(kept), seed, keys, 2000);
    }
}

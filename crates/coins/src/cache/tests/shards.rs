//! Shards with their logs, beside single operations: the same events, and then the same entries,
//! flag by flag.

use super::world::{Coins, Step, World, step};
use super::*;
use crate::SHARDS;
use proptest::strategy::ValueTree;

/// What happens to an outpoint.
#[derive(Debug, Clone)]
enum Event {
    Spend(u8),
    /// A coin is created: with this value, over a coin that may be there, if it must be new.
    Create(u8, i64, bool, bool),
    /// A coin is created, with this value, instead of the coin that may be there.
    Add(u8, i64),
    /// A coin is created and spent without an entry, if it must be new.
    MakeAndSpend(u8, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0u8..24).prop_map(Event::Spend),
        5 => (0u8..24, 0i64..1000, any::<bool>(), any::<bool>())
            .prop_map(|(number, value, over, new)| Event::Create(number, value, over, new)),
        1 => (0u8..24, 0i64..1000).prop_map(|(number, value)| Event::Add(number, value)),
        2 => (0u8..24, any::<bool>()).prop_map(|(number, new)| Event::MakeAndSpend(number, new)),
    ]
}

/// What steps come before the events, and what becomes of the events.
#[derive(Debug, Clone)]
struct Round {
    steps: Vec<Step>,
    /// Whether coins that the store has leave the cache after the steps.
    is_emptied: bool,
    events: Vec<Event>,
    /// All is taken back, and done again.
    is_taken_back: bool,
    /// How many reads of the store succeed.
    good_reads: Option<u64>,
}

fn round() -> impl Strategy<Value = Round> {
    (
        proptest::collection::vec(step(), 0..30),
        any::<bool>(),
        proptest::collection::vec(event(), 0..40),
        any::<bool>(),
        prop_oneof![4 => Just(None), 1 => (0u64..10).prop_map(Some)],
    )
        .prop_map(|(steps, is_emptied, events, is_taken_back, good_reads)| Round {
            steps,
            is_emptied,
            events,
            is_taken_back,
            good_reads,
        })
}

type Entries = BTreeMap<OutPoint, (EntryFlags, Option<Coin>)>;

/// The live entries, with all their flags.
fn entries(cache: &CoinsCache) -> Entries {
    let mut entries = Entries::new();
    cache.map.for_each(|entry| {
        entries.insert(entry.outpoint(), (entry.flags(), entry.coin()));
    });
    entries
}

/// Entries, the number of the dirty ones, and how often the cache had an answer.
fn state(cache: &CoinsCache) -> (Entries, usize, CacheCounters) {
    (entries(cache), cache.dirty_len(), cache.counters())
}

impl Event {
    fn outpoint(&self) -> OutPoint {
        let (Self::Spend(number) | Self::Create(number, ..) | Self::Add(number, _) | Self::MakeAndSpend(number, _)) =
            self;
        outpoint(*number)
    }

    /// What must hold for the coin that it makes.
    fn must_be_new(&self, world: &Knowledge<'_>) -> MustBeNew {
        let at = self.outpoint();
        let absent_at = world.absent.get(&at).copied();
        match self {
            Self::Create(_, _, _, true) | Self::MakeAndSpend(_, true) => MustBeNew::Yes(absent_at),
            // The promise that no coin is there must be true.
            Self::MakeAndSpend(..) if world.model.contains_key(&at) => MustBeNew::Yes(absent_at),
            _ => MustBeNew::No,
        }
    }
}

/// What a world knows beside its cache.
struct Knowledge<'w> {
    model: &'w mut Coins,
    absent: &'w BTreeMap<OutPoint, FlushEpoch>,
}

/// What was said to an event, and with which promise.
#[derive(Debug, Clone)]
struct Answer {
    event: Event,
    must_be_new: MustBeNew,
    overwrite: Overwrite,
    is_done: bool,
    spent: Option<Coin>,
}

/// One event.
fn take(
    shard: &mut CacheShard<'_>,
    at: &HashedOutPoint,
    event: &Event,
    log: &mut EntryLog,
    known: &mut Knowledge<'_>,
) -> Result<Answer, StoreError> {
    let outpoint = *at.outpoint();
    let must_be_new = event.must_be_new(known);
    let mut overwrite = Overwrite::Impossible;
    let mut spent = None;
    let is_done = match event {
        Event::Spend(_) => {
            let is_spent = shard.spend(at, log)?;
            if is_spent {
                spent = Some(log.spent().at(log.spent().len() - 1).to_coin());
                known.model.remove(&outpoint);
            }
            is_spent
        }
        Event::Create(_, value, over, _) => {
            if *over || (must_be_new == MustBeNew::No && known.model.contains_key(&outpoint)) {
                overwrite = Overwrite::Possible;
            }
            let coin = coin(*value);
            let is_made = shard.create(at, CoinRef::from(&coin), overwrite, must_be_new, log)?;
            if is_made {
                known.model.insert(outpoint, coin);
            }
            is_made
        }
        Event::Add(_, value) => {
            if known.model.contains_key(&outpoint) {
                overwrite = Overwrite::Possible;
            }
            let coin = coin(*value);
            shard.add(at, CoinRef::from(&coin), overwrite, log);
            known.model.insert(outpoint, coin);
            true
        }
        Event::MakeAndSpend(..) => {
            let is_free = shard.is_free(at, must_be_new, log)?;
            if is_free {
                log.push_elsewhere(CoinRef::from(&coin(1)));
            }
            is_free
        }
    };
    Ok(Answer {
        event: event.clone(),
        must_be_new,
        overwrite,
        is_done,
        spent,
    })
}

/// Takes back what was done, the last first.
fn take_back(shard: &mut CacheShard<'_>, key: &HashKey, done: &[Answer], log: &mut EntryLog) {
    log.forget_counts();
    let mut left = log.spent().len();
    for Answer { event, .. } in done.iter().filter(|answer| answer.is_done).rev() {
        let at = key.hashed(&event.outpoint());
        match event {
            Event::Create(..) | Event::Add(..) => shard.take_back_create(&at, log),
            Event::Spend(_) | Event::MakeAndSpend(..) => {
                left -= 1;
                shard.take_back_spend(&at, left, log);
            }
        }
    }
    assert_eq!((left, log.created), (0, 0));
}

/// Events one after the other. Returns false, with the answers up to then, if the store fails.
fn take_all<'e>(
    shard: &mut CacheShard<'_>,
    key: &HashKey,
    events: impl IntoIterator<Item = &'e Event>,
    log: &mut EntryLog,
    known: &mut Knowledge<'_>,
    answers: &mut Vec<Answer>,
) -> bool {
    events.into_iter().all(|event| {
        let answer = take(shard, &key.hashed(&event.outpoint()), event, log, known);
        answer.map(|answer| answers.push(answer)).is_ok()
    })
}

impl World {
    /// Runs events in shards. None if the store failed, or if all is to be taken back: then all
    /// was.
    fn run(&mut self, events: &[Event], is_taken_back: bool) -> Option<Vec<Answer>> {
        let key = *self.cache.hash_key();
        let before = self.model.clone();
        let mut by_shard: BTreeMap<usize, Vec<&Event>> = BTreeMap::new();
        for event in events {
            let shard = shard_of(key.hash(&event.outpoint()));
            by_shard.entry(shard).or_default().push(event);
        }
        let mut known = Knowledge {
            model: &mut self.model,
            absent: &self.absent,
        };
        let shards = self.cache.shards();
        let mut ran = Vec::new();
        let mut has_failed = false;
        for (number, events) in by_shard {
            let (mut log, mut answers) = (EntryLog::default(), Vec::new());
            has_failed |= !take_all(
                &mut shards.lock(number),
                &key,
                events,
                &mut log,
                &mut known,
                &mut answers,
            );
            ran.push((number, log, answers));
        }
        if has_failed || is_taken_back {
            for (number, log, answers) in &mut ran {
                take_back(&mut shards.lock(*number), &key, answers, log);
            }
            *known.model = before;
        }
        self.cache.end_shards(ran.iter().map(|(_, log, _)| log));
        let answers = ran.into_iter().flat_map(|(.., answers)| answers);
        (!has_failed && !is_taken_back).then(|| answers.collect())
    }

    /// Does what was done, by single operations. Returns false if something else was said than the
    /// cache says.
    fn repeat(&mut self, answers: &[Answer]) -> bool {
        for answer in answers {
            let outpoint = answer.event.outpoint();
            let entry = entries(&self.cache).remove(&outpoint).map(|(_, coin)| coin);
            let has_coin = matches!(entry, Some(Some(_)));
            let is_there = match answer.must_be_new {
                MustBeNew::Yes(absent_at) => self.cache.contains(&outpoint, absent_at).unwrap(),
                MustBeNew::No => false,
            };
            let is_same = match &answer.event {
                Event::Spend(_) => {
                    let spent = self.cache.spend(&outpoint).unwrap();
                    self.model.remove(&outpoint);
                    (spent.is_some(), spent) == (answer.is_done, answer.spent.clone())
                }
                Event::Add(_, value) => {
                    self.cache
                        .add(&outpoint, CoinRef::from(&coin(*value)), answer.overwrite);
                    self.model.insert(outpoint, coin(*value));
                    true
                }
                Event::Create(_, value, ..) if answer.is_done => {
                    self.cache
                        .add(&outpoint, CoinRef::from(&coin(*value)), answer.overwrite);
                    self.model.insert(outpoint, coin(*value));
                    !is_there
                }
                // `create` does not replace a coin.
                Event::Create(..) if answer.must_be_new == MustBeNew::No => has_coin,
                Event::Create(..) => is_there,
                Event::MakeAndSpend(..) if answer.is_done => {
                    self.cache
                        .add(&outpoint, CoinRef::from(&coin(1)), Overwrite::Impossible);
                    !is_there && self.cache.spend(&outpoint).unwrap().is_some()
                }
                Event::MakeAndSpend(..) => is_there,
            };
            if !is_same {
                return false;
            }
        }
        true
    }
}

/// Runs rounds with logs, and beside them by single operations. Says what is different. The rule is
/// disabled while events run.
fn check(rounds: &[Round], disabled: Option<Rule>) -> Result<(), &'static str> {
    let (mut logged, mut serial) = (World::new(), World::new());
    // One key, so that both caches have their entries in the same order.
    serial.cache.map = Arc::new(CoinMap::with_key(*logged.cache.hash_key()));
    for round in rounds {
        for step in &round.steps {
            logged.take(step);
            serial.take(step);
        }
        for cache in [&mut logged.cache, &mut serial.cache] {
            if round.is_emptied {
                cache
                    .map
                    .retain_with_flags(|entry| entry.flags().has(DIRTY).then_some(entry.flags()));
                cache.complete = false;
            }
        }
        let before = state(&logged.cache);
        if before != state(&serial.cache) {
            return Err("entries before");
        }
        let epoch_before = logged.cache.flush_epoch();
        let good_reads = if logged.cache.complete {
            // The store is never asked.
            Some(0)
        } else {
            round.good_reads
        };
        let reads = logged.store.reads.load(Ordering::Relaxed);
        let limit = good_reads.map_or(u64::MAX, |good| reads + good);
        logged.store.good_reads.store(limit, Ordering::Relaxed);
        logged.cache.disabled = disabled;
        let answers = logged.run(&round.events, round.is_taken_back);
        logged.store.good_reads.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(logged.cache.flush_epoch(), epoch_before);
        let answers = match answers {
            Some(answers) => answers,
            None if logged.cache.complete && !round.is_taken_back => return Err("the store was asked"),
            None if state(&logged.cache) != before => return Err("what was taken back"),
            // And once more, so that a flush writes what was not taken back, too.
            None => logged.run(&round.events, false).expect("a store that works"),
        };
        logged.cache.disabled = None;
        if !serial.repeat(&answers) {
            return Err("answers");
        }
        if state(&logged.cache) != state(&serial.cache) {
            return Err("entries");
        }
        let dirty = entries(&logged.cache);
        let dirty = dirty.values().filter(|(flags, _)| flags.has(DIRTY)).count();
        if (logged.cache.dirty_len(), serial.cache.dirty_len()) != (dirty, dirty) {
            return Err("dirty entries");
        }
        if logged.model != serial.model {
            return Err("models");
        }
        logged.undo.clear();
        serial.undo.clear();
        // The flushes check what the entries say of the store.
        logged.check();
    }
    for _ in 0..2 {
        for world in [&mut logged, &mut serial] {
            world.take(&Step::Freeze(Ending::Well));
            world.finish();
            world.check();
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn logged_events_do_what_single_operations_do(rounds in proptest::collection::vec(round(), 1..6)) {
        prop_assert_eq!(check(&rounds, None), Ok(()));
    }
}

/// Without one of these rules the test above fails.
#[test]
fn each_rule_of_entries_is_needed() {
    for (rule, expected) in [
        (Rule::FlagsTakenBack, "what was taken back"),
        (Rule::MarkersTakenBack, "what was taken back"),
        (Rule::Frozen, "answers"),
        (Rule::Epochs, "answers"),
    ] {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let rounds = proptest::collection::vec(round(), 1..6);
        let found = (0..2_000)
            .map(|_| check(&rounds.new_tree(&mut runner).unwrap().current(), Some(rule)))
            .filter(|found| *found == Err(expected))
            .take(3)
            .count();
        assert_eq!(found, 3, "{rule:?}");
    }
}

/// One event in a shard of the cache, kept.
fn in_shard<R>(
    cache: &mut CoinsCache,
    number: u8,
    run: impl FnOnce(&mut CacheShard<'_>, &HashedOutPoint, &mut EntryLog) -> R,
) -> R {
    let at = cache.hash_key().hashed(&outpoint(number));
    let mut log = EntryLog::default();
    let shards = cache.shards();
    let outcome = run(&mut shards.lock(shard_of(at.hash())), &at, &mut log);
    cache.end_shards([&log]);
    outcome
}

/// Whether a shard makes a coin that must be new, and how often it reads the store.
fn creates(store: &GatedStore, cache: &mut CoinsCache, number: u8, absent_at: Option<FlushEpoch>) -> (bool, u64) {
    let before = store.reads.load(Ordering::Relaxed);
    let is_made = in_shard(cache, number, |shard, at, log| {
        let must_be_new = MustBeNew::Yes(absent_at);
        let is_free = shard.is_free(at, must_be_new, log).unwrap();
        let coin = coin(9);
        let is_made = shard.create(at, CoinRef::from(&coin), Overwrite::Impossible, must_be_new, log);
        assert_eq!(is_made.unwrap(), is_free);
        is_free
    });
    (is_made, store.reads.load(Ordering::Relaxed) - before)
}

#[test]
fn an_absence_counts_in_its_epoch() {
    let (store, mut cache) = gated();
    begin(&mut cache);
    cache.finish_flush().unwrap();
    let seen = cache.flush_epoch();
    // The store is not read. Without knowledge of it, it is.
    assert_eq!(creates(&store, &mut cache, 1, Some(seen)), (true, 0));
    assert_eq!(creates(&store, &mut cache, 2, None), (true, 2));
    // A flush brings another coin, which then leaves the cache.
    add(&mut cache, 3, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    cache.map.clear();
    assert_eq!(creates(&store, &mut cache, 3, Some(seen)), (false, 2));
    assert_eq!(creates(&store, &mut cache, 3, None), (false, 2));
}

/// A coin known to be spent can be created again even if reads of the store fail.
#[test]
fn a_marker_needs_no_store() {
    let (store, mut cache) = gated();
    begin(&mut cache);
    cache.finish_flush().unwrap();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    cache.flush(&TIP, || Ok(())).unwrap();
    cache.map.clear();
    assert!(in_shard(&mut cache, 1, |shard, at, log| shard.spend(at, log).unwrap()));
    store.good_reads.store(0, Ordering::Relaxed);
    for (number, is_known) in [(1, true), (2, false)] {
        let created = in_shard(&mut cache, number, |shard, at, log| {
            let coin = coin(5);
            shard.create(
                at,
                CoinRef::from(&coin),
                Overwrite::Impossible,
                MustBeNew::Yes(None),
                log,
            )
        });
        assert_eq!(created.ok(), is_known.then_some(true));
    }
}

/// In the epoch in which the outpoint was absent, the coin is created, frozen, and not yet written.
#[test]
fn a_frozen_coin_is_there_though_the_store_has_none() {
    let (store, mut cache) = gated();
    begin(&mut cache);
    cache.finish_flush().unwrap();
    let seen = cache.flush_epoch();
    add(&mut cache, 1, 5, Overwrite::Impossible);
    store.set(false, Ending::Well);
    begin(&mut cache);
    let created = creates(&store, &mut cache, 1, Some(seen));
    let is_spent = in_shard(&mut cache, 1, |shard, at, log| shard.spend(at, log).unwrap());
    store.set(true, Ending::Well);
    cache.finish_flush().unwrap();
    assert_eq!((created, is_spent), ((false, 0), true));
    cache.flush(&TIP, || Ok(())).unwrap();
    assert!(!stored(&cache, 1));
}

/// A cache that has every coin of its store never asks the store.
#[test]
fn a_complete_cache_reads_nothing() {
    let (store, mut cache) = gated();
    store.good_reads.store(0, Ordering::Relaxed);
    assert_eq!(creates(&store, &mut cache, 1, None), (true, 0));
    let is_spent = in_shard(&mut cache, 2, |shard, at, log| shard.spend(at, log).unwrap());
    assert!(!is_spent);
    assert_eq!(store.reads.load(Ordering::Relaxed), 0);
}

/// Shards of different threads at once.
#[test]
fn shards_of_several_threads_are_counted_together() {
    let (_, mut cache) = gated();
    for number in 0..200 {
        cache.add(&numbered(number), CoinRef::from(&coin(5)), Overwrite::Possible);
    }
    let key = *cache.hash_key();
    let shards = cache.shards();
    let logs: Vec<EntryLog> = std::thread::scope(|scope| {
        let of_shard = |number: usize| {
            let shards = &shards;
            scope.spawn(move || {
                let (mut shard, mut log) = (shards.lock(number), EntryLog::default());
                for at in (0..200).map(|coin| key.hashed(&numbered(coin))) {
                    if shard_of(at.hash()) == number {
                        assert!(shard.spend(&at, &mut log).unwrap());
                    }
                }
                log
            })
        };
        let threads: Vec<_> = (0..SHARDS).map(of_shard).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(logs.iter().map(|log| log.spent().len()).sum::<usize>(), 200);
    cache.end_shards(&logs);
    // Markers, since the store may have the coins.
    assert_eq!((cache.len(), cache.dirty_len(), cache.counters().hits), (200, 200, 200));
    assert_eq!(cache.coins().unwrap().count(), 0);
}

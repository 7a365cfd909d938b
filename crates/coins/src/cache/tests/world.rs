//! Random steps, compared with a model.

use super::*;
use proptest::strategy::ValueTree;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Add(u8, i64, bool),
    Spend(u8),
    Get(u8),
    Contains(u8),
    /// Reads from the store, for a later insertion.
    Read(u8),
    InsertRead,
    /// Begins a flush that stays at the gate.
    Freeze(Ending),
    Finish,
    /// Returns to the state at the start of the last flush.
    Rollback,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![4 => Just(Ending::Well), 1 => Just(Ending::Failing), 1 => Just(Ending::Lying)];
    prop_oneof![
        6 => (0u8..24, 0i64..1000, any::<bool>()).prop_map(|(n, value, over)| Step::Add(n, value, over)),
        6 => (0u8..24).prop_map(Step::Spend),
        3 => (0u8..24).prop_map(Step::Get),
        2 => (0u8..24).prop_map(Step::Contains),
        3 => (0u8..24).prop_map(Step::Read),
        3 => Just(Step::InsertRead),
        2 => ending.prop_map(Step::Freeze),
        2 => Just(Step::Finish),
        1 => Just(Step::Rollback),
    ]
}

pub(super) type Coins = BTreeMap<OutPoint, Coin>;

/// The cache next to a model of its content.
pub(super) struct World {
    pub(super) store: Arc<GatedStore>,
    pub(super) cache: CoinsCache,
    pub(super) model: Coins,
    /// The end of the running flush, and the coins at its flush point.
    pub(super) frozen: Option<(Ending, Coins)>,
    /// The coins that the store should have.
    pub(super) stored: Coins,
    /// Older and newer coins, to be undone from the last one.
    pub(super) undo: Vec<(OutPoint, Option<Coin>)>,
    /// Coins read from the store, with the epoch before the read.
    pub(super) reads: Vec<(OutPoint, Coin, FlushEpoch)>,
    /// Outpoints without a coin in the store, with the epoch before the read.
    pub(super) absent: BTreeMap<OutPoint, FlushEpoch>,
}

impl Drop for World {
    /// The cache waits for its flush.
    fn drop(&mut self) {
        self.store.set(true, Ending::Well);
    }
}

impl World {
    pub(super) fn new() -> Self {
        let (store, cache) = gated();
        Self {
            store,
            cache,
            model: Coins::new(),
            frozen: None,
            stored: Coins::new(),
            undo: Vec::new(),
            reads: Vec::new(),
            absent: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Add(number, value, over) => {
                let outpoint = outpoint(*number);
                // The promise that no coin exists must be true.
                let overwrite = if *over || self.model.contains_key(&outpoint) {
                    Overwrite::Possible
                } else {
                    Overwrite::Impossible
                };
                self.cache.add(&outpoint, CoinRef::from(&coin(*value)), overwrite);
                let old = self.model.insert(outpoint, coin(*value));
                self.undo.push((outpoint, old));
            }
            Step::Spend(number) => {
                let outpoint = outpoint(*number);
                let coin = self.cache.spend(&outpoint).unwrap();
                assert_eq!(coin, self.model.remove(&outpoint));
                if coin.is_some() {
                    self.undo.push((outpoint, coin));
                }
            }
            Step::Get(number) => {
                let outpoint = outpoint(*number);
                let counters = self.cache.counters();
                assert_eq!(self.cache.peek(&outpoint).unwrap(), self.model.get(&outpoint).cloned());
                assert_eq!(self.cache.counters(), counters);
                assert_eq!(self.cache.get(&outpoint).unwrap(), self.model.get(&outpoint).cloned());
            }
            Step::Contains(number) => {
                let outpoint = outpoint(*number);
                assert_eq!(
                    self.cache
                        .contains(&outpoint, self.absent.get(&outpoint).copied())
                        .unwrap(),
                    self.model.contains_key(&outpoint)
                );
            }
            Step::Read(number) => {
                let read_epoch = self.cache.flush_epoch();
                match self.cache.store().get(&outpoint(*number)).unwrap() {
                    Some(coin) => self.reads.push((outpoint(*number), coin, read_epoch)),
                    None => {
                        self.absent.insert(outpoint(*number), read_epoch);
                    }
                }
            }
            Step::InsertRead => {
                for (outpoint, coin, read_epoch) in self.reads.drain(..) {
                    insert_read(&mut self.cache, &outpoint, &coin, read_epoch);
                }
            }
            Step::Freeze(ending) => {
                self.finish();
                self.store.set(false, *ending);
                begin(&mut self.cache);
                self.frozen = Some((*ending, self.model.clone()));
                self.undo.clear();
            }
            Step::Finish => self.finish(),
            Step::Rollback => {
                for (outpoint, old) in self.undo.drain(..).rev() {
                    match &old {
                        Some(coin) => self.cache.add(&outpoint, CoinRef::from(coin), Overwrite::Possible),
                        None => drop(self.cache.spend(&outpoint).unwrap()),
                    }
                    match old {
                        Some(coin) => self.model.insert(outpoint, coin),
                        None => self.model.remove(&outpoint),
                    };
                }
            }
        }
    }

    /// Lets the flush end, and compares the store.
    pub(super) fn finish(&mut self) {
        let Some((ending, coins)) = self.frozen.take() else {
            return;
        };
        self.store.set(true, ending);
        assert_eq!(self.cache.finish_flush().is_ok(), ending == Ending::Well);
        if ending != Ending::Failing {
            self.stored = coins;
        }
        let found: Coins = self.store.coins().unwrap().map(Result::unwrap).collect();
        assert_eq!(found, self.stored);
    }

    pub(super) fn check(&self) {
        let found: Coins = self.cache.coins().unwrap().map(Result::unwrap).collect();
        assert_eq!(found, self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn behaves_as_a_map(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.check();
        world.finish();
        world.check();
        // Once more: the rest of earlier flushes must not come back.
        world.take(&Step::Freeze(Ending::Well));
        world.finish();
        world.check();
    }
}

/// Flushes that run beside the steps, so that coins are promoted at any moment.
#[test]
fn flushes_beside_the_work() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut world = World::new();
    let mut flushes = 0;
    // How many flushes the steps meet depends on the load of the machine.
    for number in 0..30_000_000 {
        if number >= 300_000 && flushes > 100 {
            break;
        }
        let step = step().new_tree(&mut runner).unwrap().current();
        match step {
            Step::Freeze(_) | Step::Finish if number % 5 != 0 => {}
            Step::Freeze(_) => {
                if !world.cache.is_flushing() {
                    begin(&mut world.cache);
                    flushes += 1;
                }
                world.undo.clear();
            }
            Step::Finish => {
                if world.cache.is_flush_done() {
                    world.cache.finish_flush().unwrap();
                }
            }
            step => world.take(&step),
        }
        if number % 10_000 == 0 {
            world.check();
        }
    }
    world.cache.finish_flush().unwrap();
    world.check();
    world.cache.flush(&TIP, || Ok(())).unwrap();
    world.check();
    assert!(flushes > 100, "{flushes}");
}

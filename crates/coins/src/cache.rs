//! The coins cache: what has changed since the last flush, and what was read lately.
//!
//! | entry | dirty | fresh | the store |
//! |---|---|---|---|
//! | coin | no | no | has the same coin |
//! | coin | yes | yes | has nothing under this outpoint |
//! | coin | yes | no | may have anything: an older coin, or nothing |
//! | spent | yes | no | has the coin, or may have it |
//!
//! A fresh coin that is spent is dropped, and the store never hears of it. The cache has one writer and changes nothing in the
//! store but by [`CoinsCache::flush`].

use crate::merged::Merged;
use crate::store::{Change, CoinIterator, CoinStore, StoreError, Tip};
use blockmill_block::{Coin, OutPoint, coin};
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An outpoint's state. Dropping to `None` in the map means: ask the store.
#[derive(Debug, Clone)]
struct Entry {
    coin: Option<Coin>,
    dirty: bool,
    fresh: bool,
}

/// What may already stand under an outpoint that gets a coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing: the caller has made sure of that.
    Impossible,
    /// An unspent coin, which is then replaced.
    Possible,
}

/// How often the cache had what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Look-ups that the cache answered.
    pub hits: u64,
    /// Look-ups that went to the store.
    pub misses: u64,
}

/// Bytes that an entry takes in the map: key, value and a byte of its own; a map keeps an eighth of its room free at least.
const ENTRY_BYTES: usize = size_of::<(OutPoint, Entry)>() + 1;

/// Bytes that the allocator takes for a script: sixteen of bookkeeping and rounding at most.
fn script_bytes(coin: &Coin) -> usize {
    match coin.script_pubkey.len() {
        0 => 0,
        length => length.next_multiple_of(16) + 16,
    }
}

/// A cache over a store.
pub struct CoinsCache {
    store: Arc<dyn CoinStore>,
    map: HashMap<OutPoint, Entry>,
    script_bytes: usize,
    dirty: usize,
    counters: CacheCounters,
    store_time: Duration,
}

impl CoinsCache {
    /// An empty cache over `store`.
    pub fn new(store: Arc<dyn CoinStore>) -> Self {
        Self {
            store,
            map: HashMap::new(),
            script_bytes: 0,
            dirty: 0,
            counters: CacheCounters::default(),
            store_time: Duration::ZERO,
        }
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn CoinStore> {
        &self.store
    }

    /// Entries, spent ones included.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Entries that the next flush writes.
    pub fn dirty_len(&self) -> usize {
        self.dirty
    }

    /// Memory in bytes, the map's spare room included.
    pub fn bytes(&self) -> usize {
        // hashbrown holds a power of two of buckets, of which seven eighths are its capacity.
        self.map.capacity() / 7 * 8 * ENTRY_BYTES + self.script_bytes
    }

    /// Hits and misses so far.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Time spent on reads from the store so far.
    pub fn store_time(&self) -> Duration {
        self.store_time
    }

    /// Reads an outpoint's coin into the cache if it is not there.
    fn load(&mut self, outpoint: &OutPoint) -> Result<Option<&mut Entry>, StoreError> {
        match self.map.entry(*outpoint) {
            MapEntry::Occupied(occupied) => {
                self.counters.hits += 1;
                Ok(Some(occupied.into_mut()))
            }
            MapEntry::Vacant(vacant) => {
                self.counters.misses += 1;
                let start = Instant::now();
                let found = self.store.get(outpoint);
                self.store_time += start.elapsed();
                let Some(coin) = found? else {
                    return Ok(None);
                };
                self.script_bytes += script_bytes(&coin);
                Ok(Some(vacant.insert(Entry {
                    coin: Some(coin),
                    dirty: false,
                    fresh: false,
                })))
            }
        }
    }

    /// The coin of an outpoint, if it is unspent.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&mut self, outpoint: &OutPoint) -> Result<Option<&Coin>, StoreError> {
        Ok(self.load(outpoint)?.and_then(|entry| entry.coin.as_ref()))
    }

    /// Whether an outpoint has an unspent coin. This is for outpoints that hardly ever have one: it does not count as a
    /// hit or a miss, and nothing is kept of what the store says.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn contains(&mut self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        if let Some(entry) = self.map.get(outpoint) {
            return Ok(entry.coin.is_some());
        }
        let start = Instant::now();
        let found = self.store.get(outpoint);
        self.store_time += start.elapsed();
        Ok(found?.is_some())
    }

    /// Takes the coin of an outpoint, if it is unspent.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn spend(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let Some(entry) = self.load(outpoint)? else {
            return Ok(None);
        };
        let Some(coin) = entry.coin.take() else {
            return Ok(None);
        };
        let (was_dirty, fresh) = (entry.dirty, entry.fresh);
        entry.dirty = true;
        if fresh {
            self.map.remove(outpoint);
        }
        self.script_bytes -= script_bytes(&coin);
        self.dirty += usize::from(!was_dirty && !fresh);
        self.dirty -= usize::from(was_dirty && fresh);
        Ok(Some(coin))
    }

    /// Puts a coin in. An output that can never be spent is left out.
    pub fn add(&mut self, outpoint: OutPoint, coin: Coin, overwrite: Overwrite) {
        if coin::is_unspendable(&coin.script_pubkey) {
            return;
        }
        self.script_bytes += script_bytes(&coin);
        match self.map.entry(outpoint) {
            MapEntry::Occupied(mut occupied) => {
                let entry = occupied.get_mut();
                if let Some(old) = entry.coin.replace(coin) {
                    self.script_bytes -= script_bytes(&old);
                }
                // What is spent here may still stand in the store, so this coin is not fresh unless it was.
                self.dirty += usize::from(!entry.dirty);
                entry.dirty = true;
            }
            MapEntry::Vacant(vacant) => {
                vacant.insert(Entry {
                    coin: Some(coin),
                    dirty: true,
                    fresh: overwrite == Overwrite::Impossible,
                });
                self.dirty += 1;
            }
        }
    }

    /// Writes all changes with the tip that they lead to. Afterwards the cache keeps its coins if `keep` says so (they are
    /// then what the store has), or is empty and gives its memory back.
    ///
    /// # Errors
    /// [`StoreError::Backend`]; the cache then has the same coins, and takes none for fresh: who knows what the store has got.
    pub fn flush(&mut self, tip: &Tip, keep: bool) -> Result<(), StoreError> {
        let mut changes: Vec<Change<'_>> = self
            .map
            .iter()
            .filter(|(_, entry)| entry.dirty)
            .map(|(outpoint, entry)| (*outpoint, entry.coin.as_ref()))
            .collect();
        changes.sort_unstable_by_key(|change| change.0);
        if let Err(error) = self.store.commit(&changes, tip) {
            drop(changes);
            self.map.values_mut().for_each(|entry| entry.fresh = false);
            return Err(error);
        }
        if keep {
            self.map.retain(|_, entry| {
                entry.dirty = false;
                entry.fresh = false;
                entry.coin.is_some()
            });
        } else {
            self.map = HashMap::new();
            self.script_bytes = 0;
        }
        self.dirty = 0;
        Ok(())
    }

    /// All unspent coins, of cache and store together, in the order of their keys.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn coins(&self) -> Result<CoinIterator, StoreError> {
        let mut changes: Vec<(OutPoint, Option<Coin>)> = self
            .map
            .iter()
            .filter(|(_, entry)| entry.dirty)
            .map(|(outpoint, entry)| (*outpoint, entry.coin.clone()))
            .collect();
        changes.sort_unstable_by_key(|change| change.0);
        Ok(Box::new(Merged::new(changes.into_iter(), self.store.coins()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use blockmill_block::{BlockHash, Txid};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const TIP: Tip = Tip {
        hash: BlockHash([3; 32]),
        height: 3,
    };

    fn outpoint(number: u8) -> OutPoint {
        OutPoint {
            txid: Txid([number / 4; 32]),
            vout: u32::from(number % 4),
        }
    }

    fn coin(value: i64) -> Coin {
        Coin {
            value,
            height: 1,
            is_coinbase: false,
            script_pubkey: vec![0x51; value as usize % 40].into(),
        }
    }

    fn cache() -> CoinsCache {
        CoinsCache::new(Arc::new(MemoryStore::new()))
    }

    fn stored(cache: &CoinsCache, number: u8) -> bool {
        cache.store().get(&outpoint(number)).unwrap().is_some()
    }

    #[test]
    fn a_fresh_coin_that_is_spent_is_never_written() {
        let mut cache = cache();
        cache.add(outpoint(1), coin(5), Overwrite::Impossible);
        assert_eq!(cache.dirty_len(), 1);
        assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
        assert_eq!((cache.len(), cache.dirty_len()), (0, 0));
        assert_eq!(cache.spend(&outpoint(1)).unwrap(), None);
    }

    #[test]
    fn a_coin_that_may_overwrite_leaves_a_marker() {
        let mut cache = cache();
        cache.add(outpoint(1), coin(5), Overwrite::Possible);
        cache.flush(&TIP, false).unwrap();
        assert!(stored(&cache, 1));
        // Made again under the same outpoint, and spent: the older coin in the store must go too.
        cache.add(outpoint(1), coin(6), Overwrite::Possible);
        assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(6)));
        assert_eq!((cache.len(), cache.dirty_len()), (1, 1));
        assert_eq!(cache.get(&outpoint(1)).unwrap(), None);
        cache.flush(&TIP, true).unwrap();
        assert!(!stored(&cache, 1));
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_coin_restored_over_its_marker_is_not_fresh() {
        let mut cache = cache();
        cache.add(outpoint(1), coin(5), Overwrite::Impossible);
        cache.flush(&TIP, true).unwrap();
        cache.spend(&outpoint(1)).unwrap();
        cache.add(outpoint(1), coin(5), Overwrite::Impossible);
        cache.spend(&outpoint(1)).unwrap();
        cache.flush(&TIP, true).unwrap();
        assert!(!stored(&cache, 1));
    }

    #[test]
    fn unspendable_outputs_stay_out() {
        let mut cache = cache();
        let unspendable = Coin {
            script_pubkey: [0x6a].into(),
            ..coin(5)
        };
        cache.add(outpoint(1), unspendable, Overwrite::Impossible);
        assert!(cache.is_empty());
    }

    #[test]
    fn memory_is_counted_and_given_back() {
        let mut cache = cache();
        for number in 0..200 {
            cache.add(outpoint(number), coin(i64::from(number)), Overwrite::Impossible);
        }
        let full = cache.bytes();
        assert!(full > 200 * ENTRY_BYTES);
        for number in 0..200 {
            cache.spend(&outpoint(number)).unwrap();
        }
        assert_eq!(cache.script_bytes, 0);
        cache.flush(&TIP, false).unwrap();
        assert_eq!(cache.bytes(), 0);
    }

    /// A store that keeps what it is given and says that it failed.
    struct SaysItFailed(MemoryStore);

    impl CoinStore for SaysItFailed {
        fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
            self.0.get(outpoint)
        }

        fn tip(&self) -> Result<Option<Tip>, StoreError> {
            self.0.tip()
        }

        fn commit(&self, changes: &[Change<'_>], tip: &Tip) -> Result<(), StoreError> {
            let first = self.0.tip()?.is_none();
            self.0.commit(changes, tip)?;
            if first {
                return Err(StoreError::Backend("said to have failed".to_owned()));
            }
            Ok(())
        }

        fn coins(&self) -> Result<CoinIterator, StoreError> {
            self.0.coins()
        }

        fn disk_size(&self) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    #[test]
    fn after_a_failed_flush_no_coin_rises_from_the_dead() {
        let mut cache = CoinsCache::new(Arc::new(SaysItFailed(MemoryStore::new())));
        cache.add(outpoint(1), coin(5), Overwrite::Impossible);
        assert!(cache.flush(&TIP, true).is_err());
        assert_eq!(cache.spend(&outpoint(1)).unwrap(), Some(coin(5)));
        cache.flush(&TIP, true).unwrap();
        assert!(!stored(&cache, 1));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(u8, i64, bool),
        Spend(u8),
        Get(u8),
        Contains(u8),
        Flush(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..24, 0i64..1000, any::<bool>()).prop_map(|(n, value, over)| Step::Add(n, value, over)),
            4 => (0u8..24).prop_map(Step::Spend),
            2 => (0u8..24).prop_map(Step::Get),
            1 => (0u8..24).prop_map(Step::Contains),
            1 => any::<bool>().prop_map(Step::Flush),
        ]
    }

    proptest! {
        /// Whatever happens, cache and store together are a plain map.
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec(step(), 0..120)) {
            let mut cache = cache();
            let mut model: BTreeMap<OutPoint, Coin> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Add(number, value, over) => {
                        let outpoint = outpoint(number);
                        let overwrite = if over || model.contains_key(&outpoint) {
                            Overwrite::Possible
                        } else {
                            Overwrite::Impossible
                        };
                        cache.add(outpoint, coin(value), overwrite);
                        model.insert(outpoint, coin(value));
                    }
                    Step::Spend(number) => {
                        prop_assert_eq!(cache.spend(&outpoint(number)).unwrap(), model.remove(&outpoint(number)));
                    }
                    Step::Get(number) => {
                        prop_assert_eq!(cache.get(&outpoint(number)).unwrap(), model.get(&outpoint(number)));
                    }
                    Step::Contains(number) => {
                        let outpoint = outpoint(number);
                        prop_assert_eq!(cache.contains(&outpoint).unwrap(), model.contains_key(&outpoint));
                    }
                    Step::Flush(keep) => {
                        cache.flush(&TIP, keep).unwrap();
                        let stored: Vec<_> = cache.store().coins().unwrap().map(Result::unwrap).collect();
                        prop_assert_eq!(stored, model.clone().into_iter().collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(cache.dirty, cache.map.values().filter(|entry| entry.dirty).count());
                let merged: Vec<_> = cache.coins().unwrap().map(Result::unwrap).collect();
                prop_assert_eq!(merged, model.clone().into_iter().collect::<Vec<_>>());
            }
        }
    }
}

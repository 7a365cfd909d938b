//! A store in memory, for tests and for sets that need not be kept.

use crate::store::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use blockmill_block::{Coin, OutPoint};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Coins in a sorted map.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    coins: BTreeMap<OutPoint, Coin>,
    tip: Option<Tip>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl CoinStore for MemoryStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.coins.get(outpoint).cloned())
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        Ok(self.state.read().unwrap_or_else(PoisonError::into_inner).tip)
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        changes.visit_all(&mut |change| {
            match change.coin {
                Some(coin) => state.coins.insert(change.outpoint, coin.to_coin()),
                None => state.coins.remove(&change.outpoint),
            };
        });
        state.tip = Some(*tip);
        Ok(())
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        // Outpoints sort as their keys do: by the bytes of the id, then by the index.
        Ok(Box::new(state.coins.clone().into_iter().map(Ok)))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

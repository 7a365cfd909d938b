//! A store whose commits wait at a gate, whose batched reads may be held back, and whose failures
//! are chosen by the target.

use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{Before, Changes, CoinIterator, CoinStore, MemoryStore, OwnedChange, StoreError, Tip};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// How commits end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All is written.
    Well,
    /// Nothing is written, and the store says so.
    Failing,
    /// All is written, and the store says that it failed.
    Lying,
}

#[derive(Debug)]
struct Gate {
    open: bool,
    ending: Ending,
}

/// A store in memory with a gate before it.
#[derive(Debug)]
pub struct GatedStore {
    inner: MemoryStore,
    gate: Mutex<Gate>,
    changed: Condvar,
    fails_reads: AtomicBool,
    /// Whether batched reads wait before they return, except on the thread that made the store.
    holds_reads: Mutex<bool>,
    released: Condvar,
    maker: ThreadId,
}

impl Default for GatedStore {
    fn default() -> Self {
        Self {
            inner: MemoryStore::new(),
            gate: Mutex::new(Gate {
                open: true,
                ending: Ending::Well,
            }),
            changed: Condvar::new(),
            fails_reads: AtomicBool::new(false),
            holds_reads: Mutex::new(false),
            released: Condvar::new(),
            maker: std::thread::current().id(),
        }
    }
}

impl GatedStore {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate: commits from now on wait there, and end as `ending` says.
    pub fn close(&self, ending: Ending) {
        *self.gate() = Gate { open: false, ending };
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.gate().open = true;
        self.changed.notify_all();
    }

    /// Opens the gate; commits end as `ending` says.
    pub fn open_for(&self, ending: Ending) {
        *self.gate() = Gate { open: true, ending };
        self.changed.notify_all();
    }

    /// Holds batched reads: from now on they wait before they return, except on the thread that
    /// made the store.
    pub fn hold_reads(&self) {
        *self.holds_reads.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Lets all held reads return.
    pub fn release_reads(&self) {
        *self.holds_reads.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.released.notify_all();
    }

    /// Sets whether reads fail from now on.
    pub fn fail_reads(&self, fails: bool) {
        self.fails_reads.store(fails, Ordering::Relaxed);
    }
}

fn fault() -> StoreError {
    StoreError::Backend("a fault of the fuzz target".to_owned())
}

impl CoinStore for GatedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        if self.fails_reads.load(Ordering::Relaxed) {
            return Err(fault());
        }
        self.inner.get(outpoint)
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        for outpoint in outpoints {
            coins.push(self.get(outpoint)?);
        }
        if std::thread::current().id() != self.maker {
            let held = self.holds_reads.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.released.wait_while(held, |held| *held));
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.inner.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut list: Vec<OwnedChange> = Vec::new();
        let mut is_known = true;
        changes.visit_all(&mut |change| {
            let stored = matches!(self.inner.get(&change.outpoint), Ok(Some(_)));
            is_known &= match change.before {
                Before::Coin => stored,
                Before::Nothing => !stored,
                Before::Unknown => true,
            };
            list.push((change.outpoint, change.coin.map(|coin| coin.to_coin())));
        });
        assert!(is_known, "the cache is wrong about the store");
        assert!(list.is_sorted_by(|one, other| one.0 < other.0), "changes out of order");
        let gate = self.changed.wait_while(self.gate(), |gate| !gate.open);
        let ending = gate.unwrap_or_else(PoisonError::into_inner).ending;
        if ending != Ending::Failing {
            self.inner.commit(&list, tip)?;
        }
        if ending == Ending::Well { Ok(()) } else { Err(fault()) }
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.inner.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

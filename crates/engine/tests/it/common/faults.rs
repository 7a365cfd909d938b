//! A store whose calls fail when a test says so, and an observer that ends a run as a kill would.

use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{Changes, CoinIterator, CoinStore, MemoryStore, OwnedChange, StoreError, Tip};
use blockmill_engine::{Event, Observer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A store in memory that counts its calls, and fails in one of them.
#[derive(Default)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    commits: AtomicU64,
    gets: AtomicU64,
    /// The number of the commit that fails, and of the get; 0 for none.
    failing_commit: AtomicU64,
    failing_get: AtomicU64,
    /// Whether all gets after that one fail, too.
    is_for_good: AtomicBool,
}

impl FaultyStore {
    /// A store with the coins and the tip of another.
    pub(crate) fn copy_of(other: &Self) -> Self {
        let copy = Self::default();
        if let Some(tip) = other.tip().unwrap() {
            let coins = other.coins().unwrap().map(Result::unwrap);
            let changes: Vec<OwnedChange> = coins.map(|(outpoint, coin)| (outpoint, Some(coin))).collect();
            copy.inner.commit(&changes, &tip).unwrap();
        }
        copy
    }

    /// Commits and gets so far, those that failed included.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.gets.load(Ordering::Relaxed))
    }

    pub(crate) fn fail_at_commit(&self, number: u64) {
        self.failing_commit.store(number, Ordering::Relaxed);
    }

    pub(crate) fn fail_at_get(&self, number: u64) {
        self.failing_get.store(number, Ordering::Relaxed);
    }

    /// Fails at this get and at all after it.
    pub(crate) fn fail_from_get(&self, number: u64) {
        self.fail_at_get(number);
        self.is_for_good.store(true, Ordering::Relaxed);
    }

    /// Whether the call that is to fail was made.
    pub(crate) fn has_failed(&self) -> bool {
        let (commits, gets) = self.counts();
        let has = |failing: &AtomicU64, calls| (1..=calls).contains(&failing.load(Ordering::Relaxed));
        has(&self.failing_commit, commits) || has(&self.failing_get, gets)
    }

    /// All gets succeed from here on.
    pub(crate) fn mend_gets(&self) {
        self.fail_at_get(0);
        self.is_for_good.store(false, Ordering::Relaxed);
    }
}

/// Counts a call, and fails if it is the one that is to fail, or one after it.
fn count(calls: &AtomicU64, failing: &AtomicU64, is_for_good: bool) -> Result<(), StoreError> {
    let (number, failing) = (
        calls.fetch_add(1, Ordering::Relaxed) + 1,
        failing.load(Ordering::Relaxed),
    );
    if number == failing || (is_for_good && number > failing) {
        return Err(StoreError::Backend("a fault of the test".to_owned()));
    }
    Ok(())
}

impl CoinStore for FaultyStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        count(&self.gets, &self.failing_get, self.is_for_good.load(Ordering::Relaxed))?;
        self.inner.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.inner.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        count(&self.commits, &self.failing_commit, false)?;
        self.inner.commit(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.inner.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.inner.disk_size()
    }
}

/// Unwinds out of the engine once a block at this height is connected. A test then drops the engine
/// without a flush.
pub(crate) struct KillAt(pub(crate) u32);

impl Observer for KillAt {
    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Progress(progress) if progress.height == self.0) {
            // No panic, so that nothing is printed.
            std::panic::resume_unwind(Box::new("killed"));
        }
    }
}

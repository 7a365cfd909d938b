//! The state machine of an entry: what becomes of the coin of an outpoint when it is read, created,
//! spent or taken back.
//!
//! The head of [`cache`](super) has the states and the rules.

use super::log::{CreatedOver, EntryLog, SpentFrom};
use super::shard::CacheShard;
use super::{DIRTY, FRESH, Overwrite, STORED, USED};
use crate::flush_epoch::FlushEpoch;
use crate::store::StoreError;
use blockmill_block::{Coin, coin};
use blockmill_coinmap::{CoinRef, EntryFlags, HashedOutPoint, Update};
use std::time::Instant;

/// What is known of an outpoint for which a coin is to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MustBeNew {
    /// The coin may be there already, by the rules of its block.
    No,
    /// No unspent coin may be there (BIP 30). At this epoch the store had none, if that was seen.
    Yes(Option<FlushEpoch>),
}

impl CacheShard<'_> {
    /// What the frozen entries know of an outpoint: no entry, `Some(None)` if spent, or the coin.
    pub(super) fn frozen_coin(&self, at: &HashedOutPoint) -> Option<Option<Coin>> {
        #[cfg(test)]
        if self.below.disabled == Some(super::Rule::Frozen) {
            return None;
        }
        self.frozen.as_ref()?.with(at, |entry| entry.map(|entry| entry.coin()))
    }

    fn read_store(&self, at: &HashedOutPoint, log: &mut EntryLog) -> Result<Option<Coin>, StoreError> {
        if self.below.complete {
            return Ok(None);
        }
        let start = Instant::now();
        let found = self.below.store.get(at.outpoint());
        log.store_time += start.elapsed();
        found
    }

    /// Reads a coin that was counted as a hit before it was looked for.
    fn read_missed(&self, at: &HashedOutPoint, log: &mut EntryLog) -> Result<Option<Coin>, StoreError> {
        log.counters.hits -= 1;
        log.counters.misses += 1;
        self.read_store(at, log)
    }

    /// The coin of an outpoint; none if it is spent or never existed. A coin that was read from the
    /// store stays as an entry.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&mut self, at: &HashedOutPoint, log: &mut EntryLog) -> Result<Option<Coin>, StoreError> {
        let live = self
            .live
            .update(at, |entry| match entry.map(|entry| (entry.flags(), entry.coin())) {
                None => (Update::Keep, None),
                Some((_, None)) => (Update::Keep, Some(None)),
                Some((flags, coin)) => (Update::SetFlags(flags.with(USED)), Some(coin)),
            });
        // If the store is asked, `read_missed` takes the hit back.
        log.counters.hits += 1;
        if let Some(known) = live {
            return Ok(known);
        }
        if let Some(known) = self.frozen_coin(at) {
            return Ok(known);
        }
        let found = self.read_missed(at, log)?;
        if let Some(coin) = &found {
            self.insert_if_absent(at, coin);
        }
        Ok(found)
    }

    /// Inserts a coin that the store has. Returns false if there is a live entry.
    pub(super) fn insert_if_absent(&mut self, at: &HashedOutPoint, coin: &Coin) -> bool {
        self.live.update(at, |entry| match entry {
            None => (Update::Put(USED, Some(CoinRef::from(coin))), true),
            // A coin that was read from the store never replaces an entry.
            Some(_) => (Update::Keep, false),
        })
    }

    /// Whether an outpoint has an unspent coin. See [`CoinsCache::contains`].
    ///
    /// [`CoinsCache::contains`]: super::CoinsCache::contains
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn contains(
        &self,
        at: &HashedOutPoint,
        absent_at: Option<FlushEpoch>,
        log: &mut EntryLog,
    ) -> Result<bool, StoreError> {
        match self.live.with(at, |entry| entry.map(|entry| !entry.is_spent())) {
            Some(is_unspent) => Ok(is_unspent),
            None => self.contains_below(at, absent_at, log),
        }
    }

    /// Whether there is an unspent coin below the live entries.
    #[inline]
    fn contains_below(
        &self,
        at: &HashedOutPoint,
        absent_at: Option<FlushEpoch>,
        log: &mut EntryLog,
    ) -> Result<bool, StoreError> {
        if let Some(known) = self.frozen_coin(at) {
            return Ok(known.is_some());
        }
        #[cfg(test)]
        if self.below.disabled == Some(super::Rule::Epochs) && absent_at.is_some() {
            return Ok(false);
        }
        // After the look at the frozen entries: see the rule of resurrection.
        if self.below.complete || absent_at == Some(self.below.clock.now()) {
            return Ok(false);
        }
        Ok(self.read_store(at, log)?.is_some())
    }

    /// Whether a coin can be created and spent at this outpoint without an entry. False if that is
    /// not certain.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn is_free(&self, at: &HashedOutPoint, must_be_new: MustBeNew, log: &mut EntryLog) -> Result<bool, StoreError> {
        match must_be_new {
            MustBeNew::No => Ok(true),
            MustBeNew::Yes(absent_at) => Ok(!self.contains(at, absent_at, log)?),
        }
    }

    /// Spends the coin of an outpoint and appends it to the coins of the log. Returns false if it
    /// is spent or never existed.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn spend(&mut self, at: &HashedOutPoint, log: &mut EntryLog) -> Result<bool, StoreError> {
        let EntryLog {
            spent,
            spent_from,
            dirty,
            ..
        } = log;
        let live = self.live.update(at, |entry| {
            let Some(entry) = entry else {
                return (Update::Keep, None);
            };
            if !entry.append_to(spent) {
                return (Update::Keep, Some(false));
            }
            let flags = entry.flags();
            spent_from.push(SpentFrom::Live(flags));
            let was_dirty = isize::from(flags.has(DIRTY));
            if flags.has(FRESH) {
                // The store never sees the coin.
                *dirty -= was_dirty;
                (Update::Remove, Some(true))
            } else {
                *dirty += 1 - was_dirty;
                (Update::Put(dirty_after(flags), None), Some(true))
            }
        });
        log.counters.hits += 1;
        match live {
            Some(was_unspent) => Ok(was_unspent),
            None => self.spend_below(at, log),
        }
    }

    /// Spends a coin that the live entries do not have.
    fn spend_below(&mut self, at: &HashedOutPoint, log: &mut EntryLog) -> Result<bool, StoreError> {
        let known = match self.frozen_coin(at) {
            Some(known) => known,
            None => self.read_missed(at, log)?,
        };
        let Some(coin) = known else {
            return Ok(false);
        };
        log.spent.push(CoinRef::from(&coin));
        log.spent_from.push(SpentFrom::Below);
        #[cfg(test)]
        if self.needs_no_marker(at) {
            return Ok(true);
        }
        // A marker, fresh or not: the batch of a flush may bring the coin into the store.
        //
        // The flush may have promoted the coin in between. It is the same coin, and not dirty. The
        // store has it, or gets it with the batch of the flush.
        self.live.update(at, |_| (Update::Put(DIRTY.with(STORED), None), ()));
        log.dirty += 1;
        Ok(true)
    }

    /// Whether a coin from below the flush point is fresh, and the rule is disabled by which it
    /// leaves a marker all the same.
    #[cfg(test)]
    fn needs_no_marker(&self, at: &HashedOutPoint) -> bool {
        let frozen = self.frozen.as_ref();
        self.below.disabled == Some(super::Rule::FreshAcrossFlushPoint)
            && frozen.is_some_and(|frozen| frozen.with(at, |entry| entry.is_some_and(|entry| entry.flags().has(FRESH))))
    }

    /// Creates a coin, instead of the coin that may be there. An output that can never be spent is
    /// left out.
    #[inline]
    pub fn add(&mut self, at: &HashedOutPoint, coin: CoinRef<'_>, overwrite: Overwrite, log: &mut EntryLog) {
        if !coin::is_unspendable(coin.script_pubkey) {
            self.put(at, coin, overwrite, true, log);
        }
    }

    /// Creates a coin. Returns false and changes nothing if a coin is there that must not be, or
    /// if there is a live one, which is never replaced.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn create(
        &mut self,
        at: &HashedOutPoint,
        coin: CoinRef<'_>,
        overwrite: Overwrite,
        must_be_new: MustBeNew,
        log: &mut EntryLog,
    ) -> Result<bool, StoreError> {
        if let MustBeNew::Yes(absent_at) = must_be_new {
            let below = self.contains_below(at, absent_at, log);
            // A marker says that what lies below is spent, whatever it is.
            if !matches!(below, Ok(false)) && !self.live.with(at, |entry| entry.is_some_and(|entry| entry.is_spent())) {
                return below.map(|_| false);
            }
        }
        Ok(self.put(at, coin, overwrite, false, log))
    }

    /// Puts a coin. Returns false, with nothing done, if there is a live coin that `replaces` says
    /// to keep.
    #[inline]
    fn put(
        &mut self,
        at: &HashedOutPoint,
        coin: CoinRef<'_>,
        overwrite: Overwrite,
        replaces: bool,
        log: &mut EntryLog,
    ) -> bool {
        let EntryLog {
            created,
            created_over,
            dirty,
            ..
        } = log;
        self.live.update(at, |entry| {
            let Some(entry) = entry else {
                *dirty += 1;
                *created += 1;
                let flags = match overwrite {
                    Overwrite::Impossible => DIRTY.with(FRESH),
                    Overwrite::Possible => DIRTY,
                };
                return (Update::Put(flags, Some(coin)), true);
            };
            if !replaces && !entry.is_spent() {
                return (Update::Keep, false);
            }
            let flags = entry.flags();
            *dirty += isize::from(!flags.has(DIRTY));
            created_over.push(CreatedOver {
                number: *created,
                flags,
                coin: entry.coin(),
            });
            *created += 1;
            // The store may still have the coin that is spent here. So the new coin is fresh only
            // if the old entry was.
            (Update::Put(dirty_after(flags), Some(coin)), true)
        })
    }

    /// Takes back the last spending that has not been taken back, which was of this outpoint.
    ///
    /// # Panics
    /// If `number` is not that of a coin of the log.
    pub fn take_back_spend(&mut self, at: &HashedOutPoint, number: usize, log: &mut EntryLog) {
        let coin = log.spent.coins().at(number);
        match log.spent_from[number] {
            SpentFrom::Live(flags) => {
                #[cfg(test)]
                let flags = match self.below.disabled {
                    Some(super::Rule::FlagsTakenBack) => flags.without(FRESH).without(STORED),
                    _ => flags,
                };
                let was_dirty = isize::from(flags.has(DIRTY));
                // The marker, which was dirty, goes. A fresh coin has left none.
                log.dirty += if flags.has(FRESH) { was_dirty } else { was_dirty - 1 };
                self.live.update(at, |_| (Update::Put(flags, Some(coin)), ()));
            }
            // The coin is below still: frozen, or in the store if the flush has promoted it.
            SpentFrom::Below => {
                log.dirty -= 1;
                self.live.update(at, |_| (Update::Remove, ()));
            }
            // It never was an entry.
            SpentFrom::Elsewhere => {}
        }
    }

    /// Takes back the last creation of a coin that has not been taken back, which was of this
    /// outpoint.
    ///
    /// # Panics
    /// If all are taken back.
    pub fn take_back_create(&mut self, at: &HashedOutPoint, log: &mut EntryLog) {
        assert!(log.created > 0, "every coin that was created is taken back");
        log.created -= 1;
        let before = log.created_over.pop_if(|over| over.number == log.created);
        #[cfg(test)]
        let before = before.filter(|_| self.below.disabled != Some(super::Rule::MarkersTakenBack));
        log.dirty -= isize::from(before.as_ref().is_none_or(|over| !over.flags.has(DIRTY)));
        let restored = match &before {
            None => Update::Remove,
            Some(over) => Update::Put(over.flags, over.coin.as_ref().map(CoinRef::from)),
        };
        self.live.update(at, |_| (restored, ()));
    }
}

/// The flags of a dirty entry that replaces one with these flags: they say the same of the store.
fn dirty_after(before: EntryFlags) -> EntryFlags {
    if before.has(DIRTY) {
        // The new coin was not asked for.
        before.without(USED)
    } else {
        // An entry that is not dirty is the store's own coin.
        DIRTY.with(STORED)
    }
}

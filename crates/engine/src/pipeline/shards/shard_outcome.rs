//! What one shard does with its events of a window.

#[cfg(test)]
use super::Fault;
use super::overlapped::{Overlapped, Stages, TOGETHER};
use super::{Room, WindowBlock};
use crate::pipeline::outline::{Create, Spend};
use blockmill_coins::{CacheShard, CacheShards, EntryLog, HashedOutPoint, MustBeNew, Overwrite, StoreError};

/// A coin that a shard creates in the window.
#[derive(Debug, Clone, Copy)]
struct Created {
    hash: u64,
    /// Number of its block in the window.
    block: u32,
    /// Number among those that the block creates in the shard.
    number: u32,
    is_spent: bool,
}

/// What a shard has done.
#[derive(Debug)]
pub(super) struct ShardOutcome {
    pub(super) shard: usize,
    /// Something is not certain.
    pub(super) is_odd: bool,
    /// Why the store could not be read, if that is it.
    pub(super) failure: Option<StoreError>,
    /// With all coins that the window spends in the shard, in the order of the chain.
    pub(super) log: EntryLog,
    /// Where those of each block begin.
    pub(super) starts: Vec<usize>,
    /// All coins that the window creates in the shard, in the order of the chain.
    created: Vec<Created>,
    /// How many of them were inserted into the cache, or need not be.
    inserted: usize,
    #[cfg(test)]
    pub(super) fault: Option<Fault>,
}

/// The coins that are created in a window, by their hashes: numbers from 1.
struct Table {
    slots: Vec<u32>,
    mask: usize,
}

impl Table {
    /// At most half of it is used.
    fn new(coins: usize) -> Self {
        // One slot at least: a search ends at an empty slot.
        let slots = (2 * coins).next_power_of_two();
        Self {
            slots: vec![0; slots],
            mask: slots - 1,
        }
    }
}

/// The blocks of a window that have events in a shard, with their numbers.
fn blocks_in<'a, 'w>(
    shard: usize,
    window: &'a [WindowBlock<'w>],
) -> impl Iterator<Item = (u32, &'a WindowBlock<'w>)> + Clone {
    (0..).zip(window).filter(move |(_, of)| of.outline.has_events_in(shard))
}

impl ShardOutcome {
    pub(super) fn new(shard: usize) -> Self {
        Self {
            shard,
            is_odd: false,
            failure: None,
            log: EntryLog::default(),
            starts: Vec::new(),
            created: Vec::new(),
            inserted: 0,
            #[cfg(test)]
            fault: None,
        }
    }

    /// The event that creates a coin of the window.
    #[inline]
    fn create<'w>(&self, created: &Created, window: &[WindowBlock<'w>]) -> &'w Create {
        &window[created.block as usize].outline.creates(self.shard)[created.number as usize]
    }

    /// Starts loading the script of a coin of the window.
    #[inline]
    fn prefetch_script(&self, created: &Created, window: &[WindowBlock<'_>]) {
        self.create(created, window)
            .prefetch_script(window[created.block as usize].block);
    }

    /// The slot of an outpoint, empty or not.
    #[inline]
    fn slot(&self, table: &Table, at: &HashedOutPoint, window: &[WindowBlock<'_>]) -> usize {
        let mut slot = at.hash() as usize & table.mask;
        loop {
            match table.slots[slot]
                .checked_sub(1)
                .map(|number| &self.created[number as usize])
            {
                None => return slot,
                Some(created) if created.hash == at.hash() && self.create(created, window).at == *at => return slot,
                Some(_) => slot = (slot + 1) & table.mask,
            }
        }
    }

    pub(super) fn run(&mut self, shards: &CacheShards<'_>, window: &[WindowBlock<'_>], room: &Room) {
        match self.try_run(shards, window, room) {
            Ok(is_certain) => self.is_odd = !is_certain,
            Err(error) => (self.is_odd, self.failure) = (true, Some(error)),
        }
    }

    /// Returns false if something is odd.
    fn try_run(
        &mut self,
        shards: &CacheShards<'_>,
        window: &[WindowBlock<'_>],
        room: &Room,
    ) -> Result<bool, StoreError> {
        let Some(table) = self.tabulate(window) else {
            return Ok(false);
        };
        // Locked after the table is there: until now only this thread's memory was used.
        let mut shard = shards.lock(self.shard);
        Ok(self.spend(&mut shard, &table, window, room)? && self.insert_created(&mut shard, window)?)
    }

    /// Puts all coins of the window into a table. None if an outpoint is created twice.
    fn tabulate(&mut self, window: &[WindowBlock<'_>]) -> Option<Table> {
        let blocks = blocks_in(self.shard, window);
        let count = blocks.clone().map(|(_, of)| of.outline.creates(self.shard).len()).sum();
        let mut table = Table::new(count);
        self.created.reserve_exact(count);
        for (block, of) in blocks {
            for (number, create) in (0..).zip(of.outline.creates(self.shard)) {
                let slot = self.slot(&table, &create.at, window);
                // `judge` knows what holds for an outpoint that is created twice.
                if table.slots[slot] != 0 {
                    return None;
                }
                self.created.push(Created {
                    hash: create.at.hash(),
                    block,
                    number,
                    is_spent: false,
                });
                table.slots[slot] = self.created.len() as u32;
            }
        }
        Some(table)
    }

    /// Spends what the window spends. Searches overlap: while some coins are spent, the records of
    /// the next are loaded, and the index words of those after them.
    fn spend(
        &mut self,
        shard: &mut CacheShard<'_>,
        table: &Table,
        window: &[WindowBlock<'_>],
        room: &Room,
    ) -> Result<bool, StoreError> {
        let blocks = blocks_in(self.shard, window);
        let count = blocks.clone().map(|(_, of)| of.outline.spends(self.shard).len()).sum();
        let mut spends: Vec<(u32, &Spend)> = Vec::with_capacity(count);
        self.log.reserve(count);
        self.starts.reserve_exact(window.len() + 1);
        for (number, of) in blocks {
            spends.extend(of.outline.spends(self.shard).iter().map(|spend| (number, spend)));
        }
        // For each spend the coin of the window that it spends, as the table has it.
        let mut created = vec![0; spends.len()];
        for Stages { found, loaded, done } in Overlapped::new(&spends) {
            for ((_, spend), created) in spends[found.clone()].iter().zip(&mut created[found]) {
                *created = table.slots[self.slot(table, &spend.at, window)];
                if *created == 0 {
                    shard.prefetch_word(spend.at.hash());
                }
            }
            for ((_, spend), created) in spends[loaded.clone()].iter().zip(&created[loaded]) {
                match created.checked_sub(1).map(|created| self.created[created as usize]) {
                    Some(created) => self.prefetch_script(&created, window),
                    None => shard.prefetch_record(spend.at.hash()),
                }
            }
            let used = self.log.spent_bytes();
            for (&(block, spend), created) in spends[done.clone()].iter().zip(&created[done]) {
                self.begin_blocks(block);
                let is_spent = match created.checked_sub(1) {
                    Some(created) => self.spend_created(created as usize, (block, spend.transaction), window),
                    None => shard.spend(&spend.at, &mut self.log)?,
                };
                if !is_spent {
                    return Ok(false);
                }
                #[cfg(test)]
                if self.fault == Some(Fault::DropsSpend)
                    || (self.fault == Some(Fault::DropsOneSpend) && (block, spend.input) == (0, 1))
                {
                    let last = self.log.spent().len() - 1;
                    shard.take_back_spend(&spend.at, last, &mut self.log);
                }
                #[cfg(test)]
                assert!(self.fault != Some(Fault::PanicsWhileSpending), "a fault of the test");
            }
            if !room.take(self.log.spent_bytes() - used) {
                return Ok(false);
            }
        }
        // One more than there are blocks: the last one needs an end, too.
        self.begin_blocks(window.len() as u32);
        Ok(true)
    }

    /// Notes where the coins begin that the blocks up to this one spend.
    #[inline]
    fn begin_blocks(&mut self, block: u32) {
        if self.starts.len() <= block as usize {
            self.starts.resize(block as usize + 1, self.log.spent().len());
        }
    }

    /// Spends a coin of the window. Returns false if it is spent, or not created before `spender`:
    /// the number of a block in the window, and of a transaction in the block.
    #[inline]
    fn spend_created(&mut self, created: usize, spender: (u32, u32), window: &[WindowBlock<'_>]) -> bool {
        let coin = self.created[created];
        let create = self.create(&coin, window);
        let is_spent = coin.is_spent;
        let is_before = (coin.block, create.transaction) < spender;
        #[cfg(test)]
        let (is_spent, is_before) = (
            is_spent && self.fault != Some(Fault::SpendsTwice),
            is_before
                || self.fault == Some(Fault::SeesTooEarly)
                || (self.fault == Some(Fault::SeesNextTransaction)
                    && (coin.block, create.transaction) == (spender.0, spender.1 + 1)),
        );
        if is_spent || !is_before {
            return false;
        }
        self.created[created].is_spent = true;
        let of = &window[coin.block as usize];
        self.log.push_elsewhere(create.coin(of.block, of.context.height));
        true
    }

    /// Inserts the coins that are left into the cache.
    ///
    /// Where a block may overwrite coins, since BIP 34 holds there, a coin that the window spends
    /// is not looked for in the cache. No older coin can be there. Only coinbases could repeat an
    /// id, and a window is shorter than their maturity.
    fn insert_created(&mut self, shard: &mut CacheShard<'_>, window: &[WindowBlock<'_>]) -> Result<bool, StoreError> {
        let needs_nothing =
            |created: &Created| created.is_spent && window[created.block as usize].must_be_new() == MustBeNew::No;
        for start in (0..self.created.len()).step_by(TOGETHER) {
            let next = start + TOGETHER..(start + 2 * TOGETHER).min(self.created.len());
            for created in self
                .created
                .get(next)
                .unwrap_or(&[])
                .iter()
                .filter(|created| !needs_nothing(created))
            {
                shard.prefetch_insertion(created.hash);
                if !created.is_spent {
                    self.prefetch_script(created, window);
                }
            }
            while self.inserted < self.created.len().min(start + TOGETHER) {
                let created = self.created[self.inserted];
                if !needs_nothing(&created) && !self.insert_one(shard, &created, window)? {
                    return Ok(false);
                }
                self.inserted += 1;
                #[cfg(test)]
                assert!(self.fault != Some(Fault::PanicsWhileCreating), "a fault of the test");
            }
        }
        Ok(true)
    }

    fn insert_one(
        &mut self,
        shard: &mut CacheShard<'_>,
        created: &Created,
        window: &[WindowBlock<'_>],
    ) -> Result<bool, StoreError> {
        let of = &window[created.block as usize];
        let must_be_new = of.must_be_new();
        #[cfg(test)]
        let must_be_new = match self.fault {
            Some(Fault::OverwritesUnasked) => MustBeNew::No,
            Some(Fault::BelievesOldAbsence) => match must_be_new {
                MustBeNew::Yes(Some(epoch)) => MustBeNew::Yes(Some(epoch.next())),
                _ => must_be_new,
            },
            _ => must_be_new,
        };
        let create = self.create(created, window);
        if created.is_spent {
            return shard.is_free(&create.at, must_be_new, &mut self.log);
        }
        // A coinbase may repeat an older one, in blocks from before BIP 30.
        let overwrite = match create.transaction {
            0 => Overwrite::Possible,
            _ => Overwrite::Impossible,
        };
        let coin = create.coin(of.block, of.context.height);
        shard.create(&create.at, coin, overwrite, must_be_new, &mut self.log)
    }

    /// Takes back everything, the last first.
    pub(super) fn take_back(&mut self, shards: &CacheShards<'_>, window: &[WindowBlock<'_>]) {
        self.log.forget_counts();
        let mut shard = shards.lock(self.shard);
        let inserted = self.created[..self.inserted].iter().rev();
        #[cfg(test)]
        let inserted = inserted.take(match self.fault {
            Some(Fault::ForgetsCoinToTakeBack) => self.inserted.saturating_sub(1),
            _ => self.inserted,
        });
        for created in inserted.filter(|created| !created.is_spent) {
            let create = &window[created.block as usize].outline.creates(self.shard)[created.number as usize];
            shard.take_back_create(&create.at, &mut self.log);
        }
        let spends = window.iter().flat_map(|block| block.outline.spends(self.shard));
        // Coins were spent in this order, so those in the log belong to the first spends.
        let spent: Vec<&Spend> = spends.take(self.log.spent().len()).collect();
        for (number, spend) in spent.into_iter().enumerate().rev() {
            #[cfg(test)]
            if self.fault == Some(Fault::ForgetsToTakeBack)
                || (self.fault == Some(Fault::ForgetsOneToTakeBack) && number == 0)
            {
                continue;
            }
            shard.take_back_spend(&spend.at, number, &mut self.log);
        }
    }
}

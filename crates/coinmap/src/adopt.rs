//! Entries of one map move to another, a segment of a shard at a time.
//!
//! Both maps sort an outpoint into the same segment, so records are copied as they are, in the
//! order of the index, and nothing is hashed.

use super::record::{EntryFlags, EntryRef};
use super::shard::{Difference, SEGMENTS, Shard};
use super::word::slot_of;
use super::{CoinMap, SHARDS};

impl CoinMap {
    /// Removes all entries of a shard of `from`, and frees their memory. An entry for which
    /// `choose` returns flags moves to the same shard of this map, with these flags, unless this
    /// map has an entry of its outpoint. Returns how many have moved.
    ///
    /// In between an entry is in neither map. This map's shard is locked for a few thousand entries
    /// at a time.
    ///
    /// # Panics
    /// If the maps have different hash keys, or if `number` is not below [`SHARDS`].
    pub fn adopt_shard(
        &self,
        from: &Self,
        number: usize,
        mut choose: impl FnMut(EntryRef<'_>) -> Option<EntryFlags>,
    ) -> usize {
        assert!(self.key == from.key, "maps with different hash keys");
        assert!(number < SHARDS, "no shard of this number");
        // Taken whole, so the other map's lock is free while entries move.
        let shard = from.take_shard(number);
        let mut chosen: Vec<(u64, EntryFlags)> = Vec::new();
        let mut moved = 0;
        for segment in 0..SEGMENTS {
            chosen.clear();
            shard.for_each_word(segment, |word| {
                let flags = choose(shard.entry_at(slot_of(word)));
                chosen.extend(flags.map(|flags| (word, flags)));
            });
            // One segment at a time, so the thread that resolves waits for a thousandth at most.
            let difference = self.write(number).adopt(segment, &shard, &chosen);
            moved += difference.entries.unsigned_abs();
            self.account(difference);
        }
        moved
    }

    /// Takes all entries of a shard out of the map.
    pub(crate) fn take_shard(&self, number: usize) -> Shard {
        let shard = std::mem::take(&mut *self.write(number));
        self.account(Difference {
            bytes: -(shard.bytes().cast_signed()),
            entries: -(shard.len().cast_signed()),
        });
        shard
    }
}

//! Outpoints with a coin, or with none, close together in memory: the changes of a round, and what
//! a read must return. The scripts stand in one buffer, so that reading the list costs few cache
//! misses beside what is measured.

use blockmill_block::OutPoint;
use blockmill_coins::{Before, Change, Changes, CoinRef};

/// Changes in a part.
const PART: usize = 1 << 13;

/// The fields of a coin, its script elsewhere.
#[derive(Debug, Clone, Copy)]
struct Fields {
    value: i64,
    height: u32,
    script_start: u32,
    script_length: u16,
    is_coinbase: bool,
}

/// Outpoints with or without a coin. As [`Changes`], an outpoint without a coin is spent, and was
/// there before; one with a coin was not.
#[derive(Debug, Default)]
pub(crate) struct CoinList {
    entries: Vec<(OutPoint, Option<Fields>)>,
    scripts: Vec<u8>,
}

impl CoinList {
    /// Empties the list; its memory stays.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.scripts.clear();
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the scripts are longer than 4 GiB, or one longer than 64 KiB.
    pub(crate) fn push(&mut self, outpoint: OutPoint, coin: Option<CoinRef<'_>>) {
        let fields = coin.map(|coin| {
            let script_start = u32::try_from(self.scripts.len()).expect("scripts of one list fit 4 GiB");
            self.scripts.extend_from_slice(coin.script_pubkey);
            Fields {
                value: coin.value,
                height: coin.height,
                script_start,
                script_length: coin.script_pubkey.len().try_into().expect("made scripts are short"),
                is_coinbase: coin.is_coinbase,
            }
        });
        self.entries.push((outpoint, fields));
    }

    /// Sorts by outpoint, the scripts too: else a cache miss for each would count as the store's.
    pub(crate) fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.0);
        let mut scripts = Vec::with_capacity(self.scripts.len());
        for fields in self.entries.iter_mut().filter_map(|entry| entry.1.as_mut()) {
            let start = fields.script_start as usize;
            fields.script_start = scripts.len() as u32;
            scripts.extend_from_slice(&self.scripts[start..start + usize::from(fields.script_length)]);
        }
        self.scripts = scripts;
    }

    /// Number of entries.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// An entry by its position.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn entry(&self, position: usize) -> (OutPoint, Option<CoinRef<'_>>) {
        let (outpoint, fields) = self.entries[position];
        let coin = fields.map(|fields| {
            let start = fields.script_start as usize;
            CoinRef {
                value: fields.value,
                height: fields.height,
                is_coinbase: fields.is_coinbase,
                script_pubkey: &self.scripts[start..start + usize::from(fields.script_length)],
            }
        });
        (outpoint, coin)
    }
}

impl Changes for CoinList {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn parts(&self) -> usize {
        self.entries.len().div_ceil(PART)
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        assert!(part < self.parts(), "no such part");
        for position in part * PART..self.entries.len().min((part + 1) * PART) {
            let (outpoint, coin) = self.entry(position);
            let before = if coin.is_some() { Before::Nothing } else { Before::Coin };
            each(Change { outpoint, coin, before });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;

    #[test]
    fn entries_keep_their_coins_when_sorted() {
        let outpoint = |vout| OutPoint {
            txid: Txid([1; 32]),
            vout,
        };
        let coin = |script_pubkey| CoinRef {
            value: 5,
            height: 7,
            is_coinbase: true,
            script_pubkey,
        };
        let mut list = CoinList::default();
        list.push(outpoint(2), Some(coin(&[2, 2])));
        list.push(outpoint(1), None);
        list.push(outpoint(0), Some(coin(&[])));
        list.sort();
        assert_eq!(list.count(), 3);
        assert_eq!(list.entry(0), (outpoint(0), Some(coin(&[]))));
        assert_eq!(list.entry(1), (outpoint(1), None));
        assert_eq!(list.entry(2), (outpoint(2), Some(coin(&[2, 2]))));
    }

    #[test]
    fn parts_have_all_changes_once() {
        let mut list = CoinList::default();
        for vout in 0..(2 * PART + 1) as u32 {
            list.push(
                OutPoint {
                    txid: Txid([0; 32]),
                    vout,
                },
                None,
            );
        }
        let mut seen = Vec::new();
        list.visit_all(&mut |change| {
            assert_eq!(change.before, Before::Coin);
            seen.push(change.outpoint.vout);
        });
        assert_eq!(list.parts(), 3);
        assert!(seen.into_iter().eq(0..(2 * PART + 1) as u32));
    }
}

//! Many coins in two pieces of memory, without a box for each script.

use crate::coin::CoinRef;
use crate::compress;
use crate::reader::{DecodeError, Reader};
use crate::short::copy_short;
use std::fmt;
use std::ops::Range;

/// A coin but its script, which lies among those of all coins.
#[derive(Debug, Clone, Copy)]
struct CoinHead {
    value: i64,
    script_at: usize,
    script_length: u32,
    code: u32,
}

/// Coins in a row: a head of 24 bytes for each, and one buffer with all scripts.
///
/// ```
/// use blockmill_block::{CoinList, CoinRef};
///
/// let mut list = CoinList::default();
/// list.push(CoinRef { value: 5_000, height: 7, is_coinbase: false, script_pubkey: &[0x51] });
/// assert_eq!(list.coins().len(), 1);
/// assert_eq!(list.coins().at(0).script_pubkey, [0x51]);
/// ```
#[derive(Clone, Default)]
pub struct CoinList {
    heads: Vec<CoinHead>,
    scripts: Vec<u8>,
}

impl CoinList {
    /// An empty list with capacity for `coins` coins with usual scripts.
    pub fn with_capacity(coins: usize) -> Self {
        Self {
            heads: Vec::with_capacity(coins),
            scripts: Vec::with_capacity(coins * USUAL_SCRIPT_BYTES),
        }
    }

    /// Makes room for more coins with usual scripts.
    pub fn reserve(&mut self, coins: usize) {
        if coins > 0 {
            self.heads.reserve(coins);
            // The last of them is copied with what follows it.
            self.scripts.reserve(coins * USUAL_SCRIPT_BYTES + SHORT);
        }
    }

    /// Memory in bytes, unused capacity included.
    pub fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<CoinHead>() + self.scripts.capacity()
    }

    /// Memory in bytes that the coins use, unused capacity not counted.
    pub fn used(&self) -> usize {
        self.heads.len() * size_of::<CoinHead>() + self.scripts.len()
    }

    /// Number of coins.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are no coins.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Removes all coins. The memory is kept.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.scripts.clear();
    }

    /// Appends a coin.
    #[inline]
    pub fn push(&mut self, coin: CoinRef<'_>) {
        self.push_parts(coin, [&[], &[]]);
    }

    /// Appends a coin whose script is that of `coin` between two others.
    #[inline]
    pub fn push_parts(&mut self, coin: CoinRef<'_>, around: [&[u8]; 2]) {
        let script_at = self.scripts.len();
        let length = around[0].len() + coin.script_pubkey.len() + around[1].len();
        if length <= SHORT {
            // One copy of a known length takes less than three of any length.
            let mut short = [0; SHORT];
            let mut rest = &mut short[..];
            for part in [around[0], coin.script_pubkey, around[1]] {
                let (head, tail) = rest.split_at_mut(part.len());
                copy_short(part, head);
                rest = tail;
            }
            self.scripts.extend_from_slice(&short);
            // What was copied beyond the script is cut off.
            self.scripts.truncate(script_at + length);
        } else {
            for part in [around[0], coin.script_pubkey, around[1]] {
                self.scripts.extend_from_slice(part);
            }
        }
        self.push_head(coin.value, coin.code(), script_at);
    }

    /// Appends a coin whose script lies from `script_at` to the end of the buffer.
    #[inline]
    fn push_head(&mut self, value: i64, code: u32, script_at: usize) {
        self.heads.push(CoinHead {
            value,
            script_at,
            // The script lies in the memory of a block, of a record, or of a cache: below 4 GiB.
            script_length: (self.scripts.len() - script_at) as u32,
            code,
        });
    }

    /// A list of `coins` coins that are empty until they are [put](Self::put), with capacity
    /// for usual scripts.
    pub fn with_empty_coins(coins: usize) -> Self {
        let empty = CoinHead {
            value: 0,
            script_at: 0,
            script_length: 0,
            code: 0,
        };
        Self {
            heads: vec![empty; coins],
            scripts: Vec::with_capacity(coins * USUAL_SCRIPT_BYTES),
        }
    }

    /// Puts coins of another list at these indices, instead of the coins that are there. The order
    /// of the scripts in memory need not be that of the coins, so all are copied at once.
    ///
    /// # Panics
    /// If there are not as many indices as coins, or if the list has no such index.
    pub fn put(&mut self, coins: Coins<'_>, indices: impl ExactSizeIterator<Item = usize>) {
        assert_eq!(coins.len(), indices.len(), "an index for each coin");
        let at = self.scripts.len();
        if let Some((start, scripts)) = coins.scripts_in_a_row() {
            self.scripts.extend_from_slice(scripts);
            for (&head, index) in coins.heads.iter().zip(indices) {
                self.heads[index] = CoinHead {
                    script_at: head.script_at - start + at,
                    ..head
                };
            }
        } else {
            for (&head, index) in coins.heads.iter().zip(indices) {
                let script_at = self.scripts.len();
                self.scripts.extend_from_slice(coins.coin(&head).script_pubkey);
                self.heads[index] = CoinHead { script_at, ..head };
            }
        }
    }

    /// Appends a coin in the form of Core's undo data (see [`CoinRef::write_undo`]).
    ///
    /// # Errors
    /// Any [`DecodeError`]. The list may have the coin's script then, and not the coin.
    pub fn read_undo(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let code = reader.varint(u64::from(u32::MAX))? as u32;
        if code >> 1 > 0 {
            // Core wrote the version of the transaction here once. Nothing uses it now.
            reader.varint(u64::from(u32::MAX))?;
        }
        let script_at = self.scripts.len();
        let value = compress::read_output_into(reader, &mut self.scripts)?;
        self.push_head(value, code, script_at);
        Ok(())
    }

    /// All coins.
    #[inline]
    pub fn coins(&self) -> Coins<'_> {
        Coins {
            heads: &self.heads,
            scripts: &self.scripts,
        }
    }
}

/// Bytes of a script that is copied in one piece.
const SHORT: usize = 40;

/// Bytes of a script for which a new list has room: more than most scripts have.
const USUAL_SCRIPT_BYTES: usize = 35;

impl PartialEq for CoinList {
    fn eq(&self, other: &Self) -> bool {
        self.coins() == other.coins()
    }
}

impl Eq for CoinList {}

impl fmt::Debug for CoinList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coins().fmt(formatter)
    }
}

impl<'a> Extend<CoinRef<'a>> for CoinList {
    fn extend<I: IntoIterator<Item = CoinRef<'a>>>(&mut self, coins: I) {
        coins.into_iter().for_each(|coin| self.push(coin));
    }
}

impl<'a> FromIterator<CoinRef<'a>> for CoinList {
    fn from_iter<I: IntoIterator<Item = CoinRef<'a>>>(coins: I) -> Self {
        let mut list = Self::default();
        list.extend(coins);
        list
    }
}

/// Some coins of a [`CoinList`], in a row.
#[derive(Clone, Copy, Default)]
pub struct Coins<'a> {
    heads: &'a [CoinHead],
    scripts: &'a [u8],
}

impl<'a> Coins<'a> {
    /// No coins.
    pub const NONE: Self = Self {
        heads: &[],
        scripts: &[],
    };

    /// Number of coins.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are no coins.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    #[inline]
    fn coin(self, head: &CoinHead) -> CoinRef<'a> {
        CoinRef {
            value: head.value,
            height: head.code >> 1,
            is_coinbase: head.code & 1 == 1,
            script_pubkey: &self.scripts[head.script_at..head.script_at + head.script_length as usize],
        }
    }

    /// Where the scripts begin in memory, and all of them, if they lie there in the order of the
    /// coins.
    #[inline]
    fn scripts_in_a_row(self) -> Option<(usize, &'a [u8])> {
        let start = self.heads.first()?.script_at;
        let mut end = start;
        for head in self.heads {
            if head.script_at != end {
                return None;
            }
            end += head.script_length as usize;
        }
        Some((start, &self.scripts[start..end]))
    }

    /// The coin at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<CoinRef<'a>> {
        self.heads.get(index).map(|head| self.coin(head))
    }

    /// The coin at `index`. Panics if there is none.
    #[inline]
    pub fn at(&self, index: usize) -> CoinRef<'a> {
        self.coin(&self.heads[index])
    }

    /// The coins of a range. Panics if it ends after the last coin.
    #[must_use]
    #[inline]
    pub fn range(&self, range: Range<usize>) -> Self {
        Self {
            heads: &self.heads[range],
            scripts: self.scripts,
        }
    }

    /// The coins in their order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CoinRef<'a>> + DoubleEndedIterator + Clone + use<'a> {
        let coins = *self;
        coins.heads.iter().map(move |head| coins.coin(head))
    }
}

impl PartialEq for Coins<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Coins<'_> {}

impl fmt::Debug for Coins<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coin::Coin;
    use proptest::prelude::*;

    fn coin() -> impl Strategy<Value = Coin> {
        let script = proptest::collection::vec(any::<u8>(), 0..60);
        (0..=2_100_000_000_000_000i64, 0u32..1 << 31, any::<bool>(), script).prop_map(
            |(value, height, is_coinbase, script)| Coin {
                value,
                height,
                is_coinbase,
                script_pubkey: script.into(),
            },
        )
    }

    #[test]
    #[should_panic(expected = "an index for each coin")]
    fn no_coin_is_left_out() {
        let list: CoinList = [CoinRef {
            value: 1,
            height: 2,
            is_coinbase: false,
            script_pubkey: &[3],
        }]
        .into_iter()
        .collect();
        CoinList::with_empty_coins(3).put(list.coins(), 0..2);
    }

    proptest! {
        /// Two parts of a list, of which the second has its scripts out of order, are placed in
        /// turns.
        #[test]
        fn coins_are_put(coins in proptest::collection::vec(coin(), 0..20)) {
            let one: CoinList = coins.iter().map(CoinRef::from).collect();
            let mut reversed = CoinList::with_empty_coins(coins.len());
            for number in (0..coins.len()).rev() {
                reversed.put(one.coins().range(number..number + 1), std::iter::once(number));
            }
            prop_assert_eq!(&reversed, &one);
            let half = coins.len() / 2;
            let mut both = CoinList::with_empty_coins(coins.len());
            both.put(one.coins().range(0..half), (0..half).map(|number| 2 * number));
            let second = reversed.coins().range(half..coins.len());
            both.put(second, (half..coins.len()).map(|number| match 2 * (number - half) + 1 {
                index if index < coins.len() => index,
                _ => coins.len() - 1,
            }));
            let mut expected = vec![None; coins.len()];
            for (number, coin) in coins.iter().enumerate() {
                let index = if number < half { 2 * number } else { 2 * (number - half) + 1 };
                expected[index.min(coins.len() - 1)] = Some(coin.clone());
            }
            let found: Vec<Option<Coin>> = both.coins().iter().map(|coin| Some(coin.to_coin())).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn coins_come_back(coins in proptest::collection::vec(coin(), 0..20), from in 0usize..20) {
            let list: CoinList = coins.iter().map(CoinRef::from).collect();
            prop_assert_eq!(list.len(), coins.len());
            let back: Vec<Coin> = list.coins().iter().map(|coin| coin.to_coin()).collect();
            prop_assert_eq!(&back, &coins);
            let from = from.min(coins.len());
            let part = list.coins().range(from..coins.len());
            prop_assert!(part.iter().eq(coins[from..].iter().map(CoinRef::from)));
            prop_assert!(part.iter().rev().eq(coins[from..].iter().rev().map(CoinRef::from)));
            prop_assert_eq!(part.get(0), coins.get(from).map(CoinRef::from));
            // Lists are the same by their coins, wherever the scripts lie.
            let other: CoinList = part.iter().collect();
            prop_assert_eq!(other.coins(), part);
            prop_assert_eq!(other == list, from == 0);
        }

        #[test]
        fn undo_data_comes_back(coins in proptest::collection::vec(coin(), 0..20)) {
            let mut list = CoinList::default();
            for coin in &coins {
                let mut bytes = Vec::new();
                CoinRef::from(coin).write_undo(&mut bytes);
                let mut reader = Reader::new(&bytes);
                prop_assert_eq!(list.read_undo(&mut reader), Ok(()));
                prop_assert!(reader.finish().is_ok());
            }
            prop_assert!(list.coins().iter().eq(coins.iter().map(CoinRef::from)));
        }
    }

    #[test]
    fn a_script_in_parts_is_one() {
        let mut list = CoinList::default();
        let coin = |script_pubkey| CoinRef {
            value: 1,
            height: 2,
            is_coinbase: true,
            script_pubkey,
        };
        list.push_parts(coin(&[3, 4]), [&[1, 2], &[5]]);
        list.push(coin(&[]));
        assert_eq!(list.coins().at(0), coin(&[1, 2, 3, 4, 5]));
        assert_eq!(list.coins().at(1), coin(&[]));
        assert_eq!(list.coins().get(2), None);
        assert!(list.memory() >= 2 * 24 + 5);
        list.clear();
        assert!(list.is_empty() && list.coins() == Coins::NONE);
    }
}

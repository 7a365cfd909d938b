//! The figures of a set of coins, of which statistics have some.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::set_change::SetChange;
use blockmill_coins::{MUHASH_BYTES, MuHash};

/// The figures of a set of coins after some block. Those of no blocks are zero. Those of a range of
/// blocks are what the range changes in the set: they are negative where more coins left than came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetTotals {
    coins: i128,
    bogosize: i128,
    /// Of all coins, in satoshi.
    sum: i128,
    unspendable: i128,
    /// None above a block with a coin that is not known.
    pub(crate) muhash: Option<MuHash>,
}

/// What rows say of sets, a value for each row. Amounts are in satoshi.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Coins.
    pub txouts: Vec<u64>,
    /// Core's measure of size.
    pub bogosize: Vec<u64>,
    /// Of all coins.
    pub total_amount: Vec<i64>,
    /// What nobody will ever spend.
    pub total_unspendable_amount: Vec<i64>,
    /// The MuHash, where it is known.
    pub muhash: Vec<Option<[u8; 32]>>,
}

/// Bytes of a number of a state.
const NUMBER_BYTES: usize = size_of::<i128>();

/// Numbers of a state. The product of the MuHash follows them, if it is known.
const NUMBERS: usize = 4;

/// A number of a state is below this, and above its negative: sums of it and of what blocks change
/// have 128 bits.
const LIMIT: u128 = 1 << 100;

impl Default for SetTotals {
    /// Those of no blocks.
    fn default() -> Self {
        Self {
            coins: 0,
            bogosize: 0,
            sum: 0,
            unspendable: 0,
            muhash: Some(MuHash::new()),
        }
    }
}

/// The MuHash of both. None if one of them is not known.
fn merged(before: Option<&MuHash>, next: Option<&MuHash>) -> Option<MuHash> {
    let mut muhash = before?.clone();
    muhash.merge(next?);
    Some(muhash)
}

impl SetTotals {
    /// Goes on to the set after a block. The MuHash is that before its run of blocks.
    pub(crate) fn add(&mut self, change: &SetChange, before: Option<&MuHash>) {
        self.coins += i128::from(change.made) - i128::from(change.spent);
        self.bogosize += change.bogosize;
        self.sum += change.amount;
        self.unspendable += change.unspendable;
        self.muhash = merged(before, change.muhash.as_ref());
    }

    /// The figures of these blocks and of those that follow. None if a sum has no 128 bits.
    pub fn joined(&self, next: &Self) -> Option<Self> {
        Some(Self {
            coins: self.coins.checked_add(next.coins)?,
            bogosize: self.bogosize.checked_add(next.bogosize)?,
            sum: self.sum.checked_add(next.sum)?,
            unspendable: self.unspendable.checked_add(next.unspendable)?,
            muhash: merged(self.muhash.as_ref(), next.muhash.as_ref()),
        })
    }

    /// The same in bytes: four numbers of 16 bytes, in little endian, and the product of the
    /// MuHash.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.coins, self.bogosize, self.sum, self.unspendable];
        let mut bytes = numbers.map(i128::to_le_bytes).concat();
        if let Some(muhash) = &self.muhash {
            bytes.extend(muhash.product());
        }
        bytes
    }

    /// The figures with these bytes. None if there are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, product) = bytes.split_at_checked(NUMBERS * NUMBER_BYTES)?;
        let numbers: &[[u8; NUMBER_BYTES]; NUMBERS] = numbers.as_chunks().0.try_into().ok()?;
        let numbers = numbers.map(i128::from_le_bytes);
        if numbers.iter().any(|number| number.unsigned_abs() >= LIMIT) {
            return None;
        }
        let [coins, bogosize, sum, unspendable] = numbers;
        let muhash = match product {
            [] => None,
            product => Some(MuHash::from_product(<&[u8; MUHASH_BYTES]>::try_from(product).ok()?)),
        };
        Some(Self {
            coins,
            bogosize,
            sum,
            unspendable,
            muhash,
        })
    }
}

impl Completed {
    /// Adds what a row says of a set. None if no set has such figures.
    pub fn push(&mut self, totals: &SetTotals) -> Option<()> {
        self.txouts.push(totals.coins.try_into().ok()?);
        self.bogosize.push(totals.bogosize.try_into().ok()?);
        let amounts = [totals.sum, totals.unspendable].map(i64::try_from);
        let [Ok(of_coins), Ok(unspendable)] = amounts else {
            return None;
        };
        self.total_amount.push(of_coins);
        self.total_unspendable_amount.push(unspendable);
        self.muhash.push(totals.muhash.as_ref().map(MuHash::finalize));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(number: i128) -> SetTotals {
        let mut muhash = MuHash::new();
        muhash.insert(&number.to_le_bytes());
        SetTotals {
            coins: number,
            bogosize: number + 1,
            sum: number + 2,
            unspendable: number + 3,
            muhash: Some(muhash),
        }
    }

    #[test]
    fn bytes_are_figures_again() {
        for number in [0, 7, -9, (1 << 100) - 4] {
            let known = totals(number);
            assert_eq!(SetTotals::from_bytes(&known.to_bytes()), Some(known.clone()));
            let unknown = SetTotals { muhash: None, ..known };
            assert_eq!(SetTotals::from_bytes(&unknown.to_bytes()), Some(unknown));
        }
        for length in [0, 63, 65, 447, 449] {
            assert_eq!(SetTotals::from_bytes(&vec![1; length]), None);
        }
        for number in [1 << 100, -1 << 100, i128::MAX - 3, i128::MIN] {
            assert_eq!(SetTotals::from_bytes(&totals(number).to_bytes()), None);
        }
    }

    #[test]
    fn ranges_are_joined() {
        let none = SetTotals::default();
        assert_eq!(none.joined(&totals(5)), Some(totals(5)));
        let joined = totals(-5).joined(&totals(8)).unwrap();
        assert_eq!((joined.coins, joined.bogosize), (3, 5));
        assert_eq!((joined.sum, joined.unspendable), (7, 9));
        let mut muhash = MuHash::new();
        muhash.insert(&8i128.to_le_bytes());
        muhash.insert(&(-5i128).to_le_bytes());
        assert_eq!(joined.muhash, Some(muhash));
        assert_eq!(totals(i128::MAX - 3).joined(&totals(5)), None);
    }

    #[test]
    fn what_no_set_has() {
        let mut completed = Completed::default();
        assert_eq!(completed.push(&totals(4)), Some(()));
        assert_eq!(completed.txouts, [4]);
        assert_eq!(completed.push(&totals(-1)), None);
        assert_eq!(completed.push(&totals(1 << 65)), None);
    }
}

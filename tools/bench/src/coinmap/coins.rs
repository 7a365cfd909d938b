//! The coins for all maps. Each coin follows from its number, and a transaction has two.
//!
//! The scripts of a hundred coins:
//!
//! | coins | script | bytes |
//! |---|---|---|
//! | 30 | P2PKH | 25 |
//! | 28 | P2WPKH | 22 |
//! | 28 | P2TR | 34 |
//! | 9 | P2SH | 23 |
//! | 2 | P2WSH | 34 |
//! | 1 | P2PK | 35 |
//! | 1 | bare multisig, 1 of 3 | 105 |
//! | 1 | other | 1 to 120 |

use blockmill_block::{OutPoint, Txid};
use blockmill_coinmap::CoinRef;
use std::ops::Range;

/// The table above in words, for the report.
pub(super) const SHARES: &str = "30% P2PKH, 28% P2WPKH, 28% P2TR, 9% P2SH, 2% P2WSH, 1% P2PK, 1% bare multisig 1 of 3, 1% odd ones of 1 to 120 bytes; two coins a transaction";

/// Pseudorandom numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// The outpoint of a coin.
pub(super) fn outpoint(number: u64) -> OutPoint {
    let mut numbers = Numbers((number / 2) ^ (0x5bd1_e995 << 32));
    let mut txid = [0; 32];
    for word in txid.as_chunks_mut::<8>().0 {
        *word = numbers.next().to_le_bytes();
    }
    OutPoint {
        txid: Txid(txid),
        vout: (number % 2) as u32,
    }
}

/// The amount of a coin.
pub(super) fn value(number: u64) -> i64 {
    (Numbers(!number).next() >> 24) as i64
}

/// The scripts of the coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scripts {
    /// As in the table above.
    Mixed,
    /// P2PKH only.
    KeyHash,
    /// Empty scripts.
    Empty,
}

fn add_script(number: u64, scripts: Scripts, to: &mut Vec<u8>) {
    let mut numbers = Numbers(number.rotate_left(32));
    let mut filler = [0; 32];
    for word in filler.as_chunks_mut::<8>().0 {
        *word = numbers.next().to_le_bytes();
    }
    let mut add = |before: &[u8], payload: usize, after: &[u8]| {
        to.extend_from_slice(before);
        to.extend_from_slice(&filler[..payload]);
        to.extend_from_slice(after);
    };
    let share = match scripts {
        Scripts::Mixed => numbers.below(100),
        Scripts::KeyHash => 0,
        Scripts::Empty => return,
    };
    match share {
        0..30 => add(&[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
        30..58 => add(&[0, 20], 20, &[]),
        58..86 => add(&[0x51, 32], 32, &[]),
        86..95 => add(&[0xa9, 20], 20, &[0x87]),
        95..97 => add(&[0, 32], 32, &[]),
        97 => add(&[33, 2], 32, &[0xac]),
        98 => {
            add(&[0x51, 33, 2], 32, &[33, 3]);
            add(&[], 32, &[33, 2]);
            add(&[], 32, &[0x53, 0xae]);
        }
        _ => to.resize(to.len() + 1 + numbers.below(120) as usize, 0x61),
    }
}

/// Coins to insert.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) outpoints: Vec<OutPoint>,
    numbers: Vec<u64>,
    /// End of each coin's script.
    ends: Vec<usize>,
    scripts: Vec<u8>,
    values: Vec<i64>,
}

impl Batch {
    /// Fills in the coins of these numbers.
    pub(super) fn fill(&mut self, numbers: Range<u64>, scripts: Scripts) {
        self.outpoints.clear();
        self.numbers.clear();
        self.ends.clear();
        self.scripts.clear();
        self.values.clear();
        for number in numbers {
            self.outpoints.push(outpoint(number));
            self.numbers.push(number);
            self.values.push(value(number));
            add_script(number, scripts, &mut self.scripts);
            self.ends.push(self.scripts.len());
        }
    }

    /// The coins with their outpoints.
    pub(super) fn coins(&self) -> impl Iterator<Item = (&OutPoint, CoinRef<'_>)> {
        let mut start = 0;
        let ends = self.ends.iter();
        let numbers = self.numbers.iter().zip(&self.values);
        self.outpoints
            .iter()
            .zip(ends)
            .zip(numbers)
            .map(move |((outpoint, &end), (&number, &value))| {
                let script_pubkey = &self.scripts[start..end];
                start = end;
                let coin = CoinRef {
                    value,
                    height: (number / 3000) as u32,
                    is_coinbase: number % 1000 == 0,
                    script_pubkey,
                };
                (outpoint, coin)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_the_shares_that_the_head_says() {
        let mut batch = Batch::default();
        batch.fill(0..100_000, Scripts::Mixed);
        let share = |length: usize, first: u8| {
            let count = batch
                .coins()
                .filter(|(_, coin)| coin.script_pubkey.len() == length && coin.script_pubkey[0] == first)
                .count();
            (count as f64 / 1000.0).round() as u32
        };
        assert_eq!(
            [share(25, 0x76), share(22, 0), share(34, 0x51), share(23, 0xa9)],
            [30, 28, 28, 9]
        );
        assert_eq!([share(34, 0), share(35, 33), share(105, 0x51)], [2, 1, 1]);
    }
}

//! The coins for all maps. Each coin follows from its number, and a transaction has two.

use blockmill_block::{OutPoint, Txid};
use blockmill_coinmap::CoinRef;
use blockmill_harness::coins;
use std::ops::Range;

/// Pseudorandom numbers.
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(coins::mix(self.0)) * u128::from(end)) >> 64) as u64
    }
}

/// The outpoint of a coin.
pub(super) fn outpoint(number: u64) -> OutPoint {
    let mut txid = [0; 32];
    coins::fill((number / 2) ^ (0x5bd1_e995 << 32), &mut txid);
    OutPoint {
        txid: Txid(txid),
        vout: (number % 2) as u32,
    }
}

/// Coins to insert.
#[derive(Debug, Default)]
pub(super) struct Batch {
    outpoints: Vec<OutPoint>,
    numbers: Vec<u64>,
    /// End of each coin's script.
    ends: Vec<usize>,
    scripts: Vec<u8>,
}

impl Batch {
    /// Fills in the coins of these numbers.
    pub(super) fn fill(&mut self, numbers: Range<u64>) {
        self.outpoints.clear();
        self.numbers.clear();
        self.ends.clear();
        self.scripts.clear();
        for number in numbers {
            self.outpoints.push(outpoint(number));
            self.numbers.push(number);
            coins::push_script(coins::mix(number), &mut self.scripts);
            self.ends.push(self.scripts.len());
        }
    }

    /// The coins with their outpoints.
    pub(super) fn coins(&self) -> impl Iterator<Item = (&OutPoint, CoinRef<'_>)> {
        let mut start = 0;
        let all = self.outpoints.iter().zip(&self.ends).zip(&self.numbers);
        all.map(move |((outpoint, &end), &number)| {
            let script_pubkey = &self.scripts[start..end];
            start = end;
            let coin = CoinRef {
                value: coins::value(number),
                height: (number / 3000) as u32,
                is_coinbase: number % 1000 == 0,
                script_pubkey,
            };
            (outpoint, coin)
        })
    }
}

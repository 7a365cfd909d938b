//! Figures of the fees of a block, as Core's `getblockstats` computes them.

/// The shares of a block's weight below which feerates are given: tenth, quarter, half, three
/// quarters, nine tenths; each as a numerator and a denominator.
const SHARES: [(u64, u64); 5] = [(1, 10), (1, 4), (1, 2), (3, 4), (9, 10)];

/// The fees of a block. They are those of its transactions but the coinbase.
#[derive(Default)]
pub(super) struct Fees {
    /// In satoshi.
    paid: Vec<i64>,
    /// Satoshi for a virtual byte, rounded down, and the weight that pays it.
    rates: Vec<(i64, u64)>,
}

/// What is said of them, in satoshi; 0 where there are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FeeFigures {
    pub(super) median: i64,
    pub(super) min: i64,
    pub(super) max: i64,
    /// Of the shares of the weight.
    pub(super) rates: [i64; 5],
}

impl Fees {
    /// Adds that of a transaction. It is in the range of money, so that it times four fits.
    pub(super) fn add(&mut self, paid: i64, weight: u64) {
        self.paid.push(paid);
        self.rates.push((paid * 4 / weight.max(1).cast_signed(), weight));
    }

    pub(super) fn figures(mut self) -> FeeFigures {
        self.paid.sort_unstable();
        self.rates.sort_unstable();
        let half = self.paid.len() / 2;
        let median = match *self.paid.get(half.saturating_sub(1)..=half).unwrap_or_default() {
            // Of an even number it is the mean of the two in the middle, rounded down.
            [below, above] if self.paid.len().is_multiple_of(2) => (below + above) / 2,
            _ => self.paid.get(half).copied().unwrap_or_default(),
        };
        FeeFigures {
            median,
            min: self.paid.first().copied().unwrap_or_default(),
            max: self.paid.last().copied().unwrap_or_default(),
            rates: SHARES.map(|share| self.rate_of(share)),
        }
    }

    /// The rate of the first transaction, from the lowest rate up, with which the weight so far has
    /// this share of all.
    fn rate_of(&self, (numerator, denominator): (u64, u64)) -> i64 {
        let all: u64 = self.rates.iter().map(|(_, weight)| weight).sum();
        let mut so_far = 0;
        let found = self.rates.iter().find(|(_, weight)| {
            so_far += weight;
            so_far * denominator >= all * numerator
        });
        found.map_or(0, |(rate, _)| *rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fees: &[(i64, u64)], median: i64, min_max: (i64, i64), rates: [i64; 5]) {
        let mut all = Fees::default();
        fees.iter().for_each(|&(paid, weight)| all.add(paid, weight));
        let (min, max) = min_max;
        let expected = FeeFigures {
            median,
            min,
            max,
            rates,
        };
        assert_eq!(all.figures(), expected);
    }

    #[test]
    fn medians_and_shares() {
        check(&[], 0, (0, 0), [0; 5]);
        check(&[(7, 4)], 7, (7, 7), [7; 5]);
        check(&[(4, 4), (1, 4)], 2, (1, 4), [1, 1, 1, 4, 4]);
        check(&[(9, 4), (1, 4), (5, 4)], 5, (1, 9), [1, 1, 5, 9, 9]);
        // A tenth of the weight pays 10, a half 20, three quarters 30, nine tenths 40.
        let shares = [(40i64, 6i64), (50, 4), (10, 4), (20, 16), (30, 10)];
        let shares = shares.map(|(rate, weight)| (rate * weight / 4, weight.cast_unsigned()));
        check(&shares, 60, (10, 80), [10, 20, 20, 30, 40]);
        // Less than a satoshi for a virtual byte.
        check(&[(3, 16)], 3, (3, 3), [0; 5]);
    }
}

//! The only source of random numbers: ChaCha8 with a seed, and the few draws that the generator
//! needs.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng as _, SeedableRng};

/// A random number generator. Its draws follow from a seed and a stream number alone.
pub(crate) struct Rng(ChaCha8Rng);

impl Rng {
    /// The draws of `stream` under `seed`. Streams of one seed are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Rng(rng)
    }

    /// 0 to `end` - 1; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product is below `end`, without a division.
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// `least` to `most`, both included.
    pub(crate) fn range(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// An index into something of `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` draws on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the choices, with a likelihood in proportion to its weight. The caller gives at least
    /// one choice with a weight above 0.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(T, u64)]) -> T {
        let mut draw = self.below(choices.iter().map(|(_, weight)| weight).sum());
        for &(choice, weight) in choices {
            if draw < weight {
                return choice;
            }
            draw -= weight;
        }
        // Not reached: a draw is below the sum of the weights.
        choices[0].0
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Puts `items` into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.index(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_from_seed_and_stream() {
        let draws = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.below(1 << 40), rng.below(1 << 40)]
        };
        assert_eq!(draws(1, 0), draws(1, 0));
        assert_ne!(draws(1, 0), draws(2, 0));
        assert_ne!(draws(1, 0), draws(1, 1));
    }

    #[test]
    fn draws_stay_in_range() {
        let mut rng = Rng::new(3, 0);
        assert!((0..1_000).all(|_| (5..=7).contains(&rng.range(5, 7))));
        assert!((0..1_000).all(|_| rng.weighted(&[('a', 1), ('b', 0), ('c', 2)]) != 'b'));
        assert_eq!(rng.below(0), 0);
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

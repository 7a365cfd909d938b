//! The share of each block: the inputs and live coins that a spec asks for, spread over the blocks
//! that can spend.

use bitcoin::constants::COINBASE_MATURITY;

use crate::chain_spec::{ChainSpec, Profile};
use crate::rng::Rng;

/// The aims of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Inputs, the coinbase's not counted.
    pub(crate) inputs: u64,
    /// Live coins after the block.
    pub(crate) live: u64,
    /// Whether the block consolidates coins in excess of `live`, even with more inputs than asked
    /// for.
    pub(crate) may_shrink: bool,
    /// Whether the blocks have hardly weight for all inputs. Shapes that take little weight are
    /// preferred then.
    pub(crate) is_tight: bool,
}

/// The plan for the whole chain. When a block misses its target, the later blocks share the
/// difference.
pub(crate) struct Schedule {
    /// Blocks before the empty ones at the end.
    blocks: u64,
    /// Blocks that can spend.
    spending_blocks: u64,
    inputs: u64,
    /// Coins that the payments of [`WORKING_BLOCKS`] blocks draw from.
    working_coins: u64,
    /// Coins at the end.
    final_coins: u64,
    final_coins_given: bool,
    block_weight_max: u64,
    /// Weight of an input with its share of a transaction.
    input_weight: u64,
    /// Weight of an output of a fan-out.
    output_weight: u64,
}

/// The working set of coins has enough inputs for this many blocks.
const WORKING_BLOCKS: u64 = 4;
/// The working set is built up in the first of this many parts of the spending blocks.
const RAMP_ONE_IN: u64 = 20;
/// Below this budget, in percent of the weight that inputs and coins need, all blocks have the same
/// size.
const TIGHT_PERCENT: u64 = 150;

impl Schedule {
    /// The schedule of a spec.
    pub(crate) fn new(spec: &ChainSpec) -> Schedule {
        let blocks = u64::from(spec.blocks.saturating_sub(spec.empty_blocks));
        let spending_blocks = blocks.saturating_sub(COINBASE_MATURITY.into());
        let per_block = spec.inputs / spending_blocks.max(1);
        let working_coins = WORKING_BLOCKS * per_block + 100;
        let (input_weight, output_weight, inputs_per_final_coin) = match spec.profile {
            Profile::Mixed => (650, 145, 3),
            Profile::Utxo => (330, 90, 2),
        };
        let final_coins = match spec.coins {
            // Without a wish of the spec, the set grows with the inputs.
            0 => working_coins + spec.inputs / inputs_per_final_coin,
            given => given,
        };
        Schedule {
            blocks,
            spending_blocks,
            inputs: spec.inputs,
            working_coins,
            final_coins,
            final_coins_given: spec.coins != 0,
            block_weight_max: spec.block_weight_max.into(),
            input_weight,
            output_weight,
        }
    }

    /// Coins that count as young: about the outputs of three blocks.
    pub(crate) fn young_coins(&self) -> usize {
        (self.inputs / self.spending_blocks.max(1) * 3).clamp(64, 1 << 32) as usize
    }

    /// The aims of the block at `height`, after `inputs_made` inputs and with `live` coins. `None`
    /// while no coinbase is mature, and for the empty blocks at the end.
    pub(crate) fn target(&self, height: u32, inputs_made: u64, live: u64, rng: &mut Rng) -> Option<Target> {
        let spending_block = u64::from(height)
            .checked_sub(COINBASE_MATURITY.into())
            .filter(|&n| n > 0)?;
        let blocks_left = (self.blocks + 1).checked_sub(height.into()).filter(|&n| n > 0)?;
        let inputs_even = self.inputs.saturating_sub(inputs_made).div_ceil(blocks_left);
        let coins_even = self.final_coins.saturating_sub(live) / blocks_left;
        let weight_needed = inputs_even * self.input_weight + coins_even * self.output_weight;
        let budget_percent = self.block_weight_max * 100 / weight_needed.max(1);
        let percent = match budget_percent {
            // The last block must meet the sum.
            _ if blocks_left == 1 => 100,
            // With much room, blocks differ as they do in real chains.
            300.. => match rng.below(8) {
                0 => 5,
                1 => 250,
                _ => rng.range(60, 140),
            },
            TIGHT_PERCENT..300 => rng.range(70, 130),
            _ => 100,
        };
        let path = self.path(spending_block);
        let growth = match path.saturating_sub(live) {
            _ if blocks_left == 1 && !self.final_coins_given => 0,
            // A large block makes no more coins than are missing.
            missing => missing * percent.min(100) / 100,
        };
        Some(Target {
            inputs: inputs_even * percent / 100,
            live: if path > live { live + growth } else { path },
            // Coins are gathered in the last fifth of the chain.
            may_shrink: self.final_coins_given && spending_block * 5 > self.spending_blocks * 4,
            is_tight: budget_percent < TIGHT_PERCENT,
        })
    }

    /// Live coins aimed at after the `spending_block`th block that can spend, counted from 1.
    fn path(&self, spending_block: u64) -> u64 {
        let ramp = (self.spending_blocks / RAMP_ONE_IN).max(1);
        let ramped = self.working_coins * spending_block.min(ramp) / ramp;
        // In the last fifth it goes from 0 up to the number of spending blocks.
        let late = (5 * spending_block).saturating_sub(4 * self.spending_blocks);
        match self.final_coins.checked_sub(self.working_coins) {
            Some(more) => ramped + more * spending_block / self.spending_blocks,
            None if late == 0 => ramped,
            None => {
                let less = self.working_coins - self.final_coins;
                self.working_coins - less * late / self.spending_blocks
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(coins: u64) -> Schedule {
        Schedule::new(&ChainSpec {
            inputs: 20_000,
            coins,
            ..ChainSpec::new(Profile::Mixed, 300, 1)
        })
    }

    #[test]
    fn paths_end_at_the_coins_asked_for() {
        for coins in [50, 500, 5_000, 5_000_000] {
            assert_eq!(schedule(coins).path(200), coins);
        }
        assert_eq!(schedule(5_000).path(10), 500 + 4_500 / 20);
        assert_eq!(schedule(50).path(160), 500);
        assert_eq!(schedule(50).path(180), 275);
    }

    #[test]
    fn no_block_is_asked_for_what_cannot_be() {
        let mut rng = Rng::new(0, 0);
        assert_eq!(schedule(0).target(100, 0, 100, &mut rng), None);
        let last = schedule(5_000).target(300, 19_000, 4_000, &mut rng).unwrap();
        assert_eq!(
            last,
            Target {
                inputs: 1_000,
                live: 5_000,
                may_shrink: true,
                is_tight: false
            }
        );
        let unasked = schedule(0).target(300, 19_000, 4_000, &mut rng).unwrap();
        assert_eq!((unasked.live, unasked.may_shrink), (4_000, false));
    }

    #[test]
    fn empty_blocks_have_no_target() {
        let spec = ChainSpec {
            inputs: 20_000,
            empty_blocks: 100,
            ..ChainSpec::new(Profile::Mixed, 300, 1)
        };
        let schedule = Schedule::new(&spec);
        let mut rng = Rng::new(0, 0);
        let mut made = 0;
        for height in 101..=200 {
            made += schedule.target(height, made, 1_000, &mut rng).unwrap().inputs;
        }
        assert_eq!(made, 20_000);
        assert_eq!(schedule.target(201, made, 1_000, &mut rng), None);
        assert_eq!(schedule.target(300, made, 1_000, &mut rng), None);
    }

    #[test]
    fn targets_reach_the_total() {
        let mut rng = Rng::new(0, 0);
        let mut made = 0;
        for height in 101..=300 {
            made += schedule(0).target(height, made, 1_000, &mut rng).unwrap().inputs;
        }
        assert_eq!(made, 20_000);
    }
}

//! Plans blocks, one after the other on one thread: which coins are spent, in which transactions, in which order. Nothing here
//! depends on a signature, so the plan is the same however many threads sign.

use crate::address::Address;
use crate::builder::subsidy;
use crate::dice::Dice;
use crate::draft::{Group, Payee, Room};
use crate::purse::{Coin, Purse};
use crate::recipe::{Profile, Recipe};
use crate::schedule::{Schedule, Target};
use crate::work::SignedTransaction;
use bitcoin::Txid;

/// The stream of [`Dice`] that plans come from.
const PLAN_STREAM: u64 = 2;
/// Weight kept free for the header, the transaction count and the coinbase.
const COINBASE_WEIGHT: u64 = 2_400;
/// The sigop cost of a block that consensus allows, less that of the coinbase.
const SIGOPS_MOST: u64 = 80_000 - 40;
/// One coinbase in so many has two outputs.
const COINBASE_SPLIT_ONE_IN: u64 = 8;

/// A block before it is signed.
pub(crate) struct BlockPlan {
    pub(crate) height: u32,
    pub(crate) groups: Vec<Group>,
    /// The transactions' order after the coinbase: a group's number stands for its next member.
    pub(crate) order: Vec<u32>,
    /// Outputs of the coinbase: address and satoshi.
    pub(crate) coinbase: Vec<(Address, u64)>,
    pub(crate) inputs: u64,
}

/// A block being planned.
pub(crate) struct BlockUnderway {
    pub(crate) height: u32,
    pub(crate) target: Target,
    pub(crate) room: Room,
    pub(crate) inputs: u64,
    /// Coins made by the block so far and not spent in it.
    pub(crate) created: u64,
    /// Fan-outs and consolidations that changed the number of coins by next to nothing.
    pub(crate) came_to_nothing: u32,
}

/// The chain's planner with the coins that are live after the blocks taken in.
pub(crate) struct Planner {
    pub(crate) profile: Profile,
    pub(crate) dice: Dice,
    pub(crate) purse: Purse,
    schedule: Schedule,
    block_weight_max: u64,
    inputs_made: u64,
}

impl Planner {
    /// A planner at genesis.
    pub(crate) fn new(recipe: &Recipe) -> Planner {
        let schedule = Schedule::new(recipe);
        Planner {
            profile: recipe.profile,
            dice: Dice::new(recipe.seed, PLAN_STREAM),
            purse: Purse::new(schedule.young_coins()),
            schedule,
            block_weight_max: recipe.block_weight_max.into(),
            inputs_made: 0,
        }
    }

    /// Plans the block at `height`. The coins that it spends leave the purse.
    pub(crate) fn plan(&mut self, height: u32) -> BlockPlan {
        self.purse.mature(height);
        let target = self
            .schedule
            .target(height, self.inputs_made, self.purse.len(), &mut self.dice);
        let mut groups = Vec::new();
        let mut inputs = 0;
        if let Some(target) = target {
            let room = Room {
                weight: self.block_weight_max - COINBASE_WEIGHT,
                sigops: SIGOPS_MOST,
            };
            let mut block = BlockUnderway {
                height,
                target,
                room,
                inputs: 0,
                created: 1,
                came_to_nothing: 0,
            };
            while let Some(group) = self.next_group(&mut block) {
                block.take_in(&group);
                groups.push(group);
            }
            inputs = block.inputs;
        }
        self.inputs_made += inputs;
        let fees: u64 = groups.iter().flatten().map(|transaction| transaction.fee).sum();
        let order = self.order(&groups);
        BlockPlan {
            height,
            order,
            coinbase: self.coinbase(subsidy(height) + fees),
            groups,
            inputs,
        }
    }

    /// Takes in the coins of a planned block, now that the transactions have ids.
    pub(crate) fn absorb(&mut self, plan: &BlockPlan, signed: &[Vec<SignedTransaction>], coinbase: Txid) {
        let height_code = plan.height * 2;
        for (vout, &(address, value)) in (0..).zip(&plan.coinbase) {
            self.purse.add_coinbase(Coin {
                txid: coinbase,
                value,
                vout,
                height_code: height_code + 1,
                address,
            });
        }
        let transactions = plan.groups.iter().flatten().zip(signed.iter().flatten());
        for (planned, &SignedTransaction { txid, .. }) in transactions {
            for (vout, output) in (0..).zip(&planned.outputs) {
                if let Payee::Address(address) = output.payee
                    && !output.spent_in_block
                {
                    self.purse.add(Coin {
                        txid,
                        value: output.value,
                        vout,
                        height_code,
                        address,
                    });
                }
            }
        }
    }

    /// A random order in which each group's members keep theirs.
    fn order(&mut self, groups: &[Group]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..)
            .zip(groups)
            .flat_map(|(number, group)| std::iter::repeat_n(number, group.len()))
            .collect();
        self.dice.shuffle(&mut order);
        order
    }

    fn coinbase(&mut self, value: u64) -> Vec<(Address, u64)> {
        let mut address = || Address::random(self.profile, &mut self.dice);
        let addresses = [address(), address()];
        if self.dice.one_in(COINBASE_SPLIT_ONE_IN) && value > 1 {
            let first = self.dice.range(1, value - 1);
            return vec![(addresses[0], first), (addresses[1], value - first)];
        }
        vec![(addresses[0], value)]
    }
}

impl BlockUnderway {
    fn take_in(&mut self, group: &Group) {
        for transaction in group {
            self.inputs += transaction.inputs.len() as u64;
            self.created += transaction
                .outputs
                .iter()
                .filter(|output| matches!(output.payee, Payee::Address(_)) && !output.spent_in_block)
                .count() as u64;
        }
    }
}

//! Plans blocks, one after the other on one thread: the coins that are spent, the transactions, and
//! their order. No plan depends on a signature, and so none depends on the number of signing
//! threads.

use crate::address::Address;
use crate::builder::subsidy;
use crate::chain_spec::{ChainSpec, Profile};
use crate::coin_pool::{Coin, CoinPool};
use crate::rng::Rng;
use crate::schedule::{Schedule, Target};
use crate::tx_plan::{Budget, Group, Payee};
use crate::work::SignedTransaction;
use bitcoin::Txid;

/// The stream of [`Rng`] for plans.
const PLAN_STREAM: u64 = 2;
/// Weight kept free for the header, the transaction count and the coinbase.
const COINBASE_WEIGHT: u64 = 2_400;
/// Largest sigop cost of a block by consensus, less the cost of the coinbase.
const SIGOPS_MAX: u64 = 80_000 - 40;
/// One coinbase in this many has two outputs.
const COINBASE_SPLIT_ONE_IN: u64 = 8;

/// A block before it is signed.
pub(crate) struct BlockPlan {
    pub(crate) height: u32,
    pub(crate) groups: Vec<Group>,
    /// The order of the transactions after the coinbase. A group's number stands for its next
    /// member.
    pub(crate) order: Vec<u32>,
    /// Outputs of the coinbase: address and satoshi.
    pub(crate) coinbase: Vec<(Address, u64)>,
    pub(crate) inputs: u64,
}

/// A block being planned.
pub(crate) struct BlockUnderway {
    pub(crate) height: u32,
    pub(crate) target: Target,
    pub(crate) budget: Budget,
    pub(crate) inputs: u64,
    /// Coins created by the block so far and not spent in it.
    pub(crate) created: u64,
    /// Fan-outs and consolidations that hardly changed the number of coins.
    pub(crate) fruitless: u32,
}

/// The chain's planner, with the coins that are live after the blocks so far.
pub(crate) struct Planner {
    pub(crate) profile: Profile,
    pub(crate) rng: Rng,
    pub(crate) coin_pool: CoinPool,
    schedule: Schedule,
    block_weight_max: u64,
    inputs_made: u64,
}

impl Planner {
    /// A planner at genesis.
    pub(crate) fn new(spec: &ChainSpec) -> Planner {
        let schedule = Schedule::new(spec);
        Planner {
            profile: spec.profile,
            rng: Rng::new(spec.seed, PLAN_STREAM),
            coin_pool: CoinPool::new(schedule.young_coins()),
            schedule,
            block_weight_max: spec.block_weight_max.into(),
            inputs_made: 0,
        }
    }

    /// Plans the block at `height`. The coins that it spends leave the pool.
    pub(crate) fn plan(&mut self, height: u32) -> BlockPlan {
        self.coin_pool.mature(height);
        let target = self
            .schedule
            .target(height, self.inputs_made, self.coin_pool.len(), &mut self.rng);
        let mut groups = Vec::new();
        let mut inputs = 0;
        if let Some(target) = target {
            let budget = Budget {
                // The coinbase is made last, when all fees are known.
                weight: self.block_weight_max - COINBASE_WEIGHT,
                sigops: SIGOPS_MAX,
            };
            let mut block = BlockUnderway {
                height,
                target,
                budget,
                inputs: 0,
                // That of the coinbase.
                created: 1,
                fruitless: 0,
            };
            while let Some(group) = self.next_group(&mut block) {
                block.add_group(&group);
                groups.push(group);
            }
            inputs = block.inputs;
        }
        self.inputs_made += inputs;
        let fees: u64 = groups.iter().flatten().map(|transaction| transaction.fee).sum();
        // Parents come before children, whatever the order of the groups.
        let order = self.order(&groups);
        BlockPlan {
            height,
            order,
            coinbase: self.coinbase(subsidy(height) + fees),
            groups,
            inputs,
        }
    }

    /// Adds the coins of a planned block. Signing has given the transactions their ids.
    pub(crate) fn add_coins_of(&mut self, plan: &BlockPlan, signed: &[Vec<SignedTransaction>], coinbase: Txid) {
        let height_code = plan.height * 2;
        for (vout, &(address, value)) in (0..).zip(&plan.coinbase) {
            self.coin_pool.add_coinbase(Coin {
                txid: coinbase,
                value,
                vout,
                // The lowest bit marks a coinbase.
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
                    self.coin_pool.add(Coin {
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

    /// A random order of all transactions. The members of a group stay in order.
    fn order(&mut self, groups: &[Group]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..)
            .zip(groups)
            .flat_map(|(number, group)| std::iter::repeat_n(number, group.len()))
            .collect();
        self.rng.shuffle(&mut order);
        order
    }

    fn coinbase(&mut self, value: u64) -> Vec<(Address, u64)> {
        let mut address = || Address::random(self.profile, &mut self.rng);
        let addresses = [address(), address()];
        if self.rng.one_in(COINBASE_SPLIT_ONE_IN) && value > 1 {
            let first = self.rng.range(1, value - 1);
            return vec![(addresses[0], first), (addresses[1], value - first)];
        }
        vec![(addresses[0], value)]
    }
}

impl BlockUnderway {
    fn add_group(&mut self, group: &Group) {
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

//! The shapes of transactions (payments, chains within the block, consolidations, fan-outs) and the
//! choice among them.

use crate::address::Address;
use crate::chain_spec::Profile;
use crate::plan::{BlockUnderway, Planner};
use crate::tx_plan::{Group, OUTPUT_MIN, Payee, PlannedTransaction, Source, Split, TxPlan};

/// The shape of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One to three inputs and outputs.
    Payment,
    /// Transactions that spend each other's outputs.
    Chain,
    /// Many inputs, one or two outputs.
    Consolidation,
    /// One or two inputs, many outputs.
    FanOut,
}

/// With fewer spendable coins than this, fan-outs come first.
const SPENDABLE_SCARCE: u64 = 50;
/// A block that has its inputs still makes or consolidates coins from this difference in coins on.
const DIFFERENCE_WORTH: i64 = 8;
/// After this many fruitless fan-outs and consolidations a block tries no more of them.
const FAILURES_MAX: u32 = 30;
/// The most outputs of one transaction.
const OUTPUTS_MAX: u64 = 20_000;
/// One payment or chain member in this many carries data.
const DATA_ONE_IN: u64 = 12;

impl Planner {
    /// The block's next transactions. `None` when the block has met its target or is full.
    pub(crate) fn next_group(&mut self, block: &mut BlockUnderway) -> Option<Group> {
        let shape = self.choose(block)?;
        match shape {
            Shape::Payment => self.payment(block).map(|payment| vec![payment]),
            Shape::Chain => self.chain(block),
            Shape::Consolidation => self.consolidation(block).map(|gathering| vec![gathering]),
            Shape::FanOut => self.fan_out(block).map(|fan| vec![fan]),
        }
    }

    /// Coins missing for the block's target; negative when there are too many.
    fn missing(&self, block: &BlockUnderway) -> i64 {
        block.target.live as i64 - (self.coin_pool.len() + block.created) as i64
    }

    fn choose(&mut self, block: &BlockUnderway) -> Option<Shape> {
        let missing = self.missing(block);
        if self.coin_pool.spendable() == 0 {
            return None;
        }
        if block.inputs >= block.target.inputs {
            return match missing {
                _ if block.fruitless > FAILURES_MAX => None,
                DIFFERENCE_WORTH.. => Some(Shape::FanOut),
                i64::MIN..=0 if block.target.may_shrink && missing <= -DIFFERENCE_WORTH => Some(Shape::Consolidation),
                _ => None,
            };
        }
        if missing > 0 && self.coin_pool.spendable() < SPENDABLE_SCARCE && block.fruitless <= FAILURES_MAX {
            return Some(Shape::FanOut);
        }
        let fan_out = if missing > 100 { 250 } else { 15 };
        let consolidation = if missing < -60 || block.target.is_tight { 80 } else { 12 };
        Some(self.rng.weighted(&[
            (Shape::Payment, 660),
            (Shape::Chain, 60),
            (Shape::Consolidation, consolidation),
            (Shape::FanOut, fan_out),
        ]))
    }

    fn payment(&mut self, block: &mut BlockUnderway) -> Option<PlannedTransaction> {
        let mut tx_plan = TxPlan::new(block.budget)?;
        let inputs = self.rng.weighted(&[(1, 55), (2, 35), (3, 10)]);
        self.add_coins(&mut tx_plan, inputs);
        self.add_payees(&mut tx_plan);
        self.finish(tx_plan, Split::Uneven, block)
    }

    /// Two to 25 transactions. Each spends an output of an earlier one; some spend a coin from
    /// outside, too.
    fn chain(&mut self, block: &mut BlockUnderway) -> Option<Group> {
        let length = if self.rng.one_in(16) {
            self.rng.range(8, 25)
        } else {
            self.rng.range(2, 6)
        };
        let mut group: Group = vec![self.payment(block)?];
        while (group.len() as u64) < length {
            let Some(mut tx_plan) = TxPlan::new(block.budget) else {
                break;
            };
            let open = open_outputs(&group);
            // Mostly the newest output, for depth; now and then any, for breadth.
            let pick = if self.rng.one_in(3) {
                self.rng.index(open.len())
            } else {
                // One is open always: each member has an output that pays an address.
                open.len() - 1
            };
            let Some(&(member, vout)) = open.get(pick) else { break };
            let output = &mut group[member as usize].outputs[vout as usize];
            let Payee::Address(address) = output.payee else { break };
            // Its id is known when the members before it are signed.
            let source = Source::Member { member, vout };
            // The block is nearly full.
            if !tx_plan.add_input(source, (address, output.value, block.height), &mut self.rng) {
                break;
            }
            // It never becomes a coin that a later block could choose.
            output.spent_in_block = true;
            if self.rng.one_in(4) {
                self.add_coins(&mut tx_plan, 1);
            }
            self.add_payees(&mut tx_plan);
            group.extend(self.finish(tx_plan, Split::Uneven, block));
        }
        Some(group)
    }

    fn consolidation(&mut self, block: &mut BlockUnderway) -> Option<PlannedTransaction> {
        let mut tx_plan = TxPlan::new(block.budget)?;
        let size = if self.rng.one_in(6) {
            self.rng.range(100, 400)
        } else {
            self.rng.range(5, 60)
        };
        // A block with too many coins takes more inputs than it was asked for.
        let excess = (-self.missing(block)).max(0) as u64;
        let wanted = block.target.inputs.saturating_sub(block.inputs).max(excess) + 2;
        self.add_coins(
            &mut tx_plan,
            size.min(wanted).min(self.coin_pool.spendable() / 3).max(1),
        );
        // One or two inputs change the number of coins hardly.
        block.fruitless += u32::from(tx_plan.inputs() < 3);
        tx_plan.add_output(Address::random(self.profile, &mut self.rng));
        if self.rng.one_in(2) && tx_plan.value() > 2 * OUTPUT_MIN && excess == 0 {
            tx_plan.add_output(Address::random(self.profile, &mut self.rng));
        }
        self.finish(tx_plan, Split::Uneven, block)
    }

    fn fan_out(&mut self, block: &mut BlockUnderway) -> Option<PlannedTransaction> {
        let mut tx_plan = TxPlan::new(block.budget)?;
        let missing = self.missing(block).max(0) as u64;
        let size = self.fan_out_size(missing);
        let coin = self.coin_pool.take_rich(&mut self.rng)?;
        if !tx_plan.add_coin(coin, &mut self.rng) {
            self.coin_pool.give_back(coin);
            return None;
        }
        if self.rng.one_in(6) {
            self.add_coins(&mut tx_plan, 1);
        }
        // No more than the value suffices for, at the smallest amount each.
        let size = size.min(tx_plan.value() / OUTPUT_MIN).max(1);
        let made = (0..size)
            .take_while(|_| tx_plan.add_output(Address::random(self.profile, &mut self.rng)))
            .count();
        block.fruitless += u32::from(made < 4);
        self.finish(tx_plan, Split::Even, block)
    }

    fn fan_out_size(&mut self, missing: u64) -> u64 {
        if self.coin_pool.spendable() < SPENDABLE_SCARCE {
            return (missing + 2).min(OUTPUTS_MAX);
        }
        if missing < DIFFERENCE_WORTH as u64 {
            return self.rng.range(8, 40);
        }
        let large = self.rng.one_in(8);
        let size = match self.profile {
            Profile::Mixed if large => self.rng.range(120, 1_500),
            Profile::Mixed => self.rng.range(8, 120),
            Profile::Utxo if large => self.rng.range(500, 3_000),
            Profile::Utxo => self.rng.range(16, 500),
        };
        size.min(missing + 1)
    }

    /// Adds up to `count` coins.
    fn add_coins(&mut self, tx_plan: &mut TxPlan, count: u64) {
        for _ in 0..count {
            let Some(coin) = self.coin_pool.take(&mut self.rng) else {
                break;
            };
            if !tx_plan.add_coin(coin, &mut self.rng) {
                self.coin_pool.give_back(coin);
                break;
            }
        }
    }

    /// Adds the outputs of a payment.
    fn add_payees(&mut self, tx_plan: &mut TxPlan) {
        let outputs = self.rng.weighted(&[(1, 10), (2, 75), (3, 15)]);
        for _ in 0..outputs.min(tx_plan.value() / OUTPUT_MIN).max(1) {
            tx_plan.add_output(Address::random(self.profile, &mut self.rng));
        }
        if self.rng.one_in(DATA_ONE_IN) {
            tx_plan.add_data(&mut self.rng);
        }
    }

    /// The planned transaction, if it has an input. The block's budget shrinks by it.
    fn finish(&mut self, tx_plan: TxPlan, split: Split, block: &mut BlockUnderway) -> Option<PlannedTransaction> {
        if tx_plan.inputs() == 0 {
            return None;
        }
        let (planned, budget) = tx_plan.finish(split, block.height, &mut self.rng);
        block.budget = budget;
        Some(planned)
    }
}

/// The unspent outputs of a group: member and output index.
fn open_outputs(group: &Group) -> Vec<(u32, u32)> {
    (0..)
        .zip(group)
        .flat_map(|(member, transaction)| {
            (0..)
                .zip(&transaction.outputs)
                .filter(|(_, output)| !output.spent_in_block && matches!(output.payee, Payee::Address(_)))
                .map(move |(vout, _)| (member, vout))
        })
        .collect()
}

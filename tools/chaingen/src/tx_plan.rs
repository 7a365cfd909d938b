//! Planning of one transaction. Inputs and outputs are added within the block's budget; then
//! amounts and locks are chosen.
//!
//! A planned transaction names coins and addresses, not scripts. All work that needs the wallet
//! follows later and in parallel.

use bitcoin::ScriptBuf;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::{Builder, PushBytesBuf};

use crate::address::Address;
use crate::builder::block_time;
use crate::coin_pool::Coin;
use crate::rng::Rng;

/// Weight and sigop cost that a block has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) weight: u64,
    pub(crate) sigops: u64,
}

impl Budget {
    /// What an output with a script of so many bytes takes.
    const fn of_output(script: u64, sigops: u64) -> Self {
        Self {
            weight: 4 * (8 + 1 + script),
            sigops,
        }
    }
}

/// The coin of a planned input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A coin of an earlier block.
    Live(Coin),
    /// An output of an earlier transaction of the same group.
    Member { member: u32, vout: u32 },
}

/// An input before it is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedInput {
    pub(crate) source: Source,
    pub(crate) address: Address,
    /// Satoshi.
    pub(crate) value: u64,
    /// Height of the block that created the coin.
    pub(crate) height: u32,
    pub(crate) sequence: u32,
    pub(crate) anyone_can_pay: bool,
}

/// The payee of an output.
#[derive(Clone, Debug)]
pub(crate) enum Payee {
    Address(Address),
    /// OP_RETURN and data.
    Nobody(ScriptBuf),
}

/// An output before its script is known.
#[derive(Clone, Debug)]
pub(crate) struct PlannedOutput {
    /// Satoshi.
    pub(crate) value: u64,
    pub(crate) payee: Payee,
    /// A later transaction of the group spends it.
    pub(crate) spent_in_block: bool,
}

/// A transaction without its ids, scripts and signatures.
#[derive(Clone, Debug)]
pub(crate) struct PlannedTransaction {
    pub(crate) version: i32,
    pub(crate) lock_time: u32,
    pub(crate) inputs: Vec<PlannedInput>,
    pub(crate) outputs: Vec<PlannedOutput>,
    /// Satoshi.
    pub(crate) fee: u64,
}

/// Transactions that depend on each other, parents first; most groups have one.
pub(crate) type Group = Vec<PlannedTransaction>;

/// How a transaction's value is shared among its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Any shares: a payment and its change.
    Uneven,
    /// About equal shares.
    Even,
}

/// Version, lock time, counts (of up to 65,535 inputs and outputs) and the segwit marker.
const TRANSACTION_WEIGHT: u64 = 4 * (4 + 4 + 3 + 3) + 2;
/// Smallest budget for a new transaction: any one input and any one output fit.
pub(crate) const BUDGET_MIN: Budget = Budget {
    weight: 2_000,
    sigops: 40,
};
/// Upper bound of the first output, reserved while inputs are added.
const FIRST_OUTPUT: Budget = Budget::of_output(67, 4);
/// Smallest amount in satoshi of an output, where the value suffices.
pub(crate) const OUTPUT_MIN: u64 = 546;
/// One input in this many is signed with ANYONECANPAY.
const ANYONE_CAN_PAY_ONE_IN: u64 = 50;

/// The flag of BIP68 that makes a relative lock count units of 512 seconds.
const SEQUENCE_TIME_FLAG: u32 = 1 << 22;
/// The sequences that lock nothing: final, lock time only, replaceable.
const SEQUENCES_FREE: [u32; 3] = [0xffff_ffff, 0xffff_fffe, 0xffff_fffd];

/// A transaction that still takes inputs and outputs.
pub(crate) struct TxPlan {
    inputs: Vec<PlannedInput>,
    outputs: Vec<PlannedOutput>,
    start: Budget,
    left: Budget,
}

impl TxPlan {
    /// A transaction without inputs and outputs. `None` below [`BUDGET_MIN`].
    pub(crate) fn new(budget: Budget) -> Option<TxPlan> {
        if budget.weight < BUDGET_MIN.weight || budget.sigops < BUDGET_MIN.sigops {
            return None;
        }
        let left = Budget {
            weight: budget.weight - TRANSACTION_WEIGHT,
            sigops: budget.sigops,
        };
        Some(TxPlan {
            inputs: Vec::new(),
            outputs: Vec::new(),
            start: budget,
            left,
        })
    }

    /// Adds an input. `false` if the budget is too small.
    #[must_use]
    pub(crate) fn add_input(&mut self, source: Source, output: (Address, u64, u32), rng: &mut Rng) -> bool {
        let (address, value, height) = output;
        let costs = address.kind.costs();
        // The length of the script is a CompactSize.
        let length_bytes = if costs.script_sig < 253 { 1 } else { 3 };
        let needed = Budget {
            weight: 4 * (36 + 4 + length_bytes + costs.script_sig) + costs.witness,
            sigops: costs.input_sigops,
        };
        // Inputs must not take the room of the only output.
        let reserved = match self.outputs.is_empty() {
            true => FIRST_OUTPUT,
            false => Budget::default(),
        };
        if !self.occupy(needed, reserved) {
            return false;
        }
        let anyone_can_pay = rng.one_in(ANYONE_CAN_PAY_ONE_IN);
        self.inputs.push(PlannedInput {
            source,
            address,
            value,
            height,
            sequence: u32::MAX,
            anyone_can_pay,
        });
        true
    }

    /// Adds a coin as an input. `false` if the budget is too small.
    #[must_use]
    pub(crate) fn add_coin(&mut self, coin: Coin, rng: &mut Rng) -> bool {
        self.add_input(Source::Live(coin), (coin.address, coin.value, coin.height()), rng)
    }

    /// Adds an output. `false` if the budget is too small; the first output always fits.
    pub(crate) fn add_output(&mut self, address: Address) -> bool {
        let costs = address.kind.costs();
        let needed = Budget::of_output(costs.script, costs.output_sigops);
        self.push_output(Payee::Address(address), needed)
    }

    /// Adds an OP_RETURN output with up to 80 bytes of data, if the budget allows.
    pub(crate) fn add_data(&mut self, rng: &mut Rng) {
        let mut data = vec![0; rng.range(1, 80) as usize];
        rng.fill(&mut data);
        let push = PushBytesBuf::try_from(data).expect("80 bytes are a push");
        let script = Builder::new().push_opcode(OP_RETURN).push_slice(push).into_script();
        let needed = Budget::of_output(script.len() as u64, 0);
        self.push_output(Payee::Nobody(script), needed);
    }

    fn push_output(&mut self, payee: Payee, needed: Budget) -> bool {
        let fits = self.occupy(needed, Budget::default());
        if fits {
            self.outputs.push(PlannedOutput {
                // Shared out when all outputs are known.
                value: 0,
                payee,
                spent_in_block: false,
            });
        }
        fits
    }

    /// Satoshi of the inputs so far.
    pub(crate) fn value(&self) -> u64 {
        self.inputs.iter().map(|input| input.value).sum()
    }

    /// Number of inputs so far.
    pub(crate) fn inputs(&self) -> u64 {
        self.inputs.len() as u64
    }

    /// Chooses fee, amounts and locks for a block at `height`. Returns the budget that is left,
    /// too.
    pub(crate) fn finish(mut self, split: Split, height: u32, rng: &mut Rng) -> (PlannedTransaction, Budget) {
        let value = self.value();
        let virtual_size = (self.start.weight - self.left.weight) / 4;
        // A fee never takes a coin that is worth little.
        let fee = (virtual_size * rng.range(1, 8)).min(value / 10);
        share(&mut self.outputs, value - fee, split, rng);
        let (version, lock_time) = lock(&mut self.inputs, height, rng);
        let planned = PlannedTransaction {
            version,
            lock_time,
            inputs: self.inputs,
            outputs: self.outputs,
            fee,
        };
        (planned, self.left)
    }

    fn occupy(&mut self, needed: Budget, reserved: Budget) -> bool {
        let fits =
            self.left.weight >= needed.weight + reserved.weight && self.left.sigops >= needed.sigops + reserved.sigops;
        if fits {
            self.left.weight -= needed.weight;
            self.left.sigops -= needed.sigops;
        }
        fits
    }
}

/// Shares `value` among the outputs that pay an address, to the last satoshi.
fn share(outputs: &mut [PlannedOutput], value: u64, split: Split, rng: &mut Rng) {
    let mut payable: Vec<&mut PlannedOutput> = outputs
        .iter_mut()
        .filter(|output| matches!(output.payee, Payee::Address(_)))
        .collect();
    let Some(last) = payable.pop() else { return };
    let mut left = value;
    let even = value / (payable.len() as u64 + 1);
    for output in payable {
        let (least, most) = match split {
            Split::Even => (even / 2, even),
            Split::Uneven => (left / 16, left - left / 16),
        };
        output.value = rounded(rng.range(least, most), rng);
        // The last output gets what all roundings left.
        left -= output.value;
    }
    last.value = left;
}

/// Rounds half of the amounts, as people pay round amounts.
fn rounded(value: u64, rng: &mut Rng) -> u64 {
    let unit = [1, 1, 1_000, 100_000][rng.index(4)];
    if value > unit { value - value % unit } else { value }
}

/// Chooses version, lock time and sequences. Most transactions have no lock; the others have one
/// that is open at `height`.
fn lock(inputs: &mut [PlannedInput], height: u32, rng: &mut Rng) -> (i32, u32) {
    let free = SEQUENCES_FREE[rng.index(3)];
    inputs.iter_mut().for_each(|input| input.sequence = free);
    match rng.below(100) {
        // Version 1 knows no relative locks: any sequence will do.
        0..10 => {
            inputs
                .iter_mut()
                .for_each(|input| input.sequence = rng.below(1 << 32) as u32);
            (1, 0)
        }
        10..17 => {
            // A lock time counts only with a sequence that is not final.
            inputs.iter_mut().for_each(|input| input.sequence = SEQUENCES_FREE[1]);
            (
                rng.range(1, 2) as i32,
                height - 1 - rng.below(height.min(100).into()) as u32,
            )
        }
        // The parent's median time past is the time of the sixth block before this one.
        17..20 if height > 20 => {
            inputs.iter_mut().for_each(|input| input.sequence = SEQUENCES_FREE[1]);
            (
                rng.range(1, 2) as i32,
                block_time(height - 12) - rng.below(10_000) as u32,
            )
        }
        20..27 => {
            // At most as many blocks as have come since the coin.
            for input in inputs.iter_mut() {
                let most = (height - input.height).min(0xffff);
                input.sequence = rng.below(u64::from(most) + 1) as u32;
            }
            (2, 0)
        }
        // From block 11 on, median times differ by as much as block times.
        27..30 => {
            for input in inputs.iter_mut().filter(|input| input.height > 11) {
                let elapsed = u64::from(block_time(height) - block_time(input.height));
                let units = rng.below((elapsed / 512).min(0xffff) + 1) as u32;
                input.sequence = SEQUENCE_TIME_FLAG | units;
            }
            (2, 0)
        }
        _ => (rng.range(1, 10).min(2) as i32, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Kind;
    use bitcoin::Txid;
    use bitcoin::hashes::Hash;

    fn coin(value: u64) -> Coin {
        let address = Address {
            kind: Kind::P2shMultisig,
            number: 0,
        };
        Coin {
            txid: Txid::all_zeros(),
            value,
            vout: 0,
            height_code: 20,
            address,
        }
    }

    #[test]
    fn amounts_are_shared_to_the_last_satoshi() {
        let mut rng = Rng::new(0, 0);
        let address = Address {
            kind: Kind::True,
            number: 0,
        };
        for (split, value) in [
            (Split::Even, 1_000_003),
            (Split::Uneven, 77_777),
            (Split::Even, 5),
            (Split::Uneven, 0),
        ] {
            let mut tx_plan = TxPlan::new(Budget {
                weight: 100_000,
                sigops: 100,
            })
            .unwrap();
            assert!(tx_plan.add_coin(coin(value), &mut rng));
            (0..9).for_each(|_| assert!(tx_plan.add_output(address)));
            tx_plan.add_data(&mut rng);
            let (planned, _) = tx_plan.finish(split, 120, &mut rng);
            let paid: u64 = planned.outputs.iter().map(|output| output.value).sum();
            assert_eq!(paid + planned.fee, value);
            assert_eq!(planned.outputs[9].value, 0);
        }
    }

    #[test]
    fn a_plan_keeps_to_its_budget() {
        let mut rng = Rng::new(0, 0);
        assert!(
            TxPlan::new(Budget {
                weight: BUDGET_MIN.weight - 1,
                sigops: 100
            })
            .is_none()
        );
        let mut tx_plan = TxPlan::new(Budget {
            weight: 20_000,
            sigops: 1_000,
        })
        .unwrap();
        while tx_plan.add_coin(coin(9), &mut rng) {}
        assert!(tx_plan.add_output(Address {
            kind: Kind::P2pkUncompressed,
            number: 0
        }));
        while tx_plan.add_output(Address {
            kind: Kind::True,
            number: 0,
        }) {}
        let inputs = tx_plan.inputs();
        let (planned, left) = tx_plan.finish(Split::Even, 120, &mut rng);
        assert_eq!(inputs, planned.inputs.len() as u64);
        assert!(inputs > 10 && left.weight < 40 && left.sigops == 996 - 12 * inputs);
    }
}

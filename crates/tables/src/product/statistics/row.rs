//! The row of a block.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::amounts::Sums;
use super::coins::Coins;
use super::fees::FeeFigures;
use crate::batch::{Id, Time, row};
use crate::product::{OfBlock, OfChain};
use crate::set_change::SetChange;
use blockmill_block::BlockHash;
use blockmill_chain::SpendingBlock;
use blockmill_rules::COIN;
use blockmill_rules::spend::block_subsidy;

/// Satoshi times seconds of a coin day.
const COIN_DAY: f64 = COIN as f64 * 86_400.0;

row! {
    pub(super) struct StatisticsRow {
        height: u32,
        block_hash: BlockHash,
        block_time: Time,
        /// It rests on the blocks below; and so do the next four.
        txouts: u64,
        bogosize: u64,
        /// None also above a block whose undo data does not tell all of a coin that it spends.
        muhash: Option<Id>,
        total_amount: i64,
        total_unspendable_amount: i64,
        prevout_spent: i64,
        coinbase: i64,
        new_outputs_ex_coinbase: i64,
        unspendable: i64,
        genesis_block: i64,
        bip30: i64,
        scripts: i64,
        unclaimed_rewards: i64,
        txs: u64,
        ins: u64,
        outs: u64,
        subsidy: i64,
        totalfee: i64,
        medianfee: i64,
        minfee: i64,
        maxfee: i64,
        feerate_p10: i64,
        feerate_p25: i64,
        feerate_p50: i64,
        feerate_p75: i64,
        feerate_p90: i64,
        total_size: u64,
        total_weight: u64,
        swtxs: u64,
        utxo_increase: i64,
        coins_made: u64,
        coins_spent: u64,
        /// None where undo data of an old version of Core does not tell a height.
        days_destroyed: Option<f64>,
        outputs_nonstandard: u64,
        outputs_anchor: u64,
        outputs_pubkey: u64,
        outputs_pubkeyhash: u64,
        outputs_scripthash: u64,
        outputs_multisig: u64,
        outputs_nulldata: u64,
        outputs_witness_v0_keyhash: u64,
        outputs_witness_v0_scripthash: u64,
        outputs_witness_v1_taproot: u64,
        outputs_witness_unknown: u64,
    }
}

/// What nobody will ever spend, in satoshi.
struct Unspendables {
    genesis_block: i64,
    bip30: i64,
    unclaimed_rewards: i128,
    all: i128,
}

impl Unspendables {
    /// # Errors
    /// That the coinbase takes more than it may.
    fn of(chain: &OfChain, of: &OfBlock, sums: &Sums) -> Result<Self, String> {
        let created = block_subsidy(&chain.params, of.height);
        let (genesis_block, bip30) = match (of.height, chain.is_without_coinbase(of)) {
            (0, _) => (created, 0),
            (_, true) => (0, created),
            (_, false) => (0, 0),
        };
        let named = i128::from(genesis_block) + i128::from(bip30) + sums.scripts;
        let coins = sums.new_outputs_ex_coinbase + sums.coinbase;
        let unclaimed_rewards = sums.prevout_spent + i128::from(created) - coins - named;
        if unclaimed_rewards < 0 {
            return Err("the coinbase takes more than subsidy and fees: the block is not valid".to_owned());
        }
        Ok(Self {
            genesis_block,
            bip30,
            unclaimed_rewards,
            all: named + unclaimed_rewards,
        })
    }
}

impl StatisticsRow {
    /// The row of a block, without what rests on those below, and what the block changes in the
    /// set.
    ///
    /// # Errors
    /// What no valid block has.
    pub(super) fn of(chain: &OfChain, of: &OfBlock, read: &SpendingBlock) -> Result<(Self, SetChange), String> {
        let mut sums = Sums::of(chain, of, read)?;
        let unspendable = Unspendables::of(chain, of, &sums)?;
        let coins = Coins::of(chain, of, read);
        let change = SetChange {
            hash: of.hash,
            height: of.height,
            made: sums.made,
            spent: sums.ins,
            bogosize: sums.bogosize,
            amount: sums.new_outputs_ex_coinbase + sums.coinbase - sums.prevout_spent,
            unspendable: unspendable.all,
            coins: coins.muhash(),
            muhash: None,
        };
        let fees = std::mem::take(&mut sums.fees).figures();
        let days = coins.satoshi_seconds.map(|exact| exact as f64 / COIN_DAY);
        let row = Self::new(chain, of, read, &sums, &unspendable, fees, days);
        let row = row.ok_or("a sum of its amounts has no 64 bits: the block is not valid")?;
        Ok((row, change))
    }

    /// None if a sum does not fit.
    fn new(
        chain: &OfChain,
        of: &OfBlock,
        read: &SpendingBlock,
        sums: &Sums,
        unspendable: &Unspendables,
        fees: FeeFigures,
        days_destroyed: Option<f64>,
    ) -> Option<Self> {
        let fit = |sum: i128| i64::try_from(sum).ok();
        let [feerate_p10, feerate_p25, feerate_p50, feerate_p75, feerate_p90] = fees.rates;
        let kinds = &sums.kinds;
        Some(Self {
            height: of.height,
            block_hash: of.hash,
            block_time: of.time,
            txouts: 0,
            bogosize: 0,
            muhash: None,
            total_amount: 0,
            total_unspendable_amount: 0,
            prevout_spent: fit(sums.prevout_spent)?,
            coinbase: fit(sums.coinbase)?,
            new_outputs_ex_coinbase: fit(sums.new_outputs_ex_coinbase)?,
            unspendable: fit(unspendable.all)?,
            genesis_block: unspendable.genesis_block,
            bip30: unspendable.bip30,
            scripts: fit(sums.scripts)?,
            unclaimed_rewards: fit(unspendable.unclaimed_rewards)?,
            txs: read.block.transaction_count() as u64,
            ins: sums.ins,
            outs: sums.outs,
            subsidy: block_subsidy(&chain.params, of.height),
            totalfee: fit(sums.totalfee)?,
            medianfee: fees.median,
            minfee: fees.min,
            maxfee: fees.max,
            feerate_p10,
            feerate_p25,
            feerate_p50,
            feerate_p75,
            feerate_p90,
            total_size: sums.total_size,
            total_weight: sums.total_weight,
            swtxs: sums.swtxs,
            utxo_increase: sums.outs.cast_signed().saturating_sub(sums.ins.cast_signed()),
            coins_made: sums.made,
            coins_spent: sums.ins,
            days_destroyed,
            outputs_nonstandard: kinds.nonstandard,
            outputs_anchor: kinds.anchor,
            outputs_pubkey: kinds.pubkey,
            outputs_pubkeyhash: kinds.pubkeyhash,
            outputs_scripthash: kinds.scripthash,
            outputs_multisig: kinds.multisig,
            outputs_nulldata: kinds.nulldata,
            outputs_witness_v0_keyhash: kinds.witness_v0_keyhash,
            outputs_witness_v0_scripthash: kinds.witness_v0_scripthash,
            outputs_witness_v1_taproot: kinds.witness_v1_taproot,
            outputs_witness_unknown: kinds.witness_unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Network;
    use blockmill_rules::Params;

    const REWARD: i64 = 50 * COIN;

    #[track_caller]
    fn check(height: u32, hash: BlockHash, sums: &Sums, [genesis, bip30, unclaimed]: [i64; 3]) {
        let chain = OfChain {
            params: Params::new(Network::Bitcoin, None),
            times: Vec::new(),
        };
        let of = OfBlock {
            network: Network::Bitcoin,
            height,
            hash,
            time: Time(0),
            file: None,
        };
        let found = Unspendables::of(&chain, &of, sums).unwrap();
        assert_eq!((found.genesis_block, found.bip30), (genesis, bip30));
        assert_eq!(found.unclaimed_rewards, i128::from(unclaimed));
        assert_eq!(found.all, i128::from(genesis + bip30 + unclaimed) + sums.scripts);
    }

    #[test]
    fn coinbases_that_make_no_coins() {
        let none = Sums::default();
        let other = BlockHash([7; 32]);
        check(0, other, &none, [REWARD, 0, 0]);
        for (height, hash) in Params::new(Network::Bitcoin, None).bip30_overwritten {
            check(*height, *hash, &none, [0, REWARD, 0]);
            check(*height, other, &none, [0, 0, REWARD]);
        }
        // The blocks that repeat them make coins as any other.
        let sums = Sums {
            coinbase: i128::from(REWARD) - 5,
            scripts: 3,
            ..Sums::default()
        };
        for (height, hash) in Params::new(Network::Bitcoin, None).bip30_exceptions {
            check(*height, *hash, &sums, [0, 0, 2]);
        }
    }
}

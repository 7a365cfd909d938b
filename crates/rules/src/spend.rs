//! Rules of the coins that a transaction spends, and of subsidy and fees (Core's `ConnectBlock`,
//! `CheckTxInputs`).

use crate::params::{Deployment, Params};
use crate::reject::Reject;
use crate::rule::{Activation, Verdict, rules};
use crate::{COIN, COINBASE_MATURITY, MAX_BLOCK_SIGOPS_COST, locks, money_range};
use blockmill_block::{BlockHash, CoinRef, Coins, Transaction};

/// From this height on BIP 30 is checked again: a coinbase from before BIP 34 could be repeated
/// there.
pub const BIP34_IMPLIES_BIP30_LIMIT: u32 = 1_983_702;

/// A transaction, the coins that it spends, and its block's position in the chain.
pub struct SpendContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// Median time past of the block's parent.
    pub parent_median_time_past: u32,
    /// Median time past of the block at a height, for heights up to the parent's.
    pub median_time_past: &'a dyn Fn(u32) -> u32,
    /// The transaction, which is not a coinbase.
    pub transaction: Transaction<'a>,
    /// One coin per input.
    pub coins: Coins<'a>,
}

/// A check of a transaction and its coins.
pub type SpendCheck = fn(&SpendContext<'_>) -> Verdict;

rules! {
    /// The rules of a transaction whose coins are all found, in Core's order. [`check_spend`]
    /// checks the range of the fee after them. Then Core adds the fee to the block's fees, see
    /// [`add_fee`].
    pub SPEND_RULES: SpendCheck = [
        coinbase_is_mature, "CheckTxInputs", Activation::Always;
        input_values_in_range, "CheckTxInputs", Activation::Always;
        spends_no_more_than_it_has, "CheckTxInputs", Activation::Always;
    ]
}

/// Refusal of an input whose coin does not exist or is spent.
pub const MISSING: Reject = Reject::consensus("bad-txns-inputs-missingorspent");

/// Refusal of a script that fails.
pub const SCRIPT_FAILED: Reject = Reject::consensus("block-script-verify-flag-failed");

/// Refusal of a transaction that would overwrite coins.
pub const BIP30: Reject = Reject::consensus("bad-txns-BIP30");

/// Runs the rules of a transaction and its coins. Returns the fee in satoshi.
///
/// # Errors
/// The first rule that is broken.
pub fn check_spend(context: &SpendContext<'_>) -> Result<i64, Reject> {
    for rule in SPEND_RULES {
        if rule.activation.holds(context.params, context.height) {
            (rule.check)(context)?;
        }
    }
    // The rules above have bounded all sums.
    let spent: i64 = context.coins.iter().map(|coin| coin.value).sum();
    let fee = spent - value_out(&context.transaction);
    if !money_range(fee) {
        return Err(Reject::consensus("bad-txns-fee-outofrange"));
    }
    Ok(fee)
}

/// Sum of the outputs in satoshi. The rules of [`crate::transaction`] keep it in range.
fn value_out(transaction: &Transaction<'_>) -> i64 {
    transaction.outputs().map(|output| output.value()).sum()
}

/// The output of a coinbase MUST NOT be spent before it has 100 confirmations.
fn coinbase_is_mature(context: &SpendContext<'_>) -> Verdict {
    // A height below the coin's is the caller's mistake, and counts as immature.
    let immature =
        |coin: CoinRef<'_>| coin.is_coinbase && context.height.saturating_sub(coin.height) < COINBASE_MATURITY;
    match context.coins.iter().position(immature) {
        Some(input) => Err(Reject::consensus("bad-txns-premature-spend-of-coinbase").at_input(input)),
        None => Ok(()),
    }
}

/// The amount of every coin, and every sum of the first coins, MUST be between zero and all money.
fn input_values_in_range(context: &SpendContext<'_>) -> Verdict {
    let mut total: i64 = 0;
    for (input, coin) in context.coins.iter().enumerate() {
        // The value is checked after the sum, and may be the largest number that there is.
        total = total.saturating_add(coin.value);
        if !money_range(coin.value) || !money_range(total) {
            return Err(Reject::consensus("bad-txns-inputvalues-outofrange").at_input(input));
        }
    }
    Ok(())
}

/// The outputs MUST NOT be worth more than the inputs.
fn spends_no_more_than_it_has(context: &SpendContext<'_>) -> Verdict {
    let spent: i64 = context.coins.iter().map(|coin| coin.value).sum();
    if spent < value_out(&context.transaction) {
        return Err(Reject::consensus("bad-txns-in-belowout"));
    }
    Ok(())
}

/// The sum of a block's fees MUST be in range. Adds a fee to the sum so far, in satoshi.
///
/// # Errors
/// `bad-txns-accumulated-fee-outofrange`.
pub fn add_fee(fees: i64, fee: i64) -> Result<i64, Reject> {
    match fees.checked_add(fee) {
        Some(total) if money_range(total) => Ok(total),
        _ => Err(Reject::consensus("bad-txns-accumulated-fee-outofrange")),
    }
}

/// The relative locks of a transaction MUST be open, from the deployment of BIP 68 on.
///
/// # Errors
/// `bad-txns-nonfinal`.
pub fn check_sequence_locks(context: &SpendContext<'_>) -> Verdict {
    if !context.params.is_active(Deployment::Csv, context.height) {
        return Ok(());
    }
    let coin_height = |input: usize| context.coins.at(input).height;
    let lock = locks::sequence_lock(&context.transaction, coin_height, context.median_time_past);
    if lock.is_open(context.height, context.parent_median_time_past) {
        Ok(())
    } else {
        Err(Reject::consensus("bad-txns-nonfinal"))
    }
}

/// The signature operations of a block MUST NOT cost more than the limit. Adds a transaction's cost
/// to the cost so far.
///
/// # Errors
/// `bad-blk-sigops`.
pub fn add_sigops_cost(total: u64, cost: u64) -> Result<u64, Reject> {
    // The total is at most the limit, so the sum does not overflow.
    match total + cost {
        sum if sum > MAX_BLOCK_SIGOPS_COST => Err(Reject::consensus("bad-blk-sigops")),
        sum => Ok(sum),
    }
}

/// Satoshi that a block at `height` may create (Core's `GetBlockSubsidy`).
pub fn block_subsidy(params: &Params, height: u32) -> i64 {
    let halvings = height / params.subsidy_halving_interval;
    // A shift by 64 bits is not defined.
    if halvings >= 64 { 0 } else { (50 * COIN) >> halvings }
}

/// The coinbase MUST NOT pay more than subsidy and fees. `fees` is in satoshi.
///
/// # Errors
/// `bad-cb-amount`.
pub fn check_coinbase_amount(coinbase: &Transaction<'_>, params: &Params, height: u32, fees: i64) -> Verdict {
    if value_out(coinbase) > fees + block_subsidy(params, height) {
        return Err(Reject::consensus("bad-cb-amount").in_transaction(0));
    }
    Ok(())
}

/// Whether a block MUST be checked for transactions that would overwrite coins (BIP 30). Two blocks
/// are exempt. Blocks above the height of BIP 34 are exempt in the chain where BIP 34 makes
/// overwriting impossible, up to [`BIP34_IMPLIES_BIP30_LIMIT`]. `at_bip34_height` is the hash of
/// the block's ancestor at the height of BIP 34, if it has one.
pub fn enforces_bip30(params: &Params, height: u32, hash: &BlockHash, at_bip34_height: Option<&BlockHash>) -> bool {
    // Two blocks of 2010 repeat coinbases of earlier ones, and are valid for ever.
    let repeats = params.bip30_exceptions.contains(&(height, *hash));
    let impossible = at_bip34_height == Some(&params.bip34_hash);
    // As in Core, this height ends all exemptions.
    (!repeats && !impossible) || height >= BIP34_IMPLIES_BIP30_LIMIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_MONEY;
    use blockmill_block::transaction::OwnedTransaction;
    use blockmill_block::{CoinList, Network};

    fn transaction(inputs: usize, sequence: u32, value: i64) -> OwnedTransaction {
        let mut bytes = vec![2, 0, 0, 0, inputs as u8];
        for input in 0..inputs {
            bytes.extend([input as u8 + 1; 36]);
            bytes.push(0);
            bytes.extend(sequence.to_le_bytes());
        }
        bytes.push(1);
        bytes.extend(value.to_le_bytes());
        bytes.extend([0; 5]);
        OwnedTransaction::decode(bytes).unwrap()
    }

    fn coin(value: i64, height: u32, is_coinbase: bool) -> CoinRef<'static> {
        CoinRef {
            value,
            height,
            is_coinbase,
            script_pubkey: &[0x51],
        }
    }

    fn list(coins: &[CoinRef<'_>]) -> CoinList {
        coins.iter().copied().collect()
    }

    fn check(coins: &[CoinRef<'_>], value_out: i64) -> Result<i64, String> {
        let params = Params::new(Network::Regtest, None);
        let transaction = transaction(coins.len(), u32::MAX, value_out);
        check_spend(&SpendContext {
            params: &params,
            height: 200,
            parent_median_time_past: 0,
            median_time_past: &|_| 0,
            transaction: transaction.view(),
            coins: list(coins).coins(),
        })
        .map_err(|reject| reject.reason.into_owned())
    }

    fn refused(reason: &str) -> Result<i64, String> {
        Err(reason.to_owned())
    }

    #[test]
    fn maturity_at_its_boundary() {
        assert_eq!(check(&[coin(5, 100, true)], 5), Ok(0));
        assert_eq!(
            check(&[coin(5, 101, true)], 5),
            refused("bad-txns-premature-spend-of-coinbase")
        );
        assert_eq!(check(&[coin(5, 200, false)], 5), Ok(0));
    }

    #[test]
    fn amounts_at_their_boundaries() {
        assert_eq!(check(&[coin(5, 1, false)], 5), Ok(0));
        assert_eq!(check(&[coin(5, 1, false)], 6), refused("bad-txns-in-belowout"));
        assert_eq!(check(&[coin(5, 1, false)], 3), Ok(2));
        assert_eq!(check(&[coin(MAX_MONEY, 1, false)], 0), Ok(MAX_MONEY));
        assert_eq!(
            check(&[coin(MAX_MONEY + 1, 1, false)], 0),
            refused("bad-txns-inputvalues-outofrange")
        );
        assert_eq!(
            check(&[coin(MAX_MONEY, 1, false), coin(1, 1, false)], 0),
            refused("bad-txns-inputvalues-outofrange")
        );
        assert_eq!(
            check(&[coin(-1, 1, false)], 0),
            refused("bad-txns-inputvalues-outofrange")
        );
        assert_eq!(
            check(&[coin(i64::MAX, 1, false), coin(i64::MAX, 1, false)], 0),
            refused("bad-txns-inputvalues-outofrange")
        );
    }

    #[test]
    fn sums_of_a_block_at_their_boundaries() {
        assert_eq!(add_fee(MAX_MONEY - 1, 1), Ok(MAX_MONEY));
        assert!(add_fee(MAX_MONEY, 1).is_err());
        assert_eq!(add_sigops_cost(79_999, 1), Ok(80_000));
        assert!(add_sigops_cost(80_000, 1).is_err());
    }

    #[test]
    fn subsidy_halves() {
        let mainnet = Params::new(Network::Bitcoin, None);
        for (height, subsidy) in [
            (0, 50 * COIN),
            (209_999, 50 * COIN),
            (210_000, 25 * COIN),
            (420_000, 1_250_000_000),
            (210_000 * 33 - 1, 1),
            (210_000 * 33, 0),
            (210_000 * 64, 0),
        ] {
            assert_eq!(block_subsidy(&mainnet, height), subsidy, "{height}");
        }
        assert_eq!(block_subsidy(&Params::new(Network::Regtest, None), 150), 25 * COIN);
    }

    #[test]
    fn coinbase_amount_at_its_boundary() {
        let params = Params::new(Network::Regtest, None);
        let pays = |value| check_coinbase_amount(&transaction(1, 0, value).view(), &params, 1, 7).is_ok();
        assert!(pays(50 * COIN + 7));
        assert!(!pays(50 * COIN + 8));
    }

    #[test]
    fn sequence_locks_at_their_boundaries() {
        let params = Params::new(Network::Regtest, None);
        let open = |sequence, height, parent_median_time_past| {
            check_sequence_locks(&SpendContext {
                params: &params,
                height,
                parent_median_time_past,
                median_time_past: &|height| height * 600,
                transaction: transaction(1, sequence, 0).view(),
                coins: list(&[coin(0, 100, false)]).coins(),
            })
            .is_ok()
        };
        assert!(!open(10, 109, 0));
        assert!(open(10, 110, 0));
        let time = locks::SEQUENCE_LOCKTIME_TYPE | 2;
        assert!(!open(time, 200, 99 * 600 + 1023));
        assert!(open(time, 200, 99 * 600 + 1024));
        let mainnet = Params::new(Network::Bitcoin, None);
        let locked = transaction(1, 0xffff, 0);
        let coins = list(&[coin(0, 419_000, false)]);
        let before_csv = SpendContext {
            params: &mainnet,
            height: 419_327,
            parent_median_time_past: 0,
            median_time_past: &|_| 0,
            transaction: locked.view(),
            coins: coins.coins(),
        };
        assert!(check_sequence_locks(&before_csv).is_ok());
        assert!(
            check_sequence_locks(&SpendContext {
                height: 419_328,
                ..before_csv
            })
            .is_err()
        );
    }

    #[test]
    fn bip30_and_its_exceptions() {
        let params = Params::new(Network::Bitcoin, None);
        let other = BlockHash([1; 32]);
        let (height, repeat) = params.bip30_exceptions[0];
        assert!(!enforces_bip30(&params, height, &repeat, None));
        assert!(enforces_bip30(&params, height, &other, None));
        assert!(enforces_bip30(&params, height + 1, &repeat, None));
        assert!(!enforces_bip30(&params, 300_000, &other, Some(&params.bip34_hash)));
        assert!(enforces_bip30(&params, 300_000, &other, Some(&other)));
        assert!(!enforces_bip30(&params, 1_983_701, &other, Some(&params.bip34_hash)));
        assert!(enforces_bip30(&params, 1_983_702, &other, Some(&params.bip34_hash)));
        let regtest = Params::new(Network::Regtest, None);
        assert!(enforces_bip30(&regtest, 5, &other, Some(&other)));
    }
}

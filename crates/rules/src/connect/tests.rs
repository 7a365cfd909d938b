//! The order of the driver, over coins that note what is asked of them.

use super::*;
use crate::flags::block_script_flags;
use blockmill_block::{CoinList, CoinRef, Network};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, Txid};
use blockmill_chaingen::builder::{BlockBuilder, spend_any};

const HEIGHT: u32 = 200;

/// Coins that note what is asked of them.
#[derive(Default)]
struct Noting {
    asked: Vec<String>,
    spent: CoinList,
    /// The height of every coin.
    height: u32,
    /// The transaction whose input is missing.
    missing: Option<usize>,
    /// The transaction that is there already.
    unspent: Option<usize>,
    /// The transaction whose coins cannot be read.
    unreadable: Option<usize>,
    looks: usize,
}

impl BlockCoins for Noting {
    type Error = &'static str;

    fn contains(&mut self, index: usize, _: &Transaction<'_>) -> Result<bool, &'static str> {
        assert_eq!(index, self.looks);
        self.asked.push("contains".to_owned());
        self.looks += 1;
        Ok(self.unspent == Some(index))
    }

    fn spend(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<Spent, &'static str> {
        self.asked.push(format!("spend {index}"));
        if self.unreadable == Some(index) {
            return Err("unreadable");
        }
        if self.missing == Some(index) {
            return Ok(Spent::Missing(0));
        }
        let coin = CoinRef {
            value: 2000,
            height: self.height,
            is_coinbase: false,
            script_pubkey: &[0x51],
        };
        self.spent = std::iter::repeat_n(coin, transaction.input_count()).collect();
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        self.spent.coins()
    }

    fn create(&mut self, index: usize, _: &Transaction<'_>) {
        self.asked.push(format!("create {index}"));
    }
}

/// A block with two transactions besides the coinbase; each takes 2000 satoshi and makes so many.
fn block(made: [u64; 2], coinbase: u64) -> Block<Vec<u8>> {
    let parent = bitcoin::BlockHash::from_byte_array([1; 32]);
    let outpoint = |number: u8| bitcoin::OutPoint::new(Txid::from_byte_array([number; 32]), 0);
    let builder = BlockBuilder::new(parent, HEIGHT, 1_400_000_000)
        .transaction(spend_any(outpoint(7), made[0]))
        .transaction(spend_any(outpoint(8), made[1]))
        .coinbase(|transaction| transaction.output[0].value = Amount::from_sat(coinbase));
    Block::decode(bitcoin::consensus::serialize(&builder.build())).unwrap()
}

const SUBSIDY: u64 = 25 * 100_000_000;

fn connect(
    block: &Block<Vec<u8>>,
    overwriting: Overwriting,
    median_times: Option<MedianTimes<'_>>,
    coins: &mut Noting,
) -> Result<Connected, BlockError<&'static str>> {
    let params = Params::new(Network::Regtest, None);
    let context = ConnectContext {
        params: &params,
        height: HEIGHT,
        flags: block_script_flags(&params, HEIGHT, &block.hash()),
        overwriting,
        median_times,
        legacy_sigops: &[0; 3],
    };
    connect_block(block, &context, coins)
}

#[track_caller]
fn refused(outcome: Result<Connected, BlockError<&'static str>>, reason: &str, transaction: usize) {
    match outcome {
        Err(BlockError::Reject(reject)) => {
            assert_eq!((&*reject.reason, reject.transaction), (reason, Some(transaction)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn overwriting_comes_first_then_the_transactions_in_turns() {
    let mut coins = Noting::default();
    let connected = connect(
        &block([1500, 1900], SUBSIDY + 600),
        Overwriting::Forbidden,
        None,
        &mut coins,
    );
    let expected = Connected {
        fees: 600,
        sigops_cost: 0,
    };
    assert_eq!(connected, Ok(expected));
    let first_create = coins.asked.iter().position(|asked| asked == "create 0").unwrap();
    assert!(coins.asked[..first_create].iter().all(|asked| asked == "contains"));
    assert_eq!(
        coins.asked[first_create..],
        ["create 0", "spend 1", "create 1", "spend 2", "create 2"]
    );
    let mut allowed = Noting::default();
    assert!(connect(&block([1500, 1900], SUBSIDY), Overwriting::Allowed, None, &mut allowed).is_ok());
    assert_eq!(allowed.looks, 0);
}

#[test]
fn the_first_broken_rule_in_cores_order_is_named() {
    // The coinbase takes too much as well; that is looked at last.
    let wrong = block([1500, 2001], SUBSIDY + 10_000);
    let mut overwriting = Noting {
        unspent: Some(0),
        missing: Some(1),
        ..Noting::default()
    };
    refused(
        connect(&wrong, Overwriting::Forbidden, None, &mut overwriting),
        "bad-txns-BIP30",
        0,
    );
    let mut missing = Noting {
        missing: Some(1),
        ..Noting::default()
    };
    let reason = "bad-txns-inputs-missingorspent";
    refused(connect(&wrong, Overwriting::Forbidden, None, &mut missing), reason, 1);
    assert!(!missing.asked.contains(&"create 1".to_owned()));
    let mut all = Noting::default();
    refused(
        connect(&wrong, Overwriting::Forbidden, None, &mut all),
        "bad-txns-in-belowout",
        2,
    );
    let greedy = block([1500, 1900], SUBSIDY + 601);
    refused(
        connect(&greedy, Overwriting::Forbidden, None, &mut Noting::default()),
        "bad-cb-amount",
        0,
    );
}

#[test]
fn sequence_locks_need_median_times() {
    let parent = bitcoin::BlockHash::from_byte_array([1; 32]);
    let mut locked = spend_any(bitcoin::OutPoint::new(Txid::from_byte_array([7; 32]), 0), 1500);
    locked.input[0].sequence = bitcoin::Sequence::from_height(10);
    let other = spend_any(bitcoin::OutPoint::new(Txid::from_byte_array([8; 32]), 0), 1500);
    let builder = BlockBuilder::new(parent, HEIGHT, 1_400_000_000);
    let block = builder.transaction(locked).transaction(other).build();
    let block = Block::decode(bitcoin::consensus::serialize(&block)).unwrap();
    let times = MedianTimes {
        parent: 0,
        at_height: &|_| 0,
    };
    let young = || Noting {
        height: HEIGHT - 5,
        ..Noting::default()
    };
    refused(
        connect(&block, Overwriting::Allowed, Some(times), &mut young()),
        "bad-txns-nonfinal",
        1,
    );
    assert!(connect(&block, Overwriting::Allowed, None, &mut young()).is_ok());
    assert!(connect(&block, Overwriting::Allowed, Some(times), &mut Noting::default()).is_ok());
}

#[test]
fn coins_that_cannot_be_read_are_no_verdict() {
    let mut coins = Noting {
        unreadable: Some(2),
        ..Noting::default()
    };
    let outcome = connect(&block([1500, 1900], SUBSIDY), Overwriting::Allowed, None, &mut coins);
    assert_eq!(outcome, Err(BlockError::Coins("unreadable")));
}

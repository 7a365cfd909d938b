//! What is known of a block's chain, and lists of coins that do not fit.

use blockmill_block::{Block, BlockUndo, Coin, CoinRef, Network};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, OutPoint, Sequence, Transaction, transaction};
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any};
use blockmill_rules::Params;
use blockmill_rules::connect::Overwriting;
use blockmill_rules::header::HeaderFacts;
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{BlockPosition, GivenCoins, Validator, ValidatorOptions, VerifyBlockError};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

const HEIGHT: u32 = 200;
const TIME: u32 = 1_400_000_000;
const MISSING: &str = "bad-txns-inputs-missingorspent";

/// A bit of a sequence number: the lock counts units of 512 seconds.
const BY_TIME: u32 = 1 << 22;

fn outpoint(number: u8) -> OutPoint {
    OutPoint::new(bitcoin::Txid::from_byte_array([number; 32]), 0)
}

fn coin(height: u32, is_coinbase: bool) -> Coin {
    Coin {
        value: 1_000,
        height,
        is_coinbase,
        script_pubkey: any_script().as_bytes().into(),
    }
}

fn block(transactions: impl IntoIterator<Item = Transaction>) -> Arc<Block> {
    let prev = bitcoin::BlockHash::from_byte_array([7; 32]);
    let builder = transactions
        .into_iter()
        .fold(BlockBuilder::new(prev, HEIGHT, TIME), BlockBuilder::transaction);
    Block::decode(builder.build_bytes()).unwrap().into()
}

/// Undo data with these coins of each transaction.
fn undo(transactions: &[&[Coin]]) -> Arc<BlockUndo> {
    let mut undo = BlockUndo::default();
    for coins in transactions {
        for coin in *coins {
            undo.push_coin(CoinRef::from(coin));
        }
        undo.end_transaction();
    }
    undo.into()
}

fn validator() -> Validator<CoreVerifier> {
    let verifier = CoreVerifier::new(Signatures::OneByOne);
    Validator::new(verifier.into(), ValidatorOptions::default()).unwrap()
}

fn verdict(block: &Arc<Block>, undo: &Arc<BlockUndo>, position: &BlockPosition<'_>) -> Result<(), VerifyBlockError> {
    validator()
        .validate_block(block, GivenCoins::InOrder(undo), position)
        .map(drop)
}

/// The reason, and the transaction and the input at fault.
fn reason(verdict: Result<(), VerifyBlockError>) -> (String, Option<usize>, Option<usize>) {
    match verdict {
        Err(VerifyBlockError::Reject(reject)) => (reject.reason.into_owned(), reject.transaction, reject.input),
        other => panic!("{other:?}"),
    }
}

fn regtest() -> Params {
    Params::new(Network::Regtest, None)
}

#[test]
fn facts_of_the_header() {
    let params = regtest();
    let (block, undo) = (block([]), undo(&[]));
    let known = HeaderFacts {
        bits: Some(block.header().bits),
        parent_time: Some(TIME - 600),
        median_time_past: Some(TIME - 1),
        now: Some(TIME.into()),
    };
    let with = |facts| {
        let position = BlockPosition {
            facts,
            ..BlockPosition::at_height(&params, HEIGHT)
        };
        verdict(&block, &undo, &position)
    };
    assert_eq!(with(known), Ok(()));
    assert_eq!(with(HeaderFacts::default()), Ok(()));
    let cases = [
        ("bad-diffbits", HeaderFacts { bits: Some(1), ..known }),
        (
            "time-too-old",
            HeaderFacts {
                median_time_past: Some(TIME),
                ..known
            },
        ),
        (
            "time-too-new",
            HeaderFacts {
                now: Some(i64::from(TIME) - 7_201),
                ..known
            },
        ),
    ];
    for (expected, facts) in cases {
        assert_eq!(reason(with(facts)).0, expected);
    }
    let elsewhere = verdict(&block, &undo, &BlockPosition::at_height(&params, HEIGHT + 1));
    assert_eq!(reason(elsewhere).0, "bad-cb-height");
}

/// A relative lock by time needs a median time past. Without it there is no verdict, whatever comes
/// after it in the block.
#[test]
fn a_lock_by_time_needs_the_time_of_its_coin() {
    let params = regtest();
    let mut locked = spend_any(outpoint(1), 1_000);
    locked.version = transaction::Version::TWO;
    locked.input[0].sequence = Sequence(BY_TIME | 2);
    let bad = spend_any(outpoint(2), 1_001);
    let (block, undo) = (block([locked, bad]), undo(&[&[coin(50, false)], &[coin(50, false)]]));
    let facts = HeaderFacts {
        median_time_past: Some(TIME - 100),
        ..HeaderFacts::default()
    };
    let check = |at: Option<u32>, facts| {
        let at = move |height| at.filter(|_| height == 49);
        let position = BlockPosition {
            facts,
            median_time_past: Some(&at),
            ..BlockPosition::at_height(&params, HEIGHT)
        };
        verdict(&block, &undo, &position)
    };
    assert_eq!(check(None, facts), Err(VerifyBlockError::UnknownMedianTime(49)));
    let locked = check(Some(TIME - 100 - 1_023), facts);
    assert_eq!(reason(locked), ("bad-txns-nonfinal".to_owned(), Some(1), None));
    let open = check(Some(TIME - 100 - 1_024), facts);
    assert_eq!(reason(open), ("bad-txns-in-belowout".to_owned(), Some(2), None));
    // Where nothing is known of the times, locks are not looked at.
    let unknown = check(None, HeaderFacts::default());
    assert_eq!(reason(unknown).0, "bad-txns-in-belowout");
}

/// Coins in block order say nothing of where they come from, and the block does.
#[test]
fn a_coin_is_spent_once_and_as_the_block_makes_it() {
    let params = regtest();
    let position = BlockPosition::at_height(&params, HEIGHT);
    let first = spend_any(outpoint(1), 900);
    let made = OutPoint::new(first.compute_txid(), 0);
    let second = spend_any(made, 800);
    let own = Coin {
        value: 900,
        ..coin(HEIGHT, false)
    };
    let chained = block([first.clone(), second.clone()]);
    assert_eq!(
        verdict(
            &chained,
            &undo(&[&[coin(1, false)], std::slice::from_ref(&own)]),
            &position
        ),
        Ok(())
    );
    // Undo data of old makes has no heights.
    let old = Coin {
        height: 0,
        ..own.clone()
    };
    assert_eq!(
        verdict(&chained, &undo(&[&[coin(1, false)], &[old]]), &position),
        Ok(())
    );
    let missing = |transaction, input| (MISSING.to_owned(), Some(transaction), Some(input));
    for wrong in [
        Coin {
            value: 901,
            ..own.clone()
        },
        Coin {
            height: HEIGHT - 1,
            ..own.clone()
        },
        Coin {
            is_coinbase: true,
            ..own.clone()
        },
        Coin {
            script_pubkey: [0x52].into(),
            ..own.clone()
        },
    ] {
        let found = verdict(&chained, &undo(&[&[coin(1, false)], &[wrong]]), &position);
        assert_eq!(reason(found), missing(2, 0));
    }
    let mut twice = spend_any(outpoint(2), 700);
    twice.input.push(first.input[0].clone());
    let coins = undo(&[&[coin(1, false)], &[coin(1, false), coin(1, false)]]);
    assert_eq!(
        reason(verdict(&block([first.clone(), twice]), &coins, &position)),
        missing(2, 1)
    );
    let other_output = spend_any(OutPoint { vout: 1, ..made }, 800);
    let found = verdict(
        &block([first.clone(), other_output.clone()]),
        &undo(&[&[coin(1, false)], std::slice::from_ref(&own)]),
        &position,
    );
    assert_eq!(reason(found), missing(2, 0));
    // Before the transaction that makes it, or an output that this one does not make.
    for (early, heights) in [
        (second, [0, 1, HEIGHT - 1, HEIGHT, HEIGHT + 1]),
        (other_output, [0, 1, 50, 99, 100]),
    ] {
        for height in heights {
            let given = Coin { height, ..own.clone() };
            let coins = undo(&[&[given], &[coin(1, false)]]);
            let found = verdict(&block([early.clone(), first.clone()]), &coins, &position);
            assert_eq!(reason(found), missing(1, 0), "{height}");
        }
    }
}

/// The verdict with these coins in block order, and by outpoint.
fn in_both_forms(
    block: &Arc<Block>,
    coins: &[Coin],
    position: &BlockPosition<'_>,
) -> [Result<(), VerifyBlockError>; 2] {
    let spending = block.transactions().skip(1);
    let outpoints = spending.flat_map(|transaction| transaction.inputs().map(|input| input.previous_output()));
    let by_outpoint: HashMap<_, _> = outpoints.zip(coins.iter().cloned()).collect();
    let mut undo = BlockUndo::default();
    let mut left = coins.iter();
    for index in 1..block.transaction_count() {
        for coin in left.by_ref().take(block.input_range(index).len()) {
            undo.push_coin(CoinRef::from(coin));
        }
        undo.end_transaction();
    }
    let mut lookup = |outpoint: &blockmill_block::OutPoint| Ok::<_, Infallible>(by_outpoint.get(outpoint).cloned());
    let found = validator().validate_block(block, GivenCoins::Lookup(&mut lookup), position);
    [verdict(block, &undo.into(), position), found.map(drop)]
}

/// The lock of a coin that the block makes counts from its parent, whose time is known.
#[test]
fn a_lock_by_time_of_an_own_coin_needs_no_other_time() {
    let params = regtest();
    let facts = HeaderFacts {
        median_time_past: Some(TIME - 100),
        ..HeaderFacts::default()
    };
    let position = BlockPosition {
        facts,
        ..BlockPosition::at_height(&params, HEIGHT)
    };
    let first = spend_any(outpoint(1), 900);
    let made = OutPoint::new(first.compute_txid(), 0);
    let found = |units: u32| {
        let mut locked = spend_any(made, 800);
        locked.version = transaction::Version::TWO;
        locked.input[0].sequence = Sequence(BY_TIME | units);
        let own = Coin {
            value: 900,
            ..coin(HEIGHT, false)
        };
        in_both_forms(&block([first.clone(), locked]), &[coin(50, false), own], &position)
    };
    assert_eq!(found(0), [Ok(()), Ok(())]);
    for found in found(1) {
        assert_eq!(reason(found), ("bad-txns-nonfinal".to_owned(), Some(2), None));
    }
}

/// A coin that the block does not make itself is of a lower block.
#[test]
fn a_coin_is_of_a_lower_height_than_the_block() {
    let params = regtest();
    let position = BlockPosition::at_height(&params, HEIGHT);
    let spending = block([spend_any(outpoint(1), 900)]);
    for is_coinbase in [false, true] {
        for height in [HEIGHT, HEIGHT + 1, HEIGHT + 100, (1 << 31) - 1] {
            for found in in_both_forms(&spending, &[coin(height, is_coinbase)], &position) {
                assert_eq!(reason(found), (MISSING.to_owned(), Some(1), Some(0)), "{height}");
            }
        }
        for height in [0, 1, HEIGHT - 100] {
            let found = in_both_forms(&spending, &[coin(height, is_coinbase)], &position);
            assert_eq!(found, [Ok(()), Ok(())], "{height}");
        }
    }
    let found = in_both_forms(&spending, &[coin(HEIGHT - 1, false)], &position);
    assert_eq!(found, [Ok(()), Ok(())]);
}

/// By outpoint, too, where a coin that the block makes is given at all.
#[test]
fn an_own_coin_by_outpoint_is_as_the_block_makes_it() {
    let params = regtest();
    let first = spend_any(outpoint(1), 900);
    let made = OutPoint::new(first.compute_txid(), 0);
    let second = spend_any(made, 800);
    let chained = block([first.clone(), second.clone()]);
    let own = Coin {
        value: 900,
        ..coin(HEIGHT, false)
    };
    let with = |own: &Coin, overwriting| {
        let position = BlockPosition {
            overwriting,
            ..BlockPosition::at_height(&params, HEIGHT)
        };
        let [_, by_outpoint] = in_both_forms(&chained, &[coin(1, false), own.clone()], &position);
        by_outpoint
    };
    let allowed = Some(Overwriting::Allowed);
    assert_eq!(with(&own, None), Ok(()));
    assert_eq!(with(&own, allowed), Ok(()));
    let bip30 = ("bad-txns-BIP30".to_owned(), Some(1), None);
    let missing = |transaction| (MISSING.to_owned(), Some(transaction), Some(0));
    for wrong in [
        Coin {
            value: 901,
            ..own.clone()
        },
        Coin {
            height: HEIGHT + 1,
            ..own.clone()
        },
        Coin {
            is_coinbase: true,
            ..own.clone()
        },
        Coin {
            script_pubkey: [0x52].into(),
            ..own.clone()
        },
    ] {
        assert_eq!(reason(with(&wrong, None)), bip30);
        assert_eq!(reason(with(&wrong, allowed)), missing(2));
    }
    // A coin that was there before is overwritten.
    let before = Coin {
        height: HEIGHT - 1,
        ..own.clone()
    };
    assert_eq!(reason(with(&before, None)), bip30);
    assert_eq!(with(&before, allowed), Ok(()));
    // It is never there before the transaction that makes it.
    let position = BlockPosition {
        overwriting: allowed,
        ..BlockPosition::at_height(&params, HEIGHT)
    };
    for own in [own, before] {
        for found in in_both_forms(
            &block([second.clone(), first.clone()]),
            &[own, coin(1, false)],
            &position,
        ) {
            assert_eq!(reason(found), missing(1));
        }
    }
}

/// The coin of the block's own coinbase is as young as can be, also where the list has no height.
#[test]
fn an_own_coinbase_is_never_mature() {
    let params = regtest();
    let plain = block([]);
    let coinbase = plain.transaction(0);
    let txid = bitcoin::Txid::from_byte_array(coinbase.txid().0);
    let spending = block([spend_any(OutPoint::new(txid, 0), 1)]);
    // No witness, so the coinbase is the same.
    assert_eq!(spending.transaction(0).txid(), coinbase.txid());
    let output = coinbase.output(0);
    for height in [0, HEIGHT] {
        let coin = Coin {
            value: output.value(),
            height,
            is_coinbase: true,
            script_pubkey: output.script_pubkey().into(),
        };
        let found = verdict(&spending, &undo(&[&[coin]]), &BlockPosition::at_height(&params, HEIGHT));
        let expected = "bad-txns-premature-spend-of-coinbase".to_owned();
        assert_eq!(reason(found), (expected, Some(1), Some(0)));
    }
}

#[test]
fn lists_that_do_not_fit() {
    let params = regtest();
    let position = BlockPosition::at_height(&params, HEIGHT);
    let block = block([spend_any(outpoint(1), 900)]);
    for coins in [
        undo(&[]),
        undo(&[&[]]),
        undo(&[&[coin(1, false), coin(1, false)]]),
        undo(&[&[coin(1, false)], &[]]),
    ] {
        assert_eq!(reason(verdict(&block, &coins, &position)).0, MISSING);
    }
    assert_eq!(verdict(&block, &undo(&[&[coin(1, false)]]), &position), Ok(()));
    let young = undo(&[&[coin(HEIGHT - 99, true)]]);
    let premature = "bad-txns-premature-spend-of-coinbase";
    assert_eq!(reason(verdict(&block, &young, &position)).0, premature);
    // A coin without a height counts as mature.
    assert_eq!(verdict(&block, &undo(&[&[coin(0, true)]]), &position), Ok(()));
}

/// A lookup is asked for what the block spends, and for what it would overwrite.
#[test]
fn what_a_lookup_is_asked_for() {
    let params = regtest();
    let first = spend_any(outpoint(1), 900);
    let made = OutPoint::new(first.compute_txid(), 0);
    let block = block([first, spend_any(made, 800)]);
    let mut asked = Vec::new();
    let mut lookup = |outpoint: &blockmill_block::OutPoint| {
        asked.push(*outpoint);
        Ok::<_, Infallible>((outpoint.txid.0 == [1; 32]).then(|| coin(1, false)))
    };
    let mut position = BlockPosition::at_height(&params, HEIGHT);
    let found = validator().validate_block(&block, GivenCoins::Lookup(&mut lookup), &position);
    assert_eq!(found.unwrap().fees, 200);
    assert_eq!(asked.len(), 5);
    position.overwriting = Some(Overwriting::Allowed);
    asked.clear();
    let mut lookup = |outpoint: &blockmill_block::OutPoint| {
        asked.push(*outpoint);
        Ok::<_, Infallible>(Some(coin(1, false)))
    };
    let found = validator().validate_block(&block, GivenCoins::Lookup(&mut lookup), &position);
    assert!(found.is_ok());
    assert_eq!(asked.len(), 2);
    // All coins are there, so the block overwrites its own.
    position.overwriting = None;
    let mut lookup = |_: &blockmill_block::OutPoint| Ok::<_, Infallible>(Some(coin(1, false)));
    let found = validator().validate_block(&block, GivenCoins::Lookup(&mut lookup), &position);
    assert_eq!(reason(found.map(drop)), ("bad-txns-BIP30".to_owned(), Some(0), None));
}

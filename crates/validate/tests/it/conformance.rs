//! The known full-block tests: Core's verdicts, with given coins.

use crate::conformance_rows::judged;
use crate::given_chain::Given;
use blockmill_block::{Coin, CoinList, CoinRef, Network, OutPoint};
use blockmill_rules::Params;
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{CollectedCoins, KnownChain, Validator, ValidatorOptions, VerifyBlockError};

fn validator(threads: usize, lanes: bool) -> Validator<CoreVerifier> {
    let way = if lanes { Signatures::Lanes } else { Signatures::OneByOne };
    let options = ValidatorOptions { threads, lanes };
    Validator::new(CoreVerifier::new(way).into(), options).unwrap()
}

#[test]
fn verdicts_are_those_of_core() {
    let mut first = None;
    for (threads, lanes) in [(1, false), (2, true), (1, true)] {
        let Some(rows) = judged(&mut validator(threads, lanes)) else {
            return;
        };
        let verdicts: Vec<Given> = rows.into_iter().map(|row| row.verdict).collect();
        assert_eq!(*first.get_or_insert_with(|| verdicts.clone()), verdicts);
    }
}

/// With the coins in block order the verdicts are the same, but where a coin does not exist: then
/// there is no list of coins.
#[test]
fn with_coins_in_block_order() {
    let mut validator = validator(1, false);
    let Some(rows) = judged(&mut validator) else {
        return;
    };
    let params = Params::new(Network::Regtest, None);
    let mut judged = 0;
    for row in rows {
        let Some(given) = &row.given else { continue };
        assert_eq!(given.block.bytes(), row.bytes);
        let mut list = CoinList::default();
        let mut own = given.coins.clone();
        for (index, transaction) in given.block.transactions().enumerate() {
            let txid = transaction.txid();
            for input in transaction.inputs().filter(|_| index > 0) {
                if let Some(coin) = own.get(&input.previous_output()) {
                    list.push(CoinRef::from(coin));
                }
            }
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let coin = Coin {
                    value: output.value(),
                    height: given.height,
                    is_coinbase: index == 0,
                    script_pubkey: output.script_pubkey().into(),
                };
                own.insert(OutPoint { txid, vout }, coin);
            }
        }
        let chain = KnownChain {
            facts: given.facts,
            median_times: (0..).zip(given.median_times.iter().copied()).collect(),
            ..KnownChain::at_height(params.clone(), given.height)
        };
        let coins = CollectedCoins::InOrder(list);
        let found = match validator.validate_collected(&given.block, &coins, &chain) {
            Ok(_) => "valid".to_owned(),
            Err(VerifyBlockError::Reject(reject)) => reject.reason.into_owned(),
            Err(error) => panic!("{}: {error}", row.name),
        };
        let expected = match &row.verdict {
            Given::Valid => "valid",
            // It shows in a set alone.
            Given::Invalid(reason, ..) if reason == "bad-txns-BIP30" => continue,
            Given::Invalid(reason, ..) => reason,
            other => panic!("{}: {other:?}", row.name),
        };
        assert_eq!(found, expected, "{}", row.name);
        judged += 1;
    }
    assert!(judged > 180);
}

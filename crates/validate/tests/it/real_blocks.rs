//! Real blocks with their undo data.

use blockmill_block::{Coin, OutPoint};
use blockmill_realdata::{SingleBlock, real_blocks};
use blockmill_rules::{Params, SpentOutput};
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{BlockPosition, GivenCoins, Validator, ValidatorOptions, VerifyBlockError};
use std::collections::HashMap;
use std::convert::Infallible;

fn lanes(threads: usize) -> Validator<CoreVerifier> {
    let options = ValidatorOptions { threads, lanes: true };
    Validator::new(CoreVerifier::new(Signatures::Lanes).into(), options).unwrap()
}

/// Coins in block order, and found by outpoint: the same figures. One coin less, and the input that
/// has none is named.
#[test]
fn are_valid() {
    let (mut one, mut two) = (lanes(1), lanes(2));
    for SingleBlock {
        name,
        network,
        height,
        block,
        undo,
        ..
    } in &real_blocks()
    {
        let params = Params::new(*network, None);
        let position = BlockPosition::at_height(&params, *height);
        let coins: GivenCoins<'_> = GivenCoins::InOrder(undo);
        let in_order = one.validate_block(block, coins, &position).unwrap();
        assert!(in_order.lanes && in_order.inputs == undo.coins().len() as u64, "{name}");

        let mut coins: HashMap<OutPoint, Coin> = HashMap::new();
        for (index, transaction) in block.transactions().enumerate().skip(1) {
            let outpoints = transaction.inputs().map(|input| input.previous_output());
            coins.extend(outpoints.zip(undo.transaction(index - 1).iter().map(|coin| coin.to_coin())));
        }
        // They are the coins before the block.
        for transaction in block.transactions() {
            let txid = transaction.txid();
            coins.retain(|outpoint, _| outpoint.txid != txid);
        }
        let mut last = None;
        let mut lookup = |outpoint: &OutPoint| {
            let coin = coins.get(outpoint).cloned();
            last = coin.is_some().then_some(*outpoint).or(last);
            Ok::<_, Infallible>(coin)
        };
        let looked_up = two.validate_block(block, GivenCoins::Lookup(&mut lookup), &position);
        assert_eq!(looked_up.unwrap(), in_order, "{name}");

        let last = last.expect("a coin");
        let mut lookup =
            |outpoint: &OutPoint| Ok::<_, Infallible>(coins.get(outpoint).filter(|_| *outpoint != last).cloned());
        match one.validate_block(block, GivenCoins::Lookup(&mut lookup), &position) {
            Err(VerifyBlockError::Reject(reject)) => {
                assert_eq!(reject.reason, "bad-txns-inputs-missingorspent", "{name}");
                let input = block
                    .transaction(reject.transaction.unwrap())
                    .input(reject.input.unwrap());
                assert_eq!(input.previous_output(), last, "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let mut failing = |_: &OutPoint| Err("no database");
        let failed = one.validate_block(block, GivenCoins::Lookup(&mut failing), &position);
        assert_eq!(failed, Err(VerifyBlockError::Coins("no database")), "{name}");
    }
}

/// Each transaction by itself, in lanes and without.
#[test]
fn have_valid_transactions() {
    let mut validators = [
        lanes(1),
        Validator::new(
            CoreVerifier::new(Signatures::OneByOne).into(),
            ValidatorOptions::default(),
        )
        .unwrap(),
    ];
    for SingleBlock {
        name,
        network,
        height,
        block,
        undo,
        ..
    } in real_blocks().iter().filter(|block| block.undo.coins().len() < 2_000)
    {
        let params = Params::new(*network, None);
        let flags = BlockPosition::at_height(&params, *height).script_flags(&block.hash());
        for (index, transaction) in block.transactions().enumerate().skip(1) {
            let coins = undo.transaction(index - 1);
            let spent: Vec<_> = coins
                .iter()
                .map(|coin| SpentOutput {
                    value: coin.value,
                    script_pubkey: coin.script_pubkey,
                })
                .collect();
            for validator in &mut validators {
                let verdict = validator.verify_transaction(transaction.raw(), &spent, flags);
                assert_eq!(verdict, Ok(()), "{name}, transaction {index}");
            }
        }
    }
}

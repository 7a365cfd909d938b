//! The scripts of one transaction.

use blockmill_block::{Block, Coin, Network, OutPoint};
use blockmill_chaingen::bitcoin::consensus::{deserialize, serialize};
use blockmill_chaingen::{ChainSpec, Profile, bitcoin, generate};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, ScriptFlags, SpentOutput};
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{Validator, ValidatorOptions, VerifyTransactionError};
use std::collections::HashMap;

/// A transaction and the coins that it spends.
struct Sample {
    bytes: Vec<u8>,
    coins: Vec<Coin>,
    flags: ScriptFlags,
}

/// Transactions with several inputs, of a signed chain.
fn samples() -> Vec<Sample> {
    let spec = ChainSpec {
        inputs: 1_500,
        ..ChainSpec::new(Profile::Mixed, 112, 7)
    };
    let params = Params::new(Network::Regtest, None);
    let mut coins: HashMap<OutPoint, Coin> = HashMap::new();
    let mut samples = Vec::new();
    let mut take = |height: u32, bytes: &[u8]| {
        let block = Block::decode(bytes.to_vec()).unwrap();
        for (index, transaction) in block.transactions().enumerate() {
            if index > 0 {
                let spent = transaction
                    .inputs()
                    .map(|input| coins.remove(&input.previous_output()).unwrap());
                samples.push(Sample {
                    bytes: transaction.raw().to_vec(),
                    coins: spent.collect(),
                    flags: block_script_flags(&params, height, &block.hash()),
                });
            }
            let txid = transaction.txid();
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let coin = Coin {
                    value: output.value(),
                    height,
                    is_coinbase: index == 0,
                    script_pubkey: output.script_pubkey().into(),
                };
                coins.insert(OutPoint { txid, vout }, coin);
            }
        }
        Ok(())
    };
    generate(&spec, &mut take, &mut |_| ()).unwrap();
    samples.retain(|sample| sample.coins.len() > 1);
    assert!(samples.len() >= 20, "{}", samples.len());
    samples
}

fn validators() -> [Validator<CoreVerifier>; 2] {
    [Signatures::OneByOne, Signatures::Lanes].map(|way| {
        let lanes = way == Signatures::Lanes;
        Validator::new(CoreVerifier::new(way).into(), ValidatorOptions { threads: 1, lanes }).unwrap()
    })
}

fn spent(coins: &[Coin]) -> Vec<SpentOutput<'_>> {
    let spent = coins.iter().map(|coin| SpentOutput {
        value: coin.value,
        script_pubkey: &coin.script_pubkey,
    });
    spent.collect()
}

#[test]
fn the_lowest_input_that_fails_is_named() {
    let mut validators = validators();
    for sample in samples() {
        for validator in &mut validators {
            let verdict = validator.verify_transaction(&sample.bytes, &spent(&sample.coins), sample.flags);
            assert_eq!(verdict, Ok(()));
        }
        let mut transaction: bitcoin::Transaction = deserialize(&sample.bytes).unwrap();
        // What is signed changes for all inputs, so the first that is signed at all fails.
        transaction.lock_time = bitcoin::absolute::LockTime::from_consensus(1);
        let bytes = serialize(&transaction);
        let verdicts = validators
            .each_mut()
            .map(|validator| validator.verify_transaction(&bytes, &spent(&sample.coins), sample.flags));
        assert_eq!(verdicts[0], verdicts[1]);
        // One input in the middle, with a script that always fails.
        let mut coins = sample.coins.clone();
        let middle = coins.len() / 2;
        coins[middle].script_pubkey = [0x6a].into();
        let has_taproot = coins.iter().any(|coin| coin.script_pubkey.starts_with(&[0x51, 32]));
        for validator in &mut validators {
            let verdict = validator.verify_transaction(&sample.bytes, &spent(&coins), sample.flags);
            match verdict {
                // A signature of Taproot covers the scripts of all spent outputs.
                Err(VerifyTransactionError::Script(input)) if has_taproot => assert!(input <= middle),
                verdict => assert_eq!(verdict, Err(VerifyTransactionError::Script(middle))),
            }
        }
    }
}

#[test]
fn threads_have_a_limit() {
    let threads = |threads| {
        let options = ValidatorOptions { threads, lanes: false };
        Validator::new(CoreVerifier::new(Signatures::OneByOne).into(), options).is_ok()
    };
    assert!(threads(0) && threads(2) && !threads(usize::MAX));
}

#[test]
fn what_is_no_transaction_with_its_coins() {
    let sample = &samples()[0];
    for mut validator in validators() {
        let coins = spent(&sample.coins);
        for (bytes, coins) in [
            (&sample.bytes[..], &coins[1..]),
            (&sample.bytes[1..], &coins[..]),
            (&[][..], &coins[..]),
            (&[][..], &[][..]),
        ] {
            let verdict = validator.verify_transaction(bytes, coins, sample.flags);
            assert!(
                matches!(verdict, Err(VerifyTransactionError::Verifier(_))),
                "{verdict:?}"
            );
        }
        let unfit = validator.verify_transaction(&sample.bytes, &coins, ScriptFlags(1 << 30));
        assert!(matches!(unfit, Err(VerifyTransactionError::Verifier(_))), "{unfit:?}");
    }
}

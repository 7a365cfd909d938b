//! Signatures of all common kinds, each spoilt in every part. The verdict names the input.

use super::scenario::Scenario;
use crate::common::keys::{Lock, Signer, Spoil, sign};
use crate::common::{SUBSIDY, outpoint, output, output_to, spend_into};
use bitcoin::{Amount, Block, Transaction};
use blockmill_chaingen::builder::spend_any;

const REASON: &str = "block-script-verify-flag-failed";

/// Connects a block with a transaction that pays `times` times to every lock.
fn pay_to_all(scenario: &mut Scenario, times: usize) -> Transaction {
    let count = times * Lock::ALL.len();
    let outputs = Lock::ALL.iter().cycle().take(count);
    let value = SUBSIDY / count as u64;
    let outputs = outputs.map(|lock| output_to(value, lock.script_pubkey())).collect();
    let payment = spend_into(scenario.coin(), outputs);
    scenario.good(
        "coins that keys lock",
        scenario.next().transaction(payment.clone()).build(),
    );
    scenario.signed = true;
    payment
}

/// A transaction that spends all outputs of another.
fn spend_all(payment: &Transaction, signer: Signer) -> Transaction {
    let count = payment.output.len() as u32;
    let inputs = (0..count).map(|vout| spend_any(outpoint(payment, vout), 0).input.remove(0));
    let mut transaction = spend_any(outpoint(payment, 0), SUBSIDY / 2);
    transaction.input = inputs.collect();
    sign(&mut transaction, &payment.output, signer);
    transaction
}

/// A transaction with one signature spoilt, or `None` if there is nothing to spoil.
fn spoilt(good: &Transaction, input: usize, index: usize, spoil: Spoil) -> Option<Transaction> {
    let lock = Lock::ALL[input % Lock::ALL.len()];
    let mut elements = lock.elements(good, input);
    let bit = 7 * input + 100 * index + 3;
    spoil.apply(lock, &mut elements, index, bit).then(|| {
        let mut transaction = good.clone();
        lock.set_elements(&mut transaction, input, &elements);
        transaction
    })
}

pub(crate) fn describe(scenario: &mut Scenario) {
    let payment = pay_to_all(scenario, 1);
    let good = spend_all(&payment, Signer::Owner);
    let block = |scenario: &Scenario, transaction: &Transaction| -> Block {
        scenario.next().transaction(transaction.clone()).build()
    };
    let strange = block(scenario, &spend_all(&payment, Signer::Stranger));
    scenario.rejected_at(REASON, (1, 0), "keys of others", &strange);
    // What was signed is not what is there.
    let mut other = good.clone();
    other.output[0].value += Amount::ONE_SAT;
    let other = block(scenario, &other);
    scenario.rejected_at(REASON, (1, 0), "another message", &other);
    let mut cases = 0;
    for (input, lock) in Lock::ALL.into_iter().enumerate() {
        for index in lock.signatures() {
            for spoil in Spoil::ALL {
                let Some(bad) = spoilt(&good, input, index, spoil) else {
                    continue;
                };
                if spoil == Spoil::Negated && !lock.is_schnorr() {
                    continue;
                }
                cases += 1;
                let bad = block(scenario, &bad);
                let name = format!("{lock:?}, signature {index}, {spoil:?}");
                scenario.rejected_at(REASON, (1, input), name, &bad);
            }
        }
    }
    assert!(cases > 70, "{cases}");
    // All in one: an s above half of the order is no fault in a block.
    let mut negated = good.clone();
    for (input, lock) in Lock::ALL.into_iter().enumerate() {
        for index in lock.signatures() {
            if !lock.is_schnorr() {
                negated = spoilt(&negated, input, index, Spoil::Negated).unwrap();
            }
        }
    }
    assert_ne!(negated, good);
    let negated = block(scenario, &negated);
    scenario.good("large s", negated);
}

/// Several signatures of large transactions are wrong: the lowest is named.
pub(crate) fn describe_lowest(scenario: &mut Scenario) {
    let payments = [pay_to_all(scenario, 10), pay_to_all(scenario, 10)];
    let good = payments.each_ref().map(|payment| spend_all(payment, Signer::Owner));
    // Not from the same coin, and in a block of its own transaction.
    let anyone = spend_into(scenario.coin(), vec![output(1)]);
    let block = |scenario: &Scenario, one: &[usize], two: &[usize]| {
        let spoil = |good: &Transaction, inputs: &[usize]| {
            inputs.iter().fold(good.clone(), |bad, &input| {
                let index = Lock::ALL[input % Lock::ALL.len()].signatures().start;
                spoilt(&bad, input, index, Spoil::S).unwrap()
            })
        };
        scenario
            .next()
            .transaction(spoil(&good[0], one))
            .transaction(anyone.clone())
            .transaction(spoil(&good[1], two))
            .build()
    };
    for (blamed, one, two) in [
        ((1, 0), &[0, 79][..], &[][..]),
        ((1, 79), &[79], &[0]),
        ((1, 37), &[37, 38, 39, 40], &[1, 2]),
        ((3, 5), &[], &[5, 30]),
        ((3, 79), &[], &[79]),
    ] {
        let bad = block(scenario, one, two);
        scenario.rejected_at(REASON, blamed, "signatures of many inputs", &bad);
    }
    let good = block(scenario, &[], &[]);
    scenario.good("no signature is wrong", good);
}

//! What is done to transactions: amounts, inputs and locks, scripts and sizes.

use super::candidate::{Candidate, Fraud, Kind};
use super::mutations::{Change, any_index, with_transaction};
use super::random::Random;
use super::tree::Tree;
use crate::common::keys::Spoil;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Txid, Witness, absolute};
use blockmill_chaingen::builder::spend_any;

const MAX_MONEY: u64 = 2_100_000_000_000_000;

pub(crate) const AMOUNTS: &[(&str, Change)] = &[
    ("negative output", |candidate, _, random| {
        change_output(candidate, random, |_, _| u64::MAX);
    }),
    ("too large output", |candidate, _, random| {
        change_output(candidate, random, |_, random| MAX_MONEY + random.below(2));
    }),
    ("too large total", too_large_total),
    ("output by a satoshi", |candidate, _, random| {
        change_output(candidate, random, |value, random| {
            value.wrapping_add(random.below(3)).saturating_sub(1)
        });
    }),
    ("all to outputs", all_to_outputs),
    ("all to outputs", all_to_outputs),
    ("no outputs", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, _| transaction.output.clear());
    }),
];

pub(crate) const INPUTS: &[(&str, Change)] = &[
    ("no inputs", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, _| transaction.input.clear());
    }),
    ("input twice", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, _| {
            let copy = transaction.input.first().cloned();
            transaction.input.extend(copy);
        });
    }),
    ("null input", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, _| {
            let mut copy = transaction.input[0].clone();
            copy.previous_output = OutPoint::null();
            transaction.input.push(copy);
        });
    }),
    ("input missing", input_missing),
    ("young coinbase", spend_young),
    ("young coinbase", spend_young),
    ("lock time", lock_time),
    ("sequence", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, random| {
            transaction.input[0].sequence = Sequence::from_consensus(sequence(random));
        });
    }),
    ("relative lock in the block", |candidate, _, random| {
        if let Some(transaction) = candidate.block.txdata.last_mut() {
            transaction.input[0].sequence = Sequence::from_consensus(random.below(2) as u32);
        }
    }),
    ("transaction version", |candidate, _, random| {
        with_transaction(candidate, random, |transaction, random| {
            transaction.version.0 = random.pick(&[-1, 0, 1, 2, 3]);
        });
    }),
];

pub(crate) const SCRIPTS: &[(&str, Change)] = &[
    ("script", script),
    ("witness", |candidate, _, random| {
        candidate.sign = false;
        with_transaction(candidate, random, |transaction, random| {
            let item = vec![random.below(256) as u8; random.pick(&[0, 1, 64, 65])];
            transaction.input[0].witness = Witness::from_slice(&[item]);
        });
    }),
    ("many sigops", |candidate, _, random| {
        let count = random.pick(&[19_999, 20_000, 20_001, 25_000]);
        with_transaction(candidate, random, |transaction, _| {
            transaction.output[0].script_pubkey = ScriptBuf::from_bytes(vec![0xac; count]);
        });
    }),
    ("too long", |candidate, _, random| {
        let length = random.pick(&[900_000, 1_000_100]);
        let last = candidate.block.txdata.len() - 1;
        let index = if random.one_in(2) { 0 } else { last };
        candidate.block.txdata[index].output[0].script_pubkey = ScriptBuf::from_bytes(vec![0x6a; length]);
    }),
    ("too heavy", |candidate, _, random| {
        let length = random.pick(&[3_900_000, 3_999_500, 4_000_100]);
        candidate.sign = false;
        with_transaction(candidate, random, |transaction, _| {
            transaction.input[0].witness = Witness::from_slice(&[vec![1; length]]);
        });
    }),
];

pub(crate) const SIGNATURES: &[(&str, Change)] = &[
    ("signature", signature),
    ("signature", signature),
    ("signature", signature),
    ("signature", signature),
    ("keys of others", |candidate, _, random| {
        let index = any_index(candidate, random);
        candidate.frauds.push((index, Fraud::Stranger));
    }),
    ("another message", |candidate, _, random| {
        let index = any_index(candidate, random);
        candidate.frauds.push((index, Fraud::Message));
    }),
];

/// Spoils one signature, whatever its part, or leaves it as good as it was.
fn signature(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    let locked: Vec<_> = candidate
        .spends
        .iter()
        .enumerate()
        .flat_map(|(index, spends)| (0..spends.len()).map(move |input| (index, input)))
        .filter_map(|(index, input)| match candidate.spends[index][input].kind {
            Kind::Locked(lock) => Some((index + 1, input, lock)),
            _ => None,
        })
        .collect();
    if locked.is_empty() {
        return;
    }
    let (index, input, lock) = random.pick(&locked);
    candidate.sign = true;
    let fraud = Fraud::Spoil {
        input,
        element: lock.signatures().start + random.below(lock.signatures().len() as u64) as usize,
        bit: random.below(1 << 12) as usize,
        spoil: random.pick(&Spoil::ALL),
    };
    candidate.frauds.push((index, fraud));
}

fn change_output(candidate: &mut Candidate, random: &mut Random, value: fn(u64, &mut Random) -> u64) {
    with_transaction(candidate, random, |transaction, random| {
        let output = &mut transaction.output[0];
        output.value = Amount::from_sat(value(output.value.to_sat(), random));
    });
}

fn too_large_total(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    with_transaction(candidate, random, |transaction, _| {
        transaction.output[0].value = Amount::from_sat(MAX_MONEY);
        if let Some(output) = transaction.output.get_mut(1) {
            output.value = Amount::ONE_SAT;
        }
    });
}

/// One output with all that the inputs have, or one satoshi more.
fn all_to_outputs(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    let count = candidate.block.txdata.len().min(candidate.spends.len() + 1) as u64;
    if count > 1 {
        let index = 1 + random.below(count - 1) as usize;
        let total: u64 = candidate.spends[index - 1].iter().map(|spend| spend.value).sum();
        let transaction = &mut candidate.block.txdata[index];
        transaction.output.truncate(1);
        transaction.output[0].value = Amount::from_sat(total + random.below(2));
    }
}

fn input_missing(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    with_transaction(candidate, random, |transaction, random| {
        let outpoint = &mut transaction.input[0].previous_output;
        if random.one_in(2) {
            outpoint.vout ^= 8;
        } else {
            outpoint.txid = Txid::from_byte_array([random.below(200) as u8; 32]);
        }
    });
}

/// Spends a coinbase with 98 to 101 confirmations, or with one.
fn spend_young(candidate: &mut Candidate, tree: &Tree, random: &mut Random) {
    let confirmations = random.pick(&[1, 98, 99, 100, 101]);
    let anyone = tree
        .coinbase_coins(confirmations)
        .iter()
        .find(|coin| coin.kind == Kind::Any);
    if let Some(coin) = anyone {
        candidate.block.txdata.push(spend_any(coin.outpoint, coin.value));
    }
}

fn lock_time(candidate: &mut Candidate, tree: &Tree, random: &mut Random) {
    let height = candidate.height;
    let median = tree.median_time_past(candidate.parent);
    let times = [height - 1, height, height + 1, median - 1, median, 499_999_999];
    with_transaction(candidate, random, |transaction, random| {
        transaction.lock_time = absolute::LockTime::from_consensus(random.pick(&times));
    });
}

/// A sequence number near the boundaries of relative locks.
fn sequence(random: &mut Random) -> u32 {
    let blocks = random.pick(&[0, 1, 2, 3, 104, 105, 106, 107, 108, 0xffff]);
    match random.below(5) {
        0 => 1 << 31 | blocks,
        1 => 1 << 22 | blocks,
        2 => 1 << 22 | random.pick(&[120, 122, 123, 124, 125, 126]),
        3 => u32::MAX - random.below(2) as u32,
        _ => blocks,
    }
}

fn script(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    candidate.sign = random.one_in(2);
    let scripts = [&[0x00][..], &[0x6a], &[0x51, 0x69], &[0xac], &[1], &[2, 0x51]];
    with_transaction(candidate, random, |transaction, random| {
        transaction.input[0].script_sig = ScriptBuf::from_bytes(random.pick(&scripts).to_vec());
    });
}

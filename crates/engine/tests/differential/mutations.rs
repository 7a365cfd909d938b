//! What is done to blocks.

use crate::candidate::Candidate;
use crate::random::Random;
use crate::world::{Spendable, World};
use blockmill_chaingen::bitcoin::block::Version;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{
    Amount, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxMerkleNode, Txid, Witness, absolute,
};
use blockmill_chaingen::builder::spend_any;
use std::time::{SystemTime, UNIX_EPOCH};

const MAX_MONEY: u64 = 2_100_000_000_000_000;

type Mutation = (&'static str, fn(&mut Candidate, &World, &mut Random));

/// Applies a mutation chosen at random, and returns its name.
pub(crate) fn apply(candidate: &mut Candidate, world: &World, random: &mut Random) -> &'static str {
    let (name, change) = random.pick(&MUTATIONS);
    change(candidate, world, random);
    name
}

#[rustfmt::skip]
const MUTATIONS: [Mutation; 50] = [
    ("version", |c, _, r| c.block.header.version = Version::from_consensus(r.pick(&[-1, 0, 1, 2, 3, 4, 5]))),
    ("parent unknown", |c, _, r| c.block.header.prev_blockhash = World::unknown_hash(r)),
    ("merkle root", |c, _, r| { c.block.header.merkle_root = TxMerkleNode::from_byte_array([r.below(9) as u8; 32]); c.repair = false; mine(c); }),
    ("median time", |c, w, r| c.block.header.time = w.median_time_past(c.parent) + r.below(2) as u32),
    ("time zero", |c, _, _| c.block.header.time = 0),
    ("future", |c, _, r| c.block.header.time = clock() + r.pick(&[7_100, 7_300, 1_000_000])),
    ("bits", |c, _, r| c.block.header.bits = CompactTarget::from_consensus(r.pick(&[0x207f_fffe, 0x2000_ffff, 0, 0x2100_7fff, 0x207f_ffff]))),
    ("no work", |c, _, _| { c.repair = false; }),
    ("empty", |c, _, _| c.block.txdata.clear()),
    ("no coinbase", |c, _, _| { if c.block.txdata.len() > 1 { c.block.txdata.remove(0); } }),
    ("two coinbases", |c, _, _| { let coinbase = c.block.txdata[0].clone(); c.block.txdata.push(coinbase); }),
    ("repeated end", |c, _, _| repeat_end(c)),
    ("order", |c, _, r| { let last = c.block.txdata.len() as u64; let (a, b) = (r.below(last), r.below(last)); c.block.txdata.swap(a as usize, b as usize); }),
    ("transaction dropped", |c, _, r| { let last = c.block.txdata.len() as u64; if last > 1 { c.block.txdata.remove(1 + r.below(last - 1) as usize); } }),
    ("transaction repeated", |c, _, r| { let last = c.block.txdata.len() as u64; let copy = c.block.txdata[r.below(last) as usize].clone(); c.block.txdata.push(copy); }),
    ("transaction confirmed before", |c, w, r| { if !w.confirmed.is_empty() { let place = r.below(w.confirmed.len() as u64) as usize; c.block.txdata.push(w.confirmed[place].clone()); } }),
    ("height", |c, _, r| coinbase_script(c, &height_script(c.height + r.below(3) as u32 - 1))),
    ("height in more bytes", |c, _, _| { let mut script = height_script(c.height); script[0] += 1; script.push(0); coinbase_script(c, &script) }),
    ("coinbase script length", |c, _, r| { let mut script = height_script(c.height); script.resize(r.pick(&[1, 2, 3, 99, 100, 101, 200]), 0); coinbase_script(c, &script) }),
    ("coinbase amount", |c, _, r| { let value = &mut c.block.txdata[0].output[0].value; *value = Amount::from_sat(value.to_sat().wrapping_add(r.below(10)).wrapping_sub(2)); }),
    ("coinbase amount", |c, _, r| { let value = &mut c.block.txdata[0].output[0].value; *value = Amount::from_sat(value.to_sat().wrapping_add(r.below(10))); }),
    ("reserved value", |c, _, r| { let length = r.pick(&[0, 31, 32, 33]); c.block.txdata[0].input[0].witness = Witness::from_slice(&[vec![1; length]]); }),
    ("reserved values", |c, _, r| { let count = r.below(4) as usize; c.block.txdata[0].input[0].witness = Witness::from_slice(&vec![[0; 32]; count]); }),
    ("commitment", |c, _, r| { c.repair = r.one_in(2); if let Some(output) = c.block.txdata[0].output.last_mut() { let mut bytes = output.script_pubkey.to_bytes(); if let Some(byte) = bytes.get_mut(10) { *byte ^= 1; } output.script_pubkey = ScriptBuf::from_bytes(bytes); } if !c.repair { keep_commitment(c); } }),
    ("commitment", |c, _, r| { c.repair = r.one_in(2); if let Some(output) = c.block.txdata[0].output.last_mut() { let mut bytes = output.script_pubkey.to_bytes(); if let Some(byte) = bytes.get_mut(10) { *byte ^= 1; } output.script_pubkey = ScriptBuf::from_bytes(bytes); } if !c.repair { keep_commitment(c); } }),
    ("no commitment", |c, _, r| { c.block.txdata[0].output.pop(); if r.one_in(2) { c.block.txdata[0].input[0].witness.clear(); } }),
    ("another commitment", |c, _, _| { let copy = c.block.txdata[0].output.last().cloned(); c.block.txdata[0].output.extend(copy); }),
    ("negative output", |c, _, r| change_output(c, r, |value, _| value.wrapping_sub(value).wrapping_sub(1))),
    ("too large output", |c, _, r| change_output(c, r, |_, r| MAX_MONEY + r.below(2))),
    ("too large total", |c, _, r| { change_output(c, r, |_, _| MAX_MONEY); with_transaction(c, r, |t, _| { if let Some(output) = t.output.first_mut() { output.value = Amount::from_sat(MAX_MONEY); } if let Some(output) = t.output.get_mut(1) { output.value = Amount::ONE_SAT; } }); }),
    ("output by a satoshi", |c, _, r| change_output(c, r, |value, r| value.wrapping_add(r.below(3)).saturating_sub(1))),
    ("all to outputs", |c, _, r| with_spends(c, r, |t, spends, r| { let total: u64 = spends.iter().map(|spend| spend.value).sum(); t.output.truncate(1); if let Some(output) = t.output.first_mut() { output.value = Amount::from_sat(total + r.below(2)); } })),
    ("all to outputs", |c, _, r| with_spends(c, r, |t, spends, r| { let total: u64 = spends.iter().map(|spend| spend.value).sum(); t.output.truncate(1); if let Some(output) = t.output.first_mut() { output.value = Amount::from_sat(total + r.below(2)); } })),
    ("no outputs", |c, _, r| with_transaction(c, r, |t, _| t.output.clear())),
    ("no inputs", |c, _, r| with_transaction(c, r, |t, _| t.input.clear())),
    ("input twice", |c, _, r| with_transaction(c, r, |t, _| { let copy = t.input.first().cloned(); t.input.extend(copy); })),
    ("null input", |c, _, r| with_transaction(c, r, |t, _| { let mut copy = t.input.first().cloned(); if let Some(copy) = &mut copy { copy.previous_output = OutPoint::null(); } t.input.extend(copy); })),
    ("input missing", |c, _, r| with_transaction(c, r, |t, r| { if let Some(input) = t.input.first_mut() { if r.one_in(2) { input.previous_output.vout ^= 8; } else { input.previous_output.txid = Txid::from_byte_array([r.below(200) as u8; 32]); } } })),
    ("young coinbase", |c, w, r| spend_young(c, w, r)),
    ("young coinbase", |c, w, r| spend_young(c, w, r)),
    ("lock time", |c, w, r| { let times = [c.height - 1, c.height, c.height + 1, w.median_time_past(c.parent) - 1, w.median_time_past(c.parent), 499_999_999]; with_transaction(c, r, |t, r| { t.lock_time = absolute::LockTime::from_consensus(r.pick(&times)); }) }),
    ("sequence", |c, _, r| with_transaction(c, r, |t, r| { let value = sequence(r); if let Some(input) = t.input.first_mut() { input.sequence = Sequence::from_consensus(value); } })),
    ("relative lock in the block", |c, _, r| { if let Some(t) = c.block.txdata.last_mut() { t.input[0].sequence = Sequence::from_consensus(r.below(2) as u32); } }),
    ("transaction version", |c, _, r| with_transaction(c, r, |t, r| t.version.0 = r.pick(&[-1, 0, 1, 2, 3]))),
    ("script", |c, _, r| { c.sign = r.one_in(2); with_transaction(c, r, |t, r| { if let Some(input) = t.input.first_mut() { input.script_sig = ScriptBuf::from_bytes(r.pick(&[&[0x00][..], &[0x6a], &[0x51, 0x69], &[0xac], &[1], &[2, 0x51]]).to_vec()); } }) }),
    ("witness", |c, _, r| { c.sign = false; with_transaction(c, r, |t, r| { if let Some(input) = t.input.first_mut() { input.witness = Witness::from_slice(&[vec![r.below(256) as u8; r.pick(&[0, 1, 64, 65])]]); } }) }),
    ("many sigops", |c, _, r| { let count = r.pick(&[19_999, 20_000, 20_001, 25_000]); with_transaction(c, r, |t, _| { if let Some(output) = t.output.first_mut() { output.script_pubkey = ScriptBuf::from_bytes(vec![0xac; count]); } }) }),
    ("too long", |c, _, r| { let length = r.pick(&[900_000, 1_000_100]); let script = if r.one_in(2) { &mut c.block.txdata[0].output[0].script_pubkey } else { let last = c.block.txdata.len() - 1; &mut c.block.txdata[last].output[0].script_pubkey }; *script = ScriptBuf::from_bytes(vec![0x6a; length]); }),
    ("too heavy", |c, _, r| { let length = r.pick(&[3_900_000, 3_999_500, 4_000_100]); c.sign = false; with_transaction(c, r, |t, _| { if let Some(input) = t.input.first_mut() { input.witness = Witness::from_slice(&[vec![1; length]]); } }) }),
    ("bytes", |c, _, r| c.raw = Some(r.pick(&[cut as fn(&mut Vec<u8>), extend, flip_late]))),
];

fn clock() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.pop();
}

fn extend(bytes: &mut Vec<u8>) {
    bytes.push(0);
}

fn flip_late(bytes: &mut Vec<u8>) {
    let place = bytes.len() * 3 / 4;
    bytes[place] ^= 4;
}

/// Gives the header its work, and leaves all else.
fn mine(candidate: &mut Candidate) {
    blockmill_chaingen::builder::mine(&mut candidate.block.header);
}

/// Makes merkle root and work true, but not the commitment.
fn keep_commitment(candidate: &mut Candidate) {
    if let Some(root) = candidate.block.compute_merkle_root() {
        candidate.block.header.merkle_root = root;
    }
    mine(candidate);
}

/// The same merkle root with the end repeated (CVE-2012-2459).
fn repeat_end(candidate: &mut Candidate) {
    let count = candidate.block.txdata.len();
    if count > 1 && count % 2 == 1 {
        blockmill_chaingen::builder::repair(&mut candidate.block);
        let last = candidate.block.txdata[count - 1].clone();
        candidate.block.txdata.push(last);
        candidate.repair = false;
        candidate.sign = false;
        candidate.relink = false;
        mine(candidate);
    }
}

fn height_script(height: u32) -> Vec<u8> {
    // Every height of this test takes one or two bytes.
    if height < 128 {
        vec![1, height as u8, 0]
    } else {
        vec![2, height as u8, (height >> 8) as u8]
    }
}

fn coinbase_script(candidate: &mut Candidate, script: &[u8]) {
    if let Some(coinbase) = candidate.block.txdata.first_mut() {
        coinbase.input[0].script_sig = ScriptBuf::from_bytes(script.to_vec());
    }
}

/// Changes a transaction behind the coinbase, if there is one.
fn with_transaction(
    candidate: &mut Candidate,
    random: &mut Random,
    change: impl FnOnce(&mut Transaction, &mut Random),
) {
    let count = candidate.block.txdata.len() as u64;
    if count > 1 {
        let place = 1 + random.below(count - 1) as usize;
        change(&mut candidate.block.txdata[place], random);
    }
}

/// As [`with_transaction`], with the coins that it spends.
fn with_spends(
    candidate: &mut Candidate,
    random: &mut Random,
    change: impl FnOnce(&mut Transaction, &[Spendable], &mut Random),
) {
    let count = candidate.block.txdata.len().min(candidate.spends.len() + 1) as u64;
    if count > 1 {
        let place = 1 + random.below(count - 1) as usize;
        change(&mut candidate.block.txdata[place], &candidate.spends[place - 1], random);
    }
}

fn change_output(candidate: &mut Candidate, random: &mut Random, value: fn(u64, &mut Random) -> u64) {
    with_transaction(candidate, random, |transaction, random| {
        if let Some(output) = transaction.output.first_mut() {
            output.value = Amount::from_sat(value(output.value.to_sat(), random));
        }
    });
}

/// Spends a coinbase with 98 to 101 confirmations.
fn spend_young(candidate: &mut Candidate, world: &World, random: &mut Random) {
    let confirmations = random.pick(&[1, 98, 99, 100, 101]);
    let anyone = world
        .coinbase_coins(confirmations)
        .iter()
        .find(|coin| coin.kind == crate::candidate::Kind::Any);
    if let Some(coin) = anyone {
        candidate.block.txdata.push(spend_any(coin.outpoint, coin.value));
    }
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

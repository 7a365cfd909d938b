//! What is done to blocks: the table, and changes of header, transactions as a list, and coinbase.

use super::candidate::Candidate;
use super::payments;
use super::random::Random;
use super::tree::Tree;
use blockmill_chaingen::bitcoin::block::Version;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{Amount, CompactTarget, ScriptBuf, Transaction, TxMerkleNode, Witness};
use blockmill_chaingen::builder::{mine, repair};
use std::time::{SystemTime, UNIX_EPOCH};

/// A change of a block.
pub(crate) type Change = fn(&mut Candidate, &Tree, &mut Random);

/// Applies a mutation chosen at random, and returns its name.
pub(crate) fn apply(candidate: &mut Candidate, tree: &Tree, random: &mut Random) -> &'static str {
    let tables = [
        HEADER,
        LIST,
        COINBASE,
        payments::AMOUNTS,
        payments::INPUTS,
        payments::SCRIPTS,
        payments::SIGNATURES,
    ];
    choose(&tables, candidate, tree, random)
}

/// Applies a mutation of signatures, and returns its name.
pub(crate) fn apply_to_signatures(candidate: &mut Candidate, tree: &Tree, random: &mut Random) -> &'static str {
    choose(&[payments::SIGNATURES], candidate, tree, random)
}

fn choose(
    tables: &[&[(&'static str, Change)]],
    candidate: &mut Candidate,
    tree: &Tree,
    random: &mut Random,
) -> &'static str {
    let count: usize = tables.iter().map(|table| table.len()).sum();
    let index = random.below(count as u64) as usize;
    let (name, change) = tables.iter().copied().flatten().nth(index).copied().unwrap();
    change(candidate, tree, random);
    name
}

const HEADER: &[(&str, Change)] = &[
    ("version", version),
    ("parent unknown", |candidate, _, random| {
        candidate.block.header.prev_blockhash = Tree::unknown_hash(random);
    }),
    ("merkle root", merkle_root),
    ("median time", |candidate, tree, random| {
        candidate.block.header.time = tree.median_time_past(candidate.parent) + random.below(2) as u32;
    }),
    ("time zero", |candidate, _, _| candidate.block.header.time = 0),
    ("future", |candidate, _, random| {
        candidate.block.header.time = clock() + random.pick(&[7_100, 7_300, 1_000_000]);
    }),
    ("bits", |candidate, _, random| {
        let bits = random.pick(&[0x207f_fffe, 0x2000_ffff, 0, 0x2100_7fff, 0x207f_ffff]);
        candidate.block.header.bits = CompactTarget::from_consensus(bits);
    }),
    ("no work", |candidate, _, _| candidate.repair = false),
];

const LIST: &[(&str, Change)] = &[
    ("empty", |candidate, _, _| candidate.block.txdata.clear()),
    ("no coinbase", |candidate, _, _| {
        if candidate.block.txdata.len() > 1 {
            candidate.block.txdata.remove(0);
        }
    }),
    ("two coinbases", |candidate, _, _| {
        let coinbase = candidate.block.txdata[0].clone();
        candidate.block.txdata.push(coinbase);
    }),
    ("repeated end", repeat_end),
    ("order", |candidate, _, random| {
        let (left, right) = (any_index(candidate, random), any_index(candidate, random));
        candidate.block.txdata.swap(left, right);
    }),
    ("transaction dropped", |candidate, _, random| {
        let index = any_index(candidate, random);
        if index > 0 {
            candidate.block.txdata.remove(index);
        }
    }),
    ("transaction repeated", |candidate, _, random| {
        let copy = candidate.block.txdata[any_index(candidate, random)].clone();
        candidate.block.txdata.push(copy);
    }),
    ("transaction confirmed before", |candidate, tree, random| {
        if !tree.confirmed.is_empty() {
            let index = random.below(tree.confirmed.len() as u64) as usize;
            candidate.block.txdata.push(tree.confirmed[index].clone());
        }
    }),
    ("bytes", |candidate, _, random| {
        candidate.raw = Some(random.pick(&[cut as fn(&mut Vec<u8>), extend, flip_late]));
    }),
];

const COINBASE: &[(&str, Change)] = &[
    ("height", |candidate, _, random| {
        let height = candidate.height + random.below(3) as u32 - 1;
        coinbase_script(candidate, &height_script(height));
    }),
    ("height in more bytes", |candidate, _, _| {
        let mut script = height_script(candidate.height);
        script[0] += 1;
        script.push(0);
        coinbase_script(candidate, &script);
    }),
    ("coinbase script length", |candidate, _, random| {
        let mut script = height_script(candidate.height);
        script.resize(random.pick(&[1, 2, 3, 99, 100, 101, 200]), 0);
        coinbase_script(candidate, &script);
    }),
    ("coinbase amount", coinbase_amount),
    ("coinbase amount", coinbase_amount),
    ("reserved value", |candidate, _, random| {
        let length = random.pick(&[0, 31, 32, 33]);
        candidate.block.txdata[0].input[0].witness = Witness::from_slice(&[vec![1; length]]);
    }),
    ("reserved values", |candidate, _, random| {
        let count = random.below(4) as usize;
        candidate.block.txdata[0].input[0].witness = Witness::from_slice(&vec![[0; 32]; count]);
    }),
    ("commitment", commitment),
    ("no commitment", |candidate, _, random| {
        let coinbase = &mut candidate.block.txdata[0];
        coinbase.output.pop();
        if random.one_in(2) {
            coinbase.input[0].witness.clear();
        }
    }),
    ("another commitment", |candidate, _, _| {
        let outputs = &mut candidate.block.txdata[0].output;
        let copy = outputs.last().cloned();
        outputs.extend(copy);
    }),
];

fn version(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    candidate.block.header.version = Version::from_consensus(random.pick(&[-1, 0, 1, 2, 3, 4, 5]));
}

fn merkle_root(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    candidate.block.header.merkle_root = TxMerkleNode::from_byte_array([random.below(9) as u8; 32]);
    candidate.repair = false;
    mine(&mut candidate.block.header);
}

fn clock() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

pub(crate) fn any_index(candidate: &Candidate, random: &mut Random) -> usize {
    random.below(candidate.block.txdata.len() as u64) as usize
}

/// The same merkle root with the end repeated (CVE-2012-2459).
fn repeat_end(candidate: &mut Candidate, _tree: &Tree, _random: &mut Random) {
    let count = candidate.block.txdata.len();
    if count > 1 && count % 2 == 1 {
        repair(&mut candidate.block);
        let last = candidate.block.txdata[count - 1].clone();
        candidate.block.txdata.push(last);
        candidate.repair = false;
        candidate.sign = false;
        candidate.relink = false;
        mine(&mut candidate.block.header);
    }
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.pop();
}

fn extend(bytes: &mut Vec<u8>) {
    bytes.push(0);
}

fn flip_late(bytes: &mut Vec<u8>) {
    let offset = bytes.len() * 3 / 4;
    bytes.as_mut_slice()[offset] ^= 4;
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
    candidate.block.txdata[0].input[0].script_sig = ScriptBuf::from_bytes(script.to_vec());
}

/// One or two satoshi less, the same, or up to seven more.
fn coinbase_amount(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    let value = &mut candidate.block.txdata[0].output[0].value;
    *value = Amount::from_sat(value.to_sat().wrapping_add(random.below(10)).wrapping_sub(2));
}

/// Another commitment, with all that depends on it true or not.
fn commitment(candidate: &mut Candidate, _tree: &Tree, random: &mut Random) {
    let Some(output) = candidate.block.txdata[0].output.last_mut() else {
        return;
    };
    let mut bytes = output.script_pubkey.to_bytes();
    if let Some(byte) = bytes.get_mut(10) {
        *byte ^= 1;
    }
    output.script_pubkey = ScriptBuf::from_bytes(bytes);
    candidate.repair = random.one_in(3);
    if let (false, Some(root)) = (candidate.repair, candidate.block.compute_merkle_root()) {
        candidate.block.header.merkle_root = root;
        mine(&mut candidate.block.header);
    }
}

/// Changes a transaction after the coinbase, if there is one.
pub(crate) fn with_transaction(
    candidate: &mut Candidate,
    random: &mut Random,
    change: impl FnOnce(&mut Transaction, &mut Random),
) {
    let index = any_index(candidate, random);
    if index > 0 {
        change(&mut candidate.block.txdata[index], random);
    }
}

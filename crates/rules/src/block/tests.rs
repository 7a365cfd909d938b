//! Blocks on both sides of every rule's boundary.

use super::*;
use crate::flags::ScriptFlags;
use crate::params::Heights;
use crate::verifier::{SpentOutput, VerifyError};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{
    self, Amount, OutPoint, ScriptBuf, Sequence, TxIn, TxOut, Txid, Witness, absolute, transaction,
};
use blockmill_chaingen::builder::{BlockBuilder, mine, repair, spend_any};

/// No script runs in these tests.
struct NoScripts;

impl ScriptVerifier for NoScripts {
    type Prepared = ();
    type Deferred<T: Send> = ();

    fn prepare(&self, _transaction: &[u8], _spent: &[SpentOutput<'_>]) -> Result<(), VerifyError> {
        Ok(())
    }

    fn verify(&self, _prepared: &(), _input: usize, _flags: ScriptFlags) -> Result<(), VerifyError> {
        Ok(())
    }
}

const HEIGHT: u32 = 200;
const TIME: u32 = 1_400_000_000;
const MEDIAN: u32 = TIME - 1000;

fn outpoint(number: u8) -> OutPoint {
    OutPoint::new(Txid::from_byte_array([number; 32]), 0)
}

fn builder() -> BlockBuilder {
    let parent = bitcoin::BlockHash::from_byte_array([1; 32]);
    BlockBuilder::new(parent, HEIGHT, TIME).transaction(spend_any(outpoint(7), 1000))
}

fn check_under(params: &Params, bytes: &[u8]) -> Result<(), Reject> {
    let block = Block::decode(bytes).unwrap();
    check_block(&block, params, &NoScripts, BlockOptions { proof_of_work: true })?;
    let context = BlockContext {
        params,
        height: HEIGHT,
        parent_median_time_past: MEDIAN,
    };
    check_block_context(&block, &context)
}

fn regtest() -> Params {
    Params::new(Network::Regtest, None)
}

#[track_caller]
fn check(block: &bitcoin::Block, reason: Option<&str>) {
    let found = check_under(&regtest(), &serialize(block)).err();
    assert_eq!(found.as_ref().map(|reject| &*reject.reason), reason);
}

/// A transaction that spends [`outpoint`] `number` with this script and witness.
fn spending(number: u8, script_sig: Vec<u8>, witness: &[Vec<u8>], script_pubkey: Vec<u8>) -> bitcoin::Transaction {
    bitcoin::Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: outpoint(number),
            script_sig: ScriptBuf::from_bytes(script_sig),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(witness),
        }],
        output: vec![TxOut {
            value: Amount::from_sat(5),
            script_pubkey: ScriptBuf::from_bytes(script_pubkey),
        }],
    }
}

#[test]
fn a_good_block_passes() {
    check(&builder().build(), None);
    let witness = spending(8, vec![], &[vec![1]], vec![0x51]);
    check(&builder().transaction(witness).build(), None);
}

#[test]
fn work_and_merkle_root() {
    let mut block = builder().build();
    block.header.merkle_root = bitcoin::TxMerkleNode::from_byte_array([5; 32]);
    mine(&mut block.header);
    check(&block, Some("bad-txnmrklroot"));
    // Work comes first. Takes the first nonce whose hash is above the target.
    let params = regtest();
    while crate::target::meets_target(&Block::decode(serialize(&block)).unwrap().hash(), 0x207f_ffff, &params) {
        block.header.nonce += 1;
    }
    check(&block, Some("high-hash"));
}

#[test]
fn a_repeated_end_is_mutation() {
    // Three transactions: the tree pairs the third with itself.
    let mut block = builder().transaction(spend_any(outpoint(8), 1000)).build();
    block.txdata.push(block.txdata[2].clone());
    let reject = check_under(&regtest(), &serialize(&block)).unwrap_err();
    assert_eq!(reject, Reject::mutated("bad-txns-duplicate"));
}

#[test]
fn coinbases() {
    let mut none = builder().build();
    none.txdata.remove(0);
    repair(&mut none);
    check(&none, Some("bad-cb-missing"));
    let mut two = builder().build();
    two.txdata.push(two.txdata[0].clone());
    repair(&mut two);
    check(&two, Some("bad-cb-multiple"));
    let mut empty = builder().build();
    empty.txdata.clear();
    repair(&mut empty);
    empty.header.merkle_root = bitcoin::TxMerkleNode::from_byte_array([0; 32]);
    mine(&mut empty.header);
    check(&empty, Some("bad-blk-length"));
}

#[test]
fn size_without_witnesses_at_its_boundary() {
    let with = |length: usize| {
        builder()
            .transaction(spending(8, vec![0x51; length], &[], vec![0x51]))
            .build()
    };
    let bytes = |block: &bitcoin::Block| Block::decode(serialize(block)).unwrap().base_size();
    let largest = MAX_BLOCK_WEIGHT / WITNESS_SCALE_FACTOR;
    let guess = largest - bytes(&with(100_000)) + 100_000;
    assert_eq!(bytes(&with(guess)), largest);
    check(&with(guess), None);
    check(&with(guess + 1), Some("bad-blk-length"));
}

#[test]
fn legacy_sigops_at_their_boundary() {
    let most = (MAX_BLOCK_SIGOPS_COST / 4) as usize;
    let with = |count: usize| {
        builder()
            .transaction(spending(8, vec![], &[], vec![0xac; count]))
            .build()
    };
    check(&with(most), None);
    check(&with(most + 1), Some("bad-blk-sigops"));
}

#[test]
fn a_bad_transaction_is_named() {
    let mut transaction = spend_any(outpoint(8), 1000);
    transaction.output.clear();
    let bytes = serialize(&builder().transaction(transaction).build());
    let reject = check_under(&regtest(), &bytes).unwrap_err();
    assert_eq!(reject, Reject::consensus("bad-txns-vout-empty").in_transaction(2));
}

#[test]
fn finality_is_held_against_the_median_time_from_bip113_on() {
    let with = |lock_time: u32| {
        let mut transaction = spend_any(outpoint(8), 1000);
        transaction.lock_time = absolute::LockTime::from_consensus(lock_time);
        transaction.input[0].sequence = Sequence::ZERO;
        builder().transaction(transaction).build()
    };
    check(&with(HEIGHT - 1), None);
    check(&with(HEIGHT), Some("bad-txns-nonfinal"));
    check(&with(MEDIAN - 1), None);
    check(&with(MEDIAN), Some("bad-txns-nonfinal"));
    let before = Params {
        heights: Heights {
            csv: HEIGHT + 1,
            ..regtest().heights
        },
        ..regtest()
    };
    assert_eq!(check_under(&before, &serialize(&with(TIME - 1))), Ok(()));
    assert!(check_under(&before, &serialize(&with(TIME))).is_err());
}

#[test]
fn the_height_stands_in_the_coinbase() {
    let with = |script: &[u8]| {
        let script = script.to_vec();
        builder()
            .coinbase(move |coinbase| coinbase.input[0].script_sig = ScriptBuf::from_bytes(script))
            .build()
    };
    check(&with(&[2, 200, 0]), None);
    check(&with(&[2, 200, 0, 9]), None);
    check(&with(&[2, 201, 0]), Some("bad-cb-height"));
    check(&with(&[1, 200]), Some("bad-cb-height"));
    check(&with(&[3, 200, 0, 0]), Some("bad-cb-height"));
    let before = Params {
        heights: Heights {
            height_in_coinbase: HEIGHT + 1,
            ..regtest().heights
        },
        ..regtest()
    };
    assert_eq!(check_under(&before, &serialize(&with(&[2, 201, 0]))), Ok(()));
}

#[test]
fn witnesses_and_their_commitment() {
    let block = || {
        builder()
            .transaction(spending(8, vec![], &[vec![1]], vec![0x51]))
            .build()
    };
    let mutated = |block: &bitcoin::Block, reason: &'static str| {
        let reject = check_under(&regtest(), &serialize(block)).unwrap_err();
        assert_eq!(
            (reject.reason.as_ref(), reject.kind),
            (reason, crate::RejectKind::Mutated)
        );
    };
    let mut changed = block();
    changed.txdata[2].input[0].witness = Witness::from_slice(&[vec![2]]);
    mutated(&changed, "bad-witness-merkle-match");
    for reserved in [
        vec![],
        vec![vec![0; 31]],
        vec![vec![0; 33]],
        vec![vec![0; 32], vec![0; 32]],
    ] {
        let mut changed = block();
        changed.txdata[0].input[0].witness = Witness::from_slice(&reserved);
        mutated(&changed, "bad-witness-nonce-size");
    }
    // Without a commitment no transaction may have a witness.
    let mut without = block();
    without.txdata[0].output.truncate(1);
    without.header.merkle_root = without.compute_merkle_root().unwrap();
    mine(&mut without.header);
    mutated(&without, "unexpected-witness");
    // Before segwit neither, with any commitment.
    let before = Params {
        heights: Heights {
            segwit: HEIGHT + 1,
            ..regtest().heights
        },
        ..regtest()
    };
    let reject = check_under(&before, &serialize(&block())).unwrap_err();
    assert_eq!(reject.reason, "unexpected-witness");
}

#[test]
fn the_last_commitment_counts() {
    let mut block = builder()
        .transaction(spending(8, vec![], &[vec![1]], vec![0x51]))
        .build();
    let wrong = TxOut {
        value: Amount::ZERO,
        script_pubkey: ScriptBuf::from_bytes([&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[3; 32]].concat()),
    };
    let index = block.txdata[0].output.len() - 1;
    block.txdata[0].output.insert(index, wrong.clone());
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    mine(&mut block.header);
    check(&block, None);
    block.txdata[0].output.push(wrong);
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    mine(&mut block.header);
    check(&block, Some("bad-witness-merkle-match"));
}

#[test]
fn weight_at_its_boundary() {
    let with = |length: usize| {
        builder()
            .transaction(spending(8, vec![], &[vec![1; length]], vec![0x51]))
            .build()
    };
    let weight = |block: &bitcoin::Block| Block::decode(serialize(block)).unwrap().weight();
    let guess = MAX_BLOCK_WEIGHT - weight(&with(3_000_000)) + 3_000_000;
    assert_eq!(weight(&with(guess)), MAX_BLOCK_WEIGHT);
    check(&with(guess), None);
    check(&with(guess + 1), Some("bad-blk-weight"));
}

#[test]
fn no_rule_of_a_block_by_itself_begins_at_a_height() {
    for rule in BLOCK_RULES {
        assert!(
            matches!(rule.activation, Activation::Always | Activation::Signet),
            "{}",
            rule.name
        );
    }
}

/// A block without work for signet and without a signature passes when its header is not checked.
#[test]
fn work_and_signature_can_be_left_out() {
    let signet = Params::new(Network::Signet, None);
    let bytes = serialize(&builder().build());
    let block = Block::decode(&bytes[..]).unwrap();
    let check = |proof_of_work| check_block(&block, &signet, &NoScripts, BlockOptions { proof_of_work });
    assert_eq!(check(true).unwrap_err().reason, "high-hash");
    assert_eq!(check(false).unwrap().legacy_sigops, [0, 0]);
}

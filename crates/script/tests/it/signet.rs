//! The signature of signet blocks, with solutions made here from the text of BIP 325 and run by the
//! kernel's interface and by this crate.

use blockmill_block::{Block, Network};
use blockmill_chaingen::bitcoin::consensus::{Encodable, serialize};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::key::Secp256k1;
use blockmill_chaingen::bitcoin::secp256k1::{Message, SecretKey};
use blockmill_chaingen::bitcoin::sighash::{EcdsaSighashType, SighashCache};
use blockmill_chaingen::bitcoin::{
    self, Amount, BlockHash, CompressedPublicKey, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness,
    absolute, script::PushBytesBuf, transaction,
};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{Params, signet};
use blockmill_script::{CoreVerifier, Signatures};

const MARK: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];

/// A block with a witness commitment, since one of its transactions has a witness.
fn block() -> bitcoin::Block {
    let mut spending = blockmill_chaingen::builder::spend_any(OutPoint::null(), 5);
    spending.input[0].previous_output.vout = 1;
    spending.input[0].witness = Witness::from_slice(&[[1]]);
    BlockBuilder::new(BlockHash::from_byte_array([4; 32]), 10, 1_600_000_000)
        .transaction(spending)
        .build()
}

/// The commitment's script with one more push after it.
fn with_push(block: &bitcoin::Block, data: &[u8]) -> bitcoin::Block {
    let mut block = block.clone();
    let output = block.txdata[0].output.last_mut().unwrap();
    let mut script = output.script_pubkey.clone();
    script.push_slice(PushBytesBuf::try_from(data.to_vec()).unwrap());
    output.script_pubkey = script;
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    block
}

fn input(previous_output: OutPoint, script_sig: ScriptBuf) -> TxIn {
    TxIn {
        previous_output,
        script_sig,
        sequence: Sequence::ZERO,
        witness: Witness::new(),
    }
}

fn made_up(input: TxIn, script_pubkey: ScriptBuf) -> Transaction {
    Transaction {
        version: transaction::Version(0),
        lock_time: absolute::LockTime::ZERO,
        input: vec![input],
        output: vec![TxOut {
            value: Amount::ZERO,
            script_pubkey,
        }],
    }
}

/// The made-up transaction that a solution signs, for a block whose last output ends with the mark
/// alone.
fn to_sign(marked: &bitcoin::Block, challenge: &ScriptBuf) -> Transaction {
    let mut data = Vec::new();
    marked.header.version.consensus_encode(&mut data).unwrap();
    marked.header.prev_blockhash.consensus_encode(&mut data).unwrap();
    marked.header.merkle_root.consensus_encode(&mut data).unwrap();
    marked.header.time.consensus_encode(&mut data).unwrap();
    let mut script_sig = ScriptBuf::from_bytes(vec![0]);
    script_sig.push_slice(PushBytesBuf::try_from(data).unwrap());
    let to_spend = made_up(input(OutPoint::null(), script_sig), challenge.clone());
    let outpoint = OutPoint::new(to_spend.compute_txid(), 0);
    made_up(input(outpoint, ScriptBuf::new()), ScriptBuf::from_bytes(vec![0x6a]))
}

/// A P2WPKH challenge, and the block signed for it.
fn signed(block: &bitcoin::Block) -> (ScriptBuf, bitcoin::Block) {
    let secp = Secp256k1::new();
    let key = SecretKey::from_slice(&[9; 32]).unwrap();
    let public = CompressedPublicKey(key.public_key(&secp));
    let challenge = ScriptBuf::new_p2wpkh(&public.wpubkey_hash());
    let transaction = to_sign(&with_push(block, &MARK), &challenge);
    let hash = SighashCache::new(&transaction)
        .p2wpkh_signature_hash(0, &challenge, Amount::ZERO, EcdsaSighashType::All)
        .unwrap();
    let signature = secp.sign_ecdsa(&Message::from_digest(hash.to_byte_array()), &key);
    let witness = Witness::p2wpkh(&bitcoin::ecdsa::Signature::sighash_all(signature), &public.0);
    let solution = [&MARK[..], &[0], &serialize(&witness)].concat();
    (challenge, with_push(block, &solution))
}

fn accepts(challenge: &[u8], block: &bitcoin::Block) -> bool {
    let params = Params::new(Network::Signet, Some(challenge.to_vec()));
    let block = Block::decode(serialize(block)).unwrap();
    let verdict = signet::check_solution(&block, &params, &KernelVerifier);
    for signatures in [Signatures::OneByOne, Signatures::Lanes] {
        let by_core = signet::check_solution(&block, &params, &CoreVerifier::new(signatures));
        assert_eq!(by_core.is_ok(), verdict.is_ok(), "{by_core:?} {verdict:?}");
    }
    match verdict {
        Ok(()) => true,
        Err(reject) => {
            assert_eq!(reject.reason, "bad-signet-blksig");
            false
        }
    }
}

#[test]
fn a_signed_block_is_accepted_and_any_change_is_not() {
    let (challenge, signed) = signed(&block());
    assert!(accepts(challenge.as_bytes(), &signed));
    assert!(!accepts(challenge.as_bytes(), &block()));
    let mut later = signed.clone();
    later.header.time += 1;
    assert!(!accepts(challenge.as_bytes(), &later));
    let mut other = signed.clone();
    other.txdata[1].output[0].value = Amount::from_sat(6);
    assert!(!accepts(challenge.as_bytes(), &other));
    // Bits and nonce are not signed: mining comes afterwards.
    let mut mined = signed.clone();
    mined.header.nonce ^= 77;
    assert!(accepts(challenge.as_bytes(), &mined));
}

#[test]
fn solutions_with_something_left_over_or_missing() {
    let anyone = [0x51];
    let block = block();
    // A challenge that needs no solution, with none, with an empty one, and with broken ones.
    assert!(accepts(&anyone, &block));
    assert!(accepts(&anyone, &with_push(&block, &[&MARK[..], &[0, 0]].concat())));
    assert!(!accepts(&anyone, &with_push(&block, &[&MARK[..], &[0, 0, 0]].concat())));
    assert!(!accepts(&anyone, &with_push(&block, &[&MARK[..], &[0]].concat())));
    // The mark alone is no solution, so the challenge stands by itself.
    assert!(accepts(&anyone, &with_push(&block, &MARK)));
    assert!(!accepts(&[0x00], &block));
}

#[test]
fn a_commitment_is_needed() {
    let mut without = block();
    without.txdata[0].output.truncate(1);
    assert!(!accepts(&[0x51], &without));
}

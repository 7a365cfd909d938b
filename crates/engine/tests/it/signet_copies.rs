//! On signet the block's signature is judged before its merkle root: a damaged copy of a block must
//! not condemn the good one.

use blockmill_block::hash::sha256d;
use blockmill_block::{Network, hex};
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{Block, BlockHash, CompactTarget, OutPoint};
use blockmill_chaingen::builder::{BlockBuilder, repair, spend_any};
use blockmill_engine::{ChainId, Engine, RunOutcome};
use blockmill_kernel::KernelVerifier;

/// The challenge of a network whose blocks need no signature. They need a witness commitment.
const CHALLENGE: [u8; 1] = [0x51];

/// Bits of signet's first period.
const BITS: u32 = 0x1e03_77ae;

/// A block at height 1 with a witness commitment, mined at signet's limit (a few million tries).
fn mined(chain_id: &ChainId) -> Block {
    let genesis = chain_id.params().genesis;
    let parent = BlockHash::from_byte_array(genesis.hash().0);
    let mut spending = spend_any(OutPoint::null(), 1);
    spending.input[0].witness.push([1]);
    let mut block = BlockBuilder::new(parent, 1, genesis.time + 600)
        .transaction(spending)
        .build();
    block.txdata.truncate(1);
    repair(&mut block);
    block.header.bits = CompactTarget::from_consensus(BITS);
    let mut header = serialize(&block.header);
    // The target is 0x0377ae and then 27 bytes of zero.
    let high = |hash: &[u8; 32]| u32::from_le_bytes([hash[27], hash[28], hash[29], 0]);
    let meets = |hash: &[u8; 32]| hash[30..] == [0, 0] && high(hash) < 0x03_77ae;
    let nonce = (0u32..).find(|nonce| {
        header[76..].copy_from_slice(&nonce.to_le_bytes());
        meets(&sha256d(&header))
    });
    block.header.nonce = nonce.unwrap();
    block
}

fn record(chain_id: &ChainId, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u32).to_le_bytes();
    [&chain_id.params().magic().0[..], &length, block].concat()
}

#[test]
fn a_damaged_copy_does_not_condemn_the_good_one() {
    let chain_id = ChainId {
        network: Network::Signet,
        signet_challenge: Some(CHALLENGE.to_vec()),
    };
    let block = serialize(&mined(&chain_id));
    // A bit of the commitment's mark: then there is no commitment, and so no signature.
    let offset = block.windows(4).position(|mark| mark == [0xaa, 0x21, 0xa9, 0xed]);
    let mut damaged = block.clone();
    damaged[offset.unwrap()] ^= 1;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("blk00000.dat"), record(&chain_id, &damaged)).unwrap();
    let connect = |data: &str| {
        let data = path(data);
        let mut engine = Engine::builder(&data)
            .chain_id(chain_id.clone())
            .open(KernelVerifier)
            .unwrap();
        engine.connect(&[directory.path().to_owned()], &mut ()).unwrap()
    };
    let alone = connect("data-1");
    assert_eq!((alone.height, alone.outcome()), (0, RunOutcome::Rejected));
    assert_eq!(alone.rejected[0].reject.reason, "bad-signet-blksig");
    std::fs::write(path("blk00001.dat"), record(&chain_id, &block)).unwrap();
    let both = connect("data-2");
    assert_eq!(
        (both.height, both.outcome()),
        (1, RunOutcome::Complete),
        "{}",
        hex::encode(&block)
    );
}

//! Small chains whose coins anyone can spend, in files of Core's form.

use crate::conditions::Conditions;
use crate::report::Report;
use crate::{AuditError, Auditor, Sources};
use blockmill_block::Network;
use blockmill_chain::Signatures;
use blockmill_chaingen::bitcoin::constants::genesis_block;
use blockmill_chaingen::bitcoin::{Block, OutPoint, Transaction, hashes::Hash};
use blockmill_chaingen::builder::{BlockBuilder, spend_any, subsidy};
use blockmill_chaingen::core_files::{CoreChain, CoreCoin, CoreLayout};
use blockmill_rules::Params;
use blockmill_script::CoreVerifier;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The first height at which the first coinbase may be spent.
pub(super) const MATURE: u32 = 101;

pub(super) fn params() -> Params {
    Params::new(Network::Regtest, None)
}

/// A block on the tip of a chain.
pub(super) fn next(chain: &CoreChain, transactions: Vec<Transaction>) -> Block {
    let tip = chain.tip();
    let height = chain.blocks.len() as u32;
    let mut builder = BlockBuilder::new(tip.block_hash(), height, tip.header.time + 600);
    for transaction in transactions {
        builder = builder.transaction(transaction);
    }
    builder.build()
}

/// The output of the coinbase at a height.
pub(super) fn coinbase(chain: &CoreChain, height: u32) -> OutPoint {
    let transaction = &chain.blocks[height as usize].block.txdata[0];
    OutPoint::new(transaction.compute_txid(), 0)
}

/// Spends the coinbase of a height. It leaves a fee of as many satoshi as the height has.
pub(super) fn spend_coinbase(chain: &CoreChain, height: u32) -> Transaction {
    spend_any(coinbase(chain, height), subsidy(height) - u64::from(height))
}

/// A chain of so many blocks above the first one. From the hundred and first on, each spends the
/// coinbase of a hundred blocks before, and the output that the block before has made of such a
/// one.
pub(super) fn chain(blocks: u32) -> CoreChain {
    let genesis = genesis_block(blockmill_chaingen::bitcoin::Network::Regtest);
    let mut chain = CoreChain::new(Network::Regtest.magic().0, [genesis]);
    for height in 1..=blocks {
        let mut transactions = Vec::new();
        if height >= MATURE {
            transactions.push(spend_coinbase(&chain, height - MATURE + 1));
        }
        if height > MATURE {
            let before = &chain.tip().txdata[1];
            let outpoint = OutPoint::new(before.compute_txid(), 0);
            transactions.push(spend_any(outpoint, before.output[0].value.to_sat() - 10));
        }
        let block = next(&chain, transactions);
        chain.push(block);
    }
    chain
}

pub(super) fn key_of(outpoint: &OutPoint) -> ([u8; 32], u32) {
    (outpoint.txid.to_byte_array(), outpoint.vout)
}

/// A coin that anyone can spend.
pub(super) fn any_coin(height: u32, value: u64) -> CoreCoin {
    CoreCoin {
        height,
        coinbase: false,
        value,
        script: blockmill_chaingen::builder::any_script(),
    }
}

/// Writes a chain with its set to a folder.
pub(super) fn write(chain: &CoreChain, folder: &Path, layout: &CoreLayout) {
    chain.write(&folder.join("blocks"), layout).unwrap();
    chain.write_snapshot(&folder.join("set")).unwrap();
}

pub(super) fn audit_files(folder: &Path, params: &Params, conditions: Conditions) -> Result<Report, AuditError> {
    let (verifier, stop) = (
        Arc::new(CoreVerifier::new(blockmill_script::Signatures::Lanes)),
        AtomicBool::new(false),
    );
    let auditor = Auditor::new(&verifier, 2, Signatures::Lanes, &stop).with_conditions(conditions);
    let blocks = [folder.join("blocks")];
    let sources = Sources {
        blocks: &blocks,
        headers: &[],
        params,
    };
    auditor.files(&sources, &folder.join("set"), None, &mut ())
}

/// Audits a chain and its set.
pub(super) fn audit_with(chain: &CoreChain, params: &Params, conditions: Conditions) -> Report {
    let folder = tempfile::tempdir().unwrap();
    write(chain, folder.path(), &CoreLayout::default());
    audit_files(folder.path(), params, conditions).unwrap()
}

pub(super) fn audit(chain: &CoreChain, conditions: Conditions) -> Report {
    audit_with(chain, &params(), conditions)
}
